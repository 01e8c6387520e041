"""Repeats: numbers on several samples of the same prompts, and how much of their uncertainty is due to sampling.

Scores are a table with one row for each instance and one column for each sample, nan where a sample has no score. All
intervals are 95%, over clusters of instances.

The mean gives each instance the same weight, however many of its samples failed. Its interval covers other questions
and other samples. It is split by the variances within instances, each estimated from the samples of that instance:

    variance of the mean = variance due to questions + variance due to samples
    variance due to samples = sum over instances of s_i^2 / k_i, divided by n^2

The second interval, of the same questions asked again, covers samples alone; its degrees of freedom are those of
Satterthwaite. If no instance varied, up to a share q of them could have varied unseen, q being the upper Wilson limit
of 0 in n.

Of k samples out of the n of an instance, of which c are right, pass@k is the probability that at least one is right,
1 - C(n - c, k) / C(n, k), and pass^k that all are, C(c, k) / C(n, k) (Chen et al. 2021; Yao et al. 2024): both are
unbiased. Instances with fewer than k scored samples are left out and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.means import Clusters, Floats, cluster_codes, estimate, t_quantile, unit_totals, wilson_interval
from medhelm.domain import Estimate
from medhelm.domain.result import HALF
from medhelm.errors import UserError

FEW = 10
"""Largest number of samples for which pass@k is computed for each k."""

UNREADABLE = ""
"""Answer of a completion in which none is found."""

Answers = Sequence[Sequence[str | None]]
"""One row for each instance, one answer for each sample; None where there is no completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledMean:
    """The mean over instances and samples, and the parts of its uncertainty."""

    mean: Estimate
    """The mean; its interval covers other questions and other samples."""
    again: Estimate
    """The mean; its interval covers other samples of the same questions alone."""
    share_sampling: float | None
    """Share of the variance of the mean that is due to samples, 0 to 1; None if nothing varied."""
    sd_questions: float
    """Standard deviation of the expected scores of instances."""
    sd_samples: float
    """Standard deviation of the scores of one instance: root of the mean variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """Rates at which some or all of k samples are right."""

    k: int
    """Number of samples."""
    any_right: Estimate
    """pass@k: at least one of k is right."""
    all_right: Estimate
    """pass^k: all of k are right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAgreement:
    """Agreement of the samples of an instance on its answer."""

    consistency: Estimate
    """Share of pairs of samples with the same answer."""
    flip_rate: Estimate
    """Share of instances whose samples do not all have the same answer."""
    vote: Estimate
    """Mean score of the most frequent answer."""
    n_tied: int
    """Instances with several most frequent answers, whose scores count by their mean."""


def share(values: Floats, clusters: Clusters) -> Estimate | None:
    """Estimate a mean of values from 0 to 1, nan if missing; None without any."""
    return estimate(values, clusters, low=0.0, high=1.0)


def sampled_mean(scores: Floats, clusters: Clusters = None) -> SampledMean | None:
    """Estimate the mean score over instances and samples.

    Parameters: scores, shape (n, k), from 0 to 1, nan if missing; clusters, n names. Returns: None if no instance has a
    score, or none has two.
    """
    counts = (~np.isnan(scores)).sum(axis=1)
    if not (counts > 1).any():
        return None
    means = np.full(len(scores), np.nan)
    means[counts > 0] = np.nanmean(scores[counts > 0], axis=1)
    mean = share(np.clip(means, 0.0, 1.0), clusters)
    assert mean is not None, "some instance has a score"
    repeated = counts > 1
    variances = np.nanvar(scores[repeated], axis=1, ddof=1)
    sizes = counts[repeated]
    # Instances with a single sample vary as the others do on average.
    single = float(variances.mean()) * int((counts == 1).sum())
    n = int((counts > 0).sum())
    sampling = (float((variances / sizes).sum()) + single) / n**2
    again = _again(mean, variances, sizes, sampling, n)
    total = _variance_of(mean, means, clusters)
    between = float(np.nanvar(means, ddof=1)) - sampling * n if n > 1 else 0.0
    return SampledMean(
        mean=mean,
        again=again,
        share_sampling=min(sampling / total, 1.0) if total > 0 else None,
        sd_questions=math.sqrt(max(between, 0.0)),
        sd_samples=math.sqrt(float(variances.mean())),
    )


def _variance_of(mean: Estimate, means: Floats, clusters: Clusters) -> float:
    """Return the variance of the mean over clusters."""
    known = ~np.isnan(means)
    codes, k = cluster_codes(None if clusters is None else np.asarray(clusters)[known], mean.n)
    return unit_totals(means[known], np.ones(mean.n), codes).standard_error ** 2 if k > 1 else 0.0


