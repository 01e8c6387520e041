"""Progress of a study for its owner: who has rated what, how fast, how consistently, and where raters differ.

No mean of a model is computed here. An owner who sees who leads while people rate could stop early, send cases to
adjudication by their outcome, or let raters know: so owners are blinded until the study is closed (`outcome`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from math import fsum
from pathlib import Path
from statistics import fmean, median

import numpy as np

from medhelm.analysis.agreement.coefficients import Level
from medhelm.analysis.means import estimate
from medhelm.domain import Estimate
from medhelm.domain.text import plural
from medhelm.errors import StoreError
from medhelm.extensions.study.files import (
    DECISIONS,
    EVENT_FORM,
    EVENTS,
    RATERS,
    Event,
    EventKind,
    events,
    parsed,
    rater_file,
    study_folder,
)
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.journal import (
    NOT_FIRST,
    case_key,
    cases_with,
    criteria_of_case,
    instrument_of_case,
    is_complete,
    mirrored,
    moment,
)
from medhelm.extensions.study.measures import (
    CriterionAgreement,
    Drift,
    criterion_agreement,
    drift,
    unusual_times,
)
from medhelm.extensions.study.types import (
    ROW_FORM,
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentCriterion,
    InstrumentForm,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.storage.ratings import completion_digest
from medhelm.storage.runs import read_columns
from medhelm.storage.store import NAME, Store, read_run

LEAST_SAME = 10
"""Fewest grades of a rater for the statement that all are the same."""

DISCARDED = "discarded"
"""First word of the text of an event by which the ratings of a rater who left do not count."""


# --- types ------------------------------------------------------------------------------------------------------------


class StudyState(StrEnum):
    """How far a study is."""

    PLANNED = "planned"
    RATING = "rating"
    CLOSED = "closed"


class CaseState(StrEnum):
    """How far a case is, over all its raters."""

    OPEN = "open"
    """Nobody has rated it."""
    PARTLY_RATED = "partly_rated"
    """Some of its raters have."""
    RATED = "rated"
    """All of them have."""
    DIFFERS = "differs"
    """Two of them differ by more than one point."""
    IN_ADJUDICATION = "in_adjudication"
    """It was given to another rater for that reason."""
    ADJUDICATED = "adjudicated"
    """That rater has rated it."""
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
    row: RatingRow | None
    """The latest rating; None without one."""
    first_complete: RatingRow | None
    """The first complete rating: of an adjudicator, the one given before seeing the others."""
    seconds: float
    """Seconds that it was visible, over all revisions."""
    is_gone: bool
    """True if its completion is no longer in the store."""

    @property
    def key(self) -> frozenset[str]:
        """What identifies the case among raters."""
        return case_key(self.assignment.items)

    @property
    def is_complete(self) -> bool:
        """True if the latest rating is complete."""
        return self.first_complete is not None and self.row is not None and self.latest_is_complete

    latest_is_complete: bool = False
    """True if the latest rating answers every question; an earlier one may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAgreement:
    """Agreement of a rater with the own earlier ratings."""

    n: int
    """Cases that were rated twice."""
    same: Estimate | None
    """Share of grades that were the same, mean over cases; None without such cases."""
    near: Estimate | None
    """Share that differ by one point at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterProgress:
    """Progress of one rater."""

    rater: str
    """Id of the rater."""
    has_left: bool
    """True if the rater has left the study."""
    n_cases: int
    """Cases of the rater whose completion is in the store."""
    n_complete: int
    """Cases with a complete rating."""
    n_started: int
    """Cases with an incomplete one."""
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
    n_clock_errors: int
    """How often the clock went back between two ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseProgress:
    """Progress of one case, over all its raters."""

    items: tuple[str, ...]
    """Ids of its items, as the first rater sees them."""
    benchmark: str
    """Its benchmark."""
    kind: CaseKind
    """Why it is rated."""
    state: CaseState
    """How far it is."""
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
    """`DIFFERS`, `IN_ADJUDICATION` or `ADJUDICATED`."""
    adjudicator: str = ""
    """Id of the rater who has it for adjudication; empty if it was not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyProgress:
    """All that the owner of a study sees before it is closed: nothing by model."""

    state: StudyState
    """How far the study is."""
    revision: int
    """Number of decisions so far; forms of owners carry it, see `files.DECISIONS`."""
    n_cases: int
    """Cases of all raters, without those of raters who left and have no rating."""
    n_complete: int
    """Of these, complete ones."""
    raters: tuple[RaterProgress, ...]
    """Each rater, in the order of the plan."""
    cases: tuple[CaseProgress, ...]
    """Each case."""
    agreement: tuple[CriterionAgreement, ...]
    """Agreement so far, by criterion; with several criteria, of their mean first."""
    disagreements: tuple[Disagreement, ...]
    """Cases on which raters differ."""
    unassigned: tuple[tuple[str, ...], ...]
    """Items of the cases of raters who left that nobody has taken over."""
    deviations: tuple[str, ...]
    """Sentences on what was not as planned, for the study's card."""


