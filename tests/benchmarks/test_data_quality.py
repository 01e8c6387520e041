"""What a person should look at: every kind of finding, and none where there is nothing to find."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.data_quality import IDENTIFIERS, inspect_data
from medhelm.domain import ConstantBaseline, Instance, Reference, Taxonomy
from tests.support.benchmarks.judge_prompts import BENCHMARK as CALLS
from tests.support.cases import table

PLACE = Taxonomy(category="clinical_decision_support", subcategory="planning_treatments")
BENCHMARK = replace(CALLS, taxonomy=PLACE, prompt="{note}", metrics=("exact_match",), max_tokens=10, rubric=None)
NOTE = "The patient was given two litres of saline and felt better by the evening."


def instance(id_: str, note: str, answer: str = "stable", choices: tuple[str, ...] = ()) -> Instance:
    references = tuple(Reference(c, c == answer) for c in choices) if choices else (Reference(answer),)
    labels = tuple("ABCDEF"[: len(choices)])
    return Instance(id=id_, fields={"note": note}, references=references, choices=choices, labels=labels)


def found(*instances: Instance, floor: ConstantBaseline | None = None, **windows: int) -> dict[str, tuple[str, ...]]:
    return {f.code: f.instance_ids for f in inspect_data(BENCHMARK, instances, baseline=floor, windows=windows)}


def test_valid_questions_give_no_findings() -> None:
    assert found(instance("1", "One."), instance("2", "Two."), instance("3", "Three.", "no", ("yes", "no"))) == {}


def test_repeated_and_contradictory_questions() -> None:
    same = instance("2", "One."), instance("3", "One.", "worse"), instance("4", "One.")
    assert found(instance("1", "One."), *same) == {"duplicate": ("2", "4"), "conflict": ("3",)}


@pytest.mark.parametrize(
    ("note", "answer", "leaks"),
    [
        (f"Course: {NOTE} End.", NOTE, True),
        (f"Course: {NOTE.upper()} End.".replace(" ", "\n"), NOTE, True),
        ("Course: saline.", NOTE, False),
        ("The answer is stable.", "stable", False),
    ],
)
def test_a_reference_inside_the_prompt(note: str, answer: str, leaks: bool) -> None:
    assert found(instance("1", note, answer)) == ({"leak": ("1",)} if leaks else {})


@table(
    ("text", "kind"),
    [
        ("SSN 219-09-9999", "a social security number"),
        ("call (650) 723-4000", "a telephone number"),
        ("write to a.nurse@hospital.org", "an e-mail address"),
        ("Medical record number 482913", "a medical record number"),
        ("Fax: 650-723-4001", "a fax number"),
        ("Mr. John Smith came", "a name after a title"),
        ("Boston, MA 02115", "an address or ZIP code"),
        ("DOB: 03/04/1950", "a date or an age of 90 or more"),
        ("a 93-year-old woman", "a date or an age of 90 or more"),
        ("account no 99887766", "an account number"),
        ("member ID: XYZ123456", "a health plan number"),
        ("NPI 1234567893", "a license number"),
        ("serial number SN-44021X", "a device serial number"),
        ("see https://portal.hospital.org/p/1", "a web address"),
        ("from 10.1.22.3", "an IP address"),
        ("BP 120-80, pain 5/10, 89-year-old, 3.5.1, account of the fall, member of a choir", None),
        ("call (650) 555-0100 or 202-555-0199", None),
        ("write to nurse@example.org", None),
        ("MRN withheld", None),
    ],
)
def test_personal_identifiers(text: str, kind: str | None) -> None:
    assert [name for name, pattern in IDENTIFIERS.items() if pattern.search(text)] == ([kind] if kind else [])
    assert found(instance("1", text)) == ({"identifier": ("1",)} if kind else {})


@pytest.mark.parametrize(("text", "garbled"), [("38 °C – naïve PÃO", False), ("38 Â°C", True), ("a â€“ b", True)])
def test_characters_of_a_wrong_encoding(text: str, garbled: bool) -> None:
    assert found(instance("1", text)) == ({"mojibake": ("1",)} if garbled else {})


@given(st.text(max_size=300))
def test_any_text_can_be_inspected(text: str) -> None:
    assert set(found(instance("1", text))) <= {"identifier", "empty", "mojibake"}


@pytest.mark.parametrize(("share", "codes"), [(0.9, ["constant"]), (0.89, [])])
def test_an_answer_that_is_nearly_always_the_same(share: float, codes: list[str]) -> None:
    floor = ConstantBaseline(answer="no", share=share, values={"corrected": share, "published": share})
    assert list(found(instance("1", "One."), floor=floor)) == codes


def test_prompts_that_do_not_fit_a_window() -> None:
    instances = [instance("1", "word " * 100), instance("2", "word " * 50)]
    findings = inspect_data(BENCHMARK, instances, baseline=None, windows={"small": 100, "large": 1000})
    assert [f.text for f in findings] == [
        "1 prompts exceed the 100 tokens of small, less 10 for completions; the longest, 1, has about 124"
    ]


def test_a_category_that_the_taxonomy_lacks() -> None:
    own = replace(BENCHMARK, taxonomy=Taxonomy(category="clinical_decision", subcategory="nope"))
    (finding,) = inspect_data(own, [instance("a", "Stable.")], baseline=None, windows={})
    assert finding.code == "own_category"
    assert "Did you mean `clinical_decision_support`?" in finding.text
