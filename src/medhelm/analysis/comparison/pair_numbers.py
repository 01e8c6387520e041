"""Sums of the paired differences of every two models on one benchmark: all that tests over several benchmarks need.

They are small beside the scores of many instances. Tests that need single differences get them from the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from medhelm.analysis.comparison.paired import Ints, PairedDifferences, PairedScores
from medhelm.analysis.leaderboard.alignment import AlignedScores
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import row_means
from medhelm.analysis.statistics.threads import in_threads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairSums:
    """Sums over the instances of one benchmark: arrays of shape (n_pairs,), as the properties of `PairedScores`."""

    n: Ints
    n_clusters: Ints
    total: Floats
    squares: Floats
    fourths: Floats
    variance: Floats
    df: Floats
    is_binary: bool
    """True for independent 0/1 scores."""
    n_instances: int
    """Instances of the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairNumbers:
    """Numbers of one benchmark for the tests of all pairs."""

    scores: PairSums
    """Of the differences of scores."""
    shares: PairSums
    """Of the differences of win shares."""
    lacking: Floats
    """Shape (n_models,): share of the instances without a score."""
    lacking_shares: Floats
    """The same of win shares."""
    mean: Floats
    """Mean score, 0 for none."""
    mean_share: Floats
    """Mean win share, 0 for none."""
    mde: float | None
    """Minimum detectable effect, mean over pairs."""


class PairedBenchmark:
    """The scores and the win shares of one benchmark, loaded when tests need more than sums."""

    def __init__(self, load: Callable[[], AlignedScores]) -> None:
        """`load`: returns the scores of all models."""
        self._load = load

    @cached_property
    def _aligned(self) -> AlignedScores:
        return self._load()

    @cached_property
    def scores(self) -> PairedScores:
        """The scores of all models."""
        return PairedScores(self._aligned.tested, self._aligned.codes, self._aligned.k)

    @cached_property
    def shares(self) -> PairedScores:
        """Their win shares."""
        return PairedScores(self._aligned.win_shares(), self._aligned.codes, self._aligned.k)


def pair_numbers(
    aligned: AlignedScores, *, single_benchmarks: bool = False
) -> tuple[PairNumbers, PairedDifferences | None, PairedBenchmark]:
    """Compute the numbers of one benchmark; with `single_benchmarks` also its differences."""
    found = PairedBenchmark(lambda: aligned)
    kinds = [found.scores, found.shares]
    of_scores, of_shares = in_threads(_sums, kinds, size=aligned.scores.size)
    mde = found.scores.minimum_detectable_effect()
    single = found.scores.differences() if single_benchmarks else None
    for paired in kinds:
        paired.forget_sums()  # memory stays small for many models
    numbers = PairNumbers(
        scores=of_scores,
        shares=of_shares,
        lacking=np.isnan(aligned.scores).mean(axis=1),
        lacking_shares=np.isnan(found.shares.scores).mean(axis=1),
        mean=np.nan_to_num(row_means(aligned.scores)),
        mean_share=np.nan_to_num(row_means(found.shares.scores)),
        mde=mde,
    )
    return numbers, single, found


def _sums(paired: PairedScores) -> PairSums:
    return PairSums(
        n=paired.n,
        n_clusters=paired.n_clusters,
        total=paired.total,
        squares=paired.squares,
        fourths=paired.fourths,
        variance=paired.variance,
        df=paired.df,
        is_binary=paired.is_binary,
        n_instances=paired.scores.shape[1],
    )
