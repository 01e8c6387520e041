"""`medhelm data ...`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import option_from
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, existing_audit_log, load, shared_options
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings

_names = click.argument("names", nargs=-1, metavar="[BENCHMARK|GROUP]...", shell_complete=shell_completion.benchmarks)


@click.group()
@shared_options()
def data() -> None:
    """Locate, download and verify data.

    \b
    Examples:
      medhelm data status --data DIR
      medhelm data fetch public --data DIR
    """


@data.command()
@_names
@table_options
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def status(shared: Shared, names: tuple[str, ...]) -> int:
    """Show source, license and state of data.

    Also lists missing files, and the agreements that gated data requires.

    \b
    Example:
      medhelm data status gated --data DIR
    """
    from medhelm.benchmarks.availability import availability
    from medhelm.reports import data as data_report

    known = [(benchmark, availability(benchmark, shared.data)) for benchmark in load(shared, names or ["all"])]
    if shared.json:
        print_json(data_report.as_json(known))
    else:
        click.echo(data_report.to_table(known))
    return 0


@data.command()
@_names
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def verify(shared: Shared, names: tuple[str, ...]) -> int:
    """Verify checksums of data files.

    Exit codes: 0 if all files match the definitions, 2 if a file differs, 4 if data of a named benchmark is missing.

    \b
    Example:
      medhelm data verify --data DIR
    """
    from medhelm.benchmarks.availability import availability
    from medhelm.reports import data as data_report

    known = [(b, availability(b, shared.data, verify=True)) for b in load(shared, names or ["all"])]
    if not names:
        known = [(benchmark, found) for benchmark, found in known if found.folder]
    if shared.json:
        print_json(data_report.as_json(known))
    else:
        click.echo(data_report.to_table(known))
    if any(found.state == "changed" for _, found in known):
        return 2
    return 0 if all(found.is_usable for _, found in known) else 4


@data.command()
@_names
@option_from(Settings, "proxy")
@shared_options("store", "data", "benchmarks", "offline", "json")
@click.pass_obj
def fetch(shared: Shared, names: tuple[str, ...], proxy: str) -> int:
    """Download public data into --data DIR.

    Downloads the pinned revision and verifies its checksums. Resumes after an interruption and keeps valid files. If
    the store exists, each request is written to its audit log.

    \b
    Example:
      medhelm data fetch pubmed_qa medec --data DIR
    """
    from medhelm.benchmarks.download import fetch as fetch_data
    from medhelm.models.allowed_hosts import PROXY_LOGIN
    from medhelm.reports.formats.json_output import plain_json

    if shared.data is None:
        raise UserError("no data folder was named. Give --data DIR or set MEDHELM_DATA. Nothing was downloaded.")
    wanted = load(shared, names or ["public"])
    with existing_audit_log(shared) as audit:
        done = fetch_data(
            wanted,
            shared.data,
            offline=shared.offline,
            progress=lambda text: click.echo(text, err=True),
            proxy=proxy,
            proxy_login=os.environ.get(PROXY_LOGIN, "").strip(),
            audit=audit,
        )
    if shared.json:
        print_json({"benchmarks": plain_json(done)})
    else:
        for one in done:
            click.echo(f"{one.benchmark}: {one.state}{f' in {one.folder}' if one.folder else ''}")
    for one in done:
        if one.state == "failed":
            click.echo(f"medhelm: {one.message}", err=True)
    return 4 if any(one.state == "failed" for one in done) else 0


@data.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@click.option("--rows", metavar="N", type=click.IntRange(min=1), help="Only the first N invented rows.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("sample-data"),
    show_default=True,
    help="Folder in which to create the benchmark's folder.",
)
@shared_options("benchmarks", "json")
@click.pass_obj
def sample(shared: Shared, name: str, rows: int | None, out: Path) -> int:
    """Write invented rows in a benchmark's format.

    The files show the format that your own data must have.

    \b
    Example:
      medhelm data sample clear --out my-data
    """
    from medhelm.benchmarks.sample_data.rows import write_sample
    from medhelm.reports import data as data_report

    for benchmark in load(shared, [name]):
        folder = out / benchmark.name
        files, n_rows = write_sample(benchmark, folder, rows=rows)
        if shared.json:
            print_json({"benchmark": benchmark.name, "rows": n_rows, "files": [str(path) for path in files]})
        else:
            click.echo(data_report.written_text(benchmark.name, files, n_rows, out))
    return 0