# --- reading ----------------------------------------------------------------------------------------------------------


def rated_cases(store: Store, study: Study, happened: Sequence[Event]) -> list[RatedCase]:
    """Return the cases of all raters with their latest ratings, without raters whose ratings were discarded."""
    gone, discarded = gone_items(store, study), discarded_raters(happened)
    found = []
    for rater in study.raters:
        if rater.id in discarded:
            continue
        revisions: dict[int, list[RatingRow]] = defaultdict(list)
        for _, row in parsed(rater_file(store, study.name, rater.id), ROW_FORM):
            if row:
                revisions[row.number].append(row)
        for case in cases_with(study, rater.id, happened):
            rows = revisions[case.number]
            is_gone = not gone.isdisjoint(case.items)
            own = instrument_of_case(study, case).criteria
            criteria = own if own or is_gone else criteria_of_case(store, study, case)
            asked = tuple(one for one in criteria if one.name not in {harm.name for harm in HARM})
            complete = [row for row in rows if is_complete(study, case, row, asked)]
            found.append(
                RatedCase(
                    rater=rater.id,
                    assignment=case,
                    criteria=asked,
                    row=rows[-1] if rows else None,
                    first_complete=complete[0] if complete else None,
                    seconds=fsum(row.rating.seconds for row in rows),
                    is_gone=is_gone,
                    latest_is_complete=bool(complete) and complete[-1] is rows[-1],
                )
            )
    return found


def gone_items(store: Store, study: Study) -> set[str]:
    """Return the ids of the items whose completion is no longer in the store, or was generated anew."""
    by_run = defaultdict(list)
    for item in study.items:
        by_run[item.run].append(item)
    gone = set()
    for folder, items in by_run.items():
        file = store.folder / folder / NAME
        try:
            about = file.stat()
            digests = _digests(file, (about.st_mtime_ns, about.st_ino))
        except (OSError, StoreError):
            digests = {}
        gone |= {item.id for item in items if digests.get(item.instance_id) != item.completion_sha256}
    return gone


@lru_cache(maxsize=64)
def _digests(file: Path, state: tuple[int, int]) -> Mapping[str, str]:  # noqa: ARG001 - a changed run is read again
    columns = read_columns(read_run(file), ["instance_id", "completion"])
    return {
        name: completion_digest(text)
        for name, text in zip(columns["instance_id"], columns["completion"], strict=True)
        if text is not None
    }


def discarded_raters(happened: Iterable[Event]) -> set[str]:
    """Return the raters who left, and whose ratings do not count."""
    return {one.rater for one in happened if one.kind is EventKind.WITHDRAWN and one.text.startswith(DISCARDED)}


def left_raters(happened: Iterable[Event]) -> set[str]:
    """Return the raters who left."""
    return {one.rater for one in happened if one.kind is EventKind.WITHDRAWN}


def revision_of(happened: Iterable[Event]) -> int:
    """Return the number of decisions on a study: the revision that forms of owners carry."""
    return sum(one.kind in DECISIONS for one in happened)


# --- progress ---------------------------------------------------------------------------------------------------------


def progress(store: Store, study: Study) -> StudyProgress:
    """Compute the progress of a study. Raises: StoreError for files that cannot be read."""
    happened = events(store, study.name)
    cases = rated_cases(store, study, happened)
    left = left_raters(happened)
    counted = [one for one in cases if not one.is_gone and (one.rater not in left or one.row)]
    state = StudyState.RATING if any(one.row for one in cases) else StudyState.PLANNED
    if any(one.kind is EventKind.CLOSED for one in happened):
        state = StudyState.CLOSED
    tables = rating_tables(study, cases)
    others = _means_of_others(study, cases)
    return StudyProgress(
        state=state,
        revision=revision_of(happened),
        n_cases=len(counted),
        n_complete=sum(one.is_complete for one in counted),
        raters=tuple(
            _rater_progress(store, study, rater.id, cases, others, has_left=rater.id in left) for rater in study.raters
        ),
        cases=tuple(case_states(study, cases)),
        agreement=tuple(agreement_of(study, tables)),
        disagreements=tuple(disagreements(study, cases)),
        unassigned=tuple(unassigned_cases(study, cases, happened)),
        deviations=tuple(deviations(store, study, cases, happened)),
    )


