"""Sums of the paired differences of every two models on one benchmark: all that tests over several benchmarks need.

They are small beside the scores of many instances, depend on one benchmark only, and are plain arrays, so that they can
be kept in files. Tests that need single differences get them from the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired import Ints, PairedDifferences, PairedScores, pair_indices
from medhelm.analysis.leaderboard.alignment import AlignedScores
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import row_means
from medhelm.analysis.statistics.numbers_cache import Arrays
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

    def expanded(self, places: Ints, n_pairs: int) -> PairSums:
        """Return the sums of `n_pairs` pairs: these pairs at `places`, and others that share nothing."""
        found: dict[str, Any] = {}
        for name in SUMS:
            own = getattr(self, name)
            found[name] = np.full(n_pairs, 1 if name == "df" else 0, dtype=own.dtype)
            found[name][places] = own
        return replace(self, **found)


SUMS = [one.name for one in fields(PairSums) if one.name not in ("is_binary", "n_instances")]
"""Fields that are arrays."""


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

    def expanded(self, rows: Sequence[int], n_models: int) -> PairNumbers:
        """Return the numbers of `n_models` models: these models at `rows`, and others without scores."""
        if len(rows) == n_models:
            return self
        first, second = pair_indices(n_models)
        place = np.zeros((n_models, n_models), dtype=np.intp)
        place[first, second] = np.arange(len(first))
        here = np.array(rows, dtype=np.intp)
        own_first, own_second = pair_indices(len(rows))
        places = place[here[own_first], here[own_second]]
        lacking, lacking_shares = np.ones((2, n_models))
        mean, mean_share = np.zeros((2, n_models))
        lacking[here], lacking_shares[here] = self.lacking, self.lacking_shares
        mean[here], mean_share[here] = self.mean, self.mean_share
        return PairNumbers(
            scores=self.scores.expanded(places, len(first)),
            shares=self.shares.expanded(places, len(first)),
            lacking=lacking,
            lacking_shares=lacking_shares,
            mean=mean,
            mean_share=mean_share,
            mde=self.mde,
        )

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers as arrays, see `from_arrays`."""
        found = {f"pairs_{name}": getattr(self, name) for name in BY_MODEL}
        for kind, sums in (("scores", self.scores), ("shares", self.shares)):
            found |= {f"{kind}_{name}": getattr(sums, name) for name in SUMS}
            found[f"{kind}_facts"] = np.array([sums.is_binary, sums.n_instances], dtype=np.int64)
        return {**found, "mde": np.array([np.nan if self.mde is None else self.mde])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> PairNumbers:
        """Return the numbers in some arrays. Raises: KeyError."""
        found: dict[str, Any] = {name: arrays[f"pairs_{name}"] for name in BY_MODEL}
        for kind in ("scores", "shares"):
            is_binary, n_instances = arrays[f"{kind}_facts"].tolist()
            own: dict[str, Any] = {name: arrays[f"{kind}_{name}"] for name in SUMS}
            found[kind] = PairSums(is_binary=bool(is_binary), n_instances=n_instances, **own)
        mde = float(arrays["mde"][0])
        return cls(**found, mde=None if np.isnan(mde) else mde)


BY_MODEL = ("lacking", "lacking_shares", "mean", "mean_share")
"""Fields with one number for each model."""


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
