"""Scores of stored runs: cells and columns of a leaderboard, details by instance, and data frames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.means import Floats
from medhelm.analysis.planned_cost import RunUse
from medhelm.analysis.ratios import comparison_values, estimate_ratios, linearized
from medhelm.domain import (
    JURY,
    Completion,
    ConstantBaseline,
    Estimate,
    Instance,
    Parts,
    Reference,
    Rule,
    Run,
    Runs,
)
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import CAUSED_BY_MODEL
from medhelm.domain.run import counts_of
from medhelm.domain.text import AnyNames, AnyPaths, as_names, as_paths, metric_title, shortened
from medhelm.errors import StoreError, UserError, suggestion
from medhelm.results.spending import is_local, is_replayed
from medhelm.scoring.metric import Metric, apply, wrong_parts
from medhelm.scoring.metrics import METRICS
from medhelm.storage import judgments, runs
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.run_scores import CodedTexts, RunScores, read_all
from medhelm.storage.runs import prompts_path, read_columns, read_references
from medhelm.storage.store import Store, open_store, stored_folder

UNKNOWN = "unknown"
"""Category of a benchmark that is not in the catalog, such as one of another harness."""


def cell_of(model: str, run: Run, column: Column, scored: RunScores | None, *, rule: Rule, as_worst: bool) -> Cell:
    """Return a run as a cell. `as_worst`: True to count failures that the model caused as the worst answer."""
    found = run.estimates.get(rule, {}).get(run.main_metric)
    if found and not math.isfinite(found.value):
        found = None  # files of other harnesses can hold NaN
    cell = Cell(
        model=model,
        benchmark=run.benchmark,
        value=found.value if found else None,
        estimate=found,
        n_failed=found.n_failed if found else run.n_failed,
        ids=scored.ids if scored else (),
        scores=linearized(scored.values, scored.parts) if scored else None,
        tested=comparison_values(scored.values, scored.parts) if scored and scored.parts else None,
        parts=scored.parts if scored else None,
        clusters=scored.clusters if scored else None,
        cost_usd=run.cost_usd,
        use=_use(run, scored),
        completion_counts=counts_of(run),
        dates=(min(run.completion_days), max(run.completion_days)) if run.completion_days else None,
    )
    return _with_failures_as_worst(cell, run, column, scored, rule) if as_worst and scored else cell


def _use(run: Run, scored: RunScores | None) -> RunUse:
    """Return tokens and time of a run's completions; unknown if they were made elsewhere or within this process."""
    completions = run.n - run.n_failed
    if is_local(run) or run.has_imported_completions:
        return RunUse(completions=completions, has_known_cost=bool(run.cost_usd) or not is_replayed(run))
    is_metered = run.usage.input > 0
    return RunUse(
        completions=completions,
        input_tokens=run.usage.input if is_metered else None,
        output_tokens=run.usage.output if is_metered else None,
        seconds=scored.seconds if scored else None,
    )


def _with_failures_as_worst(cell: Cell, run: Run, column: Column, scored: RunScores, rule: Rule) -> Cell:
    """Count the failures that the model caused as the worst answer: of a ratio, as a wrong one in its class."""
    if cell.scores is None or scored.failure_codes is None or CAUSED_BY_MODEL.isdisjoint(scored.failure_codes.names):
        return cell
    if cell.estimate is None and run.n_failed < run.n:
        return cell  # the other completions have no score by this rule, such as those of an imported run
    caused = scored.failure_codes.among(CAUSED_BY_MODEL) & np.isnan(scored.values)
    if not caused.any():
        return cell
    scores = np.where(caused, column.low if column.higher_is_better else column.high, scored.values)
    parts = scored.parts and parts_of_failures(run, scored, np.flatnonzero(caused), rule)
    counted = estimate_ratios(
        scores, parts, cell.clusters, low=column.low, high=column.high, open_below=column.open_below
    )
    values = linearized(scores, parts)
    return replace(
        cell,
        value=counted.value if counted else None,
        estimate=counted,
        n_failed_by_model=int(caused.sum()),
        failures_by_model={code: n for code, n in run.failures.items() if code in CAUSED_BY_MODEL},
        n_failed=int(np.isnan(scored.values).sum()),
        completers=cell.estimate,
        scores=values,
        tested=comparison_values(scores, parts) if parts else None,
        parts=parts,
    )


