"""Numbers that a leaderboard computes from the instance scores of one benchmark.

The numbers depend on the scores of the models on the benchmark, and on nothing else: not on other benchmarks, weights
or panels. Scores of large leaderboards are aligned again where single differences are needed: all of them together
would take too much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from medhelm.analysis.comparison.all_pairs import MOST_MODELS, AlignedBenchmark
from medhelm.analysis.comparison.pair_numbers import PairNumbers, pair_numbers
from medhelm.analysis.comparison.paired import PairedScores
from medhelm.analysis.cost.frontier import JointMeans, joint_means
from medhelm.analysis.leaderboard.alignment import AlignedScores, align
from medhelm.analysis.leaderboard.averages import ScoreMeans, score_means, share_means
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import row_means
from medhelm.analysis.statistics.threads import in_threads

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


def _compute_numbers(
    load: Callable[[], AlignedScores], present: tuple[int, ...], *, with_pairs: bool, with_joint: bool
) -> BenchmarkNumbers:
    aligned = load()
    parts: list[Callable[[], Any]] = [partial(score_means, aligned), aligned.win_shares]
    parts += [partial(joint_means, aligned.reordered(present))] if with_joint else []
    scores, shares, *joint = in_threads(lambda compute: compute(), parts, size=aligned.scores.size)
    return BenchmarkNumbers(
        load=load,
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
        self, models: Sequence[str], columns: Sequence[Column], table: Mapping[str, Mapping[str, Cell]]
    ) -> None:
        """`table`: benchmark -> model -> cell."""
        self._models, self._columns, self._table = models, columns, table
        self._sizes = [
            len(models) * max((len(c.ids) for c in table[one.benchmark].values()), default=0) for one in columns
        ]
        self._stay = sum(self._sizes) <= MOST_IN_MEMORY

    def numbers(self, *, with_pairs: bool) -> list[BenchmarkNumbers | None]:
        """Return the numbers of each benchmark, in order; None where no scores are known.

        `with_pairs`: also those for the tests of every two models.
        """
        largest = max(self._sizes, default=0)
        return list(in_threads(lambda one: self._numbers_of(one, with_pairs), self._columns, size=largest))

    def _numbers_of(self, column: Column, with_pairs: bool) -> BenchmarkNumbers | None:
        cells = self._table[column.benchmark]
        present = tuple(i for i, model in enumerate(self._models) if model in cells and cells[model].scores is not None)
        if not present:
            return None
        own = [cells[self._models[i]] for i in present]
        has_many = sum(len(cell.ids) for cell in own) >= SCORES_PER_PAIR * len(own) ** 2 // 2
        return _compute_numbers(
            self._loader(cells, column),
            present,
            with_pairs=with_pairs and has_many and len(self._models) <= MOST_MODELS,
            with_joint=has_many and sum(cell.cost_usd is not None for cell in own) > 1,
        )

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
