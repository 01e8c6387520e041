"""Draws of completions to rate: sizes, probabilities, and signs of a selection that was no random draw."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.analysis.agreement.calibration import IMBALANCE, draw_completions, imbalance
from tests.support.values import present

NAN = float("nan")
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
