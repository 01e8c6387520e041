"""`medhelm report`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.global_options import Shared, board_options, load, shared_options
from medhelm.cli.common.options import options_of
from medhelm.cli.common.printing import print_json
from medhelm.domain.options import option
from medhelm.results.options import BoardOptions, SourceOptions

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.extensions.paper.write import WrittenReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Options of a report."""

    only: Sequence[str] = option(
        "--only",
        "Tables and figures to make: table1, table2, table3, tableC3, subcategories, tableE4, head_to_head, figure3, "
        "figure4, figure4_subcategories, figure5, figureD1, win_rates, pairs.  [default: all that can be made]",
        (),
        metavar="NAME,...",
    )
    formats: Sequence[str] = option(
        "--formats", "Formats: md, csv, latex, svg, png, pdf.  [default: all]", (), metavar="FORMAT,..."
    )
    ratings: Path | None = option("--ratings", "File of clinicians' ratings, for table 2.", metavar="FILE")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options_of(ReportOptions, "content")
@options_of(SourceOptions, "source")
@options_of(BoardOptions, "options", "suite", "wanted", "tier")
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    help="Scoring rule to show.  [default: corrected; published if published results are included]",
)
@options_of(BoardOptions, "options", "pricing")
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def report(
    shared: Shared,
    folder: Path,
    source: SourceOptions,
    options: BoardOptions,
    content: ReportOptions,
    rule: Rule | None,
) -> int:
    """Write the paper's tables and figures.

    Covers the models of the store, the published ones, or both. DIR must be new, empty, or an unchanged report. Start
    with its README.md or index.html. PNG and PDF need the package vl-convert-python: in a checkout,
    `pip install '.[figures]'`.

    \b
    Examples:
      medhelm report paper --published-only --suite paper35
      medhelm report ours --ratings ratings.csv
      medhelm report slides --only figure5,win_rates --formats svg,png
    """
    from medhelm.extensions.paper.gather import ReportRequest
    from medhelm.extensions.paper.write import ReportContents, make_report
    from medhelm.results.runs.run_filter import without_address

    if source.with_published and source.published_only:
        raise click.UsageError("--with-published and --published-only cannot be combined: use one of them.")
    request = ReportRequest(
        stores=shared.all_stores,
        scores=source.scores,
        published="only" if source.published_only else "beside" if source.with_published else "no",
        options=board_options(shared, options),
        rule=rule,
        ratings=content.ratings,
        definitions=load(shared, ["open", "additional"]) if content.ratings else (),
    )
    contents = ReportContents(
        only=_split_at_commas(content.only),
        formats=_split_at_commas(content.formats),
        command=shlex.join(["medhelm", *map(without_address, sys.argv[1:])]),
    )
    made = make_report(folder, request, contents)
    _print_report(made, as_json=shared.json)
    if made.missing:
        raise made.missing
    return 0


def _split_at_commas(given: Sequence[str]) -> list[str]:
    """Split the values of a repeatable option at commas."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _print_report(made: WrittenReport, *, as_json: bool) -> None:
    from medhelm.domain.text import plural

    if as_json:
        print_json(
            {
                "folder": str(made.folder),
                "files": sorted(made.files),
                "not_made": dict(made.not_made),
                "findings": list(made.findings),
                "warnings": [remark.text for remark in made.remarks],
            }
        )
        return
    click.echo(f"{made.folder / 'README.md'}: {len(made.files)} files")
    for text in made.findings:
        click.echo(f"- {text}")
    for key, why in made.not_made.items():
        click.echo(f"not made: {key}: {why}", err=True)
    if made.remarks:
        click.echo(f"{plural(len(made.remarks), 'warning')}: see {made.folder / 'README.md'}", err=True)
