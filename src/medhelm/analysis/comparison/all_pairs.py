"""Compares every two models on each benchmark they share, and over all of them: the one place where models are tested.

Over several benchmarks two differences are tested, each a weighted mean of the differences on single benchmarks:

    macro average   the mean scores, normalized to 0..1
    win share       the share of rivals that a model's answer beats, instance by instance; a tie counts one half

Both are means over instances and are treated alike: the interval comes from the sum of the benchmarks'
variances, with Student's t and degrees of freedom by Satterthwaite (1946, Biom. Bull. 2); the p-value from the
sign-flip test of all clusters of all benchmarks together. On 0/1 scores the two differ by a factor only, and no third
model matters. Where models share one benchmark, its own test is the only one: `win_share` equals `macro_average`.

Where a value is known without its instances, benchmarks take the place of instances: `ModelPair.unit` says so.

P-values are adjusted twice, by Holm and by Benjamini and Hochberg: those of single benchmarks over all pairs and
benchmarks together, those of each overall difference over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.minimum_detectable_effect import BenchmarkEffects
from medhelm.analysis.comparison.multiple_testing import Adjustment, adjust_p_values
from medhelm.analysis.comparison.pair_numbers import PairedBenchmark, PairNumbers, PairSums, pair_numbers
from medhelm.analysis.comparison.paired import (
    ENDLESS,
    LEVEL,
    Ints,
    PairedDifference,
    PairedDifferences,
    PairedScores,
    pair_indices,
    sign_flip_p,
    t_quantiles,
)
from medhelm.analysis.comparison.sign_flip_test import sign_flip_tests
from medhelm.analysis.leaderboard.alignment import AlignedScores, align
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.win_rates import win_shares
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import constant_variance, row_means
from medhelm.analysis.statistics.threads import in_threads
from medhelm.domain import Rule, Tier
from medhelm.domain.display import Displayable
from medhelm.domain.remark import LeftOut, Remark
from medhelm.errors import UserError

MOST_MODELS = 2_000
"""Most models of which every two are compared: memory grows with the square of their number."""

NO_SPREAD = 1e-24
"""Sum of squared deviations below which differences are equal."""

Unit = Literal["instances", "benchmarks"]
"""Unit of an overall test: what gets a random sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedDifference:
    """A difference with its test, adjusted for all tests of its kind."""

    difference: PairedDifference
    """First minus second, on a scale where 1 is best."""
    p_holm: float
    """P-value adjusted by Holm."""
    p_bh: float
    """P-value adjusted by Benjamini and Hochberg."""

    def p_adjusted(self, way: Adjustment) -> float:
        """Return the p-value adjusted by one method."""
        return self.p_holm if way == "holm" else self.p_bh


