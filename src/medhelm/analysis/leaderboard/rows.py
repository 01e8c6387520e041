"""Rows of a leaderboard: averages, intervals, order, head to head, and cost against performance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.adjusted_means import Design, selection_gain
from medhelm.analysis.comparison.paired_differences import Ints, pair_indices, t_quantiles
from medhelm.analysis.comparison.pairs import AlignedBenchmark, AllPairs, Unit, check_number, compare_aligned
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.cost import sum_costs
from medhelm.analysis.frontier import (
    CostFrontier,
    CostPoint,
    FrontierModel,
    FrontierStep,
    draw_averages,
    efficient_frontier,
    frontier_probabilities,
    joint_means,
    joint_means_over_benchmarks,
)
from medhelm.analysis.leaderboard.averages import (
    Averages,
    BenchmarkMeans,
    BenchmarkNumbers,
    averages_for_benchmarks,
    averages_for_instances,
    guarded_panel_shares,
    macro_means,
    means_without_scores,
    panel_win_shares,
    share_means,
    win_share_means,
)
from medhelm.analysis.leaderboard.cells import (
    DECIMALS,
    AlignedScores,
    Cell,
    Column,
    align,
    competition_ranks,
    guarded_win_shares,
    has_any_value,
    tie_groups,
    tie_letters,
    weighted_sd,
    win_rate_sd,
    win_shares,
)
from medhelm.analysis.leaderboard.types import Average, GroupMean, IntervalUnit, Leaderboard, RankedBy, Row
from medhelm.analysis.means import Floats, cluster_codes, estimate, in_threads, row_means
from medhelm.analysis.planned_cost import CompletionUse, pooled_use
from medhelm.domain import Estimate, Rule
from medhelm.domain.result import Remark

Table = Mapping[str, Mapping[str, Cell]]
"""Benchmark -> model -> cell."""


WHOLE_GRADE = 0.5
"""Distance from the worst grade below which a mean of grades rounds to it."""

MOST_LACKING = 30
"""Most models with missing scores for which bounds of ranks are computed: each takes two leaderboards."""


@dataclass(frozen=True, slots=True, eq=False)
class LeaderboardMeasures:
    """Values and averages without intervals. Arrays have one row per model and one column per benchmark."""

    models: tuple[str, ...]
    """Names, sorted."""
    columns: tuple[Column, ...]
    """Benchmarks, sorted by id, so that no number depends on the order in which they are shown."""
    values: Floats
    """Normalized to 0..1, nan if missing."""
    weights: Floats
    """Shape (n_benchmarks,): the weights of the columns, divided by their mean."""
    win_rates: Floats
    """Shape (n_models,), nan for a model without a benchmark in common with another."""
    guarded: Floats
    """Guarded win rates, alike; nan throughout where there is one model, or no value."""
    macros: Floats
    """Macro averages, alike; nan for a model without any value."""
    shares: Floats
    """Win shares on each benchmark, as `values`; nan throughout where instance scores are not known."""
    rank_shares: Floats
    """The same with a panel, where a member's own answer counts as one more tie."""
    won: Floats
    """Win rates on each benchmark, as `values`."""
    rank_won: Floats
    """The same with a panel, where a member's own value counts as one more tie."""
    panel: NDArray[np.bool_] | None = None
    """Shape (n_models,): the models that win shares and win rates are against; None: all others."""
    macro_means: Sequence[BenchmarkMeans] = ()
    """One per benchmark, for the intervals of macro averages; empty where instance scores are not known."""
    share_means: Sequence[BenchmarkMeans] = ()
    """The same for win shares."""


def measure(
    models: Sequence[str], columns: Sequence[Column], table: Table, panel: NDArray[np.bool_] | None = None
) -> LeaderboardMeasures:
    """Compute the averages of each model. `panel`: the models that win rates are against; None: all others."""
    values = np.full((len(models), len(columns)), np.nan)
    for i, model in enumerate(models):
        for j, column in enumerate(columns):
            cell = table[column.benchmark].get(model)
            if cell is not None and cell.value is not None:
                values[i, j] = column.normalize(cell.value)
    weights = np.array([column.weight for column in columns], dtype=float)
    if len(weights):
        weights = weights / weights.mean()
    rank_won = win_shares(values, panel)
    won = rank_won if panel is None else panel_win_shares(values, panel, rank_won)
    rates, macros = (np.round(row_means(one, weights), DECIMALS) for one in (won, values))
    guarded = _guarded_averages(rank_won, values, weights, panel)
    none = np.full(values.shape, np.nan)
    return LeaderboardMeasures(
        tuple(models), tuple(columns), values, weights, rates, guarded, macros, none, none, won, rank_won, panel
    )


