"""Six open-ended benchmarks whose data is not free to have: files of their real layout, written here and read.

MedDialog belongs to them because nobody serves its files any more.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.errors import DataError, MissingError
from tests.support.benchmarks.library import benchmark, hook, prompt_text

NAMES = ("note_extract", "patient_instruct", "mental_health", "med_dialog", "mimic_rrs", "mimic_bhc")
CASE = ("Diagnosis", "ActualProcedure", "HistoryPhysicalNoteText", "OperativeNoteText", "DischargeInstructionNoteText")
TURN = ("context", "gold_counselor_response", "topic", "dialogue_type")

each = pytest.mark.parametrize("name", NAMES)


def put(data: Path, name: str, file: str, text: str) -> None:
    """Write one file of a benchmark's data."""
    path = data / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def put_csv(data: Path, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    path = data / name / "data.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def put_reports(data: Path, findings: Sequence[str], impressions: Sequence[str]) -> None:
    put(data, "mimic_rrs", "test.findings.tok", "".join(f"{line}\n" for line in findings))
    put(data, "mimic_rrs", "test.impression.tok", "".join(f"{line}\n" for line in impressions))


def put_stays(data: Path, stays: Sequence[Mapping[str, object]]) -> None:
    put(data, "mimic_bhc", "mimic_iv_bhc.json", "".join(json.dumps(stay) + "\n" for stay in stays))


def put_dialogues(data: Path, healthcaremagic: int, icliniq: int) -> None:
    for subset, count in (("healthcaremagic", healthcaremagic), ("icliniq", icliniq)):
        entries = [{"src": f"Patient: {subset} {i}? Doctor: yes.", "tgt": f"about {subset} {i}"} for i in range(count)]
        put(data, "med_dialog", f"{subset}/test.json", json.dumps({"data": entries}))


def opened(data: Path, name: str, sample: str = "default", limit: int | None = None) -> Dataset:
    return open_dataset(benchmark(name), data=data, tier="real", options=SampleOptions(sample=sample, limit=limit))


def drawn(size: int, count: int) -> list[int]:
    """The reference implementation's choice: legacy NumPy generator, seed 0, without replacement."""
    return [int(i) for i in np.random.RandomState(0).choice(count, size, replace=False)]


def ids(dataset: Dataset) -> list[str]:
    return [instance.id for instance in dataset]


def test_gated_data_names_the_place_to_apply_for_it(tmp_path: Path) -> None:
    for name in ("mimic_rrs", "mimic_bhc"):
        with pytest.raises(MissingError, match=r"apply for it at\s+https://physionet.org/content/"):
            opened(tmp_path, name)
    with pytest.raises(
        MissingError, match=r"bundles/0x82f0c47f6d3e4462ae9ef8ea39eebe64/contents/blob/icliniq/test.json"
    ):
        opened(tmp_path, "med_dialog")


# --- NoteExtract ------------------------------------------------------------------------------------------------------


def test_care_plans_without_text_are_left_out(tmp_path: Path) -> None:
    plans = [["Cough for 3 days.", "a"], ["", "b"], [" \n ", "c"], ['Said "it burns".\n\nPain, 7 of 10.', "d"]]
    put_csv(tmp_path, "note_extract", ["MO Note", "Village"], plans)
    dataset = opened(tmp_path, "note_extract")
    assert ids(dataset) == ["0", "3"]
    assert (dataset.n, dataset.n_skipped) == (2, 2)
    for instance in dataset:
        assert prompt_text("note_extract", instance).count(instance.expected) == 1
        assert instance.fields == {"note": instance.expected}
    assert [i.expected for i in dataset][1] == plans[3][0]


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("note_extract", ["Note"], r"`MO Note`(?s:.*)Did you mean `Note`"),
        ("patient_instruct", CASE[:4], "no column QC, DischargeInstructionNoteText"),
        ("mental_health", ["context", "topic"], "no column gold_counselor_response, dialogue_type"),
    ],
)
def test_all_columns_that_are_missing_are_named(
    tmp_path: Path, name: str, columns: Sequence[str], message: str
) -> None:
    put_csv(tmp_path, name, columns, [["x"] * len(columns)])
    with pytest.raises(DataError, match=message):
        opened(tmp_path, name)


# --- PatientInstruct --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        *(({"QC": check}, True) for check in ("TRUE", "true", " tRuE ")),
        *(({"QC": check}, False) for check in ("False", "", "1", "TRUE?", "nan")),
        *(({column: nothing}, False) for column in CASE for nothing in ("", "  \n")),
    ],
)
def test_only_cases_with_all_five_texts_that_passed_the_check_count(
    tmp_path: Path, changes: dict[str, str], counts: bool
) -> None:
    case = {"QC": "TRUE", **dict.fromkeys(CASE, "text")}
    put_csv(tmp_path, "patient_instruct", [*case], [[*{**case, **changes}.values()], [*case.values()]])
    dataset = opened(tmp_path, "patient_instruct")
    expected = (["0", "1"], 0) if counts else (["1"], 1)
    assert (ids(dataset), dataset.n_skipped) == expected, "named after its place in the file"