def column_of(run: Run, baseline: ConstantBaseline | None, rule: Rule) -> Column:
    """Return the benchmark of a run with its metric and scale."""
    judged = run.jury_result if run.main_metric == JURY else None
    metric = METRICS.if_usable(run.main_metric)
    if baseline and baseline.metric not in ("", run.main_metric):
        baseline = None
    return Column(
        benchmark=run.benchmark,
        title=run.title,
        category=run.taxonomy.category or UNKNOWN,
        subcategory=run.taxonomy.subcategory or UNKNOWN,
        metric=run.main_metric,
        metric_title=metric.title if metric else metric_title(run.main_metric),
        low=judged.low if judged else metric.low if metric else 0.0,
        high=judged.high if judged else metric.high if metric else 1.0,
        open_below=judged.open_below if judged else False,
        higher_is_better=metric.higher_is_better if metric else True,
        judges=tuple(judge.name for judge in judged.jury.judges) if judged else (),
        constant_baseline=baseline.values[rule] if baseline else None,
        constant_answer=baseline.answer if baseline else "",
    )


# --- scores of a constant answer --------------------------------------------------------------------------------------
# The scores of `baseline/majority` without a run, from the options and references in a store.

MOST = 50_000
"""Most instances of a benchmark that are scored: with more, the mean of the constant answer is enough."""

SAME = 1e-9
"""Largest difference between two values that are the same mean."""


def constant_scores(prompts: Path, baseline: ConstantBaseline, metric: str, rule: Rule) -> dict[str, float] | None:
    """Score the constant answer on every instance of a prompts file.

    The prompts file does not hold what some metrics need, such as the limits of a calculation. So the scores count only
    if their mean is the one that was computed from the data.

    Parameters: metric, name of the benchmark's main one. Returns: instance id -> score in the metric's own unit; None
    if the scores cannot be computed.
    """
    known, mean = METRICS.if_usable(metric), baseline.values.get(rule)
    if known is None or mean is None:
        return None
    with suppress(StoreError):
        stored = read_references(prompts)
        for form in ("letters", "texts") if len(stored) <= MOST else ():
            instances = [_instance(name, *found, form) for name, found in stored.items()]
            scores = _scores(instances, baseline.answer, known, rule)
            if len(scores) and not np.isnan(scores).any() and abs(float(scores.mean()) - mean) <= SAME:
                return dict(zip(stored, scores.tolist(), strict=True))
    return None


def _instance(
    name: str, choices: Sequence[str], references: Iterable[tuple[str, bool]], form: str, group: str = ""
) -> Instance:
    """Return an instance as metrics see it. `form`: whether completions name options by letters or by their texts."""
    return Instance(
        id=name,
        fields={},
        references=tuple(Reference(text, correct) for text, correct in references),
        choices=tuple(choices),
        labels=tuple(ascii_uppercase[: len(choices)] if form == "letters" else choices),
        group=group,
    )


def _scores(instances: Sequence[Instance], answer: str, metric: Metric, rule: Rule) -> np.ndarray:
    """Return the score of an answer on each instance, nan where it has none."""
    completion = Completion(text=answer)
    own = [score for one in instances for score in apply([metric], one, completion) if score.rule == rule]
    values = np.array([np.nan if score.value is None else score.value for score in own])
    return linearized(values, [score.parts for score in own] if metric.parts else None)


