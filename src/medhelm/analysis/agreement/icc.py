"""Intraclass correlation: agreement of several raters on the grades of the same instances.

The two-way family of McGraw and Wong (1996, Psychol. Methods 1, with the correction in volume 1, page 390), in the
notation of Shrout and Fleiss (1979, Psychol. Bull. 86). From the mean squares of n instances by k raters:

    3,1   consistency of one rater         (cases - error) / (cases + (k - 1) error)
    3,k   consistency of the mean of k     (cases - error) / cases
    2,1   agreement of one rater           (cases - error) / (cases + (k - 1) error + k (raters - error) / n)

Consistency ignores a constant difference in severity between raters, agreement does not. All forms can be negative,
ICC(3,k) without limit; nothing is truncated at 0. Undefined values are None, with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np

from medhelm.analysis.agreement.raters import require_finite, require_known
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.distributions import f_quantile

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
