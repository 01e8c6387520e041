"""Select one run per model and benchmark, so that only results of the same measurement are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medhelm.domain import JURY, Run, Tier
from medhelm.domain.grouping import group_by
from medhelm.domain.remark import LeftOut
from medhelm.models.model_names import plain_name
from medhelm.results.comparable.conditions import (
    Candidate,
    Conditions,
    ConditionsComparison,
    Difference,
    conditions_of,
)
from medhelm.results.comparable.left_out import RunGroup, is_current, left_out


@dataclass(frozen=True, slots=True)
class SelectedRuns:
    """One run for each model and benchmark, measured in the same way on each benchmark."""

    runs: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the selected run."""
    unfinished: Sequence[str]
    """Interrupted runs without a finished run of the same model and benchmark, such as `medec with MODEL (6 of 10)`."""
    left_out: Sequence[LeftOut]
    """Models that do not count on a benchmark, because they were measured under other conditions."""


def select_runs(found: Iterable[tuple[str, Run]], *, comparable_only: bool = True) -> SelectedRuns:
    """Select the runs to compare.

    On each benchmark the runs that count were measured under the same conditions: metric, jury, instances, prompts,
    references, definition and sampling. A jury comes before other metrics if it gave any score. Among groups of runs
    under equal conditions, the one with the most models counts, then the most instances, then the latest; baselines do
    not decide. If a model has more than one run in that group, the one with the most instances counts, then the latest.

    Parameters
    ----------
    found : iterable of (str, Run)
        Each run with the label that distinguishes its model from the same model in another store.
    comparable_only : bool
        False if only metric and jury must be equal, as on leaderboards released before there were other conditions.
    """
    complete: dict[str, list[Candidate]] = {}
    unfinished: dict[tuple[str, str], str] = {}
    for label, run in sorted(found, key=lambda pair: (pair[1].n, pair[1].fresh, pair[1].started)):
        if run.is_complete:
            conditions = conditions_of(run, comparable_only=comparable_only)
            store = str(run.folder.parents[2]) if label and run.folder else ""
            complete.setdefault(run.benchmark, []).append(Candidate(run.model + label, run, conditions, store))
        else:
            text = f"{run.benchmark} with {run.model}{label} ({run.n - run.n_failed} of {run.n})"
            unfinished[run.model + label, run.benchmark] = text
    runs: dict[tuple[str, str], Run] = {}
    excluded: list[LeftOut] = []
    for benchmark, candidates in complete.items():
        comparison = ConditionsComparison(one.run for one in candidates)
        chosen = _best_conditions(candidates, comparison, comparable_only=comparable_only)
        own = {one.model: one.run for one in candidates if not comparison.differences(one.conditions, chosen)}
        runs |= {(model, benchmark): run for model, run in own.items()}
        excluded += _describe_left_out(candidates, chosen, own, comparison)
    return SelectedRuns(runs, [text for key, text in unfinished.items() if key not in runs], excluded)


def _best_conditions(
    candidates: Sequence[Candidate], comparison: ConditionsComparison, *, comparable_only: bool
) -> Conditions:
    """Return the conditions of the runs that count on a benchmark; see `select_runs`."""
    by_conditions = group_by(candidates, lambda one: one.conditions)
    if len(by_conditions) == 1:
        return next(iter(by_conditions))
    by_contestants = comparable_only and any(one.is_contestant and _is_scored(one.run) for one in candidates)

    def rank(kind: Conditions) -> tuple[Any, ...]:
        alike = [one for own, rest in by_conditions.items() if not comparison.differences(own, kind) for one in rest]
        is_scored = any(_is_scored(one.run) for one in alike)
        counted = [one for one in alike if one.is_contestant or not by_contestants]
        n_models = len({one.model for one in counted})
        size = max((one.run.n for one in counted if one.conditions.content == kind.content), default=0)
        latest = max((one.run.started for one in counted), default="")
        return is_scored, kind.metric == JURY, n_models, size if comparable_only else 0, latest

    kinds = _possible_conditions(by_conditions, comparison, candidates) if comparable_only else set(by_conditions)
    return max(sorted(kinds, key=repr), key=rank)


def _possible_conditions(
    found: Iterable[Conditions], comparison: ConditionsComparison, candidates: Sequence[Candidate]
) -> set[Conditions]:
    """Return the conditions that a group can have: known ones, those of baselines only if no model has a score."""
    every = list(found)
    known = [one for one in every if comparison.is_known(one)] or every
    of_models = {one.conditions for one in candidates if one.is_contestant and _is_scored(one.run)}
    prompted = of_models & set(known) or set(known)
    temperatures = {one.temperature for one in every} - {None} or {None}
    limits = {one.max_tokens for one in every} - {None} or {None}
    return {
        replace(one, temperature=temperature, max_tokens=limit)
        for one in prompted
        for temperature in (temperatures if one.temperature is None else {one.temperature})
        for limit in (limits if one.max_tokens is None else {one.max_tokens})
    }


def _is_scored(run: Run) -> bool:
    """Return whether the main metric has a value; the published rule gives one to completions without a judgment."""
    return any(
        run.main_metric in by_metric
        for rule, by_metric in run.estimates.items()
        if rule == "corrected" or run.main_metric != JURY
    )


def _describe_left_out(
    candidates: Sequence[Candidate], chosen: Conditions, own: Mapping[str, Run], comparison: ConditionsComparison
) -> list[LeftOut]:
    """Describe the models without a run under the chosen conditions, by name; of each the run that differs least."""
    others = group_by((one for one in candidates if one.model not in own), lambda one: one.model)
    if not others:
        return []
    group = RunGroup(chosen, own, is_current(chosen, own.values(), candidates, comparison))

    def differences(one: Candidate) -> tuple[Difference, ...]:
        return comparison.differences(one.conditions, chosen)

    # Candidates are in order of time: of equals the latest.
    nearest = [min(reversed(runs), key=lambda one: len(differences(one))) for _, runs in sorted(others.items())]
    return [left_out(one, group, differences(one)) for one in nearest]


def default_tier(runs: Iterable[Run]) -> Tier:
    """Return the tier of the runs that count: real data, or the sample rows if there is nothing else."""
    return "real" if any(run.tier == "real" for run in runs) else "sample"


def judges_under_test(runs: Iterable[Run]) -> list[str]:
    """Return the judges of these runs whose own completions are judged in one of them, compared by remote names."""
    judged = [run for run in runs if run.jury_result]
    tested = {plain_name(run.resolved_model.remote_name if run.resolved_model else run.model) for run in judged}
    judges = {judge.name: judge for run in judged for judge in run.judges}
    return [name for name, judge in judges.items() if plain_name(judge.remote_name) in tested]


def store_label(path: Path, stores: Sequence[Path]) -> str:
    """Return the suffix that distinguishes models of this store from those of others; empty for a single store."""
    return f" [{path.name or path}]" if len(stores) > 1 else ""