# --- score details ----------------------------------------------------------------------------------------------------
# Each instance, and each subgroup of the instances, of the runs on one benchmark.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreDetails:
    """Scores of one run."""

    values: Floats
    """Shape (n,): score of each instance by the main metric, in its own unit; nan for a failure."""
    subgroups: Mapping[str, Estimate | None]
    """Name of a subgroup -> its mean; None if nothing was scored. Empty if the data has no subgroups."""


def score_details(
    runs: Sequence[Run], column: Column, rule: Rule, *, with_subgroups: bool = True
) -> Iterator[tuple[Run, ScoreDetails]]:
    """Yield each run on a benchmark with its scores in detail.

    Subgroup means count failures as the leaderboard does: by the corrected rule, failures that the model caused count
    as the worst answer. Raises: StoreError for records that are missing or damaged.
    """
    for run, scored in read_all(runs, rule):
        has_groups = with_subgroups and bool(run.groups)
        names = read_columns(run, ["group"])["group"] if has_groups else []
        yield (
            run,
            ScoreDetails(
                values=np.asarray(scored.values, dtype=float),
                subgroups=subgroup_means(run, scored, names, column, rule),
            ),
        )


def subgroup_means(
    run: Run, scored: RunScores, names: Sequence[str | None], column: Column, rule: Rule
) -> dict[str, Estimate | None]:
    """Return the mean of each subgroup, by name. `names`: the subgroup of each instance."""
    places = group_by(range(len(names)), lambda place: names[place])
    return {
        name: _mean(run, _selected(scored, places[name]), column, rule)
        for name in sorted(name for name in places if name)
    }


def _mean(run: Run, scored: RunScores, column: Column, rule: Rule) -> Estimate | None:
    """Return the mean of some instances of a run; the failures that the model caused count as on the leaderboard."""
    cell = cell_of(run.model, run, column, scored, rule=rule, as_worst=rule == "corrected")
    if cell.n_failed_by_model:
        return cell.estimate
    return estimate_ratios(
        scored.values,
        scored.parts,
        scored.clusters,
        low=column.low,
        high=column.high,
        open_below=column.open_below,
    )


def _selected(scored: RunScores, places: Sequence[int]) -> RunScores:
    """Return the scores of the instances at these places."""
    codes = scored.failure_codes
    return RunScores(
        ids=[scored.ids[i] for i in places],
        values=np.asarray(scored.values, dtype=float)[list(places)],
        clusters=None if scored.clusters is None else [scored.clusters[i] for i in places],
        parts=None if scored.parts is None else [scored.parts[i] for i in places],
        failure_codes=None if codes is None else CodedTexts(codes.codes[list(places)], codes.names),
    )


# --- data frames ------------------------------------------------------------------------------------------------------
# Runs, records and judgments for Python programs: data frames and further analyses.


def load_runs(stores: AnyPaths) -> Runs:
    """Load all complete and partial runs of one or more stores, with their estimates under both rules.

    Damaged runs are left out with a warning.

    Parameters
    ----------
    stores
        Folder of a store, or a list of folders.

    Returns
    -------
    Runs
        A list of runs, by benchmark and model, with the methods `to_dict` and `to_frame`.

    Raises
    ------
    StoreError
        If a folder is not a store, or a newer version wrote a run in it.
    """
    return Runs(run for store in as_paths(stores, "stores") for run in runs.load_runs(open_store(store)))


def read_records(run: Run, columns: AnyNames = ()) -> dict[str, list[Any]]:
    """Read the records of a run as columns, in the order of its instances.

    Parameters
    ----------
    run
        A stored run, as `load_runs` and `evaluate` return it.
    columns
        Names of columns; empty for all. Some hold texts of completions, which can be about patients.

    Returns
    -------
    dict
        Column -> values, one per instance. Scores are in `METRIC_corrected` and `METRIC_published`; None if missing.
        Clusters are keyed hashes of their names.

    Raises
    ------
    UserError
        For a column that the run does not have.
    StoreError
        If the run is not stored, or its records are damaged.
    """
    found = runs.read_columns(_stored(run))
    if any(found.get("cluster", ())):
        names = Pseudonyms.of_store(Store(stored_folder(run).parents[2]))
        found["cluster"] = [names.of(run.benchmark, cluster or "") for cluster in found["cluster"]]
    return _selected_frames(found, columns)


