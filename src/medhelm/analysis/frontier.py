"""The efficient frontier, the probability that a model is on it, what each step up costs, and the types of a bill.

A model is on the frontier if no other is at least as good and costs less, or is better and costs no more. Which models
are on it depends on the instances. So macro averages are drawn from their joint distribution given the scores, and the
probability is the share of draws in which a model is on the frontier (cost-effectiveness acceptability: van Hout et al.
1994, Health Econ. 3; Fenwick, Claxton and Sculpher 2001, Health Econ. 10). Costs are those of the evaluated instances,
taken as known.

The joint distribution is that of the tests in `comparison.paired_differences`: each pair's difference has the variance
used there. On 0/1 scores two invented instances, on each of which one of two models is right, keep models that agree
everywhere from being certainly equal. Benchmarks with few clusters have Student's t in place of the normal
distribution. With two models the probability of the costlier one is one minus the one-sided p-value of the normal
approximation. If true averages can lie anywhere beforehand, probabilities are calibrated: of the models given 80%,
about 80% are on the true frontier. Among models known to be nearly equal they are too far from one half
(`bench.studies.frontier`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, NamedTuple

import numpy as np

from medhelm.analysis.cost import CostRange, CostSum
from medhelm.analysis.leaderboard.cells import AlignedScores
from medhelm.analysis.means import Floats, cluster_totals, constant_variance
from medhelm.analysis.planned_cost import CompletionUse
from medhelm.domain import Usage
from medhelm.domain.result import Remark

DRAWS = 10_000
"""Number of draws: a probability is exact to about 0.01."""

DRAWN = 2_000_000
"""Most numbers drawn: of more than 200 models there are fewer draws."""

BLOCK = 256
"""Draws that are worked on at once: they stay in the processor's cache."""

SEED = 5
"""Seed of the draws, so that the same scores give the same probabilities."""

EQUAL = 1e-6
"""Largest difference of drawn averages that counts as none: draws are not exact to the last digit."""

JITTER = 1e-12
"""Relative addition to variances, so that a singular covariance matrix has a Cholesky factor."""

NORMAL = 200.0
"""Degrees of freedom from which Student's t is taken as normal."""

