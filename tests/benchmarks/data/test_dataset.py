"""Opening data: where it is found, what is evaluated, what the digest depends on, and how much is remembered."""

from __future__ import annotations

import errno
import io
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.random import RandomState

from medhelm.benchmarks.data import dataset
from medhelm.benchmarks.data.dataset import Dataset, availability, find_data, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.domain import Shard
from medhelm.errors import DataError, MissingError, StoreFullError, UserError
from tests.support.benchmarks.definitions import Make, Put, make_benchmark, write_rows

ROWS = [{"question": f"q{i}", "answer": f"a{i}"} for i in range(12)]
INVENTED = [{"question": f"invented {i}", "answer": "a"} for i in range(3)]


def ids(dataset: Dataset) -> list[str]:
    return [instance.id for instance in dataset]


def few_in_memory(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(dataset, "KEPT", n)


# --- which instances --------------------------------------------------------------------------------------------------


def test_a_dataset_can_be_read_again_and_again(make: Make, put: Put) -> None:
    benchmark = make(require=["question"], source={"expected_count": 12})
    dataset = open_dataset(benchmark, data=put([*ROWS, {"question": "", "answer": "a"}]), tier="real")
    assert ids(dataset) == ids(dataset) == [str(i) for i in range(12)]
    assert (dataset.n, len(dataset), dataset.n_total, dataset.n_skipped) == (12, 12, 12, 1)
    assert (dataset.benchmark, dataset.tier) == (benchmark, "real")
    assert dataset.held == sum(len(row["question"]) for row in ROWS), "little data stays in memory"


def test_the_default_sample_is_a_draw(make: Make, put: Put) -> None:
    data = put(ROWS)
    benchmark = make(sample={"size": 5})
    for seed in (0, 1):
        dataset = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(seed=seed))
        assert ids(dataset) == [str(i) for i in RandomState(seed).permutation(12)[:5]]
        assert (dataset.n, dataset.n_total) == (5, 12)
        limited = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(seed=seed, limit=2))
        assert ids(limited) == ids(dataset)[:2]
    assert open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample="all")).n == 12
    with pytest.raises(UserError, match="has no sample `offical`"):
        open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample="offical"))


