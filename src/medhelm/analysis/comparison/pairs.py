"""Tests of every two models on each benchmark they share and over all of them, and of two models in detail.

This is the one place where models are tested.

Over several benchmarks two differences are tested, each a weighted mean of the differences on single benchmarks:

    macro average   the mean scores, normalized to 0..1
    win share       the share of rivals that a model's answer beats, instance by instance; a tie counts one half

Both are means over instances and are treated alike: the interval comes from the sum of the benchmarks' variances, with
Student's t and degrees of freedom by Satterthwaite (1946, Biom. Bull. 2); the p-value from the sign-flip test of all
clusters of all benchmarks together. On 0/1 scores the two differ by a factor only, and no third model matters. On a
single benchmark of 0/1 scores `win_share` equals `macro_average`. Models that lack benchmarks are compared by adjusted
means (`adjusted_means`).

Where a value is known without its instances, benchmarks take the place of instances: `ModelPair.unit` says so.

P-values are adjusted twice, by Holm and by Benjamini and Hochberg: those of single benchmarks over all pairs and
benchmarks together, those of each overall difference over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.adjusted_means import (
    Design,
    MissingScores,
    OverallDifferences,
    differences_over_benchmarks,
    replace_differences,
)
from medhelm.analysis.comparison.paired_differences import (
    Ints,
    PairedBenchmark,
    PairedDifference,
    PairedDifferences,
    PairNumbers,
    pair_indices,
    pair_numbers,
)
from medhelm.analysis.comparison.power import BenchmarkEffects
from medhelm.analysis.comparison.significance import LEVEL, Adjustment, adjust_p_values
from medhelm.analysis.leaderboard.cells import AlignedScores, Cell, Column, align, by_benchmark, win_shares
from medhelm.analysis.means import Floats, in_threads, row_means
from medhelm.domain import Rule, Tier
from medhelm.domain.result import Displayable, LeftOut, Remark
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.agreement.clinician_means import CalibratedPair, ClinicianMean
    from medhelm.analysis.criteria import CriterionDifference

# --- every pair -------------------------------------------------------------------------------------------------------

MOST_MODELS = 2_000
"""Most models of which every two are compared: memory grows with the square of their number."""

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

    def p_adjusted(self, way: Adjustment) -> float | None:
        """Return the adjusted p-value of the finding, which needs win shares and means; None if nothing is shared."""
        tests = [test.p_adjusted(way) for test in (self.macro_average, self.win_share) if test is not None]
        return max(tests, default=None)

    def direction(self, way: Adjustment) -> int:
        """Return 1 if the first model is significantly better, -1 if the second is, else 0.

        Win shares and means must differ in one direction, whatever the missing scores would have been.
        """
        p = self.p_adjusted(way)
        if p is None or p > LEVEL or self._is_fragile or self.macro_average is None or self.win_share is None:
            return 0
        means, shares = self.macro_average.difference.value, self.win_share.difference.value
        return 0 if means * shares < 0 else 1 if means + shares > 0 else -1

    def is_lost_with_missing(self, way: Adjustment) -> bool:
        """Return whether the difference is significant only if missing scores are ignored."""
        p = self.p_adjusted(way)
        return p is not None and p <= LEVEL and self._is_fragile

    @property
    def _is_fragile(self) -> bool:
        """Return whether missing scores could undo the difference."""
        return self.worst_case != self.best_case and not self.survives_failures


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

    def separated(self) -> frozenset[tuple[str, str]]:
        """Return the pairs that differ significantly, the better model first."""
        return frozenset(self.pairs_of(self.is_separated))

    def nominally_different(self) -> frozenset[tuple[str, str]]:
        """Return the pairs whose difference of win shares has an unadjusted p-value of at most 5%, the better first."""
        first, second = pair_indices(len(self.models))
        tested = self.win_share.differences
        with np.errstate(invalid="ignore"):
            found = np.flatnonzero(tested.p_value <= LEVEL).tolist()
        sides = [(first[p], second[p]) if tested.value[p] > 0 else (second[p], first[p]) for p in found]
        return frozenset((self.models[better], self.models[worse]) for better, worse in sides)

    @cached_property
    def findings(self) -> NDArray[np.int8]:
        """Shape (n_pairs,): 1 where the first model is significantly better, -1 where the second is, else 0.

        A difference counts if win shares and means both differ in one direction, with an adjusted p-value of at most
        5%, whatever the missing scores would have been.
        """
        with np.errstate(invalid="ignore"):
            found = (self.win_share.p_holm <= LEVEL) & self.survives_failures
        return np.where(found, np.sign(self.macro_average.differences.value), 0.0).astype(np.int8)

    @property
    def is_tested(self) -> NDArray[np.bool_]:
        """Shape (n_pairs,): True for pairs that share a benchmark."""
        return np.asarray(~np.isnan(self.win_share.p_holm))

    @cached_property
    def are_fragile(self) -> NDArray[np.bool_]:
        """Shape (n_pairs,): True where a difference is significant only if missing scores are ignored."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.win_share.p_holm <= LEVEL) & ~self.survives_failures)

    @cached_property
    def are_opposed(self) -> NDArray[np.bool_]:
        """Shape (n_pairs,): True where one model is significantly better on more questions, but worse on average."""
        won, macro = self.win_share.differences, self.macro_average.differences
        with np.errstate(invalid="ignore"):
            return np.asarray((won.value * macro.value < 0) & (won.p_value * max(len(won.value), 1) <= LEVEL))

    def pairs_of(self, places: NDArray[np.bool_]) -> Iterator[tuple[str, str]]:
        """Yield the two models of each of some pairs, the one with the higher mean first."""
        first, second = pair_indices(len(self.models))
        for place in np.flatnonzero(places).tolist():
            names = self.models[first[place]], self.models[second[place]]
            yield names if self.macro_average.differences.value[place] >= 0 else names[::-1]

    @cached_property
    def is_separated(self) -> NDArray[np.bool_]:
        """Shape (n_pairs,): True where the two models differ significantly."""
        return np.asarray(self.findings != 0)

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

    VIEW: ClassVar[str] = "medhelm.results.comparison:PAIRS_VIEW"

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
    table = by_benchmark(cell for cell in cells if cell.benchmark in shown and cell.value is not None)
    used = [shown[name] for name in sorted(table)]
    order = list(models) if models else sorted({model for row in table.values() for model in row})
    values = np.array([[_value(table[column.benchmark].get(model), column) for column in used] for model in order])
    values = values.reshape(len(order), len(used))
    benchmarks = [AlignedBenchmark(column, _aligned(table[column.benchmark], column, order)) for column in used]
    kept = tuple(c for c in columns if c.benchmark in table)
    return compare_aligned(order, benchmarks, values, kept=kept, single_benchmarks=single_benchmarks)


