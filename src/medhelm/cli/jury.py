"""`medhelm jury`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import (
    format_option,
    prices_option,
    run_filter_options,
    scoring_option,
    stored_tier_option,
)
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import as_shown, print_json, print_remarks
from medhelm.cli.common.shared import Shared, load, pricing_of, shared_options
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.domain import Rule, Tier
    from medhelm.results.options import RunFilter


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME=FAMILY",
    help="Developer of a judge or model whose name does not show it; repeatable.",
)
@run_filter_options
@stored_tier_option
@scoring_option
@prices_option
@format_option
@table_options
@shared_options("store", "benchmarks", "models", "json")
@click.pass_context
def jury(
    context: click.Context,
    /,
    names: tuple[str, ...],
    wanted: RunFilter,
    format_: str,
    tier: Tier | None,
    families: tuple[str, ...],
    rule: Rule,
    prices: tuple[str, ...],
) -> int:
    """Measure the quality of the judges.

    Shows for each judge its agreement with the others, severity, self-preference and influence on the ranking; with
    --wide also failures, grades, length bias and all coefficients of agreement. Reads stored judgments and sends
    nothing. The default is all benchmarks.

    \b
    Examples:
      medhelm jury
      medhelm jury aci_bench --family local/judge=Meta --json
    """
    from medhelm.reports import jury as jury_report
    from medhelm.results.jury import analyze_judges
    from medhelm.results.runs.names import renamed, short_names

    shared: Shared = context.obj
    analysis = analyze_judges(
        shared.all_stores,
        _benchmark_ids(shared, names),
        rule=rule,
        tier=tier,
        families=_parse_families(families),
        pricing=pricing_of(shared, prices) if prices else None,
        wanted=wanted,
    )
    if format_ == "json":
        print_json(jury_report.as_json(analysis))
        return 0
    analysis = renamed(analysis, short_names(analysis.families))
    if format_ in ("table", "md"):
        click.echo(as_shown(" ".join(analysis.verdict), format_) + "\n")
    click.echo(jury_report.to_text(analysis, format_, wide=context.params["wide"]), nl=False)
    if analysis.remarks and format_ not in ("csv", "latex"):
        click.echo()
    print_remarks(analysis.remarks, format_)
    return 0


def _benchmark_ids(shared: Shared, names: Sequence[str]) -> list[str]:
    """Return the ids of benchmarks that are named by id, alias or group."""
    from medhelm.results.jury import judged_benchmarks

    known = judged_benchmarks(shared.all_stores)
    found = []
    for name in names:
        meant = [name] if name in known else [benchmark.name for benchmark in load(shared, [name])]
        found += [benchmark for benchmark in meant if benchmark in known] or meant
    return list(dict.fromkeys(found))


def _parse_families(texts: Sequence[str]) -> dict[str, str]:
    """Return name -> family, from texts of the form NAME=FAMILY. Raises: UserError."""
    found = {}
    for text in texts:
        # A name may contain an address, and so an equals sign.
        name, _, family = text.rpartition("=")
        if not (name and family):
            raise UserError(f"--family `{text}` must have the form NAME=FAMILY, such as local/judge=Meta.")
        found[name] = family
    return found
