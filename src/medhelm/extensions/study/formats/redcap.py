"""REDCap: data dictionary and records of a rater, and the records that come back.

`NAME-dictionary.csv` makes the project, `NAME-records.csv` fills it: one record a case, named RATER-NUMBER, so that all
raters can share a project. Texts are notes that cannot be changed. An export of records is read with raw values or with
labels, whatever further columns it has.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain.text import group_title
from medhelm.errors import ConfigError, Problem
from medhelm.extensions.study.formats import exchange
from medhelm.extensions.study.formats.exchange import OfflineCase, OpenRater, RaterCases, ReturnedFile, ReturnedRating
from medhelm.extensions.study.types import InstrumentCriterion, RatingSource
from medhelm.io.spreadsheets import Spreadsheet, clean_cell, guarded, read_spreadsheet

HEADER = (
    "Variable / Field Name",
    "Form Name",
    "Section Header",
    "Field Type",
    "Field Label",
    "Choices, Calculations, OR Slider Labels",
    "Field Note",
    "Text Validation Type OR Show Slider Number",
    "Text Validation Min",
    "Text Validation Max",
    "Identifier?",
    "Branching Logic (Show field only if...)",
    "Required Field?",
    "Custom Alignment",
    "Question Number (surveys only)",
    "Matrix Group Name",
    "Matrix Ranking?",
    "Field Annotation",
)
"""The 18 columns of a data dictionary."""

FORM = "rating"
"""Name of the form."""

MOST_NAME = 26
"""Most characters of a name of a variable."""

MOST_VALUE = 16_000
"""Most characters of a value: REDCap keeps 65,535 bytes."""

UNKNOWN = "cannot_judge"
"""Code of the choice `cannot judge`."""

HIDDEN, FIXED = "Set by the export. @HIDDEN @READONLY", "Set by the export. @READONLY"
"""Annotations with action tags; a cell that began with `@` could run as a formula."""

_KEPT = ("study", "plan", "rater", "case_number", "digest", "revision", "n_criteria")
"""Hidden variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedcapField:
    """A variable of the project: a row of the data dictionary."""

    name: str
    """Name of the variable."""
    label: str
    """Label, different for all variables."""
    kind: str = "notes"
    """`text`, `notes` or `radio`."""
    choices: Mapping[str, str] | None = None
    """Code -> label, of a radio field."""
    note: str = ""
    """Text below the field."""
    section: str = ""
    """Heading above the field."""
    logic: str = ""
    """Condition under which it is shown."""
    annotation: str = ""
    """Action tags."""

    def row(self) -> list[str]:
        """Return the row of the data dictionary."""
        listed = " | ".join(f"{code}, {label}" for code, label in (self.choices or {}).items())
        cells = [self.name, FORM, self.section, self.kind, self.label, listed, self.note]
        return [*cells, *[""] * 4, self.logic, *[""] * 5, self.annotation]


# --- writing ----------------------------------------------------------------------------------------------------------


def write_redcap(cases: RaterCases) -> dict[str, bytes]:
    """Return data dictionary and records, for each instrument, under the ends of their names."""
    files = {}
    for suffix, own in cases.by_instrument():
        fields = project_fields(own)
        files[f"{suffix}-dictionary.csv"] = _csv([HEADER, *(one.row() for one in fields)])
        names = [one.name for one in fields]
        records = [_record(cases, one) for one in own]
        files[f"{suffix}-records.csv"] = _csv([names, *([one.get(name, "") for name in names] for one in records)])
    return files


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    """Return a CSV file as REDCap reads it: UTF-8 without a byte order mark."""
    content = io.StringIO(newline="")
    csv.writer(content, lineterminator="\n").writerows([guarded(cell) for cell in row] for row in rows)
    return content.getvalue().encode("utf-8", "replace")


