"""Leaderboards with missing benchmarks, rare disasters and lost questions, in simulations with few leaderboards."""

from __future__ import annotations

import pytest

from bench.studies.incomplete_tables import (
    DISASTERS,
    SCENARIOS,
    UNEVEN,
    Lacking,
    RareDisasters,
    simulate,
    time_outs,
    verdicts_on_disasters,
)


def title(scenario: Lacking) -> str:
    gap = f"{scenario.who} lacks {scenario.lacks} of {scenario.benchmarks} by {scenario.reason}"
    return f"{scenario.models} models, {gap}, lead {scenario.lead:g}, uneven {scenario.uneven:g}"


SHORT = [one for one in SCENARIOS if one.models == 3 and one.benchmarks == 12 and one.lacks in (1, 8)]


@pytest.mark.parametrize("scenario", SHORT, ids=title)
def test_ranks_hold_and_no_finding_is_hidden(scenario: Lacking) -> None:
    """Ranks hold on 95%: of 25 leaderboards, 19 or fewer would hold one time in 1,000."""
    found = simulate(scenario, 25)
    assert found.ranks_hold >= 20 / 25
    assert found.hidden == 0
    assert found.averages_hold >= 0.85
    if scenario.lead == 0.1:
        assert found.first_rank < 1.3, "ten points ahead, whatever it lacks"


@pytest.mark.long
@pytest.mark.parametrize("scenario", [*SCENARIOS[1::4], *UNEVEN[::4]], ids=title)
def test_ranks_hold_in_scenarios_of_the_study(scenario: Lacking) -> None:
    """More than three standard errors of a share of 40 below 95%."""
    found = simulate(scenario, 40)
    assert found.ranks_hold >= 0.825
    assert found.hidden == 0


def kind(scenario: RareDisasters) -> str:
    return f"{scenario.title}, {scenario.benchmarks} x {scenario.n}"


@pytest.mark.parametrize("scenario", DISASTERS, ids=kind)
def test_a_model_that_is_worse_on_average_is_never_called_better(scenario: RareDisasters) -> None:
    better, worse, opposed = verdicts_on_disasters(scenario, 40)
    if scenario.mean_difference <= 0:
        assert better <= 5 / 40, "the level is 5%: more than 5 of 40 have a chance of 1%"
    if scenario.mean_difference < -0.1:
        assert opposed + worse >= 0.5, "usually it is said that one is better on more questions, but worse on average"
    if scenario.mean_difference > 0.3:
        assert better >= 0.9


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_lost_hard_questions_make_no_finding(share: float) -> None:
    finding, fragile = time_outs(share, 40, hardest=True)
    assert finding <= 2 / 40
    if share == 0.2:
        assert fragile >= 0.8, "the old rule called the model better, and took it back in a second sentence"


def test_a_large_lead_survives_a_few_lost_questions() -> None:
    assert time_outs(0.02, 20, hardest=True, lead=2.5)[0] == 1
