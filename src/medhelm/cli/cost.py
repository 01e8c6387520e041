"""`medhelm cost` and `medhelm plan`."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import completion
from medhelm.cli.options import (
    FORMATS,
    Shared,
    print_json,
    run_options,
    scoring_option,
    shared_options,
)
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.cost.bill import CostRule, GroupBy
    from medhelm.domain import Rule

prices_option = click.option(
    "--prices",
    multiple=True,
    metavar="FILE|SNAPSHOT",
    help="Prices that go before all others: a YAML list of {model, input, output}, in US dollars per million tokens, "
    "or a snapshot such as paper-2025-05-12; repeatable.",
)


@click.command()
@shared_options
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How tables are written.")
@click.option(
    "--by",
    type=click.Choice(["model", "benchmark", "judge", "run"]),
    default="model",
    show_default=True,
    help="What the rows are.",
)
@click.option(
    "--rule",
    "cost_rule",
    type=click.Choice(["bill", "ceiling"]),
    default="bill",
    show_default=True,
    help="What providers counted, or beside it what the published rule makes of it: every reply as long as its limit.",
)
@prices_option
@click.option(
    "--at", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Prices of this day.  [default: of each run's day]"
)
@click.option(
    "--suite",
    default="all",
    show_default=True,
    shell_complete=completion.suites,
    help="paper35, all, or a file with one benchmark a line.",
)
@scoring_option
@click.pass_obj
def cost(
    shared: Shared,
    format_: str,
    by: GroupBy,
    cost_rule: CostRule,
    prices: tuple[str, ...],
    at: datetime | None,
    suite: str,
    rule: Rule,
) -> int:
    """What was spent, by model, benchmark, judge or run, and what the score costs. Several --store are added up.

    The bill is what making the stored runs again would cost; spent is what was paid, each request once.

    \b
    Examples:
      medhelm cost --by benchmark
      medhelm cost --by judge --format csv
      medhelm cost --prices paper-2025-05-12 --rule ceiling
      medhelm cost --prices ours.yaml --at 2026-01-01 --json
    """
    from medhelm.models.catalog import find_models
    from medhelm.models.price_book import read_price_books
    from medhelm.reports.cost import as_json, remarks, to_table, worth_table
    from medhelm.results.cost import make_bill
    from medhelm.results.spending import Pricing, model_finder

    reach = model_finder(lambda names: find_models(names, file=shared.models_file, environment=os.environ))
    pricing = Pricing(books=read_price_books(prices), day=at.date() if at else None, find_model=reach)
    bill = make_bill(shared.stores or [shared.store], pricing, by=by, rule=cost_rule, scoring=rule, suite=suite)
    if shared.json or format_ == "json":
        print_json(as_json(bill))
        return 0
    click.echo(to_table(bill, format_), nl=False)
    if format_ != "csv" and (worth := worth_table(bill, format_)):
        click.echo("\n" + worth, nl=False)
    for text in remarks(bill):
        click.echo(f"- {text}", err=format_ in ("csv", "latex"))
    return 0


@click.command()
@shared_options
@run_options
@scoring_option
@prices_option
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How tables are written.")
@click.pass_obj
def plan(
    shared: Shared,
    /,
    names: tuple[str, ...],
    like: tuple[Path, ...],
    models: tuple[str, ...],
    judges: tuple[str, ...],
    jury_file: Path | None,
    min_judges: int | None,
    rule: Rule,
    prices: tuple[str, ...],
    format_: str,
    **choices: Any,
) -> int:
    """What `medhelm run` with the same arguments would send and cost. Nothing is sent, and no store is made.

    What is answered already is looked up in the store's cache. Exit code 4: data or keys are missing.

    \b
    Examples:
      medhelm plan pubmed_qa medbullets --data DIR --model openai/gpt-4o
      medhelm plan all --data DIR --model openai/gpt-4o --judge openai/J1 --judge openai/J2 --max-cost 20
    """
    del rule  # both are computed anyway
    from medhelm.cli.run import find_asked, find_judges
    from medhelm.evaluation.imported.benchmarks import library_of
    from medhelm.evaluation.plan import make_plan
    from medhelm.evaluation.settings import Settings
    from medhelm.models.price_book import read_price_books
    from medhelm.reports.plan import as_json, missing, remarks, to_table

    if not names and not like:
        raise UserError("name benchmarks, or a run of HELM with --like. `medhelm benchmarks list` shows what there is.")
    if like and choices["tier"] == "sample":
        raise UserError("--like sends the prompts of a run, and the sample tier has none: leave one of them out.")
    jury = find_judges(shared, judges, jury_file, min_judges)
    benchmarks, found = find_asked(shared, names, models)
    forecast = make_plan(
        benchmarks,
        found,
        store=shared.store,
        data=shared.data,
        settings=Settings(offline=shared.offline, **choices),
        environment=os.environ,
        jury=jury,
        like=like,
        library=library_of(shared.benchmark_folders) if like else None,
        books=read_price_books(prices),
    )
    if shared.json or format_ == "json":
        print_json(as_json(forecast))
    else:
        click.echo(to_table(forecast, format_), nl=False)
        for text in remarks(forecast):
            click.echo(f"- {text}", err=format_ in ("csv", "latex"))
    for text in [*(forecast.warnings if shared.json else ()), *missing(forecast)]:
        click.echo(f"medhelm: {text}", err=True)
    return 4 if forecast.is_missing_something else 0