def check_number(models: Sequence[str]) -> None:
    """Raise UserError for more than `MOST_MODELS`."""
    if len(models) > MOST_MODELS:
        raise UserError(
            f"{len(models):,} models are too many to compare each with each: at most {MOST_MODELS:,}. "
            "Select models with --model, or leave some out with --exclude."
        )


def compare_aligned(
    models: Sequence[str],
    benchmarks: Sequence[AlignedBenchmark],
    values: Floats,
    *,
    kept: tuple[Column, ...],
    single_benchmarks: bool = True,
) -> AllPairs:
    """Test every pair of models on aligned scores.

    Parameters: benchmarks, sorted by id; values, shape (n_models, n_benchmarks), normalized, nan if missing; kept, the
    columns to name in the result; single_benchmarks, False to leave out the tests on each benchmark. Raises: UserError
    for more than `MOST_MODELS`.
    """
    check_number(models)
    n_pairs = len(models) * (len(models) - 1) // 2
    weights = np.array([one.column.weight for one in benchmarks], dtype=float)
    design = Design(~np.isnan(values), weights)
    macro, won = OverallDifferences(design, attrgetter("scores")), OverallDifferences(design, attrgetter("shares"))
    missing, missing_shares = MissingScores(design), MissingScores(design)
    single: dict[str, PairedDifferences] = {}
    mde: dict[str, float | None] = {}
    shares = np.full(values.shape, np.nan)
    by_instance, are_proportional = np.ones(n_pairs, dtype=np.bool_), True
    size = max((one.aligned.scores.size for one in benchmarks if one.aligned), default=0)
    compare = partial(_compare, single_benchmarks=single_benchmarks)
    compared = in_threads(compare, benchmarks, size=size)
    for j, (benchmark, found) in enumerate(zip(benchmarks, compared, strict=True)):
        name = benchmark.column.benchmark
        by_instance &= _known_by_instance(values[:, j], found[0] if found else None)
        if found is None:
            continue
        numbers, differences, paired = found
        mde[name] = numbers.mde
        if differences is not None:
            single[name] = differences
        shares[:, j] = np.where(numbers.lacking_shares < 1, numbers.mean_share, np.nan)
        missing.add(j, numbers.lacking, numbers.mean)
        missing_shares.add(j, numbers.lacking_shares, numbers.mean_share)
        macro.add(j, numbers.scores, paired)
        won.add(j, numbers.shares, paired, numbers.scores)
        are_proportional &= numbers.scores.is_binary and not numbers.lacking.any()
    macro_differences = macro.differences(values)
    won_differences = won.differences(shares, macro_differences, are_proportional=are_proportional)
    if not by_instance.all():
        for differences, table in ((macro_differences, values), (won_differences, win_shares(values))):
            replace_differences(differences, differences_over_benchmarks(table, design), ~by_instance)
    tested = _adjusted_together(macro_differences, won_differences, by_instance)
    raw_shifts = missing.shifts(macro_differences.value)
    shifts = np.where(won.are_scores, raw_shifts, missing_shares.shifts(won_differences.value))
    survives = _survives_failures(tested[0], raw_shifts) & _survives_failures(tested[1], shifts)
    return AllPairs(
        models=tuple(models),
        columns=kept,
        by_instance=by_instance,
        mde=mde,
        n_benchmarks=np.where(by_instance, macro.n_benchmarks, _shared_benchmarks(values)),
        macro_average=tested[0],
        win_share=tested[1],
        benchmarks=dict(zip(single, _adjusted(list(single.values())), strict=True)),
        bounds=(won_differences.value - shifts[0], won_differences.value + shifts[1]),
        survives_failures=survives,
    )


