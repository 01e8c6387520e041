"""Record the ratings of a study and read them.

A rating is on the disk when `record` returns. A later rating of the same case replaces an earlier one, which stays in
the file. The order of ratings is that of the lines: clocks can be wrong.

Files of the studies of a store: `STORE/studies/NAME/`.

    study.json          the plan, written once
    raters/RATER.jsonl  ratings of one rater, one a line; raters never share a file
    events.jsonl        what happened to the study: links, cases given to another rater, its close

Lines are only added, and a purge alone removes texts from them. A line that cannot be read stays, and is counted. Files
have the permissions of the store: for its owner alone, unless its folder was shared with a group on purpose.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from medhelm.domain.text import is_benchmark_name
from medhelm.errors import StoreError, UserError, suggestion
from medhelm.extensions.study.instruments import HARM, criteria_of
from medhelm.extensions.study.types import (
    FORMAT,
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    ROW_FORM,
    STUDY_FORM,
    Assignment,
    CaseKind,
    CaseRating,
    Instrument,
    InstrumentCriterion,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.io import line_files
from medhelm.io.files import error_class, file_mask, open_file, read_confidential
from medhelm.io.folders import atomic_folder
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.ratings import ratings_names
from medhelm.storage.store import Store

# --- files ------------------------------------------------------------------------------------------------------------

PLAN, EVENTS, RATERS = "study.json", "events.jsonl", "raters"
"""Names in the folder of a study."""

_RATER = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Id of a rater: also the name of a file."""

RESERVED = ("new", "static")
"""Names that no study can have, because they are addresses of the site."""

T = TypeVar("T")


class EventKind(StrEnum):
    """Kind of an event of a study."""

    LINK_MADE = "link_made"
    LINK_USED = "link_used"
    LINK_REVOKED = "link_revoked"
    LINK_REFUSED = "link_refused"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    EXPORTED = "exported"
    IMPORTED = "imported"
    ADJUDICATION = "adjudication"
    """A case on which raters differ was given to another rater."""
    WITHDRAWN = "withdrawn"
    """A rater left; the text begins with `discarded` if the ratings do not count."""
    REASSIGNED = "reassigned"
    """An open case of a rater who left was given to another one."""
    PURGED = "purged"
    """The texts of an item were deleted from the store."""
    DEVIATION = "deviation"
    """A sentence, at the close, on what was not as planned."""
    CLOSED = "closed"
    """The ratings are final."""
    FROZEN = "frozen"
    """The ratings were put among the results of the store; the text is their digest."""


DECISIONS = frozenset(
    {EventKind.ADJUDICATION, EventKind.WITHDRAWN, EventKind.REASSIGNED, EventKind.PURGED, EventKind.CLOSED}
)
"""Kinds of events that change a study. Their number is its revision, which owners' forms carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a study: a line of `events.jsonl`."""

    time: str
    """Time, ISO 8601, UTC."""
    by: str
    """Person or program that did it: single sign-on name, `owner`, `command line`, id of a rater; empty if unknown."""
    kind: EventKind
    """Kind of the event."""
    rater: str = ""
    """Id of the rater it is about, or who gets the case; empty if none."""
    item: str = ""
    """Ids of the items of the case it is about, with a space between; empty if none."""
    text: str = ""
    """Details, such as a reason."""


EVENT_FORM = JsonForm(
    Event,
    key_map("time by kind rater item text"),
    nested={"kind": Nested(str, EventKind)},
    not_if_empty=("rater", "item", "text"),
)


