"""Reliability of judges and clinicians: grades off the scale, severity, and agreement of one rater with another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.coefficients import require_finite
from medhelm.analysis.means import Clusters, Floats, cluster_codes, spread_of_sum, t_quantile
from medhelm.domain.benchmark import group_by

# --- grades off the scale ---------------------------------------------------------------------------------------------
# Single errors, and raters who used another scale.

WIDE = 20.0
"""Minimum width of a scale on which the use of a much narrower one can be detected."""

ENOUGH = 6
"""Minimum grades of a rater to detect that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A grade as it was given."""

    rater: str
    """Name of the rater."""
    value: float
    """The grade."""
    low: float
    """The lowest grade of the scale it should be on."""
    high: float
    """The highest."""
    line: int
    """Line in the file."""
    column: str
    """Column in the file."""

    @property
    def is_off(self) -> bool:
        """Return True if the grade is off the scale."""
        return not self.low <= self.value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleMismatch:
    """A rater who used another scale."""

    grades: tuple[Grade, ...]
    """All grades of the rater."""
    n_off: int
    """Number of grades off the scale; 0 if the rater used only the lowest tenth of a wide scale."""
    highest_of_others: float
    """Highest grade of all other raters; the lowest of the scale if there are none."""


def scale_mismatches(grades: Sequence[Grade]) -> tuple[list[ScaleMismatch], list[Grade]]:
    """Find raters who used another scale, and all other grades off the scale.

    A rater used another scale if at least a quarter of the grades, and at least two, are off the scale; or if none of
    at least `ENOUGH` grades exceeds the lowest tenth of a scale of at least `WIDE`, while others exceed three tenths.
    """
    by_rater = group_by(grades, lambda grade: grade.rater)
    others, slips = [], []
    for rater, mine in by_rater.items():
        off = [grade for grade in mine if grade.is_off]
        low, high = mine[0].low, mine[0].high
        highest = max((grade.value for grade in grades if grade.rater != rater), default=low)
        width = high - low
        is_narrow = max(grade.value for grade in mine) <= low + 0.1 * width and highest > low + 0.3 * width
        if len(off) >= max(2, len(mine) / 4) or (not off and is_narrow and len(mine) >= ENOUGH and width >= WIDE):
            others.append(ScaleMismatch(grades=tuple(mine), n_off=len(off), highest_of_others=highest))
        else:
            slips += off
    return others, slips


# --- severity ---------------------------------------------------------------------------------------------------------
# Estimate how much clinicians differ in severity, from completions that several of them rated.
#
# Other clinicians would have rated otherwise: an estimate for clinicians in general carries the variance between
# raters, divided by the number of raters. Severities come from a least squares fit of ratings on completions and
# raters; the variance of the severities, less what chance adds to it, is that between raters (method of moments).

LEAST_RATERS = 3
"""Minimum raters for a statement on clinicians in general: a variance from two has one degree of freedom."""

ROUNDING = 1e-9
"""Relative size below which a variance or an eigenvalue is a rounding error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterEffect:
    """Differences in severity between raters, and their effect on a mean rating."""

    n_raters: int
    """Raters whose ratings are part of the mean."""
    deviation: float | None
    """Standard deviation of severity between raters; None if unknown: the mean then holds for these raters only."""
    reach: float
    """Addition to either side of the 95% interval of the mean, in quadrature; 0 if unknown."""


def rater_effect(ratings: Floats, shares: Floats) -> RaterEffect:
    """Estimate the effect of the choice of raters on a mean rating.

    Parameters: ratings, shape (n, R), nan if missing: all ratings that show differences between raters; shares, shape
    (R,), what part of the mean each rater's ratings are.
    Returns: deviation None with fewer than `LEAST_RATERS` raters, and if ratings of the same completions do not connect
    all raters, so that severity cannot be separated from the choice of completions.
    Raises: ValueError for infinite ratings.

    >>> table = np.array([[3, 4, 5], [1, 2, 3], [2, 3, 4], [4, 5, 6.0]])
    >>> found = rater_effect(table, np.full(3, 1 / 3))
    >>> f"{found.deviation:.1f}"
    '1.0'
    """
    table, parts = np.asarray(ratings, dtype=float), np.asarray(shares, dtype=float)
    require_finite(table)
    n_raters = int((parts > 0).sum())
    active = table[:, (~np.isnan(table)).any(axis=0)]
    variance = _variance_between(active) if active.shape[1] >= LEAST_RATERS else None
    if variance is None:
        return RaterEffect(n_raters=n_raters, deviation=None, reach=0.0)
    deviation = math.sqrt(variance)
    error = deviation * math.sqrt(float(parts @ parts))
    return RaterEffect(n_raters=n_raters, deviation=deviation, reach=t_quantile(0.975, active.shape[1] - 1) * error)


