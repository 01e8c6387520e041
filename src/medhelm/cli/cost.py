"""`medhelm cost`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.options import (
    Shared,
    format_option,
    prices_option,
    pricing_of,
    print_json,
    print_remarks,
    run_filter_options,
    scoring_option,
    shared_options,
    suite_option,
)
from medhelm.cli.common.output import table_options

if TYPE_CHECKING:
    from medhelm.analysis.cost.bill import CostRule, GroupBy
    from medhelm.domain import Rule
    from medhelm.results.runs.selection import RunFilter


@click.command()
@format_option
@click.option(
    "--by",
    type=click.Choice(["model", "benchmark", "judge", "run"]),
    default="model",
    show_default=True,
    help="Rows of the table.",
)
@click.option(
    "--rule",
    "cost_rule",
    type=click.Choice(["bill", "ceiling"]),
    default="bill",
    show_default=True,
    help="bill: the tokens that providers counted. ceiling: also the published rule, which takes every completion to "
    "be as long as its limit.",
)
@prices_option
@click.option(
    "--at", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Use prices of this day.  [default: day of the run]"
)
@suite_option
@run_filter_options
@scoring_option
@table_options
@shared_options("store", "models", "json")
@click.pass_obj
def cost(
    shared: Shared,
    /,
    format_: str,
    by: GroupBy,
    cost_rule: CostRule,
    prices: tuple[str, ...],
    at: datetime | None,
    suite: str,
    wanted: RunFilter,
    rule: Rule,
) -> int:
    """Show what was spent, by model or benchmark.

    The bill is the cost of repeating the stored runs. Spent is the amount that was paid: each request counts once.
    Costs of several --store are added up.

    \b
    Examples:
      medhelm cost --by benchmark
      medhelm cost --by judge --format csv
      medhelm cost --prices paper-2025-05-12 --rule ceiling
      medhelm cost --prices ours.yaml --at 2026-01-01 --json
    """
    from medhelm.reports import cost as cost_report
    from medhelm.results.cost import make_bill

    pricing = pricing_of(shared, prices, at.date() if at else None)
    bill = make_bill(shared.all_stores, pricing, by=by, rule=cost_rule, scoring=rule, suite=suite, runs=wanted)
    if shared.json or format_ == "json":
        print_json(cost_report.as_json(bill))
        return 0
    click.echo(cost_report.to_table(bill, format_), nl=False)
    if format_ != "csv" and (worth := cost_report.worth_table(bill, format_)):
        click.echo("\n" + worth, nl=False)
    if format_ != "csv" and (steps := cost_report.steps_table(bill, format_)):
        click.echo("\n" + steps, nl=False)
    print_remarks(cost_report.remarks(bill), format_)
    return 0
