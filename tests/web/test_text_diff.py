"""Words in which two texts differ."""

from __future__ import annotations

from time import process_time

import pytest

from medhelm.web.text_diff import MOST_WORDS, Piece, mark_differences


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


def test_long_texts_are_compared_in_part_and_stay_whole() -> None:
    first, second = "a b " * MOST_WORDS, "c d " * MOST_WORDS
    pieces, other, is_whole = mark_differences(first, second)
    assert not is_whole
    assert (whole(pieces), whole(other)) == (first, second)


def test_texts_that_are_hard_to_compare_take_no_long_time() -> None:
    words = [f"w{n % 99}" for n in range(5 * MOST_WORDS)]
    shuffled = [f"w{n * 37 % 99 if n % 3 else n % 98}" for n in range(5 * MOST_WORDS)]
    started = process_time()
    mark_differences(" ".join(words), " ".join(shuffled))
    assert process_time() - started < 5