def read_judgments(run: Run, columns: AnyNames = ()) -> dict[str, list[Any]]:
    """Read the judgments of a run as columns: one row per instance, judge and criterion. Empty without a jury.

    Parameters
    ----------
    run
        A stored run, as `load_runs` and `evaluate` return it.
    columns
        Names of columns; empty for all.

    Returns
    -------
    dict
        Column -> values. `score` is None where a judgment failed; `failure_code` has the reason.

    Raises
    ------
    UserError
        For a column that does not exist.
    StoreError
        If the run is not stored.
    """
    return _selected_frames(judgments.read_columns(_stored(run)), columns)


def _stored(run: Run) -> Run:
    """Return the run. Raises: UserError for anything else."""
    if not isinstance(run, Run):
        raise UserError(f"`run` must be a run of `load_runs` or `evaluate`. This is not: {shortened(run)}.")
    return run


def _selected_frames(found: dict[str, list[Any]], columns: AnyNames) -> dict[str, list[Any]]:
    """Return some columns, or all of them. Raises: UserError for unknown ones."""
    names = as_names(columns, "columns")
    for name in names:
        if name not in found:
            raise UserError(f"no column `{name}`. {suggestion(name, found)}".rstrip())
    return {name: found[name] for name in names} if names else found


# --- failures in ratios -----------------------------------------------------------------------------------------------
# Contributions of failed instances to ratios such as balanced accuracy, where they count as wrong answers.


def parts_of_failures(run: Run, scored: RunScores, failed: NDArray[np.intp], rule: Rule) -> list[Parts]:
    """Return the parts of all instances, with those of wrong answers in place of failures.

    A run stores them for its failures. For a run of version 0.2.0 or older they are computed from the references that
    are stored with its prompts. Where these are missing, the failures are spread over the labels as the scored
    instances are.

    Parameters: failed, places of the failures that count.
    """
    assert scored.parts is not None, "only numbers that are not means have parts"
    found = list(scored.parts)
    is_stored = any(found[i] for i in np.flatnonzero(np.isnan(scored.values)).tolist())
    lacking = [] if is_stored else failed.tolist()
    if lacking:
        computed = _from_references(run, [scored.ids[i] for i in lacking], rule)
        spread = {} if any(computed) else _spread(scored)
        for i, own in zip(lacking, computed, strict=True):
            found[i] = own or spread
    return found


def _from_references(run: Run, ids: Sequence[str], rule: Rule) -> list[Parts]:
    """Return the parts of a wrong answer to each of these instances; empty where they cannot be computed."""
    metric = METRICS.if_usable(run.main_metric)
    if metric is None or run.folder is None:
        return [{}] * len(ids)
    known = read_references(prompts_path(run))
    columns = read_columns(run, ["instance_id", "group"])
    groups = dict(zip(columns["instance_id"], columns["group"], strict=True))
    instances = {name: _instance(name, *known[name], "texts", groups.get(name) or "") for name in ids if name in known}
    return [wrong_parts(metric, instances[name], rule) if name in instances else {} for name in ids]


def _spread(scored: RunScores) -> Parts:
    """Return the parts of an instance of unknown class: of each label, the mean denominator of scored instances."""
    known = [own for own, is_scored in zip(scored.parts or (), ~np.isnan(scored.values), strict=True) if is_scored]
    below: Counter[str] = Counter()
    for own in known:
        below.update({label: pair[1] for label, pair in own.items()})
    return {label: (0.0, total / len(known)) for label, total in below.items() if total > 0}
