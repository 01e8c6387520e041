"""`medhelm cost` and `medhelm budget`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.options import (
    Dollars,
    format_option,
    options_of,
    prices_option,
)
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import print_json, print_remarks
from medhelm.cli.common.shared import Shared, pricing_of, shared_options
from medhelm.results.options import BoardOptions

if TYPE_CHECKING:
    from medhelm.analysis.cost.bill import CostRule, GroupBy
    from medhelm.results.budget import BudgetState


@click.command()
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
    help="bill: the tokens that providers counted; ceiling: also the published rule, which assumes that every "
    "completion is as long as its limit.",
)
@prices_option
@click.option(
    "--at",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Use the prices of this day.  [default: day of the run]",
)
@options_of(BoardOptions, "options", "suite", "wanted", "rule")
@format_option
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
    options: BoardOptions,
) -> int:
    """Show what was spent, by model or benchmark.

    The bill is the cost of repeating the stored runs. Spent is the amount that was paid, with each request counted
    once. If --store is repeated, the costs of all stores are added up. Runs on sample rows are included.

    \b
    Examples:
      medhelm cost --by benchmark
      medhelm cost --by judge --format csv
      medhelm cost --prices paper-2025-05-12 --rule ceiling
      medhelm cost --prices ours.yaml --at 2026-01-01 --json
    """
    from medhelm.reports import cost as cost_report
    from medhelm.results.cost import make_bill
    from medhelm.results.runs.names import renamed, short_names

    pricing = pricing_of(shared, prices, at.date() if at else None)
    scoring, suite, wanted = options.rule, str(options.suite), options.wanted
    bill = make_bill(shared.all_stores, pricing, by=by, rule=cost_rule, scoring=scoring, suite=suite, runs=wanted)
    if format_ == "json":
        print_json(cost_report.as_json(bill))
        return 0
    bill = renamed(bill, short_names(name for name, _ in bill.prices))
    click.echo(cost_report.to_table(bill, format_), nl=False)
    if format_ != "csv" and (worth := cost_report.worth_table(bill, format_)):
        click.echo("\n" + worth, nl=False)
    if format_ != "csv" and (steps := cost_report.steps_table(bill, format_)):
        click.echo("\n" + steps, nl=False)
    print_remarks(cost_report.remarks(bill), format_)
    return 0


@click.group()
@shared_options()
def budget() -> None:
    """Limit what is spent in a store.

    Before `run`, `rejudge`, `filter-references` or a batch sends a request, it reserves the highest cost that the
    request can have. Commands stop with exit code 3 before their total exceeds the limit.

    \b
    Examples:
      medhelm budget set 20
      medhelm budget show
    """


@budget.command("set")
@click.argument("limit_usd", metavar="USD", type=Dollars())
@prices_option
@shared_options("store", "models", "json")
@click.pass_obj
def set_(shared: Shared, /, limit_usd: float, prices: tuple[str, ...]) -> int:
    """Set or change the limit in US dollars.

    What was already spent in the store counts too.

    \b
    Example:
      medhelm budget set 20
    """
    from medhelm.results.budget import set_budget

    return _show(shared, set_budget(shared.store, limit_usd, pricing_of(shared, prices)))


@budget.command()
@shared_options("store", "json")
@click.pass_obj
def show(shared: Shared, /) -> int:
    """Show the limit and what was spent.

    \b
    Example:
      medhelm budget show --json
    """
    from medhelm.results.budget import budget_of

    return _show(shared, budget_of(shared.store))


@budget.command()
@shared_options("store", "json")
@click.pass_obj
def release(shared: Shared, /) -> int:
    """Release what killed commands reserved.

    Requests that were in flight may have been billed: check the provider's bill first.

    \b
    Example:
      medhelm budget release
    """
    from medhelm.results.budget import budget_of, release_lost

    freed_usd = release_lost(shared.store)
    click.echo(f"{freed_usd:.4f} US dollars are free again.", err=True)
    return _show(shared, budget_of(shared.store))


@budget.command()
@shared_options("store")
@click.pass_obj
def remove(shared: Shared, /) -> int:
    """Remove the limit.

    \b
    Example:
      medhelm budget remove
    """
    from medhelm.results.budget import remove_budget

    removed = remove_budget(shared.store)
    click.echo("The limit was removed." if removed else "The store has no limit.", err=True)
    return 0


def _show(shared: Shared, state: BudgetState | None) -> int:
    from medhelm.reports.cost import budget_text
    from medhelm.results.budget import budget_as_json

    content = budget_as_json(state)
    if shared.json:
        print_json(content)
    else:
        click.echo(budget_text(content), nl=False)
    return 0