def project_fields(cases: Sequence[OfflineCase]) -> list[RedcapField]:
    """Return the variables of a project with cases of one instrument."""
    fields = [RedcapField(name="record_id", label="Record", kind="text")]
    fields += (RedcapField(name=name, label=group_title(name), kind="text", annotation=HIDDEN) for name in _KEPT)
    for key, title in exchange.TITLES.items():
        for number in range(1, max(len(_parts(one.shown.get(key, ""))) for one in cases) + 1):
            label = title if number == 1 else f"{title}, continued ({number})"
            name = _text_name(key, number)
            fields.append(RedcapField(name=name, label=label, annotation=FIXED, logic=f"[{name}] <> ''"))
    is_own = not cases[0].instrument.criteria
    names = variable_names(list(exchange.common_fields(cases)))
    for number, (field, question) in enumerate(exchange.common_fields(cases).items(), 1):
        fields += _question_fields(number, names[field], question, is_own=is_own and field.startswith("criterion_"))
    return [*fields, RedcapField(name="comment", label="Comment on the case")]


def _question_fields(number: int, name: str, question: InstrumentCriterion, *, is_own: bool) -> Iterator[RedcapField]:
    """Yield the variables of a question. `is_own`: True if each record has its own words for it."""
    logic = f"[n_criteria] >= {number}" if is_own else ""
    if is_own:
        yield RedcapField(name=f"{name}_text", label=f"Criterion {number}", annotation=FIXED, logic=logic)
    yield RedcapField(
        name=name,
        label=f"{number}. Is criterion {number} met?" if is_own else f"{number}. {question.question}",
        kind="radio",
        choices=codes(question),
        section="Your rating" if number == 1 else "",
        logic=logic,
    )
    label = f"{number}. Why can you not judge this?"
    yield RedcapField(name=f"{name}_why", label=label, logic=f"[{name}] = '{UNKNOWN}'")


def codes(question: InstrumentCriterion) -> dict[str, str]:
    """Return code -> label of the choices of a question. Labels are different, and hold no bar."""
    found = {}
    for grade in question.grades:
        meaning = " ".join(question.anchors.get(str(grade), "").replace("|", "/").split())
        found[str(grade)] = f"{grade} = {meaning}" if meaning else str(grade)
    return {**found, UNKNOWN: "Cannot judge"}


def variable_names(fields: Sequence[str]) -> dict[str, str]:
    """Return field -> name of its variable: different, short enough for `_text` or `_why` behind it.

    >>> list(variable_names(["accuracy", "comment", "correct_in_all_numbers_a", "correct_in_all_numbers_b"]).values())
    ['accuracy', 'comment_2', 'correct_in_all_number', 'correct_in_all_numb_2']
    """
    taken = {"record_id", "comment", *_KEPT, *exchange.TITLES, f"{FORM}_complete"}
    found = {}
    for field in fields:
        start = re.sub(r"[^a-z0-9]+", "_", field.lower())[: MOST_NAME - 5].strip("_") or "question"
        number, name = 1, start
        while taken & {name, f"{name}_why", f"{name}_text"}:
            number += 1
            name = f"{start[: MOST_NAME - 6 - len(str(number))].strip('_')}_{number}"
        taken |= {name, f"{name}_why", f"{name}_text"}
        found[field] = name
    return found


def _text_name(key: str, number: int) -> str:
    return key if number == 1 else f"{key}_part_{number}"


def _parts(text: str) -> list[str]:
    return [text[start : start + MOST_VALUE] for start in range(0, len(text), MOST_VALUE)]


