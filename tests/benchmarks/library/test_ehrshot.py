"""EHRSHOT: labels and the histories that belong to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pytest

from medhelm.benchmarks.hooks import Hook, load_hook
from medhelm.errors import DataError
from tests.support.benchmarks import library

TASKS = ("guo_readmission", "new_hypertension", "lab_anemia")
START = datetime(2010, 1, 1)

Event = tuple[int, int, str]
"""Patient, day, code."""
Label = tuple[int, int, bool]
"""Patient, day, value."""


@pytest.fixture
def hook() -> Hook:
    return load_hook(library.LIBRARY / "ehrshot/hooks.py")


def day(number: int) -> str:
    return (START + timedelta(days=number)).isoformat()


def written(
    folder: Path, events: Sequence[Event], labels: Mapping[str, Sequence[Label]], splits: Mapping[int, str]
) -> Path:
    """A data folder in the MEDS layout; a task without labels of its own has one of patient 1."""

    def rows() -> Iterator[dict[str, object]]:
        for subject, number, code in events:
            yield {"file": "data/data.parquet", "subject_id": subject, "time": day(number), "code": code}
        for subject, split in splits.items():
            yield {"file": "metadata/subject_splits.parquet", "subject_id": subject, "split": split}
        for task in TASKS:
            for subject, number, value in labels.get(task, [(1, 0, True)]):
                about = {"subject_id": subject, "prediction_time": day(number), "boolean_value": value}
                yield {"file": f"labels/{task}/labels.parquet", **about}

    return library.written("ehrshot", rows(), folder)


class World:
    """Random patients whose records and labels are in no order, and what should be read from them."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        n = 25
        self.events = [
            (int(random.integers(1, n + 1)), int(random.integers(300)), f"CODE/{random.integers(500)}")
            for _ in range(900)
        ]
        self.labels = {
            task: [
                (int(random.integers(1, n + 2)), int(random.integers(300)), bool(random.random() < 0.3))
                for _ in range(size)
            ]
            for task, size in zip(TASKS, (60, 40, 150), strict=True)
        }
        self.splits = {i: ("train", "tuning", "held_out")[i % 3] for i in range(1, n + 1)}

    def history(self, subject: int, until: int) -> str:
        """By brute force: the codes up to a day, by day and then by place."""
        events = [event for event in self.events if event[0] == subject and event[1] <= until]
        return "\n".join(f"- {code}" for _, _, code in sorted(events, key=lambda event: event[1])) or "(no events)"

    def label(self, identity: object) -> Label:
        task, _, row = str(identity).partition("/")
        return self.labels[task][int(row)]


def of_task(rows: Sequence[Mapping[str, object]], task: str) -> list[Mapping[str, object]]:
    return [row for row in rows if row["task"] == task]


@pytest.mark.parametrize(
    ("seed", "at_once"),
    [(0, 100), *(pytest.param(n, at_once, marks=pytest.mark.long) for n in (1, 2) for at_once in (1, 250_000))],
)
def test_every_label_has_its_own_history(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int
) -> None:
    monkeypatch.setitem(hook.__globals__, "EVENTS_AT_ONCE", at_once)
    world = World(seed)
    rows = list(hook(written(tmp_path, world.events, world.labels, world.splits)))
    for row in rows:
        subject, until, value = world.label(row["id"])
        assert row["subject"] == str(subject)
        assert row["history"] == world.history(subject, until)
        assert row["answer"] == ("yes" if value else "no")
    for task in TASKS:
        expected = [
            f"{task}/{i}" for i, label in enumerate(world.labels[task]) if world.splits.get(label[0]) == "held_out"
        ]
        found = [str(row["id"]) for row in of_task(rows, task)]
        assert sorted(found) == sorted(expected)
        assert found == sorted(found, key=lambda identity: (*world.label(identity)[:2], int(identity.split("/")[1])))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_the_published_reading_gives_sorted_histories_to_unsorted_labels(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setitem(hook.__globals__, "MOST_LAB_LABELS", 90)
    world = World(seed)
    rows = list(hook(written(tmp_path, world.events, world.labels, world.splits), variant="published"))
    for task in TASKS:
        labels = list(enumerate(world.labels[task]))
        if task.startswith("lab_"):
            labels = [labels[i] for i in np.random.RandomState(1).choice(len(labels), 90, replace=False)]
        histories = sorted(labels, key=lambda entry: entry[1][:2])
        assert [(row["id"], row["answer"], row["history"]) for row in of_task(rows, task)] == [
            (f"{task}/{i}", "yes" if value else "no", world.history(*other[:2]))
            for (i, (_, _, value)), (_, other) in zip(labels, histories, strict=True)
        ]
        wrong = [row for row in of_task(rows, task) if row["history"] != world.history(*world.label(row["id"])[:2])]
        assert len(wrong) > len(labels) / 2


def test_patients_that_are_not_for_testing_are_left_out(hook: Hook, tmp_path: Path) -> None:
    labels = {task: [(1, 9, True), (2, 9, False), (3, 9, True)] for task in TASKS}
    events = [(subject, 1, "A") for subject in (1, 2, 3)]
    folder = written(tmp_path, events, labels, {1: "train", 2: "test", 3: "val"})
    assert {row["subject"] for row in hook(folder)} == {"2"}
    assert {row["subject"] for row in hook(folder, variant="published")} == {"1", "2", "3"}


LONG = [(1, i, f"CODE/{i:04}") for i in range(2000)]


def test_of_a_long_history_the_oldest_events_are_left_out(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 10 * len("- CODE/0000\n") + 3
    monkeypatch.setitem(hook.__globals__, "INSTRUCTIONS", dict.fromkeys(TASKS, "Predict."))
    monkeypatch.setitem(hook.__globals__, "MOST_CHARACTERS", room + len("Predict."))
    labels = {"guo_readmission": [(1, 1990, True), (2, 1990, True)]}
    folder = written(tmp_path, [*LONG, (2, 0, "B")], labels, {1: "test", 2: "test"})
    long, short = of_task(list(hook(folder)), "guo_readmission")
    first, *kept = str(long["history"]).splitlines()
    assert first == "(the 1981 oldest of 1991 events are left out)"
    assert kept == [f"- CODE/{i}" for i in range(1981, 1991)]
    assert short["history"] == "- B"
    published = of_task(list(hook(folder, variant="published")), "guo_readmission")
    assert [row["subject"] for row in published] == ["2"]


LABELS = "labels/lab_anemia/labels.parquet"


def test_all_problems_of_the_tables_are_reported_at_once(hook: Hook, tmp_path: Path) -> None:
    folder = written(tmp_path, [(1, 0, "A")], {}, {1: "test"})
    duckdb.execute(f"COPY (SELECT '1' AS subject_id) TO '{folder / LABELS}' (FORMAT parquet)")
    (folder / "metadata/subject_splits.parquet").write_text("not a table")
    with pytest.raises(DataError) as caught:
        list(hook(folder))
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0].removeprefix(f"{folder}/") for line in lines] == [
        "metadata/subject_splits.parquet",
        LABELS,
        LABELS,
    ]
