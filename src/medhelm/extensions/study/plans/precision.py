"""The precision of a model's mean grade that a study can reach, from the spread of grades in its store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.agreement.reliability import LEAST_RATERS, rater_effect
from medhelm.analysis.means import Floats, t_quantile
from medhelm.domain import JURY, Run
from medhelm.extensions.study.instruments import RUBRIC
from medhelm.extensions.study.types import Instrument, InstrumentForm
from medhelm.storage.ratings import StoredRatings, stored_ratings
from medhelm.storage.run_scores import read_scores
from medhelm.storage.store import Store

LEAST_GRADES = 10
"""Completions of a model that show the spread of its grades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviations of grades, from which the precision of a mean follows."""

    between_instances: float
    """Of the quality of a model's completions."""
    residual: float
    """Of one rating around the quality of the completion and the severity of the rater."""
    between_raters: float
    """Of the severity of raters."""
    source: str = ""
    """Its source, in words."""


USUAL_SPREAD = (0.2, 0.15, 0.06)
"""Deviation between instances, of one rating, and between raters, as shares of the scale: of 1 to 5, 0.8, 0.6, 0.24."""


def usual_spread(low: float, high: float) -> Spread:
    """Return the deviations to expect on a scale if nothing is known.

    >>> usual_spread(1, 5).between_instances
    0.8
    """
    between, residual, raters = (share * (high - low) for share in USUAL_SPREAD)
    return Spread(between_instances=between, residual=residual, between_raters=raters, source="usual values")


def half_width(spread: Spread, n_cases: int, n_raters: int, *, shared: float = 0.0, n_each: int = 2) -> float:
    """Return the expected half-width of the 95% interval of a model's mean grade.

    The variance of the mean over n cases is (b^2 + e^2 (1 - s + s / k)) / n: b between instances, e of one rating, s
    the share of cases with k raters. Raters who all rate as many cases of the model add v^2 / R, v being the deviation
    of their severity and R their number. Both are multiplied with their quantile of Student's t, with n - 1 and R - 1
    degrees of freedom, and added in quadrature, as in the interval of the leaderboard.

    Parameters: n_cases, of the model, at least 2; n_raters, 0 to leave out differences between raters, which do not
    affect comparisons of models; shared, share of cases that `n_each` raters rate.
    """
    per_case = spread.between_instances**2 + spread.residual**2 * (1 - shared + shared / n_each)
    reach = t_quantile(0.975, n_cases - 1) * math.sqrt(per_case / n_cases)
    return math.hypot(reach, rater_reach(spread, n_raters, shared=shared))


def rater_reach(spread: Spread, n_raters: int, *, shared: float) -> float:
    """Return the part of the half-width that more cases cannot reduce.

    It is 0 if the ratings cannot show differences between raters: too few raters, or no shared case. The mean then
    holds for these raters only.
    """
    if n_raters < LEAST_RATERS or shared <= 0:
        return 0.0
    return t_quantile(0.975, n_raters - 1) * spread.between_raters / math.sqrt(n_raters)


def cases_for_precision(
    wanted: float, spread: Spread, n_raters: int, *, shared: float = 0.0, n_each: int = 2, most: int = 100_000
) -> int | None:
    """Return the fewest cases of a model whose mean has a 95% interval of the wanted half-width; see `half_width`.

    None if more than `most` are needed, or no number is enough, because these few raters differ too much.
    """
    low, high = 2, most
    if half_width(spread, high, n_raters, shared=shared, n_each=n_each) > wanted:
        return None
    while low < high:
        middle = (low + high) // 2
        is_enough = half_width(spread, middle, n_raters, shared=shared, n_each=n_each) <= wanted
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return low


# --- the spread of grades in a store ----------------------------------------------------------------------------------


