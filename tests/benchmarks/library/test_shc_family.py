"""The ten private yes/no benchmarks that share one layout: a CSV file with a question, a context and a letter.

Their data cannot be had, so files of that layout are written here and read the way real ones are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.errors import DataError, MissingError
from tests.support.benchmarks.library import SHIPPED, benchmark, written

NAMES = tuple(name for name in SHIPPED if any(alias.startswith("shc_") for alias in benchmark(name).aliases))
THREE_OPTIONS = {"proxy_sender": "cannot be told", "ent_referral": "not mentioned"}
EVERY_ROW_COUNTS = ("clinic_referral", "ent_referral")
DRAWN = ("med_conf_info", "hospice_referral", "cdi_qa", "ent_referral")

each_layout = pytest.mark.parametrize(
    "name", ("adhd_behavior", "proxy_sender", "cdi_qa", "clinic_referral", "ent_referral")
)
"""Two options and three, a draw and none, every row and different ones; the others are read like one of these."""

Row = tuple[str, str, str]
"""Question, context, label."""


def letters(name: str) -> str:
    return "ABC" if name in THREE_OPTIONS else "AB"


def question_column(name: str) -> str:
    return "question" if name == "clinic_referral" else "prompt"


def write(folder: Path, name: str, rows: Sequence[Row], *, column: str = "") -> Path:
    """A file of the real layout, in its place below a data folder; returns the data folder."""
    columns = (column or question_column(name), "context", "label")
    return written(name, (dict(zip(columns, row, strict=True)) for row in rows), folder).parent


def load(name: str, data: Path) -> Dataset:
    return open_dataset(benchmark(name), data=data, tier="real")


def test_ent_referral_leaves_out_rows_without_a_label(tmp_path: Path) -> None:
    rows = [("One?", "Note.", ""), ("Two?", "Note.", "C"), ("Three?", "Note.", " "), ("Four?", "Note.", "a")]
    dataset = load("ent_referral", write(tmp_path, "ent_referral", rows))
    assert [(instance.id, instance.expected) for instance in dataset] == [("1", "C"), ("3", "A")]
    assert (dataset.n, dataset.n_skipped) == (2, 2)


REPEATING: Sequence[Row] = [
    ("One?", "Note.", "A"),
    ("Two?", "Note.", "A"),
    ("One?", "Note.", "B"),
    ("One?", "Note.", " a"),
    ("Two?", "Note.", "A"),
    ("Two?", "Note. ", "A"),
]


@each_layout
def test_a_repeated_row_counts_once_and_a_contradicting_one_is_kept(name: str, tmp_path: Path) -> None:
    dataset = load(name, write(tmp_path, name, REPEATING))
    kept = ["0", "1", "2", "3", "4", "5"] if name in EVERY_ROW_COUNTS else ["0", "1", "2", "5"]
    assert [instance.id for instance in dataset] == kept
    assert dataset.n_skipped == len(REPEATING) - len(kept)


@pytest.mark.parametrize("name", NAMES)
def test_the_columns_and_the_folder_that_are_looked_for(name: str, tmp_path: Path) -> None:
    """The folder may have the name of the reference implementation; without data, it is said whose it is."""
    right = question_column(name)
    wrong = "prompt" if right == "question" else "question"
    with pytest.raises(MissingError) as caught:
        load(name, tmp_path)
    message = " ".join(str(caught.value).split())
    for part in ("Stanford Health Care", "data.csv", f"columns {right} (the question), context", "A yes"):
        assert part in message
    (alias,) = benchmark(name).aliases
    data = write(tmp_path, name, [("Question?", "Note.", "A")])
    (data / name).rename(data / alias)
    assert [instance.expected for instance in load(name, data)] == ["A"]
    data = write(tmp_path, name, [("Question?", "Note.", "A")], column=wrong)
    with pytest.raises(DataError, match=rf"(?s)data\.csv lacks 1 column .*`{right}`.*Columns: {wrong}, context, label"):
        load(name, data)


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN[:-1])
def test_the_published_selection_is_that_of_the_published_program(name: str, tmp_path: Path) -> None:
    """A dictionary from prompt to label, in which the last label wins, and then a draw of 1,000."""
    draws = np.random.default_rng(1)
    rows = [
        (f"Q{question}?", f"Note {note}.", letters(name)[label])
        for question, note, label in draws.integers((0, 0, 0), (9, 150, len(letters(name))), (1900, 3)).tolist()
    ]
    published: dict[object, tuple[str, str, str]] = {}
    for place, row in enumerate(rows):
        published[place if name in EVERY_ROW_COUNTS else row[:2]] = row
    expected = list(published.values())
    assert len(expected) > 1000, "there is a draw"
    expected = [expected[i] for i in np.random.RandomState(0).permutation(len(expected))[:1000]]
    data = write(tmp_path, name, rows, column=question_column(name))
    found = open_dataset(benchmark(name), data=data, tier="real", options=SampleOptions(sample="published"))
    assert [(i.fields["question"], i.fields["context"], i.expected) for i in found] == expected
