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
from tests.support.leaderboards import column, score_cell
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


def test_the_published_rule_leaves_out_pairs_with_other_instances() -> None:
    """Its files must have equal lengths; the corrected rule compares what both have."""
    cells = (cell("a", [1, 0, 1, 1]), cell("b", [0, 0, 1, 1]), cell("c", [0, 1, 0]))
    found = effect_of(*cells)
    assert (present(found.published).n_pairs, present(found.corrected).n_pairs, found.n) == (1, 3, 4)
    apart = effect_of(cells[0], cells[2])
    assert apart.published is None
    assert apart.corrected is not None


def test_only_the_corrected_rule_knows_of_clusters() -> None:
    generator = np.random.default_rng(2)
    rows = np.repeat((generator.random((2, 50)) < 0.5).astype(float), 4, axis=1)
    notes = [f"note-{i // 4}" for i in range(200)]
    found = effect_of(*(cell(m, row.tolist(), clusters=notes) for m, row in zip("ab", rows, strict=True)))
    assert present(found.corrected).value == pytest.approx(2 * present(found.published).value)
