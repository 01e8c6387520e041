"""Numbers that a leaderboard computes from the instance scores of one benchmark, and keeps for the next one.

The numbers depend on the scores of the models that were run on the benchmark, and on nothing else: not on other
benchmarks, weights, panels or models without a run. A cache gets them by a key that covers all of their inputs. Scores
are read again only where single differences are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.all_pairs import MOST_MODELS, AlignedBenchmark
from medhelm.analysis.comparison.pair_numbers import PairNumbers, pair_numbers
from medhelm.analysis.comparison.paired import PairedScores
from medhelm.analysis.cost.frontier import JointMeans, joint_means
from medhelm.analysis.leaderboard.alignment import AlignedScores, align
from medhelm.analysis.leaderboard.averages import ScoreMeans, score_means, share_means
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import row_means
from medhelm.analysis.statistics.numbers_cache import Arrays, NumbersCache, code_digest, digest
from medhelm.analysis.statistics.threads import in_threads

LEAST_KEPT = 500_000
"""Scores of a benchmark from which its numbers are kept: fewer are computed again in no time."""

MOST_IN_MEMORY = 20_000_000
"""Scores on all benchmarks up to which they stay in memory once they are aligned."""

SCORES_PER_PAIR = 6
"""Scores for each pair of models from which numbers of pairs are kept: else they would take as much room as these."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BenchmarkNumbers:
    """Numbers of one benchmark; arrays have one row per model."""

    load: Callable[[], AlignedScores]
    """Returns the scores of all models."""
    n_instances: int
    """Number of instances."""
    n_clusters: int
    """Number of clusters."""
    same_instances: bool
    """True if all models that were run at all were asked the same instances."""
    scores: ScoreMeans
    """Means of the scores."""
    shares: ScoreMeans
    """Means of the win shares."""
    mean_shares: Floats
    """Mean win share of each model, nan for none."""
    pairs: PairNumbers | None = None
    """Sums for the tests of every two models; None if they were not asked for, or would take more room than scores."""
    joint: JointMeans | None = None
    """Joint distribution of the means of the models in `present`; None if it is not needed, or as `pairs`."""
    present: tuple[int, ...] = ()
    """Places of the models that have scores."""

    def as_aligned(self, column: Column) -> AlignedBenchmark:
        """Return the benchmark for tests of all pairs."""
        return AlignedBenchmark(column, None if self.pairs else self.load(), self.pairs, self.load)

    def minimum_detectable_effect(self) -> float | None:
        """Return the minimum detectable effect, mean over pairs; None for too many models."""
        if self.pairs is not None:
            return self.pairs.mde
        if len(self.mean_shares) > MOST_MODELS:
            return None
        aligned = self.load()
        return PairedScores(aligned.tested, aligned.codes, aligned.k).minimum_detectable_effect()

    def joint_means(self, order: Sequence[int]) -> JointMeans:
        """Return the joint distribution of the means of some models."""
        if self.joint is not None and tuple(order) == self.present:
            return self.joint
        return joint_means(self.load().reordered(order))

    def expanded(self, n_models: int, load: Callable[[], AlignedScores]) -> BenchmarkNumbers:
        """Return the numbers of `n_models` models: these models at `present`, and others without scores."""
        rows = self.present
        if len(rows) == n_models:
            return replace(self, load=load)
        mean_shares = np.full(n_models, np.nan)
        mean_shares[list(rows)] = self.mean_shares
        return replace(
            self,
            load=load,
            scores=self.scores.expanded(rows, n_models),
            shares=self.shares.expanded(rows, n_models),
            mean_shares=mean_shares,
            pairs=self.pairs and self.pairs.expanded(rows, n_models),
        )

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers as arrays, see `from_arrays`."""
        found: dict[str, NDArray[Any]] = {"facts": np.array([self.n_instances, self.n_clusters, self.same_instances])}
        found["mean_shares"] = self.mean_shares
        for kind, means in (("of_scores", self.scores), ("of_shares", self.shares)):
            found |= {f"{kind}_{name}": one for name, one in means._asdict().items()}
        if self.pairs is not None:
            found |= self.pairs.as_arrays()
        if self.joint is not None:
            found |= {"covariance": self.joint.covariance, "covariance_df": np.array([self.joint.df])}
        return found

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, present: tuple[int, ...], load: Callable[[], AlignedScores]
    ) -> BenchmarkNumbers:
        """Return the numbers in some arrays. Raises: KeyError."""
        n_instances, n_clusters, same_instances = arrays["facts"].tolist()
        kinds = [
            ScoreMeans(**{name: arrays[f"{kind}_{name}"] for name in ScoreMeans._fields})
            for kind in ("of_scores", "of_shares")
        ]
        joint = None
        if "covariance" in arrays:
            joint = JointMeans(arrays["covariance"], float(arrays["covariance_df"][0]))
        return cls(
            load=load,
            n_instances=n_instances,
            n_clusters=n_clusters,
            same_instances=bool(same_instances),
            scores=kinds[0],
            shares=kinds[1],
            mean_shares=arrays["mean_shares"],
            pairs=PairNumbers.from_arrays(arrays) if "mde" in arrays else None,
            joint=joint,
            present=present,
        )


def _compute_numbers(
    aligned: AlignedScores, present: tuple[int, ...], *, with_pairs: bool, with_joint: bool
) -> BenchmarkNumbers:
    """Compute the numbers of models that all have scores."""
    parts: list[Callable[[], Any]] = [partial(score_means, aligned), aligned.win_shares]
    parts += [partial(joint_means, aligned)] if with_joint else []
    scores, shares, *joint = in_threads(lambda compute: compute(), parts, size=aligned.scores.size)
    return BenchmarkNumbers(
        load=lambda: aligned,
        n_instances=aligned.scores.shape[1],
        n_clusters=aligned.k,
        same_instances=aligned.same_instances,
        scores=scores,
        shares=share_means(aligned, shares, scores.is_binary),
        mean_shares=row_means(shares),
        pairs=pair_numbers(aligned)[0] if with_pairs else None,
        joint=joint[0] if joint else None,
        present=present,
    )


class ScoredBenchmarks:
    """The instance scores of a leaderboard, one benchmark at a time."""

    def __init__(
        self,
        models: Sequence[str],
        columns: Sequence[Column],
        table: Mapping[str, Mapping[str, Cell]],
        cache: NumbersCache | None = None,
    ) -> None:
        """Parameters: table, benchmark -> model -> cell; cache, where numbers are kept."""
        self._models, self._columns, self._table, self._cache = models, columns, table, cache
        self._sizes = [
            len(models) * max((len(c.ids) for c in table[one.benchmark].values()), default=0) for one in columns
        ]
        self._stay = sum(self._sizes) <= MOST_IN_MEMORY

    def numbers(self, *, with_pairs: bool) -> list[BenchmarkNumbers | None]:
        """Return the numbers of each benchmark, in order; None where no scores are known.

        `with_pairs`: also those for the tests of every two models.
        """
        found = []
        largest = max(self._sizes, default=0)
        if largest >= LEAST_KEPT:
            code_digest()
        work = in_threads(lambda one: self._numbers_of(one, with_pairs), self._columns, size=largest)
        for column, result in zip(self._columns, work, strict=True):
            if result is not None and result.new is not None and self._cache is not None:
                self._cache.add(column.benchmark, result.slot, result.key, result.new)
            found.append(result.numbers if result else None)
        return found

    def _numbers_of(self, column: Column, with_pairs: bool) -> _NumbersToKeep | None:
        cells = self._table[column.benchmark]
        present = tuple(i for i, model in enumerate(self._models) if model in cells and cells[model].scores is not None)
        if not present:
            return None
        own = [cells[self._models[i]] for i in present]
        n_scores = sum(len(cell.ids) for cell in own)
        is_small = n_scores >= SCORES_PER_PAIR * len(own) ** 2 // 2
        with_joint = is_small and sum(cell.cost_usd is not None for cell in own) > 1
        with_pairs = with_pairs and is_small and len(self._models) <= MOST_MODELS
        load = self._loader(cells, column)
        slot, key = f"{'pairs' if with_pairs else 'means'}-{len(own)}", ""
        if self._cache is not None and n_scores >= LEAST_KEPT:
            key = _cache_key(own, column, with_pairs, with_joint)
        if key and self._cache and (arrays := self._cache.find(column.benchmark, slot, key)) is not None:
            try:
                numbers = BenchmarkNumbers.from_arrays(arrays, present, load)
                return _NumbersToKeep(numbers.expanded(len(self._models), load), slot, key, None)
            except (KeyError, ValueError, TypeError, IndexError):
                pass  # a damaged file
        numbers = _compute_numbers(load().reordered(present), present, with_pairs=with_pairs, with_joint=with_joint)
        new = numbers.as_arrays() if key else None
        return _NumbersToKeep(numbers.expanded(len(self._models), load), slot, key, new)

    def _loader(self, cells: Mapping[str, Cell], column: Column) -> Callable[[], AlignedScores]:
        """Return a function that aligns scores, and remembers them if there are few."""
        known: list[AlignedScores] = []

        def load() -> AlignedScores:
            if known:
                return known[0]
            found = align(cells, column, self._models)
            if self._stay:
                known.append(found)
            return found

        return load


@dataclass(frozen=True, slots=True)
class _NumbersToKeep:
    numbers: BenchmarkNumbers
    slot: str
    key: str
    new: Arrays | None
    """The numbers to keep; None if they were kept before, or are not."""


def _cache_key(cells: Sequence[Cell], column: Column, with_pairs: bool, with_joint: bool) -> str:
    """Return a digest of everything that the numbers are computed from; empty if the source of a score is not known."""
    if any(not cell.source for cell in cells):
        return ""
    scale = [column.low, column.high, column.higher_is_better]
    limits = [[one.estimate.low, one.estimate.high] for one in cells if one.tested is not None and one.estimate]
    return digest([scale, with_pairs, with_joint, [cell.source for cell in cells], limits])
