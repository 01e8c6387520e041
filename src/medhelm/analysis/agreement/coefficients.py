"""Coefficients of agreement: correlations, intraclass correlations, kappa and alpha, and their means over pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Protocol, TypeVar, get_args

import numpy as np

from medhelm.analysis.means import Z95, Floats, f_quantile
from medhelm.domain.text import listed

# --- correlations -----------------------------------------------------------------------------------------------------
# Correlation of two raters, by grades and by ranks, with Fisher's interval.

PERFECT = 1 - 1e-12
"""Correlation above which points lie on a line but for rounding errors."""


def pearson(x: Floats, y: Floats) -> Coefficient:
    """Compute the product-moment correlation with Fisher's 95% interval: z has the standard error 1 / sqrt(n - 3).

    Parameters: x and y, shape (n,), nan if missing; pairs with a nan are left out and counted.
    Returns: value -1..1, None for fewer than two pairs or if one side is constant. No interval for fewer than four
    pairs or for points on a line.
    """
    return _correlation(x, y, ranked=False)


def spearman(x: Floats, y: Floats) -> Coefficient:
    """Compute the rank correlation, ties getting their average rank, with Fisher's 95% interval.

    The standard error of the z-transform is sqrt((1 + r^2 / 2) / (n - 3)) (Bonett and Wright 2000, Psychometrika 65),
    meant for continuous values; for grades with many ties see `bootstrap_statistic`.

    Parameters and returns: as for `pearson`.

    >>> found = spearman(np.arange(8.0), np.array([2, 1, 4, 3, 6, 5, 8, 7.0]))
    >>> f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
    '0.905 (0.428 to 0.988)'
    """
    return _correlation(x, y, ranked=True)


def resampled_spearman(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Compute the rank correlation of many resamples at once.

    Parameters: x and y, shape (n,), without nan; counts, shape (m, n), how often each resample drew each pair.
    Returns: shape (m,), nan where one side is constant.
    """
    n = counts.sum(axis=1, keepdims=True)
    left, right = (_ranks_from_their_mean(side, counts, n) for side in (x, y))
    product, squares = (counts * left * right).sum(axis=1), (counts * left**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = product / np.sqrt(squares * (counts * right**2).sum(axis=1))
    return np.clip(found, -1, 1)


def _ranks_from_their_mean(values: Floats, counts: Floats, n: Floats) -> Floats:
    """Return each value's average rank among the n drawn ones of each resample, less the mean of those ranks."""
    order = np.argsort(values)
    _, first, codes = np.unique(values[order], return_index=True, return_inverse=True)
    of_each = np.add.reduceat(counts[:, order], first, axis=1)
    ranks = np.empty(counts.shape)
    ranks[:, order] = (np.cumsum(of_each, axis=1) - (of_each + n) / 2)[:, codes]
    return ranks


def average_ranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share the mean of their ranks.

    >>> average_ranks(np.array([30.0, 10.0, 30.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    ordered = np.sort(values)
    ranks: Floats = (np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right") + 1) / 2
    return ranks


def _correlation(x: Floats, y: Floats, *, ranked: bool) -> Coefficient:
    """Compute either correlation: Spearman's is Pearson's of the ranks."""
    both = np.stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
    there = ~np.isnan(both).any(axis=0)
    left, right = both[:, there]
    n, left_out = len(left), int((~there).sum())
    if n < 2:
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="needs at least two instances")
    for side in (left, right):
        if side.min() == side.max():
            return Coefficient(value=None, n=n, n_left_out=left_out, reason=f"one side is {side[0]:g} throughout")
    if ranked:
        left, right = average_ranks(left), average_ranks(right)
    left, right = left - left.mean(), right - right.mean()  # np.corrcoef takes three times as long, and draws are many
    value = float(np.clip(left @ right / math.sqrt((left @ left) * (right @ right)), -1, 1))
    if n < 4:
        reason = f"{n} instances are too few for an interval"
        return Coefficient(value=value, n=n, n_left_out=left_out, reason=reason)
    if abs(value) > PERFECT:
        reason = "a perfect correlation has no interval by this formula"
        return Coefficient(value=value, n=n, n_left_out=left_out, reason=reason)
    half = Z95 * math.sqrt((1 + (value**2 / 2 if ranked else 0)) / (n - 3))
    low, high = math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)
    return Coefficient(value=value, low=low, high=high, n=n, n_left_out=left_out)


# --- intraclass correlations ------------------------------------------------------------------------------------------
# Agreement of several raters on the grades of the same instances.
#
# The two-way family of McGraw and Wong (1996, Psychol. Methods 1, with the correction in volume 1, page 390), in the
# notation of Shrout and Fleiss (1979, Psychol. Bull. 86). From the mean squares of n instances by k raters:
#
#     3,1   consistency of one rater         (cases - error) / (cases + (k - 1) error)
#     3,k   consistency of the mean of k     (cases - error) / cases
#     2,1   agreement of one rater           (cases - error) / (cases + (k - 1) error + k (raters - error) / n)
#
# Consistency ignores a constant difference in severity between raters, agreement does not. All forms can be negative,
# ICC(3,k) without limit; nothing is truncated at 0. Undefined values are None, with a reason.

Form = Literal["3,k", "3,1", "2,1"]
"""Form of the coefficient: consistency (3) or absolute agreement (2), of one rater (1) or the mean of k raters."""

FORMS: tuple[Form, ...] = get_args(Form)
"""All of them."""

ROUNDING = 1e-12
"""Relative size below which a result is a rounding error."""

Ends = tuple[float | None, float | None, str]
"""Lower and upper end of an interval, None if undefined, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Icc:
    """An intraclass correlation with its 95% interval and what it was computed from."""

    form: Form
    """Form of the coefficient."""
    value: float | None
    """At most 1, without lower limit; None if undefined."""
    low: float | None
    """Lower end of the interval, which can be far below 0; None if undefined."""
    high: float | None
    """Upper end of the interval; None if undefined."""
    n: int
    """Instances that all raters have rated: the only ones used."""
    k: int
    """Raters."""
    n_left_out: int
    """Instances left out because a rating is missing."""
    ms_cases: float | None = None
    """Mean square between instances, in squared grades."""
    ms_raters: float | None = None
    """Mean square between raters."""
    ms_error: float | None = None
    """Residual mean square, not explained by instances or raters."""
    reason: str = ""
    """Reason if the value or an end of the interval is None, else empty."""


def icc(ratings: Floats, form: Form = "3,k") -> Icc:
    """Compute the intraclass correlation of a table of ratings, with a 95% interval.

    The interval of consistency is exact for normal ratings (Shrout and Fleiss 1979), that of agreement rests on
    Satterthwaite's approximation (McGraw and Wong 1996).

    Parameters: ratings, shape (n, k), nan where a rating is missing; instances with a missing rating are left out.
    Returns: value None for fewer than two instances or raters, if all ratings are equal, and if raters contradict each
    other so much that the denominator of the coefficient is not positive. Ends of the interval are None if ratings
    leave no residual, and if instances do not differ.
    Raises: ValueError for another form, unless `ratings` has two axes, and for infinite ratings.

    >>> found = icc(np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]))
    >>> f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
    '0.909 (0.676 to 0.986)'
    """
    require_known("form", form, FORMS)
    given = np.asarray(ratings, dtype=float)
    if given.ndim != 2:
        raise ValueError(f"ratings are a table of instances by raters, not of shape {given.shape}")
    require_finite(given)
    table = given[~np.isnan(given).any(axis=1)]
    n, k = table.shape
    left_out = len(given) - n
    if n < 2 or k < 2:
        reason = f"needs at least two instances rated by at least two raters, all of them: here {n} by {k}"
        return Icc(form=form, value=None, low=None, high=None, n=n, k=k, n_left_out=left_out, reason=reason)
    squares = _mean_squares(table)
    value, problem = _value(squares, form)
    low, high, missing = (None, None, problem) if value is None else _interval(squares, form)
    return Icc(
        form=form,
        value=value,
        low=low,
        high=high,
        n=n,
        k=k,
        n_left_out=left_out,
        ms_cases=squares.cases,
        ms_raters=squares.raters,
        ms_error=squares.error,
        reason=missing,
    )


def resampled_icc(ratings: Floats, counts: Floats, form: Form = "3,k") -> Floats:
    """Compute the intraclass correlation of many resamples at once, without the intervals of `icc`.

    Parameters: ratings, shape (n, k), finite, without nan; counts, shape (m, n), how often each resample drew each
    instance.
    Returns: shape (m,), nan where `icc` has no value. Raises: ValueError for another form.
    """
    require_known("form", form, FORMS)
    n, k = counts.sum(axis=1), ratings.shape[1]
    cases, raters, error = _resampled_mean_squares(ratings, counts)
    above, below = _numerator_and_denominator(form, n, k, cases, raters, error)
    usable = (n > 1) & (k > 1) & (below > ROUNDING * np.maximum(np.maximum(cases, raters), error))
    found: Floats = np.divide(above, below, out=np.full(len(n), np.nan), where=usable)
    return found


@dataclass(frozen=True, slots=True)
class _Squares:
    """Mean squares of a complete table of n instances by k raters."""

    n: int
    k: int
    cases: float
    raters: float
    error: float


def _mean_squares(table: Floats) -> _Squares:
    """Compute the two-way analysis of variance."""
    n, k = table.shape
    cases, raters, error = _resampled_mean_squares(table, np.ones((1, n)))
    return _Squares(n, k, float(cases[0]), float(raters[0]), float(error[0]))


def _resampled_mean_squares(table: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute the mean squares of instances, raters and error of each resample; mere rounding errors are 0."""
    n, k = counts.sum(axis=1), table.shape[1]
    centered = table - table.mean()
    means = centered.mean(axis=1)
    within = centered - means[:, None]
    by_case = means - (counts @ means / n)[:, None]
    by_rater = counts @ within / n[:, None]
    residual = within - by_rater[:, None, :]
    nothing = n * k * (ROUNDING * float(np.abs(table).max())) ** 2

    def mean_square(total: Floats, freedom: Floats | int) -> Floats:
        return np.divide(total, freedom, out=np.zeros(len(n)), where=total > nothing)

    return (
        mean_square(k * (counts * by_case**2).sum(axis=1), n - 1),
        mean_square(n * (by_rater**2).sum(axis=1), k - 1),
        mean_square(np.einsum("mn,mnk->m", counts, residual**2), (n - 1) * (k - 1)),
    )


def _value(of: _Squares, form: Form) -> tuple[float | None, str]:
    """Return the coefficient, or None and the reason why it is undefined."""
    above, below = _numerator_and_denominator(form, of.n, of.k, of.cases, of.raters, of.error)
    largest = max(of.cases, of.raters, of.error)
    if largest == 0:
        return None, "all ratings are the same"
    if below > ROUNDING * largest:
        return above / below, ""
    if of.error == 0:
        return None, "every rater gives all instances the same grade"
    return None, "raters contradict each other so much that the denominator is not positive"


Number = TypeVar("Number", float, Floats)


def _numerator_and_denominator(
    form: Form, n: Number, k: int, cases: Number, raters: Number, error: Number
) -> tuple[Number, Number]:
    """Return both sides of the coefficient's formula, from mean squares."""
    below = cases
    if form != "3,k":
        below = below + (k - 1) * error
    if form == "2,1":
        below = below + k * (raters - error) / n
    return cases - error, below


def _interval(of: _Squares, form: Form) -> Ends:
    """Compute the ends of the 95% interval of a defined coefficient."""
    if of.cases == 0:
        return None, None, "instances do not differ, so the interval is undefined"
    return _agreement_interval(of) if form == "2,1" else _consistency_interval(of, form)


def _consistency_interval(of: _Squares, form: Form) -> Ends:
    """Compute the ends for ICC(3,1) and ICC(3,k): up to a factor, the ratio of mean squares has an F distribution."""
    if of.error == 0:
        return None, None, "raters differ by constants only, which leaves no residual for an interval"
    across, within = of.n - 1, (of.n - 1) * (of.k - 1)
    ratio = of.cases / of.error
    least = ratio / f_quantile(0.975, across, within)
    most = ratio * f_quantile(0.975, within, across)
    if form == "3,k":
        return 1 - 1 / least, 1 - 1 / most, ""
    return (least - 1) / (least + of.k - 1), (most - 1) / (most + of.k - 1), ""


def _agreement_interval(of: _Squares) -> Ends:
    """Compute the ends for ICC(2,1), by Satterthwaite's degrees of freedom of a weighted sum of two mean squares."""
    n, k = of.n, of.k
    single, _ = _value(of, "2,1")
    if single is None or single == 1:
        return None, None, "raters agree completely, which leaves no variance for an interval"
    for_raters = k * single * of.raters
    for_error = (n * (1 - single) + k * single * (n - 1)) * of.error
    freedom = (for_raters + for_error) ** 2 / (for_raters**2 / (k - 1) + for_error**2 / ((n - 1) * (k - 1)))
    if freedom < 1:  # fewer than any mean square has: the two weights differ in sign
        return None, None, "the approximation behind the interval breaks down at so negative a value"
    noise = k * of.raters + (k * n - k - n) * of.error
    least, most = f_quantile(0.975, n - 1, freedom), f_quantile(0.975, freedom, n - 1)
    low = n * (of.cases / least - of.error) / (noise + n * of.cases / least)
    high = n * (most * of.cases - of.error) / (noise + n * most * of.cases)
    return low, high, ""


# --- kappa and alpha --------------------------------------------------------------------------------------------------
# Agreement beyond chance: weighted kappa and Krippendorff's alpha.
#
# Both compare the observed disagreement with the disagreement expected by chance, and differ in the definition of
# chance. Kappa keeps each rater's distribution of grades; alpha pools the grades of all raters. If nearly all instances
# get the same grade, both are small or undefined although raters nearly always agree.
#
# Grades are numbers. The disagreement of two grades depends on their distance, not on the number of grades in between.

Weights = Literal["quadratic", "none"]
"""Growth of disagreement with the distance of two grades; with `none`, all different grades disagree equally."""

Level = Literal["nominal", "ordinal", "interval"]
"""Level of measurement of the grades."""


def weighted_kappa(a: Floats, b: Floats, *, weights: Weights = "quadratic") -> Coefficient:
    """Compute the weighted kappa of two raters (Cohen 1968, Psychol. Bull. 70); `none` is Cohen's kappa of 1960.

    Parameters: a and b, shape (n,), grades, nan if missing; instances with a nan are left out and counted.
    Returns: value at most 1; None for fewer than two instances, and if both raters give the same grade to all.
    For more than two raters use `average_over_pairs`; for an interval `bootstrap_statistic`.
    Raises: ValueError for other weights, and for an infinite grade.

    >>> weighted_kappa(np.array([1, 2, 3, 4, 5.0]), np.array([1, 2, 3, 5, 4.0])).value
    0.9
    """
    require_known("weights", weights, get_args(Weights))
    both = np.stack([np.asarray(a, dtype=float), np.asarray(b, dtype=float)])
    require_finite(both)
    there = ~np.isnan(both).any(axis=0)
    n, left_out = int(there.sum()), int((~there).sum())
    if n < 2:
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="needs at least two instances")
    left, right = both[:, there]
    value = float(resampled_kappa(left, right, np.ones((1, n)), weights=weights)[0])
    if math.isnan(value):
        reason = f"both raters give {left[0]:g} to every instance"
        return Coefficient(value=None, n=n, n_left_out=left_out, reason=reason)
    return Coefficient(value=value, n=n, n_left_out=left_out)


