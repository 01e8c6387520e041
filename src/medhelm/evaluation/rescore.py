"""New numbers from stored completions: other judges, or other metrics, and no completion is bought again.

It is the same road as an evaluation, with runs that are stored in the place of models, and with their judges' stored
replies in the place of judges that are not asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import JURY, Benchmark, Jury, Model, Run, Tier
from medhelm.errors import UserError, suggestion
from medhelm.evaluation.evaluate import run_in_event_loop
from medhelm.evaluation.imported.datasets import is_imported, stored_dataset
from medhelm.evaluation.preparation import check_models, open_datasets, with_prices
from medhelm.evaluation.run_recorder import NullListener, ProgressListener
from medhelm.evaluation.runner import EvaluationRunner
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.evaluation.stored_completions import StoredCompletions
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.runs import load_runs, read_messages
from medhelm.storage.store import Store, create


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryChange:
    """How the jury of stored runs changes."""

    judges: tuple[Model, ...] = ()
    """Judges to be asked, whether they judged before or not."""
    only: bool = False
    """Whether they take the place of all judges there were."""
    without: Collection[str] = ()
    """Judges there were that no longer count."""
    at_least: int | None = None
    """Complete judges that an instance needs; None: as before, or two, or one of one."""

    def applied(self, old: Jury | None) -> Jury | None:
        """The jury that comes of it; None if nobody is left. Raises: UserError if it is too small."""
        named = {judge.name for judge in self.judges}
        before = old.judges if old and not self.only else ()
        kept = [judge for judge in before if judge.name not in named and judge.name not in self.without]
        judges = (*kept, *self.judges)
        if not judges:
            return None
        if self.at_least is not None and self.at_least > len(judges):
            names = ", ".join(judge.name for judge in judges)
            raise UserError(f"an instance cannot need {self.at_least} of {len(judges)} judges ({names}).")
        usual = old.min_judges if old and not self.only else 2
        return Jury(judges=judges, min_judges=min(self.at_least or usual, len(judges)))


def rejudge(
    benchmarks: Sequence[Benchmark],
    change: JuryChange,
    *,
    store: Path,
    models: Collection[str] = (),
    data: Path | None = None,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
    listener: ProgressListener | None = None,
) -> Evaluation:
    """Score the stored completions of these benchmarks again, with the jury that `change` makes of each run's.

    Parameters: benchmarks, as they are defined now; models, names of those whose runs count, none for all; settings,
    of which only limits on time, money and requests count: what is asked was settled by the runs.
    Raises: UserError if there is nothing to score, or if data or prompts are no longer those of the runs; MissingError
    for keys or data that are missing. Nothing is sent before that.
    """
    settings, environment = settings or Settings(), environment or {}
    place = create(store)
    chosen = _latest(load_runs(place), {benchmark.name for benchmark in benchmarks}, models)
    if not chosen:
        raise UserError(_nothing(load_runs(place), benchmarks, models))
    change = replace(change, judges=tuple(with_prices(change.judges)))
    check_models(change.judges, settings, environment)
    return rescored(
        chosen,
        benchmarks,
        change,
        source=place,
        target=place,
        data=data,
        settings=settings,
        environment=environment,
        listener=listener,
    )


def rescored(
    runs: Iterable[Run],
    benchmarks: Sequence[Benchmark],
    change: JuryChange,
    *,
    source: Store,
    target: Store,
    data: Path | None,
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    listener: ProgressListener | None = None,
) -> Evaluation:
    """Score these runs of `source` again, and store what comes of it in `target`, which may be the same.

    Parameters: runs, one for each model, benchmark and tier; the rest as for `rejudge`.
    Raises: UserError if data or prompts are no longer those of the runs. Nothing is sent before that.
    """
    runs = list(runs)
    asked = {run.benchmark for run in runs}
    for benchmark in benchmarks:
        if benchmark.name in asked:  # metrics of packages are imported here, and what is wrong with them shows
            metrics_of(benchmark, judged=False, imported=True)
    roads = [
        _road(alike, benchmarks, change, (source, target), data, key.settings(settings), environment or {}, listener)
        for key, alike in _alike(runs, change).items()
    ]
    return _together([run_in_event_loop(road) for road in roads])


@dataclass(frozen=True, slots=True)
class _Kind:
    """What runs have in common that are scored on one road."""

    tier: Tier
    sample: str
    limit: int | None
    seed: int
    jury: tuple[str, ...]
    at_least: int
    asked: str = ""
    """What was asked, where that was read from the files of another harness."""
    copy: int = 0
    """Runs of one model on the same questions are scored one after another."""

    def settings(self, given: Settings) -> Settings:
        """The settings under which such runs were made."""
        return replace(given, tier=self.tier, sample=self.sample, limit=self.limit, seed=self.seed)


def _alike(runs: Iterable[Run], change: JuryChange) -> dict[_Kind, list[Run]]:
    found: dict[_Kind, list[Run]] = {}
    for run in runs:
        chosen, jury = run.settings, change.applied(run.jury_result.jury if run.jury_result else None)
        names = tuple(judge.name for judge in jury.judges) if jury else ()
        kind = _Kind(
            run.tier,
            chosen.get("sample", "default"),
            chosen.get("limit"),
            chosen.get("seed", 0),
            names,
            jury.min_judges if jury else 0,
            f"{run.benchmark} {run.data_digest}" if is_imported(run) else "",
        )
        while any((run.model, run.benchmark) == (other.model, other.benchmark) for other in found.get(kind, ())):
            kind = replace(kind, copy=kind.copy + 1)
        found.setdefault(kind, []).append(run)
    return found


def _latest(runs: Iterable[Run], benchmarks: Collection[str], models: Collection[str]) -> list[Run]:
    """One run for each model, benchmark and tier, and each run of another harness.

    That with the most instances answered, of equals the latest.

    A run that was stopped on the way does not count: its instances without a completion would come out as failures.
    """
    found: dict[tuple[object, ...], Run] = {}
    for run in sorted(runs, key=lambda run: (run.n - run.n_failed, run.jury_result is not None, run.started)):
        if run.status == "complete" and run.benchmark in benchmarks and (not models or run.model in models):
            where = (run.origin.harness, run.origin.run, run.origin.completions_made_here) if run.origin else ()
            found[run.model, run.benchmark, run.tier, *where] = run
    return list(found.values())


def _nothing(runs: Iterable[Run], benchmarks: Sequence[Benchmark], models: Collection[str]) -> str:
    known = sorted({run.model for run in runs})
    unknown = [f"no run of `{name}`. {suggestion(name, known)}".rstrip() for name in models if name not in known]
    names = ", ".join(benchmark.name for benchmark in benchmarks)
    return "\n".join(unknown) or f"the store has no finished run of {names}. `medhelm run` makes some."


def _road(
    runs: Sequence[Run],
    benchmarks: Sequence[Benchmark],
    change: JuryChange,
    stores: tuple[Store, Store],
    data: Path | None,
    settings: Settings,
    environment: Mapping[str, str],
    listener: ProgressListener | None,
) -> EvaluationRunner:
    """The road for runs of one kind, checked. `stores`: where they are read, and where what comes of them goes."""
    source, target = stores
    old = runs[0].jury_result.jury if runs[0].jury_result else None
    jury = change.applied(old)
    named = {judge.name for judge in change.judges}
    kept = [judge.name for judge in jury.judges if judge.name not in named] if jury else []
    names = {run.benchmark for run in runs}
    wanted = [benchmark for benchmark in benchmarks if benchmark.name in names]
    if is_imported(runs[0]):
        library = {benchmark.name: benchmark for benchmark in wanted}
        datasets = [stored_dataset(runs, library, source, data=data, limit=settings.limit)]
    else:
        datasets = open_datasets(wanted, data, settings)
    stale = [words for dataset in datasets for run in runs if (words := _stale(run, dataset, source))]
    if stale:
        raise UserError("\n".join([*stale, "Nothing was sent."]))
    models = list({run.model: _model(run) for run in runs}.values())
    return EvaluationRunner(
        datasets, models, target, settings, environment, listener or NullListener(), jury, StoredCompletions(runs, kept)
    )


def _model(run: Run) -> Model:
    """The model of a run as it was reached then."""
    provider, _, name = run.model.partition("/")
    return run.resolved_model or Model(name=run.model, provider=provider, remote_name=name)


def _stale(run: Run, dataset: Dataset, store: Store) -> str:
    """Why the completions of a run are no answers to the benchmark as it is now; empty if they are."""
    benchmark = dataset.benchmark
    if run.benchmark != benchmark.name:
        return ""
    what = f"{benchmark.name} with {run.model}: "
    if run.data_digest != dataset.digest:
        return what + "the data is not what it was when the completions were made. Give the data of then, or run again."
    if run.benchmark_digest == benchmark.digest:
        return ""
    stored = read_messages(store.prompts_file(benchmark.name, run.benchmark_digest, run.data_digest))
    if not stored:
        return what + "the definition has changed, and the prompts of then are not stored. Run it again."
    for instance in dataset:
        now = [{"role": message.role, "content": message.text} for message in render(benchmark, instance).messages]
        if stored.get(instance.id) != now:
            return what + f"the prompt has changed since (instance {instance.id}). Run it again."
    return ""


def _together(parts: Sequence[Evaluation]) -> Evaluation:
    """Several evaluations as one."""
    return Evaluation(
        runs=tuple(run for part in parts for run in part.runs),
        stopped=next((part.stopped for part in parts if part.stopped), ""),
        messages=tuple(dict.fromkeys(message for part in parts for message in part.messages)),
        cost_usd=fsum(part.cost_usd for part in parts),
        seconds=round(fsum(part.seconds for part in parts), 3),
    )


def judged_only(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """Those that judges are for."""
    return [benchmark for benchmark in benchmarks if JURY in benchmark.metrics]
