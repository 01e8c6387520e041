"""Pages for raters: their cases, one case with its form, instructions, and the end.

A rater's pages hold the texts of a case and numbers of the rater's own list: nothing that could tell which model wrote
a text, and nothing of other raters. The page of a case depends on its texts alone: equal texts have equal pages.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from medhelm.domain.text import plural
from medhelm.errors import MedHelmError, UserError
from medhelm.extensions.study import journal, progress, rating_form
from medhelm.extensions.study.journal import Event, EventKind, events, locked, rows_of
from medhelm.extensions.study.pages import RATE, form_of, person_of, render, store_of, study_of, wants_json
from medhelm.extensions.study.rating_form import CaseQuestion
from medhelm.extensions.study.texts import CaseGoneError, CaseTexts, case_texts, definitions_of
from medhelm.extensions.study.types import (
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentForm,
    MarkedPassage,
    MarkKind,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.io.http.pages import PageNotFound
from medhelm.storage.store import Store

CASES_FOR_PACE = 3
"""Rated cases from which the time left is computed from the rater's own pace."""

MOST_CASES_READ = 8
"""Cases whose lengths are looked at for that."""

SHORT_QUESTION = 240
"""Characters up to which the question above the material is never folded; longer ones are often alike in all cases."""

LONG_MATERIAL = 1_000
"""Characters from which material has a search box and shows where it ends."""

_STATES = {"done": "rated", "started": "started", "open": "not rated yet", "gone": "text was deleted"}


