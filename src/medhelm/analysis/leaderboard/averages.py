"""Averages over benchmarks, the numbers of each benchmark behind them, and win rates against a fixed panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired_differences import (
    ENDLESS,
    FEWEST_DF,
    PairedScores,
    PairNumbers,
    pair_numbers,
    t_quantiles,
)
from medhelm.analysis.comparison.pairs import MOST_MODELS, AlignedBenchmark
from medhelm.analysis.leaderboard.cells import AlignedScores, Cell, Column, align, has_any_value, win_shares
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import (
    Z95,
    Floats,
    cluster_totals,
    constant_variance,
    effective_size,
    in_threads,
    invert_hall,
    mean_over_benchmarks,
    row_means,
)
from medhelm.domain.result import Remark
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError, suggestion

# --- numbers of a benchmark -------------------------------------------------------------------------------------------
# Numbers computed from the instance scores of one benchmark.
#
# They depend on the scores of the models on the benchmark, and on nothing else: not on other benchmarks, weights or
# panels. Scores of large leaderboards are aligned again where single differences are needed: all of them together would
# take too much memory.

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


def _compute_numbers(load: Callable[[], AlignedScores], *, with_pairs: bool) -> BenchmarkNumbers:
    aligned = load()
    parts: list[Callable[[], Any]] = [partial(score_means, aligned), aligned.win_shares]
    scores, shares = in_threads(lambda compute: compute(), parts, size=aligned.scores.size)
    return BenchmarkNumbers(
        load=load,
        n_instances=aligned.scores.shape[1],
        n_clusters=aligned.k,
        same_instances=aligned.same_instances,
        scores=scores,
        shares=share_means(aligned, shares, scores.is_binary),
        mean_shares=row_means(shares),
        pairs=pair_numbers(aligned)[0] if with_pairs else None,
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
        own = [cells[model] for model in self._models if model in cells and cells[model].scores is not None]
        if not own:
            return None
        has_many = sum(len(cell.ids) for cell in own) >= SCORES_PER_PAIR * len(own) ** 2 // 2
        return _compute_numbers(
            self._loader(cells, column),
            with_pairs=with_pairs and has_many and len(self._models) <= MOST_MODELS,
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


# --- averages over benchmarks -----------------------------------------------------------------------------------------
# Intervals of a model's averages over benchmarks: its macro average and its win share.
#
# Both are weighted means of means over instances. Each interval is made from the sum of the benchmarks' variances with
# Student's t, degrees of freedom by Satterthwaite (1946, Biom. Bull. 2):
#
#     0/1 scores  a few invented instances, half of them right, represent outcomes that were not seen: 4 over the
#                 number of benchmarks of the model on each (Price and Bonett 2004, Comput. Stat. Data Anal. 45).
#                 Without them a model that gets everything right would have an interval of no width
#     ratios      limits at least as far away as those of the cell, see `ratios`
#     others      limits at least as far away as those of `means.estimate`, which corrects for skewness
#
# Where limits are farther away than the variance says, their squared distances add up (MOVER: Zou and Donner 2008,
# Stat. Med. 27).


class BenchmarkMeans(NamedTuple):
    """Means of all models on one benchmark, and what they contribute to intervals. Arrays of shape (n_models,)."""

    middle: Floats
    """Mean with the invented instances, nan for a model without a score."""
    variance: Floats
    """Variance of the mean."""
    df: Floats
    """Degrees of freedom of the variance."""
    extra_below: Floats | float = 0.0
    """Amount by which the square of the lower limit's distance, in quantiles of Student's t, exceeds the variance."""
    extra_above: Floats | float = 0.0
    """The same for the upper limit."""


class ScoreMeans(NamedTuple):
    """Means of the scores, or win shares, of all models on one benchmark alone. Arrays of shape (n_models,)."""

    mean: Floats
    """Mean, nan for a model without a score."""
    variance: Floats
    """Variance of the mean."""
    df: Floats
    """Degrees of freedom of the variance."""
    size: Floats
    """Effective number of win shares; that of scores if all are 0/1."""
    is_binary: NDArray[np.bool_]
    """True for models with no other scores than 0 and 1."""
    is_independent: NDArray[np.bool_]
    """True unless instances share clusters."""
    extra_below: Floats
    """See `BenchmarkMeans`."""
    extra_above: Floats
    """See `BenchmarkMeans`."""

    def without_invented(self) -> BenchmarkMeans:
        """Return the means without invented instances."""
        return BenchmarkMeans(self.mean, self.variance, self.df, self.extra_below, self.extra_above)


class Averages(NamedTuple):
    """Averages of all models: arrays of shape (n_models,), nan for a model without a value."""

    value: Floats
    """The average."""
    low: Floats
    """Lower end of the 95% interval."""
    high: Floats
    """Upper end of the 95% interval."""


def averages_for_instances(values: Floats, means: Sequence[BenchmarkMeans], weights: Floats) -> Averages:
    """Average over benchmarks, with intervals for other instances of the same benchmarks.

    Parameters: values, shape (n_models, n_benchmarks), nan if missing; means, one per benchmark.
    """
    present = ~np.isnan(values)
    share = present * weights
    total = share.sum(axis=1)
    share = np.divide(share, total[:, None], out=np.zeros_like(values), where=total[:, None] > 0)
    variances = np.array([mean.variance for mean in means]).T.reshape(values.shape)
    middles = np.array([mean.middle for mean in means]).T.reshape(values.shape)
    dfs = np.array([mean.df for mean in means]).T.reshape(values.shape)
    value = np.where(total > 0, (share * np.nan_to_num(values)).sum(axis=1), np.nan)
    parts = share**2 * np.nan_to_num(variances)
    variance = parts.sum(axis=1)
    fourths = (parts**2 / dfs).sum(axis=1)
    df = np.divide(variance**2, fourths, out=np.full(len(values), ENDLESS), where=fourths > 0)
    quantiles = t_quantiles(np.clip(df, 1.0, ENDLESS))
    middle = (share * np.nan_to_num(middles)).sum(axis=1)
    # The skewness of a sum falls with the root of the number of its terms.
    falling = np.sqrt(np.divide((parts**2).sum(axis=1), variance**2, out=np.ones(len(values)), where=variance > 0))
    below, above = (
        quantiles * np.sqrt(variance + falling * (share**2 * _table(extra, values)).sum(axis=1))
        for extra in ([mean.extra_below for mean in means], [mean.extra_above for mean in means])
    )
    return Averages(
        value,
        np.minimum(np.maximum(middle - below, 0.0), value),
        np.maximum(np.minimum(middle + above, 1.0), value),
    )


def _table(columns: Sequence[Floats | float], values: Floats) -> Floats:
    """Return a table like `values` from its columns, 0 for nan."""
    full = [np.broadcast_to(one, len(values)) for one in columns]
    return np.asarray(np.nan_to_num(np.array(full, dtype=float).T.reshape(values.shape)))


def score_means(aligned: AlignedScores) -> ScoreMeans:
    """Compute the means of the normalized scores on one benchmark."""
    is_binary = _binary_rows(aligned.scores)
    sizes = _effective_sizes(aligned) if is_binary.all() else np.zeros(len(is_binary))
    found = _ratio_means(aligned.scores, aligned, with_skewness=not is_binary.all())
    extra = [found.extra_below, found.extra_above]
    if aligned.ratio_limits is not None:
        for side, limits in enumerate(aligned.ratio_limits):
            of_cells = _extra(np.abs(limits - found.mean), found.variance, found.df)
            extra[side] = np.where(np.isnan(limits), extra[side], of_cells)
    return ScoreMeans(*found[:3], sizes, is_binary, _independence(aligned), *extra)


def share_means(aligned: AlignedScores, shares: Floats, is_binary: NDArray[np.bool_]) -> ScoreMeans:
    """Compute the means of the win shares on one benchmark.

    Parameters: shares, as `aligned.scores`, from `win_shares`, or from `panel_win_shares` for a panel;
    is_binary, of the means of the scores.
    """
    found = _ratio_means(shares, aligned, with_skewness=not is_binary.all())
    is_independent = _independence(aligned)
    size = (~np.isnan(shares)).sum(axis=1).astype(float)
    if not is_independent.all():
        size = _effective_share_sizes(shares - found.mean[:, None], size, found.variance, found.df)
    return ScoreMeans(*found[:3], size, is_binary, is_independent, *found[3:])


def _independence(aligned: AlignedScores) -> NDArray[np.bool_]:
    """Return for each model whether the instances are independent."""
    return np.full(len(aligned.scores), aligned.k == aligned.scores.shape[1])


def _effective_share_sizes(deviations: Floats, n: Floats, variance: Floats, df: Floats) -> Floats:
    """Return the effective number of clustered win shares: as `means.effective_size`, for any scores.

    Parameters: deviations, shape (n_models, n), from the mean of the model; the others, of the means.
    """
    if_independent = np.nansum(deviations**2, axis=1) / np.maximum(n * (n - 1), 1)
    size = np.divide(if_independent, variance, out=np.zeros(len(n)), where=variance > 0)
    size *= (t_quantiles(np.maximum(n - 1, 1.0)) / t_quantiles(df)) ** 2
    return np.asarray(np.clip(size, np.minimum(df + 1, n), n))


def macro_means(found: ScoreMeans, n_benchmarks: int | NDArray[np.intp]) -> BenchmarkMeans:
    """Return the contribution of one benchmark to macro averages.

    `n_benchmarks`: in the average of each model, shape (n_models,), or one number for all.
    """
    if not found.is_binary.all():
        return found.without_invented()
    p, n = np.nan_to_num(found.mean), np.maximum(found.size, 1.0)
    extra = 4 / np.maximum(n_benchmarks, 1)
    shrunk = (p * n + extra / 2) / (n + extra)
    return BenchmarkMeans(
        np.where(np.isnan(found.mean), np.nan, shrunk),
        shrunk * (1 - shrunk) / np.maximum(n - 1 + extra, 1.0),
        np.full(len(p), ENDLESS),
    )


def win_share_means(
    found: ScoreMeans, n_benchmarks: int | NDArray[np.intp], panel: NDArray[np.bool_] | None = None
) -> BenchmarkMeans:
    """Return the contribution of one benchmark to win shares over `n_benchmarks`, as of `macro_means`.

    `panel`: shape (n_models,), its members; None: the rivals are all other models.
    """
    middle, variance, df, size, is_binary, is_independent = found[:6]
    rivals = np.ones(len(middle), dtype=np.bool_) if panel is None else panel
    # With a panel, whether scores are 0/1 depends on the panel and the model alone, as the number itself does.
    is_binary = is_binary & is_binary[rivals].all()
    plain = found.without_invented()
    if not is_binary.any():
        return plain
    extra, n = 4 / np.maximum(n_benchmarks, 1), np.maximum(size, 1)
    n_rivals = int(rivals.sum())
    # Lead over one half of a right answer, where half of the rivals are right; one that is a rival itself has one less.
    reach = np.where(rivals, n_rivals / (4 * max(n_rivals - 1, 1)), 0.25)
    distance = (np.nan_to_num(middle) - 0.5) ** 2
    invented = extra * (reach**2 + distance * n / (n + extra)) / ((n + extra) * np.maximum(n - 1 + extra, 1.0))
    shrunk = np.where(np.isnan(middle), np.nan, (np.nan_to_num(middle) * n + extra / 2) / (n + extra))
    return BenchmarkMeans(
        np.where(is_binary, shrunk, middle),
        np.where(is_binary, variance * n / (n + extra) + invented, variance),
        np.where(is_binary & is_independent, ENDLESS, df),
        np.where(is_binary, 0.0, plain.extra_below),
        np.where(is_binary, 0.0, plain.extra_above),
    )


def means_without_scores(values: Floats) -> BenchmarkMeans:
    """Return the contribution of values without instance scores: their spread over instances is left out."""
    models = len(values)
    return BenchmarkMeans(values, np.zeros(models), np.full(models, ENDLESS))


def averages_for_benchmarks(table: Floats, weights: Floats) -> Averages:
    """Average over benchmarks, with intervals for other benchmarks of the same kind: each is an independent unit.

    Parameters: table, shape (n_models, n_benchmarks), nan if missing.
    """
    found = mean_over_benchmarks(table, weights, lowest=0.0)
    return Averages(found.value, found.low, found.high)


class _Means(NamedTuple):
    """Means of all models, each alone: arrays of shape (n_models,)."""

    mean: Floats
    variance: Floats
    df: Floats
    extra_below: Floats
    """See `BenchmarkMeans`."""
    extra_above: Floats
    """See `BenchmarkMeans`."""


def _ratio_means(scores: Floats, aligned: AlignedScores, *, with_skewness: bool) -> _Means:
    """Return the mean of each model with the variance of `means.UnitTotals`."""
    sums, counts = cluster_totals(scores, aligned.codes, aligned.k)
    is_independent = aligned.k == scores.shape[1]
    n, k = counts.sum(axis=0), (counts > 0).sum(axis=0)
    mean = np.divide(sums.sum(axis=0), n, out=np.full(len(scores), np.nan), where=n > 0)
    deviations = np.nan_to_num(mean) * counts
    np.subtract(sums, deviations, out=deviations)
    residual = np.einsum("km,km->m", deviations, deviations)
    equal = (k > 1) & (residual <= 1e-20 * np.maximum(n, 1))
    units, squares = n, residual / np.maximum(n, 1) ** 2
    if not is_independent:  # each cluster is compared with all others
        units = n**2 / np.maximum(np.square(counts).sum(axis=0), 1)
        deviations *= n * (1 - 1 / np.maximum(k, 1)) / np.maximum(n - counts, 1)
        squares = np.einsum("km,km->m", deviations, deviations) / np.maximum(n, 1) ** 2
    variance = np.where(k > 1, k / np.maximum(k - 1, 1) * squares, 1 / 12)  # any mean
    variance[equal] = constant_variance(units[equal], 0.0, 1.0)
    df = np.maximum(units - 1.0, 1.0 if is_independent else FEWEST_DF)
    if not with_skewness:
        return _Means(mean, variance, df, np.zeros(len(n)), np.zeros(len(n)))
    cubes = np.einsum("km,km->m", np.square(deviations), deviations) / np.maximum(n, 1) ** 3
    skewness = np.divide(cubes, squares**1.5, out=np.zeros(len(n)), where=(squares > 0) & (k > 2) & ~equal)
    skewness *= np.sqrt(k * np.maximum(k - 1.0, 0.0)) / np.maximum(k - 2, 1)
    return _Means(mean, variance, df, *_extra_of_skewness(np.nan_to_num(mean), variance, skewness, df))


def _extra_of_skewness(mean: Floats, variance: Floats, skewness: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Return what skewness adds to the squared distances of both limits; see `BenchmarkMeans` and `means.estimate`.

    No limit is farther away than Wilson's for as many scores of 0 and 1 as there are units.
    """
    p, n, quantiles = np.clip(mean, 0.0, 1.0), df + 1, t_quantiles(np.maximum(df, 1.0))
    half = Z95 * np.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    found = []
    for sign in (1, -1):
        hall = sign * np.sqrt(variance) * invert_hall(sign * quantiles, skewness)
        wilson = (half - sign * Z95**2 / n * (0.5 - p)) / (1 + Z95**2 / n)
        found.append(_extra(np.minimum(hall, wilson), variance, df))
    return found[0], found[1]


