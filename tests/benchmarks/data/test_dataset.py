"""Opening data: where it is found, what is evaluated, what the digest depends on, and how much is remembered."""

from __future__ import annotations

import errno
import gc
import io
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.random import RandomState

from medhelm.benchmarks.data import dataset, sampling
from medhelm.benchmarks.data.dataset import Dataset, availability, find_data, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.errors import DataError, MissingError, StoreFullError, UserError
from tests.support.benchmarks.definitions import Make, Put, make_benchmark, write_rows

ROWS = [{"question": f"q{i}", "answer": f"a{i}"} for i in range(12)]
INVENTED = [{"question": f"invented {i}", "answer": "a"} for i in range(3)]


def ids(dataset: Dataset) -> list[str]:
    return [instance.id for instance in dataset]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often the data was read since the last call."""
    count = 0
    real = sampling.read_rows

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return real(*args)

    def taken() -> int:
        nonlocal count
        count, before = 0, count
        return before

    monkeypatch.setattr(dataset, "read_rows", counted)
    return taken


def few_in_memory(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(dataset, "KEPT", n)


# --- which instances --------------------------------------------------------------------------------------------------


def test_a_dataset_can_be_read_again_and_again(make: Make, put: Put) -> None:
    benchmark = make(require=["question"], source={"expected_count": 12})
    dataset = open_dataset(benchmark, data=put([*ROWS, {"question": "", "answer": "a"}]), tier="real")
    assert ids(dataset) == ids(dataset) == [str(i) for i in range(12)]
    assert (dataset.n, len(dataset), dataset.n_total, dataset.n_skipped) == (12, 12, 12, 1)
    assert (dataset.benchmark, dataset.tier) == (benchmark, "real")


def test_the_default_sample_is_a_draw(make: Make, put: Put) -> None:
    data = put(ROWS)
    benchmark = make(sample={"size": 5})
    for seed in (0, 1):
        dataset = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(seed=seed))
        assert ids(dataset) == [str(i) for i in RandomState(seed).permutation(12)[:5]]
        assert (dataset.n, dataset.n_total) == (5, 12)
        limited = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(seed=seed, limit=2))
        assert ids(limited) == ids(dataset)[:2]
    assert ids(open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample="all"))) == [
        str(i) for i in range(12)
    ]


def test_further_samples_have_names(make: Make, put: Put) -> None:
    data = put(ROWS)
    (data / "tiny" / "ids.json").write_text('{"9": "yes", "3": "no"}', encoding="utf-8")
    benchmark = make(samples={"official": {"ids_file": "ids.json"}})
    assert ids(open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample="official"))) == ["3", "9"]
    with pytest.raises(UserError, match="has no sample `offical`"):
        open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample="offical"))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ({"limit": 0}, "the limit must be at least 1, is 0"),
        ({"subset": 0}, "the subset must be at least 1, is 0"),
        ({"subset": 2, "limit": 2}, "--subset and --limit cannot be combined: use one of them"),
    ],
)
def test_a_size_that_is_none_is_an_error(make: Make, put: Put, size: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_dataset(make(), data=put(ROWS), tier="real", options=SampleOptions(**size))


# --- where the data is ------------------------------------------------------------------------------------------------


def test_the_folder_has_the_name_of_the_benchmark_or_an_alias(make: Make, put: Put) -> None:
    benchmark = make(aliases=["old_name", "older_name"])
    data = put(ROWS, name="older_name")
    assert find_data(benchmark, data) == data / "older_name"
    put(ROWS, name="old_name")
    assert find_data(benchmark, data) == data / "old_name"
    put(ROWS)
    assert find_data(benchmark, data) == data / "tiny"


def test_data_can_be_next_to_its_definition(make: Make, tmp_path: Path) -> None:
    benchmark = make()
    write_rows(benchmark.folder / "rows.jsonl", ROWS)
    assert open_dataset(benchmark, data=None, tier="real").n == 12
    assert find_data(benchmark, tmp_path) == benchmark.folder


def test_missing_data_is_reported_with_everything_that_helps(make: Make, tmp_path: Path) -> None:
    benchmark = make(
        aliases=["old_name"],
        source={
            "files": {"a.jsonl": "", "b.jsonl": ""},
            "location": "https://example.org/{revision}/{file}",
            "revision": "r7",
            "note": "Apply to the owner.",
        },
    )
    with pytest.raises(MissingError) as caught:
        open_dataset(benchmark, data=tmp_path, tier="real")
    assert str(caught.value).split("\n") == [
        f"tiny: the data was not found in {tmp_path}.",
        "The folder tiny (or old_name) must hold a.jsonl, b.jsonl.",
        "  from https://example.org/r7/a.jsonl",
        "  from https://example.org/r7/b.jsonl",
        "Apply to the owner.",
        "`medhelm data fetch tiny --data DIR` downloads it.",
        "Set --data DIR or MEDHELM_DATA to the folder that holds one folder per benchmark.",
    ]
    with pytest.raises(MissingError) as caught:
        open_dataset(benchmark, data=None, tier="real")
    first, *_, last = str(caught.value).split("\n")
    assert first == (
        "tiny: the data was not found, because no data folder is set. Set --data DIR or MEDHELM_DATA to the folder "
        "that holds one folder per benchmark."
    )
    assert "MEDHELM_DATA" not in last
    (tmp_path / "file").write_bytes(b"")
    for name, problem in {"file": "which is a file", "none": "which does not exist"}.items():
        with pytest.raises(MissingError, match=f"in {tmp_path / name}, {problem}\\."):
            open_dataset(benchmark, data=tmp_path / name, tier="real")
        assert availability(benchmark, tmp_path / name).reason == f"not in {tmp_path / name}, {problem}"


def test_a_file_that_is_not_in_the_folder(make: Make, put: Put) -> None:
    data = put(ROWS, file="other.jsonl")
    with pytest.raises(MissingError, match=r"tiny lacks rows\.jsonl"):
        open_dataset(make(), data=data, tier="real")


# --- what is wrong with it --------------------------------------------------------------------------------------------


def test_a_wrong_checksum_is_reported_first(make: Make, put: Put) -> None:
    benchmark = make(source={"files": {"rows.jsonl": "0" * 64}, "expected_count": 99})
    with pytest.raises(DataError, match="it should be  0000"):
        open_dataset(benchmark, data=put(ROWS), tier="real")


def test_another_number_of_instances(make: Make, put: Put) -> None:
    with pytest.raises(DataError, match="must have 13 instances, has 12"):
        open_dataset(make(source={"expected_count": 13}), data=put(ROWS), tier="real")


# --- the sample tier --------------------------------------------------------------------------------------------------


def test_the_sample_tier_needs_no_data_and_takes_all_rows(make: Make) -> None:
    source = {"files": {"rows.jsonl": "0" * 64}, "expected_count": 99}
    benchmark = make(sample_rows=INVENTED, source=source, sample={"size": 1}, samples={"few": {"size": 2}})
    for sample in ("default", "few", "all"):
        dataset = open_dataset(benchmark, data=None, tier="sample", options=SampleOptions(sample=sample))
        assert [i.fields["question"] for i in dataset] == ["invented 0", "invented 1", "invented 2"]
        assert (dataset.tier, dataset.n, dataset.n_total) == ("sample", 3, 3)
    assert open_dataset(benchmark, data=None, tier="sample", options=SampleOptions(limit=2)).n == 2


def test_sample_rows_go_through_the_hook_and_the_checks(make: Make) -> None:
    hooks = "def rows(rows):\n    for row in rows: yield {**row, 'question': row['q']}\n"
    benchmark = make(hooks=hooks, sample_rows=[{"q": "x", "answer": "a"}])
    assert [i.fields["question"] for i in open_dataset(benchmark, data=None, tier="sample")] == ["x"]
    with pytest.raises(DataError, match=r"sample\.jsonl lacks 1 column that other needs"):
        open_dataset(make(name="other", sample_rows=[{"question": "x"}], answer="solution"), data=None, tier="sample")


def test_sample_rows_of_another_kind_of_source_are_json_lines_too(make: Make) -> None:
    source = {"kind": "docx", "files": {"x.docx": ""}}
    benchmark = make(source=source, prompt="{text}", answer="red", sample_rows=[{"text": "t", "red": "true"}])
    assert open_dataset(benchmark, data=None, tier="sample").n == 1


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
    assert len(same) == 64
    assert digest() == same
    moved = data.rename(tmp_path / "elsewhere")
    assert digest(data=moved) == same, "not of the place"
    moved.rename(data)
    different = [
        same,
        digest(options=SampleOptions(limit=3)),
        digest(options=SampleOptions(limit=5)),
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
    assert digest(tier="sample", options=SampleOptions(seed=1, sample="all")) == digest(tier="sample"), (
        "nothing is drawn there"
    )


# --- memory and passes ------------------------------------------------------------------------------------------------


def test_small_data_is_read_once(make: Make, put: Put, passes: Callable[[], int]) -> None:
    dataset = open_dataset(make(sample={"size": 5}), data=put(ROWS), tier="real")
    assert ids(dataset) == ids(dataset)
    assert passes() == 1


def test_large_data_is_read_again_for_each_pass(
    make: Make, put: Put, passes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch, 11)
    dataset = open_dataset(make(), data=put(ROWS), tier="real")
    assert passes() == 1
    assert ids(dataset) == ids(dataset) == [str(i) for i in range(12)]
    assert passes() == 2


@pytest.mark.parametrize("size", [1, 6, 11])
def test_a_draw_from_large_data_is_picked_once(
    make: Make, put: Put, passes: Callable[[], int], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    few_in_memory(monkeypatch, 4)
    dataset = open_dataset(make(sample={"size": size}), data=put(ROWS), tier="real")
    assert passes() == 1
    assert ids(dataset) == ids(dataset) == [str(i) for i in RandomState(0).permutation(12)[:size]]
    assert passes() == 1
    assert dataset.held == 0


def test_few_instances_with_long_texts_are_large_data_too(
    make: Make, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "KEPT_CHARACTERS", sum(len(row["question"]) for row in ROWS) - 1)
    too_long = open_dataset(make(), data=put(ROWS), tier="real")
    assert too_long.held == 0
    short_enough = open_dataset(make(), data=put(ROWS[:-1]), tier="real")
    assert short_enough.held == sum(len(row["question"]) for row in ROWS[:-1])


def test_threads_may_read_a_draw_together(
    make: Make, put: Put, passes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch, 4)
    rows = [{"question": f"q{i} " * 3000, "answer": f"a{i}"} for i in range(40)]
    dataset = open_dataset(make(sample={"size": 30}), data=put(rows), tier="real")
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = list(threads.map(lambda _: list(dataset), range(4)))
    assert all(instances == found[0] for instances in found)
    assert [rows.index(dict(instance.fields, answer=instance.expected)) for instance in found[0]] == list(
        RandomState(0).permutation(40)[:30]
    )
    assert passes() == 2


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
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


@pytest.mark.parametrize("sample", [{}, {"size": 5}], ids=["all", "a draw"])
@pytest.mark.long
def test_an_abandoned_reader_closes_the_file(
    make: Make, put: Put, monkeypatch: pytest.MonkeyPatch, sample: dict[str, int]
) -> None:
    few_in_memory(monkeypatch, 2)
    iterator = iter(open_dataset(make(sample=sample), data=put(ROWS), tier="real"))
    next(iterator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del iterator
        gc.collect()
    assert [warning for warning in caught if issubclass(warning.category, ResourceWarning)] == []


@pytest.mark.parametrize(("sample", "limit"), [(None, None), (None, 5), ({"size": 5}, None), ({"size": 5}, 3)])
def test_released_instances_are_read_again(
    make: Make, put: Put, sample: dict[str, int] | None, limit: int | None
) -> None:
    dataset = open_dataset(make(sample=sample), data=put(ROWS), tier="real", options=SampleOptions(limit=limit))
    before = list(dataset)
    assert dataset.held == sum(len(text) for instance in before for text in instance.fields.values()) > 0
    dataset.release()
    assert dataset.held == 0
    assert list(dataset) == before


# --- groups, variants, folders ----------------------------------------------------------------------------------------


def test_a_draw_of_every_group(make: Make, put: Put) -> None:
    rows = [{"question": f"q{i}", "answer": "a", "condition": "x" if i < 8 else "y"} for i in range(12)]
    benchmark = make(group="condition", sample={"size": 3})
    dataset = open_dataset(benchmark, data=put(rows), tier="real")
    expected = [*RandomState(0).permutation(8)[:3], *(8 + RandomState(0).permutation(4)[:3])]
    assert ids(dataset) == [str(i) for i in expected]
    assert [instance.group for instance in dataset] == ["x"] * 3 + ["y"] * 3


def test_a_row_without_its_group_is_named(make: Make, put: Put) -> None:
    rows = [{"question": "q", "answer": "a", "condition": " "}]
    with pytest.raises(DataError, match="line 1: the group `condition` is empty"):
        open_dataset(make(group="condition"), data=put(rows), tier="real")


TWO_READINGS = """
def rows(rows, variant=""):
    for number, row in enumerate(rows):
        if variant != "published" or number < 2:
            yield {**row, "question": row["question"] + variant}
