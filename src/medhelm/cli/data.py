"""`medhelm data ...`."""

from __future__ import annotations

from pathlib import Path

import click

from medhelm.cli import completion
from medhelm.cli.options import Shared, load, print_json, shared_options
from medhelm.errors import UserError

_names = click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=completion.benchmarks)


@click.group()
@shared_options
def data() -> None:
    """The data of benchmarks: where it comes from, what is here, and whether it is right."""


@data.command()
@shared_options
@_names
@click.pass_obj
def status(shared: Shared, names: tuple[str, ...]) -> int:
    """Show where the data of each benchmark comes from, its licence, the agreement it needs, and what is here.

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
@shared_options
@_names
@click.pass_obj
def verify(shared: Shared, names: tuple[str, ...]) -> int:
    """Read the data that is here and compare its checksums.

    Ends with 0 if all is as the definitions say, 2 if a file is another one, 4 if data of a benchmark that was named is
    not here.

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
@shared_options
@_names
@click.pass_obj
def fetch(shared: Shared, names: tuple[str, ...]) -> int:
    """Download public data at its pinned revision into --data DIR; resumes, verifies, leaves alone what is right.

    \b
    Example:
      medhelm data fetch pubmed_qa medec --data DIR
    """
    from dataclasses import asdict

    from medhelm.benchmarks.download import fetch as fetch_data

    if shared.data is None:
        raise UserError("say where the data shall go: --data DIR or MEDHELM_DATA. Nothing was sent.")
    wanted = load(shared, names or ["public"])
    done = fetch_data(wanted, shared.data, offline=shared.offline, progress=lambda text: click.echo(text, err=True))
    if shared.json:
        print_json({"benchmarks": [{**asdict(one), "folder": one.folder and str(one.folder)} for one in done]})
    else:
        for one in done:
            click.echo(f"{one.benchmark}: {one.state}{f' in {one.folder}' if one.folder else ''}")
    for one in done:
        if one.state == "failed":
            click.echo(f"medhelm: {one.message}", err=True)
    return 4 if any(one.state == "failed" for one in done) else 0


@data.command()
@shared_options
@click.argument("name", shell_complete=completion.benchmarks)
@click.option("--rows", type=click.IntRange(min=1), help="Only the first N of the invented rows.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("sample-data"),
    show_default=True,
    help="Folder that gets one folder with the files.",
)
@click.pass_obj
def sample(shared: Shared, name: str, rows: int | None, out: Path) -> int:
    """Write invented rows as the files that the benchmark reads: what a file of your own must look like.

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
