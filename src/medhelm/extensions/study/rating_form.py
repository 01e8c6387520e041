"""The form of a case: its questions as a page shows them, and the rating that a browser sends back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from medhelm.domain import Benchmark
from medhelm.domain.text import listed
from medhelm.errors import UserError
from medhelm.extensions.study.instruments import HARM, RUBRIC
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    CaseRating,
    Instrument,
    InstrumentCriterion,
    InstrumentForm,
    MarkedPassage,
    MarkKind,
    Study,
)

REASONS = (
    "The material does not say",
    "Outside my field",
    "The question does not apply here",
    "I cannot read the text",
)
"""Reasons to give no grade that a rater can choose; other ones are typed."""

OTHER_REASON = "other"
"""Value of a form for a reason that is typed."""

NOT_JUDGED = "none"
"""Value of a form in place of a grade."""

MARK_NAMES: Mapping[MarkKind, str] = {
    MarkKind.ERROR: "Error",
    MarkKind.OMISSION: "Something missing",
    MarkKind.INVENTED: "Invented",
}
"""Kind of a mark -> its name for raters."""

SIDES = ("Left", "Right")
"""Names of the two completions of a preference."""

LONGEST_LABEL = 40
"""Most characters of a meaning that is shown instead of its grade."""

_HARM = {HARM_SEVERITY: "harm-severity", HARM_LIKELIHOOD: "harm-likelihood"}
_MARK = re.compile(r"(\d{1,9})-(\d{1,9})-([a-z]+)-([01])", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeChoice:
    """A grade that a rater can choose."""

    value: str
    """Value in the form."""
    label: str
    """Text beside the button: the grade, or its meaning if all meanings of the scale are short."""
    meaning: str
    """Meaning of the grade, where the label does not say it; may be empty."""
    key: str
    """Digit that chooses it while the question has the focus; empty beyond nine choices."""
    is_chosen: bool
    """True if the rater gave this grade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuestion:
    """A question of the form, with what the rater has answered so far."""

    number: int
    """Its place in the form, from 1; part of the names of its fields."""
    kind: str
    """`harm-severity` or `harm-likelihood`; empty for a criterion."""
    text: str
    """The question in the instrument's words."""
    choices: tuple[GradeChoice, ...]
    """The grades, the lowest first; for checks, the highest first."""
    has_words: bool
    """True if the labels are words rather than numbers."""
    is_not_judged: bool
    """True if the rater gave a reason instead of a grade."""
    reason: str
    """The chosen one of `REASONS`, `OTHER_REASON`, or empty."""
    words: str
    """The reason in the rater's own words."""
    is_asked: bool
    """False for the likelihood of no harm."""

    @property
    def is_answered(self) -> bool:
        """Return True if there is a grade or a reason."""
        return self.is_not_judged or any(one.is_chosen for one in self.choices)

    @property
    def ends(self) -> tuple[GradeChoice, GradeChoice]:
        """Return the lowest and the highest grade."""
        return self.choices[0], self.choices[-1]

    @property
    def explained(self) -> tuple[GradeChoice, ...]:
        """Return the grades with a meaning that is not visible at the ends of the scale."""
        return tuple(one for one in self.choices if one.meaning) if any(c.meaning for c in self.choices[1:-1]) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterForm:
    """A form of a rater's cases: what it is for, its instructions and its questions."""

    title: str
    """Name of the form; of several that come from rubrics, the names of their benchmarks."""
    about: str = ""
    """The texts that it is for, in sentences; empty for the only form."""
    instructions: str = ""
    """Text to read before rating; may be empty."""
    source: str = ""
    """Publication with its license; empty for a benchmark's own rubric."""
    questions: Sequence[CaseQuestion] = ()
    """The questions, without those that each case has of its own."""
    has_own: bool = False
    """True if each case has criteria of its own."""


def rater_forms(study: Study, cases: Mapping[int, str], definitions: Mapping[str, Benchmark]) -> list[RaterForm]:
    """Return the forms of a rater's cases; of several, what is the same in all comes first, under a title of its own.

    Parameters: cases, number -> benchmark of each case, empty for all forms of the study; definitions, benchmark -> its
    definition, as far as known.
    """
    asked = set(cases.values()) or set(study.benchmarks)
    benchmarks_of: dict[str, list[str]] = {}
    for benchmark in study.benchmarks:
        if benchmark in asked:
            benchmarks_of.setdefault(study.instruments[benchmark].digest, []).append(benchmark)
    groups = [(study.instruments[own[0]], own) for own in benchmarks_of.values()]
    harm = HARM if study.asks_harm else ()
    if len(groups) == 1:
        ((one, _),) = groups
        title = "Questions" if one.name == RUBRIC else one.title
        return [_form(one, title, "", one.instructions, harm)]
    texts = {one.instructions for one, _ in groups}
    common = texts.pop() if len(texts) == 1 else ""
    found = []
    if common or harm:
        form = InstrumentForm.GRADES
        found.append(RaterForm(title="All cases", instructions=common, questions=questions(harm, CaseRating(), form)))
    for one, own in groups:
        names = listed([definitions[name].title if name in definitions else name for name in own])
        about = [*cases_in_words(number for number, name in cases.items() if name in own)]
        about += [f"The task: {definitions[name].description}" for name in own if name in definitions]
        title = names if one.name == RUBRIC else f"{one.title}: {names}"
        found.append(_form(one, title, " ".join(about), "" if common else one.instructions, ()))
    return found


