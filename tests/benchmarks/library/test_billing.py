"""MIMIC-IV Billing Code: invented discharge summaries, and files of every shape people may have."""

from __future__ import annotations

from tests.support.benchmarks.library import hook

NAME = "mimic_iv_billing_code"


def test_a_file_needs_text_and_codes_only() -> None:
    assert hook(NAME, [{"text": "a", "target": ["I10."]}, {"text": "b", "target": "I10."}]) == [
        {"id": "0", "patient": "", "note": "a", "target": ["I10."]},
        {"id": "1", "patient": "", "note": "b", "target": "I10."},
    ]


def test_a_prepared_file_names_notes_and_patients() -> None:
    entry = {"note_id": "10-DS-2", "subject_id": 10, "_id": 20, "text": "a", "target": ["I10."], "num_targets": 1}
    assert hook(NAME, [entry]) == [{"id": "10-DS-2", "patient": 10, "note": "a", "target": ["I10."]}]
