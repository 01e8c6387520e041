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
from medhelm.storage import export_tables as tables
from medhelm.storage.export_tables import RecordSource, write_joined, write_rows

COLUMNS = {"name": "VARCHAR", "score": "DOUBLE", "n": "BIGINT", "counts": "BOOLEAN"}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def read_parquet(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()


# --- rows in memory ---------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=4))
def test_texts_and_numbers_come_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, float]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    given_rows = [{"name": name, "score": score, "n": 3, "counts": True} for name, score in pairs]
    assert write_rows(folder / "t.csv", COLUMNS, given_rows) == len(pairs)
    found = read_csv(folder / "t.csv")
    assert [float(row["score"]) for row in found] == [score for _, score in pairs]
    assert not any(row["name"].startswith(("=", "+", "-", "@", "\t", "\r")) for row in found), "a formula"
    assert [restored(row["name"]) for row in found] == [name for name, _ in pairs]
    assert {(row["n"], row["counts"]) for row in found} == {("3", "true")}


def restored(text: str) -> str:
    """A text as it was, by what the dictionary says."""
    return text[1:] if text.startswith("'") and re.match(FORMULA, text) else text


def test_missing_and_empty_are_two_things_in_csv(tmp_path: Path) -> None:
    rows = [{"name": name, "score": None, "n": None, "counts": None} for name in ("", None, "x")]
    write_rows(tmp_path / "t.csv", COLUMNS, rows)
    assert (tmp_path / "t.csv").read_bytes() == b'name,score,n,counts\r\n"",,,\r\n,,,\r\nx,,,\r\n'


def test_a_table_without_rows_has_its_heading(tmp_path: Path) -> None:
    assert write_rows(tmp_path / "t.csv", COLUMNS, []) == 0
    assert (tmp_path / "t.csv").read_bytes() == b"name,score,n,counts\r\n"
    assert write_joined(tmp_path / "t.csv", WANTED, []) == 0
    assert (tmp_path / "t.csv").read_bytes() == ",".join(WANTED).encode() + b"\r\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    write_rows(tmp_path / "t.parquet", COLUMNS, [])
    with duckdb.connect() as connection:
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(tmp_path / "t.parquet")])
        assert {row[0]: row[1] for row in described.fetchall()} == COLUMNS


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 2**20])
def test_line_ends_do_not_depend_on_where_a_file_is_cut(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_CHUNK", chunk)
    texts = ['a "quoted" word', "two\nlines", "one\r\nmore", '"', '""', ",", 'end"\n"', "plain"]
    write_rows(tmp_path / "t.csv", {"name": "VARCHAR"}, [{"name": text} for text in texts])
    assert [row["name"] for row in read_csv(tmp_path / "t.csv")] == texts
    outside = b"".join((tmp_path / "t.csv").read_bytes().split(b'"')[::2])
    assert outside.count(b"\r\n") == outside.count(b"\n") == len(texts) + 1


# --- files of a store -------------------------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path) -> list[RecordSource]:
    """Three files with different columns, in an order that is not that of their names."""
    found = []
    with connect() as engine:
        for name, metric, n in (("z", "m1", 5000), ("a", "m2", 3), ("k", "m1", 0)):
            path = tmp_path / f"{name}.parquet"
            engine.execute(
                f"COPY (SELECT i::INTEGER AS position, 'q' || i AS instance_id, i / 8 AS {metric}_corrected, "
                f"'' AS cluster FROM range({n}) t(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 100)"
            )
            found.append(RecordSource(path=path, front={"run": f"run-{name}"}, metric=metric))
    return found


WANTED = {
    "run": "VARCHAR", "position": "INTEGER", "cluster": "VARCHAR", "main_score_corrected": "DOUBLE",
    "main_score_published": "DOUBLE", "m1_corrected": "DOUBLE", "m2_corrected": "DOUBLE", "absent": "VARCHAR",
}  # fmt: skip


def test_files_follow_one_another_in_the_order_given(tmp_path: Path, sources: list[RecordSource]) -> None:
    assert write_joined(tmp_path / "t.parquet", WANTED, sources) == 5003
    found = read_parquet(tmp_path / "t.parquet")
    assert [row[:2] for row in found] == [("run-z", i) for i in range(5000)] + [("run-a", i) for i in range(3)]
    assert found[9] == ("run-z", 9, None, 9 / 8, None, 9 / 8, None, None)
    assert found[5002] == ("run-a", 2, None, 2 / 8, None, None, 2 / 8, None)


def test_csv_holds_the_same_rows(tmp_path: Path, sources: list[RecordSource]) -> None:
    write_joined(tmp_path / "t.csv", WANTED, sources)
    found = read_csv(tmp_path / "t.csv")
    assert len(found) == 5003
    assert found[9] == {
        "run": "run-z", "position": "9", "cluster": "", "main_score_corrected": "1.125", "main_score_published": "",
        "m1_corrected": "1.125", "m2_corrected": "", "absent": "",
    }  # fmt: skip


def test_names_with_quotes_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / 'it\'s "here".parquet'
    metric = "o'm"
    with connect() as engine:
        target = str(path).replace("'", "''")
        engine.execute(f"COPY (SELECT 0 AS position, 0.5 AS \"{metric}_corrected\") TO '{target}' (FORMAT parquet)")
    source = RecordSource(path=path, front={"run": "r'; DROP TABLE sources; --"}, metric=metric)
    write_joined(tmp_path / "t.parquet", {"run": "VARCHAR", "main_score_corrected": "DOUBLE"}, [source])
    assert read_parquet(tmp_path / "t.parquet") == [("r'; DROP TABLE sources; --", 0.5)]


def test_large_rows_are_held_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 2**20)
    path = tmp_path / "long.parquet"
    with connect() as engine:
        # Each text is another one: equal ones would be stored once, and count for nothing.
        words = "(SELECT string_agg(sha256(i || '/' || j), '') FROM range(320) u(j))"
        engine.execute(
            f"COPY (SELECT i AS position, {words} AS messages FROM range(2100) t(i)) TO '{path}' (FORMAT parquet)"
        )
    columns = {"position": "INTEGER", "messages": "VARCHAR"}
    write_joined(tmp_path / "t.parquet", columns, [RecordSource(path=path, front={"benchmark": "b"})])
    with duckdb.connect() as connection:
        sizes = connection.execute(
            "SELECT DISTINCT row_group_num_rows FROM parquet_metadata(?)", [str(tmp_path / "t.parquet")]
        ).fetchall()
    assert max(size for (size,) in sizes) <= 2048 < 2100