def _rater_progress(
    store: Store,
    study: Study,
    rater_id: str,
    cases: Sequence[RatedCase],
    others: Mapping[tuple[str, int], float],
    *,
    has_left: bool,
) -> RaterProgress:
    own = [one for one in cases if one.rater == rater_id and not one.is_gone]
    complete = [one for one in own if one.is_complete]
    rows = [row for _, row in parsed(rater_file(store, study.name, rater_id), ROW_FORM) if row]
    timed = [one for one in complete if one.row and one.row.rating.source is not RatingSource.WORKBOOK and one.seconds]
    seconds = [one.seconds for one in timed]
    grades = [grade for one in own for grade in _asked_grades(one)]
    reasons = sum(len(one.row.rating.not_judged) for one in own if one.row)
    in_order = sorted(complete, key=lambda one: rows.index(one.first_complete) if one.first_complete else 0)
    levels = [(level, one) for one in in_order if (level := mean_grade(study, one)) is not None]
    n_grades = sum(len(one.row.rating.grades) for one in own if one.row)
    return RaterProgress(
        rater=rater_id,
        has_left=has_left,
        n_cases=len(own),
        n_complete=len(complete),
        n_started=sum(one.row is not None and not one.is_complete for one in own),
        n_left=len(own) - len(complete),
        median_seconds=median(seconds) if seconds else None,
        unusual_times={timed[place].assignment.number: seconds[place] for place in unusual_times(seconds)},
        not_judged=reasons / (reasons + n_grades) if reasons + n_grades else None,
        same_grade=grades[0] if len(grades) >= LEAST_SAME and len(set(grades)) == 1 else None,
        drift=drift(
            np.array([level for level, _ in levels]),
            np.array([others.get((rater_id, one.assignment.number), np.nan) for _, one in levels]),
        )
        if _form(study) is not InstrumentForm.PREFERENCE
        else Drift(value=None),
        repeats=_repeats(own),
        last=rows[-1].time if rows else "",
        n_clock_errors=sum(moment(later.time) < moment(earlier.time) for earlier, later in pairwise(rows)),
    )


def _form(study: Study) -> InstrumentForm:
    return next(iter(study.instruments.values())).form


def _asked_grades(case: RatedCase) -> list[int]:
    """Return the grades on the criteria of a case, without harm."""
    asked = {one.name for one in case.criteria}
    return [grade for name, grade in case.row.rating.grades.items() if name in asked] if case.row else []


def _repeats(own: Sequence[RatedCase]) -> RepeatAgreement:
    """Compare repeated cases of a rater with the first rating of the same case."""
    first = {one.key: one for one in own if one.assignment.kind is not CaseKind.REPEATED and one.is_complete}
    same, near = [], []
    for again in own:
        if again.assignment.kind is not CaseKind.REPEATED or not again.is_complete or again.key not in first:
            continue
        before = _oriented(first[again.key], again.assignment.items)
        now = again.row.rating.grades if again.row else {}
        apart = [
            abs(now[one.name] - before[one.name]) for one in again.criteria if one.name in now and one.name in before
        ]
        if apart:
            same.append(fmean(one == 0 for one in apart))
            near.append(fmean(one <= 1 for one in apart))
    return RepeatAgreement(
        n=len(same),
        same=estimate(np.array(same), low=0.0, high=1.0) if same else None,
        near=estimate(np.array(near), low=0.0, high=1.0) if near else None,
    )


def _oriented(case: RatedCase, items: tuple[str, ...], *, first: bool = False) -> Mapping[str, int]:
    """Return the grades of a case as if its items had been in this order; of the first complete rating if `first`."""
    row = case.first_complete if first else case.row
    rating = row.rating if row else CaseRating()
    return (rating if case.assignment.items == items else mirrored(rating, case.criteria)).grades


# --- grades -----------------------------------------------------------------------------------------------------------


