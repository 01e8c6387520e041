"""Ratings of a study for its owner: who has rated what, how fast, how consistently, and where raters differ.

No mean of a model is computed here. An owner who sees who leads while people rate could stop early, send cases to
adjudication by their outcome, or let raters know: so owners are blinded until the study is closed (`outcome`).

Numbers about ratings: agreement by criterion, drift, and unusual times. Arrays in, numbers out.

Flags for an owner have few false alarms: a rater who rates as at the start, at the usual pace, is flagged for drift or
for a time with a probability of at most 5% (simulated in the tests).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import fsum
from random import Random
from statistics import NormalDist, fmean, median

import numpy as np

from medhelm.analysis.agreement.coefficients import Coefficient, Level, krippendorff_alpha, resampled_alpha
from medhelm.analysis.agreement.reliability import LEAST_UNITS
from medhelm.analysis.comparison.preferences import DRAWS
from medhelm.analysis.means import Clusters, Floats, bootstrap_statistic, cluster_codes, estimate, t_quantile
from medhelm.domain import Estimate
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.study import journal, texts
from medhelm.extensions.study.instruments import HARM, RUBRIC, instrument_of
from medhelm.extensions.study.journal import Event, EventKind, is_complete
from medhelm.extensions.study.types import (
    ROW_FORM,
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentCriterion,
    InstrumentForm,
    Rater,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.storage.store import Store

# --- agreement --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionAgreement:
    """Agreement of raters with each other on one criterion."""

    criterion: str
    """Id of the criterion; "" for all together."""
    n: int
    """Cases with ratings of two raters or more."""
    n_raters: int
    """Raters who rated one of them."""
    n_units: int
    """Independent units among these cases, such as instances."""
    same: Estimate | None
    """Share of the pairs of ratings of a case that are the same, mean over cases; None without such cases."""
    near: Estimate | None
    """Share that differ by one point at most; for preferences, that do not prefer opposite sides."""
    alpha: Coefficient
    """Krippendorff's alpha with a bootstrap interval over independent units; without one for few units."""
    level: Level
    """Level of measurement of alpha."""


def criterion_agreement(
    ratings: Floats,
    criterion: str,
    *,
    level: Level,
    is_preference: bool = False,
    clusters: Clusters = None,
    seed: int = 0,
) -> CriterionAgreement:
    """Measure the agreement of raters on a criterion.

    Parameters: ratings, shape (n, R), nan where a rater gave no grade; level, ordinal for grades and preferences,
    nominal for checks; clusters, n names of independent units, such as instances; seed, of the bootstrap.
    """
    table = np.asarray(ratings, dtype=float)
    paired = (~np.isnan(table)).sum(axis=1) >= 2
    used = table[paired]
    codes = None if clusters is None else np.asarray(clusters)[paired]
    n_units = cluster_codes(codes, len(used))[1]
    alpha = krippendorff_alpha(used, level) if len(used) else krippendorff_alpha(np.empty((0, 2)), level)
    if alpha.value is not None and n_units < LEAST_UNITS:
        reason = f"{n_units} independent instances are too few for an interval: {LEAST_UNITS} at least"
        alpha = replace(alpha, reason=reason)
    elif alpha.value is not None:
        drawn = bootstrap_statistic(
            len(used), partial(resampled_alpha, used, level=level), np.random.default_rng(seed), DRAWS, clusters=codes
        )
        alpha = replace(alpha, low=drawn.low, high=drawn.high, reason=drawn.reason)
    return CriterionAgreement(
        criterion=criterion,
        n=len(used),
        n_raters=int((~np.isnan(used)).any(axis=0).sum()),
        n_units=n_units,
        same=_share_of_pairs(used, 0.0, codes, is_preference=is_preference),
        near=_share_of_pairs(used, 1.0, codes, is_preference=is_preference) if level != "nominal" else None,
        alpha=alpha,
        level=level,
    )


def _share_of_pairs(table: Floats, most: float, clusters: Clusters, *, is_preference: bool) -> Estimate | None:
    """Return the mean over cases of the share of pairs of ratings that are at most `most` apart.

    Of preferences, for 0 the side must be the same, or both a tie, and for 1 the sides must not be opposite.
    """
    if not len(table):
        return None
    values = np.sign(table) if is_preference else table
    first, second = np.triu_indices(table.shape[1], k=1)
    apart = np.abs(values[:, first] - values[:, second])
    shares = np.nanmean(np.where(np.isnan(apart), np.nan, (apart <= most).astype(float)), axis=1)
    return estimate(shares, clusters, low=0.0, high=1.0)


