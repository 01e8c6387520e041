"""Numbers on repeats: coverage by simulation, pass rates against counting, votes and agreement by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from medhelm.errors import UserError
from medhelm.extensions.variants.repeats import agreement_of_samples, chosen_k, pass_rate, sampled_mean

SIMULATED = 200
TOLERATED = 0.048
"""Three standard errors of a coverage of 95% in 200 simulations, and a little."""


def _samples(rng: np.random.Generator, n: int, k: int, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw the expected score of each instance, alike within clusters, and k binary samples; some are missing."""
    of_cluster = rng.beta(2, 1.2, size=clusters.max() + 1)
    expected = np.clip(of_cluster[clusters] + rng.uniform(-0.1, 0.1, n), 0, 1)
    scores = (rng.random((n, k)) < expected[:, None]).astype(float)
    scores[rng.random((n, k)) < 0.05] = np.nan
    return expected, scores


def _expected_scores() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.clip(rng.beta(2, 1.2, 400_000) + rng.uniform(-0.1, 0.1, 400_000), 0, 1)


@pytest.mark.parametrize("size", [1, 3])
def test_both_intervals_of_the_mean_hold_their_level(size: int) -> None:
    rng, truth = np.random.default_rng(size), float(_expected_scores().mean())
    clusters = np.arange(60) // size
    covered, covered_again, shares = 0, 0, []
    for _ in range(SIMULATED):
        expected, scores = _samples(rng, 60, 4, clusters)
        found = sampled_mean(scores, clusters)
        assert found is not None
        covered += found.mean.low <= truth <= found.mean.high
        known = ~np.isnan(scores).all(axis=1)
        covered_again += found.again.low <= expected[known].mean() <= found.again.high
        assert found.share_sampling is not None
        shares.append(found.share_sampling)
        assert found.again.high - found.again.low < found.mean.high - found.mean.low
    assert abs(covered / SIMULATED - 0.95) < TOLERATED
    assert abs(covered_again / SIMULATED - 0.95) < TOLERATED
    # Of independent instances, the variance splits as p(1 - p) / 4 against that of p; missing samples add a little.
    if size == 1:
        assert np.mean(shares) == pytest.approx(_expected_share(), abs=0.05)


def _expected_share() -> float:
    p = _expected_scores()
    sampling = float((p * (1 - p)).mean()) / 4
    return sampling / (sampling + float(p.var()))


def test_components_of_known_size_are_found() -> None:
    rng = np.random.default_rng(2)
    expected = rng.normal(0.5, 0.1, 4000)
    found = sampled_mean(expected[:, None] + rng.normal(0, 0.05, (4000, 3)))
    assert found is not None
    assert (found.sd_questions, found.sd_samples) == pytest.approx((0.1, 0.05), rel=0.05)


def test_samples_that_never_vary_still_leave_doubt() -> None:
    found = sampled_mean(np.repeat(np.array([[1.0], [0.0], [1.0], [1.0]]), 3, axis=1))
    assert found is not None
    assert found.sd_samples == 0
    assert found.share_sampling == 0
    assert found.again.low < found.again.value < found.again.high


def test_pass_rates_equal_counting_all_subsets_and_cover_the_truth() -> None:
    rng = np.random.default_rng(3)
    for k in (1, 2, 3):
        scores = (rng.random((30, 5)) < rng.random((30, 1))).astype(float)
        subsets = list(combinations(range(5), k))
        counted_any = np.mean([[row[list(s)].max() for s in subsets] for row in scores])
        counted_all = np.mean([[row[list(s)].min() for s in subsets] for row in scores])
        found = pass_rate(scores, k)
        assert found is not None
        assert (found.any_right.value, found.all_right.value) == pytest.approx((counted_any, counted_all))
    p = rng.beta(1, 1, 400_000)
    truths = float((1 - (1 - p) ** 2).mean()), float((p**2).mean())
    covered = np.zeros(2)
    for _ in range(SIMULATED):
        own = rng.beta(1, 1, 50)
        found = pass_rate((rng.random((50, 4)) < own[:, None]).astype(float), 2)
        assert found is not None
        ends = (found.any_right, found.all_right)
        covered += [one.low <= truth <= one.high for one, truth in zip(ends, truths, strict=True)]
    assert (np.abs(covered / SIMULATED - 0.95) < TOLERATED).all()


def test_instances_with_too_few_samples_are_left_out_and_counted() -> None:
    found = pass_rate(np.array([[1.0, np.nan, np.nan], [0, 1, 1]]), 2)
    assert found is not None
    assert (found.any_right.n, found.any_right.n_failed) == (1, 1)
    assert pass_rate(np.array([[1.0, np.nan]]), 2) is None
    with pytest.raises(UserError, match="there are 3"):
        chosen_k(3, 4)


def test_votes_and_agreement_by_hand() -> None:
    rows: list[list[str | None]] = [
        ["a", "a", "b"],  # votes a
        ["", "", "b"],  # unreadable completions do not vote
        ["a", "b", None],  # a tie counts the mean
        ["a", None, None],  # a single answer says nothing
        ["c", "c", "c"],
    ]
    scores = np.array([[1, 1, 0], [0, 0, 1], [1, 0, np.nan], [1, np.nan, np.nan], [0, 0, 0]], dtype=float)
    found = agreement_of_samples(rows, scores)
    assert found is not None
    assert found.consistency.value == pytest.approx((1 / 3 + 1 / 3 + 0 + 1) / 4)
    assert found.flip_rate.value == pytest.approx(3 / 4)
    assert found.vote.value == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert (found.n_tied, found.flip_rate.n_failed) == (1, 1)
