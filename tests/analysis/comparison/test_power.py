"""Power and sample sizes: by hand, against closed forms, and in simulations."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.comparison.power import (
    Noise,
    ObservedNoise,
    PowerDesign,
    detectable_difference,
    estimate_power,
    needed_benchmarks,
    needed_instances,
    observed_noise,
    power_at,
    sd_limit_factor,
)
from medhelm.analysis.comparison.significance import sign_flip_tests
from medhelm.analysis.leaderboard.cells import align
from tests.support.leaderboards import column, score_cells
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
