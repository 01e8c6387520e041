"""Calibration of jury scores: algebra, an independent computation, and coverage in simulations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from medhelm.analysis.agreement.calibration import (
    LEAST,
    LEAST_FOR_CURVE,
    CalibratedMean,
    RatedPairs,
    RatingDesign,
    draw_completions,
    isotonic_mapped,
    prediction_powered,
    prediction_powered_pooled,
)
from medhelm.analysis.agreement.reliability import rater_effect
from medhelm.analysis.means import Floats, constant_interval, t_quantile

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
    "compressed": Scenario(MIDDLING, 0.8, 0.5, 0.3),
    "noisy": Scenario(MIDDLING, 0.4, 0.6, 0.7),
    "useless": Scenario(MIDDLING, 0.8, 0.0, 0.6),
    "crowded, harsh": Scenario(CROWDED, -0.5, 1.0, 0.3),
    "crowded, compressed": Scenario(CROWDED, -0.5, 0.5, 0.3),
    "crowded, noisy": Scenario(CROWDED, -0.6, 0.6, 0.7),
    "crowded, useless": Scenario(CROWDED, 0.0, 0.0, 0.6),
}
PERFECT = Scenario(MIDDLING, 0, 1, 0)
RUNS = 1000


def some_run(n: int = 60, rated: int = 20, seed: int = 0, scenario: str = "noisy") -> tuple[Floats, Floats]:
    """Jury scores and ratings of one run, the first ones rated."""
    jury, ratings = SCENARIOS[scenario].draw(np.random.default_rng(seed), (n,))
    ratings[rated:] = NAN
    return jury, ratings


class Simulated(NamedTuple):
    """What came of many runs."""

    coverage: float
    width: float
    naive: float
    """Coverage of the interval around the mean of the jury's scores."""


def simulate(
    calibrate: Calibrate, scenario: Scenario, n: int, rated: int, runs: int = RUNS, seed: int = 0
) -> Simulated:
    juries, ratings = scenario.draw(np.random.default_rng(seed), (runs, n))
    ratings[:, rated:] = NAN
    found = [calibrate(jury, row) for jury, row in zip(juries, ratings, strict=True)]
    half = 1.96 * juries.std(axis=1) / math.sqrt(n)
    return Simulated(
        coverage=statistics.fmean(one.low <= scenario.truth <= one.high for one in found),
        width=statistics.fmean(one.high - one.low for one in found),
        naive=float((np.abs(juries.mean(axis=1) - scenario.truth) <= half).mean()),
    )


# --- algebra ----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_jury_that_is_right_gives_the_mean_over_all(calibrate: Calibrate) -> None:
    truth = np.concatenate([np.resize(GRADES[2:7], 40), np.resize(GRADES, 50)])
    ratings = truth.copy()
    ratings[40:] = NAN
    found = calibrate(truth, ratings)
    assert found.value == pytest.approx(truth.mean())
    assert found.lambda_ == pytest.approx(1)
    assert found.standard_error == pytest.approx(truth.std() / math.sqrt(90), rel=0.03)


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
def test_the_unit_of_the_jury_does_not_matter(calibrate: Calibrate) -> None:
    jury, ratings = some_run()
    found, changed = calibrate(jury, ratings), calibrate(0.25 * jury - 7, ratings)
    assert astuple(replace(changed, lambda_=found.lambda_)) == pytest.approx(astuple(found))
    if calibrate is powered:
        assert changed.lambda_ == pytest.approx(4 * found.lambda_)


@BOTH
def test_a_mirrored_scale_gives_a_mirrored_interval(calibrate: Calibrate) -> None:
    jury, ratings = some_run(scenario="crowded, noisy")
    found, mirrored = calibrate(jury, ratings), calibrate(6 - jury, 6 - ratings)
    expected = (6 - found.value, 6 - found.high, 6 - found.low)
    assert (mirrored.value, mirrored.low, mirrored.high) == pytest.approx(expected)


@BOTH
def test_instances_without_a_jury_score_are_left_out_and_counted(calibrate: Calibrate) -> None:
    jury, ratings = some_run(rated=30)
    jury[[3, 40, 50]] = NAN
    kept = ~np.isnan(jury)
    found = calibrate(jury, ratings)
    assert (found.n, found.n_rated, found.n_left_out) == (57, 29, 3)
    assert replace(found, n_left_out=0) == calibrate(jury[kept], ratings[kept])


