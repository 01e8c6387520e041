"""Inputs of a leaderboard: columns, one per benchmark, and cells, one per model and benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from medhelm.analysis.cost.use import RunUse
from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats
from medhelm.domain import CompletionCounts, Estimate, Floor, Parts

if TYPE_CHECKING:
    from medhelm.analysis.agreement.calibration import CalibratedMean

Value = TypeVar("Value", float, Floats)
"""One number, or an array of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A benchmark on the board, with its metric."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name for people."""
    category: str
    """Id of its category."""
    subcategory: str
    """Id of its subcategory."""
    metric: str
    """Name of the metric."""
    metric_title: str = ""
    """Short heading of the metric, such as `EM`; empty: as `metric`."""
    low: float = 0.0
    """Lower end of the metric's scale."""
    high: float = 1.0
    """Upper end of the metric's scale."""
    open_below: bool = False
    """True if the score of an instance may lie below `low`: only means are cut to the scale."""
    higher_is_better: bool = True
    """True if high values are good."""
    judges: tuple[str, ...] = ()
    """Names of its judges; empty if the metric needs none."""
    constant_baseline: float | None = None
    """Score of always giving the most frequent correct answer; None if unknown."""
    constant_answer: str = ""
    """That answer."""
    constant_scores: Mapping[str, float] | None = field(default=None, compare=False, repr=False)
    """Instance id -> score of that answer, in the metric's own unit; None if only the mean is known."""
    weight: float = 1.0
    """Weight in averages over benchmarks, above 0."""

    def normalize(self, value: Value) -> Value:
        """Map a value, or an array of values, to a scale where 0 is the worst and 1 the best value of the metric.

        Scores of instances below the scale stay below 0.
        """
        share = (value - self.low) / (self.high - self.low)
        return share if self.higher_is_better else 1 - share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Cell:
    """One model on one benchmark."""

    model: str
    """Name of the model."""
    benchmark: str
    """Id of the benchmark."""
    value: float | None
    """Mean score in the metric's own unit; None if nothing could be scored."""
    estimate: Estimate | None = None
    """The same mean with its interval; None if only the value is known."""
    n: int | None = None
    """Instances behind the value where there is no estimate to say so; None if unknown."""
    n_failed: int | None = None
    """Failed instances; None if unknown."""
    n_failed_by_model: int = 0
    """Those of them that the model caused, counted as the worst answer in `value`; the others have no score."""
    failures_by_model: Mapping[str, int] = field(default_factory=dict)
    """Failure code -> number of these."""
    completers: Estimate | None = None
    """Mean over the instances that did not fail, where `value` counts some failures as the worst answer."""
    ids: Sequence[str] = ()
    """Instance ids, in the order of `scores`."""
    scores: Floats | None = None
    """Shape (n,): score of each instance in the metric's own unit, nan for a failure; None if not known."""
    tested: Floats | None = None
    """Values in place of the scores to compare two models with, where `value` is a ratio such as balanced accuracy and
    not a mean of scores; their mean is `value`. None: the scores."""
    parts: Sequence[Parts] | None = None
    """Contribution of each instance to such a ratio; those of missing scores may be empty."""
    clusters: Clusters = None
    """Name of each instance's cluster, "" for none; None: all instances are independent."""
    cost_usd: float | None = None
    """Cost of the run in US dollars; None if unknown, which never counts as free."""
    use: RunUse | None = None
    """Tokens and time of its completions; None if unknown."""
    calibrated: CalibratedMean | None = None
    """Estimated mean clinician rating, in the same unit; None if there are too few ratings."""
    floors: Mapping[Floor, Floats] = field(default_factory=dict)
    """Floor of the rubric -> 1.0 for each instance whose completion is below it, else 0.0; nan if it is not known."""
    completion_counts: CompletionCounts | None = None
    """Completions without a readable answer; None if unknown, or for a baseline."""
    dates: tuple[str, str] | None = None
    """First and last day on which its completions arrived, ISO 8601; None if unknown."""

    def __repr__(self) -> str:
        return f"<Cell: {self.model} on {self.benchmark}, {self.value}>"

    @property
    def n_completions(self) -> int | None:
        """Number of completions; None if unknown."""
        if self.use is not None:
            return self.use.completions
        return self.estimate.n if self.estimate else self.n

    @property
    def below_floor(self) -> Floats | None:
        """1.0 for an instance below some floor, 0.0 for one below none, nan if that is unknown; None without floors."""
        if not self.floors:
            return None
        found = np.array(list(self.floors.values()))
        return np.where((found == 1.0).any(axis=0), 1.0, found.sum(axis=0))

    @property
    def n_missing(self) -> int:
        """Number of instances without a score."""
        return max((self.n_failed or 0) - self.n_failed_by_model, 0)

    @property
    def share_missing(self) -> float:
        """Share of the instances that have no score, 0..1."""
        missing = self.n_missing
        return missing / (self.estimate.n + missing) if self.estimate and missing > 0 else 0.0

    def bounds(self, column: Column) -> tuple[float, float] | None:
        """Return the value if all missing scores were the worst, and the best (Manski 1990, Am. Econ. Rev. 80).

        Returns: None if nothing is missing.
        """
        share = self.share_missing
        if not share or self.value is None:
            return None
        ends = (column.low, column.high) if column.higher_is_better else (column.high, column.low)
        worst, best = ((1 - share) * self.value + share * end for end in ends)
        return worst, best
