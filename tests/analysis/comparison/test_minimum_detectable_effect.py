"""Minimum detectable effects by both rules: by hand, with every quirk, and found in four of five tries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.comparison.power import BenchmarkEffects, detectable_effects, published_scale
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.means import Floats
from tests.support.leaderboards import column, score_cell
from tests.support.sign_flips import sign_flip_test
from tests.support.values import present


def cell(model: str, scores: Sequence[float], benchmark: str = "x", **changes: Any) -> Cell:
    return score_cell(model, benchmark, scores, **changes)


def effect_of(*cells: Cell, scale: Column | None = None) -> BenchmarkEffects:
    return detectable_effects(cells, [scale or column("x")])["x"]


def by_hand(rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Mean and SD over pairs in plain Python, scores as they are compared."""
    found = []
    for a, b in combinations(rows, 2):
        differences = [x - y for x, y in zip(a, b, strict=True)]
        found.append((1.96 + 0.84) * pstdev(differences) / math.sqrt(len(differences)))
    return fmean(found), pstdev(found)


def test_0_1_scores_have_the_same_effect_by_both_rules() -> None:
    rows = (np.random.default_rng(1).random((4, 90)) < 0.6).astype(float)
    found = effect_of(*(cell(f"m{i}", row.tolist()) for i, row in enumerate(rows)))
    for one in (found.published, found.corrected):
        assert one is not None
        assert (one.value, one.sd) == pytest.approx(by_hand(rows.tolist()))
        assert one.n_pairs == 6
    assert found.n == 90


def test_grades_are_divided_by_five_and_the_lowest_grade_becomes_the_highest() -> None:
    """Q-41: 5 and 1 both come to 1.0, so that the published rule sees no difference where it is largest."""
    assert published_scale(np.array([1.0, 1.25, 3.0, 5.0])).tolist() == [1.0, 0.25, 0.6, 1.0]
    first, second = [5.0, 5.0, 4.0, 3.0, 1.0], [1.0, 5.0, 4.0, 2.0, 5.0]
    found = effect_of(cell("a", first), cell("b", second), scale=column("x", 1, 5))
    assert found.published is not None
    assert found.corrected is not None
    assert found.published.value == pytest.approx(by_hand([[1, 1, 0.8, 0.6, 1], [1, 1, 0.8, 0.4, 1]])[0])
    assert found.corrected.value == pytest.approx(by_hand([[1, 1, 0.75, 0.5, 0], [0, 1, 0.75, 0.25, 1]])[0])
    assert found.corrected.value > 5 * found.published.value
    assert (found.published.sd, found.corrected.sd) == (0, 0)


def test_instances_are_paired_by_id_whatever_their_order() -> None:
    first, second = [1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]
    straight = effect_of(cell("a", first), cell("b", second))
    turned = effect_of(cell("a", first), cell("b", second[::-1], ids=["q3", "q2", "q1", "q0"]))
    assert straight == turned


def test_the_published_rule_leaves_out_pairs_with_other_instances() -> None:
    """Its files must have equal lengths; the corrected rule compares what both have."""
    cells = (cell("a", [1, 0, 1, 1]), cell("b", [0, 0, 1, 1]), cell("c", [0, 1, 0]))
    found = effect_of(*cells)
    assert (present(found.published).n_pairs, present(found.corrected).n_pairs, found.n) == (1, 3, 4)
    apart = effect_of(cells[0], cells[2])
    assert apart.published is None
    assert apart.corrected is not None


def test_failures_are_left_out() -> None:
    found = effect_of(cell("a", [1, 0, math.nan, 1, 0]), cell("b", [0, 0, 1, 1, math.nan]))
    for one in (found.published, found.corrected):
        assert one is not None
        assert one.value == pytest.approx(by_hand([[1, 0, 1], [0, 0, 1]])[0])
    assert found.n == 3


def test_only_the_corrected_rule_knows_of_clusters() -> None:
    generator = np.random.default_rng(2)
    rows = np.repeat((generator.random((2, 50)) < 0.5).astype(float), 4, axis=1)
    notes = [f"note-{i // 4}" for i in range(200)]
    found = effect_of(*(cell(m, row.tolist(), clusters=notes) for m, row in zip("ab", rows, strict=True)))
    assert present(found.corrected).value == pytest.approx(2 * present(found.published).value)


def test_what_cannot_be_compared_has_no_effect() -> None:
    value_only = Cell(model="b", benchmark="x", value=0.5)
    assert detectable_effects([cell("a", [1, 0]), value_only], [column("x")]) == {}
    assert detectable_effects([cell("a", [1, math.nan]), cell("b", [math.nan, 1])], [column("x")]) == {}
    assert detectable_effects([], [column("x")]) == {}


def test_benchmarks_come_in_the_order_of_the_columns() -> None:
    cells = [cell(m, [1, 0, 1], benchmark=b) for b in ("y", "x") for m in "ab"]
    assert list(detectable_effects(cells, [column("y"), column("x"), column("z")])) == ["y", "x"]


def test_a_disagreement_of_18_percent_on_a_thousand_questions_gives_the_published_size() -> None:
    first, second = np.zeros(1000), np.zeros(1000)
    second[:90], first[90:180] = 1, 1
    found = effect_of(cell("a", first.tolist()), cell("b", second.tolist()))
    assert present(found.published).value == pytest.approx(0.037, abs=0.001)
    assert present(found.corrected).value == pytest.approx(0.0376, abs=1e-4)


def make_pair(generator: np.random.Generator, n: int, difference: float, kind: str) -> Floats:
    """Differences of n instances whose mean is `difference` in truth."""
    if kind == "0/1 scores":
        drawn = generator.random(n)
        return np.where(drawn < 0.12 + difference / 2, 1.0, np.where(drawn > 0.88 + difference / 2, -1.0, 0.0))
    return difference + generator.normal(0, 0.2, n)


@pytest.mark.parametrize("kind", ["0/1 scores", "grades"])
@pytest.mark.parametrize("n", [150, 600])
def test_a_true_difference_of_that_size_is_found_in_four_of_five_tries(kind: str, n: int) -> None:
    generator = np.random.default_rng(n)
    sd = math.sqrt(0.24) if kind == "0/1 scores" else 0.2
    size = 2.8 * sd / math.sqrt(n)
    tries = 150 if kind == "grades" else 600
    found = [sign_flip_test(make_pair(generator, n, size, kind)) <= 0.05 for _ in range(tries)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.09 if kind == "grades" else 0.055)
