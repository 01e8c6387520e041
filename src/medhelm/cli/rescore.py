"""`medhelm rejudge` and `medhelm rescore`: new scores for stored completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import cluster_options, options_of, scoring_option
from medhelm.cli.common.output import progress_options, table_options
from medhelm.cli.common.printing import warn
from medhelm.cli.common.shared import Shared, gateway_option, load, shared_options
from medhelm.cli.run import find_judges, note_jury, print_runs
from medhelm.domain import RubricName
from medhelm.domain.text import listed
from medhelm.errors import ConfigError, UserError
from medhelm.evaluation.settings import JuryOptions, Settings

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Rule
    from medhelm.evaluation.rescore import JuryChange

_MODELS = click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    shell_complete=shell_completion.stored_models,
    help="Only runs of this model; repeatable.",
)
_WITHOUT = click.option(
    "--without",
    multiple=True,
    shell_complete=shell_completion.models,
    metavar="JUDGE",
    help="Earlier judge to exclude; repeatable.",
)


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@options_of(JuryOptions, "judging")
@click.option(
    "--rubric",
    type=click.Choice(get_args(RubricName)),
    help="Criteria for judges.  [default: those of the earlier judges]",
)
@click.option(
    "--verification-code/--no-verification-code",
    "verification_codes",
    default=None,
    help="Whether judges must copy a code from their prompt into each verdict.  [default: as the earlier judges]",
)
@click.option("--only", is_flag=True, help="Replace all earlier judges.")
@_WITHOUT
@_MODELS
@options_of(Settings, "settings", "spending", "service")
@cluster_options
@gateway_option
@scoring_option
@table_options
@progress_options
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
@click.pass_obj
def rejudge(
    shared: Shared,
    /,
    names: tuple[str, ...],
    judging: JuryOptions,
    rubric: RubricName | None,
    verification_codes: bool | None,
    only: bool,
    without: tuple[str, ...],
    models: tuple[str, ...],
    rule: Rule,
    settings: Settings,
) -> int:
    """Grade stored completions with other judges.

    Adds the named judges to the earlier ones, whose judgments are kept. Completions are not generated again. The
    default is all benchmarks with free-text completions.

    \b
    Examples:
      medhelm rejudge --judge openai/NEW
      medhelm rejudge aci_bench --judge openai/NEW --without openai/OLD
    """
    from medhelm.evaluation.rescore import JuryChange, judged_only

    jury = find_judges(shared, replace(judging, min_judges=None), quiet=not only)
    if jury is None:
        raise UserError("no judges were given. Name them with --judge or --jury. Nothing was sent.")
    benchmarks = _load_stored(shared, names)
    if names and (closed := sorted({b.name for b in benchmarks} - {b.name for b in judged_only(benchmarks)})):
        raise UserError(f"{', '.join(closed)} cannot be judged: its metrics compare completions with references.")
    if only:
        note_jury(shared, jury, (), None)
    change = JuryChange(
        judges=jury.judges,
        only=only,
        without=without,
        at_least=judging.min_judges,
        rubric=rubric,
        verification_codes=verification_codes,
    )
    return _rejudge_and_print(shared, judged_only(benchmarks), change, models, rule, settings)


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@_WITHOUT
@click.option(
    "--min-judges",
    metavar="N",
    type=click.IntRange(min=1),
    help="Complete judgments required to score an instance.  [default: unchanged]",
)
@_MODELS
@cluster_options
@scoring_option
@table_options
@progress_options
@shared_options("store", "data", "benchmarks", "trust", "json")
@click.pass_obj
def rescore(
    shared: Shared,
    /,
    names: tuple[str, ...],
    without: tuple[str, ...],
    min_judges: int | None,
    models: tuple[str, ...],
    rule: Rule,
    settings: Settings,
) -> int:
    """Recompute scores of stored completions.

    Use it after adding a metric to a benchmark, after installing an optional package, or to exclude a judge. Sends
    nothing. The default is all benchmarks.

    \b
    Examples:
      medhelm rescore --data DIR
      medhelm rescore aci_bench --data DIR --without openai/J1
    """
    from medhelm.evaluation.rescore import JuryChange

    change = JuryChange(without=without, at_least=min_judges)
    return _rejudge_and_print(shared, _load_stored(shared, names), change, models, rule, settings)


def _load_stored(shared: Shared, names: Sequence[str]) -> list[Benchmark]:
    """Load the named benchmarks, or all benchmarks with stored runs whose definition is known here."""
    from medhelm.evaluation.imported_benchmarks import unknown_benchmarks
    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    runs = load_runs(store)
    unknown = unknown_benchmarks(store, runs, names)
    ours = {benchmark.name for benchmark in unknown}
    wanted = [name for name in names or sorted({run.benchmark for run in runs}) if name not in ours]
    return [*_load_known(shared, wanted, are_named=bool(names)), *unknown]


def _load_known(shared: Shared, names: Sequence[str], *, are_named: bool) -> list[Benchmark]:
    """Load benchmarks; those whose definition is not found are named and left out, unless the user named them."""
    if not names:
        return []
    try:
        return load(shared, names)
    except UserError:
        if are_named:
            raise
        found: list[Benchmark] = []
        missing: list[str] = []
        for name in names:
            try:
                found += load(shared, [name])
            except ConfigError:
                raise
            except UserError:
                missing.append(name)
        if not found:
            raise
    definitions = "its definition is" if len(missing) == 1 else "their definitions are"
    warn(f"left out: {listed(missing)}, because {definitions} not found here. Name the folder with --benchmarks DIR.")
    return found


def _rejudge_and_print(
    shared: Shared,
    benchmarks: Sequence[Benchmark],
    change: JuryChange,
    models: Sequence[str],
    rule: Rule,
    settings: Settings,
) -> int:
    from medhelm.cli.common.progress import progress_listener
    from medhelm.evaluation.rescore import rejudge as judge_again

    with progress_listener(shared) as listener:
        done = judge_again(
            benchmarks,
            change,
            store=shared.store,
            models=models,
            data=shared.data,
            settings=replace(settings, offline=shared.offline),
            environment=shared.environment,
            listener=listener,
        )
    print_runs(shared, done, rule)
    return done.exit_code