@dataclass(frozen=True, eq=False)
class TestedDifferences:
    """The differences of all pairs of one kind, with adjusted p-values: arrays of shape (n_pairs,)."""

    differences: PairedDifferences
    """First minus second."""
    p_holm: Floats
    """P-values adjusted by Holm, nan for pairs that share nothing."""
    p_bh: Floats
    """P-values adjusted by Benjamini and Hochberg."""

    def __getitem__(self, pair: int) -> AdjustedDifference | None:
        """Return one difference; None if the two models share nothing."""
        found = self.differences[pair]
        if found is None:
            return None
        return AdjustedDifference(difference=found, p_holm=float(self.p_holm[pair]), p_bh=float(self.p_bh[pair]))

    def select(self, places: Ints, is_swapped: NDArray[np.bool_]) -> TestedDifferences:
        """Return the differences at `places`, with the sign changed where `is_swapped`."""
        return TestedDifferences(self.differences.select(places, is_swapped), self.p_holm[places], self.p_bh[places])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPair:
    """Two models on everything they share."""

    first: str
    """One model; on a leaderboard and in comparisons of all models, the one with the higher rank."""
    second: str
    """The other."""
    unit: Unit
    """Unit of the overall tests."""
    n_benchmarks: int
    """Number of benchmarks in the overall differences."""
    macro_average: AdjustedDifference | None
    """Difference of their macro averages over those benchmarks; None if there is none."""
    win_share: AdjustedDifference | None
    """Difference of their win shares over those benchmarks; None if there is none."""
    worst_case: float | None
    """Difference of win shares if all missing scores of the first were losses, and all of the second wins. None where
    scores of instances are not known."""
    best_case: float | None
    """The same the other way round."""
    survives_failures: bool
    """True if the difference of win shares is significant whatever the missing scores would have been."""
    benchmarks: Mapping[str, AdjustedDifference]
    """Benchmark -> difference on it, if instance scores of both are known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AllPairs:
    """Every pair of models."""

    models: tuple[str, ...]
    """Names, in the requested order."""
    columns: tuple[Column, ...]
    """The benchmarks, in the requested order."""
    by_instance: NDArray[np.bool_]
    """Shape (n_pairs,): True where instance scores are known on every benchmark that both have."""
    n_benchmarks: Ints
    """Shape (n_pairs,): benchmarks in the overall differences."""
    mde: Mapping[str, float | None]
    """Benchmark -> minimum detectable effect, mean over pairs, if instance scores are known."""
    macro_average: TestedDifferences
    """Differences of macro averages."""
    win_share: TestedDifferences
    """Differences of win shares."""
    benchmarks: Mapping[str, TestedDifferences]
    """Benchmark -> differences on it, if instance scores are known."""
    bounds: tuple[Floats, Floats]
    """Two arrays of shape (n_pairs,): the difference of win shares with missing scores all against and all for the
    first model (Manski 1990, Am. Econ. Rev. 80)."""
    survives_failures: NDArray[np.bool_]
    """Shape (n_pairs,): True where the difference of win shares is significant and, if scores are missing, its interval
    excludes 0 even if all missing scores of the better model were losses and all of the other were wins."""

    def reordered(self, order: Sequence[int]) -> AllPairs:
        """Return the same with the models in another order: no number changes but the signs of differences."""
        n = len(self.models)
        first, second = pair_indices(n)
        place_of = np.zeros((n, n), dtype=np.intp)
        place_of[first, second] = place_of[second, first] = np.arange(len(first))
        new = np.array(order, dtype=np.intp)
        places, is_swapped = place_of[new[first], new[second]], new[first] > new[second]
        below, above = (one[places] for one in self.bounds)
        return replace(
            self,
            models=tuple(self.models[i] for i in order),
            by_instance=self.by_instance[places],
            n_benchmarks=self.n_benchmarks[places],
            macro_average=self.macro_average.select(places, is_swapped),
            win_share=self.win_share.select(places, is_swapped),
            benchmarks={name: one.select(places, is_swapped) for name, one in self.benchmarks.items()},
            bounds=(np.where(is_swapped, -above, below), np.where(is_swapped, -below, above)),
            survives_failures=self.survives_failures[places],
        )

    def separated(self, *, adjusted: bool = True) -> frozenset[tuple[str, str]]:
        """Return the pairs that differ at the 5% level, models in their order; differences against it do not count.

        The order can be against the difference where models lack benchmarks, which count as losses in ranks.
        """
        found = self.is_separated if adjusted else self._is_different(self.win_share.differences.p_value)
        first, second = pair_indices(len(self.models))
        return frozenset((self.models[first[p]], self.models[second[p]]) for p in np.flatnonzero(found))

    @cached_property
    def is_separated(self) -> NDArray[np.bool_]:
        """Shape (n_pairs,): True where the first model is significantly better after Holm correction."""
        return self._is_different(self.win_share.p_holm)

    def _is_different(self, p_values: Floats) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            return np.asarray((p_values <= LEVEL) & (self.win_share.differences.value > 0))

    @cached_property
    def pairs(self) -> tuple[ModelPair, ...]:
        """Every pair once, in the order of the models."""
        return tuple(self[place] for place in range(len(self.by_instance)))

    def pairs_among(self, models: Sequence[str]) -> tuple[ModelPair, ...]:
        """Return every pair of some of the models, in the order of the models."""
        first, second = pair_indices(len(self.models))
        wanted = np.array([model in models for model in self.models], dtype=np.bool_)
        return tuple(self[place] for place in np.flatnonzero(wanted[first] & wanted[second]).tolist())

    def __getitem__(self, place: int) -> ModelPair:
        """Return one pair, by its place in the arrays."""
        first, second = pair_indices(len(self.models))
        tests = {column.benchmark: self.benchmarks.get(column.benchmark) for column in self.columns}
        return ModelPair(
            first=self.models[first[place]],
            second=self.models[second[place]],
            unit="instances" if self.by_instance[place] else "benchmarks",
            n_benchmarks=int(self.n_benchmarks[place]),
            macro_average=self.macro_average[place],
            win_share=self.win_share[place],
            worst_case=float(self.bounds[0][place]) if self.by_instance[place] else None,
            best_case=float(self.bounds[1][place]) if self.by_instance[place] else None,
            survives_failures=bool(self.survives_failures[place]),
            benchmarks={name: test for name, tested in tests.items() if tested and (test := tested[place])},
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparedPairs(Displayable):
    """Every pair of models, and the settings of the comparison."""

    VIEW: ClassVar[str] = "medhelm.reports.comparison:PAIRS_VIEW"

    all_pairs: AllPairs
    """The tests of all models of the leaderboard."""
    models: tuple[str, ...]
    """The models that are shown, in order of rank."""
    pairs: tuple[ModelPair, ...]
    """Every pair of them once, in their order. P-values are adjusted for all pairs of the leaderboard."""
    n_models: int
    """Models on the leaderboard, whose pairs the p-values are adjusted for."""
    n_baselines: int = 0
    """Baselines that pairs with a named baseline are tested with, in addition to the models."""
    effects: Mapping[str, BenchmarkEffects]
    """Benchmark -> its detectable effects, if instance scores are known."""
    suite: str = "all"
    """Name of the selection of benchmarks."""
    scoring: Rule = "corrected"
    """Scoring rule."""
    tier: Tier = "real"
    """Real data or sample rows."""
    adjustment: Adjustment = "holm"
    """Adjustment of the p-values that decides where this comparison is shown in Python."""
    left_out: tuple[LeftOut, ...] = ()
    """Models that do not count on a benchmark, because they were measured under other conditions."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison."""


