"""Workbooks, Word documents and XML: what becomes a row, and what is refused before it is unpacked."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from xlsxwriter import Workbook

from medhelm.benchmarks.data.readers import READERS
from medhelm.benchmarks.data.sample_rows import write_docx, write_xlsx
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.office import NO_VALUE, fullest_sheet, parse_xml, sheet_remarks
from medhelm.io.rows import BrokenCell, PlacedRow, Row
from tests.support.data_files import message, rows, written


def sheets(path: Path, fill: Callable[[Any, Any], object]) -> Path:
    """A workbook that `fill` writes: it gets the workbook and its sheet `Data`."""
    with Workbook(str(path)) as book:
        fill(book, book.add_worksheet("Data"))
    return path


def workbook(path: Path, cells: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    """A workbook with these rows of cells in its sheets."""
    with Workbook(str(path)) as book:
        for name, rows_of_cells in cells.items():
            sheet = book.add_worksheet(name)
            for row, values in enumerate(rows_of_cells):
                sheet.write_row(row, 0, values)
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


def test_tables_that_are_empty_have_columns_twice_or_begin_further_down_and_to_the_right(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "x.xlsx", {"One": [], "Two": [["a", "a"]], "Three": [[None] * 2, [None, "a"], [None, 1]]}
    )
    assert (rows(path, "xlsx", sheet="One"), rows(path, "xlsx", sheet="Three")) == ([], [{"a": 1}])
    assert "the header has `a` more than once" in message(path, "xlsx", sheet="Two")


def test_dates_times_and_durations_come_as_iso_text(tmp_path: Path) -> None:
    moment, stay = datetime.datetime(2150, 1, 31, 8, 15), datetime.timedelta(hours=30, seconds=5)
    shown = {"yyyy-mm-dd hh:mm": moment, "yyyy-mm-dd": moment.date(), "hh:mm:ss": moment.time(), "[h]:mm:ss": stay}

    def fill(book: Any, sheet: Any) -> None:
        sheet.write_row(0, 0, "abcd")
        for column, (form, value) in enumerate(shown.items()):
            sheet.write(1, column, value, book.add_format({"num_format": form}))

    assert rows(sheets(tmp_path / "x.xlsx", fill), "xlsx") == [
        {"a": "2150-01-31T08:15:00", "b": "2150-01-31", "c": "08:15:00", "d": "30:00:05"}
    ]


def test_a_cell_far_below_is_read_and_cells_far_apart_are_refused(tmp_path: Path) -> None:
    def with_cell(place: str, row: int) -> Path:
        def change(name: str, content: bytes) -> bytes:
            cell = f'<row r="{row}"><c r="{place}"><v>1</v></c></row></sheetData>'.encode()
            return content.replace(b"</sheetData>", cell) if "worksheets" in name else content

        return changed(a_workbook(tmp_path), change)

    assert rows(with_cell("A90000", 90_000), "xlsx") == [{"a": "x"}, {"a": 1}]
    words = message(with_cell("XFD1048576", 1_048_576), "xlsx")
    assert "sheet1.xml extends to column 16,384 and row 1,048,576, which is too large" in words


# --- what a person sees -----------------------------------------------------------------------------------------------

HEAD = ["id", "note", "question", "answer"]


def as_ods(cells: str) -> bytes:
    """The content of an .ods file with one sheet `Data`."""
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    sheet = f'<table:table table:name="Data">{cells}</table:table>'
    body = f"<office:body><office:spreadsheet>{sheet}</office:spreadsheet></office:body>"
    return f"<office:document-content {spaces}>{body}</office:document-content>".encode()


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


def ods_row(*cells: str) -> str:
    own = "".join(cell if cell.startswith("<") else ods_cell(cell) for cell in cells)
    return f"<table:table-row>{own}</table:table-row>"


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
        sheet.write_row(1, 1, ["A", "B"])
        sheet.write_row(2, 0, [1, "x", "y"])

    assert rows(sheets(tmp_path / "x.xlsx", fill), "xlsx") == [{"id": 1, "A": "x", "B": "y"}]


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


def test_errors_and_formulas_without_values_are_named_by_cell(tmp_path: Path) -> None:
    def fill(book: Any, sheet: Any) -> None:
        sheet.write_row(2, 1, ["id", "answer"])
        sheet.write_column(3, 1, [1, 2, 3])
        sheet.write_formula(3, 2, "=A99", None, "#SPILL!")
        sheet.write_formula(4, 2, '=""', None, "later an empty text")

    def change(name: str, content: bytes) -> bytes:
        content = content.replace(b"<v>later an empty text</v>", b"<v></v>")
        last = b'<row r="7"><c r="C7"><f>A1</f></c></row><row r="8"><c r="C8"><f>A1</f><v/></c></row></sheetData>'
        return content.replace(b"</sheetData>", last) if "sheet1" in name else content

    broken, empty, *rest = [row["answer"] for row in rows(changed(sheets(tmp_path / "x.xlsx", fill), change), "xlsx")]
    assert (broken, str(broken)) == (BrokenCell("cell C4 of the sheet `Data`", "the error #SPILL!"), "#SPILL!")
    assert empty == ""  # the formula gives an empty text
    assert rest[1:] == [BrokenCell(f"cell {name} of the sheet `Data`", NO_VALUE) for name in ("C7", "C8")]


# --- Word documents and damaged files ---------------------------------------------------------------------------------


def test_a_word_document(tmp_path: Path) -> None:
    import docx
    from docx.shared import RGBColor

    document = docx.Document()
    document.add_paragraph("Run 1: why?")
    document.add_paragraph("part ").add_run("wrong").font.color.rgb = RGBColor(0xFF, 0, 0)
    document.add_paragraph("").add_run("nearly red").font.color.rgb = RGBColor(0xFE, 0, 0)
    document.save(str(tmp_path / "x.docx"))
    assert rows(tmp_path / "x.docx", "docx") == [
        {"text": "Run 1: why?", "red": ""},
        {"text": "part wrong", "red": "true"},
        {"text": "nearly red", "red": ""},
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
def test_an_archive_that_unpacks_beyond_measure_or_lies_about_its_size_is_refused(tmp_path: Path, kind: str) -> None:
    blank = b" " * 101_000_000
    path = changed(MAKERS[kind](tmp_path), lambda name, content: content + blank if name[-8:] in ENTRIES else content)
    assert "which a normal file of this kind never does. It was not read" in message(path, kind)
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


# --- XML --------------------------------------------------------------------------------------------------------------


NOTES = """<?xml version="1.0" encoding="UTF-8"?>
<Ward name="A">
  <Note id="1">
    <Text>Fever &amp; cough,
  &lt;3 days&#33;</Text>
    <Code>R50.9</Code>
    <Code system="ICD-10">R05.9</Code>
  </Note>
  <Folder>
    <Note id="2"><Text><![CDATA[<none> &amp; ]]></Text></Note>
  </Folder>
