"""Words in which two texts differ."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from medhelm.extensions.web.pages import cases as case
from medhelm.extensions.web.pages.cases import MOST_WORDS, Piece, mark_differences


def marked(pieces: list[Piece]) -> list[str]:
    return [piece.text for piece in pieces if piece.differs]


def whole(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("first", "second", "left", "right"),
    [
        ("take one tablet daily", "take two tablets daily", ["one tablet"], ["two tablets"]),
        ("same", "same", [], []),
        ("a  b\n\nc", "a b c", [], []),
        ("", "all new", [], ["all new"]),
        ("", "", [], []),
        ("  ", "x", [], ["x"]),
        ("5 mg", "50 mg", ["5"], ["50"]),
    ],
)
def test_differing_words_are_marked(first: str, second: str, left: list[str], right: list[str]) -> None:
    pieces, other, is_whole = mark_differences(first, second)
    assert (marked(pieces), marked(other), is_whole) == (left, right, True)
    assert (whole(pieces), whole(other)) == (first, second)


def test_long_texts_are_compared_in_part_and_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def matcher(junk: None, first: list[str], second: list[str]) -> SequenceMatcher[str]:
        compared.extend((len(first), len(second)))
        return SequenceMatcher(junk, first, second)

    monkeypatch.setattr(case, "SequenceMatcher", matcher)
    first, second = "a b " * MOST_WORDS, "c d " * MOST_WORDS
    pieces, other, is_whole = mark_differences(first, second)
    assert not is_whole
    assert (whole(pieces), whole(other)) == (first, second)
    assert compared == [MOST_WORDS, MOST_WORDS]