def resampled_kappa(a: Floats, b: Floats, counts: Floats, *, weights: Weights = "quadratic") -> Floats:
    """Compute the weighted kappa of many resamples at once.

    Parameters: a and b, shape (n,), finite grades, nan if missing; counts, shape (m, n), how often each resample drew
    each instance.
    Returns: shape (m,), nan where `weighted_kappa` has no value.
    """
    require_known("weights", weights, get_args(Weights))
    there = ~np.isnan(a) & ~np.isnan(b)
    a, b, counts = a[there], b[there], counts[:, there]
    n = counts.sum(axis=1)
    grades = np.unique(np.concatenate([a, b]))
    left, right = (counts @ (side[:, None] == grades).astype(float) for side in (a, b))
    observed = counts @ _distance(a, b, weights) * n
    expected = ((left @ _distance(grades[:, None], grades, weights)) * right).sum(axis=1)
    usable = (n > 1) & (expected > 0)
    found: Floats = np.divide(expected - observed, expected, out=np.full(len(n), np.nan), where=usable)
    return found


def krippendorff_alpha(ratings: Floats, level: Level = "ordinal") -> Coefficient:
    """Compute Krippendorff's alpha for any number of raters and missing ratings (Hayes and Krippendorff 2007).

    Disagreement of two grades: nominal, whether they differ; ordinal, the squared number of ratings between them, which
    is the squared difference of their average ranks; interval, the squared difference.

    Parameters: ratings, shape (n, k), nan where a rating is missing; level, what grades mean.
    Returns: value at most 1; None unless an instance has two ratings, and if all ratings are the same. `n` counts the
    instances with two ratings; no others enter.
    Raises: ValueError for another level, and for infinite ratings.

    >>> table = np.array([[1, 1], [2, 2], [3, 3], [4, 5], [np.nan, 5]])
    >>> found = krippendorff_alpha(table, "interval")
    >>> f"{found.value:.3f} of {found.n}"
    '0.937 of 4'
    """
    require_known("level", level, get_args(Level))
    table = np.asarray(ratings, dtype=float)
    require_finite(table)
    given = (~np.isnan(table)).sum(axis=1)
    paired = table[given >= 2]
    n, left_out = len(paired), int((given < 2).sum())
    if n == 0:
        return Coefficient(value=None, n=0, n_left_out=left_out, reason="no instance has two ratings")
    value = float(resampled_alpha(paired, np.ones((1, n)), level)[0])
    if math.isnan(value):
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="all ratings are the same")
    return Coefficient(value=value, n=n, n_left_out=left_out)