def test_a_case_shows_four_texts_once_and_keeps_the_instructions_back(tmp_path: Path) -> None:
    texts = ["<diagnosis>", "<procedure>", "<history>\n\n<exam>", "<operation {1}>", "<instructions>"]
    put_csv(tmp_path, "patient_instruct", ["Other", *reversed(CASE), "QC"], [["x", *reversed(texts), "TRUE"]])
    (instance,) = opened(tmp_path, "patient_instruct")
    prompt = prompt_text("patient_instruct", instance)
    assert [prompt.count(text) for text in texts] == [1, 1, 1, 1, 0]
    assert [prompt.index(text) for text in texts[:4]] == sorted(prompt.index(text) for text in texts[:4])
    assert instance.expected == "<instructions>"


# --- MentalHealth -----------------------------------------------------------------------------------------------------


def dialogue(name: str, n_turns: int, opening: str = "Client: Hello.", topic: str = "stress") -> list[list[str]]:
    """The rows that are cut from one dialogue: context, reply, topic, type."""
    rows, said = [], opening
    for number in range(n_turns):
        reply = f"{name} reply {number}"
        rows.append([said, reply, topic, "first session"])
        said += f"\nCounselor: {reply}\nClient: {name} answer {number}"
    return rows


def clusters(rows: Sequence[Sequence[str]]) -> list[str]:
    """The dialogue of each row, as the hook sees it."""
    return [str(row["dialogue"]) for row in hook("mental_health", [dict(zip(TURN, row, strict=True)) for row in rows])]


def test_turns_of_a_dialogue_share_a_cluster_in_any_order() -> None:
    for order in permutations([*dialogue("ada", 3), *dialogue("bob", 2)]):
        found = zip(clusters(order), (row[1][:3] for row in order), strict=True)
        assert len(set(found)) == len(set(clusters(order))) == 2
        assert clusters(order)[0] == "0", "named after the first row of the dialogue"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*dialogue("ada", 3), *dialogue("bob", 3)], ["0", "0", "0", "3", "3", "3"]),  # people begin alike
        ([*dialogue("ada", 2), *dialogue("ada", 2, topic="grief")], ["0", "0", "2", "2"]),
        ([*dialogue("ada", 2), *dialogue("ada", 2, opening="Client: Good evening.")], ["0", "0", "2", "2"]),
        ([*dialogue("ada", 3, opening="")], ["0", "0", "0"]),  # the counsellor speaks first
        ([dialogue("ada", 3)[0], dialogue("ada", 3)[2]], ["0", "0"]),  # a turn between them is missing
        (
            [["Client:  Hello. \n", "How are\nyou?", "t", "d"], ["Client: Hello.\nC: How are you?", "x", "t", "d"]],
            ["0", "0"],
        ),
        ([["Client: Hello.", "How are you?", "t", "d"], ["Client: Hello. How?", "How are you?", "t", "d"]], ["0", "1"]),
    ],
    ids=["openings", "topics", "beginnings", "no opening", "gap", "blanks", "no reply between"],
)
def test_two_turns_of_one_dialogue(rows: list[list[str]], expected: list[str]) -> None:
    assert clusters(rows) == expected


def test_conversations_are_read_with_their_clusters(tmp_path: Path) -> None:
    rows = [*dialogue("ada", 2), *dialogue("bob", 1, topic="grief")]
    put_csv(tmp_path, "mental_health", [*TURN, "extra"], [[*row, "x"] for row in rows])
    instances = list(opened(tmp_path, "mental_health"))
    assert [(i.id, i.cluster, i.expected) for i in instances] == [
        ("0", "0", "ada reply 0"),
        ("1", "0", "ada reply 1"),
        ("2", "2", "bob reply 0"),
    ]
    prompt = prompt_text("mental_health", instances[1])
    assert [prompt.count(text) for text in (rows[1][0], "stress", "first session", "ada reply 1")] == [1, 1, 1, 0]


def test_a_turn_without_reply_is_an_error(tmp_path: Path) -> None:
    put_csv(tmp_path, "mental_health", TURN, [["Client: Hello.", "", "t", "d"]])
    with pytest.raises(DataError, match="the answer `response` is empty"):
        opened(tmp_path, "mental_health")


