"""One pass over all rows: what is taken in, what is left out, and everything that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data import dataset
from medhelm.benchmarks.data.dataset import SourceTable, TableScan
from medhelm.domain import Benchmark
from medhelm.errors import DataError
from tests.support.benchmarks.definitions import Make, Put

ROWS = [{"question": f"q{i}", "answer": f"a{i}"} for i in range(4)]


def opened(benchmark: Benchmark, data: Path) -> SourceTable:
    return SourceTable(benchmark, benchmark.source, data / "tiny")


def scan(benchmark: Benchmark, data: Path, expected_count: int | None = None) -> TableScan:
    return opened(benchmark, data).scan(expected_count=expected_count)


def problems(benchmark: Benchmark, data: Path, expected_count: int | None = None) -> list[str]:
    with pytest.raises(DataError) as caught:
        scan(benchmark, data, expected_count)
    return str(caught.value).split("\n")


def test_all_rows_are_imported(make: Make, put: Put) -> None:
    found = scan(make(), put(ROWS), 4)
    assert found.ids == {"0": 0, "1": 1, "2": 2, "3": 3}
    assert found.kept is not None
    assert [instance.fields["question"] for instance in found.kept] == ["q0", "q1", "q2", "q3"]
    assert (found.n_rows, found.n_skipped, found.duplicates) == (4, 0, set())


def test_rows_that_are_left_out_keep_the_names_of_the_others(make: Make, put: Put) -> None:
    rows: list[dict[str, Any]] = [{"question": "", "answer": "x"}, *ROWS[:1], ROWS[0], ROWS[1]]
    benchmark = make(require=["question"], drop_duplicates=True)
    data = put(rows)
    found = scan(benchmark, data, 2)
    assert found.ids == {"1": 0, "3": 1}, "positions in the source, never after filtering"
    assert (found.n_rows, found.n_skipped, found.duplicates) == (4, 2, {2})
    opened_table = opened(benchmark, data)
    opened_table.scan(expected_count=None)
    assert [instance.id for instance in opened_table.read()] == ["1", "3"]


def test_duplicates_have_the_same_prompt_and_reference(make: Make, put: Put) -> None:
    rows = [
        {"question": "q", "answer": "a", "other": "1"},
        {"question": "q", "answer": "a", "other": "2"},
        {"question": "q", "answer": "b", "other": "1"},
        {"question": "q ", "answer": "a", "other": "1"},
    ]
    assert scan(make(drop_duplicates=True, metadata=["other"]), put(rows)).duplicates == {1}
    assert scan(make(metadata=["other"]), put(rows)).duplicates == set()


def test_odd_texts_can_be_compared(make: Make, put: Put) -> None:
    rows = [{"question": "\ud800\x00👩‍⚕️", "answer": "a"}] * 2
    assert scan(make(drop_duplicates=True), put(rows)).n_skipped == 1


def test_all_problems_at_once(make: Make, put: Put) -> None:
    rows: list[dict[str, Any]] = [{"id": "7", **row} for row in ROWS]
    rows += [{"id": "8", "question": "q", "answer": ""}, {"id": "9", "question": ["q"], "answer": "a"}]
    lines = problems(make(id="id"), put(rows), 5)
    assert "line 5 (id 8): the answer `answer` is empty" in lines[0]
    assert "line 6 (id 9): `question` is a list" in lines[1]
    assert "3 instances repeat the id of another one: 7, ..." in lines[2]
    assert "must have 5 instances, has 6 (6 rows)" in lines[3]
    assert len(lines) == 4


def test_many_problems_are_counted_not_listed(make: Make, put: Put) -> None:
    lines = problems(make(), put([{"question": "q", "answer": ""}] * 12))
    assert len(lines) == 6
    assert lines[5] == "... and 7 more invalid rows."


def test_repeated_ids_are_named(make: Make, put: Put) -> None:
    rows = [{"id": i // 2, **ROWS[0]} for i in range(20)]
    [line] = problems(make(id="id"), put(rows))
    assert "10 instances repeat the id of another one: 0, 1, 2, 3, 4, ...." in line
    assert "List columns under `id`" in line


def test_an_empty_selection_is_an_error(make: Make, put: Put) -> None:
    [line] = problems(make(require=["note"]), put([{**row, "note": ""} for row in ROWS]))
    assert "has no instances (4 of 4 rows are skipped: `note` is empty (4)). Check `require` and the data." in line


def test_messages_name_the_file_or_the_folder(make: Make, put: Put, tmp_path: Path) -> None:
    data = put(ROWS)
    assert opened(make(), data).place == str(data / "tiny" / "rows.jsonl")
    put(ROWS, file="more.jsonl")
    benchmark = make(source={"files": {"rows.jsonl": "", "more.jsonl": ""}})
    both = opened(benchmark, data)
    assert both.place == str(data / "tiny")
    assert list(both.scan(expected_count=8).ids) == [str(i) for i in range(8)], "positions go on from file to file"


def test_a_hook_converts_the_rows_of_the_source(make: Make, put: Put) -> None:
    hooks = "def rows(rows):\n    for row in rows:\n        for i in (0, 1): yield {**row, 'question': row['q'][i]}\n"
    data = put([{"q": ["a", "b"], "answer": "x"}, {"q": ["c", "d"], "answer": "y"}])
    found = scan(make(hooks=hooks), data)
    assert found.kept is not None
    assert [(i.id, i.fields["question"], i.expected) for i in found.kept] == [
        ("0", "a", "x"),
        ("1", "b", "x"),
        ("2", "c", "y"),
        ("3", "d", "y"),
    ]


def test_many_instances_are_not_kept(make: Make, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "KEPT", 3)
    found = scan(make(), put(ROWS))
    assert found.kept is None
    assert len(found.ids) == 4
    monkeypatch.setattr(dataset, "KEPT", 4)
    assert len(scan(make(), put(ROWS)).kept or []) == 4
