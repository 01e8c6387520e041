"""Expressions that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from medhelm.io.plugins import lazy_regex

TEXT = "Answer: B, then answer: C"


def test_it_does_what_a_compiled_expression_does() -> None:
    ours, theirs = (
        lazy_regex(r"answer:\s(?P<letter>[A-D])", re.IGNORECASE),
        re.compile(r"answer:\s(?P<letter>[A-D])", re.I),
    )
    for _ in range(2):  # the first use compiles, the second does not
        found, expected = ours.search(TEXT), theirs.search(TEXT)
        assert found is not None
        assert expected is not None
        assert found["letter"] == expected["letter"] == "B"
        assert ours.findall(TEXT) == theirs.findall(TEXT) == ["B", "C"]
        assert ours.sub("-", TEXT) == theirs.sub("-", TEXT)
        assert ours.fullmatch(TEXT) is None
    assert (ours.pattern, ours.flags, ours.groups) == (theirs.pattern, theirs.flags, theirs.groups)


def test_a_wrong_expression_shows_at_its_first_use() -> None:
    broken = lazy_regex("(")
    with pytest.raises(re.error):
        broken.search("x")


def test_what_an_expression_does_not_have_is_missing() -> None:
    with pytest.raises(AttributeError):
        lazy_regex("x").serach  # type: ignore[attr-defined]  # noqa: B018
