"""`medhelm export`: what a store holds, for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medhelm.cli import completion
from medhelm.cli.options import Shared, load, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Rule, Tier
    from medhelm.reports.exchange import ExportResult
    from medhelm.results.export_selection import ExportRequest
    from medhelm.storage.record_tables import Format

SOME_FAILED = 1
"""Exit code if some runs could not be exported."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
@shared_options
def export() -> None:
    """Write what a store holds for others.

    \b
    Examples:
      medhelm export helm DIR          HELM's files, for helm-summarize and helm-server
      medhelm export csv DIR           tables for R, Stata, Excel, with a data dictionary
      medhelm export parquet DIR       the same for pandas, DuckDB, Spark
      medhelm export card DIR          one page for a governance committee
    """


def selection_options(command: _Command) -> _Command:
    """Add --benchmark, --model and --tier."""
    options = [
        click.option(
            "--benchmark",
            "benchmarks",
            multiple=True,
            shell_complete=completion.benchmarks,
            help="Only this benchmark; repeatable.",
        ),
        click.option(
            "--model",
            "models",
            multiple=True,
            shell_complete=completion.stored_models,
            help="Only this model; repeatable.",
        ),
        click.option(
            "--tier",
            type=click.Choice(["real", "sample"]),
            help="Real data or invented rows.  [default: real, if there is any]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@export.command()
@shared_options
@folder_argument
@selection_options
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["published", "corrected"]),
    default="published",
    show_default=True,
    help="Which scores are written. HELM's files have room for one rule.",
)
@click.option("--suite", default="medhelm", show_default=True, help="Name of the suite of runs.")
@click.pass_obj
def helm(
    shared: Shared,
    folder: Path,
    benchmarks: tuple[str, ...],
    models: tuple[str, ...],
    tier: Tier | None,
    rule: Rule,
    suite: str,
) -> int:
    """Write runs as HELM's files: prompts, completions, judgments and scores.

    Only the runs that stand on the leaderboard are written. The files hold prompts and completions: where these hold
    patient data, so do they.

    \b
    Example:
      medhelm export helm exported
      helm-summarize --suite medhelm -o exported --schema-path exported/schema.yaml --local-path exported/prod_env
      helm-server --suite medhelm -o exported
    """
    from medhelm.exchange.helm.export import export_helm

    wanted = _wanted(benchmarks, models, tier)
    done = export_helm(shared.store, folder, rule=rule, suite=suite, wanted=wanted, definitions=_definitions(shared))
    return _say(done, shared)


def text_option(command: _Command) -> _Command:
    """Add --with-text."""
    return click.option(
        "--with-text",
        "texts",
        is_flag=True,
        help="Also write prompts, completions and the words of judges, which may hold patient data.",
    )(command)


@export.command()
@shared_options
@folder_argument
@selection_options
@text_option
@click.pass_obj
def csv(
    shared: Shared, folder: Path, benchmarks: tuple[str, ...], models: tuple[str, ...], tier: Tier | None, texts: bool
) -> int:
    """Write runs, records, judgments and the leaderboard as CSV files, with a dictionary of their columns.

    \b
    Example:
      medhelm export csv tables --benchmark pubmed_qa
    """
    return _tables(shared, folder, "csv", _wanted(benchmarks, models, tier), texts)


@export.command()
@shared_options
@folder_argument
@selection_options
@text_option
@click.pass_obj
def parquet(
    shared: Shared, folder: Path, benchmarks: tuple[str, ...], models: tuple[str, ...], tier: Tier | None, texts: bool
) -> int:
    """Write the tables of `medhelm export csv` as Parquet files.

    \b
    Example:
      medhelm export parquet tables
    """
    return _tables(shared, folder, "parquet", _wanted(benchmarks, models, tier), texts)


@export.command()
@shared_options
@click.argument("place", metavar="DIR|FILE", type=click.Path(path_type=Path))
@selection_options
@scoring_option
@click.pass_obj
def card(
    shared: Shared, place: Path, benchmarks: tuple[str, ...], models: tuple[str, ...], tier: Tier | None, rule: Rule
) -> int:
    """Write an evaluation card: one page that says what was evaluated, on what, how, and what came out.

    DIR gets it as Markdown, HTML (to be printed) and JSON; a FILE ending in .md, .html or .json gets it as that. It
    holds no text of patients and no address.

    \b
    Example:
      medhelm export card card.html --benchmark pubmed_qa --benchmark aci_bench
    """
    from medhelm.results.card.card import export_card

    wanted = _wanted(benchmarks, models, tier)
    done = export_card(shared.store, place, rule=rule, wanted=wanted, definitions=_definitions(shared))
    return _say(done, shared)


def _tables(shared: Shared, folder: Path, format: Format, wanted: ExportRequest, texts: bool) -> int:
    from medhelm.results.tables import export_tables

    return _say(export_tables(shared.store, folder, format, wanted=wanted, texts=texts), shared)


def _wanted(benchmarks: tuple[str, ...], models: tuple[str, ...], tier: Tier | None) -> ExportRequest:
    from medhelm.results.export_selection import ExportRequest

    return ExportRequest(benchmarks=benchmarks, models=models, tier=tier)


def _definitions(shared: Shared) -> dict[str, Benchmark]:
    """The definitions of the store's benchmarks, by name, as far as they are known."""
    from medhelm.benchmarks.catalog import all_names

    stored = {path.name for path in shared.store.glob("runs/*")}
    known = [name for name in all_names(shared.benchmark_folders) if name in stored]
    return {benchmark.name: benchmark for benchmark in load(shared, known)}


def _say(done: ExportResult, shared: Shared) -> int:
    """Print what was written; returns the exit code."""
    from medhelm.reports import exchange as exchange_report

    if shared.json:
        print_json(exchange_report.export_as_json(done))
    else:
        click.echo(exchange_report.export_to_text(done), nl=False)
    for text in done.remarks:
        click.echo(f"- {text}", err=True)
    for text in done.left_out:
        click.echo(f"- left out: {text}", err=True)
    return SOME_FAILED if done.left_out else 0