def _compare(
    benchmark: AlignedBenchmark, *, single_benchmarks: bool
) -> tuple[PairNumbers, PairedDifferences | None, PairedBenchmark] | None:
    """Return the numbers of one benchmark, its differences if needed, and its scores; None if these are not known."""
    if benchmark.computed is not None:
        assert benchmark.load is not None, "computed numbers come with their scores"
        return benchmark.computed, None, PairedBenchmark(benchmark.load)
    if benchmark.aligned is None:
        return None
    return pair_numbers(benchmark.aligned, single_benchmarks=single_benchmarks)


def _survives_failures(tested: TestedDifferences, shifts: Floats) -> NDArray[np.bool_]:
    """Return which pairs differ whatever their missing scores would have been: shape (n_pairs,).

    If nothing is missing, the test decides: its p-value and the interval can disagree near the 5% level.
    """
    with np.errstate(invalid="ignore"):
        low, high = tested.differences.low - shifts[0], tested.differences.high + shifts[1]
        return np.where(shifts.any(axis=0), (low > 0) | (high < 0), tested.p_holm <= LEVEL)


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


def separated_matrix(models: Sequence[str], benchmarks: Sequence[AlignedScores]) -> NDArray[np.bool_]:
    """Return which models are significantly different over benchmarks of equal weight, after Holm correction.

    Parameters: benchmarks, models in the same order. Returns: shape (n_models, n_models), symmetric.
    """
    values = np.stack([row_means(one.scores) for one in benchmarks], axis=1)
    columns = [
        Column(benchmark=str(i), title="", category="", subcategory="", metric="") for i in range(len(benchmarks))
    ]
    compared = [AlignedBenchmark(column, one) for column, one in zip(columns, benchmarks, strict=True)]
    pairs = compare_aligned(models, compared, values, kept=(), single_benchmarks=False)
    apart = np.zeros((len(models), len(models)), dtype=np.bool_)
    apart[pair_indices(len(models))] = pairs.is_separated
    return apart | apart.T


