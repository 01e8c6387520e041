"""The command line: parse, call, print. Its output and exit codes are a contract that scripts rely on.

Commands import other packages inside their functions, so that `medhelm --help` starts fast.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from medhelm import __version__
from medhelm.cli.extensions import ExtensibleGroup, accept_command
from medhelm.cli.global_options import Shared, shared_options
from medhelm.cli.printing import warn
from medhelm.errors import Interrupted, MedHelmError, MissingError
from medhelm.io.plugins import COMMANDS, LazyMapping, WithPlugins

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Evaluate": {
        "demo": ("run:demo", "Run the baselines on invented sample rows."),
        "run": ("run:run", "Evaluate models on benchmarks."),
        "plan": ("run:plan", "Show what a run would send and cost."),
        "variants": ("variants", "List other ways to ask a question."),
        "rescore": ("run:rescore", "Recompute scores of stored completions."),
        "rejudge": ("run:rejudge", "Grade stored completions with other judges."),
        "filter-references": ("paper", "Mark references with facts the prompt lacks."),
        "batches": ("run:batches", "List batches that are not collected yet."),
        "gateway": ("cluster", "Call models for other processes and machines."),
        "merge": ("cluster", "Merge shards into complete runs."),
    },
    "Benchmarks, data and models": {
        "benchmarks": ("catalog:benchmarks", "List, preview and check benchmarks."),
        "data": ("catalog:data", "Locate, download and verify data."),
        "models": ("catalog:models", "List models and check that they respond."),
        "taxonomy": ("catalog:taxonomy", "Show medical tasks and their benchmarks."),
        "plugins": ("catalog:plugins", "List and check installed plug-ins."),
        "docs": ("catalog:docs", "List or print the documentation."),
    },
    "Results": {
        "leaderboard": ("results:leaderboard", "Rank models by macro average."),
        "serve": ("web", "Show the results in a browser."),
        "compare": ("results:compare", "Test whether models differ significantly."),
        "robustness": ("variants", "Compare variants with their plain runs."),
        "confusion": ("results:confusion", "Show sensitivity and specificity by class."),
        "confidence": ("variants", "Show how far confidences can be trusted."),
        "cases": ("web", "List cases by what happened."),
        "show": ("runs:show", "Show one instance and its completions."),
        "cost": ("results:cost", "Show what was spent, by model or benchmark."),
        "power": ("run:power", "Show which differences can be detected."),
        "report": ("paper", "Write the paper's tables and figures."),
    },
    "Judges": {
        "jury": ("judges:jury", "Measure the quality of the judges."),
        "pairwise": ("pairwise", "Have judges compare completions in pairs."),
        "agreement": ("judges:agreement", "Compare the jury with clinicians' ratings."),
        "study": ("study", "Let clinicians rate completions, blinded."),
    },
    "Releases": {
        "release": ("releases:release", "Freeze the leaderboard under a name."),
        "diff": ("releases:diff", "Compare two releases or stores."),
        "verify": ("releases:verify", "Recompute the leaderboard and compare."),
        "gate": ("releases:gate", "Fail a build if a model got worse."),
    },
    "The store": {
        "runs": ("runs:runs", "List, show and remove runs."),
        "budget": ("results:budget", "Limit what is spent in a store."),
        "audit": ("runs:audit", "Show and verify what was sent."),
        "purge": ("runs:purge_store", "Delete text from a store for good."),
        "encrypt": ("vault", "Encrypt a store, or create an encrypted one."),
        "decrypt": ("vault", "Convert an encrypted store to plain files."),
    },
    "Exchange with other tools": {
        "import": ("exchange", "Import runs of HELM, Inspect or lm-eval."),
        "export": ("releases:export", "Export tables, HELM files, a card or a site."),
    },
}
"""Heading in the help -> command -> where it comes from, and its summary.

