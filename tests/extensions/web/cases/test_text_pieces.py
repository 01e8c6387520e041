"""Texts in pieces: words that differ, hits of a search, both ends of a long text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extensions.web.cases.view import (
    END,
    LEAST_LONG,
    MOST_OF_PART,
    SECTIONS,
    Piece,
    find_hits,
    make_box,
    mark_differences,
    mark_hits,
    mark_hits_in_html,
)
from medhelm.results.formats.markdown import rendered
from tests.support.html import HtmlPage


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


NEEDLE = st.sampled_from(["a", "A", "ab", "<b>", "&", "amp", ".*", "\n"])
TEXT = st.text(alphabet="abA<>&;.* \n", max_size=60)


@given(TEXT, NEEDLE)
def test_hits_are_marked_and_nothing_else_changes(text: str, needle: str) -> None:
    expected = [text[at.start() : at.end()] for at in re.finditer(re.escape(needle), text, re.IGNORECASE)]
    pieces = mark_hits([Piece(text[:7]), Piece(text[7:], differs=True)], needle)
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.text.lower() == needle.lower() for piece in pieces if piece.is_hit)
    hits, n = find_hits(text, needle, most=3)
    assert n == len(expected)
    assert [hit.text for hit in hits] == expected[:3]
    assert all(text[hit.at - 1 :].startswith(hit.text) for hit in hits)


@given(TEXT, NEEDLE)
def test_hits_in_html_change_no_text_and_open_no_element(text: str, needle: str) -> None:
    plain, marked = (HtmlPage(str(html)) for html in (rendered(text), mark_hits_in_html(rendered(text), needle)))
    assert marked.text == plain.text
    assert [tag for tag in marked.tags() if tag != "mark"] == plain.tags()


@pytest.mark.parametrize("length", [0, LEAST_LONG - 1, LEAST_LONG, 10_000, 1_000_000])
def test_a_box_shows_both_ends_of_a_long_text(length: int) -> None:
    text = ("word " * (length // 5 + 1))[:length]
    box = make_box("Note", text, needle="WORD", notes={10: "cut", length + 5: "elsewhere"})
    start, end = ("".join(piece.text for piece in part) for part in (box.part, box.end))
    assert (text[: len(start)], text[len(text) - len(end) :]) == (start, end)
    assert len(start) + box.n_between + len(end) == box.length == length
    assert box.is_long is (length >= LEAST_LONG)
    assert len(start) <= MOST_OF_PART or not box.is_long
    assert len(end) <= END
    assert box.n_hits == text.count("word")
    assert [piece.note for piece in [*box.part, *box.end] if piece.note] == (["cut"] if length > 10 else [])
    assert bool(box.ruler) is (box.n_between > 0)


@pytest.mark.parametrize("at", [0, 1, 71, 19_000, 50_000, 98_000, 99_999, 10**9])
def test_a_ruler_covers_the_whole_text_and_its_places_are_shown_where_it_leads_to(at: int) -> None:
    words = [f"word{n:05}" for n in range(10_000)]
    text = " ".join(words)
    box = make_box("Note", text, needle="word05000", notes={60_000: "cut"}, at=at)
    part, end = ("".join(piece.text for piece in own) for own in (box.part, box.end))
    assert box.n_before + len(part) + box.n_between + len(end) == box.length == len(text)
    assert text[box.n_before :].startswith(part)
    assert part.split()[0] in words, "a part starts with a word"
    assert box.n_before <= at <= box.n_before + 200 or at >= len(text) - 2 * END
    assert [one.first for one in box.ruler[1:]] == [one.last + 1 for one in box.ruler[:-1]]
    assert (len(box.ruler), box.ruler[0].first, box.ruler[-1].last) == (SECTIONS, 1, len(text))
    (hit,) = [one for one in box.ruler if one.n_hits]
    assert hit.first <= text.index("word05000") + 1 <= hit.last
    (cut,) = [one for one in box.ruler if one.notes]
    assert cut.first <= 60_001 <= cut.last
    assert box.ruler[-1].is_shown, "the end is always shown"
    assert [one.is_shown for one in box.ruler if one.first <= box.n_before + 1 <= one.last] == [True]
