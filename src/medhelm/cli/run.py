"""`medhelm run` and `medhelm demo`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.leaderboard import print_leaderboard
from medhelm.cli.options import (
    Shared,
    load,
    print_json,
    run_options,
    scoring_option,
    shared_options,
)
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Benchmark, Jury, Model, Rule, Tier
    from medhelm.evaluation.settings import Evaluation, Settings
    from medhelm.storage.store import Store


@click.command()
@shared_options
@run_options
@scoring_option
@click.pass_obj
def run(
    shared: Shared,
    /,
    names: tuple[str, ...],
    like: tuple[Path, ...],
    models: tuple[str, ...],
    judges: tuple[str, ...],
    jury_file: Path | None,
    min_judges: int | None,
    rule: Rule,
    **choices: Any,
) -> int:
    """Evaluate models on benchmarks; the same command again goes on where it stopped.

    Benchmarks whose answers are free text are graded by judges, if any are named. Without judges, ROUGE-L stands in.

    \b
    Examples:
      medhelm run pubmed_qa medbullets --data DIR --model baseline/majority --model openai/NAME@http://127.0.0.1:8000/v1
      medhelm run aci_bench --data DIR --model openai/gpt-4o --judge openai/J1 --judge openai/J2 --judge azure/J3
    """
    from medhelm.evaluation.evaluate import Settings

    jury = find_judges(shared, judges, jury_file, min_judges)
    check_names(names, like, choices["tier"])
    return _evaluate(shared, names, models, Settings(offline=shared.offline, **choices), rule, jury, like)


@click.command()
@shared_options
@scoring_option
@click.pass_obj
def demo(shared: Shared, rule: Rule) -> int:
    """Run the baselines on the sample rows of every benchmark and show the leaderboard: no network, no key.

    \b
    Example:
      medhelm demo --store /tmp/demo
    """
    from medhelm.evaluation.evaluate import Settings

    baselines = ["baseline/majority", "baseline/lexical", "baseline/random"]
    names = [benchmark.name for benchmark in load(shared, ["all"]) if not benchmark.package]
    return _evaluate(shared, names, baselines, Settings(tier="sample", offline=True), rule)


def check_names(names: Sequence[str], like: Sequence[Path], tier: Tier) -> None:
    """Check that there is something to evaluate. Raises: UserError."""
    if not names and not like:
        raise UserError("name a BENCHMARK, or a run of HELM with --like. `medhelm benchmarks list` shows all.")
    if like and tier == "sample":
        raise UserError("--like sends the prompts of a run, and the sample tier has none: leave one of them out.")


def open_like(shared: Shared, folders: Sequence[Path], store: Store, limit: int | None) -> list[Dataset]:
    """Open the prompts of finished HELM runs; `store` keeps their instances. Raises: UserError."""
    from medhelm.evaluation.imported.benchmarks import library_of
    from medhelm.exchange.helm.same_prompts import like_helm

    return like_helm(folders, library_of(shared.benchmark_folders), store, limit=limit, data=shared.data)


def find_judges(
    shared: Shared, names: Sequence[str], file: Path | None, at_least: int | None, *, quiet: bool = False
) -> Jury | None:
    """The jury that was asked for; what speaks against it goes to standard error, unless it is only part of one."""
    from medhelm.models.jury_file import find_jury

    jury, warnings = find_jury(
        names, file=file, at_least=at_least, models_file=shared.models_file, environment=os.environ
    )
    for warning in () if quiet else warnings:
        click.echo(f"medhelm: {warning}", err=True)
    return jury


def _evaluate(
    shared: Shared,
    names: Sequence[str],
    models: Sequence[str],
    settings: Settings,
    rule: Rule,
    jury: Jury | None = None,
    like: Sequence[Path] = (),
) -> int:
    """Evaluate, show the runs and the leaderboard they now stand on, and say how it ended."""
    from medhelm.cli.progress import progress_listener
    from medhelm.domain import JURY
    from medhelm.evaluation.evaluate import evaluate
    from medhelm.models.jury_file import also_under_test
    from medhelm.results.leaderboard import leaderboard
    from medhelm.storage.store import create

    benchmarks, found = find_asked(shared, names, models)
    for benchmark in benchmarks:
        for remark in benchmark.remarks:
            click.echo(f"{benchmark.name}: {remark}", err=True)
    for warning in also_under_test(jury, found) if jury else ():
        click.echo(f"medhelm: {warning}", err=True)
    if jury is None and (n := sum(len(b.metrics) > 1 and b.metrics[0] == JURY for b in benchmarks)):
        what = f"{n} benchmark{'' if n == 1 else 's'} with answers in free text"
        click.echo(f"medhelm: no judges are named (--judge): on {what} the next metric stands in", err=True)
    with progress_listener() as listener:
        done = evaluate(
            benchmarks,
            found,
            store=shared.store,
            data=shared.data,
            settings=settings,
            environment=os.environ,
            listener=listener,
            jury=jury,
            datasets=open_like(shared, like, create(shared.store), settings.limit) if like else (),
        )
    print_runs(shared, done, rule)
    if not shared.json and any(run.status == "complete" for run in done.runs):
        print_leaderboard(leaderboard([shared.store], rule=rule, tier=settings.tier))
    return done.exit_code


def print_runs(shared: Shared, done: Evaluation, rule: Rule) -> None:
    """Show what came of an evaluation."""
    from medhelm.reports import runs as runs_report

    if shared.json:
        print_json(runs_report.as_json(done.runs, rule, cost_usd=done.cost_usd, seconds=done.seconds))
    else:
        click.echo(runs_report.to_table(done.runs, rule))
    for message in done.messages:
        click.echo(f"medhelm: {message}", err=True)


def find_asked(shared: Shared, names: Sequence[str], models: Sequence[str]) -> tuple[list[Benchmark], list[Model]]:
    """Benchmarks and models by name. Raises UserError with what is wrong with either."""
    from medhelm.io.http_client import import_early
    from medhelm.models.catalog import find_models

    wrong: list[UserError] = []
    found: list[Model] = []
    benchmarks: list[Benchmark] = []
    try:
        found = find_models(models, file=shared.models_file, environment=os.environ)
        if any(model.base_url for model in found):
            import_early()
    except UserError as error:
        wrong.append(error)
    try:
        benchmarks = load(shared, names)
    except UserError as error:
        wrong.append(error)
    if wrong:
        raise UserError("\n\n".join(map(str, wrong)))
    return benchmarks, found
