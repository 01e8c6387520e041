"""Tokens for each character, learned from a sample, and sums of a plan."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.analysis.cost import CostSum, TokenRatio, learn_token_ratio, pool_token_ratios
from medhelm.analysis.planned_cost import is_within_limit
from tests.support.values import present


def test_a_factor_is_the_ratio_of_the_sums_with_the_error_of_a_ratio() -> None:
    characters, tokens = [100, 300, 250, 900], [30, 70, 66, 210]
    found = present(learn_token_ratio(characters, tokens, "four prompts"))
    x, y = np.array(characters, dtype=float), np.array(tokens, dtype=float)
    ratio = y.sum() / x.sum()
    assert found.tokens_per_character == pytest.approx(ratio)
    # Cochran (1977), equation 6.13 with the sample's own mean, as a share of the ratio.
    standard_error = np.sqrt(((y - ratio * x) ** 2).sum() / 3 / 4) / x.mean()
    t = 3.182446305284263  # of three degrees of freedom
    assert found.error == pytest.approx(t * standard_error / ratio)
    spread = np.sqrt(((y / (ratio * x) - 1) ** 2).sum() / 3)
    assert found.one_error == pytest.approx(found.error + t * spread)
    assert found.most == pytest.approx(ratio * (1 + found.one_error))
    assert found.basis == "four prompts"


@pytest.mark.parametrize("n", [8, 20, 100])
def test_a_single_prompt_seldom_has_more_than_the_most(n: int) -> None:
    """Beyond the upper end of a 95 % interval lies one in forty; the tails of real texts are a little heavier."""
    rng = np.random.default_rng(n)
    sizes = rng.lognormal(7, 0.6, (400, n + 50))
    ratios = rng.lognormal(np.log(0.28), 0.12, sizes.shape)  # as of notes of patients with a common tokenizer
    characters = sizes.astype(int) + 200
    tokens = (characters * ratios).astype(int) + 11
    beyond = held = 0
    for seen, counted in zip(characters, tokens, strict=True):
        found = present(learn_token_ratio(seen[:n].tolist(), counted[:n].tolist(), ""))
        beyond += int((counted[n:] > seen[n:] * found.most).sum())
        held += abs((0.28 * np.exp(0.12**2 / 2) + 11 / 1525) / found.tokens_per_character - 1) <= found.error
    assert 0.005 <= beyond / (400 * 50) <= 0.035
    assert held / 400 >= 0.9


@pytest.mark.parametrize(
    ("characters", "tokens", "expected"),
    [
        ([], [], None),
        ([0, 0], [0, 0], None),
        ([40], [10], TokenRatio(0.25, 0.25, "b")),
        ([40, 80], [10, 20], TokenRatio(0.25, 0.02, "b", 0.02)),
        ([40, 80], [0, 0], TokenRatio(0.0, 0.25, "b")),
    ],
    ids=["nothing", "no characters", "one prompt", "no spread", "no tokens"],
)
def test_the_ends_of_what_can_be_learned(characters: list[int], tokens: list[int], expected: TokenRatio | None) -> None:
    assert learn_token_ratio(characters, tokens, "b") == expected


def test_factors_of_other_texts_are_pooled_and_trusted_less() -> None:
    assert pool_token_ratios([], "b") is None
    assert pool_token_ratios([TokenRatio(0.25, 0.02, "x")], "b") == TokenRatio(0.25, 0.25, "b")
    found = present(pool_token_ratios([TokenRatio(0.1, 0.02, "x"), TokenRatio(0.3, 0.02, "x")], "b"))
    assert (found.tokens_per_character, found.error) == pytest.approx((0.2, 0.5))


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (CostSum(1.0), True),
        (CostSum(2.0), True),
        (CostSum(2.1), False),
        (CostSum(1.0, 1), None),
        (CostSum(2.1, 1), False),
    ],
)
def test_whether_a_sum_fits(cost: CostSum, expected: bool | None) -> None:
    assert is_within_limit(cost, 2.0) is expected
