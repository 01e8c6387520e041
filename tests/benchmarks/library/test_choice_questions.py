"""The eight benchmarks whose answer is a choice or a value: their hooks, and real data in detail."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medhelm.errors import DataError
from tests.support.benchmarks.library import hook, real

# --- hooks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("pubmed_qa", {"PMID": "7", "LABELS": ["AIM"], "CONTEXTS": []}, "PMID 7"),
        ("med_qa", {"question": "?", "options": {"A": "a", "B": "b"}}, "question 0"),
        (
            "head_qa",
            {"year": "2016", "name": "X", "category": "c", "data": [{"qid": 3, "image": "", "answers": [], "ra": "1"}]},
            "question X/3",
        ),
    ],
)
def test_a_row_of_another_shape_is_named(name: str, entry: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        hook(name, [entry])


def test_med_qa_cleans_the_end_of_options() -> None:
    options = {"A": 'Renin\n"', "B": '"""Yes"""', "C": "c", "D": "d"}
    (row,) = hook("med_qa", [{"question": "?", "options": options, "answer_idx": "B", "meta_info": "step1"}])
    assert (row["option_a"], row["option_b"]) == ("Renin", '"""Yes')


# --- real data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("pubmed_qa", {"A": 552, "B": 338, "C": 110}),
        ("medhallu", {"0": 1000, "1": 1000}),
        ("race_bias", {"A": 84, "B": 83}),
    ],
)
def test_real_answers_are_distributed_as_published(data_dir: Path, name: str, labels: dict[str, int]) -> None:
    assert Counter(instance.expected for instance in real(name, "all", data_dir)) == labels


def drawn(size: int, pool: int) -> list[int]:
    """The reference implementation's choice of instances: legacy NumPy generator, seed 0, without replacement."""
    return [int(i) for i in np.random.RandomState(0).choice(pool, size, replace=False)]


LARGER = ("medcalc_bench", "head_qa", "med_qa", "med_mcqa")


@pytest.mark.parametrize("name", ["medhallu", *(pytest.param(name, marks=pytest.mark.long) for name in LARGER)])
def test_the_default_draw_is_that_of_the_published_scores(data_dir: Path, name: str) -> None:
    everything = [instance.id for instance in real(name, "all", data_dir)]
    expected = [everything[i] for i in drawn(1000, len(everything))]
    assert [instance.id for instance in real(name, "default", data_dir)] == expected


def test_the_published_med_qa_draw_keeps_the_test_part_of_dev_and_test(data_dir: Path) -> None:
    n_dev = 1272
    expected = [str(i - n_dev) for i in drawn(1000, n_dev + 1273) if i >= n_dev]
    assert [instance.id for instance in real("med_qa", "published", data_dir)] == expected


def test_race_bias_holds_the_published_table_without_its_repetitions(data_dir: Path) -> None:
    with (data_dir / "race_based_med/race_based.csv").open(encoding="utf-8", newline="") as file:
        table = [(row["Question"], row["Response"], row["True/False"]) for row in csv.DictReader(file)]
    assert len(table) == 171
    instances = list(real("race_bias", "all", data_dir))
    names = {"A": "True", "B": "False"}
    ours = [(item.fields["question"], item.fields["response"], names[item.expected]) for item in instances]
    assert ours == list(dict.fromkeys(table))
    assert [table.index(row) for row in ours] == [int(instance.id) for instance in instances]
    assert len({instance.cluster for instance in instances}) == 11


def test_medcalc_clusters_are_the_notes(data_dir: Path) -> None:
    pairs = {(instance.fields["note"], instance.cluster) for instance in real("medcalc_bench", "all", data_dir)}
    assert len(pairs) == len({note for note, _ in pairs}) == len({cluster for _, cluster in pairs}) == 979
