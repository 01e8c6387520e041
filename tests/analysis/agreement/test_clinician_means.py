"""Mean ratings by clinicians: weighted means, their intervals, averages over benchmarks, and coverage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.agreement.calibration import RatingDesign
from medhelm.analysis.agreement.clinician_means import ClinicianMean, average_over_benchmarks, clinician_mean
from medhelm.analysis.agreement.reliability import RaterEffect, rater_effect
from medhelm.analysis.means import Floats
from tests.support.values import present

RATERS = ("R1", "R2", "R3")


def mean_of(values: Floats, *, names: list[str] | None = None, **design: object) -> ClinicianMean:
    return clinician_mean(values, RATERS, RatingDesign(low=1, high=5, **design), names)  # type: ignore[arg-type]


def test_the_interval_is_about_that_of_students_t() -> None:
    values = np.random.default_rng(1).normal(3, 0.5, 60)
    found = mean_of(values)
    low, high = stats.t.interval(0.95, 59, loc=values.mean(), scale=stats.sem(values))
    assert found.value == pytest.approx(values.mean())
    assert (present(found.low), present(found.high)) == pytest.approx((low, high), abs=0.01)


def test_each_rating_weighs_one_over_its_probability() -> None:
    rng = np.random.default_rng(2)
    values, drawn = rng.normal(3, 0.5, 40), rng.uniform(0.1, 1, 40)
    found = mean_of(values, probabilities=drawn)
    assert found.value == pytest.approx(np.average(values, weights=1 / drawn))
    assert (found.is_weighted, mean_of(values, probabilities=np.full(40, 0.3)).is_weighted) == (True, False)
    assert mean_of(values[:5], probabilities=drawn[:5]).value == pytest.approx(
        np.average(values[:5], weights=1 / drawn[:5])
    )


def test_completions_of_one_instance_count_as_one_unit() -> None:
    values = np.random.default_rng(3).normal(3, 0.5, 12)
    assert mean_of(values).low is not None
    few = mean_of(values, names=[f"patient {place // 2}" for place in range(12)])
    assert (few.low, few.reason) == (None, "6 independent instances are too few for an interval: 10 at least")
    twice = mean_of(np.repeat(values, 2), names=[f"i{place // 2}" for place in range(24)])
    assert present(twice.high) - present(twice.low) == pytest.approx(
        present(mean_of(values).high) - present(mean_of(values).low), rel=0.05
    )


def test_the_part_of_the_raters_does_not_shrink_with_the_number_of_benchmarks() -> None:
    rng = np.random.default_rng(4)
    effect = RaterEffect(n_raters=3, deviation=0.2, reach=0.4)
    means = {str(n): mean_of(rng.normal(3, 0.5, 40), raters=effect) for n in range(9)}
    one = present(average_over_benchmarks({"0": means["0"]}, {"0": 2.0}))
    assert (one.value, one.low, one.high) == pytest.approx(
        ((means["0"].value - 1) / 4, (present(means["0"].low) - 1) / 4, (present(means["0"].high) - 1) / 4)
    )
    every = present(average_over_benchmarks(means, dict.fromkeys(means, 1.0)))
    assert every.value == pytest.approx(np.mean([one.normalized for one in means.values()]))
    assert 0.1 < present(every.high) - every.value < 0.115, "0.4 grades of 4, and a little for the instances"
    assert (every.n, every.n_raters, every.n_benchmarks) == (360, 3, 9)


def test_an_average_has_no_interval_if_a_benchmark_has_none() -> None:
    rng = np.random.default_rng(5)
    means = {"a": mean_of(rng.normal(3, 0.5, 40)), "b": mean_of(rng.normal(3, 0.5, 4))}
    found = present(average_over_benchmarks(means, {"a": 1.0, "b": 3.0}))
    assert (found.low, found.high, found.n) == (None, None, 44)
    assert found.reason.startswith("b: 4 independent instances")
    assert found.value == pytest.approx((means["a"].normalized + 3 * means["b"].normalized) / 4)
    assert average_over_benchmarks({}, {}) is None


# --- coverage ---------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """A study of three models whose true mean rating is 3."""

    n: int
    """Completions of a model."""
    raters: int
    severity: float
    """Standard deviation of severity between raters, in grades."""
    per_case: int
    """Raters of a completion."""
    in_clusters: bool = False
    """True for three completions of one patient."""
    by_score: bool = False
    """True to draw bad completions nearly three times as often."""


def drawn(plan: Plan, quality: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw completions from six times as many: their places, and the probability of each."""
    is_bad = quality < 2.5
    wanted = np.where(is_bad, 2.2, 0.8)
    wanted *= plan.n / wanted.sum()
    places, probabilities = [], np.zeros(len(quality))
    for stratum in (is_bad, ~is_bad):
        number = min(max(round(float(wanted[stratum].sum())), 1), int(stratum.sum()))
        if number:
            places += list(rng.choice(np.flatnonzero(stratum), number, replace=False))
            probabilities[stratum] = number / stratum.sum()
    chosen = np.sort(np.array(places))
    return chosen, probabilities[chosen]


def rated(plan: Plan, rng: np.random.Generator, severity: Floats) -> tuple[Floats, list[str], Floats | None]:
    """Rate completions of one model: ratings, shape (n, raters), names of patients, and probabilities."""
    size = 6 * plan.n if plan.by_score else plan.n
    patients = np.arange(size) // (3 if plan.in_clusters else 1)
    quality = 3 + rng.normal(0, 0.6, size) + rng.normal(0, 0.4 * plan.in_clusters, size)[patients]
    places, probabilities = drawn(plan, quality, rng) if plan.by_score else (np.arange(size), None)
    table = np.full((len(places), plan.raters), np.nan)
    for row, place in enumerate(places):
        who = rng.choice(plan.raters, plan.per_case, replace=False)
        given = quality[place] + severity[who] + rng.normal(0, 0.4, plan.per_case)
        table[row, who] = np.clip(np.round(given * 3) / 3, 1, 5)
    return table, [f"patient {patients[place]}" for place in places], probabilities


def covers(plan: Plan, rng: np.random.Generator) -> bool:
    """Return whether the interval of one model in one study holds the true mean."""
    severity = rng.normal(0, plan.severity, plan.raters)
    models = [rated(plan, rng, severity) for _ in range(3)]
    table, patients, probabilities = models[0]
    weights = np.ones(len(table)) if probabilities is None else 1 / probabilities
    shares = (~np.isnan(table)) / plan.per_case * weights[:, None]
    effect = rater_effect(np.vstack([one for one, _, _ in models]), shares.sum(axis=0) / weights.sum())
    design = RatingDesign(low=1, high=5, probabilities=probabilities, raters=effect)
    found = clinician_mean(np.nanmean(table, axis=1), RATERS, design, patients)
    return present(found.low) <= 3 <= present(found.high)


PLANS = {
    "raters alike": Plan(n=30, raters=3, severity=0.0, per_case=3),
    "few raters, one of them harsh": Plan(n=30, raters=3, severity=0.4, per_case=2),
    "patients with several completions": Plan(n=60, raters=5, severity=0.3, per_case=2, in_clusters=True),
    "unequal probabilities": Plan(n=40, raters=10, severity=0.4, per_case=2, by_score=True),
    "everything": Plan(n=45, raters=4, severity=0.5, per_case=2, in_clusters=True, by_score=True),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_intervals_cover_what_other_clinicians_would_give_to_other_instances(name: str) -> None:
    rng = np.random.default_rng(6)
    share = np.mean([covers(PLANS[name], rng) for _ in range(600)])
    assert 0.93 <= share <= 0.98
