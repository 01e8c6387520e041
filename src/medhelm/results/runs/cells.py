"""Runs as cells and columns of a leaderboard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from medhelm.analysis.completion_use import RunUse
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.ratios import comparison_values, estimate_ratios, linearized
from medhelm.domain import JURY, Completion, ConstantBaseline, Floor, Instance, Reference, Rule, Run
from medhelm.domain.completion import CAUSED_BY_MODEL
from medhelm.domain.run import counts_of
from medhelm.domain.text import metric_title
from medhelm.errors import StoreError
from medhelm.results.runs.failed_parts import parts_of_failures
from medhelm.results.spending import is_local, is_replayed
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRICS
from medhelm.storage.judgments import criterion_means
from medhelm.storage.runs import RunScores, read_references, read_scores

# --- cells ------------------------------------------------------------------------------------------------------------

UNKNOWN = "unknown"
"""Category of a benchmark that is not in the catalog, such as one of another harness."""

GRADE_DECIMALS = 9
"""Decimals to which mean grades are compared with a floor."""


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


def latest_floors(runs: Iterable[Run]) -> dict[str, tuple[Floor, ...]]:
    """Return benchmark -> the floors of its latest run that has any: one column needs one floor."""
    judged = sorted((run for run in runs if run.jury_result), key=lambda run: run.started)
    return {run.benchmark: run.jury_result.floors for run in judged if run.jury_result and run.jury_result.floors}


def with_floors(cell: Cell, run: Run, floors: Sequence[Floor], scored: RunScores | None, rule: Rule) -> Cell:
    """Add the instances whose completion is below a floor: by the mean of its judges' grades on the criterion.

    Failures that count as the worst answer are below every floor, and so are blank completions, which no judge sees.
    Other completions without a grade are not known.
    """
    if not floors or scored is None or cell.scores is None or run.jury_result is None:
        return cell
    means = criterion_means(run, [floor.criterion for floor in floors])
    if means is None:
        return cell
    failed = np.isnan(scored.values) & ~np.isnan(cell.scores)
    if run.jury_result.n_blank:
        by_jury = scored if run.main_metric == JURY else read_scores(run, JURY, rule)
        failed |= ~np.isnan(by_jury.values) & [name not in means for name in scored.ids]
    found = {}
    for place, floor in enumerate(floors):
        # Rounded, so that equal grades with decimals have a mean that is not below them.
        grades = np.round([means[name][place] if name in means else np.nan for name in scored.ids], GRADE_DECIMALS)
        below = grades < floor.at_least if floor.at_least is not None else grades > floor.at_most
        found[floor] = np.where(failed, 1.0, np.where(np.isnan(grades), np.nan, below))
    return replace(cell, floors=found)


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


# --- constant scores --------------------------------------------------------------------------------------------------
# Scores of a constant answer, from the options and references in a store: `baseline/majority` without a run.

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


def _instance(name: str, choices: list[str], references: list[tuple[str, bool]], form: str) -> Instance:
    """Return an instance as metrics see it. `form`: whether completions name options by letters or by their texts."""
    return Instance(
        id=name,
        fields={},
        references=tuple(Reference(text, correct) for text, correct in references),
        choices=tuple(choices),
        labels=tuple(ascii_uppercase[: len(choices)] if form == "letters" else choices),
    )


def _scores(instances: Sequence[Instance], answer: str, metric: Metric, rule: Rule) -> np.ndarray:
    """Return the score of an answer on each instance, nan where it has none."""
    completion = Completion(text=answer)
    own = [score for one in instances for score in apply([metric], one, completion) if score.rule == rule]
    values = np.array([np.nan if score.value is None else score.value for score in own])
    return linearized(values, [score.parts for score in own] if metric.parts else None)
