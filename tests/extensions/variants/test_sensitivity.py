"""Sensitivity to the prompt, by simulation with known truth and against formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.extensions.variants.sensitivity import concordance, rank_stability, spread_of_means

DRAWS = 400


def answers(rng: np.random.Generator, shares: list[float], n: int) -> np.ndarray:
    """Draw 0/1 scores whose prompts have these shares, and agree on most instances."""
    ability = rng.uniform(size=n)
    own = rng.uniform(size=(len(shares), n))
    used = np.where(rng.uniform(size=(len(shares), n)) < 0.6, ability, own)
    return (used < np.array(shares)[:, None]).astype(float)


@pytest.mark.parametrize("shares", [[0.7, 0.7, 0.7, 0.7], [0.7, 0.65, 0.6, 0.55], [0.9, 0.5]])
def test_the_interval_covers_the_true_range_and_equal_prompts_have_the_range_of_chance(shares: list[float]) -> None:
    truth = max(shares) - min(shares)
    rng = np.random.default_rng(7)
    found = [spread_of_means(answers(rng, shares, 120), rng, draws=DRAWS) for _ in range(100)]
    covered = sum(spread.low <= truth <= spread.high for _, spread, _ in found)
    beyond = sum(spread.low > 0 for _, spread, _ in found)
    assert covered >= 91  # 95% but for chance
    assert beyond == 100 if truth >= 0.4 else True
    if truth == 0:
        assert beyond <= 9
        observed, expected = (
            np.mean(values) for values in zip(*((s.value, chance) for _, s, chance in found), strict=True)
        )
        assert observed == pytest.approx(expected, rel=0.15)


def test_spread_counts_clusters_and_leaves_out_what_lacks_a_score() -> None:
    table = answers(np.random.default_rng(2), [0.7, 0.5, 0.6], 60)

    def measured(rows: np.ndarray, clusters: np.ndarray | None = None) -> tuple[list[float], float, float, int, int]:
        means, found, _ = spread_of_means(rows, np.random.default_rng(0), clusters, DRAWS)
        return means, found.low, found.high, found.n, found.n_failed

    _, low, high, _, _ = measured(table)
    _, doubled_low, doubled_high, _, _ = measured(np.repeat(table, 4, axis=1), np.repeat(np.arange(60), 4))
    assert doubled_high - doubled_low == pytest.approx(high - low, rel=0.1)
    table[1, :5] = np.nan
    means, _, _, n, n_failed = measured(table)
    assert (n, n_failed) == (55, 5)
    assert means == pytest.approx(table[:, 5:].mean(axis=1))
    assert measured(np.ones((3, 20)))[1:3] == pytest.approx((0, 1 - 0.05 ** (1 / 20)))
    assert measured(table[:, 10:12], np.array(["a", "a"]))[1:3] == (0, np.inf)
    for wrong in (table[:1], np.full((2, 3), np.nan)):
        with pytest.raises(ValueError, match=r"two|no instance"):
            measured(wrong)


def test_concordance_is_that_of_the_textbook() -> None:
    table = np.random.default_rng(5).integers(0, 4, size=(6, 5)).astype(float)
    ranks = np.array([[(column < x).sum() + ((column == x).sum() + 1) / 2 for x in column] for column in table.T])
    ties = sum(t**3 - t for column in table.T for t in np.unique(column, return_counts=True)[1])
    s = ((ranks.sum(axis=0) - 5 * 3.5) ** 2).sum()
    assert concordance(table[None])[0] == pytest.approx(12 * s / (25 * (216 - 6) - 5 * ties))
    assert np.isnan(concordance(np.ones((1, 3, 2))))[0]


def test_ranks_survive_where_models_differ_more_than_prompts() -> None:
    rng = np.random.default_rng(6)
    clear = np.stack([answers(rng, [share] * 3, 300) for share in (0.9, 0.6, 0.3)])
    agreement, same_order = rank_stability(clear, rng, draws=DRAWS)
    assert (agreement.value, same_order) == (1, [1, 1, 1])
    crossing = np.stack([answers(rng, shares, 300) for shares in ([0.9, 0.5], [0.5, 0.9])])
    turned, (same,) = rank_stability(crossing, rng, draws=DRAWS)
    assert (turned.value, same) == (0, 0)
    _, (same,) = rank_stability(np.stack([answers(rng, [0.6] * 4, 100) for _ in range(2)]), rng, draws=DRAWS)
    assert 0.02 < same < 0.9
    with pytest.raises(ValueError, match="two models and two prompts"):
        rank_stability(clear[:1], rng)
