"""Power and sample sizes: by hand, against closed forms, and in simulations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.comparison.power import (
    BenchmarkEffects,
    Noise,
    ObservedNoise,
    PowerDesign,
    SuitePower,
    detectable_difference,
    detectable_effects,
    estimate_power,
    needed_benchmarks,
    needed_instances,
    observed_noise,
    power_at,
    published_scale,
    sd_limit_factor,
    suite_power,
)
from medhelm.analysis.comparison.significance import sign_flip_tests
from medhelm.analysis.leaderboard.cells import Cell, Column, align
from tests.support.leaderboards import column, score_cell, score_cells
from tests.support.sign_flips import sign_flip_test
from tests.support.values import present

USUAL = PowerDesign()


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("disagreement", "difference", "expected"), [(0.18, 0.03, 1568), (0.60, 0.20, 116)])
def test_0_1_scores_need_what_connor_says(disagreement: float, difference: float, expected: int) -> None:
    """(1.959964 sqrt(psi) + 0.841621 sqrt(psi - d^2))^2 / d^2, Connor 1987, in a pocket calculator."""
    assert needed_instances(Noise(disagreement=disagreement), difference, USUAL) == expected


def test_what_cannot_be_is_none() -> None:
    assert needed_instances(Noise(disagreement=0.1), 0.2, USUAL) is None
    assert needed_instances(Noise(sd=0.5), 1e-7, USUAL) is None
    assert detectable_difference(Noise(sd=0.5), 2, USUAL) is None
    assert detectable_difference(Noise(disagreement=0.01), 20, USUAL) is None


def test_models_that_never_disagree_in_another_way_need_few() -> None:
    """Without scatter only the flips of signs count: five of one sign have p = 2 / 32, six 2 / 64."""
    assert sign_flip_test(np.ones(5)) > 0.05 >= sign_flip_test(np.ones(6))
    assert needed_instances(Noise(sd=0.0), 0.3, USUAL) == 6
    assert needed_instances(Noise(sd=0.0, cluster_size=4), 0.3, USUAL) == 24
    assert (power_at(Noise(sd=0.0), 5, 0.3, USUAL), power_at(Noise(sd=0.0), 6, 0.3, USUAL)) == (0, 1)
    assert detectable_difference(Noise(sd=0.001), 5, USUAL) is None


@given(st.floats(0.02, 0.9), st.integers(60, 5000), st.floats(0.55, 0.95), st.integers(1, 40), st.floats(0.5, 4))
def test_the_three_questions_have_one_answer(sd: float, n: int, chance: float, pairs: int, effect: float) -> None:
    """The smallest difference that n instances show needs n instances, which show it with the power aimed at."""
    noise, design = Noise(sd=sd, design_effect=effect), PowerDesign(power=chance, comparisons=pairs)
    smallest = detectable_difference(noise, n, design)
    if smallest is None:
        return
    assert needed_instances(noise, smallest, design) == pytest.approx(n, abs=1)
    assert power_at(noise, n, smallest, design) == pytest.approx(chance, abs=0.002)


# --- promises ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("disagreement", "difference"), [(0.18, 0.05), (0.3, 0.12), (0.4, 0.25), (0.3, 0.2)])
@pytest.mark.parametrize("comparisons", [1, 36])
def test_the_instances_needed_by_0_1_scores_give_the_power(
    disagreement: float, difference: float, comparisons: int
) -> None:
    """Counted exactly, for the test of McNemar with the mid-p value."""
    design = PowerDesign(comparisons=comparisons)
    n = present(needed_instances(Noise(disagreement=disagreement), difference, design))
    only_first = (1 + difference / disagreement) / 2
    power = 0.0
    for differing in range(n + 1):
        x = np.arange(differing + 1)
        fewer = np.minimum(x, differing - x)
        p = 2 * stats.binom.cdf(fewer, differing, 0.5) - stats.binom.pmf(fewer, differing, 0.5)
        significant = (p <= design.alpha / comparisons) & (2 * x != differing)
        chance = stats.binom.pmf(x, differing, only_first)[significant].sum()
        power += stats.binom.pmf(differing, n, disagreement) * chance
    assert 0.8 <= power <= 0.86


# --- what was seen ----------------------------------------------------------------------------------------------------


def seen(scores: list[list[float]], clusters: list[str] | None = None) -> ObservedNoise | None:
    cells = {cell.model: cell for cell in score_cells("x", np.array(scores), clusters)}
    return observed_noise(align(cells, column("x"), list(cells)), list(combinations(range(len(cells)), 2)))


def test_the_noise_of_a_pair_by_hand() -> None:
    found = present(seen([[1.0, 1, 0, 1, 0, 0, 1, 1], [0.0, 1, 0, 0, 0, 1, 1, 0]]))
    differences = np.array([1, 0, 0, 1, 0, -1, 0, 1])
    assert (found.n, found.n_pairs, found.disagreement) == (8, 1, 0.5)
    assert found.noise.sd == pytest.approx(differences.std())
    assert found.noise.design_effect == pytest.approx(1)
    assert found.noise.cluster_size == 1


def test_the_noise_of_clusters_by_hand() -> None:
    found = present(seen([[1.0, 1, 0, 0, 1, 1], [0.0, 0, 1, 0, 0, 1]], ["a", "a", "b", "b", "c", ""]))
    d = np.array([1, 1, -1, 0, 1, 0]) - 1 / 3
    totals = np.array([d[:2].sum(), d[2:4].sum(), d[4], d[5]])
    assert found.noise.cluster_size == pytest.approx((4 + 4 + 1 + 1) / 6)
    assert found.noise.design_effect == pytest.approx(float(totals @ totals) / float(d @ d))


def test_nothing_shared_or_one_cluster_only_shows_no_noise() -> None:
    assert seen([[1.0, math.nan], [math.nan, 1.0]]) is None
    assert seen([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], ["a", "a", "a"]) is None
    alike = present(seen([[1.0, 0.0], [1.0, 0.0]]))
    assert (alike.noise.sd, alike.noise.design_effect) == (0, 1)


# --- overall ----------------------------------------------------------------------------------------------------------


def test_an_outlook_by_hand() -> None:
    found = estimate_power(0.02, 0.008, 0.05, USUAL, n_benchmarks=30)
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert found.detectable == pytest.approx(z * 0.008)
    assert found.power == pytest.approx(stats.norm.sf(1.959964 - 2.5) + stats.norm.sf(1.959964 + 2.5))
    assert found.times_instances == pytest.approx((z * 0.008 / 0.02) ** 2)
    # By t quantiles 52 benchmarks, where normal ones give 50; more if the SD of 30 benchmarks is at its upper limit.
    for n, sd in ((found.benchmarks_needed_low, 0.05), (found.benchmarks_needed, 0.05 * sd_limit_factor(30))):
        assert n is not None
        for k, is_enough in ((n, True), (n - 1, False)):
            errors = stats.t.ppf(0.975, k - 1) + stats.t.ppf(0.8, k - 1)
            assert (k >= (errors * sd / 0.02) ** 2) == is_enough
    assert sd_limit_factor(30) == pytest.approx(math.sqrt(29 / stats.chi2.ppf(0.2, 29)), rel=0.01)
    assert sd_limit_factor(4) == pytest.approx(math.sqrt(3 / stats.chi2.ppf(0.2, 3)), rel=0.02)


def test_an_outlook_without_noise_or_with_a_single_benchmark() -> None:
    found = estimate_power(0.1, 0.0, None, USUAL)
    assert (found.power, found.times_instances, found.benchmarks_needed) == (1.0, 0.0, None)
    # Six benchmarks at least can be significant, and then only if all six differ in one direction.
    assert USUAL.fewest == 6
    few, enough = (estimate_power(0.5, 0.01, None, USUAL, clusters=clusters) for clusters in (5, 6))
    assert (few.power, few.detectable) == (0.0, None)
    assert present(enough.power) > 0.99
    least = estimate_power(0.9, 0.01, 0.001, USUAL, n_benchmarks=4)
    assert (least.benchmarks_needed_low, least.benchmarks_needed) == (7, 7)


@pytest.mark.long
@pytest.mark.parametrize("n_pilot", [3, 4, 8, 12, 35])
@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0, 1.5, 2.5])
def test_the_benchmarks_advised_have_the_power(n_pilot: int, ratio: float) -> None:
    """Sign-flip tests over as many benchmarks as a pilot advises; `ratio`: SD of the differences over their mean."""
    generator, found = np.random.default_rng(n_pilot), 0
    for _ in range(1000):
        spread = float(generator.normal(1, ratio, n_pilot).std(ddof=1))
        n = present(needed_benchmarks(spread * sd_limit_factor(n_pilot), 1.0, USUAL))
        assert n > USUAL.fewest
        found += bool(sign_flip_tests(generator.normal(1, ratio, (1, min(n, 400))))[0] <= 0.05)
    assert found / 1000 >= 0.75


# --- what benchmarks at hand can tell apart, and what more of them could ----------------------------------------------


AIM = PowerDesign()


def test_neighbours_by_hand() -> None:
    x = np.array([[1.0, 1, 1, 0, 1, 0], [0.0, 1, 0, 0, 1, 0]])
    y = np.array([[0.5, 0.25, 1.0, 0.75], [0.5, 0.5, 0.5, 0.5]])
    columns = [column("x", weight=3.0), column("y")]
    found = suite_power([*score_cells("x", x), *score_cells("y", y)], columns, design=AIM, difference=0.1)
    (one,) = found.adjacent_models
    means = [float((rows[0] - rows[1]).mean()) for rows in (x, y)]
    errors = [float((rows[0] - rows[1]).std()) / math.sqrt(rows.shape[1]) for rows in (x, y)]
    assert one.observed_difference == pytest.approx(0.75 * means[0] + 0.25 * means[1])
    assert one.standard_error == pytest.approx(math.hypot(0.75 * errors[0], 0.25 * errors[1]))
    clusters = 1 / (0.75**2 / 6 + 0.25**2 / 4)
    spread = float(np.std(means, ddof=1))
    assert one.power_estimate == estimate_power(0.1, one.standard_error, spread, AIM, clusters=clusters, n_benchmarks=2)
    assert (one.first, one.second, one.n_benchmarks) == ("m0", "m1", 2)


def empty(found: SuitePower) -> bool:
    return not found.benchmarks and not found.adjacent_models


def test_what_is_odd_gives_less_and_no_error() -> None:
    rows = np.array([[1.0, math.nan], [math.nan, 0.0]])
    assert empty(suite_power([], [column("x")], design=AIM))
    assert empty(suite_power(score_cells("x", rows), [column("x")], design=AIM))
    assert empty(suite_power(score_cells("x", np.ones((1, 5))), [column("x")], design=AIM))
    assert empty(suite_power([Cell(model="a", benchmark="x", value=0.3)], [column("x")], design=AIM))
    one_note = suite_power(score_cells("x", np.array([[1.0, 1], [0.0, 0]]), ["n", "n"]), [column("x")], design=AIM)
    assert one_note.benchmarks == ()
    assert one_note.adjacent_models[0].standard_error == pytest.approx(math.sqrt(1 / 3))
    alike = suite_power(score_cells("x", np.ones((2, 9))), [column("x")], design=AIM, difference=0.1)
    assert alike.adjacent_models[0].observed_difference == 0
    assert alike.benchmarks[0].needed == 6


# --- minimum detectable effects by both rules: by hand, with every quirk ----------------------------------------------


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
