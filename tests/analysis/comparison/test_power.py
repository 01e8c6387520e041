"""Power and sample sizes: by hand, against closed forms, and in simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
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
from medhelm.analysis.leaderboard.cells import Cell, Column, align
from tests.support.sign_flips import sign_flip_test
from tests.support.values import present

quick = settings(max_examples=80, deadline=None, database=None)
USUAL = PowerDesign()


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("disagreement", "difference", "expected"),
    [
        # (1.959964 sqrt(psi) + 0.841621 sqrt(psi - d^2))^2 / d^2, Connor 1987, in a pocket calculator
        (0.18, 0.03, 1568),
        (0.30, 0.10, 234),
        (0.60, 0.20, 116),
        (0.05, 0.05, 155),
    ],
)
def test_0_1_scores_need_what_connor_says(disagreement: float, difference: float, expected: int) -> None:
    found = needed_instances(Noise(disagreement=disagreement), difference, USUAL)
    by_hand = (
        stats.norm.ppf(0.975) * math.sqrt(disagreement)
        + stats.norm.ppf(0.8) * math.sqrt(disagreement - difference**2)
    ) ** 2 / difference**2  # fmt: skip
    assert found == math.ceil(by_hand) == expected


def test_other_scores_need_the_usual_number_where_the_difference_is_small() -> None:
    usual = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) ** 2 * 0.2**2 / 0.01**2
    assert needed_instances(Noise(sd=0.2), 0.01, USUAL) == pytest.approx(usual, rel=0.005)


def test_clusters_multiply_the_instances() -> None:
    alone = present(needed_instances(Noise(sd=0.3), 0.02, USUAL))
    together = needed_instances(Noise(sd=0.3, design_effect=2.5, cluster_size=4), 0.02, USUAL)
    assert together == pytest.approx(2.5 * alone, rel=0.01)


def test_the_level_is_divided_by_the_comparisons() -> None:
    many, strict = PowerDesign(comparisons=36), PowerDesign(alpha=0.05 / 36)
    noise = Noise(disagreement=0.2)
    assert needed_instances(noise, 0.04, many) == needed_instances(noise, 0.04, strict)


def test_more_power_and_a_lower_level_need_more_instances() -> None:
    noise = Noise(sd=0.3)
    aims = [PowerDesign(power=0.5), PowerDesign(), PowerDesign(power=0.95), PowerDesign(power=0.95, alpha=0.01)]
    found = [needed_instances(noise, 0.05, design) or 0 for design in aims]
    assert found == sorted(set(found))


def test_what_cannot_be_is_none() -> None:
    assert needed_instances(Noise(disagreement=0.1), 0.2, USUAL) is None
    assert needed_instances(Noise(sd=0.3), 0, USUAL) is None
    assert needed_instances(Noise(sd=0.5), 1e-7, USUAL) is None
    assert detectable_difference(Noise(sd=0.5), 2, USUAL) is None
    assert detectable_difference(Noise(sd=0.5), 0, USUAL) is None
    assert detectable_difference(Noise(disagreement=0.01), 20, USUAL) is None


def test_models_that_never_disagree_in_another_way_need_few() -> None:
    """Without scatter only the flips of signs count: five of one sign have p = 2 / 32, six 2 / 64."""
    assert sign_flip_test(np.ones(5)) > 0.05 >= sign_flip_test(np.ones(6))
    assert needed_instances(Noise(sd=0.0), 0.3, USUAL) == 6
    assert needed_instances(Noise(sd=0.0, cluster_size=4), 0.3, USUAL) == 24
    assert (power_at(Noise(sd=0.0), 5, 0.3, USUAL), power_at(Noise(sd=0.0), 6, 0.3, USUAL)) == (0, 1)
    assert detectable_difference(Noise(sd=0.001), 5, USUAL) is None


@pytest.mark.parametrize(
    ("design", "fewest"),
    [(USUAL, 6), (PowerDesign(comparisons=36), 11), (PowerDesign(alpha=0.25), 3), (PowerDesign(alpha=0.5), 2)],
)
def test_the_fewest_clusters_that_can_reach_the_level(design: PowerDesign, fewest: int) -> None:
    level = design.alpha / design.comparisons
    assert design.fewest == fewest
    assert sign_flip_test(np.ones(fewest)) <= level
    assert sign_flip_test(np.ones(fewest - 1)) > level


@quick
@given(st.floats(0.02, 0.9), st.integers(60, 5000), st.floats(0.55, 0.95), st.integers(1, 40), st.floats(0.5, 4))
def test_the_three_questions_have_one_answer(sd: float, n: int, chance: float, pairs: int, effect: float) -> None:
    """The smallest difference that n instances show needs n instances, which show it with the power aimed at."""
    noise, design = Noise(sd=sd, design_effect=effect), PowerDesign(power=chance, comparisons=pairs)
    smallest = detectable_difference(noise, n, design)
    if smallest is None:
        return
    assert needed_instances(noise, smallest, design) == pytest.approx(n, abs=1)
    assert power_at(noise, n, smallest, design) == pytest.approx(chance, abs=0.002)


@quick
@given(st.floats(0.1, 0.95), st.integers(100, 5000))
def test_so_it_is_for_0_1_scores(disagreement: float, n: int) -> None:
    smallest = present(detectable_difference(Noise(disagreement=disagreement), n, USUAL))
    assert needed_instances(Noise(disagreement=disagreement), smallest, USUAL) == pytest.approx(n, abs=1)


def test_power_grows_from_the_level_to_certainty() -> None:
    noise = Noise(sd=0.4)
    found = [power_at(noise, 500, d, USUAL) for d in (1e-9, 0.01, 0.03, 0.05, 0.1, 0.5)]
    assert found[0] == pytest.approx(0.05)
    assert found == sorted(found)
    assert found[-1] == pytest.approx(1)


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


@pytest.mark.parametrize(("sd", "difference"), [(0.2, 0.05), (0.2, 0.12)])
def test_the_instances_needed_by_grades_give_the_power(sd: float, difference: float) -> None:
    n = present(needed_instances(Noise(sd=sd), difference, USUAL))
    generator = np.random.default_rng(n)
    found = [sign_flip_test(generator.normal(difference, sd, n)) <= 0.05 for _ in range(500)]
    assert 0.745 <= np.mean(found) <= 0.9


@pytest.mark.parametrize("difference", [0.02, 0.05, 0.1, 0.15])
def test_grades_need_at_most_four_instances_more_than_a_t_test(difference: float) -> None:
    """Large differences raise the threshold and steady the result at once; the formula counts the first alone."""

    def power_of_t(n: int) -> float:
        limit, shift = stats.t.ppf(0.975, n - 1), difference / 0.2 * math.sqrt(n)
        return float(stats.nct.sf(limit, n - 1, shift) + stats.nct.cdf(-limit, n - 1, shift))

    theirs = next(n for n in range(3, 2000) if power_of_t(n) >= 0.8)
    found = present(needed_instances(Noise(sd=0.2), difference, USUAL))
    assert theirs <= found <= theirs + 4


def test_the_instances_needed_in_clusters_give_the_power() -> None:
    """Six questions on each note, luck of the note's own: variance of a mean of six, 1 + 5 times 0.3 as large."""
    within, size = 0.3, 6
    noise = Noise(sd=0.3, design_effect=1 + (size - 1) * within, cluster_size=size)
    n = present(needed_instances(noise, 0.06, USUAL))
    k = round(n / size)
    generator = np.random.default_rng(k)
    found = []
    for _ in range(500):
        note = generator.normal(0, math.sqrt(within), (k, 1))
        drawn = 0.06 + 0.3 * (note + generator.normal(0, math.sqrt(1 - within), (k, size)))
        found.append(sign_flip_test(drawn.sum(axis=1)) <= 0.05)
    assert np.mean(found) == pytest.approx(0.8, abs=0.055)


