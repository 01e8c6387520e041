"""Minimum detectable effects by both rules: by hand, with every quirk, and found in four of five tries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, pstdev

import numpy as np
import pytest

from medhelm.analysis.comparison.power import BenchmarkEffects, detectable_effects, published_scale
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.means import Floats
from tests.support.sign_flips import sign_flip_test


def column(name: str = "x", low: float = 0.0, high: float = 1.0) -> Column:
    return Column(benchmark=name, title=name, category="c", subcategory="s", metric="m", low=low, high=high)


def cell(model: str, scores: Sequence[float], ids: Sequence[str] | None = None, clusters: Sequence[str] | None = None,
         benchmark: str = "x") -> Cell:  # fmt: skip
    names = [f"i{i}" for i in range(len(scores))] if ids is None else ids
    return Cell(
        model=model, benchmark=benchmark, value=0.5, ids=names, scores=np.array(scores, dtype=float), clusters=clusters
    )


def effect_of(*cells: Cell, scale: Column | None = None) -> BenchmarkEffects:
    return detectable_effects(cells, [scale or column()])["x"]


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
    found = effect_of(cell("a", first), cell("b", second), scale=column(low=1, high=5))
    assert found.published is not None
    assert found.corrected is not None
    assert found.published.value == pytest.approx(by_hand([[1, 1, 0.8, 0.6, 1], [1, 1, 0.8, 0.4, 1]])[0])
    assert found.corrected.value == pytest.approx(by_hand([[1, 1, 0.75, 0.5, 0], [0, 1, 0.75, 0.25, 1]])[0])
    assert found.corrected.value > 5 * found.published.value
    assert (found.published.sd, found.corrected.sd) == (0, 0)


def test_instances_are_paired_by_id_whatever_their_order() -> None:
    first, second = [1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]
    straight = effect_of(cell("a", first), cell("b", second))
    turned = effect_of(cell("a", first), cell("b", second[::-1], ids=["i3", "i2", "i1", "i0"]))
    assert straight == turned


def test_the_published_rule_leaves_out_pairs_with_other_instances() -> None:
    """Its files must have equal lengths; the corrected rule compares what both have."""
    cells = (cell("a", [1, 0, 1, 1]), cell("b", [0, 0, 1, 1]), cell("c", [0, 1, 0], ids=["i0", "i1", "i2"]))
    found = effect_of(*cells)
    assert found.published is not None
    assert found.corrected is not None
    assert (found.published.n_pairs, found.corrected.n_pairs, found.n) == (1, 3, 4)
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
    assert found.published is not None
    assert found.corrected is not None
    assert found.corrected.value == pytest.approx(2 * found.published.value)


def test_what_cannot_be_compared_has_no_effect() -> None:
    value_only = Cell(model="b", benchmark="x", value=0.5)
    assert detectable_effects([cell("a", [1, 0]), value_only], [column()]) == {}
    assert detectable_effects([cell("a", [1, math.nan]), cell("b", [math.nan, 1])], [column()]) == {}
    assert detectable_effects([], [column()]) == {}


def test_benchmarks_come_in_the_order_of_the_columns() -> None:
    cells = [cell(m, [1, 0, 1], benchmark=b) for b in ("y", "x") for m in "ab"]
    assert list(detectable_effects(cells, [column("y"), column("x"), column("z")])) == ["y", "x"]


def test_a_disagreement_of_18_percent_on_a_thousand_questions_gives_the_published_size() -> None:
    first, second = np.zeros(1000), np.zeros(1000)
    second[:90], first[90:180] = 1, 1
    found = effect_of(cell("a", first.tolist()), cell("b", second.tolist()))
    assert found.published is not None
    assert found.published.value == pytest.approx(0.037, abs=0.001)


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


# --- the corrected rule by hand ---------------------------------------------------------------------------------------


def corrected(scores: Floats, clusters: Sequence[str] | None = None) -> float:
    cells = [cell(f"m{i}", row, clusters=clusters) for i, row in enumerate(scores)]
    found = detectable_effects(cells, [column()])["x"].corrected
    assert found is not None
    return found.value


def test_the_corrected_effect_is_that_of_the_paper_with_pairs_by_instance() -> None:
    scores = (np.random.default_rng(1).random((4, 120)) < 0.6).astype(float)
    scores[0, :10] = np.nan
    by_pair = []
    for i, j in combinations(range(4), 2):
        shared = [float(a - b) for a, b in zip(scores[i], scores[j], strict=True) if not np.isnan(a - b)]
        by_pair.append(2.8 * pstdev(shared) / math.sqrt(len(shared)))
    assert corrected(scores) == pytest.approx(fmean(by_pair))


def test_the_corrected_effect_of_a_thousand_questions_has_the_published_size() -> None:
    scores = np.zeros((2, 1000))
    scores[1, :90] = scores[0, 90:180] = 1
    assert corrected(scores) == pytest.approx(0.0376, abs=1e-4)


def test_clusters_make_the_corrected_effect_larger() -> None:
    scores = np.repeat((np.random.default_rng(2).random((2, 50)) < 0.5).astype(float), 4, axis=1)
    clusters = [f"c{i // 4}" for i in range(200)]
    assert corrected(scores, clusters) == pytest.approx(2 * corrected(scores))
