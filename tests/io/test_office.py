"""Workbooks and Word documents: what becomes a row, and what is refused before it is unpacked."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from medhelm.benchmarks.sample_data.writers import write_docx, write_xlsx
from medhelm.domain import Source
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


@pytest.mark.parametrize("content", [b"", b"this is text, and nothing else, of some length", b"PK\x03\x04 broken"])
@pytest.mark.parametrize("kind", MAKERS)
def test_files_of_another_format_are_told(tmp_path: Path, kind: str, content: bytes) -> None:
    path = written(tmp_path, content)
    assert f"{path}: cannot be read as" in message(path, kind)
    assert f"Save it as .{kind}" in message(path, kind)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_broken_archive_is_told(tmp_path: Path, kind: str) -> None:
    whole = MAKERS[kind](tmp_path).read_bytes()
    assert "cannot be read as" in message(written(tmp_path, whole[: len(whole) // 2]), kind)
    assert "cannot be read as" in message(changed(MAKERS[kind](tmp_path), lambda _, content: content[:-9]), kind)


def test_a_document_is_no_workbook_and_the_other_way_round(tmp_path: Path) -> None:
    assert "cannot be read as a workbook" in message(a_document(tmp_path), "xlsx")
    assert "cannot be read as a Word document" in message(a_workbook(tmp_path), "docx")


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