# --- one rater --------------------------------------------------------------------------------------------------------

LEAST_OF_A_THIRD = 6
"""Fewest cases in the first and in the last third for a statement on drift."""

LEAST_TIMES = 8
"""Fewest times of a rater for a statement on unusual ones."""

FLAGGED = 0.01
"""Significance level of a flag for drift: below 5%, because there are several raters and looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Difference of a rater's mean grade between the last and the first third of the cases."""

    value: float | None
    """Last minus first, high being good; None with too few cases."""
    low: float | None = None
    """Lower end of the 95% interval, or None."""
    high: float | None = None
    """Upper end, or None."""
    n: int = 0
    """Cases in both thirds."""
    is_adjusted: bool = False
    """True if each grade is taken relative to those that others gave the same completion."""
    is_flagged: bool = False
    """True if the difference is significant at the level `FLAGGED`."""


def drift(grades: Floats, others: Floats) -> Drift:
    """Compare the first third of a rater's grades with the last third by Welch's test.

    Parameters: grades, shape (n,), in the order of rating; others, shape (n,), mean grade that other raters gave the
    same case, nan without one. If both thirds have enough cases that others rated, these alone are compared, relative
    to the others, so that easier cases are not taken for drift.
    """
    third = len(grades) // 3
    ends = [(slice(0, third), slice(len(grades) - third, len(grades)))]
    relative = grades - others
    shared = [relative[part][~np.isnan(relative[part])] for part in ends[0]]
    is_adjusted = min(map(len, shared)) >= LEAST_OF_A_THIRD
    first, last = shared if is_adjusted else [grades[part] for part in ends[0]]
    if min(len(first), len(last)) < LEAST_OF_A_THIRD:
        return Drift(value=None, n=len(first) + len(last))
    value = float(last.mean() - first.mean())
    parts = np.array([first.var(ddof=1) / len(first), last.var(ddof=1) / len(last)])
    variance = float(parts.sum())
    n = len(first) + len(last)
    if variance == 0:
        is_flagged = value != 0
        return Drift(value=value, n=n, is_adjusted=is_adjusted, is_flagged=is_flagged)
    freedom = variance**2 / float(parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(last) - 1))
    error = math.sqrt(variance)
    reach = t_quantile(0.975, freedom) * error
    return Drift(
        value=value,
        low=value - reach,
        high=value + reach,
        n=n,
        is_adjusted=is_adjusted,
        is_flagged=abs(value) > t_quantile(1 - FLAGGED / 2, freedom) * error,
    )


def unusual_times(seconds: Sequence[float]) -> list[int]:
    """Return the places of times that are unusually long or short for this rater.

    On the scale of logarithms, a time is unusual if it is further from the median than is likely for any of n normal
    values, in units of the median absolute deviation (Davies and Gather 1993, J. Am. Stat. Assoc. 88); the limit is
    raised for few times, of which that unit is uncertain. Times of 0 are left out.

    >>> unusual_times([30, 35, 28, 40, 33, 31, 37, 29, 36, 900])
    [9]
    """
    places = [place for place, one in enumerate(seconds) if one > 0]
    n = len(places)
    if n < LEAST_TIMES:
        return []
    logs = np.log([seconds[place] for place in places])
    apart = np.abs(logs - np.median(logs))
    unit = float(np.median(apart)) / NormalDist().inv_cdf(0.75)
    limit = NormalDist().inv_cdf(1 - 0.05 / (2 * n)) * (1.03 + 7 / n)
    return [place for place, one in zip(places, apart, strict=True) if unit > 0 and one > limit * unit]


# --- progress ---------------------------------------------------------------------------------------------------------

HARM_NAMES = frozenset(one.name for one in HARM)
"""The questions on harm."""

DISCARDED = "discarded"
"""First word of the text of an event by which the ratings of a rater who left do not count."""


