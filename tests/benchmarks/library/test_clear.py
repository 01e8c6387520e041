"""CLEAR: workbooks of notes, one for each condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.errors import DataError
from tests.support.benchmarks.library import benchmark, hook, written

CONDITIONS = tuple(name.removesuffix(".xlsx") for name in benchmark("clear").source.files)
OPTIONS = {
    "present": "The patient has a history of chronic pain",
    "absent": "The patient does not have a history of chronic pain",
    "uncertain": "Uncertain",
}


def entry(label: object, text: object = "A note.", condition: str = "chronic_pain") -> dict[str, object]:
    return {"file": f"{condition}.xlsx", "text": text, "result_human": label}


@pytest.mark.parametrize(("label", "right"), [(1, "present"), ("1.0", "present"), (" 2 ", "uncertain")])
def test_a_label_is_one_of_the_three_options(label: object, right: str) -> None:
    (row,) = hook("clear", [entry(label)])
    assert {name: row[name] for name in OPTIONS} == OPTIONS
    assert row["answer"] == OPTIONS[right]


@pytest.mark.parametrize(("label", "text"), [("", "A note."), (float("nan"), "x"), (1, "  "), (1, "nan")])
def test_rows_without_a_note_or_a_label_are_left_out_and_keep_their_number(label: object, text: object) -> None:
    rows = hook("clear", [entry(label, text), entry(1), entry(0, condition="homelessness")])
    assert [row["id"] for row in rows] == ["chronic_pain/2", "homelessness/1"]


def test_all_unknown_labels_are_named_together() -> None:
    labels = [1, 3, "yes", 0, *[9] * 5]
    with pytest.raises(DataError) as caught:
        hook("clear", [entry(label) for label in labels])
    message = str(caught.value)
    assert "chronic_pain.xlsx, row 2 below the header: the label '3'" in message
    assert "chronic_pain.xlsx, row 3 below the header: the label 'yes'" in message
    assert "... and 2 more." in message
    assert "1 is a history of the condition, 0 none and 2 uncertain" in message


def workbooks(folder: Path, sizes: Mapping[str, int]) -> Path:
    """Workbooks with so many notes each, in a data folder."""

    def rows() -> Iterator[dict[str, object]]:
        for condition, size in sizes.items():
            yield from (entry(i % 3, f"Note {i} on {condition}.", condition) for i in range(size))

    return written("clear", rows(), folder).parent


def test_each_condition_has_a_draw_of_its_own(tmp_path: Path) -> None:
    sizes = {condition: {"chronic_pain": 130, "unemployment": 101}.get(condition, 4) for condition in CONDITIONS}
    dataset = open_dataset(benchmark("clear"), data=workbooks(tmp_path, sizes), tier="real")
    ids = [instance.id for instance in dataset]
    assert (dataset.n_total, len(ids)) == (130 + 101 + 11 * 4, 100 + 100 + 11 * 4)
    for condition, size in sizes.items():
        order = np.random.RandomState(0).permutation(size)[:100] if size > 100 else range(size)
        assert [i for i in ids if i.startswith(f"{condition}/")] == [f"{condition}/{place + 1}" for place in order]