def _again(mean: Estimate, variances: Floats, sizes: Floats, sampling: float, n: int) -> Estimate:
    """Return the mean with the interval of other samples of the same questions."""
    if sampling > 0:
        parts = variances / sizes
        df = float(parts.sum() ** 2 / ((parts**2) / (sizes - 1)).sum())
        half = t_quantile(0.975, df) * math.sqrt(sampling)
    else:
        unseen = wilson_interval(0, len(variances))[1]
        half = t_quantile(0.975, max(len(variances) - 1, 1)) * math.sqrt(unseen * HALF**2 / (n * float(sizes.mean())))
    low, high = max(mean.value - half, 0.0), min(mean.value + half, 1.0)
    return Estimate(value=mean.value, low=low, high=high, n=mean.n, n_failed=mean.n_failed, method="samples")


# --- pass rates -------------------------------------------------------------------------------------------------------


def chosen_k(n_samples: int, k: int | None = None) -> list[int]:
    """Return the numbers of samples of which pass rates are shown: `k`, or several up to all.

    Raises: UserError for more samples than there are.

    >>> chosen_k(3), chosen_k(64)
    ([1, 2, 3], [1, 2, 5, 10, 64])
    """
    if k is not None:
        if not 1 <= k <= n_samples:
            raise UserError(
                f"--k {k}: pass@k of more samples than were requested is not defined; there are {n_samples}. "
                f"Give --k from 1 to {n_samples}, or run with --repeat {k}."
            )
        return [k]
    return list(range(1, n_samples + 1)) if n_samples <= FEW else [*(1, 2, 5, FEW), n_samples]


def pass_rate(scores: Floats, k: int, clusters: Clusters = None) -> PassRate | None:
    """Estimate pass@k and pass^k; a score from half the scale is right. None if no instance has k scored samples.

    Parameters: scores, shape (n, m), from 0 to 1, nan if missing; clusters, n names.

    >>> found = pass_rate(np.array([[1.0, 0, 0], [1, 1, 1]]), 2)
    >>> f"{found.any_right.value:.3f} {found.all_right.value:.3f}"
    '0.833 0.500'
    """
    n = (~np.isnan(scores)).sum(axis=1)
    right = (scores >= HALF).sum(axis=1)
    some = np.array([_ratio(m - c, m, k, from_one=True) for m, c in zip(n.tolist(), right.tolist(), strict=True)])
    every = np.array([_ratio(c, m, k) for m, c in zip(n.tolist(), right.tolist(), strict=True)])
    any_right, all_right = share(some, clusters), share(every, clusters)
    if any_right is None or all_right is None:
        return None
    return PassRate(k=k, any_right=any_right, all_right=all_right)


def _ratio(part: int, n: int, k: int, *, from_one: bool = False) -> float:
    """Return C(part, k) / C(n, k), or one minus it; nan if n is below k."""
    if n < k:
        return math.nan
    share = math.comb(part, k) / math.comb(n, k)
    return 1 - share if from_one else share


# --- answers ----------------------------------------------------------------------------------------------------------


def agreement_of_samples(answers: Answers, scores: Floats, clusters: Clusters = None) -> SampleAgreement | None:
    """Compare the answers of the samples of each instance; None if no instance has two answers.

    Unreadable completions are alike, and do not vote unless all are unreadable.

    Parameters: answers, n rows of k; scores, shape (n, k), from 0 to 1; clusters, n names.
    """
    consistent, flipped, votes = (np.full(len(answers), np.nan) for _ in range(3))
    n_tied = 0
    for i, row in enumerate(answers):
        counts = Counter(answer for answer in row if answer is not None)
        n = counts.total()
        if n < 2:
            continue
        consistent[i] = sum(count * (count - 1) for count in counts.values()) / (n * (n - 1))
        flipped[i] = len(counts) > 1
        votes[i], is_tied = _vote(row, scores[i], counts)
        n_tied += is_tied
    consistency, flip_rate, vote = (share(values, clusters) for values in (consistent, flipped, votes))
    if consistency is None or flip_rate is None or vote is None:
        return None
    return SampleAgreement(consistency=consistency, flip_rate=flip_rate, vote=vote, n_tied=n_tied)


def _vote(row: Sequence[str | None], scores: Floats, counts: Counter[str]) -> tuple[float, bool]:
    """Return the score of the most frequent answer, and whether several are the most frequent."""
    readable = {answer: count for answer, count in counts.items() if answer != UNREADABLE} or dict(counts)
    most = max(readable.values())
    first = [answer for answer, count in readable.items() if count == most]
    of_each = [
        np.mean([score for answer, score in zip(row, scores.tolist(), strict=True) if answer == one]) for one in first
    ]
    return float(np.mean(of_each)), len(first) > 1
