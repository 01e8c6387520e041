"""Which instances are evaluated, and which files they are read from."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState

from medhelm.benchmarks.data.sampling import (
    InstanceSelection,
    SampleOptions,
    addresses,
    check_files,
    data_files,
    read_rows,
    select_instances,
)
from medhelm.domain import Benchmark, SampleRule, Source
from medhelm.errors import DataError, MissingError, UserError
from tests.support.benchmarks.definitions import make_benchmark


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    source = {"location": "https://example.org/{file}"}
    return make_benchmark(tmp_path_factory.mktemp("definitions"), source=source)


def chosen(benchmark: Benchmark, sample: SampleRule, n: int, **changes: Any) -> InstanceSelection:
    """What is selected of n instances, if not other ids are given."""
    ids = {f"id{i}": i for i in range(n)}
    words = {"ids": ids, "folder": Path(), **changes}
    return select_instances(sample, benchmark=benchmark, **words)


def order(selection: InstanceSelection) -> list[int]:
    return list(range(selection.n) if selection.order is None else selection.order)


def test_a_draw_is_the_head_of_a_permutation_in_its_order(benchmark: Benchmark) -> None:
    for n, size, seed in [(2675, 1000, 0), (12, 5, 7), (2, 1, 3)]:
        selection = chosen(benchmark, SampleRule(size=size), n, options=SampleOptions(seed=seed))
        assert order(selection) == RandomState(seed).permutation(n)[:size].tolist()
        assert (selection.n, selection.n_total) == (size, n)


def test_the_draw_behind_published_scores(benchmark: Benchmark) -> None:
    """Numbers written down once, so that another version of numpy cannot change them unseen."""
    assert order(chosen(benchmark, SampleRule(size=5), 10)) == [2, 8, 4, 9, 1]
    assert order(chosen(benchmark, SampleRule(size=6), 1000)) == [993, 859, 298, 553, 672, 971]


def test_of_a_larger_pool_only_available_instances_are_drawn(benchmark: Benchmark) -> None:
    selection = chosen(benchmark, SampleRule(size=1000, pool=2545, offset=1272), 1273)
    drawn = RandomState(0).permutation(2545)[:1000].tolist()
    assert order(selection) == [p - 1272 for p in drawn if p >= 1272]
    whole = chosen(benchmark, SampleRule(size=2545, pool=2545, offset=1272), 1273)
    assert order(whole) == list(range(1273)), "no draw, so the order of the data"


@pytest.mark.parametrize("content", [["id7", "id2", "id2"], {"id7": "yes", "id2": "no"}])
def test_ids_from_a_file_in_the_order_of_the_data(benchmark: Benchmark, tmp_path: Path, content: object) -> None:
    (tmp_path / "ids.json").write_text(json.dumps(content), encoding="utf-8")
    selection = chosen(benchmark, SampleRule(ids_file="ids.json"), 10, folder=tmp_path)
    assert order(selection) == [2, 7]
    assert len(selection.ids_digest) == 64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2", "not JSON"),
        ('["id1", "x1", "x2"]', "names 2 ids that the data lacks: x1, x2"),
        ("[]", "none of the 10 instances"),
    ],
)
def test_a_file_of_ids_that_is_wrong(benchmark: Benchmark, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ids.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(words)):
        chosen(benchmark, SampleRule(ids_file="ids.json"), 10, folder=tmp_path)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_have_bounds(benchmark: Benchmark, seed: int) -> None:
    with pytest.raises(UserError, match="the seed must be between 0 and 4294967295"):
        chosen(benchmark, SampleRule(size=2), 3, options=SampleOptions(seed=seed))


@given(n=st.integers(1, 30), size=st.integers(1, 60), seed=st.integers(0, 99))
def test_the_draws_of_the_parts_of_a_pool_add_up_to_its_draw(
    benchmark: Benchmark, n: int, size: int, seed: int
) -> None:
    """Two data sets side by side, drawn from together: what each part takes is what the whole takes."""
    whole = set(order(chosen(benchmark, SampleRule(size=size), 2 * n, options=SampleOptions(seed=seed))))
    parts: set[int] = set()
    for offset in (0, n):
        try:
            part = order(
                chosen(benchmark, SampleRule(size=size, pool=2 * n, offset=offset), n, options=SampleOptions(seed=seed))
            )
        except DataError:
            continue
        parts |= {p + offset for p in part}
    assert parts == whole


# --- random subsets ---------------------------------------------------------------------------------------------------


def subset(benchmark: Benchmark, names: list[str], size: int, *, seed: int = 0) -> list[str]:
    ids = {name: i for i, name in enumerate(names)}
    found = chosen(benchmark, SampleRule(), len(names), ids=ids, options=SampleOptions(seed=seed, subset=size))
    assert found.n == min(size, len(names))
    return [names[position] for position in order(found)]


def test_a_subset_contains_smaller_ones_in_the_order_of_the_data(benchmark: Benchmark) -> None:
    names = [f"q{i}" for i in range(500)]
    small, large = (subset(benchmark, names, size, seed=7) for size in (100, 200))
    assert set(small) < set(large)
    assert large == sorted(large, key=names.index)
    assert large != names[:200]
    assert 60 < sum(int(name[1:]) < 250 for name in large) < 140
    assert set(large) != set(subset(benchmark, names, 200, seed=8))
    assert subset(benchmark, names, 500) == names


def test_a_subset_depends_on_ids_and_not_on_positions(benchmark: Benchmark) -> None:
    names = [f"q{i}" for i in range(500)]
    more = ["new", *reversed(names)]
    assert len(set(subset(benchmark, names, 200)) - set(subset(benchmark, more, 200))) <= 1


# --- groups -----------------------------------------------------------------------------------------------------------


def of_groups(benchmark: Benchmark, groups: list[int], *, size: int | None, limit: int | None = None) -> list[int]:
    return order(
        chosen(benchmark, SampleRule(size=size), len(groups), groups=groups, options=SampleOptions(limit=limit))
    )


def test_every_group_has_a_draw_of_its_own(benchmark: Benchmark) -> None:
    groups = [0] * 10 + [1] * 12
    drawn = [int(i) for i in RandomState(0).permutation(10)[:5]]
    others = [10 + int(i) for i in RandomState(0).permutation(12)[:5]]
    assert of_groups(benchmark, groups, size=5) == drawn + others


@pytest.mark.parametrize(
    ("size", "limit", "expected"), [(None, 2, [0, 4]), (None, 3, [0, 1, 4]), (None, 5, [0, 1, 2, 4, 5]), (4, 2, [0, 4])]
)
def test_a_limit_takes_evenly_from_the_groups(
    benchmark: Benchmark, size: int | None, limit: int, expected: list[int]
) -> None:
    groups = [0, 0, 0, 0, 1, 1]
    assert of_groups(benchmark, groups, size=size, limit=limit) == expected


# --- files of the data ------------------------------------------------------------------------------------------------


A, B = b"a\n1\n", b"a\n2\n3\n"
SHA_A, SHA_B = (hashlib.sha256(content).hexdigest() for content in (A, B))
SOURCE = Source(
    kind="csv",
    location="https://example.org/{revision}/{file}",
    revision="r7",
    files={"b.csv": SHA_B, "sub/a.csv": ""},
    note="Ask the owner.",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.csv").write_bytes(B)
    (tmp_path / "sub" / "a.csv").write_bytes(A)
    return tmp_path


def test_all_missing_files_are_reported_with_their_address(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        check_files(SOURCE, tmp_path)
    assert str(caught.value).split("\n") == [
        f"{tmp_path} lacks b.csv, sub/a.csv.",
        "  from https://example.org/r7/b.csv",
        "  from https://example.org/r7/sub/a.csv",
        "Ask the owner.",
    ]
    assert caught.value.exit_code == 4


def test_all_wrong_checksums_are_reported_with_both_hashes(folder: Path) -> None:
    wrong = replace(SOURCE, files={"b.csv": SHA_A, "sub/a.csv": SHA_B})
    with pytest.raises(DataError) as caught:
        check_files(wrong, folder)
    lines = str(caught.value).split("\n")
    assert lines[:4] == [
        str(folder / "b.csv"),
        f"  sha256 is     {SHA_B}",
        f"  it should be  {SHA_A}",
        "  get it from   https://example.org/r7/b.csv",
    ]
    assert lines[4] == str(folder / "sub" / "a.csv")
    assert "correct the sha256 under `source.files`" in lines[-1]


@pytest.mark.parametrize("content", [b"", b"a,b\n", b"\n\n"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.csv: has no rows"):
        list(read_rows(Source(kind="csv", files={"x.csv": ""}), tmp_path))


def test_patterns_of_text_files(tmp_path: Path) -> None:
    (tmp_path / "notes" / "c.txt").mkdir(parents=True)
    for name in ("b", "a", "B"):
        (tmp_path / "notes" / f"{name}.txt").write_text(f"note {name}", encoding="utf-8")
    source = Source(kind="text", files={"notes/*.txt": ""})
    assert list(check_files(source, tmp_path)) == ["notes/B.txt", "notes/a.txt", "notes/b.txt"]
    assert [row["name"] for row in read_rows(source, tmp_path)] == ["B", "a", "b"]
    nothing = Source(kind="text", files={"*.md": "", "notes/*.txt": "", "x?.txt": ""})
    with pytest.raises(MissingError, match=r"lacks \*\.md, x\?\.txt\."):
        check_files(nothing, tmp_path)


def test_a_pattern_has_the_checksum_of_its_list(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_bytes(A)
    listed = hashlib.sha256(f"{SHA_A}  a.csv\n{SHA_A}  b.csv\n".encode()).hexdigest()
    source = Source(kind="csv", files={"*.csv": listed})
    assert check_files(source, tmp_path) == {"a.csv": SHA_A, "b.csv": SHA_A}
    (tmp_path / "c.csv").write_bytes(A)
    with pytest.raises(DataError, match=rf"list of 3 files\)\n  sha256 is .*\n  it should be  {listed}"):
        check_files(source, tmp_path)


def test_files_that_only_scoring_needs(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(A)
    source = Source(kind="csv", files={"x.csv": SHA_A}, scoring_files={"base.sqlite": "0" * 64})
    assert check_files(source, tmp_path) == {"x.csv": SHA_A}
    with pytest.raises(MissingError, match=r"lacks base\.sqlite\."):
        check_files(source, tmp_path, scoring=True)
    (tmp_path / "base.sqlite").write_bytes(b"other")
    with pytest.raises(DataError, match=r"it should be  0{64}"):
        check_files(source, tmp_path)


def test_a_compressed_file_replaces_a_missing_file(folder: Path) -> None:
    """Its checksum is that of what it holds, so that data is the same data either way."""
    (folder / "sub" / "a.csv.gz").write_bytes(gzip.compress(b"a\n9\n"))
    assert [row["a"] for row in read_rows(SOURCE, folder)] == ["2", "3", "1"], "the file itself comes first"
    (folder / "b.csv").unlink()
    (folder / "b.csv.gz").write_bytes(gzip.compress(B))
    assert data_files(SOURCE, folder)["b.csv"] == folder / "b.csv.gz"
    assert check_files(SOURCE, folder) == {"b.csv": SHA_B, "sub/a.csv": SHA_A}
    assert [row["a"] for row in read_rows(SOURCE, folder)] == ["2", "3", "1"]
    (folder / "b.csv.gz").write_bytes(gzip.compress(A))
    with pytest.raises(DataError, match=rf"b\.csv\.gz\n  sha256 is     {SHA_A}\n  it should be  {SHA_B}"):
        check_files(SOURCE, folder)
    (folder / "b.csv.gz").write_bytes(gzip.compress(B)[:-9])
    with pytest.raises(DataError, match=r"b\.csv\.gz.*unpack"):
        check_files(SOURCE, folder)


def test_addresses() -> None:
    assert addresses(SOURCE, ["x.csv"]) == ["https://example.org/r7/x.csv"]
    literal = Source(kind="csv", location="https://example.org/{other}/{file}")
    assert addresses(literal, ["x{revision} #1.csv"]) == ["https://example.org/{other}/x%7Brevision%7D%20%231.csv"]
    assert addresses(SOURCE, ["notes/*.txt"]) == ["https://example.org/r7/notes"]