class CaseState(StrEnum):
    """State of a case, over all its raters."""

    OPEN = "open"
    """It has no rating."""
    PARTLY_RATED = "partly_rated"
    """Some of its raters have."""
    RATED = "rated"
    """All of them have."""
    DIFFERS = "differs"
    """Two of them differ by more than one point."""
    IN_ADJUDICATION = "in_adjudication"
    """It was given to another rater for that reason."""
    ADJUDICATED = "adjudicated"
    """That rater has decided it."""
    UNDECIDED = "undecided"
    """That rater could not judge what the others differ on."""
    REMOVED = "removed"
    """Its completion is no longer in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedCase:
    """A case of one rater, with the latest rating."""

    rater: str
    """Id of the rater."""
    assignment: Assignment
    """The case."""
    criteria: tuple[InstrumentCriterion, ...]
    """Its criteria, without harm; empty for an instance with own ones whose completion is gone."""
    rows: tuple[RatingRow, ...]
    """All ratings, the latest last."""
    places: tuple[int, ...]
    """Place of each of them among all ratings of the rater, in the order of storing: clocks can be wrong."""
    is_complete: bool
    """True if the latest rating answers every question."""
    is_gone: bool
    """True if its completion is no longer in the store."""

    @property
    def key(self) -> frozenset[str]:
        """Identity of the case among raters: its items."""
        return journal.case_key(self.assignment.items)

    @property
    def given(self) -> CaseRating:
        """The latest rating; an empty one if there is none."""
        return self.rows[-1].rating if self.rows else CaseRating()

    @property
    def seconds(self) -> float:
        """Seconds that it was visible, over all revisions."""
        return fsum(row.rating.seconds for row in self.rows)

    def given_as(self, items: Sequence[str]) -> CaseRating:
        """Return the latest rating as if its items had been in this order."""
        return self.given if self.assignment.items == tuple(items) else journal.mirrored(self.given, self.criteria)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A case on which raters differ by more than one point, on a criterion with points at all, or in the side."""

    items: tuple[str, ...]
    """Ids of its items, as the first rater sees them."""
    grades: Mapping[str, Mapping[str, int]]
    """Criterion -> rater -> grade, of the criteria on which they differ."""
    state: CaseState
    """`DIFFERS`, `IN_ADJUDICATION`, `ADJUDICATED` or `UNDECIDED`."""
    adjudicator: str = ""
    """Id of the rater who has it for adjudication, or who decided it; empty if it was not sent."""


# --- reading ----------------------------------------------------------------------------------------------------------


def rated_cases(store: Store, study: Study, happened: Sequence[Event]) -> list[RatedCase]:
    """Return the cases of all raters with their ratings, without raters whose ratings were discarded.

    Adjudications that a rater left undone are left out, too: the case can go to someone else.
    `happened`: the events of the study. Raises: StoreError for files that cannot be read.
    """
    gone, discarded, left = gone_items(store, study), discarded_raters(happened), left_raters(happened)
    found = []
    for rater in study.raters:
        if rater.id in discarded:
            continue
        revisions: dict[int, list[tuple[int, RatingRow]]] = defaultdict(list)
        for place, row in enumerate(journal.rows_of(store, study.name, rater.id)):
            revisions[row.number].append((place, row))
        for case in journal.cases_with(study, rater.id, happened):
            is_gone = not gone.isdisjoint(case.items)
            asked = journal.instrument_of_case(study, case).criteria
            asked = asked if asked or is_gone else journal.criteria_of_case(store, study, case)
            rows = tuple(row for _, row in revisions[case.number])
            is_done = bool(rows) and (is_complete(study, case, rows[-1], asked) if asked else is_gone)
            if case.kind is CaseKind.ADJUDICATION and rater.id in left and not is_done:
                continue
            found.append(
                RatedCase(
                    rater=rater.id,
                    assignment=case,
                    criteria=tuple(one for one in asked if one.name not in HARM_NAMES),
                    rows=rows,
                    places=tuple(place for place, _ in revisions[case.number]),
                    is_complete=is_done,
                    is_gone=is_gone,
                )
            )
    return found


def others_after(store: Store, study: Study, rater_id: str, number: int) -> tuple[CaseRating, ...]:
    """Return what the other raters gave the case of an adjudicator, in an order that hides who they are.

    Grades are turned round where the others saw the two completions on other sides. How long others took, and by what
    means they rated, is left out. Raises: UserError before the adjudicator has given an own complete rating, and for
    other cases.
    """
    cases = rated_cases(store, study, journal.events(store, study.name))
    own = next((one for one in cases if (one.rater, one.assignment.number) == (rater_id, number)), None)
    if own is None or own.assignment.kind is not CaseKind.ADJUDICATION:
        raise UserError("Ratings of others are shown for cases in adjudication alone.")
    if not own.is_complete:
        raise UserError("Rate the case yourself first. The ratings of the others appear once yours is complete.")
    others = [one for one in complete_first_ratings(by_case(cases)[own.key]) if one.rater != rater_id]
    found = [replace(one.given_as(own.assignment.items), seconds=0.0, source=RatingSource.BROWSER) for one in others]
    Random(f"{study.design.seed} {' '.join(sorted(own.assignment.items))}").shuffle(found)
    return tuple(found)


