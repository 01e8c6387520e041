"""The eight benchmarks whose answer is a choice or a value: their hooks, invented rows and real data in detail."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from medhelm.errors import DataError
from tests.support.benchmarks.library import LIBRARY, hook, real

# --- hooks ------------------------------------------------------------------------------------------------------------


def test_pubmed_qa_writes_each_section_on_a_line_with_its_label() -> None:
    entry = {
        "PMID": "7",
        "QUESTION": "Does it?",
        "LABELS": ["AIM", "PATIENTS AND METHODS"],
        "CONTEXTS": ["To know.", "Ten."],
        "final_decision": "maybe",
    }
    (row,) = hook("pubmed_qa", [entry])
    assert row == {
        "PMID": "7",
        "context": "Aim. To know.\nPatients And Methods. Ten.",
        "question": "Does it?",
        "answer": "maybe",
    }


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("pubmed_qa", {"PMID": "7", "LABELS": ["AIM"], "CONTEXTS": []}, "PMID 7"),
        ("med_qa", {"question": "?", "options": {"A": "a", "B": "b"}}, "question 0"),
        ("medhallu", {"Knowledge": "one text"}, "row 0"),
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


def test_head_qa_requires_the_correct_answer_among_the_options() -> None:
    options = [{"aid": i, "atext": "x"} for i in range(1, 5)]
    item = {"qid": 1, "qtext": "?", "ra": "5", "answers": options, "image": ""}
    with pytest.raises(DataError, match="its right answer '5' is none of the options 1, 2, 3, 4"):
        hook("head_qa", [{"year": "2017", "name": "X", "category": "c", "data": [item]}])


def test_head_qa_leaves_out_other_years_and_questions_with_images() -> None:
    raw = [json.loads(line) for line in (LIBRARY / "head_qa/sample.jsonl").read_text(encoding="utf-8").splitlines()]
    items = [(exam["name"], item["qid"]) for exam in raw for item in exam["data"]]
    kept = {row["id"] for row in hook("head_qa", raw)}
    assert {f"{exam}/{qid}" for exam, qid in items} - kept == {"Invented_2015_M/1", "Invented_2016_M/1"}


@pytest.mark.parametrize(
    ("text", "cleaned"), [('Renin\n"', "Renin"), ("Renin ", "Renin"), ('"""Yes"""', '"""Yes'), ("Renin", "Renin")]
)
def test_med_qa_cleans_the_end_of_options(text: str, cleaned: str) -> None:
    options = {"A": text, "B": "b", "C": "c", "D": "d"}
    (row,) = hook("med_qa", [{"question": "?", "options": options, "answer_idx": "B", "meta_info": "step1"}])
    assert row["option_a"] == cleaned


def paragraphs(*texts: str) -> Iterator[dict[str, object]]:
    """Paragraphs of a document; a leading `!` stands for red."""
    return ({"text": text.removeprefix("!"), "red": "true" if text.startswith("!") else ""} for text in texts)


def test_race_bias_reads_items_from_paragraphs() -> None:
    rows = hook(
        "race_bias",
        paragraphs(
            "Title",
            "!red before the first item",
            " Run 1: Is it so? ",
            "",
            "One.",
            "!Two.",
            "Run 2: Is it so?\nYes.",
            "Run 3:\u00a0 Is it so?",
            "!left out",
            "Run for it.",
            "Run 4: Why?",
            "Because.",
            "",
        ),
    )
    assert [(row["item"], row["topic"], row["response"], row["harmful"]) for row in rows] == [
        ("0", "is it so", "One.\nTwo.", "yes"),
        ("1", "is it so", "", "no"),
        ("2", "why", "Because.", "no"),
    ]
    assert rows[1]["question"] == "Is it so?\nYes."


# --- real data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("pubmed_qa", {"A": 552, "B": 338, "C": 110}),
        ("medbullets", {"A": 61, "B": 74, "C": 53, "D": 67, "E": 53}),
        ("med_qa", {"A": 353, "B": 309, "C": 346, "D": 265}),
        ("med_mcqa", {"A": 1348, "B": 1085, "C": 925, "D": 825}),
        ("medhallu", {"0": 1000, "1": 1000}),
        ("race_bias", {"A": 84, "B": 83}),
    ],
)
def test_real_answers_are_distributed_as_published(data_dir: Path, name: str, labels: dict[str, int]) -> None:
    assert Counter(instance.expected for instance in real(name, "all", data_dir)) == labels


def drawn(size: int, pool: int) -> list[int]:
    """The reference implementation's choice of instances: legacy NumPy generator, seed 0, without replacement."""
    return [int(i) for i in np.random.RandomState(0).choice(pool, size, replace=False)]


@pytest.mark.parametrize("name", ["medcalc_bench", "head_qa", "med_qa", "med_mcqa", "medhallu"])
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


def test_the_official_pubmed_qa_split_has_the_official_answers(data_dir: Path) -> None:
    official = json.loads((data_dir / "pubmed_qa/test_ground_truth.json").read_text(encoding="utf-8"))
    names = {"A": "yes", "B": "no", "C": "maybe"}
    assert {i.id: names[i.expected] for i in real("pubmed_qa", "official", data_dir)} == official


def test_medcalc_clusters_are_the_notes(data_dir: Path) -> None:
    pairs = {(instance.fields["note"], instance.cluster) for instance in real("medcalc_bench", "all", data_dir)}
    assert len(pairs) == len({note for note, _ in pairs}) == len({cluster for _, cluster in pairs}) == 979
