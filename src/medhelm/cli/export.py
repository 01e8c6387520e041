"""`medhelm export ...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.extensions import ExtensibleGroup
from medhelm.cli.common.global_options import Shared, board_options, load, shared_options
from medhelm.cli.common.options import options_of
from medhelm.cli.common.printing import print_json
from medhelm.results.options import BoardOptions

if TYPE_CHECKING:
    from medhelm.domain import Benchmark
    from medhelm.reports.export import ExportResult
    from medhelm.storage.export_tables import Format

SOME_FAILED = 1
"""Exit code if some runs could not be exported."""


@click.group(cls=ExtensibleGroup, within="export ", extensions={"helm": "exchange", "site": "web", "store": "exchange"})
@shared_options()
def export() -> None:
    """Export tables, HELM files, a card or a site.

    \b
    Examples:
      medhelm export helm DIR       HELM's files, for helm-summarize
      medhelm export csv DIR        tables for R, Stata or Excel
      medhelm export parquet DIR    the same tables for pandas, DuckDB or Spark
      medhelm export card DIR       one page for a governance committee
      medhelm export site DIR       the pages of `medhelm serve` as files
      medhelm export store URL      runs and releases, to an object store
    """


selection_options = options_of(BoardOptions, "options", "wanted", "tier")
"""The options that select runs."""

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))

text_option = click.option(
    "--with-text",
    "texts",
    is_flag=True,
    help="Include prompts, completions and judges' explanations, which may contain patient data.",
)


@export.command()
@folder_argument
@text_option
@selection_options
@options_of(BoardOptions, "options", "pricing")
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def csv(shared: Shared, folder: Path, options: BoardOptions, texts: bool) -> int:
    """Write CSV tables with a data dictionary.

    The tables hold runs, records, judgments and the leaderboard.

    \b
    Example:
      medhelm export csv tables --benchmark pubmed_qa
    """
    return _export_tables(shared, folder, "csv", options, texts)


@export.command()
@folder_argument
@text_option
@selection_options
@options_of(BoardOptions, "options", "pricing")
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def parquet(shared: Shared, folder: Path, options: BoardOptions, texts: bool) -> int:
    """Write Parquet tables with a data dictionary.

    The tables are those of `medhelm export csv`.

    \b
    Example:
      medhelm export parquet tables
    """
    return _export_tables(shared, folder, "parquet", options, texts)


@export.command()
@click.argument("place", metavar="DIR|FILE", type=click.Path(path_type=Path))
@selection_options
@options_of(BoardOptions, "options", "rule", "pricing")
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def card(shared: Shared, place: Path, options: BoardOptions) -> int:
    """Write a one-page evaluation card.

    The card lists models, data, methods and results. In DIR, it is written as Markdown, HTML (for printing) and JSON.
    The suffix of FILE selects the format: .md, .html or .json. The card contains no patient text and no server address.

    \b
    Example:
      medhelm export card card.html --benchmark pubmed_qa --benchmark aci_bench
    """
    from medhelm.results.card import export_card

    options = board_options(shared, options)
    done = export_card(shared.store_to_read, place, options, definitions=definitions_of(shared))
    return print_result(done, shared)


def _export_tables(shared: Shared, folder: Path, format: Format, options: BoardOptions, texts: bool) -> int:
    from medhelm.results.export import export_tables

    options = board_options(shared, options)
    return print_result(export_tables(shared.store_to_read, folder, format, options, texts=texts), shared)


def definitions_of(shared: Shared) -> dict[str, Benchmark]:
    """Return the known definitions of the store's benchmarks, by name."""
    from medhelm.benchmarks.catalog import all_names

    stored = {path.name for path in shared.store_to_read.glob("runs/*")}
    known = [name for name in all_names(shared.benchmark_folders) if name in stored]
    return {benchmark.name: benchmark for benchmark in load(shared, known)}


def print_result(done: ExportResult, shared: Shared) -> int:
    """Print the result of an export and return the exit code."""
    from medhelm.io.files import key_of
    from medhelm.reports import export as export_report

    if shared.json:
        print_json(export_report.export_as_json(done))
    else:
        click.echo(export_report.export_to_text(done), nl=False)
    for text in done.remarks:
        click.echo(f"- {text}", err=True)
    for text in done.left_out:
        click.echo(f"- left out: {text}", err=True)
    if key_of(shared.store / "store.json"):
        click.echo("- the store is encrypted, but the exported files are not", err=True)
    return SOME_FAILED if done.left_out else 0
