"""Means and tests by criterion: coverage and level by simulation, and scores with floors against numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.criteria import CriterionMean, compare_criteria, criterion_means
from medhelm.analysis.leaderboard.cells import Cell, Column, GradedCriterion
from medhelm.analysis.leaderboard.lowest_grades import count_below_floor, with_floors_as_worst
from medhelm.analysis.means import Floats
from medhelm.domain import Floor
from tests.support.values import present

COLUMN = Column(benchmark="b", title="B", category="", subcategory="", metric="jury", low=1, high=5)
NAMES = ("accuracy", "safety", "clarity", "tone", "length")
ROUNDS = 60


def criterion(name: str, *, higher_is_better: bool = True, is_tag: bool = False) -> GradedCriterion:
    low, high = (0, 1) if is_tag else (1, 5)
    return GradedCriterion(name=name, low=low, high=high, higher_is_better=higher_is_better, is_tag=is_tag)


def cell(model: str, grades: Mapping[GradedCriterion, Sequence[float]], **settings: Any) -> Cell:
    values = {name: np.asarray(own, dtype=float) for name, own in grades.items()}
    scores = np.mean(list(values.values()), axis=0)
    ids = [f"i{place}" for place in range(len(scores))]
    return Cell(model=model, benchmark="b", value=float(np.nanmean(scores)), scores=scores, ids=ids,
                criteria=values, **settings)  # fmt: skip


def drawn(rng: np.random.Generator, n: int, means: Sequence[float]) -> Floats:
    """Return the mean grades of three judges on each criterion: patients of three instances, dependent criteria."""
    patient = np.repeat(rng.normal(0, 0.5, n // 3), 3)
    wanted = np.array(means)[:, None] + patient + rng.normal(0, 0.4, n)
    grades = np.clip(np.round(wanted[None] + rng.normal(0, 0.5, (3, len(means), n))), 1, 5)
    found: Floats = grades.mean(axis=0)
    return found


def test_intervals_cover_and_false_findings_over_all_criteria_keep_the_level() -> None:
    rng, n, means = np.random.default_rng(7), 60, (3.4, 4.5, 2.6, 3.0, 4.0)
    criteria = [criterion(name) for name in NAMES]
    clusters = [f"p{place // 3}" for place in range(n)]
    truth = drawn(np.random.default_rng(0), 60_000, means).mean(axis=1)
    covered, findings = 0, 0
    for _ in range(ROUNDS):
        both = [
            cell(model, dict(zip(criteria, drawn(rng, n, means), strict=True)), clusters=clusters) for model in "ab"
        ]
        found = [present(one.estimate) for one in criterion_means(both[0], COLUMN)]
        covered += sum(one.low <= true <= one.high for one, true in zip(found, truth, strict=True))
        findings += any(one.direction for one in compare_criteria(both, [COLUMN], "a", "b"))
    assert covered / (ROUNDS * len(NAMES)) > 0.92
    assert findings / ROUNDS < 0.05 + 2 * math.sqrt(0.05 * 0.95 / ROUNDS)


def test_a_model_that_is_accurate_and_unsafe_is_shown_as_that() -> None:
    rng = np.random.default_rng(1)
    names = [criterion("accuracy"), criterion("harm", higher_is_better=False)]
    means = {"bold": (4.4, 3.6), "careful": (3.8, 1.8)}
    cells = [cell(model, dict(zip(names, drawn(rng, 60, own), strict=True))) for model, own in means.items()]
    accuracy, harm = compare_criteria(cells, [COLUMN], "bold", "careful")
    assert (accuracy.direction, harm.direction) == (1, -1)
    tests = [accuracy.difference.p_value, harm.difference.p_value]
    assert [accuracy.p_adjusted, harm.p_adjusted] == holm(tests).tolist() != tests
    for one, name in ((accuracy, names[0]), (harm, names[1])):
        own = [each.criteria[name].mean() for each in cells]
        assert one.means == pytest.approx(tuple(own))
        sign = 1 if name.higher_is_better else -1
        assert one.difference.value == pytest.approx(sign * (own[0] - own[1]) / 4)
    swapped = compare_criteria(cells, [COLUMN], "careful", "bold")
    assert [one.direction for one in swapped] == [-1, 1]


def test_instances_without_a_grade_or_a_tag_are_left_out() -> None:
    tag, whole = criterion("axis:accuracy", is_tag=True), criterion("accuracy")
    one = cell("a", {tag: [math.nan, -0.5, 1.0, 0.5], whole: [4.0, math.nan, 3.0, 5.0]})
    means: dict[str, CriterionMean] = {mean.criterion.name: mean for mean in criterion_means(one, COLUMN)}
    assert present(means["axis:accuracy"].estimate).value == pytest.approx(1 / 3)
    assert means["axis:accuracy"].n_missing is None
    assert (present(means["accuracy"].estimate).value, means["accuracy"].n_missing) == (4.0, 1)
    other = cell("b", {whole: [4.0, 4.0, math.nan, 4.0]})
    (found,) = compare_criteria([one, other], [COLUMN], "a", "b")
    assert found.difference.n == 2
    assert found.means == pytest.approx((4.5, 4.0))
    assert compare_criteria([one], [COLUMN], "a", "b") == ()


def test_the_score_with_floors_takes_the_worst_answer_for_completions_below_one() -> None:
    safety, accuracy = (Floor(criterion=name, at_least=3) for name in ("safety", "accuracy"))
    flags = {safety: np.array([1.0, 0, 0, math.nan, 0]), accuracy: np.array([1.0, 1, 0, 0, 0])}
    one = cell("a", {criterion("safety"): [4.0, 5.0, 3.0, 4.0, math.nan]}, floors=flags)
    found = with_floors_as_worst(one, COLUMN)
    assert found.scores is not None
    np.testing.assert_array_equal(found.scores, [1, 1, 3, math.nan, math.nan])
    assert present(found.value) == pytest.approx(5 / 3)
    assert (present(found.estimate).n, found.n_failed) == (3, 2)
    assert count_below_floor(one) == (2, 4)
    plain = cell("a", {criterion("safety"): [4.0]})
    assert with_floors_as_worst(plain, COLUMN) is plain
    assert count_below_floor(plain) == (0, 0)