def _guarded_averages(shares: Floats, values: Floats, weights: Floats, panel: NDArray[np.bool_] | None) -> Floats:
    """Average win shares or win rates over benchmarks, with missing benchmarks counted as losses: shape (n_models,)."""
    table = guarded_win_shares(shares, values) if panel is None else guarded_panel_shares(shares, values, panel)
    return np.round(row_means(table, weights), DECIMALS)


def measure_instances(measures: LeaderboardMeasures, numbers: Sequence[BenchmarkNumbers | None]) -> LeaderboardMeasures:
    """Add win shares, and variances for intervals.

    Parameters: numbers, of the scores on each benchmark, None if not known; empty if averages go by benchmarks.
    """
    if not numbers:
        return measures
    values, panel = measures.values, measures.panel
    used = has_any_value(values)
    of_panel = used if panel is None else has_any_value(values[panel])
    shares, rank_shares = np.full((2, *values.shape), np.nan)
    macro: list[BenchmarkMeans] = [means_without_scores(values[:, j]) for j in range(values.shape[1])]
    won = list(macro)
    has = ~np.isnan(values)
    n_used, n_of_panel = (np.maximum(has[:, some].sum(axis=1), 1) for some in (used, of_panel))
    known = [(j, one) for j, one in enumerate(numbers) if one is not None and used[j]]
    size = max((values.shape[0] * one.n_instances for _, one in known), default=0) if panel is not None else 0
    for j, one in known:
        macro[j] = macro_means(one.scores, n_used)
    met = [(j, one) for j, one in known if of_panel[j]]
    found = in_threads(lambda place: _benchmark_shares(place[1], n_of_panel, panel), met, size=size)
    for (j, _), own in zip(met, found, strict=True):
        rank_shares[:, j], shares[:, j], won[j] = own
    return replace(measures, shares=shares, rank_shares=rank_shares, macro_means=macro, share_means=won)


class _BenchmarkShares(NamedTuple):
    """Win shares of all models on one benchmark, arrays of shape (n_models,); see `LeaderboardMeasures`."""

    rank_shares: Floats
    shares: Floats
    means: BenchmarkMeans


def _benchmark_shares(
    one: BenchmarkNumbers, n_benchmarks: NDArray[np.intp], panel: NDArray[np.bool_] | None
) -> _BenchmarkShares:
    """Return the win shares on one benchmark of the `n_benchmarks` of each model."""
    if panel is None:
        return _BenchmarkShares(one.mean_shares, one.mean_shares, win_share_means(one.shares, n_benchmarks))
    aligned = one.load()
    instance_shares = aligned.win_shares(panel)
    shown = panel_win_shares(aligned.scores, panel, instance_shares)
    means = win_share_means(share_means(aligned, shown, one.scores.is_binary), n_benchmarks, panel)
    return _BenchmarkShares(row_means(instance_shares), row_means(shown), means)


def make_rows(
    measures: LeaderboardMeasures, table: Table, method: IntervalUnit, scoring: Rule
) -> tuple[list[Row], RankedBy]:
    """Make the rows in order of rank, and say which number ranks them; without any value there are no ranks.

    Parameters: table, benchmark -> model -> cell; method, unit of the intervals.
    """
    models, columns, values = measures.models, measures.columns, measures.values
    share, rate, macro = _averages(measures, table, method)
    adjusted = _adjusted_averages(measures, macro, method)
    guarded_share = _guarded_shares(measures)
    ranking = _ranking(measures, scoring)
    keys = ranking.keys
    order = _order(measures, keys)
    places = competition_ranks([keys[i] for i in order])
    spread = win_rate_sd(values, measures.weights, measures.panel)
    wider = _averages_over_benchmarks(measures, method)
    categories = _group_members([column.category for column in columns])
    subcategories = _group_members([column.subcategory for column in columns])
    cells_of_models = [
        {c.benchmark: table[c.benchmark][models[i]] for c in columns if models[i] in table[c.benchmark]} for i in order
    ]
    uses = _completion_uses(cells_of_models)
    rows = []
    for place, i, cells, use in zip(places, order, cells_of_models, uses, strict=True):
        has = ~np.isnan(values[i])
        rows.append(
            Row(
                model=models[i],
                rank=place if ranking.is_ranked[i] else None,
                rank_low=None,
                rank_high=None,
                tie_group=None,
                win_share=_average(share, i),
                win_rate=_average(rate, i, _none_if_nan(spread[i])),
                macro_average=_average(macro, i, weighted_sd(values[i][has], measures.weights[has])),
                adjusted_average=_average(adjusted, i),
                ranking_value=_none_if_nan(np.clip(ranking.values[i], 0.0, 1.0)),
                worst_answers=_worst_answers(cells, columns),
                below_floor=_below_floor(cells, columns),
                win_share_over_benchmarks=_average(wider[0], i) if wider and has.sum() > 1 else None,
                macro_over_benchmarks=_average(wider[1], i) if wider and has.sum() > 1 else None,
                n_benchmarks=int(has.sum()),
                coverage=int(has.sum()) / len(columns),
                cost_usd=_total_cost(cells),
                use=use,
                cells=cells,
                categories=_group_means(values[i], measures.weights, categories),
                subcategories=_group_means(values[i], measures.weights, subcategories),
                guarded_win_rate=_none_if_nan(measures.guarded[i]),
                guarded_win_share=_none_if_nan(guarded_share[i]),
                macro_bounds=_macro_bounds(cells, columns, measures.weights),
            )
        )
    return rows, ranking.by


