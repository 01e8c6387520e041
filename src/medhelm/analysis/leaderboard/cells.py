"""Inputs of a leaderboard: columns (benchmarks), cells (a model on a benchmark), aligned scores and win rates."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.means import Clusters, Floats, cluster_codes
from medhelm.analysis.planned_cost import RunUse
from medhelm.domain import CompletionCounts, Estimate, Floor, Parts
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.agreement.calibration import CalibratedMean
    from medhelm.analysis.agreement.clinician_means import ClinicianMean

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCriterion:
    """A criterion of a rubric with its scale; for a rubric in points also a tag of criteria."""

    name: str
    """Id of the criterion, or a tag such as `axis:accuracy`."""
    low: float
    """The lowest grade; 0 for the share of points."""
    high: float
    """The highest grade; 1 for the share of points."""
    higher_is_better: bool = True
    """True if the highest grade is the best one."""
    is_tag: bool = False
    """True for the share of points on a tag, which harms may take below 0: only means are cut to the scale."""

    @property
    def worst(self) -> float:
        """The worst grade."""
        return self.low if self.higher_is_better else self.high


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
    clinicians: ClinicianMean | None = None
    """Mean rating by clinicians of the completions that they rated; None if they rated none."""
    floors: Mapping[Floor, Floats] = field(default_factory=dict)
    """Floor of the rubric -> 1.0 for each instance whose completion is below it, else 0.0; nan if it is not known."""
    criteria: Mapping[GradedCriterion, Floats] = field(default_factory=dict)
    """Criterion of the rubric -> mean grade of each instance's completion by the judges behind its jury score, in the
    order of `ids`; nan if there is none. Empty without a jury, and where it was not read."""
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


# --- aligned scores ---------------------------------------------------------------------------------------------------
# Scores of several models on one benchmark, aligned by instance id.


@dataclass(frozen=True, slots=True, eq=False)
class AlignedScores:
    """Scores of all models on one benchmark, instance by instance, normalized so that 1 is best."""

    scores: Floats
    """Shape (n_models, n), nan where a model has no score."""
    codes: NDArray[np.intp]
    """Shape (n,): number of each instance's cluster, 0 to k - 1."""
    k: int
    """Number of clusters."""
    same_instances: bool
    """True if all models that were run at all were asked the same instances."""
    ratio_values: Floats | None = None
    """Values to compare models with, as `scores`, on a benchmark whose number is a ratio; see `Cell.tested`."""
    ratio_limits: Floats | None = None
    """Shape (2, n_models): limits of the 95% interval of each such number, normalized; nan where they are not known."""
    _cached_shares: list[Floats] = field(default_factory=list, repr=False)
    """Win shares among all models, once they were computed."""

    @property
    def tested(self) -> Floats:
        """Values whose differences are tested, as `scores`."""
        return self.scores if self.ratio_values is None else self.ratio_values

    def win_shares(self, panel: NDArray[np.bool_] | None = None) -> Floats:
        """Return the share of rivals that each model beats, instance by instance; see the function `win_shares`."""
        if panel is None and self._cached_shares:
            return self._cached_shares[0]
        if self.ratio_values is None:
            found = win_shares(self.scores, panel)
        else:
            found = ratio_win_shares(self.ratio_values, panel)
        if panel is None:
            self._cached_shares.append(found)
        return found

    def reordered(self, order: Sequence[int]) -> AlignedScores:
        """Return a copy with the models in another order, or some of them."""
        rows = list(order)
        if rows == list(range(len(self.scores))):
            return self
        return replace(
            self,
            scores=self.scores[rows],
            ratio_values=None if self.ratio_values is None else self.ratio_values[rows],
            ratio_limits=None if self.ratio_limits is None else self.ratio_limits[:, rows],
            _cached_shares=[],
        )


def by_benchmark(cells: Iterable[Cell]) -> dict[str, dict[str, Cell]]:
    """Return benchmark -> model -> cell."""
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        table.setdefault(cell.benchmark, {})[cell.model] = cell
    return table


def _ratio_limits(cells: Mapping[str, Cell], column: Column, models: Sequence[str]) -> Floats:
    """Return the normalized limits of numbers that are ratios: shape (2, n_models), nan where they are not known."""
    limits = np.full((2, len(models)), np.nan)
    for row, model in enumerate(models):
        own = cells.get(model)
        if own is not None and own.tested is not None and own.estimate is not None:
            limits[:, row] = sorted(column.normalize(end) for end in (own.estimate.low, own.estimate.high))
    return limits


