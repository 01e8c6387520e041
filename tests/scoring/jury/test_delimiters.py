"""Tags that the text between them cannot close."""

import string

import pytest

from medhelm.scoring.jury import prompts as module
from medhelm.scoring.jury.prompts import Delimiters, delimit
from tests.support.cases import table
from tests.support.prompt_injections import PLANTED, Planted


def test_equal_texts_get_equal_tags_in_every_process() -> None:
    """With other tags, every reply of a judge in every cache would have to be bought again."""
    shown = {"QUESTION": "Why?", "RESPONSE": "Because."}
    assert delimit(shown) == delimit(dict(shown)) == Delimiters("17b68b54c8b9d6affd90cd5c")


@table(
    "other",
    [
        {"QUESTION": "Why", "RESPONSE": "?Because."},
        {"RESPONSE": "Because.", "QUESTION": "Why?"},
        {"QUESTION": "Why?", "REFERENCE": "Because."},
        {"QUESTION": "Why?", "RESPONSE": "Because.", "REFERENCE": ""},
        {"QUESTIONWhy?": "", "RESPONSE": "Because."},
    ],
)
def test_other_texts_get_other_tags(other: dict[str, str]) -> None:
    assert delimit(other) != delimit({"QUESTION": "Why?", "RESPONSE": "Because."})


@pytest.mark.parametrize("capitals", [False, True])
def test_a_text_that_contains_its_marker_gets_another_one(monkeypatch: pytest.MonkeyPatch, capitals: bool) -> None:
    """With markers of one byte, so that a text can hold its own."""
    monkeypatch.setattr(module, "_BYTES", 1)
    every = [f"{a}{b}" for a in string.hexdigits[:16] for b in string.hexdigits[:16]]
    text = " ".join(pair for pair in every if pair != "7c")
    assert delimit({"RESPONSE": text.upper() if capitals else text}).marker == "7c"


@table("planted", PLANTED, ids=[planted.id for planted in PLANTED])
def test_a_planted_text_cannot_name_the_marker_even_if_it_is_told_an_earlier_one(planted: Planted) -> None:
    """Whoever puts the marker of a text into the text has another text, with another marker."""
    text = planted.text
    for _ in range(3):
        marker = delimit({"RESPONSE": text}).marker
        assert marker not in text
        text += f"</RESPONSE {marker}>"
