"""The workbook of a rater: each case from top to bottom, its texts and below them the cells to fill in.

Rows are recognized by the number of the case and the name of the part, wherever they are. The digest of the texts of a
case shows that its rows still belong together.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medhelm.domain.text import group_title, listed, value_in_words
from medhelm.errors import ConfigError, DataError, Problem
from medhelm.extensions.study.formats import exchange
from medhelm.extensions.study.formats.exchange import OfflineCase, OpenRater, RaterCases, ReturnedFile, ReturnedRating
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.rating_form import cases_in_words
from medhelm.extensions.study.types import CaseRating, InstrumentCriterion, RatingSource
from medhelm.io.office import WorkbookSheet, cell_name, read_sheets
from medhelm.io.rows import BrokenCell
from medhelm.io.spreadsheets import clean_cell
from medhelm.results.formats.rating_workbook import AnswerCell, FormCell, choice_rule, new_workbook, write_form

COLUMNS = {"Case": 7, "Part": 20, "Text": 90, "Your answer": 18, "Your words": 34}
"""Columns of the sheet to fill in, with their widths."""

COMMENT = "Comment on the case"
"""Part with the comment on a case."""

_MARK = "medhelm study"
"""First cell of the hidden sheet."""

_LINES, _LINE = 22, 85
"""Most lines of a text in one row, and characters of a line: Excel shows no row of more than 409 points."""

_INSTRUCTIONS = (
    "Fill in the yellow cells of the sheet Cases. They turn green when they are filled in.",
    "Each case has its texts first, and below them the questions. The sheet Rubric has the questions and their scales.",
    f'If you cannot judge something, choose "{exchange.CANNOT_JUDGE}" and write why into the last column.',
    "Leave a cell empty if you have not decided yet. Rate on your own: do not discuss cases with other raters.",
    "To see one case alone, choose its number with the arrow at the head of the column Case.",
    "Save the file as .xlsx under its name and return it. Do not copy, move or delete rows or sheets.",
)


# --- writing ----------------------------------------------------------------------------------------------------------


def write_workbook(cases: RaterCases) -> dict[str, bytes]:
    """Return the workbook, under the end of its name."""
    content = io.BytesIO()
    with new_workbook(content) as workbook:
        _write_instructions(workbook, cases)
        _write_rubric(workbook, cases)
        rows = [row for one in cases.cases for row in _case_rows(one, len(cases.cases) + len(cases.gone))]
        sheet = write_form(workbook, "Cases", COLUMNS, rows, n_frozen=2)
        _color(workbook, sheet, len(rows))
        known: list[Sequence[FormCell]] = [
            [_MARK, cases.study.name, exchange.FORMAT],
            ["plan", cases.plan],
            ["rater", cases.rater],
        ]
        known += ([str(one.number), one.digest, one.revision] for one in cases.cases)
        write_form(workbook, "Study", {"key": 16, "value": 24, "revision": 10}, known).hide()
    return {".xlsx": content.getvalue()}


def _write_instructions(workbook: Any, cases: RaterCases) -> None:
    """Write the sheet that a rater reads first."""
    study = cases.study
    lines = [study.title, study.purpose, *_INSTRUCTIONS]
    lines += dict.fromkeys(one.instructions for one in study.instruments.values())
    write_form(workbook, "Instructions", {"How to rate": 110}, [[line] for line in lines if line])


def _write_rubric(workbook: Any, cases: RaterCases) -> None:
    """Write the sheet with the questions and what their grades mean."""
    places: dict[tuple[str, ...], list[OfflineCase]] = {}
    for case in cases.cases:
        for one in case.questions:
            if case.instrument.criteria or one in HARM:
                places.setdefault(_rubric_row(one), []).append(case)
        if not case.instrument.criteria:
            own = ("Own criteria", "These cases have criteria of their own, below their texts.", "", "")
            places.setdefault(own, []).append(case)
    rows = [(*row, _texts_in_words(own, cases)) for row, own in places.items()]
    columns = {"Question": 24, "In words": 70, "Answers": 16, "Meaning": 50, "For": 34}
    write_form(workbook, "Rubric", columns, rows)


def _texts_in_words(asked: Sequence[OfflineCase], cases: RaterCases) -> str:
    """Return the cases that have a question, with the names of their benchmarks."""
    if len(asked) == len(cases.cases):
        return "All cases"
    known = cases.definitions
    names = dict.fromkeys(known[one.benchmark].title if one.benchmark in known else one.benchmark for one in asked)
    return "".join([f"{listed(list(names))}. ", *cases_in_words(one.number for one in asked)])


def _rubric_row(question: InstrumentCriterion) -> tuple[str, ...]:
    meanings = "\n".join(f"{grade} = {meaning}" for grade, meaning in question.anchors.items())
    return group_title(question.name), question.question, f"{question.low} to {question.high}", meanings


def _case_rows(case: OfflineCase, n_cases: int) -> Iterator[Sequence[FormCell]]:
    """Yield the rows of a case."""
    yield case.number, f"Case {case.number} of {n_cases}", "", "", ""
    for key, text in case.shown.items():
        for number, part in enumerate(readable_parts(text), 1):
            yield (
                case.number,
                exchange.TITLES[key] if number == 1 else f"{exchange.TITLES[key]} ({number})",
                part,
                "",
                "",
            )
    rating = case.rating or CaseRating()
    for number, one in enumerate(case.questions, 1):
        scale = exchange.scale_in_words(one)
        labels = [*exchange.choices(one), exchange.CANNOT_JUDGE]
        answer = AnswerCell(
            rule=choice_rule(labels),
            title=group_title(one.name),
            hint=scale if len(scale) < 250 else "The text on the left has the scale.",
            value=_number(case.given(one.name)),
        )
        reason = rating.not_judged.get(one.name)
        why = AnswerCell(title="If you cannot judge", hint="Write why.", value=reason)
        yield case.number, f"{number}. {group_title(one.name)}", f"{one.question}\n{scale}", answer, why
    comment = AnswerCell(title="Comment", hint="Anything that the questions do not ask.", value=rating.comment or None)
    yield case.number, COMMENT, "Anything else about this case. You can leave it empty.", "", comment


def _number(answer: str) -> str | int | None:
    return int(answer) if answer.lstrip("-").isdigit() else answer or None


def _color(workbook: Any, sheet: Any, n_rows: int) -> None:
    """Set off the first row of each case, and the cells that are filled in."""
    first = workbook.add_format({"bold": True, "bg_color": "#1F4E79", "font_color": "#FFFFFF"})
    filled = workbook.add_format({"bg_color": "#E2F0D9"})
    rule = {"type": "formula", "criteria": '=LEFT($B2,5)="Case "', "format": first}
    sheet.conditional_format(1, 0, max(n_rows, 1), 4, {**rule, "stop_if_true": True})
    sheet.conditional_format(1, 3, max(n_rows, 1), 4, {"type": "no_blanks", "format": filled})


def readable_parts(text: str) -> list[str]:
    """Return a text in parts that are shown in full in one row each; joined, they are the text.

    >>> [len(part) for part in readable_parts("word " * 1000)]
    [1870, 1870, 1260]
    """
    parts: list[str] = []
    part, n_lines = "", 0
    for line in text.splitlines(keepends=True):
        while line:
            room = (_LINES - n_lines) * _LINE
            if len(line) <= room:
                part, n_lines, line = part + line, n_lines + 1 + (len(line) - 1) // _LINE, ""
            elif n_lines > _LINES // 2:
                parts, part, n_lines = [*parts, part], "", 0
            else:
                end = line.rfind(" ", 0, room) + 1 or room
                parts, part, n_lines, line = [*parts, part + line[:end]], "", 0, line[end:]
            if n_lines >= _LINES:
                parts, part, n_lines = [*parts, part], "", 0
    return [*parts, part] if part or not parts else parts


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _CaseRows:
    """Rows of one case."""

    first: str
    """First cell."""
    texts: dict[tuple[str, int], str] = field(default_factory=dict)
    """Title and number of a part -> text."""
    answers: dict[str, exchange.GivenAnswer] = field(default_factory=dict)
    """Name of a question, or title of the comment -> answer and words, and their cells."""


def read_workbook(path: Path, open_rater: OpenRater) -> ReturnedFile:
    """Read a workbook that came back. Raises: ConfigError with everything that is wrong, by cell."""
    try:
        sheets = read_sheets(path)
    except DataError as error:
        raise exchange.refusal(path, str(error).removeprefix(f"{path}: ")) from None
    reading = _WorkbookReader(path, sheets, open_rater)
    ratings = reading.ratings()
    if reading.problems:
        raise ConfigError(str(path), reading.problems)
    return ReturnedFile(rater=reading.cases.rater, source=RatingSource.WORKBOOK, ratings=tuple(ratings))


_PART = re.compile(r"(.*) \((\d+)\)")


class _WorkbookReader:
    """Reads the sheets of a workbook, and collects its problems."""

    def __init__(self, path: Path, sheets: Sequence[WorkbookSheet], open_rater: OpenRater) -> None:
        """Find the sheets. Raises: ConfigError if one is missing; as `open_rater`."""
        self.problems: list[Problem] = []
        hidden = next((rows for _, rows, _ in sheets if _find(rows, _MARK)), None)
        found = [(one, at) for one in sheets if (at := _header(one.rows)) is not None]
        if hidden is None or not found:
            what = "sheet Cases, with its header," if hidden else "hidden sheet Study"
            text = f"has no {what}. Is it a workbook of `medhelm study export`? Copy the answers into a fresh one."
            raise exchange.refusal(path, text)
        self._known = {_text(row[0]): (_text(row[1]), _text(row[2])) for row in hidden if len(row) > 2}
        study, plan, rater = (self._known.get(key, ("", ""))[0] for key in (_MARK, "plan", "rater"))
        self.cases = open_rater(exchange.FileOrigin(study=study, plan=plan, rater=rater))
        if len(found) > 1:
            text = f"the sheets {listed([f'`{one.name}`' for one, _ in found])} hold cases. Delete all but one of them."
            self.problems.append(Problem(text))
        self._sheet, self._top = found[0]
        names = [clean_cell(_text(cell)).casefold() for cell in self._sheet.rows[self._top]]
        self._columns = {name: names.index(name.casefold()) for name in COLUMNS}

    def ratings(self) -> list[ReturnedRating]:
        """Return the ratings; add what is wrong to `problems`."""
        self._check_merged()
        rows: dict[int, _CaseRows] = {}
        for row in range(self._top + 1, len(self._sheet.rows)):
            self._read_row(row, rows)
        found = []
        for number, own in rows.items():
            case = self.cases.case(number)
            rating = self._rating(case, own) if case else None
            if rating:
                found.append(rating)
        return found

    def _check_merged(self) -> None:
        """Report merged cells among the answers."""
        answers = {self._columns["Your answer"], self._columns["Your words"]}
        for one in self._sheet.merged:
            if one.last_row > self._top and answers & {*range(one.first_column, one.last_column + 1)}:
                text = f"{self._sheet.name}!{one}: these cells are merged. Unmerge them, and answer each question."
                self.problems.append(Problem(text))

    def _read_row(self, row: int, rows: dict[int, _CaseRows]) -> None:
        """Read a row into its case."""
        number, part, shown, answer, words = (self._cell(row, name) for name in COLUMNS)
        case = self.cases.case(number) if number else None
        if case is None:
            if (answer or words) and not self.cases.is_gone(number):
                text = f"must be the number of a case, is {value_in_words(number)}. Copy the answers into a fresh"
                self.problems.append(Problem(f"{self._place(row, 'Case')}: {text} workbook."))
            return
        own = rows.setdefault(case.number, _CaseRows(self._place(row, "Case")))
        titles = {str(at): one.name for at, one in enumerate(case.questions, 1)} | {COMMENT.casefold(): COMMENT}
        places = self._place(row, "Your answer"), self._place(row, "Your words")
        if question := titles.get(part.partition(".")[0].casefold()):
            given = exchange.GivenAnswer(answer, words, *places)
            if own.answers.setdefault(question, given)[:2] != given[:2]:
                text = (
                    f"case {case.number} has another answer to `{part}` in {own.answers[question].place}. Keep one row."
                )
                self.problems.append(Problem(f"{places[0]}: {text}"))
            return
        found = _PART.fullmatch(part)
        title, place = (found[1], int(found[2])) if found else (part, 1)
        if title in exchange.TITLES.values():
            own.texts.setdefault((title, place), shown)
        if answer or words:
            what = f"this row of case {case.number}, {value_in_words(part)}, has no question."
            self.problems.append(Problem(f"{places[not answer]}: {what} Move the answer to its question."))

    def _rating(self, case: OfflineCase, own: _CaseRows) -> ReturnedRating | None:
        """Return the rating of a case; None if nothing is filled in."""
        misplaced, comment, place, _ = own.answers.pop(COMMENT, ("", "", "", ""))
        if misplaced:
            text = "a comment goes into the column Your words. If the answers have shifted by a row, move them back."
            self.problems.append(Problem(f"{place}: {text}"))
        rating = exchange.read_answers(
            case, own.answers, self.problems, place=own.first, source=RatingSource.WORKBOOK, comment=comment
        )
        if rating is None:
            return None
        digest, revision = self._known.get(str(case.number), ("", ""))
        shown = [own.texts[key] for title in exchange.TITLES.values() for key in sorted(own.texts) if key[0] == title]
        if not digest or exchange.digest_of_texts(shown) != digest:
            text = f"the texts of case {case.number} are not those that were exported: its rows were moved, changed or"
            self.problems.append(Problem(f"{own.first}: {text} deleted. Copy its answers into a fresh workbook."))
        return ReturnedRating(number=case.number, revision=int(revision or 0), rating=rating)

    def _place(self, row: int, column: str) -> str:
        return f"{self._sheet.name}!{cell_name(row, self._columns[column])}"

    def _cell(self, row: int, column: str) -> str:
        """Return the text of a cell; a cell with an error is reported, and counts as empty."""
        cells, place = self._sheet.rows[row], self._columns[column]
        cell = cells[place] if place < len(cells) else ""
        if isinstance(cell, BrokenCell):
            self.problems.append(Problem(f"{self._place(row, column)}: holds {cell.problem}. Correct it."))
            return ""
        return _text(cell)


def _text(cell: object) -> str:
    """Return a cell as text without spaces around it."""
    return str("" if cell is None else cell).strip()


def _find(rows: Sequence[Sequence[object]], text: str) -> bool:
    return any(row and _text(row[0]) == text for row in rows)


def _header(rows: Sequence[Sequence[object]]) -> int | None:
    """Return the position of the header of the sheet to fill in; None if the sheet has none."""
    wanted = {name.casefold() for name in COLUMNS}
    return next(
        (at for at, row in enumerate(rows) if wanted <= {clean_cell(_text(cell)).casefold() for cell in row}), None
    )
