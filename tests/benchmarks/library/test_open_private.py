"""Three open-ended benchmarks whose data is not free to have: files of their real layout, written here and read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.errors import DataError
from tests.support.benchmarks.library import benchmark, hook, prompt_text, written

CASE = ("Diagnosis", "ActualProcedure", "HistoryPhysicalNoteText", "OperativeNoteText", "DischargeInstructionNoteText")
TURN = ("context", "gold_counselor_response", "topic", "dialogue_type")


def put_reports(data: Path, findings: Sequence[str], impressions: Sequence[str]) -> None:
    sides = {"test.findings.tok": findings, "test.impression.tok": impressions}
    written("mimic_rrs", ({"file": file, "line": line} for file, lines in sides.items() for line in lines), data)


def opened(data: Path, name: str) -> Dataset:
    return open_dataset(benchmark(name), data=data, tier="real")


def ids(dataset: Dataset) -> list[str]:
    return [instance.id for instance in dataset]


# --- PatientInstruct --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        *(({"QC": check}, True) for check in ("TRUE", " tRuE ")),
        *(({"QC": check}, False) for check in ("False", "", "1")),
        *(({column: "  \n"}, False) for column in CASE),
    ],
)
def test_only_cases_with_all_five_texts_that_passed_the_check_count(
    tmp_path: Path, changes: dict[str, str], counts: bool
) -> None:
    case = {"QC": "TRUE", **dict.fromkeys(CASE, "text")}
    written("patient_instruct", [{**case, **changes}, {**case}], tmp_path)
    dataset = opened(tmp_path, "patient_instruct")
    expected = (["0", "1"], 0) if counts else (["1"], 1)
    assert (ids(dataset), dataset.n_skipped) == expected, "named after its place in the file"


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
    for order in [*permutations([*dialogue("ada", 3), *dialogue("bob", 2)])][::5]:
        found = clusters(order)
        assert len(set(zip(found, (row[1][:3] for row in order), strict=True))) == len(set(found)) == 2
        assert found[0] == "0", "named after the first row of the dialogue"


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


def test_unequal_numbers_of_lines_are_refused_with_both(tmp_path: Path) -> None:
    put_reports(tmp_path, ["a .", "b .", ""], ["a .\r", "b .\r"])  # a blank last line is a line
    with pytest.raises(DataError, match=r"test\.findings\.tok has 3 lines and test\.impression\.tok has 2"):
        opened(tmp_path, "mimic_rrs")
