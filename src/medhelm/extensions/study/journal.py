"""Record the ratings of a study and read them.

A rating is on the disk when `record` returns. A later rating of the same case replaces an earlier one, which stays in
the file. The order of ratings is that of the lines: clocks can be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from medhelm.errors import UserError
from medhelm.extensions.study import files
from medhelm.extensions.study.files import Event, EventKind, now
from medhelm.extensions.study.instruments import HARM, criteria_of
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    Assignment,
    CaseKind,
    CaseRating,
    Instrument,
    InstrumentCriterion,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.storage.store import Store

NOT_FIRST = frozenset({CaseKind.REPEATED, CaseKind.ADJUDICATION})
"""Kinds of cases that are no independent first rating of their completion."""

MOST_COMMENT, MOST_REASON, MOST_MARKS = 10_000, 1_000, 200
"""Most characters of a comment and of a reason, and most marked passages of a rating."""

MOST_SECONDS = 4 * 3600.0
"""Most seconds of a rating where clocks do not tell."""


# --- cases ------------------------------------------------------------------------------------------------------------


def cases_of(store: Store, study: Study, rater_id: str) -> tuple[Assignment, ...]:
    """Return the cases of a rater: those of the plan, then those that were given later, in the order of their numbers.

    Raises: UserError for a rater that the study does not have; StoreError.
    """
    return cases_with(study, rater_id, files.events(store, study.name))


def cases_with(study: Study, rater_id: str, happened: Iterable[Event]) -> tuple[Assignment, ...]:
    """Return the cases of a rater, given the events of the study. Raises: UserError for an unknown rater."""
    files.check_rater(study, rater_id)
    planned = study.assignments.get(rater_id, ())
    kinds = {EventKind.ADJUDICATION: CaseKind.ADJUDICATION, EventKind.REASSIGNED: CaseKind.SHARED}
    added = [one for one in happened if one.kind in kinds and one.rater == rater_id]
    first = max((case.number for case in planned), default=0) + 1
    return (
        *planned,
        *(
            Assignment(number=number, kind=kinds[one.kind], items=tuple(one.item.split()))
            for number, one in enumerate(added, first)
        ),
    )


def case_key(items: Iterable[str]) -> frozenset[str]:
    """Return what identifies a case among raters: its items, whichever is on the left."""
    return frozenset(items)


def instrument_of_case(study: Study, assignment: Assignment) -> Instrument:
    """Return the form that a rater fills in for a case."""
    return study.instruments[study.item(assignment.items[0]).benchmark]


def is_complete(
    study: Study, assignment: Assignment, row: RatingRow | None, criteria: Iterable[InstrumentCriterion]
) -> bool:
    """Return True if a case is rated: each criterion has a grade or a reason, and harm is answered if it is asked.

    The likelihood of harm is asked only for a severity above 0. `criteria`: those of the case, with or without harm.
    """
    if row is None or row.number != assignment.number:
        return False
    rating, needed = row.rating, {one.name: one for one in criteria}
    if study.asks_harm:
        needed |= {one.name: one for one in HARM}
    if rating.grades.get(HARM_SEVERITY) == 0 or HARM_SEVERITY in rating.not_judged:
        needed.pop(HARM_LIKELIHOOD, None)
    return rating.is_complete(needed.values())


# --- reading ----------------------------------------------------------------------------------------------------------


def ratings_of(store: Store, study: Study, rater_id: str) -> dict[int, RatingRow]:
    """Return number of a case -> its latest rating by this rater. Raises: StoreError."""
    return {row.number: row for row in files.rows_of(store, study.name, rater_id)}


def all_rows(store: Store, study: Study) -> list[RatingRow]:
    """Return all stored ratings, earlier revisions included: rater by rater, in the order of storing."""
    return [row for rater in study.raters for row in files.rows_of(store, study.name, rater.id)]


def mirrored(rating: CaseRating, criteria: Iterable[InstrumentCriterion]) -> CaseRating:
    """Return a rating of a pair as if the completions had been on the other sides; harm has no side."""
    ends = {one.name: one.low + one.high for one in criteria if one not in HARM}
    return replace(
        rating,
        grades={name: ends[name] - grade if name in ends else grade for name, grade in rating.grades.items()},
        marks=tuple(replace(mark, side=1 - mark.side) for mark in rating.marks),
    )


# --- recording --------------------------------------------------------------------------------------------------------


def record(store: Store, study: Study, rater_id: str, number: int, rating: CaseRating) -> RatingRow:
    """Store what a rater gives a case, finished or not. It is on the disk when this function returns.

    A rating that equals the latest one of the case, with no further seconds, is not stored again.
    Returns: the stored row, with the seconds cut to what is possible.
    Raises: UserError if the study is closed, the rater has left, the case is not the rater's, its completion is no
    longer in the store, or the rating is wrong; StoreError. Nothing was stored then.
    """
    from medhelm.extensions.study.texts import case_texts  # lazy: readers of ratings need no texts

    assignment = _case_of(cases_of(store, study, rater_id), number)
    instrument = instrument_of_case(study, assignment)
    texts = case_texts(store, study, assignment)
    if problems := list(problems_of(rating, texts.criteria, texts.completions)):
        raise UserError(f"{' '.join(one[0].upper() + one[1:] for one in problems)} Nothing was saved.")
    reasons = {name: reason.strip() for name, reason in rating.not_judged.items()}
    given = replace(rating, not_judged=reasons, comment=rating.comment.strip())
    with files.locked(store, study.name):
        refuse_if_final(files.events(store, study.name), rater_id)
        rows = files.rows_of(store, study.name, rater_id)
        revisions = [row for row in rows if row.number == number]
        time = now()
        given = replace(given, seconds=_possible_seconds(study, rows, time, given))
        if revisions and not given.seconds and replace(revisions[-1].rating, seconds=0.0) == given:
            return revisions[-1]
        row = RatingRow(
            time=time,
            rater=rater_id,
            number=number,
            items=assignment.items,
            revision=max((one.revision for one in revisions), default=0) + 1,
            instrument=instrument.digest,
            rating=given,
        )
        files.append_row(store, study.name, row)
    return row


def criteria_of_case(store: Store, study: Study, assignment: Assignment) -> tuple[InstrumentCriterion, ...]:
    """Return what a rater answers about a case: criteria of its instrument or instance, and harm if it is asked.

    Raises: as `texts.case_texts`.
    """
    from medhelm.extensions.study.texts import case_texts  # lazy: few instruments need it

    if instrument_of_case(study, assignment).criteria:
        return criteria_of(study, study.item(assignment.items[0]).benchmark)
    return case_texts(store, study, assignment).criteria


def refuse_if_final(happened: Iterable[Event], rater_id: str = "") -> None:
    """Raise UserError if a study is closed, or if this rater has left it."""
    for one in happened:
        if one.kind is EventKind.CLOSED:
            raise UserError("The study is closed: its ratings are final. Nothing was saved.")
        if one.kind is EventKind.WITHDRAWN and one.rater == rater_id:
            raise UserError("This rater has left the study. Nothing was saved.")


def _case_of(cases: Sequence[Assignment], number: int) -> Assignment:
    for case in cases:
        if case.number == number:
            return case
    raise UserError(f"Case {number} does not exist: cases have the numbers 1 to {len(cases)}.")


def problems_of(
    rating: CaseRating, criteria: Iterable[InstrumentCriterion], completions: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence on each thing that is wrong with a rating. `criteria` and `completions`: those of the case."""
    scales = {one.name: one.grades for one in criteria}
    for name in {**rating.grades, **rating.not_judged}:
        if name not in scales:
            yield f"`{name}` is not a criterion of this case."
    for name, grade in rating.grades.items():
        scale = scales.get(name)
        if scale and (type(grade) is not int or grade not in scale):
            yield f"`{name}` must be a whole number from {scale[0]} to {scale[-1]}, not {str(grade)[:20]!r}."
        if name in rating.not_judged:
            yield f"`{name}` has both a grade and a reason why it cannot be judged. Keep one of them."
    for name, reason in rating.not_judged.items():
        if not reason.strip():
            yield f"`{name}` needs a reason why it cannot be judged."
        if len(reason) > MOST_REASON:
            yield f"a reason has {len(reason):,} characters. Shorten it to {MOST_REASON:,}."
    if len(rating.comment) > MOST_COMMENT:
        yield f"the comment has {len(rating.comment):,} characters. Shorten it to {MOST_COMMENT:,}."
    if len(rating.marks) > MOST_MARKS:
        yield f"there are {len(rating.marks)} marked passages. Remove some: at most {MOST_MARKS} are kept."
    elif not all(
        0 <= mark.side < len(completions) and 0 <= mark.start <= mark.end <= len(completions[mark.side])
        for mark in rating.marks
    ):
        yield "a marked passage lies outside of the text."


def moment(time: str) -> datetime:
    """Return a stored time; one without an offset is UTC."""
    found = datetime.fromisoformat(time)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _possible_seconds(study: Study, rows: Sequence[RatingRow], time: str, rating: CaseRating) -> float:
    """Return the seconds that a browser counted, cut to those that have passed and were not counted before.

    They are counted since the rater's first rating, because a browser that had no connection sends several at once. If
    the clock went back, the cut is at `MOST_SECONDS`.
    """
    seconds = rating.seconds if math.isfinite(rating.seconds) else 0.0
    if rating.source is not RatingSource.BROWSER:
        return round(min(max(seconds, 0.0), MOST_SECONDS), 1)
    own = [row for row in rows if row.rating.source is RatingSource.BROWSER]
    start = own[0].time if own else study.created
    passed = (moment(time) - moment(start)).total_seconds()
    most = passed - sum(row.rating.seconds for row in own[1:]) if passed >= 0 else MOST_SECONDS
    return round(min(max(seconds, 0.0), max(most, 0.0), MOST_SECONDS), 1)
