"""Texts on pages in pieces: the words in which two texts differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

MOST_WORDS = 1_500
"""Words of each text that are compared; the rest is not marked. The time grows faster than their number."""

_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text."""

    text: str
    """The piece."""
    differs: bool
    """True if the other text does not have it there."""


def mark_differences(first: str, second: str) -> tuple[list[Piece], list[Piece], bool]:
    """Split two texts into pieces that are equal and pieces that differ, by words.

    Returns the pieces of both, and whether both were compared as a whole. White space does not count as a difference.

    >>> left, right, whole = mark_differences("take one tablet", "take two tablets")
    >>> [(piece.text, piece.differs) for piece in left]
    [('take ', False), ('one tablet', True)]
    """
    words = [_WORD.findall(text) for text in (first, second)]
    compared = [own[:MOST_WORDS] for own in words]
    first_words, second_words = ([word.strip() for word in own] for own in compared)
    matcher = SequenceMatcher(None, first_words, second_words)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        left.append(Piece("".join(compared[0][start:end]), kind != "equal"))
        right.append(Piece("".join(compared[1][other_start:other_end]), kind != "equal"))
    for pieces, own in ((left, words[0]), (right, words[1])):
        pieces.append(Piece("".join(own[MOST_WORDS:]), False))
    return _filled(left), _filled(right), max(map(len, words)) <= MOST_WORDS


def _filled(pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out empty pieces; a marked piece ends before its white space."""
    return [one for one in chain.from_iterable(map(_trimmed, pieces)) if one.text]


def _trimmed(piece: Piece) -> list[Piece]:
    if not piece.differs:
        return [piece]
    words = piece.text.rstrip()
    return [Piece(words, True), Piece(piece.text[len(words) :], False)]
