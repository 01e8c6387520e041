"""`medhelm variants` and `medhelm robustness`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, load, shared_options
from medhelm.cli.options import format_option, options_of
from medhelm.cli.output import table_options
from medhelm.cli.printing import as_shown, print_json, print_remarks
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.types import MARGIN
from medhelm.results.options import BoardOptions, RunFilter

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.results.formats.fields import Field

Row = TypeVar("Row")
"""An item of a table."""


# --- medhelm variants -------------------------------------------------------------------------------------------------


@click.group(invoke_without_command=True)
@shared_options("json")
@click.pass_context
def variants(context: click.Context) -> int:
    """List other ways to ask a question.

    A variant changes how instances are asked: another prompt (`medhelm run --prompt NAME`), or a perturbation of each
    instance (`medhelm run --perturb NAME`). Its runs never enter the main scores. Without a subcommand, all are listed.

    \b
    Examples:
      medhelm variants
      medhelm variants show pubmed_qa 21645374 --perturb options_reversed
    """
    return context.invoke(list_) if context.invoked_subcommand is None else 0


@variants.command("list")
@format_option
@table_options
@shared_options("json")
def list_(format_: str) -> int:
    """List prompts and perturbations.

    Each perturbation declares the correct reaction: the same answer, a new answer, or none.

    \b
    Example:
      medhelm variants list --format md
    """
    from medhelm.extensions.variants.listing import VARIANT_FIELDS, listed_variants

    return _print_rows(VARIANT_FIELDS, listed_variants(), format_, keep=2)


def _print_rows(fields: Sequence[Field[Row]], rows: Sequence[Row], format_: str, *, keep: int = 1) -> int:
    """Print one row for each item, or a list as JSON. `keep`: columns that every part of a wide table repeats."""
    from medhelm.results.formats.fields import fields_json, fields_table

    if format_ == "json":
        print_json([fields_json(fields, row) for row in rows])
    else:
        click.echo(fields_table(fields, rows, format=format_, keep=keep), nl=False)
    return 0


@variants.command()
@click.argument("benchmark", shell_complete=shell_completion.benchmarks)
@click.argument("instance")
@options_of(Settings, "settings", "perturb", "prompt", "tier", "sample", "seed")
@shared_options("data", "benchmarks", "trust", "json")
@click.pass_obj
def show(shared: Shared, /, benchmark: str, instance: str, settings: Settings) -> int:
    """Show how a variant changes a prompt.

    Prints the differences from the prompt as it is, line by line, and the changed references. Nothing is sent.

    \b
    Examples:
      medhelm variants show pubmed_qa 21645374 --perturb typos --data DIR
      medhelm variants show pubmed_qa s1 --perturb options_reversed --tier sample
    """
    from medhelm.extensions.variants.listing import differences

    found = differences(_datasets(shared, benchmark, settings), instance)
    if shared.json:
        print_json(found)
        return 0
    for name, lines in found.items():
        click.echo(f"{name}\n")
        click.echo("".join(f"{as_shown(line)}\n" for line in lines))
    return 0


def _datasets(shared: Shared, name: str, settings: Settings) -> list[Dataset]:
    """Open a benchmark as it is, then in the ways that the settings name."""
    from medhelm.evaluation.session import open_selected, open_variants

    (benchmark,) = load(shared, [name])
    plain = open_selected(benchmark, shared.data, replace(settings, prompt="", perturb=()))
    return [plain, *(one for one in open_variants(benchmark, shared.data, settings) if one.digest != plain.digest)]


@variants.command()
@click.argument("benchmark", shell_complete=shell_completion.benchmarks)
@options_of(Settings, "settings", "perturb", "tier", "sample", "limit", "seed")
@format_option
@table_options
@shared_options("data", "benchmarks", "trust", "json")
@click.pass_obj
def check(shared: Shared, /, benchmark: str, settings: Settings, format_: str) -> int:
    """Check perturbations by their rules.

    Shows how many instances each perturbation changes, and how many of these keep its rules; only those are sent. The
    default is all perturbations. Nothing is sent.

    \b
    Example:
      medhelm variants check med_qa --data DIR --perturb typos,units
    """
    from medhelm.evaluation.session import open_selected
    from medhelm.extensions.variants.listing import ALL
    from medhelm.extensions.variants.perturbations import GROUPS
    from medhelm.extensions.variants.validity import VALIDITY_FIELDS, validity

    (definition,) = load(shared, [benchmark])
    dataset = open_selected(definition, shared.data, replace(settings, perturb=()))
    names = [member for name in settings.perturb if name != ALL for member in GROUPS.get(name, (name,))]
    return _print_rows(VALIDITY_FIELDS, validity(dataset, names, settings.seed), format_)


# --- medhelm robustness -----------------------------------------------------------------------------------------------


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=MARGIN,
    show_default=True,
    help="Difference of scores, on a scale from 0 to 1, up to which they are equivalent.",
)
@click.option("--k", type=click.IntRange(1), default=None, metavar="N", help="Show pass@k and pass^k of N samples.")
@click.option(
    "--show",
    "tables",
    type=click.Choice(["all", "perturbations", "repeats", "positions", "prompts", "ranks", "thresholds"]),
    default="all",
    show_default=True,
    help="Table to show; CSV has the first one of all.",
)
@options_of(RunFilter, "wanted", "models", "excluded", "since")
@options_of(BoardOptions, "options", "tier")
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def robustness(
    shared: Shared,
    /,
    names: Sequence[str],
    margin: float,
    k: int | None,
    tables: str,
    wanted: RunFilter,
    options: BoardOptions,
    format_: str,
) -> int:
    """Compare variants with their plain runs.

    Reads stored runs with --repeat and --perturb, and sends nothing. Shows whether scores stay within a margin, how
    often answers flip, and how often they flip by chance; the mean over repeats, the part of its uncertainty that is
    due to sampling, pass@k and pass^k; a preference for the place of an option; how far means and ranks depend on the
    prompt; and the thresholds of the Coalition for Health AI, each met, not met, or undecided with the number of
    instances that would decide.

    \b
    Examples:
      medhelm run med_qa --model openai/gpt-4o --repeat 5 --perturb typos
      medhelm robustness med_qa
      medhelm robustness --model openai/gpt-4o --k 3 --show repeats --format csv
    """
    from medhelm.extensions.variants import report

    found = report.robustness_report(
        shared.all_stores,
        wanted,
        benchmarks=_benchmark_ids(shared, names),
        tier=options.tier,
        margin=margin,
        k=k,
    )
    if format_ == "json":
        print_json(report.as_json(found))
        return 0
    found = report.with_short_names(found)
    if sentences := report.verdict(found) if format_ in ("table", "md") else []:
        print_remarks(sentences, format_)
        click.echo()
    chosen = [name for name in report.tables(found) if tables in ("all", name)]
    click.echo(report.to_text(found, chosen[:1] if format_ == "csv" else chosen, format_), nl=False)
    if tables in ("all", "thresholds"):
        click.echo(err=format_ in ("csv", "latex"))
        print_remarks(report.not_measured(found), format_)
    return 0


def _benchmark_ids(shared: Shared, names: Sequence[str]) -> list[str]:
    """Return the ids of benchmarks that are named by id, alias or group; those of stored runs need no definition."""
    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    stored = {run.benchmark for path in shared.all_stores if names for run in load_runs(open_store(path))}
    found = [[name] if name in stored else [one.name for one in load(shared, [name], of_stores=True)] for name in names]
    return [name for own in found for name in own]
