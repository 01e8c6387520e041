"""Runs with the numbers of the leaderboard: failures that the model caused count as the worst answer.

`run.json` holds the means over the instances that did not fail, by both rules. Everything that shows a run counts its
failures here first, so that a run, a list of runs and the leaderboard have one number by the corrected rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from medhelm.domain import Estimate, Run
from medhelm.domain.completion import CAUSED_BY_MODEL
from medhelm.domain.run import RunOnDisk
from medhelm.errors import StoreError
from medhelm.evaluation.settings import Evaluation
from medhelm.results.formats.tables import ObjectView
from medhelm.results.runs import view as report
from medhelm.storage.run_scores import RunScores, read_all, read_scores
from medhelm.storage.runs import read_columns

_T = TypeVar("_T")


def counted_runs(runs: Iterable[Run], *, every_metric: bool = True) -> list[Run]:
    """Return the runs with failures counted in their estimates by the corrected rule, in the same order.

    A run whose records cannot be read keeps its estimates. `every_metric`: False to count in the main metric only, of
    which many runs are read at once.
    """
    runs = list(runs)
    affected = [run for run in runs if run.folder and not CAUSED_BY_MODEL.isdisjoint(run.failures)]
    affected.sort(key=lambda run: run.benchmark)
    counted = {id(run): _counted(run, scored, every_metric) for run, scored in _scores_of(affected)}
    return [counted.get(id(run), run) for run in runs]


def counted_run(run: Run) -> Run:
    """Return a run with failures counted in its estimates by the corrected rule."""
    return counted_runs([run])[0]


def counted_on_disk(found: Sequence[RunOnDisk], *, every_metric: bool = False) -> list[RunOnDisk]:
    """Return stored runs with failures counted in the estimates of those that are whole."""
    whole = [one.run for one in found if one.run and not one.problem]
    counted = dict(zip(map(id, whole), counted_runs(whole, every_metric=every_metric), strict=True))
    return [replace(one, run=counted[id(one.run)]) if id(one.run) in counted else one for one in found]


def _scores_of(runs: Sequence[Run]) -> list[tuple[Run, RunScores]]:
    """Return runs with their scores; those whose records cannot be read are left out."""
    with suppress(StoreError):
        return list(read_all(runs, "corrected"))
    found: list[tuple[Run, RunScores]] = []
    for run in runs:
        with suppress(StoreError):
            found += read_all([run], "corrected")
    return found


def _counted(run: Run, scored: RunScores, every_metric: bool) -> Run:
    """Return a run with failures counted. `scored`: its scores by the main metric."""
    from medhelm.results.runs.cells import cell_of, column_of  # lazy here and below: few runs have such failures

    own = run.estimates.get("corrected", {})
    counted: dict[str, Estimate] = {}
    for metric, scores in _scores_by_metric(run, scored, every_metric).items():
        if metric not in own and run.n_failed < run.n:  # it could not be computed, of no completion
            continue
        one = replace(run, main_metric=metric)
        column = column_of(one, None, "corrected")
        if not (math.isfinite(column.low) and math.isfinite(column.high)):
            continue
        cell = cell_of(run.model, one, column, scores, rule="corrected", as_worst=True)
        if cell.n_failed_by_model and cell.estimate:
            counted[metric] = cell.estimate
    return replace(
        run,
        estimates={**run.estimates, "corrected": {**own, **counted}},
        completers={metric: own[metric] for metric in counted if metric in own},
        groups=_counted_groups(run, scored) if every_metric and run.groups else run.groups,
    )


def _counted_groups(run: Run, scored: RunScores) -> dict[str, dict[str, float | None]]:
    """Return the means of the main metric by group, with failures counted by the corrected rule.

    `completers` is the mean without these failures.
    """
    from medhelm.results.runs.cells import column_of, subgroup_means

    column = column_of(run, None, "corrected")
    means = subgroup_means(run, scored, read_columns(run, ["group"])["group"], column, "corrected")
    found = {name: dict(own) for name, own in run.groups.items()}
    for name, mean in means.items():
        if mean and name in found and mean.value != found[name].get("corrected"):
            found[name] |= {"corrected": mean.value, "completers": found[name].get("corrected")}
    return found


def _scores_by_metric(run: Run, scored: RunScores, every_metric: bool) -> Mapping[str, RunScores]:
    """Return the scores of a run by its main metric, or by every metric."""
    metrics = run.estimates.get("corrected", {}) if every_metric else ()
    others = {name: read_scores(run, name, "corrected") for name in metrics if name != run.main_metric}
    return {run.main_metric: scored, **others}


def _counting(view: ObjectView[_T], count: Callable[[_T], _T]) -> ObjectView[_T]:
    """Return a view that counts failures before it shows anything."""
    return ObjectView(
        summary=lambda shown: view.summary(count(shown)),
        table=lambda shown, format: view.table(count(shown), format),
        as_json=lambda shown: view.as_json(count(shown)),
        columns=lambda shown, by: view.columns(count(shown), by),
        verdict=lambda shown: view.verdict(count(shown)),
        remarks=lambda shown: view.remarks(count(shown)),
    )


RUN_VIEW = _counting(report.RUN_VIEW, counted_run)
"""A run in Python."""

RUNS_VIEW: ObjectView[Sequence[Run]] = _counting(report.RUNS_VIEW, counted_runs)
"""Runs of a store in Python."""

EVALUATION_VIEW: ObjectView[Evaluation] = _counting(
    report.EVALUATION_VIEW, lambda done: replace(done, runs=tuple(counted_runs(done.runs)))
)
"""An evaluation in Python."""
