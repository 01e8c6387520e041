"""Rows written in any format are read back unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.benchmarks.data.readers import READERS
from medhelm.benchmarks.data.sample_rows import WRITERS, write_files
from medhelm.domain import Benchmark, Source
from medhelm.errors import DataError, UserError
from medhelm.io.rows import Row
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.data_files import ODD


def there_and_back(folder: Path, kind: str, content: list[Row], **settings: str) -> list[Row]:
    """Write rows and read them again."""
    path, source = folder / "x", Source(kind=kind, **settings)  # type: ignore[arg-type]
    WRITERS[kind](content, path, source)
    return list(READERS[kind](path, source))


ANY = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
TIDY = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cn"]) | st.sampled_from("\n\t"), max_size=20)
NAME = st.text(alphabet="abcXYZ_", min_size=1, max_size=3)
SHORT_NUMBER = st.integers(-(10**9), 10**9).map(lambda n: n / 1000) | st.integers(-(2**53), 2**53)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=6,
)
TIMES = st.datetimes().map(lambda time: time.isoformat())
CELLS = [st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), ANY, TIMES]
COLUMNS = [*CELLS, *(st.lists(cell, max_size=3) for cell in CELLS), st.fixed_dictionaries({"x": ANY, "y": st.none()})]


@st.composite
def tables(draw: st.DrawFn, *cells: st.SearchStrategy[Any], gaps: bool = False) -> list[Row]:
    """Rows that have the same columns, each of one type, with nothing here and there if there may be `gaps`.

    A name is not blank: blank lines above the header of a spreadsheet are skipped.
    """
    usual = ANY.filter(lambda name: name.strip() and "\0" not in name and not name.startswith("\ufeff"))
    names = draw(st.lists(usual, min_size=1, max_size=4, unique_by=str.lower))
    columns = {name: draw(st.sampled_from(cells)) for name in names}
    if gaps:
        columns = {name: st.none() | cell for name, cell in columns.items()}
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=5))


def not_blank(table: list[Row]) -> bool:
    return all(any(value != "" for value in row.values()) for row in table)


@st.composite
def elements(draw: st.DrawFn, depth: int = 2) -> Row:
    """What an XML element may hold: attributes, elements one or several of a name, and text."""
    content: Row = {f"@{name}": value for name, value in draw(st.dictionaries(NAME, TIDY, max_size=2)).items()}
    for name in draw(st.lists(NAME, max_size=3, unique=True)) if depth else []:
        nested = elements(depth - 1).filter(lambda inner: set(inner) != {"#text"})
        inner = st.one_of(TIDY, nested)
        content[name] = draw(inner | st.lists(inner, min_size=2, max_size=3))
    if not content or draw(st.booleans()):
        content["#text"] = draw(TIDY.filter(str.strip))
    return content


ROUND_TRIPS: dict[str, st.SearchStrategy[list[Row]]] = {
    "csv": tables(ANY),
    "tsv": tables(ANY),
    "json": st.lists(st.dictionaries(ANY, ANY_JSON, max_size=3)),
    "jsonl": st.lists(st.dictionaries(ANY, ANY_JSON, max_size=3)),
    "xlsx": tables(ANY.filter(lambda text: "\ufffe" not in text and "\uffff" not in text), SHORT_NUMBER, st.booleans()),
    "parquet": tables(*COLUMNS, gaps=True),
    "arrow": tables(*COLUMNS, gaps=True),
    "feather": tables(*COLUMNS, gaps=True),
    "docx": st.lists(st.fixed_dictionaries({"text": TIDY, "red": st.sampled_from(["", "true"])})),
    "xml": st.lists(elements(), min_size=1),
    "text": st.lists(st.fixed_dictionaries({"name": st.just("x"), "text": ANY}), min_size=1, max_size=1),
    "lines": st.lists(st.fixed_dictionaries({"line": TIDY.map(lambda text: text.replace("\n", "\u2028"))})),
}


def test_every_format_that_is_read_can_be_written() -> None:
    assert READERS.keys() == WRITERS.keys() == ROUND_TRIPS.keys()


@pytest.mark.parametrize("kind", ROUND_TRIPS)
def test_written_files_are_read_again(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    folder = tmp_path_factory.mktemp("files")

    @settings(max_examples=10)
    @given(content=ROUND_TRIPS[kind])
    def check(content: list[Row]) -> None:
        if kind != "xlsx" or not_blank(content):
            assert there_and_back(folder, kind, content) == content

    check()


NEARLY_DATES = (
    *("INFINITY", " infinity", "epoch", "2020-1-1", "2020-01-01 ", "12:30", "2020-01-01T1:2:3"),
    *("2020-01-01", "2020-01-01T00:00:00", "12:30:00", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_texts_that_the_database_takes_for_dates_stay_what_they_are(tmp_path: Path, kind: str) -> None:
    """Each in a column of its own, alone and beside a real date; in a list and in an object."""
    columns = {f"{n}": text for n, text in enumerate(NEARLY_DATES)}
    nested: Row = {f"list {n}": [text] for n, text in enumerate(NEARLY_DATES)}
    nested |= {f"object {n}": {"a": text, "b": "2020-01-01"} for n, text in enumerate(NEARLY_DATES)}
    content: list[Row] = [{**columns, **nested}, {**dict.fromkeys(columns, "2021-01-01"), **nested}]
    assert there_and_back(tmp_path, kind, content) == content


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "feather"])
def test_odd_texts_and_numbers_that_are_texts_stay_what_they_are(tmp_path: Path, kind: str) -> None:
    texts = [*ODD, "001", "1e5", "TRUE", "=1+1", "http://a.example", "_x0041_", "a\rb\r\nc", "2150-01-02", "null"]
    content: list[Row] = [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    assert there_and_back(tmp_path, kind, content) == content


@pytest.mark.parametrize("kind", ["json", "jsonl", "xlsx", "parquet", "arrow", "feather", "docx", "csv", "xml"])
def test_equal_rows_give_equal_files(tmp_path: Path, kind: str) -> None:
    content: list[Row] = [{"text": "a", "red": "true"}, {"text": "b", "red": ""}]
    for name in "xy":
        WRITERS[kind](content, tmp_path / name, Source(kind=kind))
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


@pytest.mark.parametrize(
    ("rows", "n", "expected"),
    [
        ("Note", 2, "<rows><Note><a>0</a></Note><Note><a>1</a></Note></rows>\n"),
        ("Ward/List/Note", 1, "<Ward><List><Note><a>0</a></Note></List></Ward>\n"),
    ],
)
def test_xml_rows_are_inside_the_elements_of_their_path(tmp_path: Path, rows: str, n: int, expected: str) -> None:
    content: list[Row] = [{"a": str(i)} for i in range(n)]
    assert there_and_back(tmp_path, "xml", content, rows=rows) == content
    assert (tmp_path / "x").read_text().partition("\n")[2] == expected


# --- files of a benchmark ---------------------------------------------------------------------------------------------


def a_benchmark(folder: Path, **source: Any) -> Benchmark:
    """A benchmark with this source, defined below `folder`."""
    hooks = "def rows(folder): return iter(())\n" if source["kind"] == "folder" else None
    return make_benchmark(folder / "definitions", hooks=hooks, source=source, prompt="{text}", columns={"text": "a"})


def fails(content: list[Row], folder: Path, benchmark: Benchmark) -> str:
    """Return the error about rows that do not fit their files; check that nothing is written."""
    with pytest.raises(DataError) as caught:
        write_files(content, folder / "data", benchmark=benchmark)
    assert not (folder / "data").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"ddl": "CREATE TABEL x"}, 'near "TABEL": syntax error'),
        ({"ddl": "ATTACH 'other.sqlite' AS other"}, "too many attached databases"),
        ({"a": 1}, "KeyError: 'table'"),
    ],
)
def test_rows_that_do_not_fit_a_format_are_refused(tmp_path: Path, row: Row, words: str) -> None:
    benchmark = a_benchmark(tmp_path, kind="folder", files={"x.sqlite": ""})
    with pytest.raises(DataError) as caught:
        write_files([{"file": "x.sqlite", **row}], tmp_path, benchmark=benchmark)
    assert "x.sqlite: the rows do not fit this format" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_no_file_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    benchmark = a_benchmark(tmp_path, kind="folder", files={"**/*": "", "*": ""})
    words = fails([{"file": name, "text": "x"}, {"file": "y", "text": "x"}], tmp_path, benchmark)
    assert "is outside the folder" in words or "is not a file of the definition" in words


def test_existing_files_are_not_changed(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="csv", files={"x.csv": "", "y.csv": ""})
    content: list[Row] = [{"a": "1"}, {"a": "2"}]
    (tmp_path / "y.csv").write_text("precious")
    with pytest.raises(UserError, match=r"already holds y\.csv"):
        write_files(content, tmp_path, benchmark=benchmark)
    assert not (tmp_path / "x.csv").exists()
    assert (tmp_path / "y.csv").read_text() == "precious"