def resampled_alpha(ratings: Floats, counts: Floats, level: Level = "ordinal") -> Floats:
    """Compute Krippendorff's alpha of many resamples at once.

    The squared differences of all pairs among n values sum to n times the sum of their squares, less the square of
    their sum: of the ratings of one instance that is the observed disagreement, of all ratings the expected one.

    Parameters: ratings, shape (n, k), finite, nan where a rating is missing; counts, shape (m, n), how often each
    resample drew each instance.
    Returns: shape (m,), nan where `krippendorff_alpha` has no value.
    """
    require_known("level", level, get_args(Level))
    given = (~np.isnan(ratings)).sum(axis=1)
    paired, counts, given = ratings[given > 1], counts[:, given > 1], given[given > 1]
    if not len(paired):
        return np.full(len(counts), np.nan)
    n = counts @ given
    within, between = np.zeros((2, len(counts)))
    for sums, squares in _sums_of_ratings(paired, counts, level):
        within += (counts * (given * squares - sums**2) / (given - 1)).sum(axis=1)
        between += n * (counts * squares).sum(axis=1) - (counts * sums).sum(axis=1) ** 2
    drawn = counts > 0
    lowest = np.where(drawn, np.nanmin(paired, axis=1), np.inf).min(axis=1)
    highest = np.where(drawn, np.nanmax(paired, axis=1), -np.inf).max(axis=1)
    disagreement: Floats = np.divide(within * (n - 1), between, out=np.full(len(n), np.nan), where=lowest < highest)
    return 1 - disagreement


