"""What a leaderboard is made from, and what it is: frozen dataclasses and nothing else."""

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
"""What was drawn anew for the intervals of averages and ranks."""


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
    """Which end of the scale is the good one."""
    judges: tuple[str, ...] = ()
    """Who judges it; empty where the metric needs no judge."""
    constant_baseline: float | None = None
    """What the most frequent right answer scores when given to every question; None if unknown."""
    constant_answer: str = ""
    """That answer."""
    weight: float = 1.0
    """How much it counts in averages over benchmarks, above 0."""

    def normalize(self, value: Value) -> Value:
        """A value, or an array of values, on a scale where 0 is the worst and 1 the best the metric can give."""
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
    """What the run cost; None if unknown, which never counts as free."""
    calibrated: CalibratedMean | None = None
    """What clinicians would give, in the same unit; None where too few of them rated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """An average over benchmarks and how far it can be trusted."""

    value: float
    """The average."""
    low: float | None
    """Lower end of the 95 % interval; None where nothing was resampled."""
    high: float | None
    """Upper end of the 95 % interval; None where nothing was resampled."""
    sd: float | None
    """Its spread, over rivals or over benchmarks; None where there are too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMean:
    """A model's mean over the benchmarks of a category or subcategory."""

    value: float | None
    """Weighted mean of the normalised values, 0..1; None if the model has none of the benchmarks."""
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
    """Best place of the 95 % interval, from the draws behind that of the win rate; None where nothing was resampled."""
    rank_high: int | None
    """Worst place of that interval."""
    tie_group: int | None
    """Models of the same group cannot be told apart from the best of the group; from 1. None as for `rank_low`."""
    win_rate: Average | None
    """None for a model that has no benchmark in common with another."""
    macro_average: Average | None
    """None for a model without any value."""
    n_benchmarks: int
    """Benchmarks on which it has a value."""
    coverage: float
    """Share of the board's benchmarks on which it has a value."""
    cost_usd: float | None
    """What its runs on the board cost together; None if any of them is unknown."""
    cells: Mapping[str, Cell]
    """Benchmark id -> its cell, where there is one."""
    categories: Mapping[str, GroupMean]
    """Category id -> mean, for every category of the board."""
    subcategories: Mapping[str, GroupMean]
    """Subcategory id -> mean, for every subcategory of the board."""
    guarded_win_rate: float | None = None
    """Win rate with every missing value counted as lost, which decides the rank: nobody gains by skipping a benchmark.
    The same as the win rate where nobody lacks anything; None where there is one model only, or no value at all."""
    published: bool = False
    """Whether its scores are published ones and were not measured here."""


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
    """What was resampled for the intervals of averages and ranks."""
    significant_pairs: frozenset[tuple[str, str]]
    """Pairs of models, better one first, whose win rates differ by more than chance."""
    significant_pairs_adjusted: frozenset[tuple[str, str]] = frozenset()
    """Those of them that are still told apart when the number of pairs is taken into account (Holm 1979)."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison, and which differences are significant."""
    suite: str = "all"
    """Name of the selection of benchmarks."""
    suite_description: str = ""
    """What that selection is for, in the words of its author; empty where nobody said."""
    scoring: Rule = "corrected"
    """Which rule the scores follow."""
    tier: Tier = "real"
    """Real data or sample rows."""
