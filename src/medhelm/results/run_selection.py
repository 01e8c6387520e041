"""Select one run per model and benchmark, so that only results of the same measurement are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain import JURY, Remark, Run
from medhelm.models.model_names import plain_name

Measurement = tuple[str, tuple[str, ...], int]
"""Main metric, judges, and how many of them an instance needs: results with different ones are not comparable."""


@dataclass(frozen=True, slots=True)
class SelectedRuns:
    """One run for each model and benchmark, measured in the same way on each benchmark."""

    runs: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the selected run."""
    unfinished: Sequence[str]
    """Interrupted runs without a finished run of the same model and benchmark, such as `medec with MODEL (6 of 10)`."""
    excluded: Sequence[Remark]
    """Models left out of a benchmark because they were measured differently, and the command that fixes it."""


def select_runs(found: Iterable[tuple[str, Run]]) -> SelectedRuns:
    """Select the runs to compare.

    A benchmark uses a jury if one gave any score; of several juries the one of the most models, then the latest. Of
    several runs of a model the one with the most instances is selected, then the latest.

    Parameters
    ----------
    found : iterable of (str, Run)
        Each run with the label that distinguishes its model from the same model in another store.
    """
    complete: dict[str, list[tuple[str, Run]]] = {}
    unfinished: dict[tuple[str, str], str] = {}
    for label, run in sorted(found, key=lambda pair: (pair[1].n, pair[1].started)):
        if run.status == "complete":
            complete.setdefault(run.benchmark, []).append((run.model + label, run))
        else:
            text = f"{run.benchmark} with {run.model}{label} ({run.n - run.n_failed} of {run.n})"
            unfinished[run.model + label, run.benchmark] = text
    runs: dict[tuple[str, str], Run] = {}
    excluded = []
    for benchmark, candidates in complete.items():
        measurement = _best_measurement(candidates)
        own = {model: run for model, run in candidates if measurement_of(run) == measurement}
        runs |= {(model, benchmark): run for model, run in own.items()}
        if others := sorted({model for model, _ in candidates} - set(own)):
            excluded.append(_excluded(benchmark, measurement, others))
    return SelectedRuns(runs, [text for key, text in unfinished.items() if key not in runs], excluded)


def measurement_of(run: Run) -> Measurement:
    """Return the metric and the jury that a run was measured with."""
    if run.main_metric != JURY or run.jury_result is None:
        return run.main_metric, (), 0
    jury = run.jury_result.jury
    return run.main_metric, tuple(sorted(judge.name for judge in jury.judges)), jury.min_judges


def _best_measurement(candidates: Sequence[tuple[str, Run]]) -> Measurement:
    """Return the measurement that a benchmark uses."""
    n_models = Counter(kind for kind, _ in {(measurement_of(run), model) for model, run in candidates})
    latest = {measurement_of(run): run.started for _, run in sorted(candidates, key=lambda pair: pair[1].started)}
    scored = {measurement_of(run) for _, run in candidates if _is_scored(run)}
    rank = {kind: (kind in scored, kind[0] == JURY, n_models[kind], latest[kind]) for kind in n_models}
    return max(sorted(rank), key=rank.__getitem__)


def _is_scored(run: Run) -> bool:
    """Return whether the main metric has any value."""
    return any(run.main_metric in by_metric for by_metric in run.estimates.values())


def _excluded(benchmark: str, measurement: Measurement, models: Sequence[str]) -> Remark:
    """Return a remark on models that were measured differently from the rest of a benchmark."""
    metric, judges, _ = measurement
    names = ", ".join(models)
    if metric != JURY:
        text = f"{benchmark} is scored by {metric}, which is not the main metric of {names}: not counted there."
        return Remark("measured_differently", benchmark, text)
    command = f"medhelm rejudge {benchmark} {' '.join(f'--judge {judge}' for judge in judges)}"
    text = f"{benchmark} is scored by a jury that did not judge {names}: not counted there. `{command}` adds them."
    return Remark("measured_differently", benchmark, text)


def judges_under_test(runs: Iterable[Run]) -> list[str]:
    """Return the judges of these runs whose own completions are judged in one of them, compared by remote names."""
    judged = [run for run in runs if run.jury_result]
    tested = {plain_name(run.resolved_model.remote_name if run.resolved_model else run.model) for run in judged}
    judges = {judge.name: judge for run in judged if run.jury_result for judge in run.jury_result.jury.judges}
    return [name for name, judge in judges.items() if plain_name(judge.remote_name) in tested]


def store_label(path: Path, stores: Sequence[Path]) -> str:
    """Return the suffix that distinguishes models of this store from those of others; empty for a single store."""
    return f" [{path.name or path}]" if len(stores) > 1 else ""


def suite_sort_key(order: Sequence[str], benchmark: str) -> tuple[int, str]:
    """Return a sort key: benchmarks of the suite in its order, then all others by name."""
    return (order.index(benchmark) if benchmark in order else len(order), benchmark)
