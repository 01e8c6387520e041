"""`medhelm plan`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common.options import (
    Shared,
    format_option,
    prices_option,
    print_json,
    print_remarks,
    run_options,
    shared_options,
)
from medhelm.cli.common.output import table_options
from medhelm.cli.run import check_names, check_rubric, find_judges, find_named, open_like

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Rule


@click.command()
@run_options
@prices_option
@format_option
@table_options
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
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
    """Show what a run would send and cost.

    Takes the arguments of `medhelm run`. Sends nothing and creates no store. Completions in the store's cache are
    counted as cached. Exit code 4: data or keys are missing.

    \b
    Examples:
      medhelm plan pubmed_qa medbullets --data DIR --model openai/gpt-4o
      medhelm plan all --model openai/gpt-4o --judge openai/J1 --max-cost 20
    """
    del rule  # both rules are computed
    from medhelm.evaluation.plan import make_plan
    from medhelm.evaluation.settings import Settings
    from medhelm.io.work_folders import temporary_folder
    from medhelm.models.price_book import read_price_books
    from medhelm.reports import plan as plan_report
    from medhelm.storage.store import create

    check_names(names, like, choices["tier"], choices["subset"])
    jury = find_judges(shared, judges, jury_file, min_judges)
    benchmarks, found = find_named(shared, names, models)
    check_rubric(benchmarks, choices["rubric"], jury, like)
    datasets: list[Dataset] = []
    if like:
        # A plan does not write to the store: the instances go to a temporary folder.
        with temporary_folder() as work:
            datasets = open_like(shared, like, create(work.path / "store"), choices["limit"])
    forecast = make_plan(
        benchmarks,
        found,
        store=shared.store,
        data=shared.data,
        settings=Settings(offline=shared.offline, **choices),
        environment=os.environ,
        jury=jury,
        datasets=datasets,
        books=read_price_books(prices),
    )
    if shared.json or format_ == "json":
        print_json(plan_report.as_json(forecast))
    else:
        click.echo(plan_report.to_table(forecast, format_), nl=False)
        print_remarks(plan_report.remarks(forecast), format_)
    for text in [*(forecast.warnings if shared.json else ()), *plan_report.missing(forecast)]:
        click.echo(f"medhelm: {text}", err=True)
    return 4 if forecast.is_missing_something else 0