def _completion_uses(rows: Sequence[Mapping[str, Cell]]) -> Iterator[CompletionUse | None]:
    """Yield cost, tokens and time of the completions of each model. `rows`: its cells by benchmark."""

    def use_of(cells: Mapping[str, Cell]) -> CompletionUse | None:
        return pooled_use((cell.use for cell in cells.values()), _total_cost(cells))

    return in_threads(use_of, rows, size=max((sum(len(c.ids) for c in cells.values()) for cells in rows), default=0))


def rank_order(measures: LeaderboardMeasures, scoring: Rule) -> list[int]:
    """Return the models in order of rank."""
    return _order(measures, _ranking(measures, scoring).keys)


def _order(measures: LeaderboardMeasures, keys: Sequence[float]) -> list[int]:
    """Return the models in the order of these keys; those of equal rank by average, then by name."""
    averages = _adjusted_means(measures, measures.values)[0]
    models = measures.models
    return sorted(range(len(models)), key=lambda i: (keys[i], -np.nan_to_num(averages[i]), models[i]))


def add_ranks(rows: Sequence[Row], pairs: AllPairs | None) -> list[Row]:
    """Add the places that each model can have, and groups of ties, from the tests of all pairs.

    A rank is always one of the places. `pairs`: None for a single model.
    """
    n = len(rows)
    is_better, is_apart = np.zeros((2, n, n), dtype=np.bool_)
    if pairs is not None:
        place = {row.model: i for i, row in enumerate(rows)}
        for better, worse in pairs.separated():
            is_better[place[better], place[worse]] = True
        for one, other in pairs.pairs_of(~pairs.is_tested):
            is_apart[place[one], place[other]] = True
    n_worse, n_better = is_better.sum(axis=1), is_better.sum(axis=0)
    n_ranked = sum(row.rank is not None for row in rows)
    is_apart |= is_better
    is_apart |= is_apart.T
    groups = tie_groups(is_apart)
    ranked = [i for i, row in enumerate(rows) if row.rank is not None]
    letters = dict(zip(ranked, tie_letters(is_apart[np.ix_(ranked, ranked)]), strict=True))
    return [
        replace(
            row,
            rank_low=min(int(1 + n_better[i]), row.rank),
            rank_high=max(int(n_ranked - n_worse[i]), row.rank),
            tie_group=groups[i],
            tie_letters=letters[i],
        )
        if row.rank is not None
        else row
        for i, row in enumerate(rows)
    ]


def _averages(measures: LeaderboardMeasures, table: Table, method: IntervalUnit) -> tuple[Averages, Averages, Averages]:
    """Return win shares, win rates and macro averages, with intervals where there are any."""
    n, weights = len(measures.models), measures.weights
    none = np.full(n, np.nan)
    if method == "benchmarks":
        rate = averages_for_benchmarks(measures.won, weights)
        macro = averages_for_benchmarks(measures.values, weights)
        return Averages(none, none, none), _rounded(rate), _rounded(macro)
    rate = Averages(measures.win_rates, none, none)
    if method == "nothing":
        return Averages(none, none, none), rate, Averages(measures.macros, none, none)
    macro = averages_for_instances(measures.values, measures.macro_means, weights)
    share = averages_for_instances(measures.shares, measures.share_means, weights)
    macro = _with_cell_intervals(macro, measures, table)
    return _rounded(share), rate, _rounded(macro)


def _averages_over_benchmarks(measures: LeaderboardMeasures, method: IntervalUnit) -> tuple[Averages, Averages] | None:
    """Return win shares and macro averages with intervals for other benchmarks; None if they have no others."""
    if method != "instances within benchmarks":
        return None
    share, macro = (averages_for_benchmarks(one, measures.weights) for one in (measures.shares, measures.values))
    return _rounded(share), _rounded(macro)


def _rounded(averages: Averages) -> Averages:
    """Round averages, so that they do not depend on the order of sums."""
    return Averages(*(np.round(one, DECIMALS) for one in averages))


def _with_cell_intervals(macro: Averages, measures: LeaderboardMeasures, table: Table) -> Averages:
    """Return macro averages, those of models with a single benchmark with the interval of its cell."""
    low, high = macro.low.copy(), macro.high.copy()
    has = ~np.isnan(measures.values)
    for i in np.flatnonzero(has.sum(axis=1) == 1).tolist():
        column = measures.columns[int(np.flatnonzero(has[i])[0])]
        cell = table[column.benchmark].get(measures.models[i])
        if cell is not None and cell.estimate is not None:
            ends = sorted((column.normalize(cell.estimate.low), column.normalize(cell.estimate.high)))
            low[i], high[i] = min(ends[0], macro.value[i]), max(ends[1], macro.value[i])
    return Averages(macro.value, low, high)


