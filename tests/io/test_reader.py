"""Workbooks and Word documents: what becomes a row, and what is refused before it is unpacked."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data.sample_files import write_docx, write_xlsx
from medhelm.domain import Source
from medhelm.io.office import NO_VALUE, fullest_sheet, sheet_remarks
from medhelm.io.rows import BrokenCell, PlacedRow
from tests.support.data_files import message, rows, written


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    """A workbook with these cells; times are shown as such."""
    from xlsxwriter import Workbook

    with Workbook(str(path), {"default_date_format": "yyyy-mm-dd hh:mm"}) as book:
        forms = {
            datetime.date: book.add_format({"num_format": "yyyy-mm-dd"}),
            datetime.time: book.add_format({"num_format": "hh:mm:ss"}),
            datetime.timedelta: book.add_format({"num_format": "[h]:mm:ss"}),
        }
        for name, cells in sheets.items():
            sheet = book.add_worksheet(name)
            for row, values in enumerate(cells):
                for column, value in enumerate(values):
                    sheet.write(row, column, value, *([forms[type(value)]] if type(value) in forms else []))
    return path


def changed(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """A zip archive with other contents: `change` gets the name and the content of each entry."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def a_workbook(folder: Path) -> Path:
    write_xlsx([{"a": "x"}], folder / "x.xlsx", Source(kind="xlsx"))
    return folder / "x.xlsx"


def a_document(folder: Path) -> Path:
    write_docx([{"text": "x"}], folder / "x.docx", Source(kind="docx"))
    return folder / "x.docx"


MAKERS = {"xlsx": a_workbook, "docx": a_document}


def test_a_workbook(tmp_path: Path) -> None:
    cells: list[list[object]] = [
        ["id", "Patient Note", "score", None, "flag"],
        [1, "a & <b>\nc", 2.5, "no header", True],
        [None, None, None, None, None],
        [2, None, 3.0, None, False],
    ]
    path = workbook(tmp_path / "x.xlsx", {"One": cells, "Two": [["a"], ["b"]]})
    assert rows(path, "xlsx") == [
        {"id": 1, "Patient Note": "a & <b>\nc", "score": 2.5, "flag": True},
        {"id": 2, "Patient Note": "", "score": 3, "flag": False},
    ]
    assert all(type(row["id"]) is int for row in rows(path, "xlsx"))
    assert rows(path, "xlsx", sheet="Two") == [{"a": "b"}]
    assert "the file has no sheet `Too`. Did you mean `Two`?" in message(path, "xlsx", sheet="Too")


def test_dates_times_and_durations_come_as_iso_text(tmp_path: Path) -> None:
    moment = datetime.datetime(2150, 1, 31, 8, 15)
    cells: list[list[object]] = [
        ["moment", "day", "clock", "stay"],
        [moment, moment.date(), moment.time(), datetime.timedelta(hours=30, seconds=5)],
    ]
    assert rows(workbook(tmp_path / "x.xlsx", {"One": cells}), "xlsx") == [
        {"moment": "2150-01-31T08:15:00", "day": "2150-01-31", "clock": "08:15:00", "stay": "30:00:05"}
    ]


def test_a_workbook_without_rows_or_with_columns_twice(tmp_path: Path) -> None:
    assert rows(workbook(tmp_path / "x.xlsx", {"One": []}), "xlsx") == []
    assert "the header has `a` more than once" in message(workbook(tmp_path / "x.xlsx", {"One": [["a", "a"]]}), "xlsx")


def test_a_table_that_begins_further_down_and_to_the_right(tmp_path: Path) -> None:
    cells: list[list[object]] = [[None] * 3, [None, None, "a", "b"], [None, None, "x", 1]]
    assert rows(workbook(tmp_path / "x.xlsx", {"One": cells}), "xlsx") == [{"a": "x", "b": 1}]


def test_a_cell_far_below_is_read_and_cells_far_apart_are_refused(tmp_path: Path) -> None:
    def with_cell(place: str, row: int) -> Path:
        def change(name: str, content: bytes) -> bytes:
            cell = f'<row r="{row}"><c r="{place}"><v>1</v></c></row></sheetData>'.encode()
            return content.replace(b"</sheetData>", cell) if "worksheets" in name else content

        return changed(a_workbook(tmp_path), change)

    assert rows(with_cell("A1048576", 1_048_576), "xlsx") == [{"a": "x"}, {"a": 1}]
    words = message(with_cell("XFD1048576", 1_048_576), "xlsx")
    assert "sheet1.xml extends to column 16,384 and row 1,048,576, which is too large" in words