@dataclass(frozen=True, slots=True, eq=False)
class AlignedBenchmark:
    """One benchmark in a comparison of all models."""

    column: Column
    """The benchmark, with its weight."""
    aligned: AlignedScores | None
    """Instance scores of all models; None if none are known, or if they are in `computed`."""
    computed: PairNumbers | None = None
    """Its numbers, if they were computed before."""
    load: Callable[[], AlignedScores] | None = None
    """Returns the scores where these numbers are not enough."""


def compare_all_pairs(
    cells: Iterable[Cell],
    columns: Sequence[Column],
    *,
    models: Sequence[str] | None = None,
    single_benchmarks: bool = True,
) -> AllPairs:
    """Test every pair of models. The order of cells and columns does not change a number.

    Parameters: cells, one per model and benchmark; those without a column are left out. A cell without `scores` counts
    with its value alone. models, the order in which to pair them; None: by name. single_benchmarks, as of
    `compare_aligned`.
    """
    shown = {column.benchmark: column for column in columns}
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.benchmark in shown and cell.value is not None:
            table.setdefault(cell.benchmark, {})[cell.model] = cell
    used = [shown[name] for name in sorted(table)]
    order = list(models) if models else sorted({model for row in table.values() for model in row})
    values = np.array([[_value(table[column.benchmark].get(model), column) for column in used] for model in order])
    values = values.reshape(len(order), len(used))
    benchmarks = [AlignedBenchmark(column, _aligned(table[column.benchmark], column, order)) for column in used]
    kept = tuple(c for c in columns if c.benchmark in table)
    return compare_aligned(order, benchmarks, values, kept=kept, single_benchmarks=single_benchmarks)


