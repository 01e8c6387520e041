"""Calibration of jury scores: algebra, an independent computation, and coverage in simulations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import astuple, replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.studies import clinicians
from medhelm.analysis.agreement.calibration import (
    IMBALANCE,
    LEAST,
    LEAST_FOR_CURVE,
    CalibratedMean,
    Curve,
    RatedPairs,
    RatingDesign,
    draw_completions,
    imbalance,
    isotonic_curve,
    isotonic_mapped,
    prediction_powered,
    prediction_powered_pooled,
)
from medhelm.analysis.means import Floats, constant_interval, t_quantile
from tests.support.values import present

SCALE = RatingDesign(low=1, high=5)

Calibrate = Callable[[Floats, Floats], CalibratedMean]

NAN = math.nan


def powered(jury: Floats, ratings: Floats) -> CalibratedMean:
    return prediction_powered(jury, ratings, design=SCALE)


def mapped(jury: Floats, ratings: Floats) -> CalibratedMean:
    return isotonic_mapped(jury, ratings, design=SCALE, rng=np.random.default_rng(0))


BOTH = pytest.mark.parametrize("calibrate", [powered, mapped])


# --- invented runs ----------------------------------------------------------------------------------------------------

GRADES = np.linspace(1, 5, 9)
MIDDLING = np.array([2, 4, 8, 14, 18, 20, 16, 11, 7]) / 100
CROWDED = np.array([1, 1, 2, 3, 5, 9, 14, 23, 42]) / 100
"""How often clinicians give each grade: most at the upper end, as with good models."""


class Scenario(NamedTuple):
    """How ratings are spread and how the jury errs: score = 3 + bias + slope * (rating - 3) + noise."""

    chances: Floats
    bias: float
    slope: float
    noise: float

    @property
    def truth(self) -> float:
        return float(self.chances @ GRADES)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Scores of a jury, in ninths as three judges on three criteria give them, and all ratings."""
        ratings = rng.choice(GRADES, p=self.chances, size=shape)
        scores = 3 + self.bias + self.slope * (ratings - 3) + rng.normal(0, self.noise, shape)
        return np.clip(np.round(scores * 9) / 9, 1, 5), ratings


SCENARIOS = {
    "lenient": Scenario(MIDDLING, 0.6, 1.0, 0.3),
    "noisy": Scenario(MIDDLING, 0.4, 0.6, 0.7),
    "useless": Scenario(MIDDLING, 0.8, 0.0, 0.6),
    "crowded, harsh": Scenario(CROWDED, -0.5, 1.0, 0.3),
    "crowded, compressed": Scenario(CROWDED, -0.5, 0.5, 0.3),
    "crowded, useless": Scenario(CROWDED, 0.0, 0.0, 0.6),
}


def some_run(n: int = 60, rated: int = 20, seed: int = 0, scenario: str = "noisy") -> tuple[Floats, Floats]:
    """Jury scores and ratings of one run, the first ones rated."""
    jury, ratings = SCENARIOS[scenario].draw(np.random.default_rng(seed), (n,))
    ratings[rated:] = NAN
    return jury, ratings


def coverage(calibrate: Calibrate, scenario: Scenario, n: int, rated: int, runs: int = 1000) -> tuple[float, float]:
    """Return how often the interval holds the truth, and how often that around the jury's mean does."""
    juries, ratings = scenario.draw(np.random.default_rng(0), (runs, n))
    ratings[:, rated:] = NAN
    found = [calibrate(jury, row) for jury, row in zip(juries, ratings, strict=True)]
    half = 1.96 * juries.std(axis=1) / math.sqrt(n)
    naive = float((np.abs(juries.mean(axis=1) - scenario.truth) <= half).mean())
    return statistics.fmean(one.low <= scenario.truth <= one.high for one in found), naive


# --- algebra ----------------------------------------------------------------------------------------------------------


@BOTH
def test_if_all_are_rated_the_jury_says_nothing(calibrate: Calibrate) -> None:
    jury, ratings = some_run(rated=60)
    found = calibrate(jury, ratings)
    assert (found.value, found.lambda_) == (ratings.mean(), 0)
    assert found.standard_error == pytest.approx(ratings.std(ddof=1) / math.sqrt(60))
    assert astuple(found) == astuple(calibrate(np.flip(jury), ratings))
    assert powered(jury, ratings) == prediction_powered(jury, ratings, design=SCALE, lambda_=1)


