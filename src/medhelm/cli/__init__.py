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
from medhelm.cli.common.options import Shared, shared_options
from medhelm.cli.common.printing import warn
from medhelm.errors import MedHelmError, MissingError
from medhelm.io.lazy_mapping import LazyMapping

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

GROUPS: dict[str, dict[str, str]] = {
    "Evaluate": {
        "demo": "run:demo",
        "run": "run:run",
        "plan": "plan:plan",
        "gateway": "gateway:gateway",
        "merge": "merge:merge",
        "batches": "batches:batches",
        "rescore": "rescore:rescore",
        "rejudge": "rescore:rejudge",
        "filter-references": "reference_filter:filter_references",
    },
    "Results": {
        "leaderboard": "leaderboard:leaderboard",
        "serve": "serve:serve",
        "compare": "compare:compare",
        "show": "runs:show",
        "runs": "runs:runs",
        "purge": "runs:purge_store",
        "cost": "cost:cost",
        "budget": "cost:budget",
        "power": "plan:power",
        "report": "report:report",
    },
    "Judges": {"jury": "jury:jury", "agreement": "agreement:agreement"},
    "Benchmarks, data and models": {
        "benchmarks": "benchmarks:benchmarks",
        "data": "data:data",
        "models": "models:models",
        "taxonomy": "benchmarks:taxonomy",
        "plugins": "plugins:plugins",
        "docs": "serve:docs",
    },
    "Exchange with other tools": {"import": "import_:import_", "export": "export:export"},
    "Trust": {
        "gate": "gate:gate",
        "release": "release:release",
        "diff": "release:diff",
        "verify": "release:verify",
        "audit": "audit:audit",
        "encrypt": "encrypt:encrypt",
        "decrypt": "encrypt:decrypt",
    },
}
"""Heading in the help -> its commands, in the order of a first use -> module of this package, and function."""


class GroupedCommands(click.Group):
    """A group whose help lists the commands under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading, all with the same column widths."""
        del ctx
        width = max(map(len, self.commands))
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                summaries = [(f"{name:<{width}}", self.commands[name].get_short_help_str()) for name in names]
                formatter.write_dl(summaries)


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


# A command's module is imported when it is called, or when the help lists all of them. Click only reads the mapping.
cli.commands = LazyMapping(  # type: ignore[assignment]
    {name: f"{__name__}.{target}" for commands in GROUPS.values() for name, target in commands.items()}
)


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
