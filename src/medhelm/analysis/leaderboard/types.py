"""Types of a leaderboard and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from medhelm.analysis.agreement.calibration import CalibratedMean
from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats
from medhelm.domain import Estimate, Remark, Rule, Tier

Value = TypeVar("Value", float, Floats)
"""One number, or an array of them."""

ResampledUnit = Literal["instances within benchmarks", "benchmarks", "nothing"]
"""Unit that was resampled for the intervals of averages and ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A benchmark on the board, with the metric it is judged by."""

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
    higher_is_better: bool = True
    """True if high values are good."""
    judges: tuple[str, ...] = ()
    """Names of its judges; empty if the metric needs none."""
    constant_baseline: float | None = None
    """Score of always giving the most frequent correct answer; None if unknown."""
    constant_answer: str = ""
    """That answer."""
    weight: float = 1.0
    """Weight in averages over benchmarks, above 0."""

    def normalize(self, value: Value) -> Value:
        """Map a value, or an array of values, to a scale where 0 is the worst and 1 the best value of the metric."""
        share = (value - self.low) / (self.high - self.low)
        return share if self.higher_is_better else 1 - share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    """Instances without a score; None if unknown."""
    ids: Sequence[str] = ()
    """Instance ids, in the order of `scores`."""
    scores: Floats | None = None
    """Shape (n,): score of each instance in the metric's own unit, nan for a failure; None if not known."""
    clusters: Clusters = None
    """Name of each instance's cluster, "" for none; None: all instances are independent."""
    cost_usd: float | None = None
    """Cost of the run in US dollars; None if unknown, which never counts as free."""
    calibrated: CalibratedMean | None = None
    """Estimated mean clinician rating, in the same unit; None if there are too few ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """An average over benchmarks and how far it can be trusted."""

    value: float
    """The average."""
    low: float | None
    """Lower end of the 95% interval; None where nothing was resampled."""
    high: float | None
    """Upper end of the 95% interval; None where nothing was resampled."""
    sd: float | None
    """Its spread, over rivals or over benchmarks; None where there are too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMean:
    """A model's mean over the benchmarks of a category or subcategory."""

    value: float | None
    """Weighted mean of the normalized values, 0..1; None if the model has none of the benchmarks."""
    n_benchmarks: int
    """Benchmarks behind it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One model on the board."""

    model: str
    """Name of the model."""
    rank: int
    """Place by guarded win rate, from 1; equal ones share a place."""
    rank_low: int | None
    """Best place of the 95% interval, from the draws behind that of the win rate; None where nothing was resampled."""
    rank_high: int | None
    """Worst place of that interval."""
    tie_group: int | None
    """Models of one group cannot be separated from the best of the group; from 1. None as for `rank_low`."""
    win_rate: Average | None
    """None for a model that has no benchmark in common with another."""
    macro_average: Average | None
    """None for a model without any value."""
    n_benchmarks: int
    """Benchmarks on which it has a value."""
    coverage: float
    """Share of the board's benchmarks on which it has a value."""
    cost_usd: float | None
    """Cost of its runs on the board in US dollars; None if any of them is unknown."""
    cells: Mapping[str, Cell]
    """Benchmark id -> its cell, where there is one."""
    categories: Mapping[str, GroupMean]
    """Category id -> mean, for every category of the board."""
    subcategories: Mapping[str, GroupMean]
    """Subcategory id -> mean, for every subcategory of the board."""
    guarded_win_rate: float | None = None
    """Win rate with all missing values counted as losses. It decides the rank: no model gains by skipping benchmarks.
    Equals the win rate if no value is missing; None if there is only one model, or no value."""
    published: bool = False
    """True if its scores are published ones and were not measured here."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leaderboard:
    """Models in order of rank, on the benchmarks that at least one of them was run on."""

    rows: tuple[Row, ...]
    """One per model, best first."""
    columns: tuple[Column, ...]
    """One per benchmark, in the order asked for."""
    mde: Mapping[str, float | None]
    """Benchmark id -> minimum detectable effect on the 0..1 scale; None where single scores are not known."""
    interval_method: ResampledUnit
    """Unit that was resampled for the intervals of averages and ranks."""
    significant_pairs: frozenset[tuple[str, str]]
    """Pairs of models, better one first, whose win rates differ significantly; not adjusted for their number."""
    significant_pairs_adjusted: frozenset[tuple[str, str]] = frozenset()
    """Those of them that remain significant after Holm correction for the number of pairs (Holm 1979)."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison, and which differences are significant."""
    suite: str = "all"
    """Name of the selection of benchmarks."""
    suite_description: str = ""
    """Purpose of the selection, as its author described it; may be empty."""
    scoring: Rule = "corrected"
    """Scoring rule."""
    tier: Tier = "real"
    """Real data or sample rows."""