def gone_items(store: Store, study: Study) -> set[str]:
    """Return the ids of the items whose completion is no longer in the store, or was generated anew."""
    gone = set()
    for item in study.items:
        try:
            texts.completion_of(store, study, item)
        except texts.CaseGoneError:
            gone.add(item.id)
    return gone


def discarded_raters(happened: Iterable[Event]) -> set[str]:
    """Return the raters who left, and whose ratings do not count."""
    return {one.rater for one in happened if one.kind is EventKind.WITHDRAWN and one.text.startswith(DISCARDED)}


def left_raters(happened: Iterable[Event]) -> set[str]:
    """Return the raters who left."""
    return {one.rater for one in happened if one.kind is EventKind.WITHDRAWN}


def revision_of(happened: Iterable[Event]) -> int:
    """Return the number of decisions on a study: the revision that forms of owners carry."""
    return sum(one.kind in journal.DECISIONS for one in happened)


# --- grades -----------------------------------------------------------------------------------------------------------


def level_of(
    grades: Mapping[str, float], criteria: Sequence[InstrumentCriterion], form: InstrumentForm
) -> float | None:
    """Return one number for a rating: the mean grade with high as good, or the share of points earned.

    Grades on different scales are first converted to 0 to 1. The share is below 0 if harms outweigh. Of a preference,
    it is the grade: above 0 for the right one. None if a criterion has no grade.
    """
    if not criteria or any(one.name not in grades for one in criteria):
        return None
    if form is InstrumentForm.CHECKS:
        possible = fsum(one.points for one in criteria if one.points > 0)
        return fsum(one.points * grades[one.name] for one in criteria) / possible if possible else None
    if form is InstrumentForm.PREFERENCE:
        return float(grades[criteria[0].name])
    good = [grades[one.name] if one.higher_is_better else one.low + one.high - grades[one.name] for one in criteria]
    if len({(one.low, one.high) for one in criteria}) > 1:
        good = [(grade - one.low) / (one.high - one.low) for grade, one in zip(good, criteria, strict=True)]
    return fmean(good)


def mean_grade(study: Study, case: RatedCase) -> float | None:
    """Return `level_of` the latest rating of a case; None if it is not complete."""
    if not case.is_complete:
        return None
    return level_of(case.given.grades, case.criteria, journal.instrument_of_case(study, case.assignment).form)


def means_of_others(study: Study, cases: Sequence[RatedCase]) -> dict[tuple[str, int], float]:
    """Return rater and number of a case -> mean grade that other raters gave the same case."""
    by_key: dict[frozenset[str], list[tuple[str, float]]] = defaultdict(list)
    for one in cases:
        if one.assignment.kind not in journal.NOT_FIRST and (level := mean_grade(study, one)) is not None:
            by_key[one.key].append((one.rater, level))
    found = {}
    for one in cases:
        others = [level for rater, level in by_key[one.key] if rater != one.rater]
        if others:
            found[one.rater, one.assignment.number] = fmean(others)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingTable:
    """Ratings of all raters on one criterion."""

    criterion: str
    """Id of the criterion; "" for all together."""
    level: Level
    """Level of measurement."""
    clusters: list[str] = field(default_factory=list)
    """Instance of each row."""
    rows: list[Mapping[str, float]] = field(default_factory=list)
    """Rater -> grade, of each case."""

    def array(self, raters: Sequence[str]) -> Floats:
        """Return the grades, shape (n, R), nan where there is none."""
        table = np.array([[row.get(rater, np.nan) for rater in raters] for row in self.rows], dtype=float)
        return table.reshape(len(self.rows), len(raters))