def align(cells: Mapping[str, Cell], column: Column, models: Sequence[str]) -> AlignedScores:
    """Align the scores of all models, instances in the order of their ids.

    Parameters: cells, model -> its cell on the benchmark; models, the rows to make: nan for those without scores.
    Raises: UserError if ids, scores and clusters of a cell differ in number, an id comes twice, or a score is infinite.
    """
    with_scores = [cell for cell in cells.values() if cell.scores is not None]
    placed = _InstancePositions(with_scores)
    scores = np.full((len(models), placed.n), np.nan)
    ratio_values = scores.copy() if any(cell.tested is not None for cell in with_scores) else None
    names: NDArray[np.object_] | None = None
    last = (0, 0)
    for row, model in enumerate(models):
        own = cells.get(model)
        if own is None or own.scores is None:
            continue
        positions = placed.of(own.ids)
        scores[row, positions] = column.normalize(own.scores)
        if ratio_values is not None:
            ratio_values[row, positions] = column.normalize(own.scores if own.tested is None else own.tested)
        if own.clusters is None or last == (id(own.ids), id(own.clusters)):
            continue  # cells that were read together share their lists
        if names is None:
            names = np.full(placed.n, "", dtype=object)
        names[positions], last = own.clusters, (id(own.ids), id(own.clusters))
    codes, k = cluster_codes(None if names is None else names.astype(np.str_), placed.n)
    limits = None if ratio_values is None else _ratio_limits(cells, column, models)
    return AlignedScores(scores, codes, k, placed.same, ratio_values, limits)


class _InstancePositions:
    """Positions of the instances of each cell in the sorted list of all ids."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        """Looks at every list of ids once: cells that were read together share theirs."""
        lists: dict[int, Sequence[str]] = {}
        for cell in cells:
            _check_scores(cell)
            if id(cell.ids) not in lists:
                _check_ids(cell)
                lists[id(cell.ids)] = cell.ids
        ids = sorted(set().union(*lists.values()))
        self._place = {name: position for position, name in enumerate(ids)}
        self._positions_of: dict[int, NDArray[np.intp]] = {}
        self.n = len(ids)
        self.same = all(len(one) == self.n for one in lists.values())

    def of(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """Return the positions, in the order of `ids`."""
        if id(ids) not in self._positions_of:
            found = map(self._place.__getitem__, ids)
            self._positions_of[id(ids)] = np.fromiter(found, dtype=np.intp, count=len(ids))
        return self._positions_of[id(ids)]


def _check_scores(cell: Cell) -> None:
    """Raise UserError for a cell whose ids, scores and clusters differ in number, and for infinite scores."""
    scores = () if cell.scores is None else cell.scores
    clusters = scores if cell.clusters is None else cell.clusters
    if not len(cell.ids) == len(scores) == len(clusters):
        raise UserError(
            f"{cell.model} on {cell.benchmark}: {len(cell.ids)} ids, {len(scores)} scores and {len(clusters)} clusters "
            "do not match."
        )
    if np.isinf(scores).any():
        name = cell.ids[int(np.flatnonzero(np.isinf(scores))[0])]
        raise UserError(
            f"{cell.model} on {cell.benchmark}: the score of instance {name} is infinite, so it has no mean."
        )


def _check_ids(cell: Cell) -> None:
    """Raise UserError for a cell in which two instances have the same id."""
    if len(set(cell.ids)) < len(cell.ids):
        place = f"{cell.model} on {cell.benchmark}"
        raise UserError(f"{place}: an instance id comes twice. Give every instance of a benchmark its own id.")


# --- win rates --------------------------------------------------------------------------------------------------------
# With and without missing values counted as losses, their spread, ranks and groups of ties.
#
# `values` has one row per model and one column per benchmark: normalized so that 1 is best, nan where a model has none.
# `weights` has one number above 0 per benchmark, how much it counts. Two values are equal when they agree to twelve
# decimals, so that the order of a sum cannot make a winner.
#
# A win rate compares a model only with rivals that have a value too. Ranks go by the guarded win rate, in which a
# missing value is below every other value and ties with another missing one. So a model never gains by leaving out a
# benchmark, neither against all rivals nor, where every instance has a score, against one rival.

DECIMALS = 12
"""Decimals to which two means are compared."""

LETTERS = string.ascii_lowercase + string.ascii_uppercase
"""Letters of ties, in order of rank."""

MOST_GROUPS = 200
"""Most groups of models that are kept while letters are looked for."""

BLOCK = 100_000
"""Most scores sorted at once: they stay in the processor's cache."""


