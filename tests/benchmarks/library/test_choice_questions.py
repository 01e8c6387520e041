"""Benchmarks whose answer is a choice, a value, a code or a conversation: their hooks, and real data in detail."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.library import LIBRARY, hook, prompt_text, real, sample_tier

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


# --- billing codes ----------------------------------------------------------------------------------------------------


def test_a_file_needs_text_and_codes_only() -> None:
    assert hook("mimic_iv_billing_code", [{"text": "a", "target": ["I10."]}, {"text": "b", "target": "I10."}]) == [
        {"id": "0", "patient": "", "note": "a", "target": ["I10."]},
        {"id": "1", "patient": "", "note": "b", "target": "I10."},
    ]


def test_a_prepared_file_names_notes_and_patients() -> None:
    entry = {"note_id": "10-DS-2", "subject_id": 10, "_id": 20, "text": "a", "target": ["I10."], "num_targets": 1}
    assert hook("mimic_iv_billing_code", [entry]) == [{"id": "10-DS-2", "patient": 10, "note": "a", "target": ["I10."]}]


# --- HealthBench ------------------------------------------------------------------------------------------------------


ROWS = list(map(json.loads, (LIBRARY / "healthbench/sample.jsonl").read_text(encoding="utf-8").splitlines()))


def test_the_canary_is_removed() -> None:
    assert all("canary" in row for row in ROWS)
    assert not any("canary" in repr(instance).lower() for instance in sample_tier("healthbench"))


def test_a_repeated_criterion_is_judged_once_for_the_sum_of_its_points() -> None:
    row = ROWS[0]
    first = row["rubrics"][0]
    (found,) = hook("healthbench", [{**row, "rubrics": [first, row["rubrics"][1], {**first, "points": 2}]}])
    criteria = found["criteria"]
    assert isinstance(criteria, list)
    assert [criterion["points"] for criterion in criteria] == [10, 5]


def test_the_real_conversations(data_dir: Path) -> None:
    dataset = real("healthbench", "default", data_dir)
    instances = list(dataset)
    assert (dataset.n, dataset.n_skipped) == (104, 0)
    assert Counter(instance.metadata["theme"] for instance in instances) == {"context_seeking": 104}
    assert Counter(bool(instance.references) for instance in instances) == {True: 101, False: 3}
    criteria = [criterion for instance in instances for criterion in instance.criteria]
    tags = Counter(tag for criterion in criteria for tag in criterion.tags)
    assert (tags["axis:accuracy"], tags["axis:context_awareness"], tags["theme:context_seeking"]) == (104, 104, 208)
    for instance in instances:
        assert not any(ideal in prompt_text("healthbench", instance) for ideal in instance.correct)


# --- MEDEC ------------------------------------------------------------------------------------------------------------


FLAG, SENTENCE = METRICS["medec_flag_accuracy"], METRICS["medec_sentence_accuracy"]


def test_a_row_with_another_flag_is_named() -> None:
    entry = {"Text ID": "t-9", "Sentences": "0 She coughs.", "Error Flag": "yes"}
    with pytest.raises(DataError, match="t-9: Error Flag must be 0 or 1, not 'yes'"):
        hook("medec", [entry])


@pytest.fixture(scope="module")
def notes(data_dir: Path) -> list[Instance]:
    """All real notes."""
    return list(real("medec", "default", data_dir))


def test_most_real_cases_occur_twice(notes: list[Instance]) -> None:
    sizes = Counter(Counter(note.cluster for note in notes).values())
    assert sizes == {2: 280, 1: 37}


@pytest.mark.parametrize(
    ("reply", "flag", "sentence", "flag_published", "sentence_published"),
    [
        (lambda note: note.expected, 597, 597, 597, 286),
        (lambda note: "error", 311, 0, 311, 0),
        pytest.param(lambda note: "", 0, 0, 311, 0, marks=pytest.mark.long),
        pytest.param(lambda note: "CORRECT", 286, 286, 286, 286, marks=pytest.mark.long),
        pytest.param(
            lambda note: f"<think>CORRECT?</think>\n{note.expected}", 597, 597, 311, 0, marks=pytest.mark.long
        ),
        pytest.param(lambda note: note.fields["note"], 0, 0, 311, 0, marks=pytest.mark.long),
    ],
    ids=["gold", "error", "blank", "correct", "reasoning", "echo"],
)
def test_completions_for_all_real_notes_have_the_known_scores(
    notes: list[Instance],
    reply: Callable[[Instance], str],
    flag: int,
    sentence: int,
    flag_published: int,
    sentence_published: int,
) -> None:
    """Always "error" is the published 0.521; the reference itself gets 286 of 597 sentences by the published rule."""
    rules = (FLAG.corrected, SENTENCE.corrected, FLAG.function("published"), SENTENCE.function("published"))
    found = [sum(rule(reply(note), note) for note in notes) for rule in rules]
    assert found == [flag, sentence, flag_published, sentence_published]


def test_another_sentence_than_the_wrong_one_is_not_right(notes: list[Instance]) -> None:
    for note in notes:
        if note.expected != "CORRECT":
            number, _, text = note.expected.partition(" ")
            reply = f"{int(number) + 1} {text}"
            assert (FLAG.corrected(reply, note), SENTENCE.corrected(reply, note)) == (1, 0)
            assert f"the error is in sentence {number}" in SENTENCE.explain(reply, note, "corrected")