def rating_tables(study: Study, cases: Sequence[RatedCase]) -> list[RatingTable]:
    """Return the first ratings of each case by criterion, without repeats and adjudications.

    With several criteria, the table of their mean comes first. Criteria that instances have of their own are in one
    table. Pairs count as the first rater sees them.
    """
    form = form_of(study)
    level: Level = "nominal" if form is InstrumentForm.CHECKS else "ordinal"
    is_own = form is InstrumentForm.CHECKS and not all(one.criteria for one in study.instruments.values())
    tables: dict[tuple[str, int, int], RatingTable] = {}
    whole = RatingTable(criterion="", level="interval")
    for group in by_case(cases).values():
        rated = complete_first_ratings(group)
        if not rated:
            continue
        items = group[0].assignment.items
        given = {one.rater: one.given_as(items).grades for one in rated}
        item = study.item(items[0])
        cluster = f"{item.benchmark} {item.instance_id}"
        criteria = rated[0].criteria + (HARM if study.asks_harm else ())
        for one in criteria:
            is_pooled = is_own and one.name not in HARM_NAMES
            key = ("", 0, 1) if is_pooled else (one.name, one.low, one.high)
            scale: Level = "ordinal" if one.name in HARM_NAMES else level
            table = tables.setdefault(key, RatingTable(criterion=key[0], level=scale))
            table.clusters.append(cluster)
            table.rows.append({rater: grades[one.name] for rater, grades in given.items() if one.name in grades})
        levels = {rater: level_of(grades, rated[0].criteria, form) for rater, grades in given.items()}
        whole.clusters.append(cluster)
        whole.rows.append({rater: one for rater, one in levels.items() if one is not None})
    several = len({name for name, _, _ in tables} - HARM_NAMES) > 1
    return [*([whole] if several and form is InstrumentForm.GRADES else []), *tables.values()]


def form_of(study: Study) -> InstrumentForm:
    """Return the form of all instruments of a study."""
    return next(iter(study.instruments.values())).form


# --- cases ------------------------------------------------------------------------------------------------------------


def by_case(cases: Iterable[RatedCase]) -> dict[frozenset[str], list[RatedCase]]:
    """Group the cases of all raters by their items."""
    found: dict[frozenset[str], list[RatedCase]] = defaultdict(list)
    for one in cases:
        found[one.key].append(one)
    return found


def complete_first_ratings(group: Iterable[RatedCase]) -> list[RatedCase]:
    """Return the complete ratings of a case, without repeats and adjudications."""
    return [one for one in group if one.is_complete and one.assignment.kind not in journal.NOT_FIRST]


def differing_grades(study: Study, group: Sequence[RatedCase]) -> dict[str, dict[str, int]]:
    """Return criterion -> rater -> grade, of the criteria on which the raters of a case differ.

    Grades, and the severity of harm, differ by more than one point, checks on a criterion with points at all,
    preferences if they are on opposite sides. Repeats and adjudications do not count.
    """
    rated = complete_first_ratings(group)
    if len(rated) < 2:
        return {}
    items, form = group[0].assignment.items, journal.instrument_of_case(study, group[0].assignment).form
    given = {one.rater: one.given_as(items).grades for one in rated}
    found = {}
    severity = HARM[:1] if study.asks_harm else ()
    for one in (*rated[0].criteria, *severity):
        grades = {rater: own[one.name] for rater, own in given.items() if one.name in own}
        if len(grades) < 2:
            continue
        low, high = min(grades.values()), max(grades.values())
        differ = {
            InstrumentForm.GRADES: high - low > 1,
            InstrumentForm.CHECKS: high > low and one.points != 0,
            InstrumentForm.PREFERENCE: low < 0 < high,
        }
        if differ[InstrumentForm.GRADES if one in severity else form]:
            found[one.name] = grades
    return found


def case_states(study: Study, cases: Iterable[RatedCase]) -> dict[tuple[str, ...], CaseState]:
    """Return the items of each case, as its first rater sees them -> its state."""
    return {group[0].assignment.items: _state(study, group) for group in by_case(cases).values()}


def _state(study: Study, group: Sequence[RatedCase]) -> CaseState:
    if group[0].is_gone:
        return CaseState.REMOVED
    if third := _adjudications(study, group):
        if not third[0].is_complete:
            return CaseState.IN_ADJUDICATION
        return CaseState.ADJUDICATED if _decides(study, group, third[0]) else CaseState.UNDECIDED
    if differing_grades(study, group):
        return CaseState.DIFFERS
    complete = [one.is_complete for one in group if one.assignment.kind not in journal.NOT_FIRST]
    return CaseState.RATED if all(complete) else CaseState.PARTLY_RATED if any(complete) else CaseState.OPEN