@BOTH
def test_the_mean_lies_within_interval_and_scale(calibrate: Calibrate) -> None:
    for seed in range(40):
        jury, ratings = SCENARIOS["crowded, compressed"].draw(np.random.default_rng(seed), (50,))
        ratings[LEAST_FOR_CURVE:] = NAN
        ratings[1:LEAST_FOR_CURVE] = np.maximum(ratings[1:LEAST_FOR_CURVE], 4.5)
        found = calibrate(jury, ratings)
        assert 1 <= found.low <= found.value <= found.high <= 5
        assert found.low < found.high


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


def test_one_score_that_differs_is_no_slope() -> None:
    _, ratings = some_run()
    found = powered(np.array([3.9] + [4.0] * 59), ratings)
    assert found.value == pytest.approx(np.nanmean(ratings), abs=0.01)
    assert found.standard_error == pytest.approx(np.nanstd(ratings, ddof=1) / math.sqrt(20), rel=0.01)


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


def test_clusters_of_one_are_independent_instances() -> None:
    jury, ratings = some_run()
    for names in ([f"c{i}" for i in range(60)], [""] * 60):
        found = prediction_powered(jury, ratings, names, design=SCALE)
        assert astuple(found) == pytest.approx(astuple(powered(jury, ratings)))


@BOTH
def test_the_same_instance_three_times_is_worth_one(calibrate: Calibrate) -> None:
    jury, ratings = some_run(n=80, rated=30)
    threefold, given, clusters = np.repeat(jury, 3), np.repeat(ratings, 3), np.repeat(np.arange(80), 3)
    if calibrate is powered:
        found = prediction_powered(threefold, given, clusters, design=SCALE)
    else:
        found = isotonic_mapped(threefold, given, clusters, design=SCALE, rng=np.random.default_rng(0))
    once = calibrate(jury, ratings)
    assert found.method == once.method + "-clustered"
    expected = (once.value, once.low, once.high, once.standard_error)
    assert (found.value, found.low, found.high, found.standard_error) == pytest.approx(expected)


@pytest.mark.long
def test_intervals_of_clustered_runs_cover_if_the_clusters_are_named() -> None:
    rng = np.random.default_rng(0)
    runs, patients, size, rated = RUNS, 60, 5, 15
    clusters = np.repeat(np.arange(patients), size)
    own = np.repeat(rng.normal(0, 0.5, (runs, patients)), size, axis=1)
    ratings = 3.2 + own + rng.normal(0, 0.4, own.shape)
    jury = ratings + 0.5 + np.repeat(rng.normal(0, 0.3, (runs, patients)), size, axis=1) + rng.normal(0, 0.2, own.shape)
    ratings[:, rated * size :] = NAN
    covered = {}
    for names in (clusters, None):
        found = [
            prediction_powered(j, r, names, design=RatingDesign(low=-5, high=10))
            for j, r in zip(jury, ratings, strict=True)
        ]
        covered[names is None] = statistics.fmean(one.low <= 3.2 <= one.high for one in found)
    assert 0.93 <= covered[False] <= 0.97
    assert covered[True] < 0.85


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


@pytest.mark.parametrize("lambda_", [0, 0.3, 1, 1.7])
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
    found = simulate(powered, SCENARIOS[name], n, rated)
    assert 0.93 <= found.coverage <= 0.985
    assert found.naive <= 0.03


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("crowded")])
def test_the_fewest_ratings_still_cover(name: str) -> None:
    """Ten ratings nearly all at the end of the scale may not contain the rare bad ones at all."""
    assert 0.91 <= simulate(powered, SCENARIOS[name], 400, LEAST).coverage <= 0.995


@pytest.mark.long
@pytest.mark.parametrize(("name", "rated"), [("lenient", 30), ("crowded, noisy", 30), ("noisy", 60)])
def test_intervals_of_the_curve_cover(name: str, rated: int) -> None:
    found = simulate(mapped, SCENARIOS[name], 300, rated)
    assert 0.93 <= found.coverage <= 0.985
    assert found.naive <= 0.03