def _variance_between(ratings: Floats) -> float | None:
    """Return the variance of severity between raters, at least 0; None if it cannot be estimated."""
    there = ~np.isnan(ratings)
    there = there[there.sum(axis=1) >= 2]
    values = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    n, r = values.shape
    given = there.astype(float)
    n_each = given.sum(axis=1, keepdims=True)
    filled = np.where(there, values, 0.0)
    around = np.where(there, filled - filled.sum(axis=1, keepdims=True) / n_each, 0.0)
    normal = np.diag(given.sum(axis=0)) - (given / n_each).T @ given
    eigenvalues, vectors = np.linalg.eigh(normal)
    usable = eigenvalues > ROUNDING * given.sum()
    freedom = int(given.sum()) - n - r + 1
    if int(usable.sum()) < r - 1 or freedom < 1:
        return None
    inverse = (vectors[:, usable] / eigenvalues[usable]) @ vectors[:, usable].T
    right = around.sum(axis=0)
    severity = inverse @ right
    error: float = max(0.0, float((around**2).sum() - severity @ right)) / freedom
    return max(0.0, float(severity.var(ddof=1) - error * np.trace(inverse) / (r - 1)))


# --- agreement with one rater -----------------------------------------------------------------------------------------
# Estimate agreement of one rater with another, and of a jury with one rater, from all ratings at once.
#
# A rating is the sum of the completion's quality, the rater's severity and an error. The agreement of one rater with
# another, severity set aside, is the share r of quality in the variance, V(quality) / (V(quality) + V(error)), which is
# ICC(3,1). For complete tables the value is the usual one. With missing ratings, both variances come from sums of
# squares of a least squares fit (Henderson 1953, Biometrics 9, method 3; severities as fixed, qualities as random):
# each rating counts once, however few instances two raters share. The mean over pairs of raters has no such property:
# with two shared instances, every correlation is +1 or -1.
#
# Intervals are by jackknife over independent units with Student's t, on a scale on which the estimate is nearly normal:
# log((1 + (k - 1) r) / (1 - r)), k being the mean number of raters. This does not assume normal ratings (Arvesen and
# Layard 1975, Ann. Stat. 3). The coverage measured is in docs/explanation/agreement.md.

LEAST_UNITS = 10
"""Minimum independent units for an interval: with 6 that are nearly all at the end of the scale it covers 81%."""

RATED_AND_SCORED = "with a rating and a score"
"""Instances that show how a jury agrees with raters."""