def test_a_jury_that_ranks_the_wrong_way_round_is_not_used() -> None:
    jury, ratings = some_run(scenario="lenient")
    assert powered(6 - jury, ratings) == prediction_powered(jury, ratings, design=SCALE, lambda_=0)


@BOTH
def test_instances_without_a_jury_score_are_left_out_and_counted(calibrate: Calibrate) -> None:
    jury, ratings = some_run(rated=30)
    jury[[3, 40, 50]] = NAN
    kept = ~np.isnan(jury)
    found = calibrate(jury, ratings)
    assert (found.n, found.n_rated, found.n_left_out) == (57, 29, 3)
    assert replace(found, n_left_out=0) == calibrate(jury[kept], ratings[kept])


@BOTH
@pytest.mark.parametrize("grade", [1, 3, 5])
def test_equal_ratings_leave_room_for_what_was_not_seen(calibrate: Calibrate, grade: float) -> None:
    jury, ratings = some_run()
    ratings[:20] = grade
    found = calibrate(jury, ratings)
    assert (found.value, found.standard_error, found.method) == (grade, 0, "constant")
    assert (found.low, found.high) == pytest.approx(constant_interval(grade, 20, 1, 5))


@BOTH
@pytest.mark.parametrize("scores", [[4.0] * 60, [4.1] * 20 + [3.0] * 40])
def test_a_jury_that_says_nothing_where_it_could_be_checked_is_not_used(
    calibrate: Calibrate, scores: list[float]
) -> None:
    _, ratings = some_run()
    found = calibrate(np.array(scores), ratings)
    assert found.value == pytest.approx(np.nanmean(ratings), abs=1e-9)


@pytest.mark.parametrize(("rated", "others", "grade"), [(3.0, 4.5, 5.0), (4.5, 2.0, 1.0)])
def test_an_estimate_off_the_scale_is_at_its_end_and_keeps_its_interval(
    rated: float, others: float, grade: float
) -> None:
    jury = np.array([rated] * 20 + [others] * 40) + 0.1 * np.resize([-1, 0, 1], 60)
    ratings = np.array([grade] * 19 + [3.0] + [NAN] * 40)
    found = prediction_powered(jury, ratings, design=SCALE, lambda_=1)
    assert found.value == grade
    assert found.high - found.low > 2 * found.standard_error
    assert 1 <= found.low <= found.value <= found.high <= 5


# --- clusters ---------------------------------------------------------------------------------------------------------


def test_the_same_instance_three_times_is_worth_one() -> None:
    jury, ratings = some_run(n=80, rated=30)
    clusters = np.repeat(np.arange(80), 3)
    found = prediction_powered(np.repeat(jury, 3), np.repeat(ratings, 3), clusters, design=SCALE)
    once = powered(jury, ratings)
    assert found.method == once.method + "-clustered"
    expected = (once.value, once.low, once.high, once.standard_error)
    assert (found.value, found.low, found.high, found.standard_error) == pytest.approx(expected)


# --- an independent computation ---------------------------------------------------------------------------------------


def two_sample(jury: Floats, ratings: Floats, lambda_: float) -> tuple[float, float]:
    """Estimate and standard error as published for a labelled and an unlabelled sample, in plain Python."""
    labelled = [(float(f), float(y)) for f, y in zip(jury, ratings, strict=True) if not math.isnan(y)]
    unlabelled = [float(f) for f, y in zip(jury, ratings, strict=True) if math.isnan(y)]
    rectifier = [y - lambda_ * f for f, y in labelled]
    value = lambda_ * statistics.fmean(unlabelled) + statistics.fmean(rectifier)
    scores = [float(f) for f in jury]
    error = lambda_**2 * statistics.pvariance(scores) / len(unlabelled) + statistics.variance(rectifier) / len(labelled)
    return value, math.sqrt(error)


