"""Power in tables, JSON and sentences."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from medhelm.analysis.comparison.power import (
    AdjacentModels,
    BenchmarkPower,
    Noise,
    ObservedNoise,
    PowerDesign,
    SuitePower,
    estimate_power,
)
from medhelm.analysis.leaderboard.cells import Column
from medhelm.results.plan import calculated, power_as_json, power_tables

AIM = PowerDesign()
COLUMN = Column(benchmark="x", title="X-Bench", category="c", subcategory="s", metric="exact_match", metric_title="EM")
SEEN = ObservedNoise(n=1000, n_pairs=3, noise=Noise(sd=0.42, design_effect=1.5, cluster_size=2), disagreement=0.18)


def found(difference: float | None = 0.03) -> SuitePower:
    """One benchmark and two models."""
    asked = difference is not None
    return SuitePower(
        design=AIM,
        difference=difference,
        models=("a", "b"),
        benchmarks=(
            BenchmarkPower(
                column=COLUMN,
                observed=SEEN,
                detectable=0.0456,
                mde=0.0451,
                power=0.46 if asked else None,
                needed=2350 if asked else None,
            ),
        ),
        adjacent_models=(
            AdjacentModels(
                first="a",
                second="b",
                n_benchmarks=4,
                observed_difference=0.012,
                standard_error=0.008,
                power_estimate=estimate_power(difference, 0.008, 0.05, AIM, n_benchmarks=4),
            ),
        ),
    )


def test_enough_is_no_more_and_endless_is_nothing() -> None:
    start = found()
    few, endless = (replace(start, benchmarks=(replace(start.benchmarks[0], needed=needed),)) for needed in (800, None))
    assert power_as_json(few)["benchmarks"][0]["more"] == 0
    assert power_as_json(endless)["benchmarks"][0]["more"] is None
    assert "–" in power_tables(endless)[0]


def test_columns_of_a_difference_are_shown_if_one_is_given() -> None:
    with_one, without = power_tables(found())[0], power_tables(found(None))[0]
    assert "Instances needed" in " ".join(with_one.split()) or "needed" in with_one
    assert "needed" not in without
    assert with_one.startswith("a and b: power 0.8, level 0.05; a true difference of 0.03\n")
    assert without.startswith("a and b: power 0.8, level 0.05\n")


def test_it_is_said_where_the_detectable_effect_of_the_leaderboard_is_too_small() -> None:
    said = "with few instances, more than the leaderboard's mde is needed to be detected"
    assert said not in power_tables(found())[0], "0.0456 is near enough to 0.0451"
    (one,) = found().benchmarks
    for detectable in (0.08, None):
        assert said in power_tables(replace(found(), benchmarks=(replace(one, detectable=detectable),)))[0]


def test_the_observed_difference_has_no_power() -> None:
    without = power_tables(found(None))[1]
    assert "add --difference" in without
    assert "0.0120" in without
    assert "Power" not in without
    assert "if the true difference is 0.03" in power_tables(found())[1]
    (near,) = power_as_json(found(None))["neighbours"]
    assert [near[key] for key in ("difference", "power_reached", "times_instances", "benchmarks_needed")] == [None] * 4
    assert near["detectable"] > 0


def test_more_than_two_models_are_counted() -> None:
    many = replace(found(), models=("a", "b", "c"), design=PowerDesign(comparisons=3))
    assert "all pairs of 3 models: power 0.8, level 0.05 shared by 3 comparisons" in power_tables(many)[0]


@pytest.mark.parametrize(
    ("noise", "difference", "instances", "said"),
    [
        (Noise(sd=0.4), 0.05, None, ["A true difference of 0.05 needs 508 instances (power 0.8, level 0.05)."]),
        (
            Noise(sd=0.4),
            None,
            500,
            ["500 instances detect true differences of 0.0504 or more (power 0.8, level 0.05)."],
        ),
        (Noise(sd=0.4), None, 3, ["3 instances are too few to detect any difference (power 0.8, level 0.05)."]),
        (Noise(sd=1.0), 1e-7, None, ["A true difference of 1e-07 needs more than 1,000,000,000,000 instances."]),
    ],
)
def test_the_calculator_answers_in_sentences(
    noise: Noise, difference: float | None, instances: int | None, said: list[str]
) -> None:
    content, sentences = calculated(noise, AIM, difference=difference, instances=instances)
    assert sentences == said
    json.dumps(content, allow_nan=False)
    assert (content["difference"] is None) == (difference is None)
    assert content["instances"] == instances


def test_both_numbers_give_all_three_results() -> None:
    content, sentences = calculated(Noise(sd=0.4), AIM, difference=0.05, instances=508)
    assert content["power_reached"] == pytest.approx(0.8, abs=0.001)
    assert content["needed"] == 508
    assert content["detectable"] == pytest.approx(0.05, abs=1e-4)
    assert sentences[0] == "508 instances detect a true difference of 0.05 with a power of 80%."
    assert len(sentences) == 3