def compare_aligned(
    models: Sequence[str],
    benchmarks: Sequence[AlignedBenchmark],
    values: Floats,
    *,
    kept: tuple[Column, ...],
    macro_averages: bool = True,
    single_benchmarks: bool = True,
) -> AllPairs:
    """Test every pair of models on aligned scores.

    Parameters: benchmarks, sorted by id; values, shape (n_models, n_benchmarks), normalized, nan if missing; kept, the
    columns to name in the result; macro_averages and single_benchmarks, False to leave out the p-values of the former,
    and the tests of the latter. Raises: UserError for more than `MOST_MODELS`.
    """
    if len(models) > MOST_MODELS:
        raise UserError(f"{len(models):,} models are too many to compare each with each: at most {MOST_MODELS:,}.")
    n_pairs = len(models) * (len(models) - 1) // 2
    macro = _OverallDifferences(n_pairs, attrgetter("scores"), with_p_values=macro_averages)
    won = _OverallDifferences(n_pairs, attrgetter("shares"))
    single: dict[str, PairedDifferences] = {}
    mde: dict[str, float | None] = {}
    by_instance = np.ones(n_pairs, dtype=np.bool_)
    missing, missing_shares = _MissingScores(len(models)), _MissingScores(len(models))
    size = max((one.aligned.scores.size for one in benchmarks if one.aligned), default=0)
    compare = partial(_compare, with_p_values=macro_averages, single_benchmarks=single_benchmarks)
    for benchmark, means, found in zip(benchmarks, values.T, in_threads(compare, benchmarks, size=size), strict=True):
        weight, name = benchmark.column.weight, benchmark.column.benchmark
        by_instance &= _known_by_instance(means, found[0] if found else None)
        if found is None:
            continue
        numbers, differences, paired = found
        mde[name] = numbers.mde
        if differences is not None:
            single[name] = differences
        missing.add(numbers.lacking, numbers.mean, weight)
        missing_shares.add(numbers.lacking_shares, numbers.mean_share, weight)
        macro.add(numbers.scores, weight, paired)
        won.add(numbers.shares, weight, paired, numbers.scores)
    shifts = np.where(macro.n_benchmarks == 1, missing.shifts(), missing_shares.shifts())
    macro_differences, win_differences = macro.differences(), won.differences()
    macro.set_single_benchmarks(macro_differences)
    _replace(win_differences, macro_differences, macro.n_benchmarks == 1)
    if not by_instance.all():
        weights = np.array([one.column.weight for one in benchmarks])
        for differences, table in ((macro_differences, values), (win_differences, win_shares(values))):
            _replace(differences, _differences_over_benchmarks(table, weights), ~by_instance)
    return AllPairs(
        models=tuple(models),
        columns=kept,
        by_instance=by_instance,
        mde=mde,
        n_benchmarks=np.where(by_instance, macro.n_benchmarks, _shared_benchmarks(values)),
        macro_average=_adjusted([macro_differences])[0],
        win_share=(tested := _adjusted([win_differences])[0]),
        benchmarks=dict(zip(single, _adjusted(list(single.values())), strict=True)),
        bounds=(win_differences.value - shifts[0], win_differences.value + shifts[1]),
        survives_failures=_survives_failures(tested, shifts),
    )


def _compare(
    benchmark: AlignedBenchmark, *, with_p_values: bool, single_benchmarks: bool
) -> tuple[PairNumbers, PairedDifferences | None, PairedBenchmark] | None:
    """Return the numbers of one benchmark, its differences if needed, and its scores; None if these are not known."""
    if benchmark.computed is not None:
        assert benchmark.load is not None, "computed numbers come with their scores"
        return benchmark.computed, None, PairedBenchmark(benchmark.load)
    if benchmark.aligned is None:
        return None
    return pair_numbers(benchmark.aligned, with_p_values=with_p_values, single_benchmarks=single_benchmarks)


def _survives_failures(win_share: TestedDifferences, shifts: Floats) -> NDArray[np.bool_]:
    """Return which pairs differ whatever their missing scores would have been: shape (n_pairs,).

    If nothing is missing, the test decides: its p-value and the interval can disagree near the 5% level.
    """
    with np.errstate(invalid="ignore"):
        low, high = win_share.differences.low - shifts[0], win_share.differences.high + shifts[1]
        return np.where(shifts.any(axis=0), (low > 0) | (high < 0), win_share.p_holm <= LEVEL)


def _shared_benchmarks(values: Floats) -> Ints:
    """Return for each pair the number of benchmarks that both have. `values`: means, shape (n_models, n_benchmarks)."""
    present = (~np.isnan(values)).astype(float)
    counts: Ints = np.rint((present @ present.T)[pair_indices(len(values))]).astype(np.intp)
    return counts


def _known_by_instance(values: Floats, numbers: PairNumbers | None) -> NDArray[np.bool_]:
    """Return the pairs that lack no instance scores on a benchmark that both have. `values`: means of the models."""
    has = ~np.isnan(values)
    lacking = has if numbers is None else has & ~(numbers.lacking < 1)
    first, second = pair_indices(len(values))
    known: NDArray[np.bool_] = ~((has[first] & has[second]) & (lacking[first] | lacking[second]))
    return known