@pytest.mark.parametrize("rated", [LEAST, 20, 50])
@pytest.mark.parametrize("name", ["useless", "crowded, useless"])
def test_a_useless_jury_costs_nearly_nothing(name: str, rated: int) -> None:
    def alone(jury: Floats, ratings: Floats) -> CalibratedMean:
        return prediction_powered(jury, ratings, design=SCALE, lambda_=0)

    scenario = SCENARIOS[name]
    ratio = simulate(powered, scenario, 300, rated, 200).width / simulate(alone, scenario, 300, rated, 200).width
    assert 0.97 <= ratio <= 1.1


@pytest.mark.parametrize(("rated", "most"), [(LEAST, 1.65), (20, 1.3), (50, 1.08)])
def test_a_perfect_jury_gives_nearly_the_interval_of_the_whole(rated: int, most: float) -> None:
    found = simulate(powered, PERFECT, 400, rated, 300)
    deviation = math.sqrt(float(PERFECT.chances @ (GRADES - PERFECT.truth) ** 2))
    assert 0.98 <= found.width / (2 * 1.96 * deviation / 20) <= most
    assert found.coverage >= 0.93


def at_the_ceiling(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """A good jury, and ratings of which two thirds are at the end of the scale."""
    quality = 5.3 + 0.7 * rng.normal(size=n)
    return np.clip(quality + 0.2 * rng.normal(size=n), 1, 5), np.clip(quality, 1, 5)


def with_disasters(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """A good jury, and ratings near the end of the scale but for 3% at the other end, which the jury sees."""
    ratings = np.clip(4.8 + 0.2 * rng.normal(size=n), 1, 5)
    ratings = np.where(rng.random(n) < 0.03, 1 + rng.random(n), ratings)
    return np.clip(ratings + 0.3 * rng.normal(size=n), 1, 5), ratings


def coverage_of(draw: Callable[[np.random.Generator, int], tuple[Floats, Floats]], rated: int, runs: int) -> float:
    truth = float(draw(np.random.default_rng(99), 10**6)[1].mean())
    rng, covered = np.random.default_rng(1), []
    for _ in range(runs):
        jury, ratings = draw(rng, 500)
        ratings[rated:] = NAN
        found = powered(jury, ratings)
        covered.append(found.low <= truth <= found.high)
    return statistics.fmean(covered)


@pytest.mark.parametrize("draw", [at_the_ceiling, with_disasters])
@pytest.mark.parametrize(
    "rated", [15, pytest.param(20, marks=pytest.mark.long), pytest.param(30, marks=pytest.mark.long)]
)
def test_a_good_jury_at_the_ceiling_is_covered(
    draw: Callable[[np.random.Generator, int], tuple[Floats, Floats]], rated: int
) -> None:
    """Few ratings show no spread there: the few that do count, and scores beyond the rated ones leave room."""
    assert coverage_of(draw, rated, 600) >= 0.92


def test_scores_beyond_the_rated_ones_leave_room_on_both_sides() -> None:
    jury, ratings = some_run(n=100, rated=20, scenario="lenient")
    jury[:20] = np.clip(jury[:20], 2.5, 4.5)
    inside = jury.copy()
    inside[20:] = np.clip(inside[20:], jury[:20].min(), jury[:20].max())
    wide, narrow = powered(jury, ratings), powered(inside, ratings)
    assert wide.value - wide.low > narrow.value - narrow.low
    assert wide.high - wide.value > narrow.high - narrow.value


def test_a_good_jury_is_worth_several_times_the_ratings() -> None:
    wide = simulate(powered, SCENARIOS["useless"], 400, 80, 100).width
    assert simulate(powered, SCENARIOS["lenient"], 400, 20, 100).width < wide


def test_where_ratings_follow_the_jury_in_a_bend_the_curve_is_narrower() -> None:
    rng = np.random.default_rng(0)
    widths: dict[Calibrate, list[float]] = {powered: [], mapped: []}
    for _ in range(100):
        ratings = rng.choice(GRADES, p=MIDDLING, size=400)
        jury = 1 + 4 * ((ratings - 1) / 4) ** 4 + rng.normal(0, 0.1, 400)
        ratings[50:] = NAN
        for calibrate, found in widths.items():
            one = calibrate(jury, ratings)
            found.append(one.high - one.low)
    assert statistics.fmean(widths[mapped]) < 0.9 * statistics.fmean(widths[powered])


def test_parts_for_the_curve_come_from_the_generator() -> None:
    jury, ratings = some_run(rated=30)
    first, again, other = (
        isotonic_mapped(jury, ratings, design=SCALE, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


# --- several models together ------------------------------------------------------------------------------------------


def pooled(
    jury: Floats,
    scores: Floats,
    ratings: Floats,
    models: Sequence[str],
    model: str = "m0",
    **changes: Any,
) -> CalibratedMean:
    pairs = RatedPairs(jury=scores, ratings=ratings, models=models, clusters=changes.pop("rated_clusters", None))
    return prediction_powered_pooled(jury, pairs, model=model, design=RatingDesign(low=-5, high=15), **changes)


class Pool(NamedTuple):
    """Own scores of model m0 and rated pairs of all models, instance by instance."""

    jury: Floats
    scores: Floats
    ratings: Floats
    models: list[str]
    clusters: NDArray[np.intp]
    rated_clusters: NDArray[np.intp]
    truth: float

    def calibrated(self, model: str = "m0") -> CalibratedMean:
        units = {"clusters": self.clusters, "rated_clusters": self.rated_clusters}
        return pooled(self.jury, self.scores, self.ratings, self.models, model, **units)


def some_pool(
    rng: np.random.Generator, models: int = 5, rated: int = 10, n: int = 200, apart: float = 0.0, common: float = 0.2
) -> Pool:
    """Models of different quality, the same instances of each rated.

    Parameters: apart, standard deviation of the jury's mean error between models; common, that of its error from
    instance to instance, alike for all models.
    """
    quality = rng.uniform(-0.5, 0.5, models)[:, None]
    ratings = 3 + quality + rng.normal(0, 0.6, (models, n))
    error = rng.normal(0, apart, models)[:, None] + rng.normal(0, common, n) + rng.normal(0, 0.3, ratings.shape)
    jury = ratings + 0.5 + error
    names = [f"m{i}" for i in range(models) for _ in range(rated)]
    picked = np.tile(np.arange(rated), models)
    pairs = (jury[:, :rated].ravel(), ratings[:, :rated].ravel())
    return Pool(jury[0], *pairs, names, np.arange(n), picked, 3 + float(quality[0, 0]))


def test_the_pooled_value_is_the_own_mean_less_the_mean_error_of_all() -> None:
    pool = some_pool(np.random.default_rng(0))
    found = pool.calibrated()
    assert found.value == pytest.approx(pool.jury.mean() + (pool.ratings - pool.scores).mean())
    assert (found.n, found.n_rated, found.lambda_, found.method) == (200, 50, 1, "pooled")


def test_with_no_weight_for_the_jury_all_models_are_their_common_mean() -> None:
    pool = some_pool(np.random.default_rng(0))
    found = pooled(pool.jury, pool.scores, pool.ratings, pool.models, lambda_=0)
    assert found.value == pytest.approx(pool.ratings.mean())
    assert found.method == "pooled"


def test_the_pooled_standard_error_is_that_of_the_formula() -> None:
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
    found = pooled(jury, scores, ratings, names, "a")
    assert found.between_models == pytest.approx(math.sqrt(between))
    assert found.standard_error == pytest.approx(math.sqrt(variance))


def test_own_instances_without_a_score_are_counted() -> None:
    pool = some_pool(np.random.default_rng(0))
    jury = pool.jury.copy()
    jury[10:13] = NAN
    found = pooled(jury, pool.scores, pool.ratings, pool.models)
    assert (found.n, found.n_left_out) == (197, 3)
    assert found.value == pytest.approx(np.nanmean(jury) + (pool.ratings - pool.scores).mean())


@pytest.mark.long
@pytest.mark.parametrize(
    ("models", "rated", "apart", "least", "most"),
    [(2, 10, 0.0, 0.93, 0.997), (5, 10, 0.0, 0.93, 0.997), (3, 12, 0.3, 0.93, 1.0)],
)
def test_pooled_intervals_cover_though_errors_differ_between_models(
    models: int, rated: int, apart: float, least: float, most: float
) -> None:
    rng = np.random.default_rng(0)
    pools = [some_pool(rng, models, rated, apart=apart) for _ in range(RUNS)]
    found = [pool.calibrated() for pool in pools]
    covered = statistics.fmean(one.low <= pool.truth <= one.high for one, pool in zip(found, pools, strict=True))
    assert least <= covered <= most


def test_pooling_is_worth_it_if_the_jury_errs_alike() -> None:
    rng = np.random.default_rng(1)
    widths: list[tuple[float, float]] = []
    for _ in range(100):
        pool = some_pool(rng, common=0)
        own = np.concatenate([pool.ratings[:10], np.full(190, NAN)])
        alone, together = prediction_powered(pool.jury, own, design=RatingDesign(low=-5, high=15)), pool.calibrated()
        widths.append((alone.high - alone.low, together.high - together.low))
    alone_width, pooled_width = np.mean(widths, axis=0)
    assert pooled_width < 0.9 * alone_width


@pytest.mark.parametrize("apart", [0.0, 0.4])
@pytest.mark.parametrize("common", [0.0, 1.0])
def test_differences_between_models_are_found(apart: float, common: float) -> None:
    """Errors that all models share on an instance are none, and do not hide any."""
    rng = np.random.default_rng(0)
    found = [some_pool(rng, 8, 10, apart=apart, common=common).calibrated().between_models ** 2 for _ in range(200)]
    assert math.sqrt(statistics.fmean(found)) == pytest.approx(apart, abs=0.07)


def test_a_model_that_is_not_in_the_pool_has_the_wider_interval() -> None:
    pool = some_pool(np.random.default_rng(3), apart=0.4)
    inside, outside = pool.calibrated("m0"), pool.calibrated("other")
    assert inside.between_models > 0
    assert (outside.value, outside.standard_error) == (inside.value, inside.standard_error)
    assert outside.low < inside.low < inside.high < outside.high


def test_pairs_of_one_instance_are_not_independent() -> None:
    """Errors that all models share on an instance are as uncertain as if one model were rated."""
    pool = some_pool(np.random.default_rng(0), common=0.8)
    named = pool.calibrated()
    unnamed = pooled(pool.jury, pool.scores, pool.ratings, pool.models)
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


def test_rated_clusters_count_not_instances() -> None:
    jury, ratings = some_run(rated=27)
    with pytest.raises(ValueError, match="9 rated units"):
        prediction_powered(jury, ratings, np.arange(60) // 3, design=SCALE)


@BOTH
@pytest.mark.parametrize(
    ("place", "score", "rating", "words"),
    [
        (0, 3.0, 5.5, "ratings from .* to 5.5 on a scale 1..5"),
        (0, 3.0, 0.0, "ratings from 0 to"),
        (0, 3.0, math.inf, "to inf on a scale"),
        (0, math.inf, 3.0, "infinite"),
        (59, -math.inf, NAN, "infinite"),
    ],
)
def test_numbers_that_are_none_are_refused(
    calibrate: Calibrate, place: int, score: float, rating: float, words: str
) -> None:
    jury, ratings = some_run(rated=30)
    jury[place], ratings[place] = score, rating
    with pytest.raises(ValueError, match=words):
        calibrate(jury, ratings)


def test_lengths_must_agree() -> None:
    jury, ratings = some_run()
    with pytest.raises(ValueError, match="each instance needs"):
        powered(jury[1:], ratings)
    with pytest.raises(ValueError, match="cluster names"):
        prediction_powered(jury, ratings, ["a"], design=SCALE)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (["a"] * 20, "two models at least"),
        ([f"m{i}" for i in range(20)], "two of one of them"),
        (["a", "b"], "2 models for"),
    ],
)
def test_pools_that_say_nothing_of_differences_are_refused(models: list[str], words: str) -> None:
    jury, _ = some_run()
    with pytest.raises(ValueError, match=words):
        pooled(jury, np.full(20, 3.0), np.full(20, 4.0), models)


def test_pairs_must_be_complete_and_instances_named_in_both_places() -> None:
    pool = some_pool(np.random.default_rng(0))
    gap = pool.ratings.copy()
    gap[3] = NAN
    with pytest.raises(ValueError, match="a rated pair needs"):
        pooled(pool.jury, pool.scores, gap, pool.models)
    with pytest.raises(ValueError, match="or for neither"):
        pooled(pool.jury, pool.scores, pool.ratings, pool.models, clusters=pool.clusters)
    with pytest.raises(ValueError, match="1 instances with a jury score are too few"):
        pooled(pool.jury[:1], pool.scores, pool.ratings, pool.models)
    with pytest.raises(ValueError, match="8 rated units"):
        some_pool(np.random.default_rng(0), rated=8).calibrated()


# --- raters as a sample of clinicians ---------------------------------------------------------------------------------


def rated_by(raters: int, severity: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Jury scores of 300 completions, and ratings of the first 50 by raters who differ in severity; the truth is 3."""
    quality = 0.8 * rng.normal(size=300)
    jury = 3.4 + 0.7 * quality + 0.4 * rng.normal(size=300)
    noise = severity * rng.normal(size=raters) + 0.5 * rng.normal(size=(50, raters))
    return jury, 3 + quality[:50, None] + noise


@pytest.mark.parametrize(
    ("severity", "raters", "each"),
    [
        *((severity, 3, 3) for severity in (0.0, 0.4)),
        pytest.param(0.2, 3, 2, marks=pytest.mark.long),
        *(pytest.param(severity, n, n, marks=pytest.mark.long) for severity in (0.0, 0.2, 0.4) for n in (5, 10)),
    ],
)
def test_intervals_cover_what_clinicians_in_general_would_give(raters: int, severity: float, each: int) -> None:
    """Without the raters' effect, they cover the truth in 44% (3 raters who differ by 0.4) to 87% (10, by 0.2)."""
    source = np.random.default_rng(raters)
    covered, these_only = [], []
    for _ in range(300):
        jury, table = rated_by(raters, severity, source)
        if each < raters:
            table[np.arange(50), source.integers(0, raters, 50)] = NAN
        ratings = np.full(300, NAN)
        ratings[:50] = np.nanmean(table, axis=1)
        effect = rater_effect(table, (~np.isnan(table) / each).mean(axis=0))
        found = prediction_powered(jury, ratings, design=RatingDesign(low=-2, high=8, raters=effect))
        alone = prediction_powered(jury, ratings, design=RatingDesign(low=-2, high=8))
        covered.append(found.low <= 3 <= found.high)
        these_only.append(alone.low <= 3 <= alone.high)
        assert (found.value, found.n_raters) == (alone.value, raters)
        assert found.between_raters is not None
    assert statistics.fmean(covered) >= 0.93
    if severity:
        assert statistics.fmean(these_only) <= 0.93


def test_an_unknown_effect_of_raters_changes_nothing() -> None:
    jury, ratings = some_run()
    effect = rater_effect(np.ones((5, 2)), np.full(2, 0.5))
    found = prediction_powered(jury, ratings, design=replace(SCALE, raters=effect))
    assert replace(found, n_raters=0) == powered(jury, ratings)
    assert (found.n_raters, found.between_raters) == (2, None)


# --- drawn with known probabilities -----------------------------------------------------------------------------------


def test_equal_probabilities_change_nothing() -> None:
    jury, ratings = some_run()
    assert prediction_powered(jury, ratings, design=replace(SCALE, probabilities=np.full(60, 1 / 3))) == powered(
        jury, ratings
    )


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
@pytest.mark.parametrize("scenario", ["lenient", "noisy", "crowded, compressed", "crowded, noisy"])
@pytest.mark.parametrize("rated", [20, 50])
def test_intervals_of_a_stratified_draw_cover(scenario: str, rated: int) -> None:
    source, of = np.random.default_rng(9), SCENARIOS[scenario]
    covered, errors = [], []
    for _ in range(400):
        jury, truth = of.draw(source, (400,))
        selection = draw_completions(jury, rated, source, scale=(1, 5))
        ratings = np.where(np.isin(np.arange(400), selection.drawn), truth, NAN)
        found = prediction_powered(jury, ratings, design=replace(SCALE, probabilities=selection.probabilities))
        covered.append(found.low <= of.truth <= found.high)
        errors.append(found.value - of.truth)
    assert 0.92 <= statistics.fmean(covered) <= 0.99
    assert abs(statistics.fmean(errors)) < 0.02


def test_a_scale_without_finite_ends_is_refused() -> None:
    jury, ratings = some_run()
    for low, high in ((5, 1), (NAN, 5), (1, math.inf)):
        with pytest.raises(ValueError, match="a scale needs finite ends"):
            prediction_powered(jury, ratings, design=RatingDesign(low=low, high=high))