def now() -> str:
    """Return the time as ISO 8601, UTC, in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# --- the plan ---------------------------------------------------------------------------------------------------------


def studies(store: Store) -> list[str]:
    """Return the names of the studies of a store, sorted."""
    return sorted(path.parent.name for path in store.folder.glob(f"studies/[!.]*/{PLAN}"))


def study_folder(store: Store, name: str) -> Path:
    """Return the folder of a study; it may be missing. Raises: UserError for a name that is none."""
    if not is_benchmark_name(name) or name in RESERVED:
        raise UserError(
            f"`{name[:80]}` cannot be the name of a study: it needs lower case letters, digits and underscores, with a "
            f"letter first, and at most 80 characters. {' and '.join(RESERVED)} are addresses of the site."
        )
    return store.folder / "studies" / name


def write_study(store: Store, study: Study) -> None:
    """Write a plan, once. Raises: UserError for a wrong name, or one that is taken; StoreError."""
    folder = study_folder(store, study.name)
    _check_raters(study)
    if folder.exists():
        raise UserError(f"The store already has a study `{study.name}`. Choose another name. Nothing was saved.")
    if any(one == study.name or one.startswith(f"{study.name}-") for one in ratings_names(store)):
        raise UserError(f"The store has ratings of a study `{study.name}`. Choose another name. Nothing was saved.")
    try:
        mode = 0o770 & ~file_mask(store.folder)
        with (
            line_files.locked(store.folder, f"study-{study.name}", folder),
            atomic_folder(folder, replace=False, durable=True) as new,
        ):
            with open_file(new / PLAN, "wb") as file:
                file.write(f"{_plan_line(study)}\n".encode())
            (new / PLAN).chmod(mode & 0o660)
            (new / RATERS).mkdir()
            for place in (folder.parent, new, new / RATERS):
                place.chmod(mode)
    except OSError as error:
        raise error_class(error, StoreError)(
            f"{folder} cannot be written: {error.strerror or error}. Nothing was saved."
        ) from error


def replace_plan(store: Store, study: Study) -> None:
    """Replace a plan after a purge: nothing else changes one. The caller holds the lock. Raises: OSError."""
    line_files.replace_lines(store.folder, study_folder(store, study.name) / PLAN, [_plan_line(study)])


def _plan_line(study: Study) -> str:
    return json.dumps({"format": FORMAT, **STUDY_FORM.write(study)})


def is_rater_id(text: str) -> bool:
    """Return True for the id of a rater: at most 40 lower case letters, digits, `_` and `-`."""
    return _RATER.fullmatch(text) is not None


def check_rater(study: Study, rater_id: str) -> None:
    """Raise UserError for a rater that the study does not have."""
    known = [rater.id for rater in study.raters]
    if rater_id not in known:
        hint = suggestion(rater_id, known)
        raise UserError(f"The study `{study.name}` has no rater `{rater_id[:40]}`. {hint}".rstrip())


def _check_raters(study: Study) -> None:
    """Raise UserError unless raters have different ids that can be names of files."""
    ids = [rater.id for rater in study.raters]
    wrong = [one for one in ids if not is_rater_id(one)]
    wrong += sorted({one for one in ids if ids.count(one) > 1})
    if wrong:
        raise UserError(
            f"`{wrong[0][:80]}` cannot be the id of a rater: ids differ, and have lower case letters, digits, `_` and "
            "`-`, at most 40. Nothing was saved."
        )
    if unknown := study.assignments.keys() - set(ids):
        raise UserError(f"The plan has cases for `{min(unknown)}`, who is not among its raters. Nothing was saved.")


def read_study(store: Store, name: str) -> Study:
    """Read a plan. Raises: UserError for a study that the store does not have; StoreError for a damaged file."""
    try:
        file = study_folder(store, name) / PLAN
        about = file.stat()
    except (OSError, UserError):
        known = studies(store)
        hint = suggestion(name, known) if known else "`medhelm study new` plans the first one."
        raise UserError(f"The store has no study `{name[:80]}`. {hint}".rstrip()) from None
    return _read_plan(file, (about.st_mtime_ns, about.st_size, about.st_ino))


@lru_cache(maxsize=8)
def _read_plan(file: Path, state: tuple[int, int, int]) -> Study:  # noqa: ARG001 - a changed file is read again
    try:
        content = json.loads(read_confidential(file))
        if content.pop("format") != FORMAT:
            raise StoreError(f"{file} was written by a newer version of MedHELM. Install that version.")
        return STUDY_FORM.read(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{file} is damaged ({error}). Restore it from a copy.") from error


def digest_of(study: Study) -> str:
    """Return the sha256, in hex, of a plan."""
    return digest_of_lines([json.dumps(STUDY_FORM.write(study), sort_keys=True)])


def digest_of_lines(lines: Iterable[str]) -> str:
    """Return the sha256, in hex, of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


