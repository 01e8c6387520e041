"""The cases of all raters with what they gave: by rater, by case, and as tables of grades."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum
from statistics import fmean

import numpy as np

from medhelm.analysis.agreement.coefficients import Level
from medhelm.analysis.means import Floats
from medhelm.extensions.study import texts
from medhelm.extensions.study.files import DECISIONS, Event, EventKind, rows_of
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.journal import (
    NOT_FIRST,
    case_key,
    cases_with,
    criteria_of_case,
    instrument_of_case,
    is_complete,
    mirrored,
)
from medhelm.extensions.study.types import (
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentCriterion,
    InstrumentForm,
    RatingRow,
    Study,
)
from medhelm.storage.store import Store

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
        return case_key(self.assignment.items)

    @property
    def given(self) -> CaseRating:
        """The latest rating; an empty one if there is none."""
        return self.rows[-1].rating if self.rows else CaseRating()

    @property
    def seconds(self) -> float:
        """Seconds that it was visible, over all revisions."""
        return fsum(row.rating.seconds for row in self.rows)

    def grades_as(self, items: tuple[str, ...]) -> Mapping[str, int]:
        """Return the latest grades as if its items had been in this order."""
        return (self.given if self.assignment.items == items else mirrored(self.given, self.criteria)).grades


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseProgress:
    """Progress of one case, over all its raters."""

    items: tuple[str, ...]
    """Ids of its items, as the first rater sees them."""
    benchmark: str
    """Its benchmark."""
    kind: CaseKind
    """Reason why it is rated."""
    state: CaseState
    """Its state."""
    n_raters: int
    """Raters who have it, without adjudicators."""
    n_complete: int
    """Of these, raters who have rated it."""


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
        for place, row in enumerate(rows_of(store, study.name, rater.id)):
            revisions[row.number].append((place, row))
        for case in cases_with(study, rater.id, happened):
            is_gone = not gone.isdisjoint(case.items)
            asked = instrument_of_case(study, case).criteria
            asked = asked if asked or is_gone else criteria_of_case(store, study, case)
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
    return sum(one.kind in DECISIONS for one in happened)


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
    return level_of(case.given.grades, case.criteria, instrument_of_case(study, case.assignment).form)


def means_of_others(study: Study, cases: Sequence[RatedCase]) -> dict[tuple[str, int], float]:
    """Return rater and number of a case -> mean grade that other raters gave the same case."""
    by_key: dict[frozenset[str], list[tuple[str, float]]] = defaultdict(list)
    for one in cases:
        if one.assignment.kind not in NOT_FIRST and (level := mean_grade(study, one)) is not None:
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
        rated = [one for one in group if one.is_complete and one.assignment.kind not in NOT_FIRST]
        if not rated:
            continue
        items = group[0].assignment.items
        given = {one.rater: one.grades_as(items) for one in rated}
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


def differing_grades(study: Study, group: Sequence[RatedCase]) -> dict[str, dict[str, int]]:
    """Return criterion -> rater -> grade, of the criteria on which the raters of a case differ.

    Grades, and the severity of harm, differ by more than one point, checks on a criterion with points at all,
    preferences if they are on opposite sides. Repeats and adjudications do not count.
    """
    rated = [one for one in group if one.is_complete and one.assignment.kind not in NOT_FIRST]
    if len(rated) < 2:
        return {}
    items, form = group[0].assignment.items, instrument_of_case(study, group[0].assignment).form
    given = {one.rater: one.grades_as(items) for one in rated}
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


def case_states(study: Study, cases: Iterable[RatedCase]) -> Iterator[CaseProgress]:
    """Yield the progress of each case."""
    for group in by_case(cases).values():
        first = next((one for one in group if one.assignment.kind not in NOT_FIRST), group[0])
        raters = [one for one in group if one.assignment.kind not in NOT_FIRST]
        yield CaseProgress(
            items=first.assignment.items,
            benchmark=study.item(first.assignment.items[0]).benchmark,
            kind=first.assignment.kind,
            state=_state(study, group),
            n_raters=len(raters),
            n_complete=sum(one.is_complete for one in raters),
        )


def _state(study: Study, group: Sequence[RatedCase]) -> CaseState:
    if group[0].is_gone:
        return CaseState.REMOVED
    if third := _adjudications(study, group):
        if not third[0].is_complete:
            return CaseState.IN_ADJUDICATION
        return CaseState.ADJUDICATED if _decides(study, group, third[0]) else CaseState.UNDECIDED
    if differing_grades(study, group):
        return CaseState.DIFFERS
    complete = [one.is_complete for one in group if one.assignment.kind not in NOT_FIRST]
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
    taken = Counter(case_key(one.item.split()) for one in happened if one.kind is EventKind.REASSIGNED)
    gone = {one.key for one in cases if one.is_gone}
    complete = {(one.rater, one.assignment.number) for one in cases if one.is_complete}
    found = []
    for rater in study.raters:
        for case in cases_with(study, rater.id, happened) if rater.id in left else ():
            key = case_key(case.items)
            is_open = case.kind in {CaseKind.SINGLE, CaseKind.SHARED} and (rater.id, case.number) not in complete
            if not is_open or key in gone:
                continue
            if taken[key]:
                taken[key] -= 1
            else:
                found.append(case.items)
    return found