def _sums_of_ratings(paired: Floats, counts: Floats, level: Level) -> Iterator[tuple[Floats, Floats]]:
    """Yield the sums of each instance's ratings and of their squares, so expressed that they differ by the level.

    Nominal: for each grade, whether it was given; ordinal: ranks, of shape (m, n); interval: the ratings. Ranks and
    ratings are counted from their mean, so that sums of squares do not lose digits.
    """
    if level == "interval":
        ratings = paired - np.nanmean(paired)
        yield np.nansum(ratings, axis=1), np.nansum(ratings**2, axis=1)
        return
    grades = np.unique(paired[~np.isnan(paired)])
    times = np.stack([(paired == grade).sum(axis=1) for grade in grades]).astype(float)
    if level == "nominal":
        yield from zip(times, times, strict=True)
        return
    of_each = counts @ times.T
    ranks = np.cumsum(of_each, axis=1) - (of_each + of_each.sum(axis=1, keepdims=True)) / 2
    yield ranks @ times, ranks**2 @ times


def _distance(a: Floats, b: Floats, weights: Weights) -> Floats:
    """Return the disagreement of grades, element by element."""
    return (a != b).astype(float) if weights == "none" else (a - b) ** 2


# --- pairs of raters --------------------------------------------------------------------------------------------------
# Check ratings, and average coefficients over pairs of raters.