def common_scale(instruments: Iterable[Instrument]) -> tuple[float, float] | None:
    """Return the scale of a mean grade; None for preferences, and if criteria have different scales."""
    found = list(instruments)
    if any(one.form is InstrumentForm.PREFERENCE for one in found):
        return None
    scales = {(one.low, one.high) for instrument in found for one in instrument.criteria}
    scales |= {(0, 1) for one in found if one.form is InstrumentForm.CHECKS}
    return scales.pop() if len(scales) == 1 else None


def expected_spread(
    store: Store, instruments: Mapping[str, Instrument], runs: Mapping[tuple[str, str], Run]
) -> Spread | None:
    """Return the spread of grades to expect: from earlier ratings, else from the jury's scores, else usual values.

    Parameters: instruments, benchmark -> form; runs, benchmark and model -> run.
    Returns: None if the criteria have no scale in common.
    """
    scale = common_scale(instruments.values())
    if scale is None:
        return None
    usual = usual_spread(*scale)
    digests = {one.digest for one in instruments.values()}
    for earlier in reversed(stored_ratings(store)):
        is_same = earlier.card.instrument.digest in digests
        if is_same and (found := spread_of_ratings(_tables(earlier), usual, f"ratings of {earlier.card.name}")):
            return found
    if any(one.name != RUBRIC for one in instruments.values()):
        return usual
    judged = [run for run in runs.values() if run.jury_result]
    scores = [read_scores(run, JURY, "corrected").values for run in judged]
    variances = [float(own.var(ddof=1)) for own in (one[~np.isnan(one)] for one in scores) if len(own) >= LEAST_GRADES]
    if not variances:
        return usual
    between = max(math.sqrt(float(np.mean(variances))), usual.between_instances / 4)  # judges may give one grade to all
    return Spread(
        between_instances=between,
        residual=usual.residual,
        between_raters=usual.between_raters,
        source="spread of the jury's scores, usual values for raters",
    )


def spread_of_ratings(tables: Sequence[Floats], usual: Spread, source: str) -> Spread | None:
    """Estimate the spread of grades from ratings of several models.

    The spread of one rating comes from completions that several raters rated, less what severity adds to it; the spread
    between instances is what is left of that between the means of completions.

    Parameters: tables, one for each model, shape (completions, raters), nan if missing, the same raters in all; usual,
    for what the ratings do not show. Returns: None for fewer than `LEAST_GRADES` completions of each model.
    """
    kept = [table for table in tables if len(table) >= LEAST_GRADES]
    if not kept:
        return None
    every = np.concatenate(kept)
    given = ~np.isnan(every)
    severity = rater_effect(every, given.sum(axis=0) / given.sum()).deviation
    between_raters = usual.between_raters if severity is None else severity
    several = every[given.sum(axis=1) >= 2]
    residual = usual.residual
    if len(several) >= LEAST_GRADES:
        within = float(np.nanvar(several, axis=1, ddof=1).mean())
        residual = math.sqrt(max(within - between_raters**2, 0.0)) or usual.residual
    n_each = float((1 / given.sum(axis=1)).mean())
    means = float(np.mean([np.nanmean(table, axis=1).var(ddof=1) for table in kept]))
    between = max(means - n_each * (residual**2 + between_raters**2), (usual.between_instances / 4) ** 2)
    return Spread(between_instances=math.sqrt(between), residual=residual, between_raters=between_raters, source=source)


def _tables(earlier: StoredRatings) -> list[Floats]:
    """Return the mean grades of frozen ratings: for each model a row for each completion, a column for each rater."""
    raters = sorted({row.rater for row in earlier.rows})
    rows: dict[str, dict[tuple[str, str], Floats]] = {}
    for row in earlier.rows:
        grades = [grade for grade in row.grades.values() if grade is not None]
        empty = np.full(len(raters), np.nan)
        own = rows.setdefault(row.model, {}).setdefault((row.benchmark, row.instance_id), empty)
        own[raters.index(row.rater)] = float(np.mean(grades)) if grades else np.nan
    tables = [np.stack(list(own.values())) for own in rows.values()]
    return [table[(~np.isnan(table)).any(axis=1)] for table in tables]