# --- what a person sees -----------------------------------------------------------------------------------------------

HEAD = ["id", "note", "question", "answer"]


def sheets(path: Path, fill: Callable[[Any, Any], object]) -> Path:
    """A workbook that `fill` writes: it gets the workbook and its sheet `Data`."""
    from xlsxwriter import Workbook

    with Workbook(str(path)) as book:
        fill(book, book.add_worksheet("Data"))
    return path


def as_ods(cells: str) -> bytes:
    """The content of an .ods file with one sheet `Data`."""
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    calc = 'xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"'
    sheet = f'<table:table table:name="Data">{cells}</table:table>'
    body = f"<office:body><office:spreadsheet>{sheet}</office:spreadsheet></office:body>"
    return f"<office:document-content {spaces} {calc}>{body}</office:document-content>".encode()


def ods(path: Path, rows: Sequence[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr("content.xml", as_ods("".join(rows)))
    return path


def ods_cell(text: str, attributes: str = "", name: str = "table-cell") -> str:
    kind = 'office:value-type="string"' if text else ""
    inner = f"<text:p>{text}</text:p>" if text else ""
    return f"<table:{name} {kind} {attributes}>{inner}</table:{name}>"


def ods_row(*cells: str, attributes: str = "") -> str:
    own = "".join(cell if cell.startswith("<") else ods_cell(cell) for cell in cells)
    return f"<table:table-row {attributes}>{own}</table:table-row>"


def test_merged_cells_of_a_column_hold_their_text_in_every_row(tmp_path: Path) -> None:
    def fill(book: Any, sheet: Any) -> None:
        sheet.merge_range(0, 2, 0, 5, "Export of May")
        for row, values in enumerate(
            [HEAD, [1, None, "Sepsis?", "yes"], [2, None, "PE?", "no"], [3, "c", "DVT?", "no"]], 2
        ):
            sheet.write_row(row, 2, values)
        sheet.merge_range(3, 3, 4, 3, "Fever.")
        sheet.merge_range(4, 5, 5, 5, "no")

    expected = [
        {"id": 1, "note": "Fever.", "question": "Sepsis?", "answer": "yes"},
        {"id": 2, "note": "Fever.", "question": "PE?", "answer": "no"},
        {"id": 3, "note": "c", "question": "DVT?", "answer": "no"},
    ]
    path = sheets(tmp_path / "x.xlsx", fill)
    assert rows(path, "xlsx") == expected
    assert [row.place for row in rows(path, "xlsx") if isinstance(row, PlacedRow)] == ["row 4", "row 5", "row 6"]
    [remark] = sheet_remarks(path, Source(kind="xlsx"))
    assert "merged cells, each filled with the text of the first: D4:D5, F5:F6" in remark
    covered = ods_cell("", name="covered-table-cell")
    below = [
        ods_row("1", ods_cell("Fever.", 'table:number-rows-spanned="2"'), "Sepsis?", "yes"),
        ods_row("2", covered, "PE?", ods_cell("no", 'table:number-rows-spanned="2"')),
        ods_row("3", "c", "DVT?", covered),
    ]
    found = rows(ods(tmp_path / "x.ods", [ods_row(*HEAD), *below]), "xlsx")
    assert [{**row, "id": int(str(row["id"]))} for row in found] == expected


def test_headings_of_groups_are_not_the_header(tmp_path: Path) -> None:
    def fill(book: Any, sheet: Any) -> None:
        sheet.merge_range(0, 0, 1, 0, "id")
        sheet.merge_range(0, 1, 0, 2, "Options")
        sheet.merge_range(0, 3, 1, 3, "answer")
        sheet.write_row(1, 1, ["A", "B"])
        sheet.write_row(2, 0, [1, "x", "y", "A"])
        sheet.write_row(3, 0, [2, "z", "w", "B"])

    assert rows(sheets(tmp_path / "x.xlsx", fill), "xlsx") == [
        {"id": 1, "A": "x", "B": "y", "answer": "A"},
        {"id": 2, "A": "z", "B": "w", "answer": "B"},
    ]


def test_cells_merged_over_columns_are_refused_unless_they_are_clear(tmp_path: Path) -> None:
    def table(first: int, last: int, head: Sequence[str | None] = HEAD) -> Callable[[Any, Any], object]:
        def fill(book: Any, sheet: Any) -> None:
            sheet.write_row(0, 0, head)
            sheet.write_row(1, 0, [1, "a", "Sepsis?", "yes"])
            sheet.write_row(2, 0, [2, "b", "PE?", "no"][:first])
            sheet.merge_range(2, first, 2, last, "both")
            sheet.write_row(3, 0, [3, "c", "DVT?", "no"])

        return fill

    path = sheets(tmp_path / "x.xlsx", table(1, 2))
    assert "the cells B3:C3 of the sheet `Data` are merged over several columns" in message(path, "xlsx")
    section = rows(sheets(tmp_path / "y.xlsx", table(0, 3)), "xlsx")  # a row of its own, such as a heading in the table
    assert section[1] == {"id": "both", "note": "", "question": "", "answer": ""}
    path = sheets(
        tmp_path / "w.xlsx", lambda book, sheet: (table(1, 2)(book, sheet), sheet.merge_range(2, 4, 2, 5, None))
    )
    assert "the cells B3:C3 of the sheet `Data` are merged over several columns" in message(path, "xlsx")
    unnamed = rows(sheets(tmp_path / "z.xlsx", table(1, 2, ["id", "note", None, "answer"])), "xlsx")
    assert unnamed[1]["note"] == "both"


def test_hidden_sheets_are_not_the_data(tmp_path: Path) -> None:
    def fill(book: Any, sheet: Any) -> None:
        sheet.write_column(0, 0, ["old", *range(50)])
        sheet.hide()
        shown, other = book.add_worksheet("Shown"), book.add_worksheet("Other")
        shown.write_column(0, 0, ["a", 1, 2])
        other.write_column(0, 0, ["b", 3])
        other.very_hidden()
        shown.activate()
        shown.set_first_sheet()

    path = sheets(tmp_path / "x.xlsx", fill)
    assert rows(path, "xlsx") == [{"a": 1}, {"a": 2}]
    assert fullest_sheet(path) == "Shown"
    assert len(rows(path, "xlsx", sheet="Data")) == 50
    assert sheet_remarks(path, Source(kind="xlsx", sheet="Data")) == ["the sheet `Data` is hidden"]


def test_hidden_and_filtered_rows_are_read_and_said(tmp_path: Path) -> None:
    def fill(book: Any, sheet: Any) -> None:
        sheet.write_column(0, 0, ["a", 1, 2, 3])
        sheet.set_row(2, None, None, {"hidden": True})
        sheet.set_row(9, None, None, {"hidden": True})  # without content

    path = sheets(tmp_path / "x.xlsx", fill)
    assert rows(path, "xlsx") == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert sheet_remarks(path, Source(kind="xlsx")) == ["the sheet `Data` has 1 hidden row, read like the others: 3"]
    filtered = ods_row("2", attributes='table:visibility="filter"')
    path = ods(tmp_path / "x.ods", [ods_row("a"), ods_row("1"), filtered])
    assert len(rows(path, "xlsx")) == 2
    assert sheet_remarks(path, Source(kind="xlsx")) == ["the sheet `Data` has 1 hidden row, read like the others: 3"]


@pytest.mark.parametrize("code", ["#REF!", "#N/A", "#SPILL!"])
def test_errors_and_formulas_without_values_are_named_by_cell(tmp_path: Path, code: str) -> None:
    def fill(book: Any, sheet: Any) -> None:
        sheet.write_row(2, 1, ["id", "answer"])
        sheet.write_row(3, 1, [1, "yes"])
        sheet.write_number(4, 1, 2)
        sheet.write_formula(4, 2, "=A99", None, code)
        sheet.write_number(5, 1, 3)
        sheet.write_formula(5, 2, '=""', None, "later an empty text")

    def change(name: str, content: bytes) -> bytes:
        content = content.replace(b"<v>later an empty text</v>", b"<v></v>")
        last = b'<row r="7"><c r="B7"><v>4</v></c><c r="C7"><f>A1</f></c></row>'
        last += b'<row r="8"><c r="C8"><f>A1</f><v/></c></row></sheetData>'
        return content.replace(b"</sheetData>", last) if "sheet1" in name else content

    *found, broken, empty, new, last = rows(changed(sheets(tmp_path / "x.xlsx", fill), change), "xlsx")
    assert found == [{"id": 1, "answer": "yes"}]
    assert (broken["answer"], str(broken["answer"])) == (
        BrokenCell("cell C5 of the sheet `Data`", f"the error {code}"),
        code,
    )
    assert empty == {"id": 3, "answer": ""}  # the formula gives an empty text
    assert [row["answer"] for row in (new, last)] == [
        BrokenCell(f"cell {name} of the sheet `Data`", NO_VALUE) for name in ("C7", "C8")
    ]
    error = 'table:formula="of:=1/0" calcext:value-type="error"'
    cells = [
        ods_row("id", "answer"),
        ods_row("1", ods_cell(code, error)),
        ods_row("2", ods_cell("", 'table:formula="of:=A1"')),
    ]
    assert [row["answer"] for row in rows(ods(tmp_path / "x.ods", cells), "xlsx")] == [
        BrokenCell("cell B2 of the sheet `Data`", f"the error {code}"),
        BrokenCell("cell B3 of the sheet `Data`", NO_VALUE),
    ]


# --- Word documents and damaged files ---------------------------------------------------------------------------------


def test_a_word_document(tmp_path: Path) -> None:
    import docx
    from docx.shared import RGBColor

    document = docx.Document()
    document.add_paragraph("Run 1: why?")
    document.add_paragraph("part ").add_run("wrong").font.color.rgb = RGBColor(0xFF, 0, 0)
    document.add_paragraph("").add_run("nearly red").font.color.rgb = RGBColor(0xFE, 0, 0)
    document.add_paragraph("")
    document.save(str(tmp_path / "x.docx"))
    assert rows(tmp_path / "x.docx", "docx") == [
        {"text": "Run 1: why?", "red": ""},
        {"text": "part wrong", "red": "true"},
        {"text": "nearly red", "red": ""},
        {"text": "", "red": ""},
    ]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_broken_archive_and_files_of_another_format_are_refused(tmp_path: Path, kind: str) -> None:
    other = MAKERS["docx" if kind == "xlsx" else "xlsx"](tmp_path)
    for path in (other, *(written(tmp_path, content) for content in (b"", b"this is text" * 9, b"PK\x03\x04 broken"))):
        assert f"{path}: cannot be read as" in message(path, kind)
        assert f"Save it as .{kind}" in message(path, kind)
    whole = MAKERS[kind](tmp_path).read_bytes()
    assert "cannot be read as" in message(written(tmp_path, whole[: len(whole) // 2]), kind)
    assert "cannot be read as" in message(changed(MAKERS[kind](tmp_path), lambda _, content: content[:-9]), kind)


@pytest.mark.parametrize("kind", MAKERS)
def test_an_archive_that_unpacks_beyond_measure_is_not_unpacked(tmp_path: Path, kind: str) -> None:
    path = MAKERS[kind](tmp_path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("blank", b" " * 101_000_000)
    assert "which a normal file of this kind never does. It was not read" in message(path, kind)


@pytest.mark.parametrize("kind", MAKERS)
def test_an_archive_that_lies_about_its_size_is_refused(tmp_path: Path, kind: str) -> None:
    size = 101_000_000
    path = changed(
        MAKERS[kind](tmp_path), lambda name, content: content + b" " * size if name[-8:] in ENTRIES else content
    )
    with zipfile.ZipFile(path) as archive:
        (entry,) = (entry for entry in archive.infolist() if entry.filename[-8:] in ENTRIES)
    real, claimed = (number.to_bytes(4, "little") for number in (entry.file_size, 5000))
    content = path.read_bytes()
    assert content.count(real) == 2, "in the entry and in the list of entries"
    assert "cannot be read as" in message(written(tmp_path, content.replace(real, claimed)), kind)


ENTRIES = ("eet1.xml", "ment.xml")
"""Ends of the names of the entry that holds the sheet, and the text."""


def test_a_document_defines_no_entities_that_reach_out(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", "secret.txt")

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("document.xml"):
            return content
        head, _, rest = content.partition(b"?>")
        doctype = f'<!DOCTYPE d [<!ENTITY e SYSTEM "{secret.as_uri()}">]>'.encode()
        return head + b"?>" + doctype + rest.replace(b">x<", b">&e;<")

    assert "secret" not in str(rows(changed(a_document(tmp_path), change), "docx"))


def test_real_workbook(data_dir: Path) -> None:
    found = rows(data_dir / "medication_qa" / "MedInfo2019-QA-Medications.xlsx", "xlsx")
    assert len(found) == 690
    assert list(found[0]) == ["Question", "Focus (Drug)", "Question Type", "Answer", "Section Title", "URL"]
    assert sum(row["Answer"] == "n/a" for row in found) == 1


def test_real_word_document(data_dir: Path) -> None:
    found = rows(data_dir / "race_based_med" / "41746_2023_939_MOESM1_ESM.docx", "docx")
    texts = [str(row["text"]).strip() for row in found]
    assert len(found) == 2464
    assert sum(text.startswith("Run ") and ": " in text for text in texts) == 171
    assert any(row["red"] for row in found)