class _MissingScores:
    """Bounds of what missing scores could change in the difference of each pair, averaged over shared benchmarks.

    An interval that is moved by as much covers whatever the missing scores would have been (Imbens and Manski 2004).
    """

    def __init__(self, n_models: int) -> None:
        self._first, self._second = pair_indices(n_models)
        self._below, self._above, self._weight = np.zeros((3, len(self._first)))

    def add(self, missing: Floats, mean: Floats, weight: float) -> None:
        """Add a benchmark: the share of missing scores or win shares of each model, and the mean of the others."""
        down, up = missing * mean, missing * (1 - mean)
        here = weight * (np.maximum(missing[self._first], missing[self._second]) < 1)
        self._below += here * (down[self._first] + up[self._second])
        self._above += here * (up[self._first] + down[self._second])
        self._weight += here

    def shifts(self) -> Floats:
        """Return how far missing scores could lower, and raise, the difference of each pair: shape (2, n_pairs)."""
        return np.stack([self._below, self._above]) / np.where(self._weight > 0, self._weight, 1.0)


class _OverallDifferences:
    """Weighted mean of the differences of every pair over benchmarks, from sums of one benchmark at a time."""

    def __init__(
        self, n_pairs: int, select: Callable[[PairedBenchmark], PairedScores], *, with_p_values: bool = True
    ) -> None:
        """Start without any benchmark.

        Parameters: select, returns the scores or the win shares of a benchmark; with_p_values, False to leave out what
        only the p-values over several benchmarks need.
        """
        self._select, self._with_p_values = select, with_p_values
        self._weight, self._value, self._variance, self._below = np.zeros((4, n_pairs))
        self._squares, self._fourths = np.zeros((2, n_pairs))
        self._counts = np.zeros((3, n_pairs), dtype=np.intp)
        self._parts: list[tuple[NDArray[np.bool_], float, PairedBenchmark]] = []
        self.n_benchmarks: Ints = np.zeros(n_pairs, dtype=np.intp)
        """Benchmarks that the two models of each pair share."""

    def add(self, sums: PairSums, weight: float, paired: PairedBenchmark, raw: PairSums | None = None) -> None:
        """Add a benchmark.

        Parameters: paired, the scores behind the sums; raw, the sums of the scores behind win shares: on 0/1 scores the
        variance of win shares is a multiple of theirs.
        """
        here = sums.n > 0
        n = np.maximum(sums.n, 1)
        variance, df = sums.variance, sums.df
        if raw is not None and raw.is_binary:
            ratio = np.divide(sums.squares, raw.squares, out=np.full(len(n), 0.25), where=raw.squares > 0)
            variance, df = raw.variance * ratio, raw.df
        self._weight += weight * here
        self._value += np.where(here, weight * sums.total / n, 0.0)
        self._variance += here * weight**2 * variance
        self._below += here * weight**4 * variance**2 / df
        self._squares += here * weight**2 * sums.squares / n**2
        if self._with_p_values:
            self._fourths += here * weight**4 * sums.fourths / _fourth_power(n)
        self._counts += np.stack([sums.n, sums.n_instances - sums.n, sums.n_clusters]) * here
        self.n_benchmarks += here
        self._parts.append((here, weight, paired))

    def _shares(self, pairs: Ints) -> Floats:
        """Return the weighted contribution of each cluster of each benchmark to some differences."""
        parts = [weight * self._select(paired).shares(pairs) for _, weight, paired in self._parts]
        return np.concatenate(parts, axis=1)

    def differences(self) -> PairedDifferences:
        """Return the overall difference of every pair; pairs that share one benchmark have no p-value yet."""
        here = self._weight > 0
        weight = np.where(here, self._weight, 1.0)
        value = np.where(here, self._value / weight, np.nan)
        variance = self._variance / weight**2
        df = np.divide(self._variance**2, self._below, out=np.full(len(weight), ENDLESS), where=self._below > 0)
        half = t_quantiles(np.clip(df, 1.0, ENDLESS)) * np.sqrt(variance)
        low, high = np.maximum(value - half, -1.0), np.minimum(value + half, 1.0)
        several = np.flatnonzero((self.n_benchmarks > 1) & self._with_p_values)
        p_values = np.full(len(weight), np.nan)
        p_values[several] = sign_flip_p(
            self._value[several],
            self._squares[several],
            self._fourths[several],
            lambda some: self._shares(several[some]),
        )
        return PairedDifferences(
            value=value,
            low=low,
            high=high,
            n=self._counts[0],
            n_left_out=self._counts[1],
            standard_error=np.sqrt(variance),
            p_value=p_values,
            n_clusters=self._counts[2],
        )

    def set_single_benchmarks(self, differences: PairedDifferences) -> None:
        """Give pairs that share one benchmark the interval and the p-value that they have there."""
        alone = self.n_benchmarks == 1
        for here, _, paired in self._parts:
            pairs = np.flatnonzero(alone & here)
            if len(pairs):
                scores = self._select(paired)
                low, high = scores.limits()
                differences.low[pairs], differences.high[pairs] = low[pairs], high[pairs]
                differences.p_value[pairs] = scores.p_values_of(pairs)


