"""Models against a constant answer: whether they are better than always giving the most frequent correct answer.

Every model is tested on every benchmark, with Holm's correction for all of these tests together: if no model were
better than a constant answer anywhere, the chance of even one finding would be at most 5%. The test is the two-sided
paired test on the instances that both have, as between models. The scores of the constant answer come from
`baseline/majority`, or from the options and references in the store.

Where only the mean of the constant answer is known, how the two vary together is not: then the model's interval must
lie above that of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from medhelm.analysis.comparison.multiple_testing import holm
from medhelm.analysis.comparison.paired import paired_difference
from medhelm.analysis.comparison.sign_flip_test import LEVEL
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import NORMAL, Z95, wilson_interval
from medhelm.domain.remark import Remark
from medhelm.domain.text import listed

NAMES = 5
"""Most names written out in one sentence."""

LONGEST_ANSWER = 30
"""Characters of a constant answer that are shown."""

MAJORITY = "baseline/majority"
"""The model that always gives the most frequent answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantAnswerTest:
    """One model against the constant answer of one benchmark."""

    is_better: bool
    """True if the model is significantly better."""
    value: float
    """Mean of the model, in the metric's own unit."""
    constant: float
    """Mean of the constant answer, in the same unit."""
    difference: float
    """Model minus constant answer, on a scale where 1 is best."""


def constant_answer_tests(board: Leaderboard) -> Mapping[tuple[str, str], ConstantAnswerTest]:
    """Return model and benchmark -> test, for the models of a leaderboard where a constant answer is known."""
    return _test_all(board.rows, board.baselines, board.columns)


def beats_constant_answer(board: Leaderboard, row: Row, column: Column) -> bool | None:
    """Return whether a model is shown to be better than a constant answer; None if that is not known."""
    found = constant_answer_tests(board).get((row.model, column.benchmark))
    return None if found is None else found.is_better


@lru_cache(maxsize=1)
def _test_all(
    rows: tuple[Row, ...], baselines: tuple[Row, ...], columns: tuple[Column, ...]
) -> dict[tuple[str, str], ConstantAnswerTest]:
    """Test all models; kept, because verdict, remarks and card of a leaderboard ask for it."""
    majority = next((row.cells for row in (*rows, *baselines) if _is_majority(row)), {})
    found: dict[tuple[str, str], tuple[float, float, float, float]] = {}
    for column in columns:
        constant = _Rival(majority.get(column.benchmark), column)
        for row in rows:
            cell = row.cells.get(column.benchmark)
            if cell is None or cell.value is None or _is_majority(row):
                continue
            test = _paired_test(cell, constant, column) or _test_of_mean(cell, column)
            if test is not None:
                found[row.model, column.benchmark] = (*test, cell.value)
    adjusted = holm([p for p, *_ in found.values()])
    return {
        key: ConstantAnswerTest(
            is_better=bool(p <= LEVEL and difference > 0), value=value, constant=constant, difference=difference
        )
        for (key, (_, difference, constant, value)), p in zip(found.items(), adjusted, strict=True)
    }


class _Rival:
    """The scores of the constant answer on one benchmark."""

    def __init__(self, majority: Cell | None, column: Column) -> None:
        self._known: Mapping[str, float] = column.constant_scores or {}
        if majority is not None and majority.scores is not None:
            self._known = dict(zip(majority.ids, majority.scores.tolist(), strict=True))
        self._by_list: dict[int, Floats] = {}

    def scores(self, ids: Sequence[str]) -> Floats:
        """Return the scores on some instances, nan if not known. Models mostly share one list of ids."""
        if id(ids) not in self._by_list:
            self._by_list[id(ids)] = np.array([self._known.get(name, np.nan) for name in ids], dtype=float)
        return self._by_list[id(ids)]


def _paired_test(cell: Cell, constant: _Rival, column: Column) -> tuple[float, float, float] | None:
    """Return p-value, difference, and mean of the constant answer; None if its scores are not known."""
    if cell.scores is None:
        return None
    rival = constant.scores(cell.ids)
    if (np.isnan(rival) | np.isnan(cell.scores)).all():
        return None
    found = paired_difference(column.normalize(cell.scores), column.normalize(rival), cell.clusters)
    if found is None:
        return None
    return found.p_value if found.value > 0 else 1.0, found.value, float(np.nanmean(rival))


