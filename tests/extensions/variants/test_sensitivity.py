"""Sensitivity to the prompt, by simulation with known truth and against formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.extensions.variants.sensitivity import (
    concordance,
    rank_stability,
    spread,
)

DRAWS = 400


def answers(rng: np.random.Generator, shares: list[float], n: int, *, shared: float = 0.6) -> np.ndarray:
    """Draw 0/1 scores whose prompts have these shares, and agree on most instances."""
    ability = rng.uniform(size=n)
    own = rng.uniform(size=(len(shares), n))
    used = np.where(rng.uniform(size=(len(shares), n)) < shared, ability, own)
    return (used < np.array(shares)[:, None]).astype(float)


@pytest.mark.parametrize("shares", [[0.7, 0.7, 0.7, 0.7], [0.7, 0.65, 0.6, 0.55], [0.9, 0.5]])
def test_the_interval_of_the_range_covers_the_true_range(shares: list[float]) -> None:
    truth, sd = max(shares) - min(shares), float(np.std(shares, ddof=1))
    rng, covered, covered_sd, beyond = np.random.default_rng(7), 0, 0, 0
    for _ in range(150):
        found = spread(answers(rng, shares, 120), rng, draws=DRAWS)
        covered += found.range.low <= truth <= found.range.high
        covered_sd += found.sd.low <= sd <= found.sd.high
        beyond += found.is_beyond_chance
    assert min(covered, covered_sd) >= 139  # 95% but for chance
    if truth == 0:
        assert beyond <= 11
    if truth >= 0.4:
        assert beyond == 150


def test_equal_prompts_have_about_the_range_that_chance_gives() -> None:
    rng = np.random.default_rng(1)
    found = [spread(answers(rng, [0.6] * 5, 100), rng, draws=DRAWS) for _ in range(60)]
    observed, expected = (
        np.mean([getattr(one, name) for one in found]) for name in ("range_by_chance", "sd_by_chance")
    )
    assert np.mean([one.range.value for one in found]) == pytest.approx(observed, rel=0.15)
    assert np.mean([one.sd.value for one in found]) == pytest.approx(expected, rel=0.15)


def test_spread_counts_clusters_and_leaves_out_what_lacks_a_score() -> None:
    rng = np.random.default_rng(2)
    table = answers(rng, [0.7, 0.5, 0.6], 60)
    alone = spread(table, np.random.default_rng(0), draws=DRAWS)
    doubled = spread(
        np.repeat(table, 4, axis=1), np.random.default_rng(0), clusters=np.repeat(np.arange(60), 4), draws=DRAWS
    )
    assert doubled.range.high - doubled.range.low == pytest.approx(alone.range.high - alone.range.low, rel=0.1)
    table[1, :5] = np.nan
    partly = spread(table, np.random.default_rng(0), draws=DRAWS)
    assert (partly.range.n, partly.range.n_failed) == (55, 5)
    assert partly.means == pytest.approx(table[:, 5:].mean(axis=1))
    same = spread(np.ones((3, 20)), np.random.default_rng(0), draws=DRAWS)
    assert same.range.value == 0
    assert same.range.high == pytest.approx(1 - 0.05 ** (1 / 20))
    single = spread(table[:, 10:12], np.random.default_rng(0), clusters=["a", "a"], draws=DRAWS)
    assert (single.range.low, single.range.high) == (0, np.inf)
    for wrong in (table[:1], np.full((2, 3), np.nan)):
        with pytest.raises(ValueError, match=r"two|no instance"):
            spread(wrong, np.random.default_rng(0))


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
    found = rank_stability(clear, rng, draws=DRAWS)
    assert found.kendalls_w.value == 1
    assert [pair.same_order for pair in found.pairs] == pytest.approx([1, 1, 1])
    assert [(pair.n_first_better, pair.n_second_better) for pair in found.pairs] == [(3, 0)] * 3
    crossing = np.stack([answers(rng, shares, 300) for shares in ([0.9, 0.5], [0.5, 0.9])])
    turned = rank_stability(crossing, rng, draws=DRAWS)
    assert (turned.kendalls_w.value, turned.pairs[0].same_order) == (0, 0)
    equal = rank_stability(np.stack([answers(rng, [0.6] * 4, 100) for _ in range(2)]), rng, draws=DRAWS)
    assert 0.02 < equal.pairs[0].same_order < 0.9
    with pytest.raises(ValueError, match="two models and two prompts"):
        rank_stability(clear[:1], rng)
