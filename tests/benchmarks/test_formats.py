"""Each format: what becomes a row, and what a broken file is told."""

from __future__ import annotations

import codecs
import csv
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.formats import READERS, Row
from medhelm.domain import Source
from medhelm.errors import DataError

ODD = ["plain", "two\nlines", "tab\there", 'a "quote"', "a,comma", "👩‍⚕️ é \u202e", "\x00\x01\x1b", " blank ", "{x}", ""]
"""Texts that must come through as they are."""


def rows(path: Path, kind: str, **settings: Any) -> list[Row]:
    return list(READERS[kind](path, Source(kind=kind, **settings)))


def written(folder: Path, content: str | bytes, name: str = "x") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def message(path: Path, kind: str, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        rows(path, kind, **settings)
    return str(caught.value)


# --- text formats -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "separator"), [("csv", ","), ("tsv", "\t")])
def test_records_are_rows_of_text(tmp_path: Path, kind: str, separator: str) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows([["id", "text"], *([str(i), odd] for i, odd in enumerate(ODD))])
    assert rows(written(tmp_path, text.getvalue()), kind) == [{"id": str(i), "text": odd} for i, odd in enumerate(ODD)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_within_fields_stay(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending.join(["a,b", '1,"x\r\ny\rz\n"', "", "2,w"]))
    assert rows(path, "csv") == [{"a": "1", "b": "x\r\ny\rz\n"}, {"a": "2", "b": "w"}]


def test_records_are_read_one_by_one(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n3\n")
    reader = READERS["csv"](path, Source(kind="csv"))
    assert next(reader) == {"a": "1", "b": "2"}, "before the broken record is reached"
    with pytest.raises(DataError, match="line 3: the record has 1 fields, the header has 2"):
        next(reader)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "text"])
def test_a_field_of_a_megabyte(tmp_path: Path, kind: str) -> None:
    long = "ä" * 1_200_000
    content = {
        "csv": f"text\n{long}\n",
        "jsonl": json.dumps({"text": long}),
        "json": json.dumps([{"text": long}], ensure_ascii=False),
        "text": long,
    }[kind]
    assert rows(written(tmp_path, content), kind)[0]["text"] == long


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n1,2,3\n", "line 3: the record has 3 fields, the header has 2"),
        ('a,b\n1,"open\n2,3\n', "line 3: not a well-formed record (unexpected end of data)"),
        ('a,b\n1,"x"y\n', "line 2: not a well-formed record"),
        ("a,b,a,b\n1,2,3,4\n", "the header has `a`, `b` more than once"),
    ],
)
def test_broken_records_are_told_by_line(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    assert words in message(path, "csv")
    assert str(path) in message(path, "csv")


def test_an_unnamed_index_column_is_fine(tmp_path: Path) -> None:
    assert rows(written(tmp_path, ",a\n0,x\n"), "csv") == [{"": "0", "a": "x"}]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json"])
def test_an_empty_file_has_no_rows(tmp_path: Path, kind: str) -> None:
    assert rows(written(tmp_path, ""), kind) == []
    assert rows(written(tmp_path, codecs.BOM_UTF8 + b"\n"), kind) == []


def test_json_lines(tmp_path: Path) -> None:
    lines = [{"id": i, "text": odd, "nested": {"a": [1, None]}} for i, odd in enumerate(ODD)]
    for ensure_ascii in (True, False):
        text = "\r\n\n".join(json.dumps(line, ensure_ascii=ensure_ascii) for line in lines)
        assert rows(written(tmp_path, text), "jsonl") == lines


def test_odd_line_separators_do_not_break_json_lines(tmp_path: Path) -> None:
    path = written(tmp_path, '{"a": "x\u2028y\x85z"}\n')
    assert rows(path, "jsonl") == [{"a": "x\u2028y\x85z"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\n\n{"a": 2\n', "line 3: not JSON (Expecting ',' delimiter, column 8)"),
        ('{"a": 1}\n[1]\n', "line 2: a JSON object is needed, this is a list"),
        ("5\n", "line 1: a JSON object is needed, this is a number"),
        ("null\n", "line 1: a JSON object is needed, this is null"),
        ("[" * 100_000, "line 1: not JSON (nested too deeply)"),
        ('{"a": ' + "1" * 5000 + "}", "line 1: not JSON"),
    ],
)
def test_broken_json_lines_are_told_by_line(tmp_path: Path, text: str, words: str) -> None:
    assert words in message(written(tmp_path, text), "jsonl")


@pytest.mark.parametrize(
    ("document", "settings", "expected"),
    [
        ([{"a": 1}, {"a": None}], {}, [{"a": 1}, {"a": None}]),
        ({"data": {"rows": [{"a": 1}]}}, {"rows": "data.rows"}, [{"a": 1}]),
        ({"7": {"a": 1}, "8": {"a": 2}}, {"key": "id"}, [{"id": "7", "a": 1}, {"id": "8", "a": 2}]),
        ({"x": {"7": {"a": 1}}}, {"rows": "x", "key": "id"}, [{"id": "7", "a": 1}]),
        ([], {}, []),
    ],
)
def test_json_documents(tmp_path: Path, document: object, settings: dict[str, str], expected: list[Row]) -> None:
    assert rows(written(tmp_path, json.dumps(document)), "json", **settings) == expected


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ('[{"a": 1},\n {"a": }]', {}, "line 2: not JSON (Expecting value, column 8)"),
        ("[" * 100_000, {}, "not JSON (nested too deeply)"),
        ('{"data": []}', {"rows": "dat"}, "`rows: dat` is not in it: there is no key `dat`. Did you mean `data`?"),
        ('{"data": []}', {"rows": "data.x"}, "there is no key `x`. There is a list instead."),
        ('{"1": {}, "2": {}}', {}, "the rows are an object (keys 1, 2), not a list. Name a column for its keys"),
        ("[{}]", {"key": "id"}, "`key: id` needs rows that are an object, these are a list"),
        ('"text"', {}, "the rows should be a list or an object, they are a text"),
        ('[{"a": 1}, 2]', {}, "row 2: a JSON object is needed, this is a number"),
        ('{"7": [1]}', {"key": "id"}, "row `7`: a JSON object is needed, this is a list"),
        ('{"7": {"id": 1}}', {"key": "id"}, "row `7`: has a column `id` already"),
    ],
)
def test_json_documents_of_another_shape(tmp_path: Path, text: str, settings: dict[str, str], words: str) -> None:
    assert words in message(written(tmp_path, text), "json", **settings)


