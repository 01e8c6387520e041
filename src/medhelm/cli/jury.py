"""`medhelm jury`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli import completion
from medhelm.cli.options import FORMATS, Shared, load, print_json, scoring_option, shared_options
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.domain import Rule, Tier


@click.command()
@shared_options
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=completion.benchmarks)
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How tables are written.")
@click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    help="Real data or invented rows.  [default: real, if there is any]",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME=FAMILY",
    help="Who made a judge or model, where its name does not tell; repeatable.",
)
@scoring_option
@click.pass_obj
def jury(
    shared: Shared,
    /,
    names: tuple[str, ...],
    format_: str,
    tier: Tier | None,
    families: tuple[str, ...],
    rule: Rule,
) -> int:
    """Judge the judges: failures, severity, agreement, preference for their own, length, and who decides the ranking.

    Reads the finished runs that were judged; asks nobody. Without names, all benchmarks.

    \b
    Examples:
      medhelm jury
      medhelm jury aci_bench --family local/judge=Meta --json
    """
    from medhelm.reports import jury as jury_report
    from medhelm.results.jury import analyze_judges

    stores = shared.stores or [shared.store]
    analysis = analyze_judges(stores, _ids(shared, stores, names), rule=rule, tier=tier, families=_pairs(families))
    if shared.json or format_ == "json":
        print_json(jury_report.as_json(analysis))
        return 0
    click.echo(jury_report.to_text(analysis, format_), nl=False)
    # In words, for people; a file of numbers or LaTeX stays what it is.
    aside = format_ in ("csv", "latex")
    if analysis.warnings and not aside:
        click.echo()
    for warning in analysis.warnings:
        click.echo(f"- {warning}", err=aside)
    return 0


def _ids(shared: Shared, stores: Sequence[Path], names: Sequence[str]) -> list[str]:
    """The benchmarks named: as the stores know them, or by an alias or the name of a group."""
    from medhelm.results.jury import judged_benchmarks

    known = judged_benchmarks(stores)
    found = []
    for name in names:
        meant = [name] if name in known else [benchmark.name for benchmark in load(shared, [name])]
        found += [benchmark for benchmark in meant if benchmark in known] or meant
    return list(dict.fromkeys(found))


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """NAME=FAMILY, several times. Raises UserError for another form."""
    found = {}
    for text in texts:
        # A name may hold an address, and with it a sign of equality.
        name, _, family = text.rpartition("=")
        if not (name and family):
            raise UserError(f"--family `{text}` is not of the form NAME=FAMILY, such as local/judge=Meta.")
        found[name] = family
    return found
