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
LONG = [pytest.param(one, 40, 0.825, id=title(one)) for one in [*SCENARIOS[1::4], *UNEVEN[::4]]]


@pytest.mark.parametrize(
    ("scenario", "n", "least"), [*(pytest.param(one, 25, 20 / 25, id=title(one)) for one in SHORT), *LONG]
)
def test_ranks_hold_and_no_finding_is_hidden(scenario: Lacking, n: int, least: float) -> None:
    """Ranks hold on 95%: of 25 leaderboards, 19 or fewer would hold one time in 1,000."""
    found = simulate(scenario, n)
    assert found.ranks_hold >= least
    assert found.hidden == 0
    if scenario in SHORT:
        assert found.averages_hold >= 0.85
        assert scenario.lead != 0.1 or found.first_rank < 1.3, "ten points ahead, whatever it lacks"


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
