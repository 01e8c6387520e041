"""Verdicts of leaderboards in simulations, where earlier methods were wrong; with the leaderboards of the study."""

from __future__ import annotations

import pytest

from bench.studies.verdicts import EQUAL, KNOWN, EqualModels, KnownModels, coverages, false_findings


def title(scenario: EqualModels) -> str:
    return f"{scenario.models} models, {scenario.benchmarks} x {scenario.n}, {scenario.kind}"


@pytest.mark.parametrize("scenario", EQUAL, ids=title)
def test_equal_models_are_seldom_called_different(scenario: EqualModels) -> None:
    """Three standard errors of a share of 300 above 5%."""
    found = false_findings(scenario, 300)
    assert found.any_pair <= 0.088
    assert found.certain_rank <= 9 / 60


@pytest.mark.parametrize("scenario", KNOWN, ids=lambda scenario: scenario.title)
def test_intervals_and_ranks_contain_the_truth(scenario: KnownModels) -> None:
    found = coverages(scenario, 300)
    assert min(found.win_share[0], found.macro_average[0]) >= 0.93
    assert found.ranks >= 0.93