# --- MedDialog --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_each_website_has_a_draw_of_its_own(tmp_path: Path) -> None:
    put_dialogues(tmp_path, 22_642, 3_108)
    dataset = opened(tmp_path, "med_dialog")
    expected = [f"healthcaremagic/{i}" for i in drawn(1000, 22_642)] + [f"icliniq/{i}" for i in drawn(1000, 3_108)]
    assert (dataset.n_total, dataset.n, dataset.n_skipped) == (25_750, 2_000, 0)
    instances = list(dataset)
    assert [instance.id for instance in instances] == expected
    assert Counter(instance.group for instance in instances) == {"healthcaremagic": 1000, "icliniq": 1000}
    for instance in instances:
        subset, position = instance.id.split("/")
        text = f"Patient: {subset} {position}? Doctor: yes."
        assert instance.expected == f"about {subset} {position}"
        assert prompt_text("med_dialog", instance).count(text) == 1
        assert instance.expected not in prompt_text("med_dialog", instance)
    few = Counter(instance.group for instance in opened(tmp_path, "med_dialog", limit=10))
    assert few == {"healthcaremagic": 5, "icliniq": 5}


def test_incomplete_dialogues_are_refused(tmp_path: Path) -> None:
    put_dialogues(tmp_path, 22_642, 3_107)
    with pytest.raises(DataError, match="must have 25750 instances, has 25749"):
        opened(tmp_path, "med_dialog")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"src": "Patient: why?", "tgt": " "}, "icliniq/test.json, conversation 0: has no text in tgt"),
        ({"tgt": "why"}, "conversation 0: has no text in src"),
        ({"src": None, "tgt": None}, "conversation 0: has no text in src and tgt"),
    ],
)
def test_a_dialogue_without_text_is_named(entry: dict[str, object], message: str) -> None:
    other: dict[str, object] = {"src": "a", "tgt": "b", "file": "healthcaremagic/test.json"}
    rows = [other, {**entry, "file": "icliniq/test.json"}]
    with pytest.raises(DataError, match=message):
        hook("med_dialog", rows)


# --- MIMIC-RRS --------------------------------------------------------------------------------------------------------


def test_findings_and_impressions_are_paired_by_line(tmp_path: Path) -> None:
    findings = ["first findings .", " second findings . ", "", "fourth findings .", "fifth\u2028findings ."]
    put_reports(tmp_path, findings, ["first .", " second .", "third .", "   ", "fifth ."])
    dataset = opened(tmp_path, "mimic_rrs")
    assert [(i.id, i.fields["findings"], i.expected) for i in dataset] == [
        ("1", "first findings .", "first ."),
        ("2", "second findings .", "second ."),
        ("5", "fifth\u2028findings .", "fifth ."),
    ]
    assert dataset.n_skipped == 2
    for instance in dataset:
        prompt = prompt_text("mimic_rrs", instance)
        assert f"Findings:\n{instance.fields['findings']}\n\nImpression:" in prompt
        assert prompt.count(instance.fields["findings"]) == 1


@pytest.mark.parametrize(
    ("findings", "impressions", "n_findings", "n_impressions"),
    [
        ("a .\nb .\nc .\n", "a .\nb .\n", 3, 2),
        ("a .\nb", "a .\nb .\nc .\nd", 2, 4),
        ("a .\nb .\n\n", "a .\r\nb .\r\n", 3, 2),  # a blank last line is a line
    ],
)
def test_unequal_numbers_of_lines_are_refused_with_both(
    tmp_path: Path, findings: str, impressions: str, n_findings: int, n_impressions: int
) -> None:
    put(tmp_path, "mimic_rrs", "test.findings.tok", findings)
    put(tmp_path, "mimic_rrs", "test.impression.tok", impressions)
    message = f"test.findings.tok has {n_findings} lines and test.impression.tok has {n_impressions}"
    with pytest.raises(DataError, match=message):
        opened(tmp_path, "mimic_rrs")


# --- MIMIC-BHC --------------------------------------------------------------------------------------------------------


def test_stays_with_an_empty_side_are_left_out(tmp_path: Path) -> None:
    stays: list[dict[str, object]] = [
        {"input": "<SEX> F <SERVICE> MEDICINE {x}", "target": "She was treated."},
        {"input": "", "target": "t"},
        {"input": "n", "target": " "},
        {"input": "n", "target": None},
        {"note_id": "x", "input": "<SEX> M", "target": "He was treated.", "input_tokens": 3},
    ]
    put_stays(tmp_path, stays)
    dataset = opened(tmp_path, "mimic_bhc")
    assert (ids(dataset), dataset.n_skipped) == (["0", "4"], 3)
    for instance, stay in zip(dataset, (stays[0], stays[4]), strict=True):
        prompt = prompt_text("mimic_bhc", instance)
        assert prompt.count(str(stay["input"])) == 1
        assert str(stay["target"]) not in prompt
