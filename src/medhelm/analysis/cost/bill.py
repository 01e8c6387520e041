"""Types of a bill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medhelm.analysis.cost.frontier import CostFrontier
from medhelm.analysis.cost.sums import CostRange, CostSum
from medhelm.analysis.cost.use import CompletionUse
from medhelm.domain import Usage
from medhelm.domain.remark import Remark

GroupBy = Literal["model", "benchmark", "judge", "run"]
"""Subject of the rows of a bill."""

CostRule = Literal["bill", "ceiling"]
"""Amount to show first: the bill by the providers' counts, or the ceiling by the published rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRow:
    """Usage and cost of some runs, or of all."""

    model: str = ""
    """Model under test; empty where the row is not about one."""
    benchmark: str = ""
    """Benchmark; empty where the row is not about one."""
    judge: str = ""
    """Judge; empty where the row is not about one."""
    of: Literal["runs", "tested", "left_over", "total"] = "runs"
    """`tested`: models under test, without judges; `left_over`: requests of no stored run; `total`: all rows."""
    runs: int = 0
    """Runs behind it."""
    instances: int = 0
    """Instances of these runs with a completion."""
    requests: int = 0
    """Requests behind these runs, by any run or process."""
    purchased: int = 0
    """Requests that were bought for them and for no run before."""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    """Tokens of `requests`."""
    models: CostSum = CostSum()  # noqa: RUF009 - frozen
    """Making all completions again."""
    judges: CostSum = CostSum()  # noqa: RUF009 - frozen
    """Having all of them judged again."""
    spent: CostSum = CostSum()  # noqa: RUF009 - frozen
    """Cost of the `purchased` requests."""
    ceiling: CostSum = CostSum()  # noqa: RUF009 - frozen
    """Models and judges by the published rule."""

    @property
    def bill(self) -> CostSum:
        """Making everything again: completions and judgments."""
        return CostSum(self.models.known_usd + self.judges.known_usd, self.models.n_unknown + self.judges.n_unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCostEffectiveness:
    """Cost of a model's score on one benchmark."""

    benchmark: str
    """Id of the benchmark."""
    cost_usd: float | None
    """Making the run again, judges included; None if unknown."""
    value: float | None
    """Its score, normalized to 0..1; None where nothing could be scored."""
    per_point: float | None
    """US dollars for each 0.01 of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEffectiveness:
    """Cost of a model's score, on the runs that a leaderboard counts."""

    model: str
    """Name of the model."""
    n_benchmarks: int
    """Benchmarks it was run on."""
    instances: int
    """Completions on them."""
    cost_usd: float | None
    """Making these runs again, judges included; None if unknown."""
    win_rate: float | None
    """0..1; None where it has no rival."""
    macro_average: float | None
    """0..1, over the benchmarks that it has; None without any score."""
    adjusted_average: float | None = None
    """The macro average on the leaderboard, adjusted for benchmarks that it lacks."""
    per_win_point: float | None
    """US dollars for each 0.01 of the win rate."""
    per_macro_point: float | None
    """US dollars for each 0.01 of the macro average."""
    per_instance: float | None
    """US dollars for each completion."""
    per_benchmark: float | None
    """US dollars for each benchmark."""
    is_efficient: bool
    """True if no other model has a higher win rate at the same or lower cost, or the same at a lower one."""
    benchmarks: tuple[BenchmarkCostEffectiveness, ...] = ()
    """The same for each benchmark."""
    use_usd: float | None = None
    """Cost of its own completions, without judges; None if unknown."""
    judges_usd: float | None = None
    """Cost of judging them; None if unknown."""
    use: CompletionUse | None = None
    """Cost of 1,000 completions without judges, and tokens and seconds of a completion; None if unknown."""
    on_frontier: bool | None = None
    """True if no other model on the same benchmarks is at least as good by macro average and cheaper to use, or better
    and no costlier. None if it was not compared."""
    frontier_probability: float | None = None
    """Probability of that, given the scores; None if it was not compared, or nothing was tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCost:
    """Estimated cost of one more model on the leaderboard, judges included, from the runs that exist."""

    cost: CostRange
    """Sums over `benchmarks`."""
    benchmarks: tuple[str, ...]
    """Those with a run whose cost is known."""
    n_models: int
    """Models whose runs it goes by."""
    unknown: tuple[str, ...]
    """Benchmarks of the suite without such a run: not in the sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Costs of some stores, in rows."""

    by: GroupBy
    """Subject of the rows."""
    rule: CostRule
    """Amount to show first."""
    rows: Sequence[BillRow]
    """In order of name."""
    total: BillRow
    """All of them."""
    cost_effectiveness: Sequence[CostEffectiveness] = ()
    """One for each model that a leaderboard counts, in its order."""
    frontier: CostFrontier | None = None
    """The efficient frontier by macro average and cost of use; None unless two models can be compared."""
    update: UpdateCost | None = None
    """None without any run of known cost."""
    prices: Sequence[tuple[str, str]] = ()
    """Model or judge -> where its price was read, or "" if it is unknown."""
    remarks: Sequence[Remark] = ()
    """Limits of the numbers, such as unknown prices."""
