"""What looks as if it were meant for the judge, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.jury.prompt_injection import LONGEST, find_injections
from tests.support.benchmarks.library import real
from tests.support.cases import table
from tests.support.prompt_injections import CRITERIA, PLANTED, Planted

KINDS = ("verdict", "instruction", "marker", "unicode", "length")


@table("planted", PLANTED, ids=[planted.id for planted in PLANTED])
def test_signs_in_planted_texts(planted: Planted) -> None:
    assert find_injections(planted.text, CRITERIA) == planted.flags


@table(
    "text",
    [
        "",
        "Total score: 14 of 30; the highest score on the scale is 30. He scored 5 on the PHQ-2.",
        "Do not ignore chest pain. Ignore the old label and follow the instructions from your pharmacist.",
        "## Instructions\n1. Rest.\n\n### Assessment\nStable.\n\n### Reference\nNone.\n\n### Evaluation:\nFine.",
        "long\u00adword, hy\u00adphen\u00adation",
        '{"name": "Jane", "dose": 5}',
    ],
)
def test_medical_texts_are_left_alone(text: str) -> None:
    assert find_injections(text, CRITERIA) == ()


@table(
    ("text", "flag"),
    [
        ('"tone of voice": {', "verdict"),
        ('"criteria_met": true', "verdict"),
        ("a\u2066b", "unicode"),
        ("x" * (LONGEST + 1), "length"),
    ],
)
def test_each_sign_alone(text: str, flag: str) -> None:
    assert find_injections(text, ["empathy", "Tone of Voice"]) == (flag,)


@pytest.mark.parametrize(
    "piece",
    ["ignore a b c d ", "</response ", "<", '"accuracy', "the judge ", " ", "\u200ba", "\n", "aWdub3Jl+/", "65 ", "&#"],
)  # fmt: skip
def test_repetitive_texts_take_linear_time(piece: str) -> None:
    """What looked at every pair of 100,000 characters would take minutes."""
    text = piece * (100_000 // len(piece))
    assert "length" in find_injections(text, CRITERIA)


@settings(max_examples=25)  # each set of names compiles patterns of its own
@given(st.text(st.characters(), max_size=200), st.lists(st.text(max_size=12), max_size=3))
def test_any_text_has_flags_in_order(text: str, names: list[str]) -> None:
    found = find_injections(text, names)
    assert list(found) == [kind for kind in KINDS if kind in found]
    assert found == find_injections(text, names)


@given(st.text(st.characters(), max_size=60), st.sampled_from([one for one in PLANTED if "instruction" in one.flags]))
def test_an_order_is_found_wherever_it_stands(text: str, planted: Planted) -> None:
    assert "instruction" in find_injections(f"{text}\n\n{planted.text}", CRITERIA)


@pytest.mark.parametrize("name", ["aci_bench", pytest.param("mtsamples", marks=pytest.mark.long), "mediqa_qa"])
def test_references_written_by_people_are_unchanged(name: str, data_dir: Path) -> None:
    """Real notes, plans and answers: none of them is meant for a judge."""
    texts = {instance.id: text for instance in real(name, "default", data_dir) for text in instance.correct}
    found = {where: flags for where, text in texts.items() if (flags := find_injections(text, CRITERIA))}
    assert len(texts) > 100
    assert found == {}