# --- what was seen ----------------------------------------------------------------------------------------------------


def seen(scores: list[list[float]], clusters: list[str] | None = None) -> ObservedNoise | None:
    column = Column(benchmark="x", title="x", category="c", subcategory="s", metric="m")
    models = [f"m{i}" for i in range(len(scores))]
    ids = [f"i{i:03}" for i in range(len(scores[0]))]
    cells = {
        model: Cell(model=model, benchmark="x", value=0.5, ids=ids, scores=np.array(row), clusters=clusters)
        for model, row in zip(models, scores, strict=True)
    }
    pairs = [(i, j) for i in range(len(models)) for j in range(i + 1, len(models))]
    return observed_noise(align(cells, column, models), pairs)


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


def test_the_noise_of_several_pairs_is_their_mean_as_on_the_leaderboard() -> None:
    generator = np.random.default_rng(1)
    rows = generator.random((3, 40))
    found = present(seen(rows.tolist()))
    spreads = [(rows[i] - rows[j]).std() for i, j in ((0, 1), (0, 2), (1, 2))]
    assert found.noise.sd == pytest.approx(np.mean(spreads))
    assert (found.n_pairs, found.disagreement) == (3, None)


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


def test_without_a_difference_only_the_detectable_one_is_known() -> None:
    found = estimate_power(None, 0.01, 0.05, USUAL)
    assert found.detectable == pytest.approx(0.01 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)))
    assert (found.difference, found.power, found.times_instances, found.benchmarks_needed) == (None,) * 4


def test_an_outlook_without_noise_or_with_a_single_benchmark() -> None:
    found = estimate_power(0.1, 0.0, None, USUAL)
    assert (found.power, found.times_instances, found.benchmarks_needed) == (1.0, 0.0, None)
    # Six benchmarks at least can be significant, and then only if all six differ in one direction.
    assert USUAL.fewest == 6
    least = estimate_power(0.9, 0.01, 0.001, USUAL, n_benchmarks=4)
    assert (least.benchmarks_needed_low, least.benchmarks_needed) == (7, 7)


def power_of_the_advice(n_pilot: int, ratio: float, pilots: int, seed: int) -> float:
    """Power of sign-flip tests over as many benchmarks as pilots of `n_pilot` benchmarks advise.

    `ratio`: SD of the differences between benchmarks, over their mean.
    """
    generator = np.random.default_rng(seed)
    found = 0
    for _ in range(pilots):
        spread = float(generator.normal(1, ratio, n_pilot).std(ddof=1))
        n = present(needed_benchmarks(spread * sd_limit_factor(n_pilot), 1.0, USUAL))
        assert n > USUAL.fewest
        found += bool(sign_flip_tests(generator.normal(1, ratio, (1, min(n, 400))))[0] <= 0.05)
    return found / pilots


def test_the_benchmarks_advised_after_a_small_pilot_have_the_power() -> None:
    """By normal quantiles and the SD of four benchmarks they had 0.35 to 0.56, and none at all below six."""
    assert power_of_the_advice(4, 1.0, 200, 1) >= 0.75


@pytest.mark.long
@pytest.mark.parametrize("n_pilot", [3, 4, 8, 12, 35])
@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0, 1.5, 2.5])
def test_the_benchmarks_advised_have_the_power(n_pilot: int, ratio: float) -> None:
    assert power_of_the_advice(n_pilot, ratio, 1000, n_pilot) >= 0.75
