"""Preferences between completions against independent computations, and judges whose bias is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from medhelm.analysis.comparison.preferences import (
    RIDGE,
    PairVerdicts,
    compared_pairs,
    judge_positions,
    preferences,
)


def some_preferences(n: int, seed: int) -> tuple[list[str], list[str], np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    strengths = {"a": 2.0, "b": 1.0, "c": 0.5}
    left, right, preferred = [], [], []
    for _ in range(n):
        one, other = rng.choice(["a", "b", "c"], 2, replace=False)
        weights = np.array([strengths[one] * 1.3, strengths[other], 0.6 * np.sqrt(strengths[one] * strengths[other])])
        left.append(str(one))
        right.append(str(other))
        preferred.append([-1, 1, 0][rng.choice(3, p=weights / weights.sum())] * rng.integers(1, 3))
    return left, right, np.array(preferred, dtype=float), [f"q{place % 40}" for place in range(n)]


def test_preferences_are_the_maximum_of_the_likelihood() -> None:
    left, right, preferred, instances = some_preferences(120, 1)

    def loss(parameters: np.ndarray) -> float:
        strength, side, tie = dict(zip("abc", parameters[:3], strict=True)), parameters[3], parameters[4]
        total = RIDGE / 2 * float(parameters @ parameters)
        for one, other, grade in zip(left, right, preferred, strict=True):
            logs = [strength[one] + side / 2, strength[other] - side / 2, tie + (strength[one] + strength[other]) / 2]
            total += float(np.logaddexp.reduce(logs)) - logs[0 if grade < 0 else 1 if grade > 0 else 2]
        return total

    best = optimize.minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    strengths, tie = dict(zip("abc", np.exp(best[:3]), strict=True)), np.exp(best[4])
    found = preferences(left, right, preferred, instances)
    for share in found.shares:
        wins = []
        for other in {"a", "b", "c"} - {share.model}:
            one, two = strengths[share.model], strengths[other]
            ties = tie * np.sqrt(one * two)
            wins.append((one + ties / 2) / (one + two + ties))
        assert share.value == pytest.approx(np.mean(wins), abs=1e-5)
        assert share.low is not None and share.high is not None
        assert 0 <= share.low < share.value < share.high <= 1
    assert [share.model for share in found.shares] == ["a", "b", "c"]
    assert sum(share.n for share in found.shares) == 2 * found.n == 240
    assert found.n_ties == int((preferred == 0).sum())
    decided = preferred[preferred != 0]
    assert found.left is not None and found.left.value == pytest.approx((decided < 0).mean())


def test_a_model_that_always_wins_has_a_finite_share() -> None:
    found = preferences(["a"] * 6, ["b"] * 6, np.full(6, -2.0), [f"q{place}" for place in range(6)])
    assert [share.model for share in found.shares] == ["a", "b"]
    assert 0.5 < found.shares[0].value < 1
    assert found.shares[0].value + found.shares[1].value == pytest.approx(1)
    ties = preferences(["a", "b"], ["b", "a"], np.zeros(2), ["q", "q"])
    assert [share.value for share in ties.shares] == pytest.approx([0.5, 0.5])
    assert [share.low for share in ties.shares] == [None, None]
    assert ties.left is None


def test_an_effect_of_the_side_does_not_favor_the_model_that_is_often_on_it() -> None:
    """Equal models, one of them on the left in two of three pairs, rated by people who like the left one."""
    rng = np.random.default_rng(5)
    first = rng.random(3000) < 2 / 3
    left, right = np.where(first, "a", "b"), np.where(first, "b", "a")
    preferred = np.where(rng.random(3000) < 0.7, -1.0, 1.0)
    found = preferences(left.tolist(), right.tolist(), preferred, [f"q{place % 100}" for place in range(3000)])
    assert found.shares[0].value == pytest.approx(0.5, abs=0.03)
    assert found.left is not None and found.left.low > 0.6


def test_without_sides_the_strengths_are_those_of_the_plain_model() -> None:
    """With one pair of models and no ties, the log odds of a win are the difference of the strengths."""
    preferred = np.array([-1.0] * 300 + [1.0] * 100)
    found = preferences(["a"] * 400, ["b"] * 400, preferred, [f"q{place}" for place in range(400)], has_sides=False)
    first, second = found.shares
    assert first.strength.value - second.strength.value == pytest.approx(math.log(3), abs=0.01)
    assert first.strength.value == pytest.approx(-second.strength.value)
    assert first.value == pytest.approx(0.75, abs=0.01)
    assert first.strength.low < first.strength.value < first.strength.high
    # The interval is that of the log odds, by the delta method.
    error = math.sqrt(1 / 300 + 1 / 100) / 2
    assert first.strength.high - first.strength.low == pytest.approx(2 * 1.96 * error, rel=0.2)


# --- verdicts on both orders ------------------------------------------------------------------------------------------


def verdicts_of(judge: str, signs: list[tuple[int | None, int | None]], *, longer: int = 0) -> list[PairVerdicts]:
    return [
        PairVerdicts(
            instance=f"q{n}",
            cluster=f"q{n}",
            first="a",
            second="b",
            judge=judge,
            forward=one,
            backward=two,
            longer=longer,
        )
        for n, (one, two) in enumerate(signs)
    ]


def test_a_judge_who_always_prefers_the_first_decides_nothing() -> None:
    verdicts = verdicts_of("first", [(-1, 1)] * 30)
    (pair,) = compared_pairs(verdicts)
    assert (pair.wins, pair.ties, pair.losses, pair.share.value) == (0, 30, 0, 0.5)
    assert pair.p_adjusted == 1
    (judge,) = judge_positions(verdicts)
    assert judge.consistent is not None and judge.top is not None
    assert (judge.n, judge.consistent.value, judge.top.value, judge.longer) == (30, 0, 1, None)
    assert judge.top.low > 0.85


def test_preferences_are_counted_from_the_better_model_and_missing_verdicts_are_left_out() -> None:
    verdicts = [
        *verdicts_of("one", [(1, 1)] * 12 + [(0, 0)] * 3 + [(-1, -1)] * 5 + [(None, 1)] * 2, longer=1),
        *verdicts_of("two", [(1, 1)] * 20),
    ]
    (pair,) = compared_pairs(verdicts)
    assert (pair.first, pair.second) == ("b", "a")
    assert (pair.wins, pair.ties, pair.losses) == (32, 3, 5)
    # Judges of an instance count as one: 12 instances 1, 3 of 3/4, 5 of 1/2.
    assert pair.share.value == pytest.approx((12 + 3 * 0.75 + 5 * 0.5) / 20)
    assert pair.share.low < pair.share.value < pair.share.high
    assert pair.share.n == 20
    one, two = judge_positions(verdicts)
    assert (one.n, one.n_missing, two.n, two.n_missing) == (20, 2, 20, 0)
    assert one.longer is not None and two.longer is None
    assert one.longer.value == pytest.approx(12 / 17)
    assert compared_pairs(verdicts_of("one", [(None, 1)])) == ()


def test_equal_models_are_rarely_separated_and_the_interval_holds_the_truth() -> None:
    """By a judge with position bias, whose verdicts depend on the order in a third of the instances."""
    rng = np.random.default_rng(7)
    covered = significant = 0
    for _ in range(200):
        signs = rng.choice([-1, 1], size=(60, 1)).repeat(2, axis=1)
        biased = rng.random(60) < 1 / 3
        signs[biased] = (-1, 1)
        (pair,) = compared_pairs(verdicts_of("one", [(int(a), int(b)) for a, b in signs]))
        significant += pair.p_adjusted <= 0.05
        covered += pair.share.low <= 0.5 <= pair.share.high
    assert significant <= 18  # a binomial with 5% has at most 18 of 200 with a probability of 99.5%
    assert covered >= 200 - 18