@pytest.mark.parametrize("lambda_", [0, 0.3, 1.7])
@pytest.mark.parametrize("rated", [12, 40, 150])
def test_it_is_prediction_powered_inference_with_another_name_for_lambda(lambda_: float, rated: int) -> None:
    jury, ratings = some_run(n=400, rated=rated)
    found = prediction_powered(jury, ratings, design=SCALE, lambda_=lambda_)
    value, error = two_sample(jury, ratings, lambda_ * (1 - rated / 400))
    assert found.value == pytest.approx(value)
    assert found.standard_error == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize("scenario", ["noisy", "crowded, harsh"])
def test_every_rating_is_corrected_with_the_slope_of_the_others(scenario: str) -> None:
    jury, ratings = some_run(n=200, rated=12, scenario=scenario)
    scores, given = jury[:12].tolist(), ratings[:12].tolist()
    slopes = [
        statistics.linear_regression(scores[:i] + scores[i + 1 :], given[:i] + given[i + 1 :]).slope for i in range(12)
    ]
    mean = statistics.fmean(jury.tolist())
    corrected = [y + slope * (mean - f) for f, y, slope in zip(scores, given, slopes, strict=True)]
    found = powered(jury, ratings)
    assert found.lambda_ == pytest.approx(statistics.fmean(slopes))
    assert found.value == pytest.approx(statistics.fmean(corrected))


@pytest.mark.parametrize("scenario", ["noisy", "crowded, compressed", "crowded, useless"])
def test_the_limits_are_those_of_halls_transformation(scenario: str) -> None:
    jury, ratings = some_run(n=200, rated=40, scenario=scenario)
    found = prediction_powered(jury, ratings, design=SCALE, lambda_=0.8)
    errors = ratings[:40] - 0.8 * jury[:40]
    shares = 0.8 * (jury - jury.mean()) / 200
    shares[:40] += (errors - errors.mean()) / 40
    skewness = (shares**3).sum() / (shares**2).sum() ** 1.5 * math.sqrt(40 * 39) / 38
    assert abs(skewness) > 0.005
    squares = (shares[:40] - shares[:40].mean()) ** 2
    kurtosis = 40 * (squares**2).sum() / squares.sum() ** 2
    df = min(39, 80 / (kurtosis - 1))
    for limit, sign in ((found.low, 1), (found.high, -1)):
        t = (found.value - limit) / found.standard_error
        transformed = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
        assert transformed == pytest.approx(sign * t_quantile(0.975, df), abs=1e-6)


@BOTH
def test_the_standard_error_is_that_of_a_bootstrap_over_both_parts(calibrate: Calibrate) -> None:
    jury, ratings = some_run(n=300, rated=60, scenario="lenient")
    rng = np.random.default_rng(0)
    values = []
    for _ in range(300):
        drawn = np.concatenate([rng.integers(0, 60, 60), rng.integers(60, 300, 240)])
        values.append(calibrate(jury[drawn], ratings[drawn]).value)
    assert calibrate(jury, ratings).standard_error == pytest.approx(statistics.stdev(values), rel=0.12)


# --- coverage ---------------------------------------------------------------------------------------------------------

SHORT = ("crowded, harsh", "useless")
"""Scenarios that are not only tested at length."""


@pytest.mark.parametrize(("n", "rated"), [(400, 15), pytest.param(1000, 100, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] * (one not in SHORT)) for one in SCENARIOS]
)
def test_intervals_cover_where_those_of_the_jury_fail(name: str, n: int, rated: int) -> None:
    covered, naive = coverage(powered, SCENARIOS[name], n, rated)
    assert 0.93 <= covered <= 0.985
    assert naive <= 0.03


@pytest.mark.long
@pytest.mark.parametrize(("name", "rated"), [("lenient", 30), ("crowded, compressed", 30), ("noisy", 60)])
def test_intervals_of_the_curve_cover(name: str, rated: int) -> None:
    assert 0.93 <= coverage(mapped, SCENARIOS[name], 300, rated)[0] <= 0.985


@pytest.mark.parametrize("name", clinicians.CEILINGS)
@pytest.mark.parametrize("rated", [15, pytest.param(30, marks=pytest.mark.long)])
def test_a_good_jury_at_the_ceiling_is_covered(name: str, rated: int) -> None:
    """Few ratings show no spread there: the few that do count, and scores beyond the rated ones leave room."""
    assert clinicians.coverage(*clinicians.means_at_the_end(name, rated, 600)) >= 0.92


