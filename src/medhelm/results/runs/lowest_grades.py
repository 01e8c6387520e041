"""Floors of rubrics: the completions of stored runs below them, and the scores with floors as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import comb
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.pairs import ComparedBenchmark, Comparison, DifferenceWithFloors, compare_two_models
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.lowest_grades import count_below_floor, has_score_with_floors, with_floors_as_worst
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain import JURY, Floor, Rule, Run
from medhelm.results.formats.fields import (
    ABSENT,
    INTEGER,
    NUMBER,
    Field,
    estimate_json,
    interval_page,
    keys,
    probability,
    record,
    select,
)
from medhelm.results.formats.tables import estimate_text, p_text, percent, percentages
from medhelm.storage.judgments import criterion_means
from medhelm.storage.run_scores import RunScores, read_scores

T = TypeVar("T")
"""A result with a difference."""

GRADE_DECIMALS = 9
"""Decimals to which mean grades are compared with a floor."""


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
    failed = without_judges_as_worst(cell, run, scored, means, rule)
    found = {}
    for place, floor in enumerate(floors):
        # Rounded, so that equal grades with decimals have a mean that is not below them.
        grades = np.round([means[name][place] if name in means else np.nan for name in scored.ids], GRADE_DECIMALS)
        below = grades < floor.at_least if floor.at_least is not None else grades > floor.at_most
        found[floor] = np.where(failed, 1.0, np.where(np.isnan(grades), np.nan, below))
    return replace(cell, floors=found)


def without_judges_as_worst(
    cell: Cell, run: Run, scored: RunScores, judged: Collection[str], rule: Rule
) -> NDArray[np.bool_]:
    """Return the instances that no judge saw and that count as the worst: blank completions, and failures counted so.

    Parameters: judged, ids of the instances with judgments.
    """
    assert cell.scores is not None, "the caller has single scores"
    failed: NDArray[np.bool_] = np.isnan(scored.values) & ~np.isnan(cell.scores)
    if run.jury_result and run.jury_result.n_blank:
        by_jury = scored if run.main_metric == JURY else read_scores(run, JURY, rule)
        failed |= ~np.isnan(by_jury.values) & [name not in judged for name in scored.ids]
    return failed


def compare_with_floors(found: Comparison, cells: Sequence[Cell], columns: Sequence[Column]) -> Comparison:
    """Return a comparison with the differences of the scores with floors, on benchmarks whose rubric has floors."""
    by_id = {column.benchmark: column for column in columns}
    below = {(cell.benchmark, cell.model): count_below_floor(cell) for cell in cells if has_score_with_floors(cell)}
    if not any(model in (found.first, found.second) for _, model in below):
        return found
    worse = [with_floors_as_worst(cell, by_id[cell.benchmark]) for cell in cells]
    second = compare_two_models(worse, columns, found.first, found.second, adjustment=found.adjustment)
    if second is None:
        return found
    changed = {
        one.column.benchmark: DifferenceWithFloors(
            difference=one.difference,
            p_adjusted=one.p_adjusted,
            below=(below[one.column.benchmark, found.first], below[one.column.benchmark, found.second]),
        )
        for one in second.benchmarks
        if {(one.column.benchmark, found.first), (one.column.benchmark, found.second)} <= below.keys()
    }
    benchmarks = tuple(replace(one, with_floors=changed.get(one.column.benchmark)) for one in found.benchmarks)
    return replace(found, benchmarks=benchmarks, pair_with_floors=second.pair)


# --- tables and JSON --------------------------------------------------------------------------------------------------

_SHARE = "0 to 1"


def floor_fields(board: Leaderboard) -> list[Field[Row]]:
    """Return the fields of models on a leaderboard with floors."""
    return [
        Field(
            "below_floor", lambda row: row.below_floor, kind="interval", parts="value low high n",
            range=_SHARE, missing="no benchmark with floors", is_optional=True, is_present=board.has_floors,
            meaning="Share of the completions with a grade below the floor that the rubric sets for a criterion, with "
            "the failures that count as the worst answer.",
            heading="Below floor", text=lambda row: percentages(row.below_floor), hide_empty=True, drop=11,
            page=interval_page(
                lambda row: row.below_floor, percent, note="95% interval", best_first=False, small=_below_floor_small,
                explanation="share of completions with a grade below the floor that the rubric sets for a criterion; "
                "failures that the model caused count",
            ),
        ),
        Field(
            "average_with_floors", lambda row: row.average_with_floors, kind="interval", range=_SHARE,
            missing="no score", is_optional=True, is_present=board.has_floors,
            meaning="The average that ranks, where each completion below a floor counts as the worst answer.",
            heading="With floors", drop=11,
            page=interval_page(
                lambda row: row.average_with_floors, title="With floors", note="95% interval",
                explanation="the average that ranks, where each completion below a floor counts as the worst answer",
            ),
        ),
        Field("rank_with_floors", lambda row: row.rank_with_floors, kind="whole number", range="1 and above",
              missing="a baseline", is_optional=True, is_present=board.has_floors,
              meaning="Rank by the average with floors."),
    ]  # fmt: skip


def _below_floor_small(row: Row) -> str:
    found = row.below_floor
    return "" if found is None else f"{percent(found.low)} to {percent(found.high)} of {found.n:,}"


def floor_cell_field(column: Column) -> Field[Cell]:
    """Return the field of the score with floors on a benchmark."""

    def with_floors_json(cell: Cell) -> Any:
        if not has_score_with_floors(cell):
            return ABSENT
        found = estimate_json(with_floors_as_worst(cell, column).estimate, "value low high n")
        return found and {**found, "n_below": count_below_floor(cell)[0]}

    return Field(
        "with_floors", with_floors_json, kind="object", is_optional=True, missing="no grades",
        schema=record(**keys("value low high", NUMBER), **keys("n n_below", INTEGER)),
        meaning="The score where each completion below a floor counts as the worst answer.",
    )  # fmt: skip


def with_floors_field(get: Callable[[T], DifferenceWithFloors | None]) -> Field[T]:
    """Return the field of a difference of scores with floors."""

    def with_floors_json(item: T) -> Any:
        found = get(item)
        if found is None:
            return ABSENT
        (first, _), (second, _) = found.below
        return {
            **select(found.difference, "difference=value low high n", rounded=True),
            "p_value": probability(found.difference.p_value),
            "p_adjusted": probability(found.p_adjusted),
            "n_below_first": first,
            "n_below_second": second,
        }

    return Field(
        "with_floors", with_floors_json, kind="object", is_optional=True,
        schema=record(**keys("difference low high p_value p_adjusted", NUMBER),
                      **keys("n n_below_first n_below_second", INTEGER)),
        meaning="The same where each completion below a floor counts as the worst answer.",
    )  # fmt: skip


DIFFERENCE_WITH_FLOORS: list[Field[ComparedBenchmark]] = [
    with_floors_field(lambda one: one.with_floors),
    Field("difference_with_floors", lambda one: one.with_floors, in_json=False, heading="With floors",
          text=lambda one: estimate_text(one.with_floors.difference) if one.with_floors else None, hide_empty=True),
    Field("p_with_floors", lambda one: one.with_floors, in_json=False, heading="p with floors",
          text=lambda one: p_text(one.with_floors.p_adjusted) if one.with_floors else None, hide_empty=True, drop=2),
]  # fmt: skip
"""Two models on a benchmark with floors."""


def overall_with_floors(comparison: Comparison) -> DifferenceWithFloors | None:
    """Return the difference of the averages with floors; None without floors.

    A finding of the leaderboard also needs win shares, which completions below a floor hardly change. Here the averages
    decide alone, with the p-value times the number of pairs of models (Bonferroni).
    """
    own = [one.with_floors.below for one in comparison.benchmarks if one.with_floors]
    test = comparison.pair_with_floors and comparison.pair_with_floors.macro_average
    if not own or not test:
        return None
    first, second = (tuple(map(sum, zip(*sides, strict=True))) for sides in zip(*own, strict=True))
    return DifferenceWithFloors(
        difference=test.difference,
        p_adjusted=min(1.0, test.difference.p_value * comb(comparison.n_models, 2)),
        below=((first[0], first[1]), (second[0], second[1])),
    )


def floors_sentence(comparison: Comparison) -> list[str]:
    """Return which model has the higher average with floors, if a completion is below one; none without."""
    found, names = overall_with_floors(comparison), (comparison.first, comparison.second)
    if found is None or not any(n for n, _ in found.below):
        return []
    counts = ", ".join(f"{name} {n:,} of {known:,}" for name, (n, known) in zip(names, found.below, strict=True))
    higher = names[found.difference.value < 0]
    is_apart = found.p_adjusted <= LEVEL
    text = f"{higher} has the significantly higher average" if is_apart else "the averages cannot be separated"
    start = f"With completions below a floor counted as the worst answer ({counts}), {text}"
    return [f"{start} (difference {estimate_text(found.difference)})."]
