"""Decide which runs of an evaluation are fresh: their completions are not older than a start time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Model, Run
from medhelm.evaluation.requests import name_in_run, run_settings
from medhelm.evaluation.settings import Settings
from medhelm.models.providers import answers_in_process
from medhelm.storage.store import Store
from medhelm.storage.unfinished import RunKey, finish, interrupted_start, latest_start, start_all


@dataclass(frozen=True, slots=True)
class FreshRuns:
    """The fresh runs of an evaluation.

    With `--fresh`, all runs of models that are called. Without it, those whose latest complete run was fresh: the
    same command again then finds that run's completions, not older ones.
    """

    store: Store | None
    starts: Mapping[tuple[str, str], str]
    """Name of the model in the run, and benchmark -> start of the fresh run, ISO 8601."""

    def start_of(self, model: Model, dataset: Dataset) -> str:
        """Return the start of a fresh run; empty if completions of any age will do."""
        return self.starts.get((name_in_run(dataset.settings, model), dataset.benchmark.name), "")

    def ended(self, runs: Sequence[Run]) -> None:
        """Note that the evaluation ended with these runs.

        Not before: an evaluation that is interrupted continues those that were complete, too, and buys nothing twice.
        """
        for run in runs:
            if self.store and run.fresh:
                finish(self.store, run)


def open_fresh_runs(
    store: Store,
    datasets: Sequence[Dataset],
    models: Sequence[Model],
    settings: Settings,
    note: Callable[[str], object],
) -> FreshRuns:
    """Start the fresh runs of an evaluation, or find the earlier ones that it repeats. Raises: StoreError."""
    keys = _keys(datasets, models, settings)
    if not settings.fresh:
        return FreshRuns(store, {pair: start for pair, key in keys.items() if (start := latest_start(store, key))})
    now = datetime.now(UTC)
    starts = start_all(store, list(keys.values()), now)
    for (model, benchmark), key in keys.items():
        if datetime.fromisoformat(starts[key]) < now.replace(microsecond=now.microsecond // 1000 * 1000):
            began = starts[key][:16].replace("T", " ")
            note(f"{benchmark} with {model}: continues the fresh run that began at {began} UTC and was interrupted")
    return FreshRuns(store, {pair: starts[key] for pair, key in keys.items()})


def expected_fresh_runs(
    store: Store | None, datasets: Sequence[Dataset], models: Sequence[Model], settings: Settings
) -> FreshRuns:
    """Return the fresh runs that an evaluation would have. Writes nothing."""
    if store is None:
        return FreshRuns(None, {})
    now = datetime.now(UTC)
    starts = {}
    for pair, key in _keys(datasets, models, settings).items():
        if settings.fresh:
            starts[pair] = interrupted_start(store, key, now) or now.isoformat(timespec="milliseconds")
        elif start := latest_start(store, key):
            starts[pair] = start
    return FreshRuns(store, starts)


def _keys(datasets: Sequence[Dataset], models: Sequence[Model], settings: Settings) -> dict[tuple[str, str], RunKey]:
    """Return the key of each run whose model is called; baselines and replayed files have no age."""
    return {
        (name := name_in_run(dataset.settings, model), dataset.benchmark.name): RunKey.of(
            dataset.benchmark.name, name, dataset.tier, model.digest, run_settings(dataset, model, settings)
        )
        for model in models
        if not answers_in_process(model.provider)
        for dataset in datasets
    }