def level_of(
    grades: Mapping[str, float], criteria: Sequence[InstrumentCriterion], form: InstrumentForm
) -> float | None:
    """Return one number for a rating: the mean grade with high as good, or the share of points earned.

    That share is below 0 if harms outweigh. Of a preference, it is the grade: above 0 for the right one. None if a
    criterion has no grade.
    """
    if not criteria or any(one.name not in grades for one in criteria):
        return None
    if form is InstrumentForm.CHECKS:
        possible = fsum(one.points for one in criteria if one.points > 0)
        return fsum(one.points * grades[one.name] for one in criteria) / possible if possible else None
    if form is InstrumentForm.PREFERENCE:
        return float(grades[criteria[0].name])
    return fmean(
        grades[one.name] if one.higher_is_better else one.low + one.high - grades[one.name] for one in criteria
    )


def mean_grade(study: Study, case: RatedCase) -> float | None:
    """Return `level_of` the latest rating of a case; None if it is not complete."""
    if not case.is_complete or case.row is None:
        return None
    return level_of(case.row.rating.grades, case.criteria, instrument_of_case(study, case.assignment).form)


def _means_of_others(study: Study, cases: Sequence[RatedCase]) -> dict[tuple[str, int], float]:
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

    def array(self, raters: Sequence[str]) -> np.ndarray:
        """Return the grades, shape (n, R), nan where there is none."""
        table = np.array([[row.get(rater, np.nan) for rater in raters] for row in self.rows], dtype=float)
        return table.reshape(len(self.rows), len(raters))


def rating_tables(study: Study, cases: Sequence[RatedCase]) -> list[RatingTable]:
    """Return the first ratings of each case by criterion, without repeats and adjudications.

    With several criteria, the table of their mean comes first. Criteria that instances have of their own are in one
    table. Pairs count as the first rater sees them.
    """
    form = _form(study)
    level: Level = "nominal" if form is InstrumentForm.CHECKS else "ordinal"
    is_own = form is InstrumentForm.CHECKS and not all(one.criteria for one in study.instruments.values())
    tables: dict[tuple[str, int, int], RatingTable] = {}
    whole = RatingTable(criterion="", level="interval")
    for group in by_case(cases).values():
        rated = [one for one in group if one.is_complete and one.assignment.kind not in NOT_FIRST]
        if not rated:
            continue
        items = group[0].assignment.items
        given = {one.rater: _oriented(one, items) for one in rated}
        item = study.item(items[0])
        cluster = f"{item.benchmark} {item.instance_id}"
        criteria = rated[0].criteria + (HARM if study.asks_harm else ())
        for one in criteria:
            is_pooled = is_own and one.name not in {harm.name for harm in HARM}
            key = ("", 0, 1) if is_pooled else (one.name, one.low, one.high)
            scale: Level = "ordinal" if one in HARM else level
            table = tables.setdefault(key, RatingTable(criterion=key[0], level=scale))
            table.clusters.append(cluster)
            table.rows.append({rater: grades[one.name] for rater, grades in given.items() if one.name in grades})
        levels = {rater: level_of(grades, rated[0].criteria, form) for rater, grades in given.items()}
        whole.clusters.append(cluster)
        whole.rows.append({rater: one for rater, one in levels.items() if one is not None})
    several = sum(not one.criterion.startswith("harm_") for one in tables.values()) > 1
    return [*([whole] if several and form is InstrumentForm.GRADES else []), *tables.values()]


def agreement_of(study: Study, tables: Iterable[RatingTable]) -> list[CriterionAgreement]:
    """Measure the agreement of raters on each criterion."""
    raters = [rater.id for rater in study.raters]
    return [
        criterion_agreement(
            table.array(raters),
            table.criterion,
            level=table.level,
            is_preference=_form(study) is InstrumentForm.PREFERENCE,
            clusters=table.clusters,
            seed=study.design.seed,
        )
        for table in tables
    ]


# --- cases ------------------------------------------------------------------------------------------------------------


def by_case(cases: Iterable[RatedCase]) -> dict[frozenset[str], list[RatedCase]]:
    """Group the cases of all raters by their items."""
    found: dict[frozenset[str], list[RatedCase]] = defaultdict(list)
    for one in cases:
        found[one.key].append(one)
    return found