def _record(cases: RaterCases, case: OfflineCase) -> dict[str, str]:
    """Return the record of a case, with the latest rating."""
    number = str(case.number)
    values = [cases.study.name, cases.plan, cases.rater, number, case.digest, str(case.revision)]
    names = variable_names(list(case.fields))
    n_criteria = sum(name.startswith("criterion_") for name in case.fields)
    found = {"record_id": f"{cases.rater}-{number}", **dict(zip(_KEPT, [*values, str(n_criteria)], strict=True))}
    for key, text in case.shown.items():
        found |= {_text_name(key, place): part for place, part in enumerate(_parts(text), 1)}
    for field, question in case.fields.items():
        name = names[field]
        if not case.instrument.criteria and field.startswith("criterion_"):
            found[f"{name}_text"] = question.question
        if case.rating and question.name in case.rating.grades:
            found[name] = str(case.rating.grades[question.name])
        elif case.rating and question.name in case.rating.not_judged:
            found |= {name: UNKNOWN, f"{name}_why": case.rating.not_judged[question.name]}
    return found | {"comment": case.rating.comment if case.rating else ""}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_redcap(path: Path, open_rater: OpenRater) -> ReturnedFile:
    """Read an export of records, with raw values or labels. Raises: ConfigError with everything that is wrong."""
    sheet = read_spreadsheet(path, set(_KEPT))
    columns = _columns(sheet, {name: group_title(name) for name in _KEPT})
    if missing := [name for name in _KEPT if name not in columns]:
        text = f"has no column `{missing[0]}`. Export all fields of the form from REDCap, as CSV."
        raise ConfigError(str(path), [Problem(text, sheet.line)])
    origins = {
        exchange.FileOrigin(**{key: _cell(cells, columns[key]) for key in ("study", "plan", "rater")})
        for _, cells in sheet.rows
    }
    if len(origins) != 1:
        text = "holds no records." if not origins else "holds records of several studies or raters. Export one rater's."
        raise exchange.refusal(path, text)
    cases = open_rater(origins.pop())
    reading = _RecordsReader(sheet, cases)
    ratings = [rating for line, cells in sheet.rows if (rating := reading.rating(line, cells))]
    if reading.problems:
        raise ConfigError(str(path), reading.problems)
    return ReturnedFile(rater=cases.rater, source=RatingSource.REDCAP, ratings=tuple(ratings))


def _columns(sheet: Spreadsheet, labels: Mapping[str, str]) -> dict[str, int]:
    """Return variable -> its column, by its name or by its label."""
    names = [clean_cell(name).casefold() for name in sheet.names]
    found = {}
    for variable, label in labels.items():
        places = [names.index(one) for one in (variable, clean_cell(label).casefold()) if one in names]
        if places:
            found[variable] = places[0]
    return found


def _cell(cells: Sequence[str], place: int | None) -> str:
    return cells[place].strip() if place is not None and place < len(cells) else ""


class _RecordsReader:
    """Reads records, and collects their problems."""

    def __init__(self, sheet: Spreadsheet, cases: RaterCases) -> None:
        """Find the columns of each instrument."""
        self.problems: list[Problem] = []
        self._cases, self._seen = cases, set[int]()
        self._groups = {
            number: (columns, names)
            for _, own in cases.by_instrument()
            for columns in [_columns(sheet, {one.name: one.label for one in project_fields(own)})]
            for names in [variable_names(list(exchange.common_fields(own)))]
            for number in (one.number for one in own)
        }
        self._kept = _columns(sheet, {name: group_title(name) for name in _KEPT})

    def rating(self, line: int, cells: Sequence[str]) -> ReturnedRating | None:
        """Return the rating in a record; None if it has none."""
        number, digest, revision = (_cell(cells, self._kept[key]) for key in ("case_number", "digest", "revision"))
        try:
            case = self._cases.checked_case(number, digest)
            if case and case.number in self._seen:
                raise ValueError(f"case {case.number} occurs twice. Keep one record.")
        except ValueError as error:
            self.problems.append(Problem(f"case_number: {error}", line))
            return None
        if case is None:
            return None
        self._seen.add(case.number)
        columns, names = self._groups[case.number]
        found: list[Problem] = []
        answers = {}
        for field, question in case.fields.items():
            name = names[field]
            answer = self._answer(_cell(cells, columns.get(name)), question)
            reason = _cell(cells, columns.get(f"{name}_why")) if answer == exchange.CANNOT_JUDGE else ""
            answers[question.name] = exchange.GivenAnswer(answer, reason, name, f"{name}_why")
        comment = _cell(cells, columns.get("comment"))
        rating = exchange.read_answers(
            case, answers, found, place="the record", source=RatingSource.REDCAP, comment=comment
        )
        self.problems += (Problem(one.text, line) for one in found)
        given = int(revision) if revision.isdigit() else 0
        return ReturnedRating(number=case.number, revision=given, rating=rating) if rating else None

    @staticmethod
    def _answer(cell: str, question: InstrumentCriterion) -> str:
        """Return an answer as `parse_answer` reads it, from the code or the label of a choice."""
        for code, label in codes(question).items():
            if clean_cell(cell).casefold() in (code, clean_cell(label).casefold()):
                return exchange.CANNOT_JUDGE if code == UNKNOWN else code
        return cell