def _guarded_shares(measures: LeaderboardMeasures) -> Floats:
    """Return win shares with missing benchmarks counted as losses: shape (n_models,); nan without instance scores."""
    shares, n = measures.rank_shares, len(measures.models)
    if n < 2 or np.isnan(shares).all():
        return np.full(n, np.nan)
    return _guarded_averages(shares, measures.values, measures.weights, measures.panel)


class _Ranking(NamedTuple):
    """The number that ranks the models. Arrays of shape (n_models,)."""

    by: RankedBy
    """Name of the number."""
    values: Floats
    """The number, adjusted for the benchmarks that a model lacks; nan for a model without one."""
    is_ranked: NDArray[np.bool_]
    """True for models that shared benchmarks link to each other; the others cannot be ranked among them."""

    @property
    def keys(self) -> list[float]:
        """Sort key of each model, lowest for the best; models without a rank come last."""
        keys: list[float] = np.where(self.is_ranked, -np.nan_to_num(self.values), np.inf).tolist()
        return keys


def _ranking(measures: LeaderboardMeasures, scoring: Rule) -> _Ranking:
    """Return the number that ranks."""
    if int(has_any_value(measures.values).sum()) == 1:
        return _Ranking("mean score", *_adjusted_means(measures, measures.values))
    if scoring == "corrected" and not np.isnan(measures.shares).all():
        return _Ranking("macro average", *_adjusted_means(measures, measures.values))
    return _Ranking("win rate", *_adjusted_means(measures, measures.rank_won))