def _fourth_power(counts: Ints) -> Floats:
    """Raise whole numbers to the fourth power."""
    squares = counts.astype(float) ** 2
    return np.asarray(squares * squares)


def _replace(differences: PairedDifferences, new: PairedDifferences, where: NDArray[np.bool_]) -> None:
    """Replace the differences at some places by those of another array."""
    for name in PairedDifferences.__slots__:
        getattr(differences, name)[where] = getattr(new, name)[where]


def _differences_over_benchmarks(table: Floats, weights: Floats) -> PairedDifferences:
    """Compare the weighted means of every two models over benchmarks, each benchmark an independent unit.

    `table`: shape (n_models, n_benchmarks), values or win rates, nan if missing.
    """
    first, second = pair_indices(len(table))
    found = table[first] - table[second]
    share = ~np.isnan(found) * weights
    n = (share > 0).sum(axis=1)
    total = np.where(n > 0, share.sum(axis=1), 1.0)
    found = np.nan_to_num(found)
    value = np.where(n > 0, (share * found).sum(axis=1) / total, np.nan)
    middle = np.nan_to_num(value)
    residual = (share**2 * (found - middle[:, None]) ** 2).sum(axis=1)
    variance = n / np.maximum(n - 1, 1) * residual / total**2
    equal = (n > 1) & (residual < NO_SPREAD)
    variance[equal] = constant_variance(n[equal], -1.0, 1.0)
    half = np.where(n > 1, t_quantiles(np.maximum(n - 1.0, 1.0)) * np.sqrt(variance), 2.0)
    return PairedDifferences(
        value=value,
        low=np.maximum(value - half, -1.0),
        high=np.minimum(value + half, 1.0),
        n=n,
        n_left_out=table.shape[1] - n,
        standard_error=np.sqrt(variance),
        p_value=np.where(n > 0, sign_flip_tests(share * found), np.nan),
        n_clusters=n,
    )


def separated_matrix(models: Sequence[str], benchmarks: Sequence[AlignedScores]) -> NDArray[np.bool_]:
    """Return which models are significantly different over benchmarks of equal weight, after Holm correction.

    Parameters: benchmarks, models in the same order. Returns: shape (n_models, n_models), symmetric.
    """
    values = np.stack([row_means(one.scores) for one in benchmarks], axis=1)
    columns = [
        Column(benchmark=str(i), title="", category="", subcategory="", metric="") for i in range(len(benchmarks))
    ]
    compared = [AlignedBenchmark(column, one) for column, one in zip(columns, benchmarks, strict=True)]
    pairs = compare_aligned(models, compared, values, kept=(), macro_averages=False, single_benchmarks=False)
    apart = np.zeros((len(models), len(models)), dtype=np.bool_)
    apart[pair_indices(len(models))] = pairs.win_share.p_holm <= LEVEL
    return apart | apart.T


def _adjusted(kinds: Sequence[PairedDifferences]) -> list[TestedDifferences]:
    """Adjust p-values over all pairs of all these differences together."""
    p_values = np.concatenate([kind.p_value for kind in kinds]) if kinds else np.empty(0)
    known = ~np.isnan(p_values)
    ways = []
    for way in ("holm", "bh"):
        adjusted = np.full(len(p_values), np.nan)
        adjusted[known] = adjust_p_values(p_values[known], way)
        ways.append(np.split(adjusted, len(kinds)) if kinds else [])
    return [TestedDifferences(kind, holm, bh) for kind, holm, bh in zip(kinds, *ways, strict=True)]


def _value(cell: Cell | None, column: Column) -> float:
    """Return the normalized value, nan if there is none."""
    return np.nan if cell is None or cell.value is None else column.normalize(cell.value)


def _aligned(row: Mapping[str, Cell], column: Column, models: Sequence[str]) -> AlignedScores | None:
    """Align the instance scores of a benchmark; None if none are known."""
    return align(row, column, models) if any(cell.scores is not None for cell in row.values()) else None
