"""The ten private yes/no benchmarks that share one layout: a CSV file with a question, a context and a letter.

Their data cannot be had, so files of that layout are written here and read the way real ones are.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.errors import DataError, MissingError
from tests.support.benchmarks.library import benchmark, prompt_text
from tests.support.cli import Medhelm, succeeded

NAMES = (
    "adhd_behavior",
    "adhd_medeffects",
    "med_conf_info",
    "proxy_sender",
    "privacy_detection",
    "bmt_status",
    "hospice_referral",
    "clinic_referral",
    "cdi_qa",
    "ent_referral",
)
THREE_OPTIONS = {"proxy_sender": "cannot be told", "ent_referral": "not mentioned"}
EVERY_ROW_COUNTS = ("clinic_referral", "ent_referral")
DRAWN = ("med_conf_info", "hospice_referral", "cdi_qa", "ent_referral")

each = pytest.mark.parametrize("name", NAMES)
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


def write(folder: Path, name: str, rows: Sequence[Row], *, column: str = "", encoding: str = "utf-8") -> Path:
    """A file of the real layout, in its place below a data folder; returns the data folder."""
    path = folder / name / "data.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file)
        writer.writerow([column or question_column(name), "context", "label"])
        writer.writerows(rows)
    return folder


def load(name: str, data: Path, sample: str = "default") -> Dataset:
    return open_dataset(benchmark(name), data=data, tier="real", options=SampleOptions(sample=sample))


# --- files of the real layout -----------------------------------------------------------------------------------------

TRICKY = {
    "quotes": 'Mother says: "He\'s ""fine"", mostly".',
    "line breaks": "HISTORY\nCough, fever\r\n\nPLAN\nRest, fluids\n",
    "places of a template": "{question} {options} {{context}} {",
    "looks like a cue": "A. yes\nB. no\nAnswer: B",
    "looks like a formula or a number": "=SUM(A1:A3)",
    "other scripts": "Größe 1,71 m; température 38,2 °C; 発熱なし; µg",
    "tabs and blanks": "\t pulse 72 ;\t bp 118/70 ",
    "longer than readers of CSV allow by default": "note " * 40_000,
}


@each_layout
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_texts_are_unchanged(name: str, encoding: str, tmp_path: Path) -> None:
    rows = [(f"Is this, or is it not, {kind}?", text, "AB"[i % 2]) for i, (kind, text) in enumerate(TRICKY.items())]
    instances = list(load(name, write(tmp_path, name, rows, encoding=encoding)))
    assert [(i.fields["question"], i.fields["context"], i.expected) for i in instances] == rows
    assert [instance.id for instance in instances] == [str(position) for position in range(len(rows))]
    for instance, (question, context, _) in zip(instances, rows, strict=True):
        prompt = prompt_text(name, instance)
        assert f"Question: {question}\n\nContext: {context}\n\nWrite A for yes" in prompt


@each_layout
def test_labels_in_lower_case_or_with_spaces_are_read(name: str, tmp_path: Path) -> None:
    labels = ["a", " A", "b ", "\tB\n"] + (["c", " C "] if name in THREE_OPTIONS else [])
    rows = [(f"Question {i}?", "Note.", label) for i, label in enumerate(labels)]
    dataset = load(name, write(tmp_path, name, rows))
    assert [instance.expected for instance in dataset] == [label.strip().upper() for label in labels]


@each_layout
def test_every_label_that_is_no_option_is_named_with_its_row(name: str, tmp_path: Path) -> None:
    bad = ["D", "yes", "AB", "1", "A."]
    bad[0] = "D" if name in THREE_OPTIONS else "C"
    rows = [("Question?", f"Note {i}.", label) for i, label in enumerate(["A", *bad, "B"])]
    with pytest.raises(DataError) as caught:
        load(name, write(tmp_path, name, rows))
    lines = str(caught.value).splitlines()
    assert len(lines) == len(bad)
    for position, (label, line) in enumerate(zip(bad, lines, strict=True), start=3):
        assert f"data.csv, line {position}:" in line
        assert f"`{label}`" in line or f'"{label}"' in line
        assert "A `yes`, B `no`" in line


@pytest.mark.parametrize("name", ["adhd_behavior", "proxy_sender", "clinic_referral"])
@pytest.mark.parametrize("label", ["", "  "])
def test_a_row_without_a_label_is_an_error(name: str, label: str, tmp_path: Path) -> None:
    rows = [("One?", "Note.", "A"), ("Two?", "Note.", label), ("Three?", "Note.", "B")]
    with pytest.raises(DataError, match=r"data\.csv, line 3: the answer `label` is empty"):
        load(name, write(tmp_path, name, rows))


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
    assert [i.expected for i in dataset if (i.fields["question"], i.fields["context"]) == ("One?", "Note.")][:2] == [
        "A",
        "B",
    ]


@pytest.mark.parametrize("name", ["adhd_behavior", "ent_referral"])
def test_check_names_contradictions(name: str, tmp_path: Path, medhelm: Medhelm) -> None:
    data = write(tmp_path / "data", name, REPEATING)
    outcome = succeeded(medhelm("benchmarks", "check", name, "--data", data))
    assert "the same prompt as another instance, but another answer: " in outcome.out


@each_layout
def test_the_draw_is_that_of_the_published_scores(name: str, tmp_path: Path) -> None:
    rows = [("Question?", f"Note {i}.", "AB"[i % 2]) for i in range(1100)]
    ids = [instance.id for instance in load(name, write(tmp_path, name, rows))]
    drawn = np.random.RandomState(0).permutation(1100)[:1000] if name in DRAWN else range(1100)
    assert ids == [str(i) for i in drawn]


@each
def test_the_question_is_looked_for_in_one_column(name: str, tmp_path: Path) -> None:
    right = question_column(name)
    wrong = "prompt" if right == "question" else "question"
    data = write(tmp_path, name, [("Question?", "Note.", "A")], column=wrong)
    with pytest.raises(DataError, match=rf"(?s)data\.csv lacks 1 column .*`{right}`.*Columns: {wrong}, context, label"):
        load(name, data)


@each
def test_the_folder_may_have_the_name_of_the_reference_implementation(name: str, tmp_path: Path) -> None:
    (alias,) = benchmark(name).aliases
    path = write(tmp_path, "any", [("Question?", "Note.", "A")], column=question_column(name))
    (path / "any").rename(path / alias)
    assert [instance.expected for instance in load(name, path)] == ["A"]


@each
def test_missing_data_says_whose_it_is_and_how_a_file_of_ones_own_looks(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        load(name, tmp_path)
    message = " ".join(str(caught.value).split())
    for part in (
        "Stanford Health Care",
        "data.csv",
        f"columns {question_column(name)} (the question), context",
        "A yes",
    ):
        assert part in message


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