def _form(
    one: Instrument, title: str, about: str, instructions: str, harm: tuple[InstrumentCriterion, ...]
) -> RaterForm:
    licensed = f" License: {one.license}." if one.license else ""
    return RaterForm(
        title=title,
        about=about,
        instructions=instructions,
        source="" if one.name == RUBRIC or not one.source else f"{one.source}{licensed}",
        questions=questions(one.criteria + harm, CaseRating(), one.form),
        has_own=not one.criteria,
    )


def cases_in_words(numbers: Iterable[int]) -> Iterator[str]:
    """Yield a sentence that names cases, unless there are none.

    >>> *cases_in_words([1, 2, 3, 5, 8, 9]), *cases_in_words([4]), *cases_in_words([])
    ('Cases 1 to 3, 5, 8 and 9.', 'Case 4.')
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [text for own in runs for text in ([f"{own[0]} to {own[-1]}"] if len(own) > 2 else map(str, own))]
    if parts:
        yield f"Case{'s' if sum(map(len, runs)) > 1 else ''} {listed(parts)}."


def questions(
    criteria: Sequence[InstrumentCriterion], rating: CaseRating, form: InstrumentForm = InstrumentForm.GRADES
) -> list[CaseQuestion]:
    """Return the questions of a case, with what the rater has answered so far."""
    own = [_has_short_meanings(_meanings(one)) for one in criteria if one.name not in _HARM]
    return [_question(number, one, rating, form, all(own)) for number, one in enumerate(criteria, start=1)]


def _question(
    number: int, criterion: InstrumentCriterion, rating: CaseRating, form: InstrumentForm, own_words: bool
) -> CaseQuestion:
    meanings = _meanings(criterion)
    has_words = own_words if criterion.name not in _HARM else _has_short_meanings(meanings)
    choices = [
        GradeChoice(
            value=str(grade),
            label=meaning if has_words else str(grade),
            meaning="" if has_words else meaning,
            key="",
            is_chosen=grade == rating.grades.get(criterion.name),
        )
        for grade, meaning in zip(criterion.grades, meanings, strict=True)
    ]
    if form is InstrumentForm.CHECKS and criterion.name not in _HARM:
        choices.reverse()
    keys = range(1, len(choices) + 1) if has_words else criterion.grades
    reason = rating.not_judged.get(criterion.name, "")
    chosen, words = _reason_parts(reason)
    return CaseQuestion(
        number=number,
        kind=_HARM.get(criterion.name, ""),
        text=criterion.question,
        choices=tuple(replace(one, key=_key(key)) for one, key in zip(choices, keys, strict=True)),
        has_words=has_words,
        is_not_judged=bool(reason),
        reason=chosen,
        words=words,
        is_asked=criterion.name != HARM_LIKELIHOOD or rating.grades.get(HARM_SEVERITY) != 0,
    )


def _has_short_meanings(meanings: Sequence[str]) -> bool:
    """Return True if the meanings can be shown instead of the grades."""
    return all(meanings) and all(len(text) <= LONGEST_LABEL for text in meanings)


def _meanings(criterion: InstrumentCriterion) -> list[str]:
    """Return what each grade means, the lowest first; empty where the instrument does not say it."""
    return [criterion.anchors.get(str(grade), "") for grade in criterion.grades]


def _key(number: int) -> str:
    return str(number) if 0 <= number <= 9 else ""


def _reason_parts(reason: str) -> tuple[str, str]:
    """Return the listed reason and the words after it, as `_reason` joins them."""
    for known in REASONS:
        if reason == known:
            return known, ""
        if reason.startswith(f"{known}: "):
            return known, reason.removeprefix(f"{known}: ")
    return (OTHER_REASON, reason) if reason else ("", "")


def _reason(listed: str, words: str) -> str:
    """Return the reason that is stored; empty if the rater has given none yet."""
    if listed in REASONS:
        return f"{listed}: {words}" if words else listed
    return words


# --- reading ----------------------------------------------------------------------------------------------------------


def read_rating(fields: Mapping[str, Sequence[str]], criteria: Sequence[InstrumentCriterion]) -> CaseRating:
    """Return the rating in the fields of a form; `journal` checks it. Raises: UserError for what no page sends."""
    grades, not_judged = {}, {}
    for number, criterion in enumerate(criteria, start=1):
        value = _field(fields, f"grade-{number}")
        if value == NOT_JUDGED:
            words = _field(fields, f"words-{number}")
            if reason := _reason(_field(fields, f"reason-{number}"), words):
                not_judged[criterion.name] = reason
        elif value:
            grades[criterion.name] = _grade(value, criterion)
    if grades.get(HARM_SEVERITY) == 0:  # the likelihood of no harm is not asked
        grades.pop(HARM_LIKELIHOOD, None)
        not_judged.pop(HARM_LIKELIHOOD, None)
    return CaseRating(
        grades=grades,
        not_judged=not_judged,
        comment=_field(fields, "comment"),
        marks=_marks(fields.get("mark", ())),
        seconds=_seconds(_field(fields, "seconds")),
    )


def _field(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """Return a field of a form, without spaces around it and with the line ends of this system."""
    return (fields.get(name) or ("",))[-1].replace("\r\n", "\n").strip()


def _grade(value: str, criterion: InstrumentCriterion) -> int:
    for grade in criterion.grades:
        if value == str(grade):
            return grade
    raise UserError(f"{value[:20]} is not a grade from {criterion.low} to {criterion.high}.")


def _seconds(value: str) -> float:
    try:
        seconds = float(value or 0)
    except ValueError:
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def _marks(values: Sequence[str]) -> tuple[MarkedPassage, ...]:
    found: list[MarkedPassage] = []
    for value in values:
        matched = _MARK.fullmatch(value)
        if not matched or matched[3] not in tuple(MarkKind):
            raise UserError("The marked passages cannot be read.")
        found.append(
            MarkedPassage(start=int(matched[1]), end=int(matched[2]), kind=MarkKind(matched[3]), side=int(matched[4]))
        )
    return tuple(sorted(set(found), key=lambda mark: (mark.side, mark.start, mark.end, mark.kind)))


def mark_value(mark: MarkedPassage) -> str:
    """Return the value of a mark in the form, such as `12-30-error-0`: start, end, kind, side."""
    return f"{mark.start}-{mark.end}-{mark.kind}-{mark.side}"


def mark_of(text: str, passage: str, kind: MarkKind, side: int) -> MarkedPassage | None:
    """Return the mark of a passage that was typed; None if the text does not hold it.

    White space need not agree. Something missing is marked at the end of the passage after which it is missing.
    """
    words = passage.split()
    found = re.search(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE) if words else None
    if not found:
        return None
    start = found.end() if kind is MarkKind.OMISSION else found.start()
    return MarkedPassage(start=start, end=found.end(), kind=kind, side=side)


def form_values(criteria: Sequence[InstrumentCriterion], rating: CaseRating) -> dict[str, str | list[str]]:
    """Return the fields of a form that holds a rating: what `read_rating` reads as the same rating, time aside."""
    values: dict[str, str | list[str]] = {"comment": rating.comment, "mark": [mark_value(one) for one in rating.marks]}
    for number, criterion in enumerate(criteria, start=1):
        reason = rating.not_judged.get(criterion.name, "")
        grade = rating.grades.get(criterion.name)
        values[f"grade-{number}"] = NOT_JUDGED if reason else "" if grade is None else str(grade)
        values[f"reason-{number}"], values[f"words-{number}"] = _reason_parts(reason)
    return values


# --- two windows ------------------------------------------------------------------------------------------------------


def merged(base: CaseRating, mine: CaseRating, newest: CaseRating) -> CaseRating:
    """Return a rating that joins the changes of two windows; where both changed the same answer, `mine` wins.

    Parameters
    ----------
    base
        The rating that both windows began with.
    mine
        What this window holds; its time is kept.
    newest
        What another window has saved since.
    """
    grades, not_judged = dict(newest.grades), dict(newest.not_judged)
    for name in _answered(base) | _answered(mine):
        if _answer(mine, name) != _answer(base, name):
            grades.pop(name, None)
            not_judged.pop(name, None)
            if name in mine.grades:
                grades[name] = mine.grades[name]
            if name in mine.not_judged:
                not_judged[name] = mine.not_judged[name]
    removed = set(base.marks) - set(mine.marks)
    marks = [one for one in newest.marks if one not in removed]
    marks += [one for one in mine.marks if one not in base.marks and one not in marks]
    comment = newest.comment if mine.comment == base.comment else mine.comment
    return replace(mine, grades=grades, not_judged=not_judged, marks=tuple(marks), comment=comment)


def _answered(rating: CaseRating) -> set[str]:
    return {*rating.grades, *rating.not_judged}


def _answer(rating: CaseRating, name: str) -> tuple[int | None, str]:
    return rating.grades.get(name), rating.not_judged.get(name, "")