# --- several models together ------------------------------------------------------------------------------------------


def pooled(jury: Floats, pairs: RatedPairs, model: str = "m0") -> CalibratedMean:
    clusters = None if pairs.clusters is None else np.arange(len(jury))
    design = RatingDesign(low=-5, high=15)
    return prediction_powered_pooled(jury, pairs, clusters=clusters, model=model, design=design)


def some_pool(
    rng: np.random.Generator, models: int = 5, rated: int = 10, apart: float = 0.0, common: float = 0.2
) -> tuple[Floats, RatedPairs, float]:
    """Scores of model m0 on 200 instances, rated pairs of all models on the same of them, and the mean of m0's ratings.

    Parameters: apart, standard deviation of the jury's mean error between models; common, that of its error from
    instance to instance, alike for all models.
    """
    quality = rng.uniform(-0.5, 0.5, models)[:, None]
    ratings = 3 + quality + rng.normal(0, 0.6, (models, 200))
    error = rng.normal(0, apart, models)[:, None] + rng.normal(0, common, 200) + rng.normal(0, 0.3, ratings.shape)
    jury = ratings + 0.5 + error
    names = [f"m{i}" for i in range(models) for _ in range(rated)]
    clusters = np.tile(np.arange(rated), models)
    scores, given = jury[:, :rated].ravel(), ratings[:, :rated].ravel()
    pairs = RatedPairs(jury=scores, ratings=given, models=names, clusters=clusters)
    return jury[0], pairs, 3 + float(quality[0, 0])


def test_the_pooled_value_and_its_standard_error_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    jury, names = rng.normal(4, 0.5, 100), ["a"] * 6 + ["b"] * 9 + ["c"] * 15
    scores = rng.normal(4, 0.5, 30)
    ratings = scores + np.repeat([0.0, 0.8, -0.8], [6, 9, 15]) + rng.normal(0, 0.3, 30)
    errors = {
        model: [float(y - f) for f, y, name in zip(scores, ratings, names, strict=True) if name == model]
        for model in "abc"
    }
    by_chance = statistics.fmean(statistics.variance(own) / len(own) for own in errors.values())
    between = statistics.variance(statistics.fmean(own) for own in errors.values()) - by_chance
    differences = between * (1 + sum(len(own) ** 2 for own in errors.values()) / 30**2)
    variance = np.var(jury) / 100 + np.var(ratings - scores, ddof=1) / 30 + differences
    found = pooled(jury, RatedPairs(jury=scores, ratings=ratings, models=names), "a")
    assert (found.n, found.n_rated, found.lambda_, found.method) == (100, 30, 1, "pooled")
    assert found.value == pytest.approx(jury.mean() + (ratings - scores).mean())
    assert found.between_models == pytest.approx(math.sqrt(between))
    assert found.standard_error == pytest.approx(math.sqrt(variance))


@pytest.mark.long
@pytest.mark.parametrize(("models", "rated", "apart"), [(2, 10, 0.0), (5, 10, 0.0), (3, 12, 0.3)])
def test_pooled_intervals_cover_though_errors_differ_between_models(models: int, rated: int, apart: float) -> None:
    rng, covered = np.random.default_rng(0), []
    for _ in range(1000):
        jury, pairs, truth = some_pool(rng, models, rated, apart=apart)
        found = pooled(jury, pairs)
        covered.append(found.low <= truth <= found.high)
    assert 0.93 <= statistics.fmean(covered) <= (1.0 if apart else 0.997)


def test_a_model_that_is_not_in_the_pool_has_the_wider_interval() -> None:
    jury, pairs, _ = some_pool(np.random.default_rng(3), apart=0.4)
    inside, outside = pooled(jury, pairs), pooled(jury, pairs, "other")
    assert inside.between_models > 0
    assert (outside.value, outside.standard_error) == (inside.value, inside.standard_error)
    assert outside.low < inside.low < inside.high < outside.high