def win_shares(scores: Floats, panel: NDArray[np.bool_] | None = None) -> Floats:
    """Return the share of rivals that each model beats, column by column; a tie counts one half.

    A column is an instance, or a benchmark with its means: then these are win rates.

    Parameters: scores, shape (n_models, n), nan if missing; panel, shape (n_models,), the models to be beaten; None:
    all. Where a panel is given, a member's own score counts as one more tie: all models meet the same panel.
    Returns: shape (n_models, n); nan where a model has no score, or meets no model that has one.
    """
    members = np.ones(len(scores)) if panel is None else panel.astype(float)
    own_ties = 1.0 if panel is None else 0.0
    if ((scores == 0) | (scores == 1) | np.isnan(scores)).all():
        return _binary_win_shares(scores, members, own_ties)
    shares = np.empty_like(scores)
    block = max(1, BLOCK // max(len(scores), 1))
    for start in range(0, scores.shape[1], block):
        some = np.s_[:, start : start + block]
        shares[some] = _sorted_win_shares(np.ascontiguousarray(scores[some].T), members, own_ties).T
    return shares


def _binary_win_shares(scores: Floats, members: Floats, own_ties: float) -> Floats:
    """Compute win shares of 0/1 scores: in each column there is one for each score."""
    is_right = scores == 1
    right, met = members @ is_right, members @ ~np.isnan(scores)
    wrong, rivals = met - right, met - own_ties
    with np.errstate(invalid="ignore", divide="ignore"):
        of_right = np.where(rivals > 0, (wrong + (right - own_ties) / 2) / rivals, np.nan)
        of_wrong = np.where(rivals > 0, (wrong - own_ties) / 2 / rivals, np.nan)
    return np.where(is_right, of_right, np.where(scores == 0, of_wrong, np.nan))


def _sorted_win_shares(scores: Floats, members: Floats, own_ties: float) -> Floats:
    """Compute win shares of any scores: shape (n, n_models), one row per column of `win_shares`.

    Parameters: members, shape (n_models,), 1 for a model to be beaten; own_ties, number of ties that are a model's own.
    """
    order = np.argsort(scores, axis=1)
    ranked = np.round(np.take_along_axis(scores, order, axis=1), DECIMALS)  # missing ones last
    there = members[order] * ~np.isnan(ranked)
    starts = np.ones(ranked.shape, dtype=np.bool_)
    starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    group = np.cumsum(starts.ravel()) - 1
    equal = np.bincount(group, weights=there.ravel())
    before = np.cumsum(there, axis=1) - there
    below = before.ravel()[np.flatnonzero(starts.ravel())][group].reshape(scores.shape)
    met = there.sum(axis=1, keepdims=True) - own_ties
    ties = equal[group].reshape(scores.shape) - own_ties
    with np.errstate(invalid="ignore", divide="ignore"):
        won = np.where(np.isnan(ranked) | (met <= 0), np.nan, (below + ties / 2) / met)
    shares = np.empty_like(scores)
    np.put_along_axis(shares, order, won, axis=1)
    return shares


def ratio_win_shares(values: Floats, panel: NDArray[np.bool_] | None = None) -> Floats:
    """Compute win shares on a benchmark whose number is a ratio, such as balanced accuracy: 1/2 plus half the lead.

    A single instance has no score there that could be better or worse than another model's. The mean over instances is
    one half plus half the lead over the mean of the rivals, as it is for right-or-wrong answers.

    Parameters: values, shape (n_models, n), normalized, with the ratios as their means, nan if missing; panel and
    returns, as of `win_shares`.
    """
    present = ~np.isnan(values)
    filled = np.nan_to_num(values)
    members = np.ones(len(values)) if panel is None else panel.astype(float)
    total, met = members @ filled, members @ present
    if panel is None:
        total, met = total - filled, met - present
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(present & (met > 0), 0.5 + (values - total / met) / 2, np.nan)


def guarded_win_shares(shares: Floats, values: Floats) -> Floats:
    """Return win shares among all rivals, a missing value being below all others and equal to another missing one.

    Parameters: shares, shape (n_models, n_benchmarks), against the rivals that have a value; values, alike, nan if
    missing. Returns: the same shape; nan for benchmarks without any value, and throughout if there is a single model.
    """
    n = len(values)
    if n == 1:
        return np.full(values.shape, np.nan)
    present = ~np.isnan(values)
    rivals = np.maximum(present.sum(axis=0) - 1, 0)
    lacking = n - 1 - rivals
    beaten = np.nan_to_num(shares, nan=0.5) * rivals + lacking  # no instance in common: neither won nor lost
    guarded = np.where(present, beaten, (lacking - 1) / 2) / (n - 1)
    return np.where(has_any_value(values), guarded, np.nan)


def has_any_value(values: Floats) -> NDArray[np.bool_]:
    """Return which columns hold any value: shape (n_benchmarks,)."""
    return np.asarray(~np.isnan(values).all(axis=0))


def win_rate_sd(values: Floats, weights: Floats | None = None, panel: NDArray[np.bool_] | None = None) -> Floats:
    """Return the population SD, over rivals, of the share of benchmarks that a model wins strictly.

    Parameters: values, shape (n_models, n_benchmarks). Only benchmarks that both have count, each by its weight; panel,
    shape (n_models,), the rivals; None: all.
    Returns: shape (n_models,); nan for a model that shares no benchmark with any rival.
    """
    rounded = np.round(values, DECIMALS)
    present = ~np.isnan(rounded)
    weights = np.ones(values.shape[1]) if weights is None else weights
    spread = np.full(len(values), np.nan)
    known: dict[bytes, Floats] = {}  # most models have the same benchmarks
    for i in range(len(values)):
        own = present[i].tobytes()
        if own not in known:
            known[own] = (present[i] & present) @ weights
        shared = known[own]
        won = (rounded[i] > rounded) @ weights
        rivals = (shared > 0) if panel is None else (shared > 0) & panel
        rivals[i] = False
        if rivals.any():
            spread[i] = (won[rivals] / shared[rivals]).std()
    return spread


def weighted_sd(values: Floats, weights: Floats) -> float | None:
    """Return the sample SD of weighted values: sum of w (v - m)^2 over W - (sum of w^2) / W, W being the sum of w.

    For equal weights, of whatever size, it is the SD with divisor n - 1: a weight says how much a benchmark counts, and
    does not turn one benchmark into two.
    Parameters: values, shape (n,), without nan. Returns: None for fewer than two.
    """
    if len(values) < 2:
        return None
    total = weights.sum()
    mean = values @ weights / total
    return float(np.sqrt(weights @ (values - mean) ** 2 / (total - weights @ weights / total)))


def competition_ranks(keys: Sequence[object]) -> list[int]:
    """Return the ranks of sorted entries, best first: equal keys share a rank, the next rank is skipped.

    >>> competition_ranks(["a", "b", "b", "c"])
    [1, 2, 2, 4]
    """
    result: list[int] = []
    for place, key in enumerate(keys):
        result.append(result[-1] if place and key == keys[place - 1] else place + 1)
    return result


def tie_groups(apart: NDArray[np.bool_]) -> list[int]:
    """Return groups of models that cannot be separated from the best of the group, numbered from 1.

    Parameters: apart, shape (n_models, n_models), in the order of the ranking.
    """
    groups: list[int] = []
    best = 0
    for i in range(len(apart)):
        if i and apart[best, i]:
            best = i
            groups.append(groups[-1] + 1)
        else:
            groups.append(groups[-1] if groups else 1)
    return groups


def tie_letters(apart: NDArray[np.bool_]) -> list[str]:
    """Return the letters of each model: two models share one if and only if they are not apart.

    This is a compact letter display, by insertion and absorption (Piepho 2004, J. Comput. Graph. Stat. 13). Empty texts
    if the letters of `LETTERS` do not suffice.

    Parameters: apart, shape (n_models, n_models), symmetric, in the order of the ranking.
    """
    n = len(apart)
    rivals = [sum(1 << j for j in np.flatnonzero(row[:i]).tolist()) for i, row in enumerate(apart)]
    groups = [(1 << n) - 1] if n else []  # each group is a set of models, as the bits of a number
    for i, rival in enumerate(rivals):
        if not rival:
            continue
        split = [group for group in groups if group >> i & 1 and group & rival]
        kept = [group for group in groups if not (group >> i & 1 and group & rival)]
        for part in sorted({part for group in split for part in (group & ~(1 << i), group & ~rival)}, reverse=True):
            if not any(part & group == part for group in kept):
                kept = [group for group in kept if group & part != group] + [part]
        groups = kept
        if len(groups) > MOST_GROUPS:
            return [""] * n
    members = sorted([i for i in range(n) if group >> i & 1] for group in _needed_groups(groups))
    if len(members) > len(LETTERS):
        return [""] * n
    return ["".join(LETTERS[place] for place, group in enumerate(members) if i in group) for i in range(n)]


def _needed_groups(groups: Sequence[int]) -> list[int]:
    """Return the groups without those whose pairs of models are all within other groups too."""
    needed = list(groups)
    for group in sorted(groups, key=int.bit_count):
        others = [one for one in needed if one != group]
        places = [i for i in range(group.bit_length()) if group >> i & 1]
        within = [[one for one in others if one >> i & 1] for i in places]
        if all(any(one >> j & 1 for one in own) for place, own in enumerate(within) for j in places[place:]):
            needed = others
    return needed
