"""MIMIC-IV Billing Code: invented discharge summaries, and files of every shape people may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.readers import read as read_rows
from medhelm.errors import MissingError
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.library import LIBRARY, benchmark, hook, prompt_text, sample_tier

NAME = "mimic_iv_billing_code"


def test_a_file_needs_text_and_codes_only() -> None:
    assert hook(NAME, [{"text": "a", "target": ["I10."]}, {"text": "b", "target": "I10."}]) == [
        {"id": "0", "patient": "", "note": "a", "target": ["I10."]},
        {"id": "1", "patient": "", "note": "b", "target": "I10."},
    ]


def test_a_prepared_file_names_notes_and_patients() -> None:
    entry = {"note_id": "10-DS-2", "subject_id": 10, "_id": 20, "text": "a", "target": ["I10."], "num_targets": 1}
    assert hook(NAME, [entry]) == [{"id": "10-DS-2", "patient": 10, "note": "a", "target": ["I10."]}]


def test_the_invented_summaries_have_the_length_of_short_ones_and_codes_of_every_form() -> None:
    instances = sample_tier(NAME)
    assert len(instances) == 9
    assert all(300 <= len(instance.fields["note"].split()) <= 600 for instance in instances)
    codes = [code for instance in instances for code in instance.expected.split(", ")]
    diagnoses = [code for code in codes if "." in code]
    assert all(re.fullmatch(r"[A-Z]\d[0-9A-Z]\.[0-9A-Z]{0,4}", code) for code in diagnoses)
    assert {"I10.", "Z66.", "F32.A", "Z3A.34", "C7A.012", "M1A.9XX0", "S72.031A", "W00.0XXA"} <= set(diagnoses)
    procedures = [code for code in codes if "." not in code]
    assert all(re.fullmatch(r"[0-9A-HJ-NP-Z]{7}", code) for code in procedures)
    assert len(procedures) == 14


def test_codes_stand_as_in_the_prepared_file_procedures_first_and_each_part_sorted() -> None:
    for row in read_rows(LIBRARY / NAME / "sample.jsonl", "jsonl"):
        target = row["target"]
        assert isinstance(target, list)
        assert target == sorted(target, key=lambda code: ("." in code, code))
        assert len(set(target)) == len(target)


def test_the_codes_are_not_in_the_notes() -> None:
    for instance in sample_tier(NAME):
        prompt = prompt_text(NAME, instance)
        assert prompt.endswith("\n\nPredicted ICD-10 Codes:")
        assert not read_codes(prompt) & read_codes(instance.expected)


def test_a_reply_with_descriptions_is_scored_by_its_codes() -> None:
    fall = sample_tier(NAME)[1]
    reply = "ICD-10-CM:\n- S72.031A: fracture of the right femoral neck\n- I10: hypertension\n- E039\n- N40.1: BPH"
    found = {name: METRICS[name].corrected(reply, fall) for name in benchmark(NAME).metrics}
    assert found == pytest.approx(
        {"icd_precision": 3 / 4, "icd_recall": 3 / 10, "icd_f1": 3 / 7, "icd_micro_f1": 3 / 7}
    )
    assert METRICS["icd_f1"].function("published")(reply, fall) < METRICS["icd_f1"].corrected(reply, fall)


def test_missing_data_is_reported_with_its_location(tmp_path: Path) -> None:
    with pytest.raises(
        MissingError, match=r"physionet\.org/content/mimic-iv-note(.|\n)*medical-coding-reproducibility"
    ):
        open_dataset(benchmark(NAME), data=tmp_path, tier="real")