NO_SPREAD = 1e-18
"""Variance of a difference below which it is constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierModel:
    """One model by cost and quality."""

    model: str
    """Name of the model."""
    usd_per_1000: float
    """Cost of 1,000 completions in US dollars."""
    value: float
    """Macro average."""
    is_efficient: bool
    """True if it is on the frontier by the point estimates."""
    place: int
    """Place of its probability among those of all models."""
    probabilities: Callable[[], Floats | None] = field(repr=False)
    """Returns the probabilities of all models; draws them when it is first called."""

    @property
    def probability(self) -> float | None:
        """Probability that it is on the frontier; None where macro averages have no known distribution."""
        found = self.probabilities()
        return None if found is None else float(found[self.place])


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierStep:
    """From one model on the frontier, by the point estimates, to the next costlier one."""

    cheaper: str
    """The model to start from."""
    costlier: str
    """The better and costlier one."""
    usd_per_1000: float
    """Additional cost of 1,000 completions in US dollars."""
    points: float
    """Gain in macro average, in percentage points, on the instances that both have."""
    points_low: float | None
    """Lower end of its 95% interval; None if the two were not tested."""
    points_high: float | None
    """Upper end of its 95% interval."""
    is_separated: bool
    """True if the leaderboard separates the two: by win share, after Holm correction for all pairs."""

    @property
    def usd_per_point(self) -> float | None:
        """US dollars for 1,000 completions and one percentage point; None without a gain."""
        return self.usd_per_1000 / self.points if self.points > 0 else None

    @property
    def interval(self) -> tuple[float, float | None] | None:
        """95% interval of `usd_per_point`, from that of the gain; None unless separated. The upper end may be None."""
        if not self.is_separated or self.points_low is None or not self.points_high:
            return None
        return (
            self.usd_per_1000 / self.points_high,
            self.usd_per_1000 / self.points_low if self.points_low > 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFrontier:
    """Models with a known cost that were run on the same benchmarks, and the frontier among them."""

    models: tuple[FrontierModel, ...]
    """Cheapest first."""
    steps: tuple[FrontierStep, ...]
    """From each model on the frontier to the next, cheapest first."""
    unknown_cost: tuple[str, ...] = ()
    """Models left out because their cost is not known, which is never free."""
    other_benchmarks: tuple[str, ...] = ()
    """Models left out because they were run on other benchmarks."""
    by_model: Mapping[str, FrontierModel] = field(init=False)
    """Name -> entry of `models`."""

    def __post_init__(self) -> None:
        """Index the models."""
        object.__setattr__(self, "by_model", {one.model: one for one in self.models})

    def probability(self, model: str) -> float | None:
        """Return the probability that a model is on the frontier; None if it was left out, or it is not known."""
        found = self.by_model.get(model)
        return found.probability if found else None


class JointMeans(NamedTuple):
    """Uncertainty of the means of several models on the same instances."""

    covariance: Floats
    """Shape (n_models, n_models)."""
    df: float
    """Degrees of freedom; infinite for a normal distribution."""


@np.errstate(invalid="ignore", divide="ignore")
def joint_means(aligned: AlignedScores) -> JointMeans:
    """Compute the covariance of the means of all models on one benchmark; nan for a model without any score.

    The difference of any two models has the variance of `comparison.paired_differences.PairedScores`.
    """
    scores, k = aligned.tested, aligned.k
    here = ~np.isnan(scores)
    if k == scores.shape[1] and bool(((scores == 0) | (scores == 1) | ~here).all()):
        size = here.sum(axis=1) + 2.0
        middle = np.where(here, scores, 0.0).sum(axis=1) / size
        influence = np.where(here, scores - middle[:, None], 0.0) / size[:, None]
        invented = middle / size
        covariance = influence @ influence.T + 2 * np.outer(invented, invented) + np.diag(1 / size**2)
        return JointMeans(covariance, np.inf)
    if k < 2:  # every difference from -1 to 1 is possible
        return JointMeans(np.eye(len(scores)) / 6, np.inf)
    sums, counts = cluster_totals(scores, aligned.codes, k)
    n = counts.sum(axis=0)
    mean = sums.sum(axis=0) / n
    to_others = (sums - mean * counts) / np.maximum(n - counts, 1)  # each cluster is compared with all others
    own_k = (counts > 0).sum(axis=0)
    to_others *= np.sqrt((own_k - 1) / own_k)
    covariance = to_others.T @ to_others
    units = float(np.nanmin(n**2 / np.square(counts).sum(axis=0)))
    return JointMeans(_with_least_spread(covariance, units), max(units - 1.0, 1.0))


def joint_means_over_benchmarks(values: Floats, shares: Floats) -> JointMeans | None:
    """Compute the covariance of weighted means over benchmarks, each an independent unit; None with one benchmark.

    Parameters: values, shape (n_models, n_benchmarks); shares, weights that add up to 1.
    """
    n = values.shape[1]
    if n < 2:
        return None
    mean = values @ shares
    deviations = shares * (values - mean[:, None])
    return JointMeans(_with_least_spread(n / (n - 1) * deviations @ deviations.T, float(n)), n - 1.0)


def _with_least_spread(covariance: Floats, k: float) -> Floats:
    """Give differences that are equal in all k units the spread of outcomes that were not seen."""
    variances = np.diag(covariance)
    spread = variances[:, None] + variances - 2 * covariance
    is_equal = (spread <= NO_SPREAD).sum(axis=1) > 1
    half = constant_variance(np.array([k]), -1.0, 1.0) / 2
    widened: Floats = covariance + np.diag(np.where(is_equal, half, 0.0))
    return widened


def draw_averages(values: Floats, parts: Iterable[tuple[float, JointMeans]], draws: int | None = None) -> Floats:
    """Draw averages over benchmarks from their joint distribution.

    Parameters: values, shape (n_models,), the averages; parts, the weight of each benchmark, weights adding up to 1,
    and its means; a generator keeps the covariances of one benchmark in memory. Returns: shape (draws, n_models).
    """
    rng = np.random.default_rng(SEED)
    draws = draws or min(DRAWS, DRAWN // max(len(values), 1))
    drawn = np.repeat(values[None, :], draws, axis=0)
    normal: Floats | None = None
    for share, part in parts:
        covariance = share**2 * part.covariance
        if part.df >= NORMAL:
            normal = covariance if normal is None else normal + covariance
            continue
        scale = np.sqrt(part.df / rng.chisquare(part.df, draws))
        _add_normal(drawn, covariance, scale, rng)
    if normal is not None:
        _add_normal(drawn, normal, np.ones(draws), rng)
    return drawn


def _add_normal(drawn: Floats, covariance: Floats, scale: Floats, rng: np.random.Generator) -> None:
    """Add draws from a normal distribution, each times its scale."""
    factor = _factor(covariance).T
    for some in _blocks(len(drawn)):
        drawn[some] += scale[some, None] * (rng.standard_normal(drawn[some].shape) @ factor)


def _blocks(draws: int) -> Iterator[slice]:
    """Return the parts of the draws that are worked on at once."""
    return (slice(start, min(start + BLOCK, draws)) for start in range(0, draws, BLOCK))


def _factor(covariance: Floats) -> Floats:
    """Return the Cholesky factor. Unlike eigenvectors it is unique, so every machine makes the same draws."""
    variances = np.diag(covariance)
    added = np.diag(JITTER * (variances + variances.mean() + 1e-12))
    return np.asarray(np.linalg.cholesky(covariance + added), dtype=np.float64)


def frontier_probabilities(costs: Floats, drawn: Floats) -> Floats:
    """Share of draws in which each model is on the frontier.

    Parameters: costs, shape (n_models,); drawn, shape (draws, n_models).

    >>> frontier_probabilities(np.array([1.0, 2.0]), np.array([[0.5, 0.6], [0.5, 0.7], [0.5, 0.5], [0.5, 0.4]]))
    array([1. , 0.5])
    """
    order = np.argsort(costs, kind="stable")
    ordered = costs[order]
    first = np.searchsorted(ordered, ordered, side="left")
    last = np.searchsorted(ordered, ordered, side="right") - 1
    n_on = np.zeros(len(costs))
    for some in _blocks(len(drawn)):
        values = drawn[some][:, order]
        best = np.maximum.accumulate(values, axis=1)
        cheaper = np.concatenate([np.full((len(values), 1), -np.inf), best], axis=1)[:, first]
        n_on[order] += ((values >= best[:, last] - EQUAL) & (values > cheaper + EQUAL)).sum(axis=0)
    found: Floats = n_on / len(drawn)
    return found


@dataclass(frozen=True, slots=True)
class CostPoint:
    """Quality and cost of one model."""

    name: str
    """Name of the model."""
    cost_usd: float | None
    """Cost in US dollars; None if unknown: the point is then ignored."""
    value: float | None
    """Quality, such as the win rate; higher is better; None if unknown."""


def efficient_frontier(points: Iterable[CostPoint]) -> list[CostPoint]:
    """Return the efficient frontier: points that no other beats at the same or lower cost, cheapest first.

    A point is beaten by another that costs no more and is better, or that is as good and costs less. Points with equal
    cost and equal value are both on the frontier. One whose cost or value is not known is neither on it nor beats any.

    >>> points = [CostPoint("a", 1, 0.5), CostPoint("b", 2, 0.4), CostPoint("c", 2, 0.9), CostPoint("?", None, 1)]
    >>> efficient_frontier(points)
    [CostPoint(name='a', cost_usd=1, value=0.5), CostPoint(name='c', cost_usd=2, value=0.9)]
    """
    usable: list[tuple[float, float, CostPoint]] = []
    for point in points:
        cost, value = point.cost_usd, point.value
        if cost is not None and value is not None and isfinite(cost) and isfinite(value):
            usable.append((cost, -value, point))
    found: list[CostPoint] = []
    best = (float("inf"), float("inf"))
    for cost, negative, point in sorted(usable, key=lambda one: one[:2]):
        if negative < best[1] or (cost, negative) == best:
            found.append(point)
            best = (cost, negative)
    return found


# --- types of a bill --------------------------------------------------------------------------------------------------

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
