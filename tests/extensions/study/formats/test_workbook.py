"""Workbooks that come back: what programs and people do to them, and every mistake named by its cell."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from xlsxwriter import Workbook

from medhelm.errors import ConfigError
from medhelm.extensions.study.formats.exchange import CANNOT_JUDGE, RaterCases, digest_of_texts, rater_cases
from medhelm.extensions.study.formats.workbook import COLUMNS, COMMENT, read_workbook, readable_parts, write_workbook
from medhelm.extensions.study.types import CaseRating, InstrumentForm
from medhelm.io.office import cell_name, read_sheets
from medhelm.io.spreadsheets import LONGEST_CELL
from tests.support.offline_studies import offline_study

Sheets: TypeAlias = dict[str, list[list[Any]]]
Edit: TypeAlias = Callable[[Sheets], None]

ANSWER, WORDS = 3, 4
"""Columns to fill in, from 0."""


def place(sheets: Sheets, case: int, part: str) -> int:
    """Return the row of a part of a case, from 0."""
    return next(at for at, row in enumerate(sheets["Cases"]) if row[:1] == [case] and str(row[1]).startswith(part))


def answer(case: int, part: str, given: Any, words: str = "") -> Edit:
    """Fill in the answer to a question, such as `1.`."""

    def edit(sheets: Sheets) -> None:
        row = sheets["Cases"][place(sheets, case, part)]
        row[ANSWER:] = [given, words]

    return edit


def sheets_of(cases: RaterCases, file: Path) -> Sheets:
    """Write the workbook, and return what it holds."""
    (content,) = write_workbook(cases).values()
    file.write_bytes(content)
    return {one.name: [list(row) for row in one.rows] for one in read_sheets(file)}


def saved_by_another_program(cases: RaterCases, file: Path, *edits: Edit, merged: str = "") -> Path:
    """Write the workbook anew, without formats or rules, after these changes."""
    sheets = sheets_of(cases, file)
    for edit in edits:
        edit(sheets)
    with Workbook(str(file), {"strings_to_formulas": False, "strings_to_urls": False}) as workbook:
        for name, rows in sheets.items():
            sheet = workbook.add_worksheet(name)
            for at, row in enumerate(rows):
                for column, value in enumerate(row):
                    if isinstance(value, date):
                        sheet.write_datetime(at, column, value, workbook.add_format({"num_format": "d/m/yyyy"}))
                    elif value != "":
                        sheet.write(at, column, value)
            if merged and name == "Cases":
                sheet.merge_range(merged, 3)
    return file


def ratings(cases: RaterCases, file: Path, *edits: Edit, **options: Any) -> dict[int, CaseRating]:
    """Return the ratings of a workbook after these changes."""
    found = read_workbook(saved_by_another_program(cases, file, *edits, **options), lambda _: cases)
    return {one.number: one.rating for one in found.ratings}


# --- what programs do -------------------------------------------------------------------------------------------------


def test_grades_are_read_from_numbers_and_words(cases: RaterCases, tmp_path: Path) -> None:
    edits = [answer(1, "4.", "severe OR death"), answer(1, "5.", "2"), answer(2, "4.", 0), answer(2, "5.", "Low")]
    more = answer(3, "1.", "Cannot  Judge ", "No labs"), answer(4, "1.", 4.0)
    found = ratings(cases, tmp_path / "a.xlsx", *edits, *more)
    assert found[1].grades == {"harm_severity": 3, "harm_likelihood": 2}
    assert found[2].grades == {"harm_severity": 0}  # nothing to be likely
    assert found[3].not_judged == {"accurate": "No labs"}
    assert found[4].grades == {"accurate": 4}
    assert ratings(cases, tmp_path / "a.xlsx") == {}, "an empty workbook has no ratings"


def insert_column(sheets: Sheets) -> None:
    for row in sheets["Cases"]:
        row.insert(2, "note" if row[0] == "Case" else "")


def insert_rows(sheets: Sheets) -> None:
    sheets["Cases"].insert(place(sheets, 2, "Question"), ["", "", "my note", "", ""])
    sheets["Cases"].insert(0, ["Cases of the ward"])


def rename_sheets(sheets: Sheets) -> None:
    sheets.update({"Tabelle1": sheets.pop("Cases"), "x": sheets.pop("Study"), "My notes": [["Case", "remark"], [1, 5]]})


def sort_rows(sheets: Sheets) -> None:
    head, *rows = sheets["Cases"]
    sheets["Cases"] = [head, *sorted(rows, key=lambda row: (str(row[1]), -row[0]))]


def repeat_row(sheets: Sheets) -> None:
    at = place(sheets, 2, "1.")
    sheets["Cases"].insert(at, list(sheets["Cases"][at]))


def change_spaces(sheets: Sheets) -> None:
    for row in sheets["Cases"][1:]:
        row[2] = row[2].replace("\n", "\r\n").rstrip()


def test_rows_are_recognized_wherever_they_are(cases: RaterCases, tmp_path: Path) -> None:
    edits = [answer(2, "1.", 5), answer(2, "2.", 1), answer(4, "3.", 2), answer(4, COMMENT, "", "- no dose")]
    for edit in (insert_column, insert_rows, rename_sheets, sort_rows, repeat_row, change_spaces):
        found = ratings(cases, tmp_path / "a.xlsx", *edits, edit)
        grades = {number: dict(one.grades) for number, one in found.items()}
        assert grades == {2: {"accurate": 5, "clear": 1}, 4: {"reference": 2}}, edit.__name__
        assert found[4].comment == "- no dose"


# --- mistakes ---------------------------------------------------------------------------------------------------------


def delete_text(sheets: Sheets) -> None:
    del sheets["Cases"][place(sheets, 2, "Text to rate")]


def shift_texts(sheets: Sheets) -> None:
    """Move the texts of two cases, as a sort of a single column does."""
    one, other = (sheets["Cases"][place(sheets, case, "Text to rate")] for case in (2, 3))
    one[2], other[2] = other[2], one[2]


def repeat_with_other_answer(sheets: Sheets) -> None:
    row = list(sheets["Cases"][place(sheets, 2, "1.")])
    row[ANSWER] = 1
    sheets["Cases"].append(row)


def other_case(sheets: Sheets) -> None:
    sheets["Cases"][place(sheets, 2, "1.")][0] = 77


def second_sheet(sheets: Sheets) -> None:
    sheets["Copy"] = [list(row) for row in sheets["Cases"]]


def remove_hidden_sheet(sheets: Sheets) -> None:
    del sheets["Study"]


def remove_header(sheets: Sheets) -> None:
    del sheets["Cases"][0]


MISTAKES: list[tuple[Edit, str]] = [
    (answer(2, "1.", "4,5"), "Cases!D{1.}: must be a whole number from 1 to 5, is `4,5`."),
    (answer(2, "1.", date(2026, 5, 3)), "Cases!D{1.}: must be a whole number from 1 to 5, is the date 2026-05-03"),
    (answer(2, "1.", CANNOT_JUDGE), "Cases!E{1.}: say why this cannot be judged."),
    (answer(2, "1.", 4, "No labs"), "Cases!E{1.}: gives a reason, but the answer is not `cannot judge`."),
    (answer(2, "1.", "", "No labs"), "Cases!E{1.}: gives a reason, but the answer is not `cannot judge`."),
    (answer(2, "Question", 4), "Cases!D{Question}: this row of case 2, `Question`, has no question."),
    (answer(2, COMMENT, 4), "Cases!D{Comment}: a comment goes into the column Your words. If the answers have"),
    (answer(2, COMMENT, "", "x" * 10_001), "the comment has 10,001 characters. Shorten it to 10,000."),
    (delete_text, "Cases!A{Case}: the texts of case 2 are not those that were exported"),
    (shift_texts, "Cases!A{Case}: the texts of case 2 are not those that were exported"),
    (repeat_with_other_answer, "case 2 has another answer to `1. Accurate` in Cases!D{1.}. Keep one row."),
    (other_case, "Cases!A{1.}: must be the number of a case, is `77`."),
    (second_sheet, "the sheets `Cases` and `Copy` hold cases. Delete all but one of them."),
    (remove_hidden_sheet, "has no hidden sheet Study."),
    (remove_header, "has no sheet Cases, with its header,"),
]


def test_a_mistake_is_named_by_its_cell(cases: RaterCases, tmp_path: Path) -> None:
    before = sheets_of(cases, tmp_path / "a.xlsx")
    for edit, message in MISTAKES:
        with pytest.raises(ConfigError) as error:
            ratings(cases, tmp_path / "a.xlsx", answer(2, "1.", 5), edit)
        for part in set(re.findall(r"\{(.+?)\}", message)):
            message = message.replace(f"{{{part}}}", str(place(before, 2, part) + 1))
        assert message in str(error.value)
        assert len(error.value.problems) == 1
    many = [answer(number, "1.", "9") for number in range(1, 6)]
    with pytest.raises(ConfigError, match="has 5 problems"):
        ratings(cases, tmp_path / "a.xlsx", *many)


def test_merged_answers_are_named(cases: RaterCases, tmp_path: Path) -> None:
    at = place(sheets_of(cases, tmp_path / "b.xlsx"), 2, "1.")
    merged = f"{cell_name(at, ANSWER)}:{cell_name(at + 1, ANSWER)}"
    with pytest.raises(ConfigError, match=f"Cases!{merged}: these cells are merged"):
        ratings(cases, tmp_path / "a.xlsx", merged=merged)


# --- what is written --------------------------------------------------------------------------------------------------


def test_only_cells_to_fill_in_are_open_and_nothing_is_a_formula_or_link(tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s", InstrumentForm.CHECKS)
    (content,) = write_workbook(rater_cases(store, study, "rater_1")).values()
    with zipfile.ZipFile(BytesIO(content)) as archive:
        names = archive.namelist()
        sheets = [archive.read(name).decode() for name in names if name.startswith("xl/worksheets/sheet")]
        styles = archive.read("xl/styles.xml").decode()
        book = archive.read("xl/workbook.xml").decode()
        author, company = (archive.read(f"docProps/{name}.xml").decode() for name in ("core", "app"))
    assert "<dc:creator></dc:creator>" in author and "<Company></Company>" in company
    assert not any("_rels" in name and "sheet" in name for name in names)  # no links
    assert all("<f>" not in sheet and "<sheetProtection" in sheet for sheet in sheets)
    assert 'name="Study" sheetId="4" state="hidden"' in book
    assert 'locked="0"' in styles
    assert 'quotePrefix="1"' in styles
    cases = sheets[2]
    assert '"Not met,Met,cannot judge"' in cases.replace("&quot;", '"')
    assert "<promptTitle" not in cases
    assert 'promptTitle="C1"' in cases
    assert 'topLeftCell="C2"' in cases  # header and number stay in view


def test_texts_are_whole_in_rows_that_can_be_read() -> None:
    texts = ["", "a", "x" * 40_000, "\U0001f600" * 40_000, "word " * 9_000, "line\n" * 500, "a\n\n\nb\n" + "c " * 5_000]
    for text in texts:
        parts = readable_parts(text)
        assert "".join(parts) == text
        for part in parts:
            assert len(part.encode("utf-16-le")) // 2 <= LONGEST_CELL
            assert sum(1 + len(line) // 85 for line in part.splitlines()) <= 2 * 22


def test_a_digest_does_not_depend_on_spaces_but_on_letters() -> None:
    assert digest_of_texts(["a b", "c\n"]) == digest_of_texts(["a", "\u00a0b c"]) != digest_of_texts(["ab", "d"])
    assert len(COLUMNS) == 5