"""


def test_a_selection_may_name_another_reading_of_the_data(make: Make, put: Put) -> None:
    samples = {"published": {"variant": "published", "expected_count": 2, "size": 1}}
    benchmark = make(hooks=TWO_READINGS, source={"expected_count": 12}, samples=samples, sample_rows=INVENTED)
    data = put(ROWS)
    assert open_dataset(benchmark, data=data, tier="real").n == 12
    published = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample="published"))
    assert (published.n, published.n_total) == (1, 2)
    assert next(iter(published)).fields["question"].endswith("published")
    invented = open_dataset(benchmark, data=None, tier="sample", options=SampleOptions(sample="published"))
    assert [instance.fields["question"] for instance in invented] == ["invented 0published", "invented 1published"]
    assert invented.digest != open_dataset(benchmark, data=None, tier="sample").digest


FOLDER_HOOK = """
import csv

def rows(folder):
    answers = dict(line.split("=") for line in (folder / "answers.txt").read_text(encoding="utf-8").splitlines())
    with (folder / "sub" / "questions.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {"question": row["question"], "answer": answers[row["key"]]}
"""


def test_sample_rows_of_a_folder_are_written_out_and_read_as_the_real_files_are(make: Make, tmp_path: Path) -> None:
    files = {"sub/questions.csv": "", "answers.txt": ""}
    sample = [
        {"file": "sub/questions.csv", "key": "k", "question": "Is 001 a number?"},
        {"file": "sub/questions.csv", "key": "l", "question": "And 002?"},
        {"file": "answers.txt", "line": "k=yes"},
        {"file": "answers.txt", "line": "l=no"},
    ]
    benchmark = make(source={"kind": "folder", "files": files}, hooks=FOLDER_HOOK, sample_rows=sample)
    first = open_dataset(benchmark, data=None, tier="sample")
    assert [(i.fields["question"], i.expected) for i in first] == [("Is 001 a number?", "yes"), ("And 002?", "no")]
    again = open_dataset(benchmark, data=None, tier="sample")
    assert (first.digest, list(first)) == (again.digest, list(again))
    real = tmp_path / "data" / "tiny"
    (real / "sub").mkdir(parents=True)
    (real / "sub" / "questions.csv").write_text("key,question\nk,Real?\n", encoding="utf-8")
    with pytest.raises(MissingError, match=r"lacks answers\.txt\."):
        open_dataset(benchmark, data=tmp_path / "data", tier="real")
    (real / "answers.txt").write_text("k=no\n", encoding="utf-8")
    (instance,) = open_dataset(benchmark, data=tmp_path / "data", tier="real")
    assert (instance.fields["question"], instance.expected) == ("Real?", "no")


def test_files_for_scoring_are_required_when_completions_are_scored(make: Make, put: Put) -> None:
    benchmark = make(source={"scoring_files": {"base.sqlite": ""}})
    data = put(ROWS)
    assert open_dataset(benchmark, data=data, tier="real").n == 12
    with pytest.raises(MissingError, match=r"base\.sqlite"):
        open_dataset(benchmark, data=data, tier="real", scoring=True)
