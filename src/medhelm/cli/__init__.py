"""The command line: parse, call, print. Its output and exit codes are a contract that scripts rely on.

Commands import other packages inside their functions, so that `medhelm --help` starts fast.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import click

from medhelm import __version__
from medhelm.cli.agreement import agreement
from medhelm.cli.audit import audit
from medhelm.cli.batches import batches
from medhelm.cli.benchmarks import benchmarks, taxonomy
from medhelm.cli.common.options import Shared, shared_options
from medhelm.cli.common.printing import warn
from medhelm.cli.compare import compare
from medhelm.cli.cost import budget, cost
from medhelm.cli.data import data
from medhelm.cli.encrypt import decrypt, encrypt
from medhelm.cli.export import export
from medhelm.cli.gate import gate
from medhelm.cli.gateway import gateway
from medhelm.cli.import_ import import_
from medhelm.cli.jury import jury
from medhelm.cli.leaderboard import leaderboard
from medhelm.cli.merge import merge
from medhelm.cli.models import models
from medhelm.cli.plan import plan, power
from medhelm.cli.plugins import plugins
from medhelm.cli.reference_filter import filter_references
from medhelm.cli.release import diff, release, verify
from medhelm.cli.report import report
from medhelm.cli.rescore import rejudge, rescore
from medhelm.cli.run import demo, run
from medhelm.cli.runs import purge_store, runs, show
from medhelm.cli.serve import docs, serve
from medhelm.errors import MedHelmError, MissingError

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

GROUPS: dict[str, tuple[click.Command, ...]] = {
    "Evaluate": (demo, run, plan, gateway, merge, batches, rescore, rejudge, filter_references),
    "Results": (leaderboard, serve, compare, show, runs, purge_store, cost, budget, power, report),
    "Judges": (jury, agreement),
    "Benchmarks, data and models": (benchmarks, data, models, taxonomy, plugins, docs),
    "Exchange with other tools": (import_, export),
    "Trust": (gate, release, diff, verify, audit, encrypt, decrypt),
}
"""Heading in the help -> its commands, in the order of a first use."""


class GroupedCommands(click.Group):
    """A group whose help lists the commands under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading, all with the same column widths."""
        del ctx
        width = max(len(command.name or "") for commands in GROUPS.values() for command in commands)
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{command.name:<{width}}", command.get_short_help_str()) for command in commands])


@click.group(cls=GroupedCommands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
@click.version_option(__version__, prog_name="medhelm")
def cli() -> None:
    """Evaluate language models on real medical work.

    \b
    First steps:
      medhelm demo
      medhelm benchmarks list
      medhelm run pubmed_qa --data DIR --model openai/gpt-4o
      medhelm leaderboard

    The options below may be given before or after a command.
    """


for command in (command for commands in GROUPS.values() for command in commands):
    cli.add_command(command)


def _is_lack_of_memory(error: BaseException | None) -> bool:
    """Return True if memory could not be allocated, not even for the code of a library."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_lack_of_memory, error.exceptions))
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or "annot allocate memory" in str(error)
    return isinstance(error, MemoryError)


def _show_damaged_runs() -> None:
    """Print warnings of damaged runs as messages, each once."""
    import warnings

    usual = warnings.showwarning
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category.__name__ != "DamagedRunWarning":
            usual(message, category, *place, **more)
        elif str(message) not in shown:
            shown.add(str(message))
            warn(str(message))

    warnings.showwarning = show
    warnings.filterwarnings("always", r"the run of .* is left out", UserWarning)  # even with -W error


def main() -> None:
    """Run the command line and end with its exit code."""
    output = sys.stdout
    _show_damaged_runs()
    try:
        code = cli.main(standalone_mode=False, obj=Shared())
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 0
    except click.ClickException as error:
        click.echo(f"medhelm: {error.format_message()}", err=True)
        if isinstance(error, click.UsageError) and error.ctx:
            click.echo(f"{error.ctx.get_usage()}\nHelp: {error.ctx.command_path} --help", err=True)
        code = error.exit_code
    except click.Abort:
        code = INTERRUPTED
    except MedHelmError as error:
        warn(str(error))
        code = error.exit_code
    except SystemExit as ended:
        # If the reader of the output closed the pipe, click replaces the output and ends with 1.
        code = ended.code if sys.stdout is output else 0
    except BrokenPipeError:
        # The reader of the output closed the pipe, as `| head` does. Keep Python from reporting it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        warn(f"the output, or a file, could not be written: {error.strerror}.")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = MissingError.exit_code
    except Exception as error:
        if not _is_lack_of_memory(error):
            raise
        warn("there is not enough memory, or a limit on it is too low (`ulimit -v`). What was received is kept.")
        code = MissingError.exit_code
    sys.exit(code if isinstance(code, int) else 0)