It comes from a function, as `module:function` in this package, or from the extension of this name.
"""

_PLACES = {name: place for commands in GROUPS.values() for name, (place, _) in commands.items()}


class GroupedCommands(ExtensibleGroup):
    """All commands: built-in ones, whose help is listed under headings, and those of installed packages."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per heading, all with the same column widths, without commands of missing extensions."""
        del ctx
        width = max(map(len, self.commands))
        for heading, names in GROUPS.items():
            rows = [(f"{name:<{width}}", summary) for name, (_, summary) in names.items() if name in self.commands]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command. Only names that are not built in search the installed packages."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            command = PLUGIN_COMMANDS.if_usable(cmd_name) if ctx.resilient_parsing else PLUGIN_COMMANDS.get(cmd_name)
        return command


@click.group(
    cls=GroupedCommands,
    # A command's module is imported when it is called, so that the help imports none.
    commands=LazyMapping({name: f"{__name__}.{place}" for name, place in _PLACES.items() if ":" in place}),
    extensions={name: place for name, place in _PLACES.items() if ":" not in place},
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
@click.version_option(__version__, prog_name="medhelm")
def cli() -> None:
    """Evaluate language models on real medical work.

    \b
    First steps:
      medhelm demo
      medhelm benchmarks list
      medhelm data fetch pubmed_qa --data DIR
      medhelm run pubmed_qa --data DIR --model openai/gpt-4o
      medhelm leaderboard

    The options below can be given before or after a command.
    """


PLUGIN_COMMANDS = WithPlugins(COMMANDS, cli.commands, accept_command, reserved=_PLACES)
"""The commands of installed packages, besides the built-in ones."""


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if memory could not be allocated, be it for data or for the code of a library."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_out_of_memory, error.exceptions))
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or "annot allocate memory" in str(error)
    return isinstance(error, MemoryError)


def _system_error(error: Exception) -> MedHelmError | None:
    """Return what to say about an error that the operating system caused; None for any other error."""
    from medhelm.io.files import system_error

    if _is_out_of_memory(error):
        text = "there is not enough memory, or a limit on it is too low (`ulimit -v`). What was received is kept."
        return MissingError(text)
    if isinstance(error, RuntimeError) and str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
        return Interrupted("interrupted")
    return system_error(error)


def _print_damaged_run_warnings() -> None:
    """Print warnings about damaged runs as messages, each one once."""
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


def _in_plain_words(error: click.ClickException) -> str:
    """Return the message of the command-line parser, with its rules for numbers and dates in plain words."""
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.option_name[1:2].isdigit():
        return f"{text} A number must not be negative."
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if isinstance(kind, click.DateTime) and " does not match the format" in text:
        value = text.partition(" does not match the format")[0]
        time = " or 2026-11-01T14:30" if len(kind.formats) > 1 else ""
        return f"{value} is not a date. Write it such as 2026-11-01{time}."
    if isinstance(kind, click.IntRange | click.FloatRange):
        for words in (" is not in the range ", f" is not a valid {kind.name}"):
            if words in text:
                return f"{text.partition(words)[0]} is not {_range_in_words(kind)}."
    return text


def _range_in_words(kind: click.IntRange | click.FloatRange) -> str:
    """Return the numbers of a range, such as "a whole number of at least 1"."""
    noun = "a whole number" if isinstance(kind, click.IntRange) else "a number"
    if None not in (kind.min, kind.max) and not (kind.min_open or kind.max_open):
        return f"{noun} from {kind.min} to {kind.max}"
    low = None if kind.min is None else f"{'above' if kind.min_open else 'of at least'} {kind.min}"
    high = None if kind.max is None else f"{'below' if kind.max_open else 'at most'} {kind.max}"
    return " ".join([noun, " and ".join(filter(None, [low, high]))]).strip()


def main() -> None:
    """Run the command line and end with its exit code."""
    output = sys.stdout
    _print_damaged_run_warnings()
    try:
        code = cli.main(standalone_mode=False, obj=Shared())
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 0
    except click.ClickException as error:
        click.echo(f"medhelm: {_in_plain_words(error)}", err=True)
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
    except Exception as error:
        known = _system_error(error)
        if known is None:
            raise
        warn(str(known))
        if isinstance(error, OSError) and error.filename is None:  # the output may fail once more when it is closed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = known.exit_code
    sys.exit(code if isinstance(code, int) else 0)