NO_SPREAD = 1 - 1e-9
"""Agreement above which raters differ by constants only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """Agreement with one rater, with a 95% interval."""

    value: float | None
    """At most 1; 0 for raters who guess; None if undefined."""
    low: float | None
    """Lower end of the interval, or None."""
    high: float | None
    """Upper end of the interval, or None."""
    n: int
    """Instances used."""
    n_raters: int
    """Raters used."""
    reason: str = ""
    """Reason if the value or the interval is None, else empty."""

    @property
    def is_by_chance(self) -> bool:
        """True if agreement better than chance is not shown, although there is an interval."""
        return self.low is not None and self.low <= 0

    def of_mean(self, k: int) -> RaterAgreement:
        """Convert to the mean of k raters (Spearman and Brown): k r / (1 + (k - 1) r).

        >>> one = RaterAgreement(value=0.5, low=0.2, high=0.8, n=20, n_raters=3)
        >>> f"{one.of_mean(2).value:.3f}"
        '0.667'
        """
        value, low, high = (
            None if r is None or 1 + (k - 1) * r <= ROUNDING else k * r / (1 + (k - 1) * r)
            for r in (self.value, self.low, self.high)
        )
        reason = self.reason or ("" if low is not None else "an end of the interval is infinite")
        return RaterAgreement(value=value, low=low, high=high, n=self.n, n_raters=self.n_raters, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryAndRaters:
    """Agreement of a jury with one rater, beside that of one rater with another."""

    jury: RaterAgreement
    """Correlation of the jury with one rater, each rater around the own mean."""
    raters: RaterAgreement
    """Agreement of one rater with another."""
    difference: RaterAgreement
    """The first minus the second; above 0, the jury agrees with a rater better than another rater does."""
    share: RaterAgreement
    """The first divided by the second, with the interval by which a jury is as good as a rater; see `_share`."""


def one_rater_agreement(ratings: Floats, clusters: Clusters = None) -> RaterAgreement:
    """Estimate the agreement of one rater with another, ICC(3,1), from all ratings of an incomplete table.

    Parameters: ratings, shape (n, R), nan if missing; clusters, n names of independent units. Instances with a single
    rating do not show agreement and are left out.

    >>> found = one_rater_agreement(np.array([[9, 2], [6, 1], [8, 4], [7, 1], [10, 5], [6, 2.0]]))
    >>> f"{found.value:.3f} {found.reason}"
    '0.745 6 independent instances with two ratings are too few for an interval: 10 at least'
    """
    return jury_and_raters(ratings, np.full(len(ratings), np.nan), clusters).raters


def correlation_with_raters(ratings: Floats, scores: Floats, clusters: Clusters = None) -> RaterAgreement:
    """Estimate the correlation of scores with ratings, each rater around the own mean: `JuryAndRaters.jury` alone.

    Parameters: ratings, shape (n, R), and scores, shape (n,), finite, nan if missing; clusters, n names or numbers.
    """
    codes, k = cluster_codes(clusters, len(ratings))
    used = ~np.isnan(ratings) & ~np.isnan(scores)[:, None]
    values = _jury_correlations(np.where(used, ratings, np.nan), scores, codes, k)
    return _jackknife(values, used, codes, what=RATED_AND_SCORED, scale=_log_ratio(2.0), freedom=len(ratings))


def jury_and_raters(ratings: Floats, jury: Floats, clusters: Clusters = None) -> JuryAndRaters:
    """Estimate agreement of a jury with one rater, of one rater with another, and the difference of the two.

    Parameters: ratings, shape (n, R), and jury, shape (n,), nan if missing; clusters, n names of independent units.
    Raises: ValueError for infinite ratings or scores.
    """
    ratings, jury = np.asarray(ratings, dtype=float), np.asarray(jury, dtype=float)
    require_finite(ratings)
    require_finite(jury)
    codes, k = cluster_codes(clusters, len(ratings))
    there = ~np.isnan(ratings)
    shared = there & (there.sum(axis=1) >= 2)[:, None]
    scored = there & ~np.isnan(jury)[:, None]
    raters, freedom = _rater_agreements(np.where(shared, ratings, np.nan), codes, k)
    against = _jury_correlations(np.where(scored, ratings, np.nan), jury, codes, k)
    n_each = float(shared.sum() / max(int(shared.any(axis=1).sum()), 1))
    jackknife = partial(_jackknife, codes=codes)
    return JuryAndRaters(
        jury=jackknife(against, scored, what=RATED_AND_SCORED, scale=_log_ratio(2.0), freedom=len(ratings)),
        raters=jackknife(raters, shared, what="with two ratings", scale=_log_ratio(n_each), freedom=freedom),
        difference=jackknife(
            against - raters, shared & scored, what="with two ratings and a score", scale=None, freedom=freedom
        ),
        share=_share(against, raters, np.unique(codes[(shared & scored).any(axis=1)]), freedom, scored),
    )


Scale = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]
"""A scale for intervals: the function from agreement to it, and back."""


def _log_ratio(k: float) -> Scale:
    """Return the scale of Fisher's transformation for k raters: twice the inverse hyperbolic tangent for two."""

    def forth(r: Floats) -> Floats:
        scaled: Floats = np.log((1 + (k - 1) * r) / (1 - r))
        return scaled

    def back(z: Floats) -> Floats:
        # 1 - k / (exp(z) + k - 1), without overflow.
        found: Floats = 1 - k * np.exp(-np.logaddexp(z, np.log(k - 1)))
        return found

    return forth, back