def _extra(distance: Floats, variance: Floats, df: Floats) -> Floats:
    """Return how far the square of a limit's distance, in quantiles of Student's t, exceeds the variance."""
    quantiles = t_quantiles(np.maximum(df, 1.0))  # as in `averages_for_instances`
    return np.maximum(np.nan_to_num(np.square(distance / quantiles) - variance), 0.0)


def _binary_rows(scores: Floats) -> NDArray[np.bool_]:
    """Return which models have no other scores than 0 and 1: shape (n_models,)."""
    return np.asarray((np.isnan(scores) | (scores == 0.0) | (scores == 1.0)).all(axis=1))


def _effective_sizes(aligned: AlignedScores) -> Floats:
    """Return the effective number of instances of each model."""
    known = ~np.isnan(aligned.scores)
    if aligned.k == aligned.scores.shape[1]:
        sizes: Floats = known.sum(axis=1).astype(float)
        return sizes
    rows = zip(aligned.scores, known, strict=True)
    return np.array([effective_size(row[here], aligned.codes[here]) if here.any() else 0.0 for row, here in rows])


# --- fixed panel of models --------------------------------------------------------------------------------------------
# Win shares and win rates against a fixed panel of models, so that they stay when other models come or go.
#
#     shown number    as on any leaderboard, with the panel in place of the other models; a member leaves itself out
#     rank            by macro average, which depends on no rival; by win rate where that ranks, against the whole
#                     panel, where a member's own value is a tie: only then do all models meet the same rivals
#
# Benchmarks that no member has do not count in win shares and win rates. Which two models differ is decided by the
# tests among the models on the leaderboard, as without a panel, so that no choice of a panel makes a finding.

