"""Agreement of judges: the right table for each coefficient, and the coefficients of the modules that are tested."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from medhelm.analysis.agreement.coefficients import Level, Weights, icc, krippendorff_alpha, weighted_kappa
from medhelm.analysis.jury.cells import JudgmentCells, collect_judgments, judge_scores
from medhelm.analysis.jury.judges import MET, SCORE, JudgeAgreement, average_agreement, judge_agreement
from medhelm.domain import Estimate
from tests.support.juries import judged_run
from tests.support.values import present


def cells_of(grades: np.ndarray, *, points: np.ndarray | None = None, low: float = 1, high: float = 5) -> JudgmentCells:
    """Grades of shape (judges, models, n, criteria)."""
    sheets = [judged_run(grades[:, m], f"m{m}", points=points) for m in range(grades.shape[1])]
    return collect_judgments(sheets, low=low, high=high)


def found_in(cells: JudgmentCells) -> dict[str, JudgeAgreement]:
    parts = judge_agreement(cells, judge_scores(cells), np.random.default_rng(0))
    return {part.on: part for part in parts}


def pairs_mean(table: np.ndarray, weights: Weights = "quadratic") -> float:
    """Mean over pairs of judges, from the rows both have graded."""
    pairs = combinations(range(table.shape[1]), 2)
    return float(np.mean([present(weighted_kappa(*table[:, list(pair)].T, weights=weights).value) for pair in pairs]))


def test_each_coefficient_is_that_of_the_right_table() -> None:
    rng = np.random.default_rng(3)
    grades = np.clip(np.round(rng.normal(3, 1, (1, 2, 20, 1)) + rng.normal(0, 0.7, (3, 2, 20, 2))), 1, 5)
    grades[0] = np.clip(grades[0] - 1, 1, 5)
    grades[0, 0, 0, 0] = grades[1, 0, :2, 0] = np.nan
    found = found_in(cells_of(grades))
    tables: dict[str, tuple[np.ndarray, Level]] = {
        "c0": (grades[..., 0], "ordinal"), "c1": (grades[..., 1], "ordinal"), SCORE: (grades.mean(axis=3), "interval"),
    }  # fmt: skip
    for on, (values, level) in tables.items():
        table, part = values.reshape(3, -1).T, found[on]
        assert part.level == level
        expected = {
            "icc_2_1": icc(table, "2,1").value,
            "icc_3_k": icc(table, "3,k").value,
            "kappa": pairs_mean(table),
            "alpha": krippendorff_alpha(table, level).value,
        }
        for name, value in expected.items():
            own = getattr(part, name)
            assert own.value == pytest.approx(value), (on, name)
            assert own.low < own.value < own.high


def test_completions_of_one_instance_are_drawn_together() -> None:
    rng = np.random.default_rng(5)
    quality = rng.normal(3, 1, (1, 1, 12, 1))
    noise = rng.normal(0, 0.6, (2, 1, 12, 1))
    once = present(found_in(cells_of(np.round(quality + noise)))[SCORE].alpha)
    six = present(found_in(cells_of(np.tile(np.round(quality + noise), (1, 6, 1, 1))))[SCORE].alpha)
    # Six models of which one answer stands for all: no more evidence than one.
    assert six.high - six.low > 0.7 * (once.high - once.low)


def test_a_rubric_in_points_is_compared_as_met_or_not() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random((1, 2, 15, 4)) < 0.6
    met = np.where(rng.random((3, 2, 15, 4)) < 0.8, truth, ~truth).astype(float)
    cells = cells_of(met, points=np.array([5.0, 3, 2, -4]), low=0, high=1)
    found = found_in(cells)
    table = met.reshape(3, -1).T
    assert list(found) == [MET, SCORE]
    part = found[MET]
    assert (part.level, part.n, part.icc_2_1, part.icc_3_k) == ("nominal", 120, None, None)
    assert present(part.kappa).value == pytest.approx(pairs_mean(table, "none"))
    assert present(part.alpha).value == pytest.approx(krippendorff_alpha(table, "nominal").value)
    scores = (met @ np.array([5.0, 3, 2, -4]) / 10).reshape(3, -1).T
    consistency = present(found[SCORE].icc_3_k)
    assert consistency.value == pytest.approx(icc(scores, "3,k").value)


def test_where_nothing_differs_or_is_compared_nothing_is_said() -> None:
    part = found_in(cells_of(np.full((2, 1, 10, 1), 5.0)))[SCORE]
    assert (part.n, part.icc_2_1, part.icc_3_k, part.kappa, part.alpha) == (10, None, None, None, None)
    assert found_in(cells_of(np.full((1, 1, 10, 1), 5.0))) == {}


def test_over_benchmarks_each_counts_once_and_scores_come_last() -> None:
    def part(on: str, value: float, n: int) -> JudgeAgreement:
        one = Estimate(value=value, low=value - 0.1, high=value + 0.1, n=n)
        return JudgeAgreement(on=on, n=n, level="ordinal", icc_2_1=one, icc_3_k=None, kappa=one, alpha=one)

    found = average_agreement(
        [[part("accuracy", 0.2, 10), part(SCORE, 0.4, 10)], [part("structure", 0.5, 5), part(SCORE, 0.8, 90)]]
    )
    assert [(own.on, own.n) for own in found] == [("accuracy", 10), ("structure", 5), (SCORE, 100)]
    assert found[2].kappa
    assert found[2].kappa.value == pytest.approx(0.6)
    assert found[2].icc_3_k is None
