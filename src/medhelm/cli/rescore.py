"""`medhelm rejudge` and `medhelm rescore`: new numbers from stored completions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.options import Shared, judge_options, load, request_options, scoring_option, shared_options
from medhelm.cli.run import find_judges, print_runs
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Rule
    from medhelm.evaluation.rescore import JuryChange

_MODELS = click.option("--model", "models", multiple=True, help="Only the runs of this model; repeatable.")
_WITHOUT = click.option(
    "--without", multiple=True, metavar="JUDGE", help="A judge of before that no longer counts; repeatable."
)


@click.command()
@shared_options
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...")
@judge_options
@click.option("--only", is_flag=True, help="The judges named take the place of all there were.")
@_WITHOUT
@_MODELS
@request_options
@scoring_option
@click.pass_obj
def rejudge(
    shared: Shared,
    /,
    names: tuple[str, ...],
    judges: tuple[str, ...],
    jury_file: Path | None,
    min_judges: int | None,
    only: bool,
    without: tuple[str, ...],
    models: tuple[str, ...],
    rule: Rule,
    **limits: Any,
) -> int:
    """Have the completions of the store graded by more judges, or by others; no completion is bought again.

    The judges named join those there were, whose replies are kept. Without names, all benchmarks that judges are for.

    \b
    Examples:
      medhelm rejudge --judge openai/NEW                               one more judge for everything
      medhelm rejudge aci_bench --judge openai/NEW --without openai/OLD
    """
    from medhelm.evaluation.rescore import JuryChange, judged_only

    jury = find_judges(shared, judges, jury_file, None, quiet=not only)
    if jury is None:
        raise UserError("name the judges with --judge or --jury. Nothing was sent.")
    benchmarks = _stored(shared, names)
    if names and (closed := sorted({b.name for b in benchmarks} - {b.name for b in judged_only(benchmarks)})):
        raise UserError(f"no judges are needed for {', '.join(closed)}: its metrics compare with the right answer.")
    change = JuryChange(judges=jury.judges, only=only, without=without, at_least=min_judges)
    return _again(shared, judged_only(benchmarks), change, models, rule, limits)


@click.command()
@shared_options
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...")
@_WITHOUT
@click.option(
    "--min-judges",
    type=click.IntRange(min=1),
    help="Judges that must have graded everything for an instance to have a score.  [default: as before]",
)
@_MODELS
@scoring_option
@click.pass_obj
def rescore(
    shared: Shared,
    /,
    names: tuple[str, ...],
    without: tuple[str, ...],
    min_judges: int | None,
    models: tuple[str, ...],
    rule: Rule,
) -> int:
    """Compute all scores of the store anew from what it holds: completions, and judges' replies. Nothing is sent.

    For metrics that were added to a benchmark since, for an optional package that is there now, or for a jury without
    one of its judges. Without names, all benchmarks.

    \b
    Examples:
      medhelm rescore --data DIR
      medhelm rescore aci_bench --data DIR --without openai/J1
    """
    from medhelm.evaluation.rescore import JuryChange

    change = JuryChange(without=without, at_least=min_judges)
    return _again(shared, _stored(shared, names), change, models, rule, {})


def _stored(shared: Shared, names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks named, or all that the store has runs of."""
    from medhelm.evaluation.imported.datasets import unknown_benchmarks
    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    runs = load_runs(store)
    unknown = unknown_benchmarks(store, runs, names)
    ours = {benchmark.name for benchmark in unknown}
    wanted = [name for name in names or sorted({run.benchmark for run in runs}) if name not in ours]
    return [*(load(shared, wanted) if wanted else ()), *unknown]


def _again(
    shared: Shared,
    benchmarks: Sequence[Benchmark],
    change: JuryChange,
    models: Sequence[str],
    rule: Rule,
    limits: dict[str, Any],
) -> int:
    from medhelm.cli.progress import progress_listener
    from medhelm.evaluation.evaluate import Settings
    from medhelm.evaluation.rescore import rejudge as judge_again

    with progress_listener() as listener:
        done = judge_again(
            benchmarks,
            change,
            store=shared.store,
            models=models,
            data=shared.data,
            settings=Settings(offline=shared.offline, **limits),
            environment=os.environ,
            listener=listener,
        )
    print_runs(shared, done, rule)
    return done.exit_code
