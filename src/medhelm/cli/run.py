"""`medhelm run`, `demo`, `plan`, `power`, `rejudge`, `rescore` and `batches`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, board_options, gateway_option, load, shared_options
from medhelm.cli.options import (
    RunInputs,
    cluster_options,
    format_option,
    option_from,
    options_of,
    prices_option,
    run_options,
    scoring_option,
)
from medhelm.cli.output import progress_options, table_options
from medhelm.cli.printing import print_json, print_remarks, warn
from medhelm.domain.benchmark import STANDARD, is_rubric_file
from medhelm.domain.option_fields import option
from medhelm.domain.text import listed
from medhelm.errors import ConfigError, ErrorCollector, UserError
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryChange, JuryOptions
from medhelm.io.plugins import IMPORTERS, from_extension
from medhelm.results.options import FILTER_FLAGS, BoardOptions

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import PowerDesign
    from medhelm.analysis.planned_cost import CostPlan
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Benchmark, Jury, Model, Rule, Run
    from medhelm.evaluation.recorder import ProgressListener
    from medhelm.evaluation.session import EvaluationSetup
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
    inputs: RunInputs,
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
    settings = replace(settings, offline=shared.offline)
    done = _evaluate(shared, names, inputs, settings, judging)
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
    baselines = ("baseline/majority", "baseline/lexical", "baseline/random")
    names = [benchmark.name for benchmark in load(shared, ["all"]) if not benchmark.package]
    settings = Settings(tier="sample", offline=True)
    done = _evaluate(shared, names, RunInputs(models=baselines), settings)
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
    changed = [flag for flag, is_given in _ways_of_asking(settings).items() if is_given]
    if like and changed:
        raise UserError(f"--like and {changed[0]} cannot be combined: the prompts of a HELM run are sent as they are.")
    if like and settings.subset:
        raise UserError("--like and --subset cannot be combined: the prompts of a HELM run are its selection.")


def _ways_of_asking(settings: Settings) -> dict[str, bool]:
    """Return the options that change how instances are asked -> whether they are given."""
    return {
        "--prompt": bool(settings.prompt),
        "--temperature": settings.temperature != 0,
        "--repeat": settings.repeat > 1,
        "--perturb": bool(settings.perturb),
    }


def check_rubric(benchmarks: Sequence[Benchmark], rubric: str, jury: Jury | None, like: Sequence[Path]) -> None:
    """Check that another rubric than the standard one has a judge and a benchmark. Raises: UserError."""
    if rubric == STANDARD:
        return
    if like:
        raise UserError(
            f"--like and --rubric {rubric} cannot be combined: judges of HELM prompts use the standard one."
        )
    if jury is None:
        raise UserError(f"--rubric {rubric} needs judges. Name them with --judge. Nothing was sent.")
    names = ", ".join(benchmark.name for benchmark in benchmarks)
    if is_rubric_file(rubric):
        from medhelm.benchmarks.rubrics import read_rubric_file  # lazy: needs pydantic

        read_rubric_file(Path(rubric))
        if not any(benchmark.rubric for benchmark in benchmarks):
            raise UserError(f"{names}: no judge grades completions. Leave out --rubric. Nothing was sent.")
    elif not any(benchmark.extended_rubric for benchmark in benchmarks):
        raise UserError(f"{names}: only one rubric is defined. Leave out --rubric extended. Nothing was sent.")


def open_like(shared: Shared, folders: Sequence[Path], store: Store, limit: int | None) -> list[Dataset]:
    """Return the prompts of finished HELM runs as datasets; `store` keeps their instances. Raises: UserError."""
    from medhelm.evaluation.rescore import library_of

    like_helm = from_extension(IMPORTERS, "helm_prompts", extension="exchange", what="--like")
    library = library_of(shared.benchmark_folders)
    datasets: list[Dataset] = like_helm(folders, library, store, limit=limit, data=shared.data)
    return datasets


def find_judges(shared: Shared, judging: JuryOptions, *, quiet: bool = False) -> Jury | None:
    """Return the jury of `--judge` or `--jury`; None without judges. Prints its warnings unless `quiet`."""
    from medhelm.models.catalog import find_jury

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
    from medhelm.models.catalog import jury_warnings

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
    inputs: RunInputs,
    settings: Settings,
    judging: JuryOptions | None = None,
) -> Evaluation:
    """Evaluate models on benchmarks with these names; `judging`: None for no judges, whatever the environment says."""
    from medhelm.cli.progress import progress_listener
    from medhelm.domain.text import plural
    from medhelm.evaluation.evaluate import evaluate
    from medhelm.evaluation.session import next_metrics
    from medhelm.storage.store import create

    errors = ErrorCollector()
    jury, benchmarks, found = _find_all(shared, names, inputs, judging, settings, errors)
    datasets: list[Dataset] = []
    if inputs.like and not errors.errors:  # it writes to the store
        with errors.collect():
            datasets = open_like(shared, inputs.like, create(shared.store), settings.limit)
    for benchmark in benchmarks:
        for remark in benchmark.remarks:
            shared.note(f"{benchmark.name}: {remark}")
    note_jury(shared, jury, found, benchmarks if names else None)
    if jury is None and (replacing := next_metrics(benchmarks)):
        graded, metrics = plural(len(replacing), "free-text benchmark"), listed(list(dict.fromkeys(replacing)))
        shared.note(f"no judges were named (--judge): scoring {graded} by {metrics} instead")
    with progress_listener(shared) as listener:
        setup = _setup(shared, settings, listener)
        return evaluate(benchmarks, found, setup, jury=jury, datasets=datasets, errors=errors)


def _setup(shared: Shared, settings: Settings, listener: ProgressListener | None = None) -> EvaluationSetup:
    from medhelm.evaluation.session import EvaluationSetup

    return EvaluationSetup(
        store=shared.store, data=shared.data, settings=settings, environment=shared.environment, listener=listener
    )


def _print_ranking(
    shared: Shared, done: Evaluation, settings: Settings, rule: Rule, said: Collection[str] = ()
) -> None:
    """Print the leaderboard of the store if any plain run is complete; after a shard, print how to merge it.

    `said`: remarks that were printed with the runs, and are not repeated.
    """
    if settings.shard:
        if done.exit_code in (0, 1):
            shared.note(
                f"shard {settings.shard} is in {shared.store}. When all {settings.shard.count} have ended: "
                "medhelm merge STORE... --store TARGET"
            )
    elif not shared.json and any(run.is_complete and not run.is_variant for run in done.runs):
        from medhelm.cli.results import print_leaderboard  # lazy, as all that follows a run
        from medhelm.results.leaderboard import leaderboard

        board = leaderboard([shared.store], rule=rule, tier=settings.tier, short_names=True)
        print_leaderboard(replace(board, remarks=tuple(one for one in board.remarks if str(one) not in said)))


def print_runs(shared: Shared, done: Evaluation, rule: Rule) -> Collection[str]:
    """Print the runs of an evaluation, and its messages; return the remarks that a leaderboard would repeat."""
    from medhelm.results.runs.counted import counted_runs
    from medhelm.results.runs.view import completion_notes, runs_as_json, runs_table

    shown: Sequence[Run] = counted_runs(done.runs)
    if shared.json:
        print_json(runs_as_json(shown, rule, cost_usd=done.cost_usd, seconds=done.seconds))
    else:
        from medhelm.results.runs.selection import names_in, renamed

        names = names_in(("", run) for run in shown)
        shown = [renamed(run, names) for run in shown]
        click.echo(runs_table(shown, rule))
    for message in done.messages:
        click.echo(f"medhelm: {message}", err=True)
    return completion_notes(shown)


def _find_models(shared: Shared, names: Sequence[str]) -> list[Model]:
    """Return the models of these names. Raises: UserError."""
    from medhelm.models.catalog import find_models

    return find_models(names, file=shared.models_file, environment=shared.environment, note=warn)


def _find_all(
    shared: Shared,
    names: Sequence[str],
    inputs: RunInputs,
    judging: JuryOptions | None,
    settings: Settings,
    errors: ErrorCollector,
) -> tuple[Jury | None, list[Benchmark], list[Model]]:
    """Return the jury, the benchmarks and the models of a run; collect the problems of all."""
    from medhelm.io.http.client import import_early

    with errors.collect():
        check_names(names, inputs.like, settings)
    jury = find_jury(shared, judging, errors, inputs.models) if judging else None
    models = errors.found(lambda some: _find_models(shared, some), inputs.models)
    if any(model.base_url for model in models):
        import_early()
    benchmarks = errors.found(lambda some: load(shared, some), names)
    with errors.collect():
        check_rubric(benchmarks, settings.rubric, jury, inputs.like)
    return jury, benchmarks, models


# --- plan and power ---------------------------------------------------------------------------------------------------
# The cost of a run, and the differences that it can detect.


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
    inputs: RunInputs,
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

    errors = ErrorCollector()
    jury, benchmarks, found = _find_all(shared, names, inputs, judging, settings, errors)
    note_jury(shared, jury, found, benchmarks if names else None)
    datasets: list[Dataset] = []
    with errors.collect():
        datasets = _open_like(shared, inputs.like, settings.limit)
    forecast = make_plan(
        benchmarks,
        found,
        _setup(shared, replace(settings, offline=shared.offline)),
        jury=jury,
        datasets=datasets,
        books=read_price_books(prices),
        errors=errors,
    )
    return print_plan(forecast, format_)


def print_plan(forecast: CostPlan, format_: str) -> int:
    """Print what a command would send and cost; return its exit code."""
    from medhelm.results import plan as plan_report

    if format_ == "json":
        print_json(plan_report.plan_as_json(forecast))
    else:
        click.echo(plan_report.plan_table(forecast, format_), nl=False)
        print_remarks(plan_report.remarks(forecast), format_)
    for text in [*(forecast.warnings if format_ == "json" else ()), *plan_report.missing(forecast)]:
        click.echo(f"medhelm: {text}", err=True)
    return 4 if forecast.is_missing_something else 0


def _open_like(shared: Shared, like: tuple[Path, ...], limit: int | None) -> list[Dataset]:
    """Open the instances of imported runs. Raises: UserError."""
    from medhelm.io.folders import temporary_folder
    from medhelm.storage.store import create, open_store

    if not like:
        return []
    # A plan does not write to the store: the instances go to a temporary folder, encrypted if the store is.
    if (shared.store / "store.json").exists():
        open_store(shared.store)
    with temporary_folder() as work:
        return open_like(shared, like, create(work.path / "store"), limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOptions:
    """Options of `medhelm power`: the design of the test, and the noise without a store."""

    difference: float | None = option(
        "--difference",
        "True difference to detect, on a scale from 0 (worst) to 1 (best).",
        metavar="D",
        above=0,
        most=1,
    )
    power: float = option("--power", "Probability of detecting the difference.", 0.8, metavar="P", above=0, below=1)
    alpha: float = option("--alpha", "Significance level (false-positive rate).", 0.05, metavar="P", above=0, below=1)
    pairs: int = option(
        "--pairs", "Number of comparisons that share --alpha, such as 36 for all pairs of 9 models.", 1, least=1
    )
    disagreement: float | None = option(
        "--disagreement",
        "Without a store, scores of 0 and 1: share of instances that only one of the models gets right.",
        metavar="P",
        above=0,
        most=1,
    )
    sd: float | None = option(
        "--sd",
        "Without a store, other scores: standard deviation of the paired differences, on a scale from 0 to 1.",
        metavar="SD",
        above=0,
        most=1,
    )
    instances: int | None = option("--instances", "Without a store: number of instances.", least=1)
    design_effect: float = option(
        "--design-effect",
        "Without a store: factor by which clustering increases the variance.",
        1.0,
        metavar="FACTOR",
        above=0,
    )


@click.command()
@click.argument("models", metavar="[MODEL_A MODEL_B]", nargs=-1, shell_complete=shell_completion.stored_models)
@options_of(PowerOptions, "asked")
@options_of(BoardOptions, "options", "suite", "wanted", "tier", "rule")
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def power(
    shared: Shared,
    /,
    models: tuple[str, ...],
    asked: PowerOptions,
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

    design = PowerDesign(power=asked.power, alpha=asked.alpha, comparisons=asked.pairs)
    if asked.disagreement is not None or asked.sd is not None:
        if not options.wanted.is_empty:
            raise UserError(f"{FILTER_FLAGS} need a store. Leave out --disagreement and --sd.")
        _calculate(models, asked, design, format_)
        return 0
    if asked.instances is not None or asked.design_effect != 1:
        raise UserError("--instances and --design-effect need --disagreement or --sd; in a store they are measured.")
    if len(models) not in (0, 2):
        raise UserError(f"cannot compare {', '.join(models)}: name two models, or none for all pairs.")
    from medhelm.results.comparison import measure_power
    from medhelm.results.plan import power_as_json, power_tables

    found = measure_power(
        shared.all_stores,
        models,
        board_options(shared, options, format_),
        design=design,
        difference=asked.difference,
    )
    if format_ == "json":
        print_json(power_as_json(found))
    else:
        click.echo("\n".join(power_tables(found, format_)), nl=False)
    return 0


def _calculate(models: tuple[str, ...], asked: PowerOptions, design: PowerDesign, format_: str) -> None:
    """Print the power or sample size for given noise, without a store."""
    difference, disagreement = asked.difference, asked.disagreement
    if models or (disagreement is not None and asked.sd is not None):
        raise UserError("--disagreement, --sd and names of models cannot be combined: use one of them.")
    from medhelm.analysis.comparison.power import Noise
    from medhelm.results.plan import calculated

    if difference is None and asked.instances is None:
        raise UserError(
            "give --difference to get the number of instances it needs, --instances to get the difference they detect, "
            "or both to get the power."
        )
    if difference is not None and disagreement is not None and difference > disagreement:
        raise UserError(
            f"--difference {difference:g} is impossible: models that disagree on {disagreement:g} differ by no more."
        )
    noise = Noise(sd=asked.sd, disagreement=disagreement, design_effect=asked.design_effect)
    content, sentences = calculated(noise, design, difference=difference, instances=asked.instances)
    if format_ == "json":
        print_json(content)
    else:
        click.echo("\n".join(sentences))


# --- rejudge and rescore ----------------------------------------------------------------------------------------------
# New scores for stored completions.

_MODELS = click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    shell_complete=shell_completion.stored_models,
    help="Only runs of this model; repeatable.",
)


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@options_of(JuryOptions, "judging")
@options_of(JuryChange, "change")
@_MODELS
@click.option("--dry-run", is_flag=True, help="Show what would be sent and cost, and send nothing.")
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
    change: JuryChange,
    models: tuple[str, ...],
    dry_run: bool,
    rule: Rule,
    settings: Settings,
) -> int:
    """Grade stored completions with other judges.

    Adds the named judges to the earlier ones, whose judgments are kept. Completions are not generated again. The
    default is all benchmarks with free-text completions. With --perturb or --repeat, the earlier judges, or those of
    them that are named, grade the same completions again; `medhelm jury --robustness` compares their grades.

    \b
    Examples:
      medhelm rejudge --judge openai/NEW
      medhelm rejudge aci_bench --judge openai/NEW --without openai/OLD
      medhelm rejudge aci_bench --perturb padding,criteria_order --repeat 3
    """
    from medhelm.evaluation.rescore import judged_only

    jury = find_judges(shared, replace(judging, min_judges=None), quiet=not change.only)
    if change.measures_judges and (change.only or change.rubric or judging.min_judges):
        raise UserError(
            "--perturb and --repeat measure the judges of stored runs by their rubric: leave out --only, --rubric and "
            "--min-judges. Nothing was sent."
        )
    if jury is None and not change.measures_judges:
        raise UserError("no judges were given. Name them with --judge or --jury. Nothing was sent.")
    benchmarks = _load_stored(shared, names)
    if names and (closed := sorted({b.name for b in benchmarks} - {b.name for b in judged_only(benchmarks)})):
        raise UserError(f"{', '.join(closed)} cannot be judged: its metrics compare completions with references.")
    if change.only:
        note_jury(shared, jury, (), None)
    change = replace(change, judges=jury.judges if jury else (), at_least=judging.min_judges)
    if dry_run:
        from medhelm.evaluation.rescore import plan_rejudging

        setup = _setup(shared, replace(settings, offline=shared.offline))
        plan = plan_rejudging(judged_only(benchmarks), change, setup, models)
        return print_plan(plan, "json" if shared.json else "table")
    return _rejudge_and_print(shared, judged_only(benchmarks), change, models, rule, settings)


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@option_from(JuryChange, "without")
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
    change = JuryChange(without=without, at_least=min_judges)
    return _rejudge_and_print(shared, _load_stored(shared, names), change, models, rule, settings)


def _load_stored(shared: Shared, names: Sequence[str]) -> list[Benchmark]:
    """Load the named benchmarks, or all benchmarks with stored runs whose definition is known here."""
    from medhelm.evaluation.rescore import unknown_benchmarks
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
        return load(shared, names, of_stores=True, as_run=False)
    except UserError:
        if are_named:
            raise
        found: list[Benchmark] = []
        missing: list[str] = []
        for name in names:
            try:
                found += load(shared, [name], of_stores=True, as_run=False)
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
    from medhelm.cli.progress import progress_listener
    from medhelm.evaluation.rescore import rejudge as judge_again

    with progress_listener(shared) as listener:
        setup = _setup(shared, replace(settings, offline=shared.offline), listener)
        done = judge_again(benchmarks, change, setup, models)
    print_runs(shared, done, rule)
    return done.exit_code


# --- batches ----------------------------------------------------------------------------------------------------------


@click.command()
@format_option
@table_options
@shared_options("store", "json")
@click.pass_obj
def batches(shared: Shared, format_: str) -> int:
    """List batches that are not collected yet.

    Sends nothing. To collect a batch and delete it at the provider, repeat the command that submitted it, with --batch.

    \b
    Example:
      medhelm batches --store STORE
    """
    from medhelm.results.runs.view import batches_as_json, batches_table
    from medhelm.storage.store import open_store
    from medhelm.storage.unfinished import Batches

    found = [batch for batch in Batches(open_store(shared.store)).all() if batch.state != "deleted"]
    if format_ == "json":
        print_json(batches_as_json(found))
    elif found:
        click.echo(batches_table(found, format_), nl=False)
    else:
        click.echo("no batch is pending")
    if any(batch.state == "collected" for batch in found):
        click.echo(
            "collected: the completions are in the store, but the provider still holds requests and completions. To "
            "delete them there, repeat the command with --batch and without --keep-batches.",
            err=True,
        )
    return 0