def test_pairs_of_one_instance_are_not_independent() -> None:
    """Errors that all models share on an instance are as uncertain as if one model were rated."""
    jury, pairs, _ = some_pool(np.random.default_rng(0), common=0.8)
    named, unnamed = pooled(jury, pairs), pooled(jury, replace(pairs, clusters=None))
    assert named.value == pytest.approx(unnamed.value)
    assert named.standard_error > 1.5 * unnamed.standard_error


# --- what cannot be calibrated ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("calibrate", "least"), [(powered, LEAST), (mapped, LEAST_FOR_CURVE)])
def test_too_few_ratings_are_refused(calibrate: Calibrate, least: int) -> None:
    jury, ratings = some_run(rated=least)
    assert calibrate(jury, ratings).n_rated == least
    ratings[0] = NAN
    with pytest.raises(ValueError, match=f"{least - 1} rated units are too few .* {least} at least"):
        calibrate(jury, ratings)


@BOTH
@pytest.mark.parametrize(
    ("score", "rating", "words"), [(3.0, 5.5, "ratings from .* to 5.5 on a scale 1..5"), (math.inf, 3.0, "infinite")]
)
def test_numbers_off_the_scale_are_refused(calibrate: Calibrate, score: float, rating: float, words: str) -> None:
    jury, ratings = some_run(rated=30)
    jury[0], ratings[0] = score, rating
    with pytest.raises(ValueError, match=words):
        calibrate(jury, ratings)


@pytest.mark.parametrize(
    ("models", "words"), [(["a"] * 20, "two models at least"), ([f"m{i}" for i in range(20)], "two of one of them")]
)
def test_pools_that_say_nothing_of_differences_are_refused(models: list[str], words: str) -> None:
    jury, _ = some_run()
    with pytest.raises(ValueError, match=words):
        pooled(jury, RatedPairs(jury=np.full(20, 3.0), ratings=np.full(20, 4.0), models=models))


# --- raters as a sample of clinicians ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "raters"), [(0.4, 3), *(pytest.param(*each, marks=pytest.mark.long) for each in ((0.0, 5), (0.2, 10)))]
)
def test_intervals_cover_what_clinicians_in_general_would_give(severity: float, raters: int) -> None:
    """Without the raters' effect, they cover the truth in 44% (3 raters who differ by 0.4) to 87% (10, by 0.2)."""
    rng = np.random.default_rng(raters)
    these_only, in_general = zip(*(clinicians.one_panel(raters, severity, rng) for _ in range(300)), strict=True)
    assert clinicians.coverage(in_general, 3.0) >= 0.93
    assert severity == 0 or clinicians.coverage(these_only, 3.0) <= 0.93
    assert [(one.value, one.n_raters) for one in in_general] == [(one.value, raters) for one in these_only]


# --- drawn with known probabilities -----------------------------------------------------------------------------------


def test_without_the_jury_it_is_the_weighted_mean() -> None:
    jury, ratings = some_run()
    drawn = np.linspace(0.2, 0.8, 60)
    found = prediction_powered(jury, ratings, design=replace(SCALE, probabilities=drawn), lambda_=0)
    assert found.value == pytest.approx(np.average(ratings[:20], weights=1 / drawn[:20]))
    assert found.is_weighted


@pytest.mark.parametrize("wrong", [0.0, 1.2, NAN])
def test_a_rated_instance_needs_a_probability(wrong: float) -> None:
    jury, ratings = some_run()
    drawn = np.full(60, 0.5)
    drawn[3] = wrong
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        prediction_powered(jury, ratings, design=replace(SCALE, probabilities=drawn))
    drawn[3], drawn[50] = 0.5, wrong
    assert prediction_powered(jury, ratings, design=replace(SCALE, probabilities=drawn)).n_rated == 20


@pytest.mark.long
@pytest.mark.parametrize("jury", clinicians.RATED_JURIES)
def test_intervals_of_a_stratified_draw_cover(jury: str) -> None:
    found, truth = clinicians.means_by_selection(jury, "`sample --by-score`", 800)
    assert 0.92 <= clinicians.coverage(found, truth) <= 0.99
    assert abs(statistics.fmean(one.value for one in found) - truth) < 0.02


