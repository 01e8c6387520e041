"""Cases are the same from tables in memory as from the files, which may change at any time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import StoreError
from medhelm.extensions.web.cases import tables as case_tables
from medhelm.extensions.web.cases.case import Case, find_case, open_cases
from medhelm.extensions.web.cases.listing import find_cases
from medhelm.extensions.web.cases.search import CaseSearch
from tests.support.case_store import add_judged_cases, make_case_store
from tests.support.stores import make_store


@pytest.fixture(autouse=True)
def tables() -> Iterator[Any]:
    """Start and end with nothing in memory."""
    case_tables._kept.clear()
    yield case_tables._kept
    case_tables._kept.clear()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_case_store(tmp_path)
    add_judged_cases(tmp_path)
    return tmp_path


def cases_of(store: Path, benchmark: str) -> list[Case]:
    """Return the worst cases of a benchmark, and what a search finds."""
    cases = open_cases([store], benchmark)
    return [find_case(cases, item.key) for item in find_cases(cases, CaseSearch(sort="worst"), size=4).items]


def benchmarks_of(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "runs").iterdir())


def test_cases_from_memory_are_those_of_the_files(store: Path, tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from_memory = {name: cases_of(store, name) for name in benchmarks_of(store)}
    assert len(tables) == len(from_memory) > 1
    assert any(one.judgments for own in from_memory.values() for case in own for one in case.completions)
    tables.clear()
    monkeypatch.setattr(case_tables, "MOST_TABLES", 1)
    assert {name: cases_of(store, name) for name in reversed(benchmarks_of(store))} == from_memory
    assert len(tables) == 1
    tables.clear()
    monkeypatch.setattr(case_tables, "MOST_BYTES", 0)
    monkeypatch.setattr(case_tables, "EMPTY_BYTES", 0)
    assert {name: cases_of(store, name) for name in benchmarks_of(store)} == from_memory
    assert not tables, "files that are too large are read each time"
    monkeypatch.setattr(case_tables, "EMPTY_BYTES", 2**20)
    cases_of(store, "toy")
    assert tables, "however many files there are, only their rows count"
    tables.clear()
    monkeypatch.setattr(case_tables, "MEMORY_MB", 1)
    assert {name: cases_of(store, name) for name in benchmarks_of(store)} == from_memory
    assert not tables, "what does not fit into memory is read each time"


def test_many_pages_at_once_see_the_same(store: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cases_of(store, "toy"), range(8)))
    assert all(one == found[0] for one in found)


def test_records_that_are_written_again_are_read_again(tmp_path: Path) -> None:
    for number, scores in enumerate(([1.0, 0.0], [0.0, 1.0], [1.0, 1.0])):
        other = tmp_path / f"other-{number}"
        make_store(other, {"wards": {"openai/a": scores}})
        if number == 0:
            make_store(tmp_path / "store", {"wards": {"openai/a": scores}})
        (path,) = (tmp_path / "store").glob("runs/wards/*/records.parquet")
        (new,) = other.glob("runs/wards/*/records.parquet")
        new.replace(path)
        cases = open_cases([tmp_path / "store"], "wards")
        found = {one.row.instance_id: one.row.scores["openai/a"] for one in find_cases(cases, CaseSearch()).items}
        assert list(found.values()) == scores


@pytest.mark.parametrize(("benchmark", "file"), [("toy", "records.parquet"), ("notes", "judgments.parquet")])
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_file_that_is_damaged_or_removed_meanwhile_is_named(
    benchmark: str, file: str, is_removed: bool, store: Path
) -> None:
    cases = open_cases([store], benchmark)
    item = find_cases(cases, CaseSearch()).items[0]
    path = next(store.glob(f"runs/{benchmark}/*/{file}"))
    content = path.read_bytes()
    path.unlink()
    if not is_removed:
        path.write_bytes(content[:-9])
    with pytest.raises(StoreError, match=file):
        find_case(cases, item.key)
