"""The eight benchmarks whose answer is a choice or a value: their hooks, invented rows and real data in detail."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from medhelm.errors import DataError
from tests.support.benchmarks.library import LIBRARY, hook, prompt_text, real, sample_tier
from tests.support.cases import table

# --- definitions ------------------------------------------------------------------------------------------------------


# --- the sample tier --------------------------------------------------------------------------------------------------


def test_an_option_that_is_missing_is_shown_as_not_applicable() -> None:
    shown = [instance for instance in sample_tier("medbullets") if "Not applicable" in instance.choices]
    assert len(shown) == 1
    assert "\nE. Not applicable\nAnswer:" in prompt_text("medbullets", shown[0])


# --- the invented MedCalc rows are right ------------------------------------------------------------------------------


def decimals(value: float) -> str:
    return f"{round(value, 3):g}" if value == round(value) else f"{round(value, 3)}"


LMP = date(2025, 1, 10)
FORMULAS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "1": ("calcium 7.8 with albumin 2.4", lambda: decimals(7.8 + 0.8 * (4.0 - 2.4))),
    "2": ("sodium 133, chloride 98, bicarbonate 9", lambda: decimals(133 - 98 - 9)),
    "3": ("58 years, AST 72, ALT 54, platelets 118", lambda: decimals(58 * 72 / (118 * math.sqrt(54)))),
    "4": ("92 kg, 174 cm", lambda: decimals(92 / 1.74**2)),
    "5": ("QT 400 at 75 per minute", lambda: decimals(400 / (60 / 75) ** (1 / 3))),
    "6": ("age 2, sex 1, hypertension 1, diabetes 1", lambda: str(2 + 1 + 1 + 1)),
    "7": ("confusion, urea, respiration, age", lambda: str(1 + 1 + 1 + 1)),
    "8": ("most likely 3, heart rate 1.5, surgery 1.5", lambda: decimals(3 + 1.5 + 1.5)),
    "9": ("bilirubin 2, albumin 3, INR 2, ascites 2, encephalopathy 2", lambda: str(2 + 3 + 2 + 2 + 2)),
    "10": ("temperature, heart rate, respiration", lambda: str(1 + 1 + 1)),
    "11": ("280 days after the period", lambda: (LMP + timedelta(days=280)).strftime("%m/%d/%Y")),
    "12": (
        "from 6 January to 16 April 2025",
        lambda: "('{} weeks', '{} days')".format(*divmod((date(2025, 4, 16) - date(2025, 1, 6)).days, 7)),
    ),
    "13": ("32 mg, 5 for 4", lambda: decimals(32 * 5 / 4)),
    "14": ("40 mg a day, factor 1.5", lambda: decimals(4 * 10 * 1.5)),
}


@table("row", FORMULAS)
def test_an_invented_calculation_has_the_answer_of_its_formula(row: str) -> None:
    instance = next(instance for instance in sample_tier("medcalc_bench") if instance.id == row)
    assert instance.expected == FORMULAS[row][1](), FORMULAS[row][0]
    low, high = instance.metadata["Lower Limit"], instance.metadata["Upper Limit"]
    if instance.metadata["Output Type"] == "decimal":
        answer = Fraction(instance.expected)
        assert (Fraction(low), Fraction(high)) == (answer * Fraction(95, 100), answer * Fraction(105, 100))
    else:
        assert low == high == instance.expected


def test_the_invented_calculations_cover_every_category_and_both_shapes_of_dates() -> None:
    instances = sample_tier("medcalc_bench")
    assert {instance.id for instance in instances} == set(FORMULAS)
    categories = Counter(instance.metadata["Category"] for instance in instances)
    assert set(categories) == {"lab", "physical", "risk", "severity", "diagnosis", "date", "dosage"}
    dates = {instance.expected for instance in instances if instance.metadata["Category"] == "date"}
    assert dates == {"10/17/2025", "('14 weeks', '2 days')"}
    assert all(80 <= len(instance.fields["note"].split()) <= 200 for instance in instances)


def test_questions_about_one_note_share_a_cluster() -> None:
    clusters: dict[str, set[str]] = {}
    for instance in sample_tier("medcalc_bench"):
        clusters.setdefault(instance.fields["note"], set()).add(instance.cluster)
    assert len(clusters) == 13
    assert all(len(ids) == 1 for ids in clusters.values())
    assert len(set.union(*clusters.values())) == 13


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


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "sample", "n_total", "n"),
    [
        ("pubmed_qa", "default", 1000, 1000),
        ("pubmed_qa", "official", 1000, 500),
        ("medcalc_bench", "default", 1047, 1000),
        ("medcalc_bench", "all", 1047, 1047),
        ("medbullets", "default", 308, 308),
        ("head_qa", "default", 2675, 1000),
        ("med_qa", "default", 1273, 1000),
        ("med_qa", "published", 1273, 503),
        ("med_mcqa", "default", 4183, 1000),
        ("medhallu", "default", 2000, 1000),
        ("race_bias", "default", 167, 167),
    ],
)
def test_real_data_has_the_published_size(data_dir: Path, name: str, sample: str, n_total: int, n: int) -> None:
    dataset = real(name, sample, data_dir)
    ids = [instance.id for instance in dataset]
    assert (dataset.n_total, dataset.n, len(ids), len(set(ids))) == (n_total, n, n, n)


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


@pytest.mark.parametrize(
    ("name", "label", "score"),
    [("pubmed_qa", "A", 0.552), ("race_bias", "A", 0.503), ("medbullets", "B", 0.240), ("medhallu", "0", 0.5)],
)
def test_a_constant_completion_has_the_known_score(data_dir: Path, name: str, label: str, score: float) -> None:
    dataset = real(name, "all", data_dir)
    assert round(sum(instance.expected == label for instance in dataset) / dataset.n, 3) == score


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


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("pubmed_qa", ["21645374", "16418930", "9488747"]),
        ("medcalc_bench", ["1", "2", "3"]),
        ("medbullets", ["0", "1", "2"]),
        ("head_qa", ["Cuaderno_2016_1_B/1", "Cuaderno_2016_1_B/2", "Cuaderno_2016_1_B/3"]),
        ("med_qa", ["0", "1", "2"]),
        ("med_mcqa", ["45258d3d-b974-44dd-a161-c3fccbdadd88", "b944ada9-d776-4c2a-9180-3ae5f393f72d"]),
        ("medhallu", ["0/true", "0/hallucinated", "1/true"]),
        ("race_bias", ["0", "1", "2"]),
    ],
)
def test_ids_are_those_of_the_data(data_dir: Path, name: str, ids: list[str]) -> None:
    assert [instance.id for instance in islice(real(name, "all", data_dir), len(ids))] == ids


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


def test_both_answers_to_a_medhallu_question_share_a_cluster(data_dir: Path) -> None:
    clusters = Counter(instance.cluster for instance in real("medhallu", "all", data_dir))
    assert set(clusters.values()) == {2}


def test_medhallu_knows_the_kind_of_invented_answers_only(data_dir: Path) -> None:
    kinds = Counter(
        (instance.expected, instance.metadata["hallucination"]) for instance in real("medhallu", "all", data_dir)
    )
    assert kinds["0", ""] == 1000
    assert kinds["1", ""] == 0
    assert kinds["1", "Mechanism and Pathway Misattribution"] == 33
