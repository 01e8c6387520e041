"""Verdicts of leaderboards in simulations, where earlier methods were wrong; with fewer leaderboards than the study."""

from __future__ import annotations

import pytest

from bench.studies.verdicts import EQUAL, KNOWN, EqualModels, KnownModels, coverages, false_findings


def title(scenario: EqualModels) -> str:
    return f"{scenario.models} models, {scenario.benchmarks} x {scenario.n}, {scenario.kind}"


FEW = [scenario for scenario in EQUAL if scenario.models * scenario.benchmarks * scenario.n <= 600]


@pytest.mark.parametrize("scenario", FEW, ids=title)
def test_equal_models_are_seldom_called_different(scenario: EqualModels) -> None:
    """The level is 5%: of 60 leaderboards, 10 or more would be found one time in 10,000."""
    found = false_findings(scenario, 60)
    assert found.any_pair <= 9 / 60
    assert found.certain_rank <= 9 / 60


@pytest.mark.parametrize("scenario", KNOWN[2:5], ids=lambda scenario: scenario.title)
def test_intervals_and_ranks_contain_the_truth(scenario: KnownModels) -> None:
    found = coverages(scenario, 30)
    assert found.win_share[0] >= 0.9
    assert found.macro_average[0] >= 0.9
    assert found.ranks >= 25 / 30


@pytest.mark.long
@pytest.mark.parametrize("scenario", EQUAL, ids=title)
def test_the_level_is_kept_in_every_scenario_of_the_study(scenario: EqualModels) -> None:
    """Three standard errors of a share of 300 above 5%."""
    assert false_findings(scenario, 300).any_pair <= 0.088


@pytest.mark.long
@pytest.mark.parametrize("scenario", KNOWN, ids=lambda scenario: scenario.title)
def test_coverage_is_that_of_the_study(scenario: KnownModels) -> None:
    found = coverages(scenario, 300)
    assert min(found.win_share[0], found.macro_average[0]) >= 0.93
    assert found.ranks >= 0.93
