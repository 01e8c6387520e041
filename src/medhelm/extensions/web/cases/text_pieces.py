"""Texts on pages in pieces: the words in which two texts differ, hits of a search, and both ends of a long text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, pairwise

from markupsafe import Markup, escape

MOST_WORDS = 1_500
"""Words of each text that are compared; the rest is not marked. The time grows faster than their number."""

_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text."""

    text: str
    """The piece."""
    differs: bool = False
    """True if the other text does not have it there."""
    is_hit: bool = False
    """True if it is what a search looks for."""
    note: str = ""
    """A remark before the piece; empty if there is none."""


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


# --- hits -------------------------------------------------------------------------------------------------------------
# Marks what a search looks for.

MOST_HITS = 50
"""Hits that are listed with the text around them."""

AROUND = 70
"""Characters on each side of such a hit."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A hit of a search with the text around it."""

    before: str
    """Text before the hit."""
    text: str
    """The hit."""
    after: str
    """Text after the hit."""
    at: int
    """Position of its first character, from 1."""


def find_hits(text: str, needle: str, most: int = MOST_HITS) -> tuple[list[Hit], int]:
    """Return the first hits of a text in another one in any case, and the number of all.

    >>> hits, n = find_hits("Aspirin or aspirin", "ASPIRIN", most=1)
    >>> hits[0].text, hits[0].after, n
    ('Aspirin', ' or aspirin', 2)
    """
    if not needle:
        return [], 0
    found: list[Hit] = []
    n = 0
    for n, match in enumerate(_pattern(needle).finditer(text), 1):
        if n <= most:
            start, end = match.span()
            found.append(Hit(text[max(0, start - AROUND) : start], match[0], text[end : end + AROUND], start + 1))
    return found, n


def mark_hits(pieces: Iterable[Piece], needle: str) -> list[Piece]:
    """Split pieces at the hits of a search, which are marked."""
    if not needle:
        return list(pieces)
    pattern = _pattern(needle)
    return [one for piece in pieces for one in _split_at_hits(piece, pattern)]


def _split_at_hits(piece: Piece, pattern: re.Pattern[str]) -> Iterator[Piece]:
    note, end = piece.note, 0
    for match in pattern.finditer(piece.text):
        if match.start() > end:
            yield replace(piece, text=piece.text[end : match.start()], note=note)
            note = ""
        yield replace(piece, text=match[0], is_hit=True, note=note)
        note, end = "", match.end()
    if end < len(piece.text) or note:
        yield replace(piece, text=piece.text[end:], note=note)


def mark_hits_in_html(html: Markup, needle: str) -> Markup:
    """Mark the hits of a search in the texts of HTML that a renderer of this package made.

    >>> mark_hits_in_html(Markup("<p>Amp &amp; co</p>"), "amp")
    Markup('<p><mark class="hit">Amp</mark> &amp; co</p>')
    """
    if not needle:
        return html
    pattern = re.compile(f"<[^>]*>|({re.escape(str(escape(needle)))})|&[#a-zA-Z0-9]+;", re.IGNORECASE)

    def marked(match: re.Match[str]) -> str:
        return f'<mark class="hit">{match[0]}</mark>' if match[1] else match[0]

    return Markup(pattern.sub(marked, html))  # noqa: S704 - the renderer escaped every text


def _pattern(needle: str) -> re.Pattern[str]:
    return re.compile(re.escape(needle), re.IGNORECASE)


# --- long texts -------------------------------------------------------------------------------------------------------
# Shows both ends of a long text.

MOST_OF_START, LEAST_LONG, END = 20_000, 3_000, 900
"""Characters of the start of a long text on a page; characters from which a text is long; characters of its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBox:
    """A text on a page: as a whole, or its start and its end."""

    title: str
    """Name of the text."""
    start: Sequence[Piece]
    """The text, or its start."""
    end: Sequence[Piece]
    """The end of a long text; empty for others."""
    length: int
    """Characters of the whole text."""
    n_between: int
    """Characters between start and end that are not shown."""
    hits: Sequence[Hit]
    """The first hits of a search in the whole text."""
    n_hits: int
    """Number of all hits."""

    @property
    def is_long(self) -> bool:
        """Return True if start and end are shown apart."""
        return bool(self.end)


def make_box(title: str, text: str, *, needle: str = "", notes: Mapping[int, str] | None = None) -> TextBox:
    """Return a text for a page. `notes`: position in the text -> remark to show there."""
    hits, n_hits = find_hits(text, needle)
    is_long = len(text) >= LEAST_LONG
    end_at = _word_start(text, len(text) - END) if is_long else len(text)
    start_at = min(end_at, MOST_OF_START)
    parts = [(0, text[:start_at]), (end_at, text[end_at:])]
    start, end = (mark_hits(_with_notes(part, place, notes or {}), needle) for place, part in parts)
    return TextBox(
        title=title,
        start=start,
        end=end,
        length=len(text),
        n_between=end_at - start_at,
        hits=hits,
        n_hits=n_hits,
    )


def _with_notes(text: str, place: int, notes: Mapping[int, str]) -> list[Piece]:
    """Split a part of a text that begins at `place` where remarks belong."""
    inside = sorted(at - place for at in notes if 0 < at - place < len(text))
    edges = [0, *inside, len(text)]
    return [
        Piece(text[first:last], note=notes[place + first] if first else "")
        for first, last in pairwise(edges)
        if text[first:last]
    ]


def _word_start(text: str, at: int) -> int:
    """Return the first position from `at` where a word starts, if it is near."""
    space = re.compile(r"\s").search(text, at, at + 80)
    return space.end() if space else at
