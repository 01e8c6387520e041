"""Words in which two texts differ."""

from __future__ import annotations

import pytest

from medhelm.extensions.web.text_pieces import mark_differences


@pytest.mark.parametrize(
    ("first", "second", "left", "right"),
    [
        ("take one tablet daily", "take two tablets daily", ["one tablet"], ["two tablets"]),
        ("a  b\n\nc", "a b c", [], []),
        ("", "all new", [], ["all new"]),
    ],
)
def test_differing_words_are_marked(first: str, second: str, left: list[str], right: list[str]) -> None:
    *both, is_whole = mark_differences(first, second)
    assert is_whole
    for pieces, text, marked in zip(both, (first, second), (left, right), strict=True):
        assert "".join(piece.text for piece in pieces) == text
        assert [piece.text for piece in pieces if piece.differs] == marked