def _jackknife(
    values: Floats, used: NDArray[np.bool_], codes: NDArray[np.intp], *, what: str, scale: Scale | None, freedom: int
) -> RaterAgreement:
    """Compute the interval of an estimate.

    Parameters: values, shape (1 + k,), from all units, then without each; used, shape (n, R), ratings in the estimate;
    codes, shape (n,), units; what instances need, for the reason; freedom, degrees of freedom, if fewer than units
    minus 1.
    """
    n, n_raters = int(used.any(axis=1).sum()), int(used.any(axis=0).sum())
    units = np.unique(codes[used.any(axis=1)])
    value, without, m = float(values[0]), values[1:][units], len(units)

    def found(low: float | None = None, high: float | None = None, reason: str = "") -> RaterAgreement:
        defined = value if np.isfinite(value) else None
        return RaterAgreement(value=defined, low=low, high=high, n=n, n_raters=n_raters, reason=reason)

    if n < 2:
        return found(reason=f"{n} instances {what} are too few")
    if not np.isfinite(value):
        return found(reason=f"ratings or scores of the {n} instances {what} do not vary, or no rater compares two")
    if m < LEAST_UNITS:
        return found(reason=f"{m} independent instances {what} are too few for an interval: {LEAST_UNITS} at least")
    if scale and value >= NO_SPREAD:
        return found(reason="ratings differ by constants only, which leaves no variance for an interval")
    with np.errstate(divide="ignore", invalid="ignore"):
        forth, back = scale or (np.copy, np.copy)
        center, others = float(forth(values[:1])[0]), forth(without)
    if not np.isfinite(others).all():
        return found(reason="the value is undefined without one of the instances")
    error = float(np.sqrt((m - 1) / m * ((others - others.mean()) ** 2).sum()))
    reach = t_quantile(0.975, max(min(m - 1, freedom), 1)) * error
    low, high = back(np.array([center - reach, center + reach]))
    return found(float(low), float(high))


def _share(
    against: Floats, raters: Floats, units: NDArray[np.intp], freedom: int, scored: NDArray[np.bool_]
) -> RaterAgreement:
    """Compute what share of the agreement of two raters the agreement of the jury with one of them is.

    A share s is in the interval unless arctanh(jury) - arctanh(s * raters) differs from 0. Both correlations are large
    in the same samples, in which the jackknife's standard error is too small: so the skewness of the difference counts
    (Hall 1992), and only a third of the degrees of freedom. Without that, 6% of juries at a limit seem to be above it
    with 30 completions, instead of 2.5%.

    Parameters: against and raters, shape (1 + k,), from all units, then without each; units, those with data.
    """
    n, n_raters, m = int(scored.any(axis=1).sum()), int(scored.any(axis=0).sum()), len(units)
    value = float(against[0] / raters[0]) if raters[0] > 0 else None
    known = np.concatenate([[0], 1 + units])
    jury, among = against[known], raters[known]
    reason = ""
    if value is None or not np.isfinite(value) or not (np.isfinite(jury).all() and (among > 0).all()):
        value, reason = None, "raters do not agree with each other in every part of the ratings"
    elif m < LEAST_UNITS:
        reason = f"{m} independent instances are too few for an interval: {LEAST_UNITS} at least"
    elif max(float(np.abs(jury).max()), float(among.max())) >= NO_SPREAD:
        reason = "ratings or scores differ by constants only"
    if reason:
        return RaterAgreement(value=value, low=None, high=None, n=n, n_raters=n_raters, reason=reason)
    df = max(min(m - 1, freedom) / 3, 1.0)

    def limits(share: float) -> tuple[float, float]:
        found = np.arctanh(jury) - np.arctanh(share * among)
        parts = (found[1:].mean() - found[1:]) * (m - 1) / m
        if np.abs(parts).max() < ROUNDING:
            return float(found[0]), float(found[0])
        spread = spread_of_sum(parts, df=df)
        return float(found[0]) - spread.below, float(found[0]) + spread.above

    most = NO_SPREAD / float(among.max())
    low, high = _last(lambda share: limits(share)[0] > 0, most), _last(lambda share: limits(share)[1] > 0, most)
    return RaterAgreement(value=value, low=low, high=high, n=n, n_raters=n_raters)


