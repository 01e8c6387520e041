"""Plain tables: CSV and Parquet, from rows in memory and from the files of a store."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.io.parquet import connect
from medhelm.io.spreadsheets import FORMULA
from medhelm.results import export as tables
from medhelm.results.export import RecordSource, write_joined, write_rows

COLUMNS = {"name": "VARCHAR", "score": "DOUBLE", "n": "BIGINT", "counts": "BOOLEAN"}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def read_parquet(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=4))
def test_texts_and_numbers_come_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, float]]) -> None:
    file = tmp_path_factory.mktemp("rows") / "t.csv"
    given_rows = [{"name": name, "score": score, "n": 3, "counts": True} for name, score in pairs]
    assert write_rows(file, COLUMNS, given_rows) == len(pairs)
    found = read_csv(file)
    assert [float(row["score"]) for row in found] == [score for _, score in pairs]
    assert not any(row["name"].startswith(("=", "+", "-", "@", "\t", "\r")) for row in found), "a formula"
    # The data dictionary says how a text that looked like a formula is restored.
    texts = [
        name[1:] if name.startswith("'") and re.match(FORMULA, name) else name
        for name in (row["name"] for row in found)
    ]
    assert texts == [name for name, _ in pairs]


@pytest.mark.parametrize("chunk", [1, 3, 2**20])
def test_line_ends_do_not_depend_on_where_a_file_is_cut(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_CHUNK", chunk)
    texts = ['a "quoted" word', "two\nlines", "one\r\nmore", '"', '""', ",", 'end"\n"', "plain"]
    write_rows(tmp_path / "t.csv", {"name": "VARCHAR"}, [{"name": text} for text in texts])
    assert [row["name"] for row in read_csv(tmp_path / "t.csv")] == texts
    outside = b"".join((tmp_path / "t.csv").read_bytes().split(b'"')[::2])
    assert outside.count(b"\r\n") == outside.count(b"\n") == len(texts) + 1


def test_names_with_quotes_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / 'it\'s "here".parquet'
    metric = "o'm"
    with connect() as engine:
        target = str(path).replace("'", "''")
        engine.execute(f"COPY (SELECT 0 AS position, 0.5 AS \"{metric}_corrected\") TO '{target}' (FORMAT parquet)")
    source = RecordSource(path=path, front={"run": "r'; DROP TABLE sources; --"}, metric=metric)
    write_joined(tmp_path / "t.parquet", {"run": "VARCHAR", "main_score_corrected": "DOUBLE"}, [source])
    assert read_parquet(tmp_path / "t.parquet") == [("r'; DROP TABLE sources; --", 0.5)]