def differing_grades(study: Study, group: Sequence[RatedCase]) -> dict[str, dict[str, int]]:
    """Return criterion -> rater -> grade, of the criteria on which the raters of a case differ.

    Grades differ by more than one point, checks on a criterion with points at all, preferences if they are on opposite
    sides. Repeats and adjudications do not count.
    """
    rated = [one for one in group if one.is_complete and one.assignment.kind not in NOT_FIRST]
    if len(rated) < 2:
        return {}
    items, form = group[0].assignment.items, instrument_of_case(study, group[0].assignment).form
    given = {one.rater: _oriented(one, items) for one in rated}
    found = {}
    for one in rated[0].criteria:
        grades = {rater: own[one.name] for rater, own in given.items() if one.name in own}
        if len(grades) < 2:
            continue
        low, high = min(grades.values()), max(grades.values())
        if {
            InstrumentForm.GRADES: high - low > 1,
            InstrumentForm.CHECKS: high > low and one.points != 0,
            InstrumentForm.PREFERENCE: low < 0 < high,
        }[form]:
            found[one.name] = grades
    return found


def case_states(study: Study, cases: Iterable[RatedCase]) -> Iterable[CaseProgress]:
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
    if third := [one for one in group if one.assignment.kind is CaseKind.ADJUDICATION]:
        is_done = any(one.is_complete for one in third)
        return CaseState.ADJUDICATED if is_done else CaseState.IN_ADJUDICATION
    if differing_grades(study, group):
        return CaseState.DIFFERS
    complete = [one.is_complete for one in group if one.assignment.kind not in NOT_FIRST]
    return CaseState.RATED if all(complete) else CaseState.PARTLY_RATED if any(complete) else CaseState.OPEN


def disagreements(study: Study, cases: Iterable[RatedCase]) -> Iterable[Disagreement]:
    """Yield the cases on which raters differ, and those that were sent to adjudication."""
    for group in by_case(cases).values():
        state, grades = _state(study, group), differing_grades(study, group)
        third = [one.rater for one in group if one.assignment.kind is CaseKind.ADJUDICATION]
        if state is not CaseState.REMOVED and (grades or third):
            adjudicator = third[0] if third else ""
            yield Disagreement(items=group[0].assignment.items, grades=grades, state=state, adjudicator=adjudicator)


def unassigned_cases(study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> list[tuple[str, ...]]:
    """Return the items of the cases of raters who left that have no rating of theirs, and that nobody has taken over.

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


# --- deviations -------------------------------------------------------------------------------------------------------


def deviations(store: Store, study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> Iterable[str]:
    """Yield a sentence on each thing that was not as planned. Reasons and names of people are left out."""
    discarded = discarded_raters(happened)
    for one in happened:
        if one.kind is EventKind.WITHDRAWN:
            n = sum(case.rater == one.rater and case.is_complete for case in cases)
            counted = "the ratings given do not count" if one.rater in discarded else f"{plural(n, 'rating')} count"
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
        yield f"A personal link was refused {plural(n, 'time')}: it had been used, revoked or had expired."
    if n := _late_revisions(store, study, cases, happened):
        yield f"{plural(n, 'rating')} {'was' if n == 1 else 'were'} changed after the case had gone to adjudication."
    for rater in study.raters:
        rows = [row for _, row in parsed(rater_file(store, study.name, rater.id), ROW_FORM) if row]
        if n := sum(moment(later.time) < moment(earlier.time) for earlier, later in pairwise(rows)):
            yield f"The clock went back {plural(n, 'time')} while {rater.id} was rating."
    if n := unreadable_lines(store, study):
        yield f"{plural(n, 'line')} of the study's files cannot be read, and {'is' if n == 1 else 'are'} left out."


def _late_revisions(store: Store, study: Study, cases: Iterable[RatedCase], happened: Sequence[Event]) -> int:
    """Return the number of first ratings that were changed after their case had been given to an adjudicator."""
    sent = {case_key(one.item.split()): one.time for one in happened if one.kind is EventKind.ADJUDICATION}
    late = [
        one
        for one in cases
        if one.key in sent
        and one.row
        and one.assignment.kind not in NOT_FIRST
        and one.row.revision > 1
        and moment(one.row.time) > moment(sent[one.key])
    ]
    return len(late)


def unreadable_lines(store: Store, study: Study) -> int:
    """Return the number of lines of the files of a study that cannot be read."""
    folder = study_folder(store, study.name)
    n = sum(one is None for _, one in parsed(folder / EVENTS, EVENT_FORM))
    return n + sum(row is None for file in folder.glob(f"{RATERS}/*.jsonl") for _, row in parsed(file, ROW_FORM))