def test_a_text_file_is_one_row(tmp_path: Path) -> None:
    path = written(tmp_path, "one\r\ntwo\n", "note.1.txt")
    assert rows(path, "text") == [{"name": "note.1", "text": "one\r\ntwo\n"}]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "text"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8"])
@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("before", [0, 50_000, 300_000])
def test_bytes_that_are_not_text_are_told_where(
    tmp_path: Path, kind: str, encoding: str, bom: bytes, before: int
) -> None:
    start = bom + b"ab,c\n" * before + "é,".encode()
    path = written(tmp_path, start + b"\xff\n")
    if kind == "jsonl":
        start = bom + b'{"a": "' + b"x" * before + "é".encode()
        path = written(tmp_path, start + b'\xff"}\n')
    text = message(path, kind, encoding=encoding)
    line = 1 if kind == "jsonl" else before + 1
    assert f"{path}, line {line}, byte {len(start)}: byte 0xff is not utf-8 text." in text
    assert "`encoding: cp1252`" in text


def test_text_that_breaks_off_within_a_character(tmp_path: Path) -> None:
    assert "line 2, byte 4: byte 0xc3 is not utf-8 text" in message(written(tmp_path, b"a\nbc\xc3"), "text")


def test_the_encoding_may_be_named(tmp_path: Path) -> None:
    assert rows(written(tmp_path, "a\né\n".encode("cp1252")), "csv", encoding="cp1252") == [{"a": "é"}]
    assert rows(written(tmp_path, "a\né\n".encode("utf-16")), "csv", encoding="utf-16") == [{"a": "é"}]
    assert rows(written(tmp_path, '{"a": "é"}\n'.encode("utf-16")), "jsonl", encoding="utf-16") == [{"a": "é"}]


texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


@given(table=st.lists(st.tuples(texts, texts.filter(bool)), min_size=1))
def test_any_text_survives_every_text_format(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    expected = [{"a": a, "b": b} for a, b in table]
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *table])
    assert rows(written(folder, buffer.getvalue()), "csv") == expected
    assert (
        rows(written(folder, "\n".join(json.dumps(row, ensure_ascii=False) for row in expected)), "jsonl") == expected
    )
    assert rows(written(folder, json.dumps(expected)), "json") == expected