# --- the rising curve that fits best ----------------------------------------------------------------------------------


POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(-8, 8)), min_size=1, max_size=14)


def minimax(points: list[tuple[int, int]]) -> dict[int, float]:
    """The definition by all intervals: the largest over starts of the smallest over ends of the mean between them."""
    knots = sorted({x for x, _ in points})

    def mean(start: int, end: int) -> float:
        inside = [y for x, y in points if start <= x <= end]
        return sum(inside) / len(inside)

    return {
        knot: max(min(mean(start, end) for end in knots if end >= knot) for start in knots if start <= knot)
        for knot in knots
    }


@given(POINTS)
def test_the_curve_is_that_of_all_intervals(points: list[tuple[int, int]]) -> None:
    expected = minimax(points)
    curve = isotonic_curve(np.array([x for x, _ in points], float), np.array([y for _, y in points], float))
    assert curve.knots.tolist() == list(expected)
    assert curve.heights.tolist() == pytest.approx(list(expected.values()), abs=1e-12)


def test_beyond_the_knots_it_goes_on_as_told() -> None:
    curve = Curve(np.array([2.0, 3.0]), np.array([1.0, 5.0]))
    places = np.array([0.0, 2.0, 2.25, 3.0, 4.0])
    assert curve.at(places).tolist() == [1, 1, 2, 5, 5]
    assert curve.at(places, slope=2).tolist() == [-3, 1, 2, 5, 7]


# --- draws of completions to rate: sizes, probabilities, and signs of a selection that was no random draw -------------


SCORES = np.concatenate([np.full(8, 1.5), np.full(30, 3.0), np.full(160, 4.8), [NAN, NAN]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("scale", [None, (1.0, 5.0)])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 50, 198, 400])
def test_as_many_as_wanted_are_drawn_once_each_and_probabilities_add_up(
    size: int, scale: tuple[float, float] | None
) -> None:
    found = draw_completions(SCORES, size, rng(), scale=scale)
    assert len(found.drawn) == len(set(found.drawn.tolist())) == min(size, 198)
    assert np.nansum(found.probabilities) == pytest.approx(min(size, 198))
    assert np.isnan(found.probabilities[-2:]).all()
    there = found.probabilities[:-2]
    assert ((there > 0) & (there <= 1)).all()


def test_rare_scores_are_drawn_more_often_and_no_completion_half_as_often() -> None:
    found = draw_completions(SCORES, 50, rng(), scale=(1, 5)).probabilities
    assert found[0] == 1
    assert found[0] > found[10] > found[100] >= 0.5 * 50 / 198


def test_probabilities_are_the_frequencies_of_being_drawn() -> None:
    counts = np.zeros(len(SCORES))
    for seed in range(400):
        found = draw_completions(SCORES, 20, rng(seed), scale=(1, 5))
        counts[found.drawn] += 1
    assert counts[:8].mean() / 400 == pytest.approx(found.probabilities[0], abs=0.02)
    assert counts[38:198].mean() / 400 == pytest.approx(found.probabilities[100], abs=0.01)


def test_interesting_cases_are_out_of_balance_and_random_ones_are_not() -> None:
    values = rng().normal(size=500)
    low = values < np.quantile(values, 0.1)
    found = present(imbalance(values, low))
    assert found.value < -1.5
    assert abs(found.value) > found.by_chance
    at_random = [imbalance(values, rng(seed).permutation(500) < 50) for seed in range(200)]
    assert np.mean([one is not None and abs(one.value) > one.by_chance for one in at_random]) <= 0.08
    assert np.mean([one is not None and abs(one.value) > IMBALANCE for one in at_random]) <= 0.15


def test_known_probabilities_restore_the_balance() -> None:
    values = SCORES[:-2] + 0.1 * rng().normal(size=198)
    drawn = draw_completions(values, 60, rng(), scale=(1, 5))
    is_rated = np.isin(np.arange(198), drawn.drawn)
    plain, weighted = imbalance(values, is_rated), imbalance(values, is_rated, 1 / drawn.probabilities)
    assert plain is not None
    assert weighted is not None
    assert abs(plain.value) > IMBALANCE > abs(weighted.value)