NAMES = 5
"""Most names written out in one sentence."""

Members = NDArray[np.bool_]
"""Shape (n_models,): True for the models of the panel."""


def find_members(panel: Sequence[str], models: Sequence[str], baselines: Sequence[Cell]) -> Members:
    """Return which models are in the panel.

    Parameters: panel, names; models, those that compete on the leaderboard; baselines, results of those that do not.
    Raises: UserError with all names that are not on the leaderboard.
    """
    not_ranked = {cell.model for cell in baselines}
    wrong = []
    for name in panel:
        if name in models:
            continue
        why = f"`{name}` is not on the leaderboard. {suggestion(name, models)}".rstrip()
        if name in not_ranked:
            why = f"`{name}` is a baseline, which does not compete. Add --rank-baselines to use it."
        wrong.append(f"--panel: {why}")
    if wrong:
        raise UserError("\n".join(wrong))
    return np.array([name in panel for name in models], dtype=np.bool_)


def panel_win_shares(scores: Floats, members: Members, shares: Floats | None = None) -> Floats:
    """Share of the panel that each model beats, instance by instance; a tie counts one half.

    A member leaves itself out.

    Parameters: scores, shape (n_models, n), nan if missing; means of benchmarks in place of instances give win rates;
    shares, the same with a member's own score as a tie; None: `win_shares`.
    Returns: shape (n_models, n); nan where a model has no score, or no other member has one.
    """
    shares = win_shares(scores, members) if shares is None else shares
    met = (members[:, None] & ~np.isnan(scores)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        without_self = np.where(met > 1, (shares * met - 0.5) / np.maximum(met - 1, 1), np.nan)
    return np.where(members[:, None], without_self, shares)


def guarded_panel_shares(shares: Floats, values: Floats, members: Members) -> Floats:
    """Share of the whole panel that each model beats on each benchmark, a missing benchmark being a loss.

    Parameters: shares, shape (n_models, n_benchmarks), against the members that have a value, a member's own being a
    tie; values, alike, nan if missing.
    Returns: the same shape, nan throughout for benchmarks that no member has.
    """
    present = ~np.isnan(values)
    size = int(members.sum())
    met = present[members].sum(axis=0)
    won = np.nan_to_num(shares, nan=0.5) * met + (size - met)
    guarded = np.where(present, won, (size - met) / 2) / size
    return np.where(has_any_value(values[members]), guarded, np.nan)


def overtaken(board: Leaderboard) -> list[tuple[str, str]]:
    """Return pairs of models of which the first is significantly better, but ranks below the second.

    That is possible with win rates: the panel can value a lead more than the models on the leaderboard do.
    """
    if board.panel is None:
        return []
    rank = {row.model: row.rank or 0 for row in board.rows}
    return sorted(pair for pair in board.separated if rank[pair[0]] > rank[pair[1]])


def panel_remarks(board: Leaderboard) -> Iterator[Remark]:
    """Yield what the panel is, and what it leaves open; nothing without a panel."""
    if board.panel is None:
        return
    what = "Win rates" if all(row.win_share is None for row in board.rows) else "Win shares and win rates"
    size = plural(len(board.panel), "model")
    text = f"{what} are against a panel of {size}: {listed(board.panel)}. Other models do not change them."
    if len(board.panel) > 1:
        text += " A panel model leaves itself out."
    if board.ranked_by == "win rate":
        text += " Ranks go by win rate against the whole panel, where a panel model ties with itself."
    if board.pairs is not None:
        text += " Tests are those without a panel."
    yield Remark("panel", "", text)
    rows = {row.model: row for row in board.rows}
    having = {model: {name for name, cell in rows[model].cells.items() if cell.value is not None} for model in rows}
    of_any = set().union(*(having[model] for model in board.panel))
    outside = [column.title or column.benchmark for column in board.columns if column.benchmark not in of_any]
    if outside:
        verb = "is" if len(outside) == 1 else "are"
        text = f"No panel model has a value on {listed(outside, NAMES)}, which {verb} left out of {what.lower()}."
        yield Remark("panel_lacks_benchmarks", "", text)
    for model in board.panel:
        if lacking := sorted(of_any - having[model]):
            text = f"{model} has no value on {listed(lacking, NAMES)}: there models meet the others of the panel only."
            yield Remark("panel_model_lacks_benchmarks", model, text)
    for better, worse in overtaken(board)[:NAMES]:
        text = (
            f"{better} is significantly better than {worse}, but ranks lower by {board.ranked_by} against the panel: "
            "their order depends on the rivals. The test decides."
        )
        yield Remark("panel_against_test", better, text)
