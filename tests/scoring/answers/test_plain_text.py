"""Texts that mean the same, and texts that do not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.answers.text import normalize, normalize_keeping_meaning, strip_wrapping
from tests.support.cases import table


@table(
    ("text", "normal"),
    [
        ("The  patient's BMI.", "patients bmi"),
        ("A an THE the", ""),
        ("-6 mg", "6 mg"),
        ("hepatitis A", "hepatitis"),
        ("anthem", "anthem"),
        ("T-cell", "tcell"),
        ("\ta\u00a0b\n", "b"),
        ("“yes”", "“yes”"),
        ("", ""),
    ],
)
def test_normalise(text: str, normal: str) -> None:
    assert normalize(text) == normal


@table(
    ("one", "other"),
    [
        ("The BMI is 22.5.", "bmi is 22.5"),
        ("A fever", "fever"),
        ("an ulcer of the leg", "Ulcer of leg!"),
        ("T-cell", "t cell"),
        ("“Yes”", "yes"),
        ("−6", "-6"),
        ("Straße", "STRASSE"),
        ("1,000 mg", "1,000 MG."),
        ("yes。", "yes"),
        ("🙂 yes", "yes"),
    ],
)
def test_comparable_texts(one: str, other: str) -> None:
    assert normalize_keeping_meaning(one) == normalize_keeping_meaning(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3.5", "35"),
        ("-6", "6"),
        ("hepatitis A", "hepatitis"),
        ("hepatitis A", "hepatitis B"),
        ("vitamin A deficiency", "vitamin deficiency"),
        ("< 5", "> 5"),
        ("HER2+", "HER2"),
        ("50%", "50"),
        ("the", "a"),
    ],
)
def test_texts_that_are_not_comparable(one: str, other: str) -> None:
    assert normalize_keeping_meaning(one) != normalize_keeping_meaning(other)


@table(
    ("text", "bare"),
    [
        (' **"Warfarin."** ', "Warfarin"),
        ("`0`", "0"),
        ("_yes_", "yes"),
        ("«oui».", "oui"),
        ("...", ""),
        ("-6.", "-6"),
        (".5", ".5"),
        ("(yes)", "(yes)"),
        ("", ""),
    ],
)
def test_plain(text: str, bare: str) -> None:
    assert strip_wrapping(text) == bare


@settings(deadline=None)
@given(st.text())
def test_one_pass_decides_everything(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)
    assert strip_wrapping(strip_wrapping(text)) == strip_wrapping(text)


@settings(deadline=None)
@given(st.text())
def test_only_blank_text_becomes_empty(text: str) -> None:
    assert bool(normalize_keeping_meaning(text)) == bool(text.strip())


LENGTH = 200_000


@pytest.mark.parametrize("piece", ["a ", ".", '".', "-1", "\u0301", " ", "1,"])
def test_long_replies_are_read(piece: str) -> None:
    text = piece * (LENGTH // len(piece))
    for function in (normalize, normalize_keeping_meaning, strip_wrapping):
        assert len(function(text)) <= len(text)
