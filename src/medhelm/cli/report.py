"""`medhelm report`: the paper's tables and figures, for any set of models, in one folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli import completion
from medhelm.cli.options import Shared, load, print_json, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Rule, Tier
    from medhelm.results.paper.write import WrittenReport


@click.command()
@shared_options
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--scores", type=click.Path(path_type=Path), help="Report on a published table instead: a CSV file with its header."
)
@click.option("--with-published", is_flag=True, help="Put the nine published models beside your own.")
@click.option("--published-only", is_flag=True, help="The nine published models alone; needs no store.")
@click.option(
    "--suite",
    shell_complete=completion.suites,
    default="all",
    show_default=True,
    help="all, paper35, suite37, public, gated, private, a category, a subcategory, or a file: one benchmark a line, "
    "or YAML with weights.",
)
@click.option(
    "--ratings", type=click.Path(path_type=Path), help="Clinicians' ratings of some completions, for table 2."
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME,...",
    help="Tables and figures to make: table1, table2, table3, tableC3, tableD1, tableE4, figure3, figure4, "
    "figure4_subcategories, figure5, win_rates, pairs.  [default: all that can be made]",
)
@click.option(
    "--formats",
    multiple=True,
    metavar="FORMAT,...",
    help="How they are written: md, csv, latex, svg, png, pdf, json.  [default: all]",
)
@click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    help="Real data or invented rows.  [default: real, if there is any]",
)
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    help="Which rule is shown.  [default: corrected; published beside published results]",
)
@click.pass_obj
def report(
    shared: Shared,
    folder: Path,
    scores: Path | None,
    with_published: bool,
    published_only: bool,
    suite: str,
    ratings: Path | None,
    only: Sequence[str],
    formats: Sequence[str],
    tier: Tier | None,
    rule: Rule | None,
) -> int:
    """Write the tables and figures of the paper to DIR, for the models of the store or the published ones.

    DIR must be new, empty, or a report that nobody changed. Start with its README.md or index.html. Figures need
    `pip install '.[figures]'` in a checkout.

    \b
    Examples:
      medhelm report paper --published-only --suite paper35
      medhelm report ours --ratings ratings.csv
      medhelm report slides --only figure5,win_rates --formats svg,png
    """
    from medhelm.results.paper.gather import ReportRequest
    from medhelm.results.paper.write import ReportContents, make_report

    if with_published and published_only:
        raise click.UsageError("--with-published and --published-only do not go together: leave one of them out")
    request = ReportRequest(
        stores=shared.stores or [shared.store],
        scores=scores,
        published="only" if published_only else "beside" if with_published else "no",
        suite=suite,
        rule=rule,
        tier=tier,
        ratings=ratings,
        benchmark_folders=shared.benchmark_folders,
        definitions=load(shared, ["open", "additional"]) if ratings else (),
    )
    contents = ReportContents(
        only=_parts(only), formats=_parts(formats), command=shlex.join(["medhelm", *sys.argv[1:]])
    )
    made = make_report(folder, request, contents)
    _print(made, as_json=shared.json)
    if made.missing:
        raise made.missing
    return 0


def _parts(given: Sequence[str]) -> list[str]:
    """The names of an option that may be repeated, and may hold several each."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _print(made: WrittenReport, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "folder": str(made.folder),
                "files": sorted(made.files),
                "not_made": dict(made.not_made),
                "findings": list(made.findings),
                "warnings": list(made.warnings),
            }
        )
        return
    click.echo(f"{made.folder / 'README.md'}: {len(made.files)} files")
    for text in made.findings:
        click.echo(f"- {text}")
    for key, why in made.not_made.items():
        click.echo(f"not made: {key}: {why}", err=True)
    if made.warnings:
        count = "1 warning" if len(made.warnings) == 1 else f"{len(made.warnings)} warnings"
        click.echo(f"{count}: see {made.folder / 'README.md'}", err=True)