LEAST_SHARED = 2
"""Minimum number of instances that two raters must share to count as a pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """A measure of agreement or of correlation."""

    value: float | None
    """At most 1; None where it is undefined."""
    n: int
    """Number of instances used."""
    n_left_out: int
    """Instances left out because ratings are missing."""
    low: float | None = None
    """Lower end of the 95% interval; None if not computed."""
    high: float | None = None
    """Upper end of the 95% interval, or None."""
    reason: str = ""
    """Reason why the value or its interval is None, else empty."""


def require_finite(ratings: Floats) -> None:
    """Raise ValueError if a rating is infinite; nan is a missing rating.

    >>> require_finite(np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ValueError: 1 of 2 ratings is infinite: ratings must be finite numbers, or nan if missing
    """
    infinite = int(np.isinf(ratings).sum())
    if infinite:
        count = f"{infinite} of {np.size(ratings)} ratings {'is' if infinite == 1 else 'are'} infinite"
        raise ValueError(f"{count}: ratings must be finite numbers, or nan if missing")


def require_scale(low: float, high: float) -> None:
    """Raise ValueError unless a scale has two finite ends, the lower one first."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"a scale needs finite ends, the lowest first, not {low:g} and {high:g}")


def require_known(name: str, value: str, known: Sequence[str]) -> None:
    """Raise ValueError unless a form of a coefficient is one that is computed.

    >>> require_known("form", "2,k", ("3,k", "3,1"))
    Traceback (most recent call last):
    ValueError: form `2,k` is not computed: choose one of 3,k and 3,1
    """
    if value not in known:
        raise ValueError(f"{name} `{value}` is not computed: choose one of {listed(known)}")


class Measure(Protocol):
    """Result with a value or the reason for its absence, such as `Coefficient` and `Icc`."""

    @property
    def value(self) -> float | None:
        """The number, or None."""

    @property
    def reason(self) -> str:
        """Reason if there is no value, else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterPair:
    """Agreement of two raters on the instances that both rated."""

    first: int
    """Column of one rater."""
    second: int
    """Column of the other."""
    n: int
    """Number of instances that both rated."""
    value: float | None
    """The coefficient of the pair; None if undefined."""
    reason: str = ""
    """Reason if there is no value, else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseCoefficient:
    """Unweighted mean of a coefficient over all pairs of raters for which it is defined."""

    value: float | None
    """Mean over the pairs with a value; None if no pair has one."""
    n_pairs: int
    """Pairs with a value."""
    pairs: tuple[RaterPair, ...]
    """All pairs that share an instance, including those without a value, in the order of their columns."""


def average_over_pairs(ratings: Floats, measure: Callable[[Floats], Measure]) -> PairwiseCoefficient:
    """Measure every pair of raters on the instances that both rated, and average.

    Parameters: ratings, shape (n, k), nan where a rating is missing; measure, of a complete table of shape (m, 2).
    Returns: pairs without any shared instance are not listed; pairs with fewer than `LEAST_SHARED` are, with a reason.
    For an interval of the mean, resample the rows of `ratings`: see `bootstrap_statistic`.

    >>> from medhelm.analysis.agreement.coefficients import pearson
    >>> table = np.array([[1.0, 2.0, 5.0], [2.0, 4.0, np.nan], [3.0, 9.0, np.nan]])
    >>> found = average_over_pairs(table, lambda both: pearson(both[:, 0], both[:, 1]))
    >>> f"{found.value:.3f} from {found.n_pairs} of {len(found.pairs)}; {found.pairs[1].reason}"
    '0.971 from 1 of 3; shares 1 instance of the 2 needed'
    """
    table = np.asarray(ratings, dtype=float)
    there = ~np.isnan(table)
    found: list[RaterPair] = []
    for first, second in combinations(range(table.shape[1]), 2):
        shared = there[:, first] & there[:, second]
        n = int(shared.sum())
        if n == 0:
            continue
        if n < LEAST_SHARED:
            reason = f"shares {n} instance of the {LEAST_SHARED} needed"
            found.append(RaterPair(first=first, second=second, n=n, value=None, reason=reason))
            continue
        measured = measure(table[shared][:, [first, second]])
        reason = "" if measured.value is not None else measured.reason
        found.append(RaterPair(first=first, second=second, n=n, value=measured.value, reason=reason))
    values = [pair.value for pair in found if pair.value is not None]
    return PairwiseCoefficient(
        value=float(np.mean(values)) if values else None,
        n_pairs=len(values),
        pairs=tuple(found),
    )