</Ward>
"""


@pytest.mark.parametrize(
    ("element", "value"),
    [
        ("<x> a\n b </x>", {"#text": " a\n b "}),
        ("<x a='1' b=''/>", {"@a": "1", "@b": ""}),
        ("<x>\n <y>1</y>\n</x>", {"y": "1"}),
        ("<x><y>1</y><z/><y>2</y></x>", {"y": ["1", "2"], "z": ""}),
        ("<x><y a='1'/><y>2</y><y><z>3</z></y></x>", {"y": [{"@a": "1"}, "2", {"z": "3"}]}),
        ("<x>one <y>two</y> three</x>", {"y": "two", "#text": "one  three"}),
        ("<x>a<!-- c --><?pi x?>b<![CDATA[<&]]></x>", {"#text": "ab<&"}),
        ("<x a='1&#10;2'>a\r\nb</x>", {"@a": "1\n2", "#text": "a\nb"}),
        ("<x><p:y xmlns:p='u' p:a='1'/></x>", {"p:y": {"@xmlns:p": "u", "@p:a": "1"}}),
    ],
)
def test_an_element_becomes_a_row(tmp_path: Path, element: str, value: Row) -> None:
    path = written(tmp_path, f"<r>\n {element} tail\n</r>")
    assert rows(path, "xml") == rows(path, "xml", rows="x") == rows(path, "xml", rows="r/x") == [value]


def test_rows_are_the_elements_of_a_name_or_path(tmp_path: Path) -> None:
    path = written(tmp_path, NOTES)
    ids = {wanted: [row.get("@id") for row in rows(path, "xml", rows=wanted)] for wanted in ("", "Note", "Ward/Note")}
    assert ids == {"": ["1", None], "Note": ["1", "2"], "Ward/Note": ["1"]}
    assert rows(path, "xml", rows="Ward/Folder/Note") == [{"@id": "2", "Text": "<none> &amp; "}]
    words = message(path, "xml", rows="Ward/Notes")
    assert "`rows: Ward/Notes` matches no element. Did you mean `Note`?" in words


def test_rows_come_before_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path, "<r>" + "<x>1</x>\n" * 20_000 + "<y></r>")
    reader = READERS["xml"](path, Source(kind="xml"))
    assert next(reader) == {"#text": "1"}
    with pytest.raises(DataError, match=r"line 20001, column 6: not well-formed XML \(mismatched tag\)"):
        list(reader)


def laughs() -> str:
    """A text of 1 kB whose entities stand for 10 GB."""
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 11))
    return f'<!DOCTYPE r [<!ENTITY e0 "x">{entities}]><r><x>&e10;</x></r>'


DANGEROUS = [
    (laughs(), "line 1: defines an entity"),
    ('<!DOCTYPE r [\n<!ENTITY e SYSTEM "file:///etc/hostname">]><r><x>&e;</x></r>', "line 2: defines an entity"),
    ('<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;]><r><x/></r>', "line 1: defines an entity"),
    ('<!DOCTYPE r [<!NOTATION n SYSTEM "n"><!ENTITY e SYSTEM "e" NDATA n>]><r/>', "line 1: defines an entity"),
    ('<!DOCTYPE r SYSTEM "r.dtd">\n<r><x>a&e;b</x></r>', "line 2: refers to an entity that is defined elsewhere"),
    ("<r><x>&e;</x></r>", "line 1, column 7: not well-formed XML (undefined entity)"),
    ("<r>" + "<x>" * 1_000_000, "line 1: elements are nested more than 200 deep"),
    ("", "line 1, column 1: not well-formed XML (no element found)"),
]


@pytest.mark.parametrize(("text", "words"), DANGEROUS, ids=[words[:40] for _, words in DANGEROUS])
def test_what_is_dangerous_or_broken_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    assert message(path, "xml").startswith(f"{path}, {words}")
    for document in (path, text, text.encode()):
        with pytest.raises(DataError) as caught:
            parse_xml(document)
        place = path if isinstance(document, Path) else "the XML text"
        assert str(caught.value).startswith(f"{place}, {words}")


def test_a_document_type_without_entities_is_fine(tmp_path: Path) -> None:
    text = '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/r.dtd" [<!ATTLIST x a CDATA "usual">]><r><x>1</x></r>'
    assert rows(written(tmp_path, text), "xml") == [{"@a": "usual", "#text": "1"}]


def test_the_encoding_is_the_one_that_the_document_names(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        text = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?><r><x>é</x></r>'
        assert rows(written(tmp_path, text.encode(encoding)), "xml") == [{"#text": "é"}]
        assert parse_xml(text.encode(encoding))[0].text == "é"
        assert parse_xml(text)[0].text == "é", "a text has no encoding any more, whatever it says"
    path = written(tmp_path, '<?xml version="1.0" encoding="martian"?><r><x>a</x></r>')
    assert "Save it as UTF-8" in message(path, "xml")