@pytest.mark.parametrize("kept", [4, 100], ids=["in a file", "in memory"])
def test_instances_that_are_left_out_move_the_places_of_a_shard(
    make: Make, put: Put, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    few_in_memory(monkeypatch, kept)
    options = SampleOptions(shard=Shard(index=1, count=2))
    dataset = open_dataset(make(), data=put(ROWS), tier="real", options=options)
    evaluated = [instance.id for instance in dataset.to_evaluate()]
    fewer = dataset.without(lambda name: name in ("0", evaluated[0]))
    assert ids(fewer) == [name for name in ids(dataset) if name not in ("0", evaluated[0])]
    assert [ids(fewer)[place] for place in fewer.positions] == [name for name in evaluated[1:] if name != "0"]
    assert fewer.digest == dataset.digest


# --- where the data is ------------------------------------------------------------------------------------------------


def test_the_folder_has_the_name_of_the_benchmark_or_an_alias(make: Make, put: Put) -> None:
    benchmark = make(aliases=["old_name", "older_name"])
    data = put(ROWS, name="older_name")
    assert find_data(benchmark, data) == data / "older_name"
    put(ROWS, name="old_name")
    assert find_data(benchmark, data) == data / "old_name"
    put(ROWS)
    assert find_data(benchmark, data) == data / "tiny"


def test_missing_data_is_reported_with_everything_that_helps(make: Make, tmp_path: Path) -> None:
    benchmark = make(aliases=["old_name"], source={"location": "https://example.org/{file}", "note": "Ask the owner."})
    with pytest.raises(MissingError) as caught:
        open_dataset(benchmark, data=tmp_path, tier="real")
    assert str(caught.value).split("\n") == [
        f"tiny: the data was not found in {tmp_path}.",
        "The folder tiny (or old_name) must hold rows.jsonl.",
        "  from https://example.org/rows.jsonl",
        "Ask the owner.",
        "`medhelm data fetch tiny --data DIR` downloads it.",
        "Set --data DIR or MEDHELM_DATA to the folder that holds one folder per benchmark.",
    ]
    with pytest.raises(MissingError, match="the data was not found, because no data folder is set"):
        open_dataset(benchmark, data=None, tier="real")
    (tmp_path / "file").write_bytes(b"")
    for name, problem in {"file": "which is a file", "none": "which does not exist"}.items():
        with pytest.raises(MissingError, match=f"in {tmp_path / name}, {problem}\\."):
            open_dataset(benchmark, data=tmp_path / name, tier="real")
        assert availability(benchmark, tmp_path / name).reason == f"not in {tmp_path / name}, {problem}"


# --- what is wrong with it --------------------------------------------------------------------------------------------


def test_a_wrong_checksum_is_reported_first(make: Make, put: Put) -> None:
    benchmark = make(source={"files": {"rows.jsonl": "0" * 64}, "expected_count": 99})
    with pytest.raises(DataError, match="it should be  0000"):
        open_dataset(benchmark, data=put(ROWS), tier="real")


def test_rows_that_are_left_out_keep_the_names_of_the_others(make: Make, put: Put) -> None:
    rows = [{"question": "", "answer": "x"}, ROWS[0], ROWS[0], ROWS[1], {**ROWS[1], "answer": "another"}]
    dataset = open_dataset(make(require=["question"], drop_duplicates=True), data=put(rows), tier="real")
    assert ids(dataset) == ["1", "3", "4"], "positions in the source, never after filtering"
    assert dataset.n_skipped == 2


def test_all_problems_are_reported_at_once(make: Make, put: Put) -> None:
    rows: list[dict[str, Any]] = [{"id": "7", **row} for row in ROWS[:4]]
    rows += [{"id": "8", "question": "q", "answer": ""}, {"id": "9", "question": ["q"], "answer": "a"}]
    benchmark = make(id="id", source={"expected_count": 5})
    with pytest.raises(DataError) as caught:
        open_dataset(benchmark, data=put(rows), tier="real")
    lines = str(caught.value).split("\n")
    assert "line 5 (id 8): the answer `answer` is empty" in lines[0]
    assert "line 6 (id 9): `question` is a list" in lines[1]
    assert "3 instances repeat the id of another one: 7, ..." in lines[2]
    assert "must have 5 instances, has 6 (6 rows)" in lines[3]
    assert len(lines) == 4
    with pytest.raises(DataError, match=r"\.\.\. and 7 more invalid rows\.$"):
        open_dataset(make(), data=put([{"question": "q", "answer": ""}] * 12), tier="real")
    with pytest.raises(DataError, match=r"has no instances \(12 of 12 rows are skipped: `note` is empty \(12\)\)"):
        open_dataset(make(require=["note"]), data=put([{**row, "note": ""} for row in ROWS]), tier="real")


# --- the sample tier --------------------------------------------------------------------------------------------------


def test_the_sample_tier_needs_no_data_and_takes_all_rows(make: Make) -> None:
    source = {"files": {"rows.jsonl": "0" * 64}, "expected_count": 99}
    benchmark = make(sample_rows=INVENTED, source=source, sample={"size": 1}, samples={"few": {"size": 2}})
    for sample in ("default", "few", "all"):
        dataset = open_dataset(benchmark, data=None, tier="sample", options=SampleOptions(sample=sample))
        assert [i.fields["question"] for i in dataset] == ["invented 0", "invented 1", "invented 2"]
        assert (dataset.tier, dataset.n, dataset.n_total) == ("sample", 3, 3)
    assert open_dataset(benchmark, data=None, tier="sample", options=SampleOptions(limit=2)).n == 2


def test_without_sample_rows(make: Make) -> None:
    with pytest.raises(MissingError, match=r"lacks sample\.jsonl\.\nThe sample tier reads invented rows from there"):
        open_dataset(make(), data=None, tier="sample")


# --- the digest -------------------------------------------------------------------------------------------------------


def test_the_digest_is_of_data_and_selection(make: Make, put: Put, tmp_path: Path) -> None:
    benchmark = make(sample={"size": 5}, samples={"listed": {"ids_file": "ids.json"}}, sample_rows=INVENTED)
    data = put(ROWS)
    ids_file = data / "tiny" / "ids.json"
    ids_file.write_text('["1"]', encoding="utf-8")

    def digest(**changes: Any) -> str:
        return open_dataset(benchmark, **{"data": data, "tier": "real", **changes}).digest

    same = digest()
    moved = data.rename(tmp_path / "elsewhere")
    assert digest(data=moved) == same, "not of the place"
    moved.rename(data)
    different = [
        same,
        digest(options=SampleOptions(limit=3)),
        digest(options=SampleOptions(seed=1)),
        digest(options=SampleOptions(sample="all")),
        digest(options=SampleOptions(sample="listed")),
        digest(tier="sample"),
        digest(tier="sample", options=SampleOptions(limit=2)),
    ]
    ids_file.write_text('["2"]', encoding="utf-8")
    different.append(digest(options=SampleOptions(sample="listed")))
    write_rows(data / "tiny" / "rows.jsonl", [*ROWS[:-1], {"question": "changed", "answer": "a"}])
    different.append(digest())
    assert len(set(different)) == len(different)


# --- memory and passes ------------------------------------------------------------------------------------------------


def test_threads_may_read_a_draw_together(make: Make, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    few_in_memory(monkeypatch, 4)
    rows = [{"question": f"q{i} " * 3000, "answer": f"a{i}"} for i in range(40)]
    dataset = open_dataset(make(sample={"size": 30}), data=put(rows), tier="real")
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = list(threads.map(lambda _: list(dataset), range(4)))
    assert all(instances == found[0] for instances in found)
    assert [rows.index(dict(instance.fields, answer=instance.expected)) for instance in found[0]] == list(
        RandomState(0).permutation(40)[:30]
    )


def test_data_with_fewer_instances_than_before_is_an_error(
    make: Make, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch, 4)
    data = put(ROWS)
    dataset = open_dataset(make(sample={"size": 11}), data=data, tier="real")
    put(ROWS[:3])
    with pytest.raises(DataError, match="the data now has 3 of its 11 instances"):
        list(dataset)


def test_no_room_for_a_large_draw(make: Make, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    few_in_memory(monkeypatch, 4)
    monkeypatch.setattr("medhelm.benchmarks.data.dataset.temporary_file", Full)
    dataset = open_dataset(make(sample={"size": 11}), data=put(ROWS), tier="real")
    with pytest.raises(StoreFullError, match=r"cannot be written: No space left on device.*TMPDIR"):
        list(dataset)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    n=st.integers(1, 20),
    size=st.none() | st.integers(1, 25),
    kept=st.integers(1, 8),
    limit=st.none() | st.integers(1, 25),
    skipped=st.sets(st.integers(0, 19)),
)
def test_how_much_is_kept_in_memory_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, n: int, size: int | None, kept: int, limit: int | None, skipped: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("memory")
    rows = [{"question": "" if i in skipped else f"q{i % 15}", "answer": "a"} for i in range(n)]
    if not any(row["question"] for row in rows):
        return
    changes: dict[str, Any] = {"require": ["question"], "drop_duplicates": True}
    benchmark = make_benchmark(folder, **changes, sample={"size": size} if size else {})
    write_rows(benchmark.folder / "rows.jsonl", rows)
    whole = open_dataset(benchmark, data=None, tier="real", options=SampleOptions(limit=limit))
    with pytest.MonkeyPatch.context() as monkeypatch:
        few_in_memory(monkeypatch, kept)
        portioned = open_dataset(benchmark, data=None, tier="real", options=SampleOptions(limit=limit))
        assert list(portioned) == list(whole) == list(portioned)
    assert (portioned.n, portioned.n_total, portioned.digest) == (whole.n, whole.n_total, whole.digest)
    assert whole.n == len(list(whole))


@pytest.mark.long
@pytest.mark.parametrize("sample", [{}, {"size": 5_000}], ids=["all", "a draw"])
def test_memory_does_not_grow_with_the_data(tmp_path: Path, sample: dict[str, int]) -> None:
    """18 MB of notes: of 6,000 instances only ids and positions are remembered."""
    benchmark = make_benchmark(tmp_path, source={"kind": "csv", "files": {"x.csv": ""}}, sample=sample)
    with (benchmark.folder / "x.csv").open("w", encoding="utf-8") as file:
        file.write("question,answer\n")
        file.writelines(f"{i} {'x' * 3000},a\n" for i in range(6_000))
    tracemalloc.start()
    try:
        dataset = open_dataset(benchmark, data=None, tier="real")
        opened, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        n = sum(1 for _ in dataset)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n == dataset.n == sample.get("size", 6_000)
    assert opened < 1_000_000
    assert peak < 2_000_000
