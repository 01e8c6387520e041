"""`medhelm export ...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common.options import option_from, options_of, run_filter_options
from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, board_options, existing_audit_log, load, shared_options
from medhelm.cli.serve import make_site, site_options
from medhelm.evaluation.settings import Settings
from medhelm.results.options import BoardOptions

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Rule
    from medhelm.reports.exchange import ExportResult
    from medhelm.results.options import RunFilter
    from medhelm.storage.export_tables import Format

SOME_FAILED = 1
"""Exit code if some runs could not be exported."""


@click.group()
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


@export.command()
@folder_argument
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["published", "corrected"]),
    default="published",
    show_default=True,
    help="Scoring rule to write; HELM's files hold only one.",
)
@click.option("--suite", metavar="NAME", default="medhelm", show_default=True, help="Name of the HELM suite to write.")
@selection_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def helm(shared: Shared, folder: Path, options: BoardOptions, rule: Rule, suite: str) -> int:
    """Write HELM's files.

    Writes the prompts, completions, judgments and scores of the runs that count for the leaderboard. If prompts or
    completions contain patient data, so do these files.

    \b
    Example:
      medhelm export helm exported
      helm-summarize --suite medhelm -o exported \\
        --schema-path exported/schema.yaml --local-path exported/prod_env
      helm-server --suite medhelm -o exported
    """
    from medhelm.exchange.helm.export import export_helm

    done = export_helm(
        shared.store_to_read, folder, rule=rule, suite=suite, options=options, definitions=_definitions(shared)
    )
    return _print_result(done, shared)


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
    from medhelm.results.card.card import export_card

    options = board_options(shared, options)
    done = export_card(shared.store_to_read, place, options, definitions=_definitions(shared))
    return _print_result(done, shared)


@export.command()
@folder_argument
@text_option
@click.option(
    "--cases",
    "most_cases",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Cases per benchmark to write, with ids, prompts, references, completions and judgments. Nothing of other "
    "cases is written, not even in lists.",
)
@site_options
@shared_options("store", "data", "benchmarks", "trust", "json")
@click.pass_obj
def site(shared: Shared, /, folder: Path, texts: bool, most_cases: int, **contents: Any) -> int:
    """Write the pages of `medhelm serve` as files.

    Double-click index.html to open them, or put them on any web server. For benchmarks that are not public, they hold
    only numbers, unless --with-text is given. They never hold the address of a model server.

    \b
    Example:
      medhelm export site board
    """
    from medhelm.web.export import export_site

    made = make_site(shared, with_text=texts, **contents)
    return _print_result(export_site(made, folder, most_cases=most_cases), shared)


def _export_tables(shared: Shared, folder: Path, format: Format, options: BoardOptions, texts: bool) -> int:
    from medhelm.results.export_tables import export_tables

    options = board_options(shared, options)
    return _print_result(export_tables(shared.store_to_read, folder, format, options, texts=texts), shared)


def _definitions(shared: Shared) -> dict[str, Benchmark]:
    """Return the known definitions of the store's benchmarks, by name."""
    from medhelm.benchmarks.catalog import all_names

    stored = {path.name for path in shared.store_to_read.glob("runs/*")}
    known = [name for name in all_names(shared.benchmark_folders) if name in stored]
    return {benchmark.name: benchmark for benchmark in load(shared, known)}


def _print_result(done: ExportResult, shared: Shared) -> int:
    """Print the result of an export and return the exit code."""
    from medhelm.io.files import key_of
    from medhelm.reports import exchange as exchange_report

    if shared.json:
        print_json(exchange_report.export_as_json(done))
    else:
        click.echo(exchange_report.export_to_text(done), nl=False)
    for text in done.remarks:
        click.echo(f"- {text}", err=True)
    for text in done.left_out:
        click.echo(f"- left out: {text}", err=True)
    if key_of(shared.store / "store.json"):
        click.echo("- the store is encrypted, but the exported files are not", err=True)
    return SOME_FAILED if done.left_out else 0


@export.command()
@click.argument("url", metavar="URL")
@run_filter_options
@option_from(Settings, "allow_hosts")
@shared_options("store", "benchmarks", "offline", "json")
@click.pass_obj
def store(shared: Shared, url: str, wanted: RunFilter, allow_hosts: tuple[str, ...]) -> int:
    """Publish runs and releases to an object store.

    URL is a folder in S3, Google Cloud Storage or Azure: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, az://CONTAINER/FOLDER.
    Objects are created once and never changed; existing objects are left alone. Others read them with
    `medhelm leaderboard --store URL` and other commands that only read. Credentials come from the usual variables, such
    as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL.

    \b
    Example:
      medhelm export store s3://results/board-2026 --benchmark pubmed_qa
    """
    from medhelm.domain.text import plural
    from medhelm.exchange.remote_store import publish
    from medhelm.io.object_store.store import ObjectStore
    from medhelm.reports.formats.json_output import plain_json
    from medhelm.storage.privacy.export_log import record_export
    from medhelm.storage.store import open_store

    with existing_audit_log(shared) as audit, ObjectStore(url, offline=shared.offline, audit=audit) as remote:
        definitions = load(shared, ["all"])
        done = publish(open_store(shared.store), remote, definitions, wanted=wanted, allowed=allow_hosts)
    names = {path.parent.name for path in shared.store.glob("runs/*/*")}
    record_export(shared.store, done.url, "store", names, has_text=True)
    if shared.json:
        print_json(plain_json(done))
    else:
        known = f"; {done.known} already existed" if done.known else ""
        click.echo(f"{done.url}: {plural(done.runs, 'run')} and {plural(done.releases, 'release')} published{known}")
        for remark in done.remarks:
            click.echo(f"- {remark}")
    return 0