def _adjusted(kinds: Sequence[PairedDifferences]) -> list[TestedDifferences]:
    """Adjust p-values over all pairs of all these differences together."""
    if not kinds:
        return []
    ways = _adjusted_both_ways(np.concatenate([kind.p_value for kind in kinds]))
    parts = [np.split(adjusted, len(kinds)) for adjusted in ways]
    return [TestedDifferences(kind, holm, bh) for kind, holm, bh in zip(kinds, *parts, strict=True)]


def _adjusted_together(
    macro: PairedDifferences, won: PairedDifferences, by_instance: NDArray[np.bool_]
) -> tuple[TestedDifferences, TestedDifferences]:
    """Adjust the p-values of findings over all pairs.

    A finding needs both differences in one direction: its p-value is the larger one of the two (the intersection-union
    test: Berger 1982, Technometrics 24), or 1 if the directions differ. Where instance scores are not known, the win
    rate is tested, and the macro average has to agree in its direction.
    """
    with np.errstate(invalid="ignore"):
        is_opposite = macro.value * won.value < 0
    p_values = np.where(by_instance, np.maximum(macro.p_value, won.p_value), won.p_value)
    p_values[is_opposite & ~np.isnan(p_values)] = 1.0
    holm, bh = _adjusted_both_ways(p_values)
    return TestedDifferences(macro, holm, bh), TestedDifferences(won, holm, bh)


def _adjusted_both_ways(p_values: Floats) -> tuple[Floats, Floats]:
    """Adjust p-values by Holm, and by Benjamini and Hochberg; nan stays nan and does not count."""
    known = ~np.isnan(p_values)
    holm, bh = np.full((2, len(p_values)), np.nan)
    holm[known], bh[known] = adjust_p_values(p_values[known], "holm"), adjust_p_values(p_values[known], "bh")
    return holm, bh


def _value(cell: Cell | None, column: Column) -> float:
    """Return the normalized value, nan if there is none."""
    return np.nan if cell is None or cell.value is None else column.normalize(cell.value)


def _aligned(row: Mapping[str, Cell], column: Column, models: Sequence[str]) -> AlignedScores | None:
    """Align the instance scores of a benchmark; None if none are known."""
    return align(row, column, models) if any(cell.scores is not None for cell in row.values()) else None