# --- workbooks --------------------------------------------------------------------------------------------------------


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    """The smallest .xlsx that holds these cells."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>',
        "_rels/.rels": f'<Relationships {package}><Relationship Id="r" Type="{relations}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{relations}"><sheets>'
        + "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1))
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships {package}>"
        + "".join(
            f'<Relationship Id="r{i}" Type="{relations}/worksheet" Target="worksheets/sheet{i}.xml"/>'
            for i in range(1, len(sheets) + 1)
        )
        + "</Relationships>",
    }
    for i, cells in enumerate(sheets.values(), 1):
        lines = "".join(
            f'<row r="{r}">' + "".join(cell(value, f"{chr(65 + c)}{r}") for c, value in enumerate(line)) + "</row>"
            for r, line in enumerate(cells, 1)
        )
        parts[f"xl/worksheets/sheet{i}.xml"] = f"<worksheet {main}><sheetData>{lines}</sheetData></worksheet>"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def cell(value: object, place: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


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
    assert "there is no sheet `Too`. Did you mean `Two`?" in message(path, "xlsx", sheet="Too")


def test_a_workbook_without_rows_or_with_columns_twice(tmp_path: Path) -> None:
    assert rows(workbook(tmp_path / "x.xlsx", {"One": []}), "xlsx") == []
    assert "the header has `a` more than once" in message(workbook(tmp_path / "x.xlsx", {"One": [["a", "a"]]}), "xlsx")


# --- column formats ---------------------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "odd [name]*.parquet"
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            "COPY (SELECT i, i::DOUBLE AS d, i + 0.5::DOUBLE AS h, 'text ' || i AS \"Patient Note\", "
            "CASE WHEN i = 1 THEN NULL ELSE true END AS flag, {'a': [i]} AS nested FROM range(2500) t(i)) "
            f"TO '{path}' (FORMAT parquet)"
        )
    found = rows(path, "parquet")
    assert len(found) == 2500
    assert found[1] == {"i": 1, "d": 1, "h": 1.5, "Patient Note": "text 1", "flag": None, "nested": {"a": [1]}}
    assert type(found[1]["d"]) is int
    assert [row["i"] for row in found] == list(range(2500)), "in the file's order"


def test_arrow(tmp_path: Path) -> None:
    import nanoarrow
    from nanoarrow.ipc import StreamWriter

    schema = nanoarrow.struct({"text": nanoarrow.string(), "number": nanoarrow.float64()})
    path = tmp_path / "x.arrow"
    with StreamWriter.from_path(str(path)) as writer:
        columns = [nanoarrow.c_array(ODD, nanoarrow.string()), nanoarrow.c_array([1.0] * len(ODD), nanoarrow.float64())]
        writer.write_array(nanoarrow.c_array_from_buffers(schema, len(ODD), buffers=[None], children=columns))
    assert rows(path, "arrow") == [{"text": odd, "number": 1} for odd in ODD]


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
@pytest.mark.parametrize("kind", ["xlsx", "parquet", "arrow", "docx"])
def test_files_of_another_format_are_told(tmp_path: Path, kind: str, content: bytes) -> None:
    path = written(tmp_path, content)
    if kind == "arrow" and not content:
        assert rows(path, kind) == []
    else:
        assert f"{path}: cannot be read as" in message(path, kind)


def test_an_arrow_file_with_an_index_is_no_stream(tmp_path: Path) -> None:
    assert "Save it as an Arrow stream or as Parquet" in message(written(tmp_path, b"ARROW1\0\0xxxxxxxx"), "arrow")


# --- real data --------------------------------------------------------------------------------------------------------


def test_real_arrow_equals_real_json_lines(data_dir: Path) -> None:
    folder = data_dir / "medhallu"
    arrow = rows(folder / "pqa_labeled_train.arrow", "arrow")
    assert arrow == rows(folder / "pqa_labeled_train.jsonl", "jsonl")
    assert len(arrow) == 1000
    assert isinstance(arrow[0]["Knowledge"], list)


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


def test_real_records(data_dir: Path) -> None:
    path = data_dir / "medcalc_bench" / "test_data.csv"
    found = rows(path, "csv")
    with path.open(encoding="utf-8", newline="") as file:
        assert found == list(csv.DictReader(file))
    assert [row["Row Number"] for row in found] == [str(i) for i in range(1, 1048)]
    assert len(rows(data_dir / "medbullets" / "medbullets_op5.csv", "csv")) == 308
    notes = rows(data_dir / "jury_validation" / "aci_bench_note_preferences" / "human_eval.tsv", "tsv")
    assert len(notes) == 20


def test_real_keyed_json(data_dir: Path) -> None:
    found = rows(data_dir / "pubmed_qa" / "ori_pqal.json", "json", key="pmid")
    assert len(found) == 1000
    assert found[0]["pmid"] == "21645374"