def _test_of_mean(cell: Cell, column: Column) -> tuple[float, float, float] | None:
    """Return the same where only the mean of the constant answer is known; the p-value is that of both intervals.

    Intervals of 95% that touch have the p-value 0.05; at other levels they are taken to be proportional to the normal
    quantile. None if the mean, or the model's interval, is not known.
    """
    if column.constant_baseline is None or cell.value is None:
        return None
    constant = column.normalize(column.constant_baseline)
    if cell.scores is not None:
        found = paired_difference(column.normalize(cell.scores), np.zeros(len(cell.ids)), cell.clusters)
        if found is None:
            return None
        value, low, n = found.value, found.low, float(found.n_clusters)
    elif cell.estimate is not None:
        ends = column.normalize(cell.estimate.low), column.normalize(cell.estimate.high)
        value, low, n = column.normalize(cell.value), min(ends), float(cell.estimate.n)
    else:
        return None
    width = (value - low) + (wilson_interval(constant * n, n)[1] - constant)
    difference = value - constant
    p = 1.0 if difference <= 0 else 2 * NORMAL.cdf(-Z95 * difference / width) if width > 0 else 0.0
    return p, difference, column.constant_baseline


def _is_majority(row: Row) -> bool:
    """Return whether a row is `baseline/majority`, whatever its store."""
    return row.model.split(" ")[0] == MAJORITY


def constant_answer_sentences(board: Leaderboard) -> Iterator[str]:
    """Yield the benchmarks on which the leader is not shown to be better than always giving one answer."""
    leader = board.rows[0].model
    if leader.split("/")[0] == "baseline":
        return
    tests = constant_answer_tests(board)
    found = [
        (one, test) for one in board.columns if (test := tests.get((leader, one.benchmark))) and not test.is_better
    ]
    for words, own in (
        ("no better", [pair for pair in found if pair[1].difference <= 0]),
        ("not clearly better", [pair for pair in found if pair[1].difference > 0]),
    ):
        if not own:
            continue
        numbers = ""
        if len(own) == 1:
            ((column, test),) = own
            value, constant = (_shown(number, column, board) for number in (test.value, test.constant))
            numbers = f" ({value} against {constant})"
        titles = listed([column.title or column.benchmark for column, _ in own], NAMES)
        yield f"On {titles}, {leader} is {words} than always giving the same answer{numbers}."


def constant_answer_remarks(board: Leaderboard) -> Iterator[Remark]:
    """Yield benchmarks on which no model, or only some, are shown to be better than a constant answer."""
    tests = constant_answer_tests(board)
    limited: list[tuple[Column, list[ConstantAnswerTest], list[str]]] = []
    for column in board.columns:
        own = {row.model: test for row in board.rows if (test := tests.get((row.model, column.benchmark)))}
        rest = [model for model, test in own.items() if not test.is_better]
        if rest:
            limited.append((column, list(own.values()), rest))
    for column, own_tests, rest in limited[:NAMES]:
        none = len(rest) == len(own_tests)
        who = "No model is clearly better." if none else f"Not clearly better: {listed(rest, NAMES)}."
        code = "constant_baseline_not_beaten" if none else "constant_baseline_partly_beaten"
        yield Remark(code, "", f"{_constant_answer(column, own_tests, board)} {who}")
    if more := [column.title or column.benchmark for column, _, _ in limited[NAMES:]]:
        text = f"On {listed(more, NAMES)}, too, not every model is clearly better than a constant answer."
        yield Remark("constant_baseline_partly_beaten", "", text)


def _constant_answer(column: Column, tests: Sequence[ConstantAnswerTest], board: Leaderboard) -> str:
    """Return what a constant answer scores on a benchmark, in a sentence."""
    answer = " ".join(column.constant_answer.split())
    shown = answer if len(answer) <= LONGEST_ANSWER else answer[:LONGEST_ANSWER] + "..."
    always = f"always answering `{shown}`" if shown else "a constant answer"
    constant = column.constant_baseline
    value = max((test.constant for test in tests), key=column.normalize) if constant is None else constant
    verb = "is right in" if _is_right_or_wrong(column, board) else "scores"
    return f"On {column.title or column.benchmark} {always} {verb} {_shown(value, column, board)}."


def _shown(value: float, column: Column, board: Leaderboard) -> str:
    """Return a mean for people: in percent if every answer is right or wrong."""
    return f"{value:.0%}" if _is_right_or_wrong(column, board) else f"{value:.3f}"


def _is_right_or_wrong(column: Column, board: Leaderboard) -> bool:
    """Return whether all scores on a benchmark are 0 or 1, and 1 is best."""
    cells = [row.cells[column.benchmark] for row in board.rows if column.benchmark in row.cells]
    scores = [cell.scores for cell in cells if cell.scores is not None and cell.tested is None]
    known = bool(scores) and len(scores) == len(cells) and column.higher_is_better
    return known and all(bool(np.isin(own[~np.isnan(own)], (0.0, 1.0)).all()) for own in scores)