# --- two models -------------------------------------------------------------------------------------------------------
# Paired differences on shared instances, benchmark by benchmark and overall.


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceWithFloors:
    """Two models on a benchmark with floors, by their scores with floors."""

    difference: PairedDifference
    """First minus second, on a scale from 0 (worst) to 1 (best)."""
    p_adjusted: float
    """P-value adjusted for all pairs of models on the leaderboard and all benchmarks."""
    below: tuple[tuple[int, int], tuple[int, int]]
    """For each model its completions below a floor, and those for which that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBenchmark:
    """Two models on one benchmark; differences on a scale from 0 (worst) to 1 (best)."""

    column: Column
    """The benchmark and its metric."""
    difference: PairedDifference
    """First minus second."""
    p_adjusted: float
    """P-value adjusted for all pairs of models on the leaderboard and all benchmarks."""
    p_adjusted_alone: float
    """P-value adjusted for the benchmarks of these two models only: for two that were named before any result."""
    clinicians: tuple[ClinicianMean | None, ClinicianMean | None] = (None, None)
    """Mean ratings of both by clinicians, on the scale of their instrument; None for an unrated model."""
    calibrated: CalibratedPair | None = None
    """Their difference with the clinicians' ratings, on the scale from 0 to 1; None without ratings."""
    with_floors: DifferenceWithFloors | None = None
    """Their difference where each completion below a floor counts as the worst answer; None without floors."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Displayable):
    """Two models on all benchmarks they share."""

    VIEW: ClassVar[str] = "medhelm.results.comparison:VIEW"

    first: str
    """Name of one model."""
    second: str
    """Name of the other."""
    benchmarks: tuple[ComparedBenchmark, ...]
    """One for each benchmark with shared instances, in the order of the columns."""
    n_benchmarks: int
    """Number of benchmarks in the overall difference."""
    macro_average: AdjustedDifference
    """Difference of their macro averages over those benchmarks."""
    win_share: AdjustedDifference
    """Difference of their win shares over those benchmarks: the test that decides on the leaderboard."""
    n_models: int
    """Models on the leaderboard, whose pairs the overall p-values are adjusted for."""
    unit: Unit
    """Unit of the overall tests: instances within benchmarks, or benchmarks."""
    pair: ModelPair
    """The two among all pairs of the leaderboard, which these overall numbers come from."""
    adjustment: Adjustment
    """Adjustment of the p-values of benchmarks."""
    calibrated: CalibratedPair | None = None
    """Difference over all benchmarks with the clinicians' ratings, on the scale from 0 to 1; None without ratings."""
    criteria: tuple[CriterionDifference, ...] = ()
    """Differences by criterion of the rubric; empty without judges, and where they were not read."""
    pair_with_floors: ModelPair | None = None
    """The two by their scores with floors; None without floors."""
    doubts: tuple[str, ...] = ()
    """Sentences on benchmarks on which the jury is not shown to agree with clinicians."""
    agreement: tuple[str, ...] = ()
    """A sentence on benchmarks on which it agrees with them."""
    left_out: tuple[LeftOut, ...] = ()
    """Benchmarks on which one of the two does not count, because it was measured under other conditions."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison."""


def compare_two_models(
    cells: Iterable[Cell], columns: Sequence[Column], first: str, second: str, *, adjustment: Adjustment = "holm"
) -> Comparison | None:
    """Compare two models on the benchmarks that have scores of both.

    Parameters: cells, of all models of the leaderboard: win shares and adjusted p-values depend on them, so that the
    verdict is the one that the leaderboard shows, and the numbers are those of a comparison of all models.
    Returns: None if the two share nothing.
    """
    tested = _test_all(tuple(cells), tuple(columns))
    if not {first, second} <= set(tested.models):
        return None
    rest = [model for model in tested.models if model not in (first, second)]
    pair = tested.reordered([tested.models.index(model) for model in (first, second, *rest)])[0]
    if pair.macro_average is None or pair.win_share is None:
        return None
    shared = [column for column in columns if column.benchmark in pair.benchmarks]
    alone = adjust_p_values([pair.benchmarks[one.benchmark].difference.p_value for one in shared], adjustment)
    return Comparison(
        first=first,
        second=second,
        benchmarks=tuple(
            ComparedBenchmark(
                column=column,
                difference=pair.benchmarks[column.benchmark].difference,
                p_adjusted=pair.benchmarks[column.benchmark].p_adjusted(adjustment),
                p_adjusted_alone=float(p),
            )
            for column, p in zip(shared, alone, strict=True)
        ),
        n_benchmarks=pair.n_benchmarks,
        macro_average=pair.macro_average,
        win_share=pair.win_share,
        n_models=len(tested.models),
        unit=pair.unit,
        pair=pair,
        adjustment=adjustment,
    )


@lru_cache(maxsize=2)
def _test_all(cells: tuple[Cell, ...], columns: tuple[Column, ...]) -> AllPairs:
    """Test every pair of models; kept for the next pair of the same models, as a site shows one pair after another."""
    return compare_all_pairs(cells, columns)