def _adjudications(study: Study, group: Sequence[RatedCase]) -> list[RatedCase]:
    """Return the adjudications of a case: one that decides it first, then those that are open."""
    third = [one for one in group if one.assignment.kind is CaseKind.ADJUDICATION]
    return sorted(third, key=lambda one: (not _decides(study, group, one), one.is_complete))


def _decides(study: Study, group: Sequence[RatedCase], third: RatedCase) -> bool:
    """Return True if an adjudication is complete, with a grade of what the others differ on."""
    asked = differing_grades(study, group).keys() or {one.name for one in third.criteria}
    return third.is_complete and not asked.isdisjoint(third.given.grades)


def disagreements(study: Study, cases: Iterable[RatedCase]) -> Iterator[Disagreement]:
    """Yield the cases on which raters differ, and those that were sent to adjudication."""
    for group in by_case(cases).values():
        state, grades = _state(study, group), differing_grades(study, group)
        third = _adjudications(study, group)
        if state is not CaseState.REMOVED and (grades or third):
            adjudicator = third[0].rater if third else ""
            yield Disagreement(items=group[0].assignment.items, grades=grades, state=state, adjudicator=adjudicator)


def unassigned_cases(study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> list[tuple[str, ...]]:
    """Return the items of the cases of raters who left that have no rating of theirs, and were not given to others.

    Calibration cases and repeats are not given to others.
    """
    left = left_raters(happened)
    taken = Counter(journal.case_key(one.item.split()) for one in happened if one.kind is EventKind.REASSIGNED)
    gone = {one.key for one in cases if one.is_gone}
    complete = {(one.rater, one.assignment.number) for one in cases if one.is_complete}
    found = []
    for rater in study.raters:
        for case in journal.cases_with(study, rater.id, happened) if rater.id in left else ():
            key = journal.case_key(case.items)
            is_open = case.kind in {CaseKind.SINGLE, CaseKind.SHARED} and (rater.id, case.number) not in complete
            if not is_open or key in gone:
                continue
            if taken[key]:
                taken[key] -= 1
            else:
                found.append(case.items)
    return found


LEAST_SAME = 10
"""Fewest grades of a rater for the statement that all are the same."""

# --- progress: types --------------------------------------------------------------------------------------------------


class StudyState(StrEnum):
    """State of a study."""

    PLANNED = "planned"
    RATING = "rating"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAgreement:
    """Agreement of a rater with the own earlier ratings."""

    n: int
    """Cases that were rated twice."""
    near: Estimate | None
    """Share of grades that differ by one point at most, mean over cases; None without such cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterProgress:
    """Progress of one rater."""

    rater: str
    """Id of the rater."""
    role: str
    """Profession or specialty."""
    has_left: bool
    """True if the rater has left the study."""
    n_cases: int
    """Cases of the rater whose completion is in the store."""
    n_complete: int
    """Cases with a complete rating."""
    n_left: int
    """Cases without a complete rating, started ones included."""
    median_seconds: float | None
    """Median of the visible seconds of a complete case; None without times."""
    unusual_times: Mapping[int, float]
    """Number of a case -> its visible seconds, where they are unusually long or short for this rater."""
    not_judged: float | None
    """Share of the answers that say why the rater cannot judge; None without answers."""
    same_grade: int | None
    """The grade that the rater gave to everything, from `LEAST_SAME` grades on; else None."""
    drift: Drift
    """Difference between the last and the first third of the cases, in the mean grade of a case."""
    repeats: RepeatAgreement
    """Agreement with the own earlier ratings."""
    last: str
    """Time of the latest rating, ISO 8601, UTC; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyProgress:
    """All that the owner of a study sees before it is closed: nothing by model."""

    study: Study
    """The plan."""
    state: StudyState
    """State of the study."""
    revision: int
    """Number of decisions so far; forms of owners carry it, see `journal.DECISIONS`."""
    n_cases: int
    """Cases of all raters, without those of raters who left and have no rating."""
    n_complete: int
    """Of these, complete ones."""
    raters: tuple[RaterProgress, ...]
    """Each rater, in the order of the plan."""
    cases: Mapping[tuple[str, ...], CaseState]
    """Items of each case -> its state."""
    n_several: int
    """Cases that two raters or more have rated."""
    agreement: tuple[CriterionAgreement, ...]
    """Agreement so far, by criterion; with several criteria, of their mean first."""
    disagreements: tuple[Disagreement, ...]
    """Cases on which raters differ."""
    unassigned: tuple[tuple[str, ...], ...]
    """Items of the open cases of raters who left, not given to others."""
    deviations: tuple[str, ...]
    """Sentences on what was not as planned, for the study's card."""


# --- progress ---------------------------------------------------------------------------------------------------------


def progress(store: Store, study: Study) -> StudyProgress:
    """Compute the progress of a study. Raises: StoreError for files that cannot be read."""
    happened = journal.events(store, study.name)
    cases = rated_cases(store, study, happened)
    left = left_raters(happened)
    counted = [one for one in cases if not one.is_gone and (one.rater not in left or one.rows)]
    state = StudyState.RATING if any(one.rows for one in cases) else StudyState.PLANNED
    if any(one.kind is EventKind.CLOSED for one in happened):
        state = StudyState.CLOSED
    others = means_of_others(study, cases)
    return StudyProgress(
        study=study,
        state=state,
        revision=revision_of(happened),
        n_cases=len(counted),
        n_complete=sum(one.is_complete for one in counted),
        raters=tuple(
            _rater_progress(study, rater, [one for one in cases if one.rater == rater.id], others, left)
            for rater in study.raters
        ),
        cases=case_states(study, cases),
        n_several=sum(len(complete_first_ratings(group)) > 1 for group in by_case(cases).values()),
        agreement=agreement_of(study, cases),
        disagreements=tuple(disagreements(study, cases)),
        unassigned=tuple(unassigned_cases(study, cases, happened)),
        deviations=tuple(deviations(store, study, cases, happened)),
    )


def agreement_of(study: Study, cases: Sequence[RatedCase]) -> tuple[CriterionAgreement, ...]:
    """Measure the agreement of raters on each criterion; with several criteria, on their mean first."""
    raters = [rater.id for rater in study.raters]
    return tuple(
        criterion_agreement(
            table.array(raters),
            table.criterion,
            level=table.level,
            is_preference=form_of(study) is InstrumentForm.PREFERENCE,
            clusters=table.clusters,
            seed=study.design.seed,
        )
        for table in rating_tables(study, cases)
    )


def _rater_progress(
    study: Study,
    rater: Rater,
    cases: Sequence[RatedCase],
    others: Mapping[tuple[str, int], float],
    left: Collection[str],
) -> RaterProgress:
    """Compute the progress of one rater. `others`: see `means_of_others`; `left`: raters who left."""
    own = [one for one in cases if not one.is_gone]
    complete = [one for one in own if one.is_complete]
    timed = [one for one in complete if one.seconds]
    seconds = [one.seconds for one in timed]
    n_reasons = sum(len(one.given.not_judged) for one in own)
    n_answers = n_reasons + sum(len(one.given.grades) for one in own)
    grades = [grade for one in own for name, grade in one.given.grades.items() if name not in HARM_NAMES]
    rows = sorted((pair for one in cases for pair in zip(one.places, one.rows, strict=True)), key=lambda pair: pair[0])
    return RaterProgress(
        rater=rater.id,
        role=rater.role,
        has_left=rater.id in left,
        n_cases=len(own),
        n_complete=len(complete),
        n_left=len(own) - len(complete),
        median_seconds=median(seconds) if seconds else None,
        unusual_times={timed[place].assignment.number: seconds[place] for place in unusual_times(seconds)},
        not_judged=n_reasons / n_answers if n_answers else None,
        same_grade=grades[0] if len(grades) >= LEAST_SAME and len(set(grades)) == 1 else None,
        drift=_drift(study, complete, others),
        repeats=_repeats(own),
        last=rows[-1][1].time if rows else "",
    )


def _drift(study: Study, complete: Sequence[RatedCase], others: Mapping[tuple[str, int], float]) -> Drift:
    """Compare a rater's first and last cases, in the order of their first ratings; not for preferences."""
    if form_of(study) is InstrumentForm.PREFERENCE:
        return Drift(value=None)
    in_order = sorted(complete, key=lambda one: one.places[0])
    levels = [(one, level) for one in in_order if (level := mean_grade(study, one)) is not None]
    around = [others.get((one.rater, one.assignment.number), np.nan) for one, _ in levels]
    return drift(np.array([level for _, level in levels]), np.array(around))


def _repeats(own: Sequence[RatedCase]) -> RepeatAgreement:
    """Compare repeated cases of a rater with the first rating of the same case."""
    first = {one.key: one for one in own if one.assignment.kind not in journal.NOT_FIRST and one.is_complete}
    apart = []
    for again in own:
        if again.assignment.kind is CaseKind.REPEATED and again.is_complete and again.key in first:
            before = first[again.key].given_as(again.assignment.items).grades
            shared = again.given.grades.keys() & before.keys() - HARM_NAMES
            apart.append([abs(again.given.grades[name] - before[name]) for name in shared])
    known = [one for one in apart if one]
    shares = np.array([fmean(grade <= 1 for grade in one) for one in known])
    return RepeatAgreement(n=len(known), near=estimate(shares, low=0.0, high=1.0) if known else None)


# --- deviations -------------------------------------------------------------------------------------------------------


def deviations(store: Store, study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> Iterator[str]:
    """Yield a sentence on each thing that was not as planned. Reasons and names of people are left out."""
    discarded = discarded_raters(happened)
    for one in happened:
        if one.kind is EventKind.WITHDRAWN:
            n = sum(case.rater == one.rater and case.is_complete for case in cases)
            counted = (
                "the ratings given do not count"
                if one.rater in discarded
                else f"{plural(n, 'rating')} {'counts' if n == 1 else 'count'}"
            )
            yield f"{one.rater} left the study on {one.time[:10]}; {counted}."
    counts = Counter(one.kind for one in happened)
    if n := counts[EventKind.REASSIGNED]:
        yield f"{plural(n, 'case')} of raters who left {'was' if n == 1 else 'were'} given to others."
    if n := len({one.key for one in cases if one.is_gone}):
        yield (
            f"The completions of {plural(n, 'case')} were deleted or generated anew after the plan; their ratings do "
            "not count in the means."
        )
    if n := counts[EventKind.LINK_REFUSED]:
        yield f"A personal link was refused {_times(n)}: it had been used or revoked, or had expired."
    if n := _late_revisions(cases, happened):
        yield f"{plural(n, 'rating')} {'was' if n == 1 else 'were'} changed after the case had gone to adjudication."
    yield from changed_rubrics(store, study)
    for rater in study.raters:
        rows = journal.rows_of(store, study.name, rater.id)
        if n := sum(journal.moment(later.time) < journal.moment(earlier.time) for earlier, later in pairwise(rows)):
            yield f"The clock went back {_times(n)} while {rater.id} was rating."
    if n := unreadable_lines(store, study):
        yield f"{plural(n, 'line')} of the study's files cannot be read, and {'is' if n == 1 else 'are'} left out."


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"


def _late_revisions(cases: Iterable[RatedCase], happened: Sequence[Event]) -> int:
    """Return the number of first ratings that were changed after their case had been given to an adjudicator."""
    sent = {journal.case_key(one.item.split()): one.time for one in happened if one.kind is EventKind.ADJUDICATION}
    first = [one for one in cases if one.key in sent and one.assignment.kind not in journal.NOT_FIRST]
    return sum(any(journal.moment(row.time) > journal.moment(sent[one.key]) for row in one.rows[1:]) for one in first)


def unreadable_lines(store: Store, study: Study) -> int:
    """Return the number of lines of the files of a study that cannot be read."""
    folder = journal.study_folder(store, study.name)
    n = sum(one is None for _, one in journal.parsed(folder / journal.EVENTS, journal.EVENT_FORM))
    return n + sum(
        row is None for file in folder.glob(f"{journal.RATERS}/*.jsonl") for _, row in journal.parsed(file, ROW_FORM)
    )


def changed_rubrics(store: Store, study: Study) -> Iterator[str]:
    """Yield a sentence on each benchmark whose rubric is no longer that of the plan, with which raters go on."""
    for name, instrument in study.instruments.items():
        definition = texts.known_definition(store.folder, name) if instrument.name == RUBRIC else None
        if definition is None:
            continue
        now = set()
        for extended in (False, True):
            try:
                now.add(instrument_of(definition, RUBRIC, extended=extended).digest)
            except UserError:
                continue
        if instrument.digest not in now:
            yield f"The rubric of {name} was changed after the plan; raters were asked with the one of the plan."