@dataclass(frozen=True, kw_only=True)
class RaterWork:
    """The cases of one rater in a study, and the ratings so far."""

    store: Store
    """The store."""
    study: Study
    """The plan."""
    rater: str
    """Id of the rater."""

    def again(self) -> RaterWork:
        """Return the same work as it is now: what was read before is read again."""
        return RaterWork(store=self.store, study=self.study, rater=self.rater)

    @cached_property
    def happened(self) -> Sequence[Event]:
        """Events of the study."""
        return events(self.store, self.study.name)

    @cached_property
    def cases(self) -> Mapping[int, Assignment]:
        """Number -> case."""
        return {one.number: one for one in journal.cases_with(self.study, self.rater, self.happened)}

    @cached_property
    def rows(self) -> Sequence[RatingRow]:
        """All ratings of the rater in the order of storing, earlier ones of each case included."""
        return rows_of(self.store, self.study.name, self.rater)

    @cached_property
    def latest(self) -> Mapping[int, RatingRow]:
        """Number of a case -> its latest rating."""
        return {row.number: row for row in self.rows}

    @cached_property
    def is_closed(self) -> bool:
        """True if nothing can be rated any more."""
        return any(
            one.kind is EventKind.CLOSED or (one.kind is EventKind.WITHDRAWN and one.rater == self.rater)
            for one in self.happened
        )

    def texts(self, number: int) -> CaseTexts:
        """Return the texts of a case. Raises: UserError if its completion is no longer in the store."""
        return case_texts(self.store, self.study, self.cases[number])

    def form(self, number: int) -> InstrumentForm:
        """Return what is asked in a case."""
        return journal.instrument_of_case(self.study, self.cases[number]).form

    @property
    def base(self) -> str:
        """Path of the rater's pages."""
        return f"{RATE}/{self.study.name}"

    def _state(self, number: int) -> str:
        row = self.latest.get(number)
        if self._deleted.intersection(self.cases[number].items):
            return "gone"
        if row is None or replace(row.rating, seconds=0.0, source=RatingSource.BROWSER) == CaseRating():
            return "open"
        criteria = journal.criteria_of_case(self.store, self.study, self.cases[number])
        return "done" if journal.is_complete(self.study, self.cases[number], row, criteria) else "started"

    @cached_property
    def _deleted(self) -> set[str]:
        """Ids of items whose texts were deleted from the store."""
        return {item for one in self.happened if one.kind is EventKind.PURGED for item in one.item.split()}

    @cached_property
    def states(self) -> Mapping[int, str]:
        """Number of a case -> its state: `done`, `started`, `open`, or `gone` if its text was deleted."""
        return {number: self._state(number) for number in self.cases}

    @property
    def n_cases(self) -> int:
        """Number of cases that can be rated."""
        return sum(state != "gone" for state in self.states.values())

    @property
    def n_complete(self) -> int:
        """Number of rated cases."""
        return sum(state == "done" for state in self.states.values())

    def next_open(self, after: int = 0) -> int | None:
        """Return the number of the next case to rate after this one, then from the start; None if all are rated."""
        left = [number for number in self._left if number != after]
        return min(left, key=lambda number: (number < after, number)) if left else None

    @property
    def _left(self) -> list[int]:
        """Numbers of the cases that are not rated yet."""
        return [number for number, state in self.states.items() if state in ("open", "started")]

    def time_left(self) -> str:
        """Return how long the open cases will take, in words; empty if none is open.

        From the seconds that the rater looked at each rated case once there are three; before, from the lengths of
        texts and the number of questions.
        """
        n_left = len(self._left)
        if not n_left:
            return ""
        seconds: dict[int, float] = {}
        for row in self.rows:
            seconds[row.number] = seconds.get(row.number, 0.0) + row.rating.seconds
        rated = [spent for number, spent in seconds.items() if spent and self.states.get(number) == "done"]
        if len(rated) >= CASES_FOR_PACE:
            low, _, high = statistics.quantiles(rated, n=4, method="inclusive")
            return time_words(n_left * low, n_left * high)
        typical = self._expected_seconds()
        return time_words(n_left * typical * 0.75, n_left * typical * 1.5)

    def _expected_seconds(self) -> float:
        """Return the expected seconds of an open case, from the lengths of some of them."""
        left, found = self._left, []
        for number in left[:: max(1, len(left) // MOST_CASES_READ)][:MOST_CASES_READ]:
            try:
                found.append(self.texts(number).seconds)
            except MedHelmError:
                continue  # a case that is gone takes no time
        return statistics.mean(found) if found else 0.0


def time_words(low_s: float, high_s: float) -> str:
    """Return a range of time in words.

    >>> time_words(1500, 2500), time_words(2800, 2900), time_words(8000, 16000), time_words(10, 20)
    ('about 25 to 45 minutes left', 'about 45 to 50 minutes left', 'about 2 to 4.5 hours left', 'about 1 minute left')
    """
    limits = ((1200, 60), (5400, 300), (36_000, 1800))
    step = next((step for most, step in limits if high_s <= most), 3600)
    size, unit = (60, "minute") if step < 1800 else (3600, "hour")
    low, high = max(1, int(low_s // step)) * step / size, max(1, -int(-high_s // step)) * step / size
    numbers = f"{low:g} to {high:g}" if low < high else f"{high:g}"
    return f"about {numbers} {unit}{'' if low == high == 1 else 's'} left"


# --- pages ------------------------------------------------------------------------------------------------------------


def _page(
    request: Request, work: RaterWork, template: str, title: str, *, status: int = 200, **values: Any
) -> Response:
    known = {
        "base": work.base,
        "study_title": work.study.title,
        "n_cases": work.n_cases,
        "last_number": max(work.cases, default=0),
        "n_complete": work.n_complete,
    }
    return render(request, template, title, {**known, **values}, status)


def _overview(request: Request, work: RaterWork) -> Response:
    """Return the list of a rater's cases; after the last case, the thanks."""
    is_list = bool(work.cases and request.query_params.get("list"))
    if work.is_closed or (work.next_open() is None and not is_list):
        title = "Thank you" if work.cases else "Nothing to rate yet"
        return _page(request, work, "rate_done.html", title, is_closed=work.is_closed)
    return _page(
        request,
        work,
        "rate.html",
        work.study.title,
        purpose=work.study.purpose,
        instructions=dict.fromkeys(one.instructions for one in work.study.instruments.values() if one.instructions),
        n_started=len(work.latest),
        left=work.time_left(),
        next_number=work.next_open(),
        groups=_groups(work),
    )


def _groups(work: RaterWork) -> list[dict[str, object]]:
    """Return the cases in up to three groups. Raters do not learn which cases others rate too, or come twice."""
    titles = {
        CaseKind.CALIBRATION: ("Calibration", "The same for all raters, to get used to the scale. They come first."),
        CaseKind.ADJUDICATION: (
            "Second opinion",
            "Other raters differ on these. Rate each case yourself; then you see what they gave.",
        ),
    }
    groups: dict[tuple[str, str], list[dict[str, object]]] = {}
    for number, case in work.cases.items():
        state = work.states[number]
        shown = {"number": number, "state": state, "words": _STATES[state]}
        groups.setdefault(titles.get(case.kind, ("Cases", "")), []).append(shown)
    return [{"title": title, "text": text, "cases": cases} for (title, text), cases in groups.items()]


def _instrument(request: Request, work: RaterWork) -> Response:
    """Return the page with the instructions, and each question with all its grades."""
    cases = {number: work.study.item(case.items[0]).benchmark for number, case in work.cases.items()}
    forms = rating_form.rater_forms(work.study, cases, definitions_of(work.store, work.study))
    return _page(request, work, "rate_instrument.html", "Instructions and scales", forms=forms)


def _case(request: Request, work: RaterWork) -> Response:
    """Return the page of a case."""
    number = _number(work, request)
    row = work.latest.get(number)
    if work.is_closed:
        return RedirectResponse(work.base, 303)
    try:
        return _case_page(request, work, number, row)
    except CaseGoneError as error:
        following = work.next_open(number)
        message = f"{error} It cannot be rated. Please go on with the others."
        return _page(
            request, work, "rate_message.html", f"Case {number}", status=410, message=message, following=following
        )


def _case_page(
    request: Request, work: RaterWork, number: int, row: RatingRow | None, *, status: int = 200, **more: Any
) -> Response:
    rating = row.rating if row else CaseRating()
    texts, form, kind = work.texts(number), work.form(number), work.cases[number].kind
    others = _others(work, number) if kind is CaseKind.ADJUDICATION else []
    is_first_look = kind is CaseKind.ADJUDICATION and not others
    values = {
        **case_values(number, texts, form, rating),
        "is_calibration": kind is CaseKind.CALIBRATION,
        "left": work.time_left(),
        "revision": row.revision if row else 0,
        "others": others,
        "next_label": "Save and compare" if is_first_look else "Confirm and next" if others else "Save and next",
    }
    if kind is CaseKind.CALIBRATION:
        values["is_asked_open"] = True
    title = f"Case {number} of {len(work.cases)}"
    return _page(request, work, "rate_case.html", title, status=status, **{**values, **more})


def case_values(number: int, texts: CaseTexts, form: InstrumentForm, rating: CaseRating) -> dict[str, object]:
    """Return what the content of `rate_case.html` shows of a case: its texts, its questions, and the rating so far."""
    return {
        "number": number,
        "question": texts.question,
        "material": texts.material,
        "is_long": len(texts.question) + sum(len(part.text) for part in texts.material) > LONG_MATERIAL,
        "is_asked_open": number == 1 or len(texts.question) <= SHORT_QUESTION,
        "is_calibration": False,
        "references": texts.references,
        "completions": texts.completions,
        "questions": rating_form.questions(texts.criteria, rating, form),
        "comment": rating.comment,
        "marks": [_shown_mark(texts, one) for one in rating.marks],
        "message": "",
        "unanswered": [],
        "passage": "",
        "passage_error": "",
        "sides": rating_form.SIDES,
        "reasons": rating_form.REASONS,
        "mark_names": rating_form.MARK_NAMES,
    }


def _others(work: RaterWork, number: int) -> list[dict[str, object]]:
    """Return what the others gave, once the adjudicator's own rating is complete; before that, nothing."""
    if work.states[number] != "done":
        return []
    criteria, form = work.texts(number).criteria, work.form(number)
    return [
        {
            "answers": [_answer_words(one) for one in rating_form.questions(criteria, rating, form)],
            "comment": rating.comment,
        }
        for rating in progress.others_after(work.store, work.study, work.rater, number)
    ]


def _answer_words(question: CaseQuestion) -> str:
    """Return an answer for people."""
    if question.is_not_judged:
        return f"Cannot judge: {question.words if question.reason == 'other' else question.reason}"
    return next((one.label for one in question.choices if one.is_chosen), "–")


def _shown_mark(texts: CaseTexts, mark: MarkedPassage) -> dict[str, object]:
    """Return a mark with its passage, cut in the middle if it is long."""
    text, is_place = texts.completions[mark.side], mark.start == mark.end
    passage = text[max(0, mark.start - 60) : mark.start] if is_place else text[mark.start : mark.end]
    passage = passage if len(passage) <= 90 else f"{passage[:60]} … {passage[-25:]}"
    return {
        "value": rating_form.mark_value(mark),
        "name": rating_form.MARK_NAMES[mark.kind],
        "side": mark.side,
        "is_place": is_place,
        "passage": passage,
    }


# --- saving -----------------------------------------------------------------------------------------------------------


def _save(request: Request, work: RaterWork, fields: Mapping[str, Sequence[str]]) -> Response:
    """Store what a form holds, and answer with the next page, or in JSON for the script of the page."""
    number, action = _number(work, request), _last(fields, "action") or "save"
    try:
        texts = work.texts(number)
        given, problem = _with_marks(rating_form.read_rating(fields, texts.criteria), action, fields, texts)
        with locked(work.store, work.study.name):
            joined = _joined(work.again(), number, given, _last(fields, "revision"))
            row = journal.record(work.store, work.study, work.rater, number, joined)
    except UserError as error:
        return _refused(request, work, error)
    now = work.again()
    is_elsewhere = _untimed(joined) != _untimed(given)
    unanswered = _unanswered(now, number, row.rating)
    to = _destination(now, number, action, is_ready=not unanswered, has_compared=_last(fields, "compared") == "1")
    if wants_json(request):
        return JSONResponse(_saved_json(now, row, unanswered, to, texts if is_elsewhere else None))
    if to and not is_elsewhere and not problem:
        return RedirectResponse(to, 303)
    wrong = unanswered if action == "next" else []
    message = ELSEWHERE if is_elsewhere else _message(wrong)
    status = 409 if is_elsewhere else 422 if message or problem else 200
    passage = _last(fields, "passage") if problem else ""
    more = {"message": message, "unanswered": wrong, "passage": passage, "passage_error": problem}
    return _case_page(request, now, number, row, status=status, **more)


def _refused(request: Request, work: RaterWork, error: UserError) -> Response:
    """Return the answer to a rating that cannot be stored."""
    if wants_json(request):
        return JSONResponse({"error": str(error), "is_final": work.is_closed}, 409 if work.is_closed else 422)
    if work.is_closed:
        return RedirectResponse(work.base, 303)
    title = "This rating was not saved"
    return _page(request, work, "rate_message.html", title, status=422, message=str(error), following=None)


def _untimed(rating: CaseRating) -> CaseRating:
    return replace(rating, seconds=0.0)


def _last(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """Return a field of a form; empty if it is missing."""
    return (fields.get(name) or ("",))[-1]


ELSEWHERE = (
    "This case was changed in another window or on another device. The newest answers are shown; what you changed here "
    "is kept. Look at them once more."
)
"""Message after two windows changed one case."""


def _joined(work: RaterWork, number: int, given: CaseRating, sent: str) -> CaseRating:
    """Return the rating to store: with the answers of another window that were saved since this one was loaded.

    `sent`: the revision that the window shows.
    """
    newest = work.latest.get(number)
    if newest is None or sent == str(newest.revision):
        return given
    base = next((one for one in work.rows if one.number == number and str(one.revision) == sent), None)
    return rating_form.merged(base.rating if base else CaseRating(), given, newest.rating)


def _with_marks(
    given: CaseRating, action: str, fields: Mapping[str, Sequence[str]], texts: CaseTexts
) -> tuple[CaseRating, str]:
    """Return the rating after a mark was added or removed without a script, and what is wrong with the passage."""
    if action.startswith("remove "):
        value = action.removeprefix("remove ")
        return replace(given, marks=tuple(one for one in given.marks if rating_form.mark_value(one) != value)), ""
    if action != "mark":
        return given, ""
    side = 1 if _last(fields, "passage_side") == "1" and len(texts.completions) > 1 else 0
    kind = _last(fields, "passage_kind")
    if kind not in tuple(MarkKind):
        return given, "Choose what is wrong with the passage."
    mark = rating_form.mark_of(texts.completions[side], _last(fields, "passage"), MarkKind(kind), side)
    if mark is None:
        return given, "The text does not hold this passage. Copy its words exactly; spaces and line ends do not matter."
    return replace(given, marks=(*(one for one in given.marks if one != mark), mark)), ""


def _unanswered(work: RaterWork, number: int, rating: CaseRating) -> list[CaseQuestion]:
    """Return the questions that still need an answer."""
    if work.states[number] == "done":
        return []
    asked = rating_form.questions(work.texts(number).criteria, rating, work.form(number))
    return [one for one in asked if one.is_asked and not one.is_answered]


def _message(unanswered: Sequence[CaseQuestion]) -> str:
    if not unanswered:
        return ""
    verb = "has" if len(unanswered) == 1 else "have"
    return (
        f"Saved, but {plural(len(unanswered), 'question')} {verb} no answer yet. Answer, choose “Cannot judge” with a "
        "reason, or leave the case for later."
    )


def _destination(work: RaterWork, number: int, action: str, *, is_ready: bool, has_compared: bool) -> str:
    """Return where a browser goes after saving; empty to stay.

    `has_compared`: True if the page showed an adjudicator what the others gave.
    """
    base = work.base
    if action == "pause":
        return f"{base}?list=1"
    if action == "back":
        return f"{base}/cases/{max(1, number - 1)}"
    if action == "later" or (action == "next" and is_ready):
        is_adjudication = work.cases[number].kind is CaseKind.ADJUDICATION
        if is_adjudication and action == "next" and not has_compared:
            return f"{base}/cases/{number}#others"
        following = work.next_open(number)
        return f"{base}/cases/{following}" if following else base if is_ready else f"{base}?list=1"
    return ""


def _saved_json(
    work: RaterWork, row: RatingRow, unanswered: Sequence[CaseQuestion], to: str, texts: CaseTexts | None
) -> dict[str, object]:
    """Return the answer to the script; `texts`: those of a case that was changed in another window."""
    left = work.time_left()
    return {
        "revision": row.revision,
        "n_complete": work.n_complete,
        "progress": f"{work.n_complete} of {work.n_cases} rated{f', {left}' if left else ''}",
        "unanswered": [f"question-{one.number}" for one in unanswered],
        "message": _message(unanswered),
        "next": to,
        "values": rating_form.form_values(texts.criteria, row.rating) if texts else None,
    }


# --- requests ---------------------------------------------------------------------------------------------------------


def _number(work: RaterWork, request: Request) -> int:
    """Return the number of the case in the path. Raises: PageNotFound for a number that is not the rater's."""
    text = str(request.path_params.get("number", ""))
    if text.isascii() and text.isdigit() and len(text) < 7 and int(text) in work.cases:
        return int(text)
    raise PageNotFound(f"Your cases have the numbers 1 to {len(work.cases)}.")


def _work(request: Request) -> RaterWork:
    person = person_of(request)
    assert person is not None, "the application asks strangers to sign in"
    return RaterWork(store=store_of(request), study=study_of(request), rater=person.id)


def _page_of(answer: Callable[[Request, RaterWork], Response]) -> Callable[[Request], Response]:
    return lambda request: answer(request, _work(request))


async def save(request: Request) -> Response:
    """Store what the form of a case holds."""
    fields = await form_of(request)
    return await run_in_threadpool(lambda: _save(request, _work(request), fields))


ROUTES = (
    ("rate", "/rate/{study}", ["GET"], _page_of(_overview)),
    ("rate_case", "/rate/{study}/cases/{number}", ["GET"], _page_of(_case)),
    ("rate_save", "/rate/{study}/cases/{number}", ["POST"], save),
    ("rate_instrument", "/rate/{study}/instrument", ["GET"], _page_of(_instrument)),
)
"""Name, path, methods and handler of the pages of raters; `app` adds those for signing in and for another device."""