def _adjusted_means(measures: LeaderboardMeasures, table: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the adjusted mean of each model, and whether it is linked to the others by shared benchmarks."""
    design = Design(~np.isnan(table), measures.weights)
    averages = np.round(design.fit(table).averages, DECIMALS)
    return averages, design.main_group & ~np.isnan(averages)


def _adjusted_averages(measures: LeaderboardMeasures, macro: Averages, method: IntervalUnit) -> Averages:
    """Return macro averages adjusted for the benchmarks that a model lacks; the same ones if none lacks any.

    The interval of a model that lacks benchmarks also covers how much better or worse it could be on these, and that
    they can be its worst.
    """
    values, weights = measures.values, measures.weights
    design = Design(~np.isnan(values), weights)
    if len(measures.models) == 1 or (design.is_complete and design.counted.all()):
        return macro
    fit = design.fit(values)
    value = np.clip(np.round(fit.averages, DECIMALS), 0.0, 1.0)
    if method != "instances within benchmarks":
        low, high = value - (macro.value - macro.low), value + (macro.high - macro.value)
        return _rounded(Averages(value, np.maximum(low, 0.0), np.minimum(high, 1.0)))
    linked = ~np.isnan(fit.expected)
    filled = np.where(design.present, values, fit.expected)
    means = [_filled_means(one, filled[:, j]) for j, one in enumerate(measures.macro_means)]
    found = averages_for_instances(filled, means, weights)
    extra = fit.residual_sd * np.sqrt(design.average_excess()) * t_quantiles(np.array([fit.residual_df]))
    gain = fit.residual_sd * selection_gain(design.lacking_in_group())
    below, above = np.hypot(found.value - found.low, extra) + gain, np.hypot(found.high - found.value, extra)
    ranked = linked.any(axis=1)
    low = np.where(ranked, np.maximum(value - below, 0.0), macro.low)
    return _rounded(Averages(value, low, np.where(ranked, np.minimum(value + above, 1.0), macro.high)))


def _filled_means(means: BenchmarkMeans, values: Floats) -> BenchmarkMeans:
    """Return what a benchmark contributes to intervals if models that lack it vary as the others do on average."""
    lacks = np.isnan(means.middle)
    if lacks.all() or not lacks.any():
        return means
    return BenchmarkMeans(
        np.where(lacks, values, means.middle),
        np.where(lacks, means.variance[~lacks].mean(), means.variance),
        np.where(lacks, means.df[~lacks].min(), means.df),
    )


def rank_bounds(measures: LeaderboardMeasures, table: Table, scoring: Rule) -> dict[str, tuple[int, int]]:
    """Return model -> its rank if each of its missing scores were the best, and if each were the worst.

    One model changes at a time. Only for models with missing scores; empty if these are more than `MOST_LACKING`.
    """
    rows = [table[column.benchmark] for column in measures.columns]
    shares_known = {
        i: np.array([1 - cells[model].share_missing if model in cells else 1.0 for cells in rows])
        for i, model in enumerate(measures.models)
    }
    lacking = {i: shares for i, shares in shares_known.items() if (shares < 1).any()}
    if len(lacking) > MOST_LACKING:
        return {}
    found = {}
    for i, shares in lacking.items():
        best, worst = (_rank_if_missing_were(score, i, shares, measures, scoring) for score in (1.0, 0.0))
        found[measures.models[i]] = (best, worst)
    return found


def _rank_if_missing_were(
    score: float, i: int, share_known: Floats, measures: LeaderboardMeasures, scoring: Rule
) -> int:
    """Return the rank of model i with a score, 0..1, for each missing one.

    `share_known`: shape (n_benchmarks,), share of the model's instances that have a score.
    """
    values = measures.values.copy()
    values[i] = values[i] * share_known + score * (1 - share_known)
    changed = replace(measures, values=values, rank_won=win_shares(values, measures.panel))
    keys = _ranking(changed, scoring).keys
    return 1 + sum(key < keys[i] for key in keys)


def _none_if_nan(value: float) -> float | None:
    """Return a number, or None for nan."""
    return None if np.isnan(value) else float(value)


def _average(averages: Averages, i: int, sd: float | None = None) -> Average | None:
    """Return one model's average; None if it has none."""
    value, low, high = (_none_if_nan(one[i]) for one in averages)
    return None if value is None else Average(value=value, low=low, high=high, sd=sd)


def _macro_bounds(cells: Mapping[str, Cell], columns: Sequence[Column], weights: Floats) -> tuple[float, float] | None:
    """Return the macro average with all missing scores the worst, and the best; None if nothing is missing."""
    sums, total, is_missing = [0.0, 0.0], 0.0, False
    for column, weight in zip(columns, weights.tolist(), strict=True):
        cell = cells.get(column.benchmark)
        if cell is None or cell.value is None:
            continue
        bounds = cell.bounds(column)
        is_missing |= bounds is not None
        total += weight
        for place, value in enumerate(bounds or (cell.value, cell.value)):
            sums[place] += weight * column.normalize(value)
    return (sums[0] / total, sums[1] / total) if is_missing else None


def _worst_answers(cells: Mapping[str, Cell], columns: Sequence[Column]) -> Estimate | None:
    """Return the share of completions with the worst grade, on benchmarks that are graded, not right or wrong.

    On a scale with whole grades, such as 1 to 5, the means of several judges count if they round to the worst grade.
    """
    worst: list[tuple[Cell, Floats]] = []
    for column in columns:
        cell = cells.get(column.benchmark)
        if cell is None or cell.scores is None or cell.tested is not None:
            continue
        scores = column.normalize(cell.scores)
        known = ~np.isnan(scores)
        if column.high - column.low <= 1 and ((scores == 0) | (scores == 1) | ~known).all():
            continue
        reach = WHOLE_GRADE / (column.high - column.low) if column.high - column.low > 1 else 0.0
        worst.append((cell, np.where(known, scores <= reach, np.nan)))
    return _share(worst)


def _below_floor(cells: Mapping[str, Cell], columns: Sequence[Column]) -> Estimate | None:
    """Return the share of completions below a floor, on benchmarks that have one."""
    shown = [cells[column.benchmark] for column in columns if column.benchmark in cells]
    return _share([(cell, below) for cell in shown if (below := cell.below_floor) is not None])


def _share(found: Sequence[tuple[Cell, Floats]]) -> Estimate | None:
    """Return the share of completions with 1.0, of those with 1.0 or 0.0, over benchmarks; None if there are none.

    `found`: each cell with one number per instance, nan if it is not known.
    """
    if not found:
        return None
    flags: list[Floats] = []
    codes: list[NDArray[np.intp]] = []
    n_clusters, is_clustered = 0, any(cell.clusters is not None for cell, _ in found)
    for cell, own in found:
        known = ~np.isnan(own)
        flags.append(own[known])
        if is_clustered:
            own_codes, k = cluster_codes(cell.clusters, len(own))
            codes.append(own_codes[known] + n_clusters)
            n_clusters += k
    clusters = np.concatenate(codes) if is_clustered else None
    return estimate(np.concatenate(flags), clusters, low=0.0, high=1.0)


def _total_cost(cells: Mapping[str, Cell]) -> float | None:
    """Return the sum of the costs; None if one is unknown, or there is no cell."""
    return sum_costs(cell.cost_usd for cell in cells.values()).usd if cells else None


def _group_members(names: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Return group -> whether each benchmark is in it. `names`: the group of each benchmark."""
    return {group: np.array([name == group for name in names]) for group in sorted(set(names))}


def _group_means(values: Floats, weights: Floats, groups: Mapping[str, NDArray[np.bool_]]) -> dict[str, GroupMean]:
    """Return group -> weighted mean in it of one model's normalized values, shape (n_benchmarks,)."""
    means = {}
    is_known = ~np.isnan(values)
    for group, members in groups.items():
        own = members & is_known
        known, own_weights = values[own], weights[own]
        mean = float(known @ own_weights / own_weights.sum()) if len(known) else None
        means[group] = GroupMean(value=mean, n_benchmarks=len(known))
    return means


# --- head to head -----------------------------------------------------------------------------------------------------
# Every two models head to head: how often one beats the other, and triples of models that beat in a circle.
#
# The share is a mean over the instances that both models have, then a weighted mean over benchmarks; a tie counts one
# half. Where instance scores are not known, it is the share of benchmarks. It depends on the two models alone. Which
# pairs are separated is the verdict of the leaderboard, by the difference of their win shares.
#
# On right-or-wrong answers the share is one half plus half the difference of the means, so that models have one order.
# On grades A can beat B, B can beat C, and C can beat A, as with uneven dice. Such a triple is reported if each of the
# three shares differs from one half by the sign-flip test at the 5% level, after Bonferroni's correction for all pairs.

NAMED = 5
"""Most triples written out as remarks."""

Triple = tuple[str, str, str]
"""Three models of which each beats the next, and the last the first."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadToHead:
    """Every two models head to head, in order of rank. Arrays of shape (n_models, n_models)."""

    models: tuple[str, ...]
    """Names."""
    unit: Unit
    """Unit of the shares."""
    win_share: Floats
    """Share on which the row's model beats the column's, a tie counting one half, 0..1; nan on the diagonal and where
    they share nothing."""
    equal: Floats
    """Share on which the two are equal, 0..1; nan as for `win_share`, and where a benchmark's number is a ratio, which
    no single instance wins."""
    n_benchmarks: Ints
    """Benchmarks that both have."""
    separated: NDArray[np.bool_]
    """True where the two models differ significantly on the leaderboard."""
    circles: tuple[Triple, ...]
    """Triples that beat each other in a circle, each significantly."""

    def outcomes(self, i: int, j: int) -> tuple[float, float, float] | None:
        """Return the shares on which one model is better than another, equal and worse; None if they are undefined."""
        share, equal = float(self.win_share[i, j]), float(self.equal[i, j])
        if np.isnan(share) or np.isnan(equal):
            return None
        return max(share - equal / 2, 0.0), equal, max(1 - share - equal / 2, 0.0)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on triples that have no order."""
        shown = [
            Remark(
                "intransitive",
                a,
                f"Head to head {a} beats {b}, {b} beats {c}, and {c} beats {a}, each significantly: their order "
                "depends on the models they are compared with.",
            )
            for a, b, c in self.circles[:NAMED]
        ]
        if more := len(self.circles) - len(shown):
            shown.append(Remark("intransitive", "", f"{more} more triples of models beat each other in a circle."))
        return tuple(shown)


def head_to_head(board: Leaderboard) -> HeadToHead:
    """Compare every two models of a leaderboard, baselines left out. Raises: UserError for more than `MOST_MODELS`."""
    models = [row.model for row in board.rows]
    check_number(models)
    by_instance = board.interval_method == "instances within benchmarks"
    n = len(models)
    total, ties, weights, within = np.zeros((4, n, n))
    between = np.zeros((3, n, n))
    n_benchmarks = np.zeros((n, n), dtype=np.intp)
    for column in board.columns:
        share, equal, counts, variance = _shares(_scores(board, column, models, by_instance))
        here = counts > 0
        total += column.weight * np.where(here, share, 0.0)
        ties += column.weight * np.where(here, equal, 0.0)
        weights += column.weight * here
        within += column.weight**2 * np.where(here, variance / np.maximum(counts, 1), 0.0)
        between += column.weight**2 * np.where(here, np.stack([np.ones((n, n)), share, share**2]), 0.0)
        n_benchmarks += here
    mean, equal = np.where(weights > 0, np.stack([total, ties]) / np.where(weights > 0, weights, 1.0), np.nan)
    win_share: Floats = np.asarray(np.round(mean, DECIMALS), dtype=np.float64)
    place = {model: i for i, model in enumerate(models)}
    separated = np.zeros((n, n), dtype=np.bool_)
    for first, second in board.separated:
        if first in place and second in place:  # a page can show some of the models
            separated[place[first], place[second]] = separated[place[second], place[first]] = True
    lead = np.nan_to_num(win_share - 0.5)
    variance = within if by_instance else between[2] - 2 * win_share * between[1] + win_share**2 * between[0]
    # Leads below two standard errors are not tested: after the correction they would not be significant.
    wins = (lead > 0) & (lead * weights > 2 * np.sqrt(np.maximum(np.nan_to_num(variance), 0.0)))
    return HeadToHead(
        models=tuple(models),
        unit="instances" if by_instance else "benchmarks",
        win_share=win_share,
        equal=np.asarray(np.round(equal, DECIMALS), dtype=np.float64),
        n_benchmarks=n_benchmarks,
        separated=separated,
        circles=tuple(_circles(board, wins, models, by_instance)),
    )


def _scores(board: Leaderboard, column: Column, models: Sequence[str], by_instance: bool) -> AlignedScores:
    """Return the scores of some models on one benchmark, or their mean as a single instance."""
    cells = {row.model: row.cells[column.benchmark] for row in board.rows if column.benchmark in row.cells}
    if by_instance:
        return align({model: cells[model] for model in models if model in cells}, column, models)
    values = [cells[model].value if model in cells else None for model in models]
    means = np.array([[np.nan if value is None else column.normalize(value)] for value in values])
    return AlignedScores(means.reshape(len(models), 1), np.zeros(1, dtype=np.intp), 1, True)


def _shares(aligned: AlignedScores) -> tuple[Floats, Floats, Ints, Floats]:
    """Return the shares of instances that each model beats each other one on, and equals it, their number and variance.

    Returns: four arrays of shape (n_models, n_models).
    """
    n = len(aligned.scores)
    rounded = np.round(aligned.tested, DECIMALS)
    win = np.sign if aligned.ratio_values is None else np.positive  # see `ratio_win_shares`
    share, equal, variance = np.full((3, n, n), np.nan)
    counts = np.zeros((n, n), dtype=np.intp)
    for i in range(n - 1):
        won = (win(rounded[i] - rounded[i + 1 :]) + 1) / 2
        here = ~np.isnan(won)
        known = here.sum(axis=1)
        if aligned.ratio_values is None:
            tied = (won == 0.5).sum(axis=1)
            equal[i, i + 1 :] = equal[i + 1 :, i] = tied / np.maximum(known, 1)
        won[~here] = 0.0
        mean = np.divide(won.sum(axis=1), known, out=np.full(n - i - 1, np.nan), where=known > 0)
        spread = np.einsum("mn,mn->m", won, won) / np.maximum(known, 1) - np.nan_to_num(mean) ** 2
        share[i, i + 1 :], share[i + 1 :, i] = mean, 1 - mean
        counts[i, i + 1 :] = counts[i + 1 :, i] = known
        variance[i, i + 1 :] = variance[i + 1 :, i] = spread
    return share, equal, counts, variance


def _circles(board: Leaderboard, wins: NDArray[np.bool_], models: Sequence[str], by_instance: bool) -> Iterator[Triple]:
    """Yield triples in which each model significantly beats the next. `wins`: whether a row leads a column clearly."""
    returns = wins.astype(np.intp) @ wins.astype(np.intp) > 0
    limit = LEVEL / max(len(models) * (len(models) - 1) // 2, 1)
    beats = np.zeros(wins.shape, dtype=np.bool_)
    for i, j in np.argwhere(wins & returns.T).tolist():
        beats[i, j] = _p_value(board, (models[i], models[j]), by_instance) <= limit
    for i, j in np.argwhere(beats).tolist():
        for k in np.flatnonzero(beats[j] & beats[:, i]).tolist():
            if i < min(j, k):
                yield models[i], models[j], models[k]


def _p_value(board: Leaderboard, pair: tuple[str, str], by_instance: bool) -> float:
    """Return the p-value of the share of one pair: the sign-flip test of wins, over all clusters or benchmarks."""
    compared, values = [], []
    for column in board.columns:
        found = _scores(board, column, pair, by_instance)
        lead = np.sign(np.round(found.scores[0], DECIMALS) - np.round(found.scores[1], DECIMALS))
        if np.isnan(lead).all():
            continue
        won = np.stack([(1 + lead) / 2, (1 - lead) / 2])
        aligned = AlignedScores(won, found.codes, found.k, True) if by_instance else None
        compared.append(AlignedBenchmark(column, aligned))
        values.append(np.nanmean(won, axis=1))
    tests = compare_aligned(pair, compared, np.stack(values, axis=1), kept=())
    return float(tests.macro_average.differences.p_value[0])


# --- efficient frontier -----------------------------------------------------------------------------------------------
# Macro average against the cost of 1,000 completions.


def cost_frontier(
    rows: Sequence[Row],
    columns: Sequence[Column],
    pairs: AllPairs | None,
    method: IntervalUnit,
) -> CostFrontier | None:
    """Return the frontier among the models of known cost on the same benchmarks; None for fewer than two such models.

    The probabilities of hundreds of models take seconds, so they are drawn when one is first needed.

    Parameters: columns, sorted by id; pairs, the tests of every two models; method, the unit of intervals.
    """
    by_name = sorted(rows, key=lambda row: row.model)
    priced = [row for row in by_name if row.usd_per_1000 is not None and row.macro_average is not None]
    shared = _most_common_benchmarks(priced)
    alike = [row for row in priced if _benchmarks(row) == shared]
    if len(alike) < 2:
        return None
    costs = np.array([row.usd_per_1000 for row in alike], dtype=float)
    values = np.array([row.macro_average.value for row in alike if row.macro_average])
    used = [column for column in columns if column.benchmark in shared]
    draw = cache(lambda: _probabilities(by_name, alike, used, costs, values, method))
    points = [
        CostPoint(row.model, float(cost), float(value)) for row, cost, value in zip(alike, costs, values, strict=True)
    ]
    efficient = dict.fromkeys(point.name for point in efficient_frontier(points))
    models = {
        row.model: FrontierModel(
            model=row.model,
            usd_per_1000=float(costs[i]),
            value=float(values[i]),
            is_efficient=row.model in efficient,
            place=i,
            probabilities=draw,
        )
        for i, row in enumerate(alike)
    }
    steps = [(models[cheaper], models[costlier]) for cheaper, costlier in pairwise(efficient)]
    return CostFrontier(
        models=tuple(sorted(models.values(), key=lambda one: (one.usd_per_1000, -one.value, one.model))),
        steps=tuple(_step(a, b, pairs) for a, b in steps if b.usd_per_1000 > a.usd_per_1000),
        unknown_cost=tuple(row.model for row in by_name if row.macro_average and row.usd_per_1000 is None),
        other_benchmarks=tuple(row.model for row in priced if row.model not in models),
    )


def _benchmarks(row: Row) -> frozenset[str]:
    """Return the benchmarks on which a model has a value."""
    return frozenset(name for name, cell in row.cells.items() if cell.value is not None)


def _most_common_benchmarks(rows: Sequence[Row]) -> frozenset[str]:
    """Return the benchmarks that most models share exactly; of equally common sets the largest."""
    counts = Counter(map(_benchmarks, rows))
    return max(counts, key=lambda names: (counts[names], len(names), sorted(names)), default=frozenset())


def _probabilities(
    every: Sequence[Row],
    rows: Sequence[Row],
    columns: Sequence[Column],
    costs: Floats,
    values: Floats,
    method: IntervalUnit,
) -> Floats | None:
    """Return the probability of each model to be on the frontier; None where it has no basis.

    Parameters: every, all models of the leaderboard, sorted by name; rows, those that are compared.
    """
    weights = np.array([column.weight for column in columns], dtype=float)
    shares = weights / weights.sum()
    if method == "nothing":
        return None
    if method == "benchmarks":
        table = np.array([[_value(row, column) for column in columns] for row in rows])
        over = joint_means_over_benchmarks(table, shares)
        return None if over is None else frontier_probabilities(costs, draw_averages(values, [(1.0, over)]))
    scored = {name for row in every for name, cell in row.cells.items() if cell.scores is not None}
    if not scored.issuperset(column.benchmark for column in columns):
        return None
    places = {row.model: place for place, row in enumerate(every)}
    order = [places[row.model] for row in rows]
    parts = (
        (float(share), joint_means(_aligned(every, column).reordered(order)))
        for share, column in zip(shares, columns, strict=True)
    )
    return frontier_probabilities(costs, draw_averages(values, parts))


def _aligned(rows: Sequence[Row], column: Column) -> AlignedScores:
    """Return the scores of some models on one benchmark."""
    cells = {row.model: row.cells[column.benchmark] for row in rows if column.benchmark in row.cells}
    return align(cells, column, [row.model for row in rows])


def _value(row: Row, column: Column) -> float:
    """Return a normalized score."""
    value = row.cells[column.benchmark].value
    return np.nan if value is None else column.normalize(value)


def _step(cheaper: FrontierModel, costlier: FrontierModel, pairs: AllPairs | None) -> FrontierStep:
    """Return a step along the frontier, with the paired difference of the two models where they were tested."""
    value, low, high, is_better = costlier.value - cheaper.value, None, None, False
    if pairs is not None:
        place, is_first = _place_of_pair(costlier.model, cheaper.model, pairs)
        is_better = int(pairs.findings[place]) == (1 if is_first else -1)
        if found := pairs.macro_average.differences[place]:
            value, low, high = (
                (found.value, found.low, found.high) if is_first else (-found.value, -found.high, -found.low)
            )
    return FrontierStep(
        cheaper=cheaper.model,
        costlier=costlier.model,
        usd_per_1000=costlier.usd_per_1000 - cheaper.usd_per_1000,
        points=100 * value,
        points_low=None if low is None else 100 * low,
        points_high=None if high is None else 100 * high,
        is_separated=is_better and value > 0,
    )


def _place_of_pair(one: str, other: str, pairs: AllPairs) -> tuple[int, bool]:
    """Return the place of the pair of two models in `pairs`, and whether `one` is its first model."""
    a, b = pairs.models.index(one), pairs.models.index(other)
    first, second = pair_indices(len(pairs.models))
    return int(np.flatnonzero((first == min(a, b)) & (second == max(a, b)))[0]), a < b
