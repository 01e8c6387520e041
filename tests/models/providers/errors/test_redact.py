"""Foreign text, made safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.models.providers.errors.redact import SHOWN_CHARACTERS, shown, well_formed


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("fine \N{GRINNING FACE}", "fine \N{GRINNING FACE}"),
        ("\ud83d", "\N{REPLACEMENT CHARACTER}"),
        ("\ude00 late", "\N{REPLACEMENT CHARACTER} late"),
        ("", ""),
    ],
)
def test_half_characters_are_replaced(text: str, result: str) -> None:
    assert well_formed(text) == result


@given(st.text(alphabet=st.characters(), max_size=50))
def test_whatever_comes_can_be_written(text: str) -> None:
    well_formed(text).encode()
    assert shown(text).isprintable()
    assert len(shown(text)) <= SHOWN_CHARACTERS


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("key sk-proj-abcdef123456 is wrong", "key [key] is wrong"),
        ("key sk-abc********wxyz is wrong", "key [key] is wrong"),
        ("key 0123456789 is wrong", "key [key] is wrong"),
        ("hf_abcdefgh and gsk_abcdefgh", "[key] and [key]"),
        ("AIzaInvented0123 or ya29.invented-0123/x", "[key] or [key]"),
        ("Credential=AKIAIOSFODNN7EXAMPLE/2026", "Credential=[key]/2026"),
        ("ABSKinvented0123== and bedrock-api-key-abcdef", "[key] and [key]"),
        ("a task-based risk score", "a task-based risk score"),
        ("ASIA and AKIA are marks", "ASIA and AKIA are marks"),
    ],
)
def test_keys_are_taken_out(text: str, result: str) -> None:
    assert shown(text, secrets=("0123456789",)) == result


def test_a_key_at_the_cut_is_taken_out_before_the_cut() -> None:
    said = shown("x" * (SHOWN_CHARACTERS - 5) + " 0123456789", secrets=("0123456789",))
    assert "0" not in said


@pytest.mark.parametrize("placeholder", ["", "x", "none"])
def test_placeholders_for_keys_do_not_garble_words(placeholder: str) -> None:
    assert shown("expected none", secrets=(placeholder,)) == "expected none"