def _last(holds: Callable[[float], bool], most: float) -> float:
    """Return the greatest number from 0 to `most` up to which a condition holds; 0 if it does not hold there."""
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _rater_agreements(ratings: Floats, codes: NDArray[np.intp], k: int) -> tuple[Floats, int]:
    """Estimate the share of quality in the variance: shape (1 + k,), from all units, then without each; nan for none.

    Also returns the degrees of freedom of the error. Sums of squares are sums over instances, so that all leave-one-out
    estimates take one pass. Instances are eliminated first, which leaves normal equations for the raters alone.
    """
    there = ~np.isnan(ratings)
    if not there.any():
        return np.full(1 + k, np.nan), 0
    r = ratings.shape[1]
    given = there.astype(float)
    n_each = np.maximum(given.sum(axis=1, keepdims=True), 1)
    values = np.where(there, ratings - np.nanmean(ratings), 0.0)
    around = np.where(there, values - values.sum(axis=1, keepdims=True) / n_each, 0.0)
    links = given[:, :, None] * (np.eye(r) - given[:, None, :] / n_each[:, :, None])
    used = there.any(axis=1, keepdims=True).astype(float)
    columns = (given, values, values**2, around, around**2, used, links.reshape(-1, r * r))
    sums = _leave_one_out_sums(np.concatenate(columns, axis=1), codes, k)
    counts, totals, squares, right, within, n, normal = np.split(sums, np.cumsum([r, r, r, r, r, 1]), axis=1)
    n = n[:, 0]
    n_ratings = counts.sum(axis=1)
    between_raters = np.divide(totals**2, counts, out=np.zeros_like(totals), where=counts > 0.5).sum(axis=1)
    eigenvalues, vectors = np.linalg.eigh(normal.reshape(-1, r, r))
    projected = np.einsum("urs,ur->us", vectors, right)
    usable = eigenvalues > ROUNDING * n_ratings[:, None]
    explained = np.divide(projected**2, eigenvalues, out=np.zeros_like(projected), where=usable).sum(axis=1)
    rank, raters = usable.sum(axis=1), (counts > 0.5).sum(axis=1)
    residual = within.sum(axis=1) - explained
    residual = np.where(residual < ROUNDING * squares.sum(axis=1), 0.0, residual)
    freedom = n_ratings - n - rank
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(freedom > 0.5, residual / freedom, np.nan)
        cases = squares.sum(axis=1) - between_raters - residual
        quality = (cases - (n - (raters - rank)) * error) / (n_ratings - raters)
        total = quality + error
        share: Floats = np.where(total > ROUNDING * squares.sum(axis=1) / n_ratings, quality / total, np.nan)
    return share, round(float(freedom[0]))


def _jury_correlations(ratings: Floats, jury: Floats, codes: NDArray[np.intp], k: int) -> Floats:
    """Correlate the jury with ratings, both around the mean of each rater: shape (1 + k,), nan for none."""
    there = ~np.isnan(ratings)
    if not there.any():
        return np.full(1 + k, np.nan)
    y = np.where(there, ratings - np.nanmean(ratings), 0.0)
    f = np.where(there, (jury - np.nanmean(jury))[:, None], 0.0)
    columns = (there.astype(float), y, f, y * y, f * f, y * f)
    sums = _leave_one_out_sums(np.concatenate(columns, axis=1), codes, k)
    n, sum_y, sum_f, sum_yy, sum_ff, sum_yf = np.split(sums, 6, axis=1)

    def around(products: Floats, left: Floats, right: Floats) -> Floats:
        shift = np.divide(left * right, n, out=np.zeros_like(n), where=n > 0.5)
        summed: Floats = (products - shift).sum(axis=1)
        return summed

    yy, ff, yf = around(sum_yy, sum_y, sum_y), around(sum_ff, sum_f, sum_f), around(sum_yf, sum_y, sum_f)
    varies = (yy > ROUNDING * sum_yy.sum(axis=1)) & (ff > ROUNDING * sum_ff.sum(axis=1))
    found: Floats = np.divide(yf, np.sqrt(np.maximum(yy * ff, 0)), out=np.full(len(n), np.nan), where=varies)
    return found


def _leave_one_out_sums(rows: Floats, codes: NDArray[np.intp], k: int) -> Floats:
    """Sum rows over all units, then over all but each unit: shape (1 + k, columns)."""
    sums = np.zeros((k, rows.shape[1]))
    np.add.at(sums, codes, rows)
    total = sums.sum(axis=0)
    return np.concatenate([total[None], total - sums])
