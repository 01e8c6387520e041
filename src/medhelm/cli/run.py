"""`medhelm run` and `medhelm demo`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.options import cluster_options, options_of, run_options, scoring_option
from medhelm.cli.common.output import progress_options, table_options
from medhelm.cli.common.printing import print_json, warn
from medhelm.cli.common.shared import Shared, gateway_option, load, shared_options
from medhelm.cli.leaderboard import print_leaderboard
from medhelm.errors import ErrorCollector, UserError
from medhelm.evaluation.settings import JuryOptions, Settings
from medhelm.io.plugins import IMPORTERS, from_extension

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Benchmark, Jury, Model, Rule, Run
    from medhelm.evaluation.settings import Evaluation
    from medhelm.storage.store import Store


@click.command()
@run_options
@cluster_options
@options_of(Settings, "settings", "shard")
@gateway_option
@table_options
@progress_options
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
@click.pass_obj
def run(
    shared: Shared,
    /,
    names: tuple[str, ...],
    like: tuple[Path, ...],
    models: tuple[str, ...],
    judging: JuryOptions,
    settings: Settings,
    rule: Rule,
) -> int:
    """Evaluate models on benchmarks.

    Completions are stored as they arrive. Repeat the command to continue after an interruption; repeating a finished
    run costs nothing. Judges grade free text; without --judge, such benchmarks are scored with ROUGE-L.

    \b
    Examples:
      medhelm run pubmed_qa --data DIR --model baseline/majority
      medhelm run medbullets --model openai/NAME@http://127.0.0.1:8000/v1
      medhelm run aci_bench --model openai/gpt-4o --judge J1 --judge J2
    """
    errors = ErrorCollector()
    with errors.collect():
        check_names(names, like, settings)
    jury = find_jury(shared, judging, errors, models)
    settings = replace(settings, offline=shared.offline)
    done = _evaluate(shared, names, models, settings, errors, jury, like)
    said = print_runs(shared, done, rule)
    _print_ranking(shared, done, settings, rule, said)
    return done.exit_code


@click.command()
@scoring_option
@table_options
@progress_options
@shared_options("store", "json")
@click.pass_obj
def demo(shared: Shared, rule: Rule) -> int:
    """Run the baselines on invented sample rows.

    Shows the leaderboard at the end. Needs no network, keys or data.

    \b
    Example:
      medhelm demo --store /tmp/demo
    """
    baselines = ["baseline/majority", "baseline/lexical", "baseline/random"]
    names = [benchmark.name for benchmark in load(shared, ["all"]) if not benchmark.package]
    settings = Settings(tier="sample", offline=True)
    done = _evaluate(shared, names, baselines, settings, ErrorCollector())
    if shared.json or done.exit_code:
        print_runs(shared, done, rule)
    else:
        click.echo(f"{len(done.runs)} runs are complete. To list them: medhelm runs list --store {shared.store}\n")
    _print_ranking(shared, done, settings, rule)
    if not shared.json:
        click.echo(f"\nTo browse these results: medhelm serve --store {shared.store}")
    return done.exit_code


def check_names(names: Sequence[str], like: Sequence[Path], settings: Settings) -> None:
    """Check that there is something to evaluate. Raises: UserError."""
    if not names and not like:
        raise UserError("name a BENCHMARK, or a HELM run with --like. `medhelm benchmarks list` shows all benchmarks.")
    if like and settings.tier == "sample":
        raise UserError("--like and --tier sample cannot be combined: a HELM run has no sample rows.")
    if like and settings.subset:
        raise UserError("--like and --subset cannot be combined: the prompts of a HELM run are its selection.")


def check_rubric(benchmarks: Sequence[Benchmark], rubric: str, jury: Jury | None, like: Sequence[Path]) -> None:
    """Check that the extended rubric, if it is chosen, has a judge and a benchmark. Raises: UserError."""
    if rubric != "extended":
        return
    if like:
        raise UserError("--like and --rubric extended cannot be combined: judges of HELM prompts use the standard one.")
    if jury is None:
        raise UserError("--rubric extended needs judges. Name them with --judge. Nothing was sent.")
    if not any(benchmark.extended_rubric for benchmark in benchmarks):
        names = ", ".join(benchmark.name for benchmark in benchmarks)
        raise UserError(f"{names}: only one rubric is defined. Leave out --rubric extended. Nothing was sent.")


def open_like(shared: Shared, folders: Sequence[Path], store: Store, limit: int | None) -> list[Dataset]:
    """Return the prompts of finished HELM runs as datasets; `store` keeps their instances. Raises: UserError."""
    from medhelm.evaluation.imported_benchmarks import library_of

    like_helm = from_extension(IMPORTERS, "helm_prompts", extension="exchange", what="--like")
    library = library_of(shared.benchmark_folders)
    datasets: list[Dataset] = like_helm(folders, library, store, limit=limit, data=shared.data)
    return datasets


def find_judges(shared: Shared, judging: JuryOptions, *, quiet: bool = False) -> Jury | None:
    """Return the jury of `--judge` or `--jury`; None without judges. Prints its warnings unless `quiet`."""
    from medhelm.models.jury import find_jury

    jury, warnings = find_jury(
        judging.judges,
        file=judging.jury_file,
        at_least=judging.min_judges,
        models_file=shared.models_file,
        environment=shared.environment,
        note=warn,
    )
    for warning in () if quiet else warnings:
        shared.note(warning)
    return jury


def note_jury(
    shared: Shared, jury: Jury | None, models: Sequence[Model], benchmarks: Sequence[Benchmark] | None
) -> None:
    """Print warnings about a jury, if any of these benchmarks uses it. `benchmarks`: None if all do."""
    from medhelm.domain import JURY
    from medhelm.models.jury import jury_warnings

    if jury and (benchmarks is None or any(JURY in benchmark.metrics for benchmark in benchmarks)):
        for warning in jury_warnings(jury, models):
            shared.note(warning)


def find_jury(shared: Shared, judging: JuryOptions, errors: ErrorCollector, models: Sequence[str] = ()) -> Jury | None:
    """Return the jury as `find_judges` does; with problems, which are collected, the judges that can be found.

    `models`: as named with `--model`; a judge may be one that is defined there, as in `NAME=MODEL`.
    """
    from medhelm.domain import Jury
    from medhelm.models.catalog import with_given_names

    names = with_given_names(judging.judges, models)
    with errors.collect():
        return find_judges(shared, replace(judging, judges=tuple(names)))
    return Jury(judges=tuple(ErrorCollector().found(lambda some: _find_models(shared, some), names)))


def _evaluate(
    shared: Shared,
    names: Sequence[str],
    models: Sequence[str],
    settings: Settings,
    errors: ErrorCollector,
    jury: Jury | None = None,
    like: Sequence[Path] = (),
) -> Evaluation:
    """Evaluate models on benchmarks with these names; `errors`: those so far."""
    from medhelm.cli.common.progress import progress_listener
    from medhelm.domain.text import listed, plural
    from medhelm.evaluation.evaluate import evaluate
    from medhelm.evaluation.preparation import next_metrics
    from medhelm.storage.store import create

    benchmarks, found = find_named(shared, names, models, errors)
    with errors.collect():
        check_rubric(benchmarks, settings.rubric, jury, like)
    datasets: list[Dataset] = []
    if like and not errors.errors:  # it writes to the store
        with errors.collect():
            datasets = open_like(shared, like, create(shared.store), settings.limit)
    for benchmark in benchmarks:
        for remark in benchmark.remarks:
            shared.note(f"{benchmark.name}: {remark}")
    note_jury(shared, jury, found, benchmarks if names else None)
    if jury is None and (replacing := next_metrics(benchmarks)):
        graded, metrics = plural(len(replacing), "free-text benchmark"), listed(list(dict.fromkeys(replacing)))
        shared.note(f"no judges were named (--judge): scoring {graded} by {metrics} instead")
    with progress_listener(shared) as listener:
        return evaluate(
            benchmarks,
            found,
            store=shared.store,
            data=shared.data,
            settings=settings,
            environment=shared.environment,
            listener=listener,
            jury=jury,
            datasets=datasets,
            errors=errors,
        )


def _print_ranking(
    shared: Shared, done: Evaluation, settings: Settings, rule: Rule, said: Collection[str] = ()
) -> None:
    """Print the leaderboard of the store if any run is complete; after a shard, print how to merge it.

    `said`: remarks that were printed with the runs, and are not repeated.
    """
    if settings.shard:
        if done.exit_code in (0, 1):
            shared.note(
                f"shard {settings.shard} is in {shared.store}. When all {settings.shard.count} have ended: "
                "medhelm merge STORE... --store TARGET"
            )
    elif not shared.json and any(run.is_complete for run in done.runs):
        from medhelm.results.leaderboard import leaderboard

        board = leaderboard([shared.store], rule=rule, tier=settings.tier, short_names=True)
        print_leaderboard(replace(board, remarks=tuple(one for one in board.remarks if str(one) not in said)))


def print_runs(shared: Shared, done: Evaluation, rule: Rule) -> Collection[str]:
    """Print the runs of an evaluation, and its messages; return the remarks that a leaderboard would repeat."""
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.counted_failures import counted_runs

    shown: Sequence[Run] = counted_runs(done.runs)
    if shared.json:
        print_json(runs_report.as_json(shown, rule, cost_usd=done.cost_usd, seconds=done.seconds))
    else:
        from medhelm.results.runs.names import names_in, renamed

        names = names_in(("", run) for run in shown)
        shown = [renamed(run, names) for run in shown]
        click.echo(runs_report.to_table(shown, rule))
    for message in done.messages:
        click.echo(f"medhelm: {message}", err=True)
    return runs_report.completion_notes(shown)


def _find_models(shared: Shared, names: Sequence[str]) -> list[Model]:
    """Return the models of these names. Raises: UserError."""
    from medhelm.models.catalog import find_models

    return find_models(names, file=shared.models_file, environment=shared.environment, note=warn)


def find_named(
    shared: Shared, names: Sequence[str], models: Sequence[str], errors: ErrorCollector
) -> tuple[list[Benchmark], list[Model]]:
    """Return benchmarks and models by name, and collect the problems of both."""
    from medhelm.io.http.client import import_early

    found = errors.found(lambda some: _find_models(shared, some), models)
    if any(model.base_url for model in found):
        import_early()
    return errors.found(lambda some: load(shared, some), names), found
