"""`medhelm plan` and `medhelm power`: the cost of a run, and the differences that it can detect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import format_option, options_of, prices_option, run_options
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import print_json, print_remarks
from medhelm.cli.common.shared import Shared, board_options, shared_options
from medhelm.cli.run import check_names, check_rubric, find_jury, find_named, note_jury, open_like
from medhelm.errors import ErrorCollector, UserError
from medhelm.evaluation.settings import JuryOptions, Settings
from medhelm.results.options import FILTER_FLAGS, BoardOptions

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import PowerDesign
    from medhelm.benchmarks.data.dataset import Dataset


@click.command()
@run_options
@options_of(Settings, "settings", "shard")
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
    judging: JuryOptions,
    settings: Settings,
    prices: tuple[str, ...],
    format_: str,
    **_unused: Any,
) -> int:
    """Show what a run would send and cost.

    Takes the same arguments as `medhelm run`, but sends nothing and does not create a store. Requests whose completions
    are in the cache of the store are not sent again. Exit code 4: data or keys are missing.

    \b
    Examples:
      medhelm plan pubmed_qa medbullets --data DIR --model openai/gpt-4o
      medhelm plan all --model openai/gpt-4o --judge openai/J1 --max-cost 20
    """
    from medhelm.evaluation.plan import make_plan
    from medhelm.models.price_book import read_price_books
    from medhelm.reports import plan as plan_report

    errors = ErrorCollector()
    with errors.collect():
        check_names(names, like, settings)
    jury = find_jury(shared, judging, errors, models)
    benchmarks, found = find_named(shared, names, models, errors)
    with errors.collect():
        check_rubric(benchmarks, settings.rubric, jury, like)
    note_jury(shared, jury, found, benchmarks if names else None)
    datasets: list[Dataset] = []
    with errors.collect():
        datasets = _open_like(shared, like, settings.limit)
    forecast = make_plan(
        benchmarks,
        found,
        store=shared.store,
        data=shared.data,
        settings=replace(settings, offline=shared.offline),
        environment=shared.environment,
        jury=jury,
        datasets=datasets,
        books=read_price_books(prices),
        errors=errors,
    )
    if format_ == "json":
        print_json(plan_report.as_json(forecast))
    else:
        click.echo(plan_report.to_table(forecast, format_), nl=False)
        print_remarks(plan_report.remarks(forecast), format_)
    for text in [*(forecast.warnings if format_ == "json" else ()), *plan_report.missing(forecast)]:
        click.echo(f"medhelm: {text}", err=True)
    return 4 if forecast.is_missing_something else 0


def _open_like(shared: Shared, like: tuple[Path, ...], limit: int | None) -> list[Dataset]:
    """Open the instances of imported runs. Raises: UserError."""
    from medhelm.io.work_folders import temporary_folder
    from medhelm.storage.store import create, open_store

    if not like:
        return []
    # A plan does not write to the store: the instances go to a temporary folder, encrypted if the store is.
    if (shared.store / "store.json").exists():
        open_store(shared.store)
    with temporary_folder() as work:
        return open_like(shared, like, create(work.path / "store"), limit)


_PROBABILITY = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("models", metavar="[MODEL_A MODEL_B]", nargs=-1, shell_complete=shell_completion.stored_models)
@click.option(
    "--difference",
    metavar="D",
    type=click.FloatRange(0, 1, min_open=True),
    help="True difference to detect, on a scale from 0 (worst) to 1 (best).",
)
@click.option(
    "--power",
    metavar="P",
    type=_PROBABILITY,
    default=0.8,
    show_default=True,
    help="Probability of detecting the difference.",
)
@click.option(
    "--alpha",
    metavar="P",
    type=_PROBABILITY,
    default=0.05,
    show_default=True,
    help="Significance level (false-positive rate).",
)
@click.option(
    "--pairs",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of comparisons that share --alpha, such as 36 for all pairs of 9 models.",
)
@click.option(
    "--disagreement",
    metavar="P",
    type=click.FloatRange(0, 1, min_open=True),
    help="Without a store, scores of 0 and 1: share of instances that only one of the models gets right.",
)
@click.option(
    "--sd",
    metavar="SD",
    type=click.FloatRange(0, 1, min_open=True),
    help="Without a store, other scores: standard deviation of the paired differences, on a scale from 0 to 1.",
)
@click.option("--instances", metavar="N", type=click.IntRange(min=1), help="Without a store: number of instances.")
@click.option(
    "--design-effect",
    metavar="FACTOR",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Without a store: factor by which clustering increases the variance.",
)
@options_of(BoardOptions, "options", "suite", "wanted", "tier", "rule")
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def power(
    shared: Shared,
    /,
    models: tuple[str, ...],
    difference: float | None,
    power: float,
    alpha: float,
    pairs: int,
    disagreement: float | None,
    sd: float | None,
    instances: int | None,
    design_effect: float,
    options: BoardOptions,
    format_: str,
) -> int:
    """Show which differences can be detected.

    Estimates the smallest difference that can be detected, and the number of instances that a given difference needs,
    from the scores in the store: for two named models, or for all pairs. With --disagreement or --sd, calculates both
    without a store.

    \b
    Examples:
      medhelm power
      medhelm power openai/gpt-4o openai/gpt-4o-mini --difference 0.03
      medhelm power --difference 0.03 --pairs 36
      medhelm power --disagreement 0.18 --difference 0.03
      medhelm power --sd 0.2 --instances 150
    """
    from medhelm.analysis.comparison.power import PowerDesign

    design = PowerDesign(power=power, alpha=alpha, comparisons=pairs)
    if disagreement is not None or sd is not None:
        if not options.wanted.is_empty:
            raise UserError(f"{FILTER_FLAGS} need a store. Leave out --disagreement and --sd.")
        _calculate(models, disagreement, sd, design_effect, design, difference, instances, format_)
        return 0
    if instances is not None or design_effect != 1:
        raise UserError("--instances and --design-effect need --disagreement or --sd; in a store they are measured.")
    if len(models) not in (0, 2):
        raise UserError(f"cannot compare {', '.join(models)}: name two models, or none for all pairs.")
    from medhelm.reports import power as power_report
    from medhelm.results.comparison import measure_power

    found = measure_power(
        shared.all_stores,
        models,
        board_options(shared, options, format_),
        design=design,
        difference=difference,
    )
    if format_ == "json":
        print_json(power_report.as_json(found))
    else:
        click.echo("\n".join(power_report.to_tables(found, format_)), nl=False)
    return 0


def _calculate(
    models: tuple[str, ...],
    disagreement: float | None,
    sd: float | None,
    design_effect: float,
    design: PowerDesign,
    difference: float | None,
    instances: int | None,
    format_: str,
) -> None:
    """Print the power or sample size for given noise, without a store."""
    if models or (disagreement is not None and sd is not None):
        raise UserError("--disagreement, --sd and names of models cannot be combined: use one of them.")
    from medhelm.analysis.comparison.power import Noise
    from medhelm.reports import power as power_report

    if difference is None and instances is None:
        raise UserError(
            "give --difference to get the number of instances it needs, --instances to get the difference they detect, "
            "or both to get the power."
        )
    if difference is not None and disagreement is not None and difference > disagreement:
        raise UserError(
            f"--difference {difference:g} is impossible: models that disagree on {disagreement:g} differ by no more."
        )
    noise = Noise(sd=sd, disagreement=disagreement, design_effect=design_effect)
    content, sentences = power_report.calculated(noise, design, difference=difference, instances=instances)
    if format_ == "json":
        print_json(content)
    else:
        click.echo("\n".join(sentences))