# --- ratings and events -----------------------------------------------------------------------------------------------


def locked(store: Store, name: str) -> AbstractContextManager[None]:
    """Lock the files of a study against other processes and threads; a thread may lock them again.

    Raises: StoreError, also for errors of the disk in the block.
    """
    return line_files.locked(store.folder, f"study-{name}", study_folder(store, name))


def append_event(store: Store, name: str, event: Event) -> int:
    """Add an event, and return the number of events. Raises: StoreError."""
    return append(store, name, study_folder(store, name) / EVENTS, json.dumps(EVENT_FORM.write(event)))


def note(
    store: Store, name: str, kind: EventKind, by: str, *, rater: str = "", item: str = "", text: str = ""
) -> Event:
    """Add an event that happens now, and return it; see `Event`. Raises: StoreError."""
    event = Event(time=now(), by=by, kind=kind, rater=rater, item=item, text=text)
    append_event(store, name, event)
    return event


def events(store: Store, name: str) -> list[Event]:
    """Return all events of a study, in order. Raises: StoreError."""
    return [event for _, event in parsed(study_folder(store, name) / EVENTS, EVENT_FORM) if event]


def rater_file(store: Store, name: str, rater_id: str) -> Path:
    """Return the path of a rater's ratings; the file may be missing. `rater_id`: a rater of the plan."""
    return study_folder(store, name) / RATERS / f"{rater_id}.jsonl"


def append_row(store: Store, name: str, row: RatingRow) -> None:
    """Add a rating to the file of its rater. Raises: StoreError."""
    append(store, name, rater_file(store, name, row.rater), json.dumps(ROW_FORM.write(row)))


def rows_of(store: Store, name: str, rater_id: str) -> list[RatingRow]:
    """Return all ratings of a rater in the order in which they were stored, earlier revisions included."""
    return [row for _, row in parsed(rater_file(store, name, rater_id), ROW_FORM) if row]


def append(store: Store, name: str, file: Path, line: str) -> int:
    """Add a line to a file of a study, and return the number of its lines. Raises: StoreError."""
    with locked(store, name):
        lines = [*line_files.read_lines(file), line]
        line_files.replace_lines(store.folder, file, lines)
    return len(lines)


def parsed(file: Path, form: JsonForm[T]) -> Iterator[tuple[str, T | None]]:
    """Yield the lines of a file, each with its value; None for a line that cannot be read. Raises: StoreError."""
    for line in line_files.read_lines(file):
        value = None
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            value = form.read(json.loads(line))
        yield line, value


# --- journal ----------------------------------------------------------------------------------------------------------

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
    return cases_with(study, rater_id, events(store, study.name))


def cases_with(study: Study, rater_id: str, happened: Iterable[Event]) -> tuple[Assignment, ...]:
    """Return the cases of a rater, given the events of the study. Raises: UserError for an unknown rater."""
    check_rater(study, rater_id)
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
    return {row.number: row for row in rows_of(store, study.name, rater_id)}


def all_rows(store: Store, study: Study) -> list[RatingRow]:
    """Return all stored ratings, earlier revisions included: rater by rater, in the order of storing."""
    return [row for rater in study.raters for row in rows_of(store, study.name, rater.id)]


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
    with locked(store, study.name):
        refuse_if_final(events(store, study.name), rater_id)
        rows = rows_of(store, study.name, rater_id)
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
        append_row(store, study.name, row)
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
