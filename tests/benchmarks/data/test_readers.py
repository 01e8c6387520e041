"""Formats that are text: what becomes a row, and what a broken file is told; and what is the same for every format."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.data.instances import InstanceReader
from medhelm.benchmarks.data.readers import READERS, meaning, proposed_values
from medhelm.errors import ConfigError, DataError
from medhelm.io import files as opening
from medhelm.io.rows import Row
from tests.support.benchmarks.definitions import Make
from tests.support.cases import table
from tests.support.data_files import message, rows, written

# --- text formats -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_within_fields_stay(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending.join(["a,b", '1,"x\r\ny\rz\n"', "", "2,w"]))
    assert rows(path, "csv") == [{"a": "1", "b": "x\r\ny\rz\n"}, {"a": "2", "b": "w"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n1,2,3\n", "line 3: the record has 3 fields, the header has 2"),
        ('a,b\n1,"open\n2,3\n', "line 2: not a well-formed CSV record (unexpected end of data)"),
        ("a,b,a,b\n1,2,3,4\n", "the header has `a`, `b` more than once"),
    ],
)
def test_broken_records_are_reported_by_line(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    assert words in message(path, "csv")
    assert str(path) in message(path, "csv")


TABLE = [["id", "note", "answer"], ["1", "38.2 °C – naïve; 5,5", "yes"], ["2", "", "no"]]


def as_csv(separator: str, *, above: str = "") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(TABLE)
    return above + text.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        as_csv(";").encode("cp1252"),
        as_csv("\t").encode("utf-16"),
        as_csv("|").encode("utf-8-sig"),
        as_csv(";", above="sep=;\r\n").encode(),
        as_csv(",", above="Discharge export; 3 May 2026\n\n").encode(),
        as_csv(";", above="Discharge export;;\nPatient;;\n").encode("cp1252"),
    ],
    ids=["semicolon cp1252", "tab utf-16", "bar bom", "sep=", "title", "merged headings"],
)
def test_a_table_of_any_program_gives_the_same_rows(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(content)
    assert rows(path, "csv") == [dict(zip(TABLE[0], cells, strict=True)) for cells in TABLE[1:]]


def test_delimiter_and_header_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b,c;d\nid;note,x;y\n1;2,3;4\n")
    assert rows(path, "csv", delimiter=";", header_row=2) == [{"id": "1", "note,x": "2,3", "y": "4"}]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8", "cp1252"])
def test_a_file_with_two_encodings_is_refused_with_its_lines(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"id,note\n" + "1,38 °C\n2,naïve\n".encode() + b"3,plain\n" + "4,38 °C\n".encode("cp1252"))
    assert "Lines in UTF-8: 2-3; in Windows-1252: 5. Save all of it as UTF-8" in message(path, "csv", encoding=encoding)


def test_a_workbook_is_not_read_as_text_nor_text_as_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"PK\x03\x04 and more")
    assert "is a workbook, not text. Write `kind: xlsx`" in message(path, "csv")
    path.write_bytes(b"id,note\n")
    assert "text needs `kind: csv`" in message(path, "xlsx")


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json"])
def test_an_empty_file_has_no_rows(tmp_path: Path, kind: str) -> None:
    assert rows(written(tmp_path, ""), kind) == []
    assert rows(written(tmp_path, codecs.BOM_UTF8 + b"\n"), kind) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\n\n{"a": 2\n', "line 3: not JSON (Expecting ',' delimiter, column 8)"),
        ('{"a": 1}\n[1]\n', "line 2: must be a JSON object, is a list"),
        ("[" * 100_000, "line 1: not JSON (nested too deeply)"),
    ],
)
def test_broken_json_lines_are_reported_by_line(tmp_path: Path, text: str, words: str) -> None:
    assert words in message(written(tmp_path, text), "jsonl")


@pytest.mark.parametrize(
    ("document", "settings", "expected"),
    [
        ({"data": {"rows": [{"a": 1}]}}, {"rows": "data.rows"}, [{"a": 1}]),
        ({"7": {"a": 1}, "8": {"a": 2}}, {"key": "id"}, [{"id": "7", "a": 1}, {"id": "8", "a": 2}]),
    ],
)
def test_json_documents(tmp_path: Path, document: object, settings: dict[str, str], expected: list[Row]) -> None:
    assert rows(written(tmp_path, json.dumps(document)), "json", **settings) == expected


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ('[{"a": 1},\n {"a": }]', {}, "line 2: not JSON (Expecting value, column 8)"),
        ('{"data": []}', {"rows": "dat"}, "`rows: dat` does not exist: the key `dat` is missing. Did you mean `data`?"),
        ('{"1": {}, "2": {}}', {}, "the rows are an object (keys 1, 2), not a list. Name a column for its keys"),
        ("[{}]", {"key": "id"}, "`key: id` needs an object of rows, this is a list"),
    ],
)
def test_json_documents_of_another_shape(tmp_path: Path, text: str, settings: dict[str, str], words: str) -> None:
    assert words in message(written(tmp_path, text), "json", **settings)


@pytest.mark.parametrize(("bom", "before"), [(codecs.BOM_UTF8, 0), (b"", 30_000)])
@pytest.mark.parametrize("kind", ["csv", "json", "text"])
def test_the_place_of_invalid_bytes_is_reported(tmp_path: Path, kind: str, bom: bytes, before: int) -> None:
    start = bom + b"ab,c\n" * before + "ɻ,".encode()
    path = written(tmp_path, start + b"\xff\x81\n")
    text = message(path, kind)
    assert f"{path}, line {before + 1}, byte {len(start)}: byte 0xff is not utf-8 text." in text
    assert "`encoding: cp1252`" in text


def test_the_encoding_may_be_named(tmp_path: Path) -> None:
    assert rows(written(tmp_path, "a\né\n".encode("cp1252")), "csv", encoding="cp1252") == [{"a": "é"}]
    assert rows(written(tmp_path, "a\né\n".encode("utf-16")), "csv", encoding="utf-16") == [{"a": "é"}]
    assert rows(written(tmp_path, '{"a": "é"}\n'.encode("utf-16")), "jsonl", encoding="utf-16") == [{"a": "é"}]


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf\n", ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
        ("a\r\r\nb\r", ["a\r", "b\r"]),
        ("\ufeffa", ["a"]),
    ],
)
def test_each_line_is_a_row(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert rows(written(tmp_path, text), "lines") == [{"line": line} for line in lines]


# --- packed files -----------------------------------------------------------------------------------------------------

PACKED = {
    "csv": "a,b\n1,é\n2,\n",
    "tsv": "a\tb\n1\té\n2\t\n",
    "json": '[{"a": "1", "b": "é"}, {"a": "2", "b": ""}]',
    "jsonl": '{"a": "1", "b": "é"}\n{"a": "2", "b": ""}\n',
    "lines": "1\né\n",
    "text": "1\né",
    "xml": "<x><y a='1'>é</y></x>\n",
}


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_file_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    plain = written(tmp_path, PACKED[kind], "note.txt")
    packed = written(tmp_path, gzip.compress(PACKED[kind].encode()), "note.txt.gz")
    assert rows(packed, kind) == rows(plain, kind) != []


@pytest.mark.parametrize("kind", PACKED)
def test_a_damaged_compressed_file_is_reported(tmp_path: Path, kind: str) -> None:
    whole = gzip.compress(PACKED[kind].encode() + b"\n" * 99_999)
    assert "breaks off after" in message(written(tmp_path, whole[:-10], "x.gz"), kind)
    assert "is not a valid gzip file (Not a gzipped file" in message(written(tmp_path, PACKED[kind], "x.gz"), kind)
    assert "is not a valid gzip file (CRC check failed" in message(
        written(tmp_path, whole[:-8] + b"\1" * 8, "x.gz"), kind
    )
    assert "is damaged after 0 unpacked bytes" in message(written(tmp_path, whole[:10] + b"\xff" * 99, "x.gz"), kind)


def test_a_file_that_decompresses_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, gzip.compress(b" " * 4_000_000), "x.gz")
    monkeypatch.setattr(opening, "_SUSPICIOUS", 1_000_000)
    for kind in PACKED:
        assert f"{path.stat().st_size:,} bytes unpack to more than" in message(path, kind)


# --- every format -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", READERS)
def test_a_folder_is_not_a_file(tmp_path: Path, kind: str) -> None:
    assert message(tmp_path, kind) == f"{tmp_path}: is a folder, where a file is needed."


# --- real data --------------------------------------------------------------------------------------------------------


def test_real_records(data_dir: Path) -> None:
    path = data_dir / "medcalc_bench" / "test_data.csv"
    found = rows(path, "csv")
    with path.open(encoding="utf-8", newline="") as file:
        assert found == list(csv.DictReader(file))


# --- answers in several spellings -------------------------------------------------------------------------------------


@table(
    ("answers", "values"),
    [
        (["Y", "yes", "N", "No", "unknown"], {"Y": "yes", "N": "No"}),
        (["Y", "N"], {}),
        (["1", "yes", "0", "no"], {"1": "yes", "0": "no"}),
        (["Ja", "y", "nein"], {"y": "Ja"}),
        ([], {}),
    ],
)
def test_the_proposed_values_of(answers: Sequence[str], values: Mapping[str, str]) -> None:
    assert proposed_values(answers) == values


@given(
    st.lists(st.one_of(st.sampled_from(["y", "Y", "yes", "n", "No", "1", "0", "-", "?", "unk"]), st.text()), max_size=8)
)
def test_values_lead_to_one_spelling_for_each_meaning(answers: list[str]) -> None:
    values = proposed_values(answers)
    assert not set(values) & set(values.values())
    assert all(meaning(spelling) == meaning(answer) for spelling, answer in values.items())
    mapped = {" ".join(spelling.casefold().split()) for spelling in values}  # as a definition compares cells
    assert proposed_values([answer for answer in answers if " ".join(answer.casefold().split()) not in mapped]) == {}


def test_a_definition_says_what_a_cell_means(make: Make) -> None:
    answer = {"column": "answer", "form": "text", "values": {"Y": True, "N": "false"}}
    benchmark = make(prompt="{question} {options}", choices=[True, False], answer=answer)
    reader = InstanceReader(benchmark, "x.csv")
    found = [reader.read(0, {"question": "q", "answer": text}) for text in ("Y", " y ", "true", "N")]
    assert [one.expected for one in found if one] == ["A", "A", "A", "B"]
    with pytest.raises(DataError, match=r"the answer `maybe` is not one of the options: `true`, `false`\.$"):
        reader.read(0, {"question": "q", "answer": "maybe"})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"column": "a", "form": "labels", "values": {"x": "y"}}, "answer.values: is not for sets of labels"),
        ({"column": "a", "values": {"x": 5}}, "answer.values.x"),
    ],
)
def test_what_values_cannot_be(make: Make, answer: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(answer=answer)
