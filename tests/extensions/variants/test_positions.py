"""Position bias: models that choose by place are found, and those that choose by content are not."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.extensions.variants.robustness import Ordering, position_bias

OPTIONS = ["a", "b", "c", "d"]


def _questions(rng: np.random.Generator, n: int, share_first: float, *, knows: float = 0.6) -> list[Ordering]:
    """Questions in all rotations; with this probability, an answer is the first option whatever it says."""
    found = []
    for number in range(n):
        key = rng.integers(4)
        favorite = key if rng.random() < knows else rng.integers(4)
        places = [{text: (i - shift) % 4 for i, text in enumerate(OPTIONS)} for shift in range(4)]
        chosen = [
            OPTIONS[shift]
            if rng.random() < share_first
            else OPTIONS[favorite if rng.random() < 0.8 else rng.integers(4)]
            for shift in range(4)
        ]
        found.append(Ordering(instance=str(number), places=places, chosen=chosen))
    return found


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permute and draw less often."""
    monkeypatch.setattr("medhelm.extensions.variants.robustness.PERMUTATIONS", 99)
    monkeypatch.setattr("medhelm.analysis.means.DRAWS", 50)


def test_always_the_first_option_is_the_largest_bias() -> None:
    excess, spread, p_value = position_bias(_questions(np.random.default_rng(1), 40, 1.0))
    assert excess == pytest.approx((0.75, -0.25, -0.25, -0.25))
    assert (spread.value, p_value) == pytest.approx((1.0, 0.01))


def test_a_small_bias_is_found_and_a_fair_model_is_not_blamed() -> None:
    """The test holds its level of 5%, and finds one answer in eight given for its place in nearly all of 20 tries."""
    rng = np.random.default_rng(2)
    fair = [position_bias(_questions(rng, 40, 0.0)) for _ in range(100)]
    biased = [position_bias(_questions(rng, 120, 0.125))[2] <= 0.05 for _ in range(20)]
    assert np.mean([p_value <= 0.05 for _, _, p_value in fair]) < 0.11
    assert np.mean(biased) > 0.9
    assert all(spread.low == 0 for _, spread, p_value in fair if p_value > 0.05)


def test_answers_that_ignore_the_order_but_prefer_no_place_are_no_bias() -> None:
    """Each question gets one letter, drawn for all orders: places repeat within questions, and none is preferred."""
    rng, found = np.random.default_rng(4), []
    for _ in range(60):
        questions = []
        for number in range(40):
            letter = rng.integers(4)
            places = [{text: (i - shift) % 4 for i, text in enumerate(OPTIONS)} for shift in range(4)]
            chosen = [OPTIONS[(letter + shift) % 4] for shift in range(4)]
            questions.append(Ordering(instance=str(number), places=places, chosen=chosen))
        found.append(position_bias(questions)[2] <= 0.05)
    assert np.mean(found) < 0.12
