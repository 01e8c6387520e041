"""What every reader of answers promises for any text, and for the longest."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.confidence import abstains, stated_confidence
from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.answers.text import answer_text, clean_text, normalize_keeping_meaning, strip_wrapping
from medhelm.scoring.sql.extract import apply_conventions, find_query, published_query

DRUGS = (("A", "B", "C", "D"), ("Warfarin", "Aspirin 81 mg", "Vitamin A", "None of the above"))

PIECES = st.sampled_from(
    [
        *(
            "1",
            "23",
            "4.5",
            "2014",
            "-",
            "−",
            "+",
            ",",
            ".",
            "/",
            "=",
            "≈",
            " ",
            "\n",
            ":",
            "(",
            ")",
            "{",
            "}",
            "%",
            "²",
        ),
        *("\\boxed{", "<answer>", "</answer>", '{"answer": ', '"', "**", "```", "> ", "A: ", "<think>", "</think>"),
        *("x10^", "e", "kg/m²", "٣", "to", "or", "minus", "May", "weeks", "d", "İ", "Question:", "answer", "score"),
        *("A", "B", "a", "yes", "no", "and", "not", "The answer is", "option", "is correct", "none of the"),
        *("confidence: ", "cannot be answered", "select ", "with ", "from ", "<sql>", "'", ";", "--", "I10"),
    ]
)
TEXTS = st.text() | st.lists(PIECES, max_size=14).map("".join) | st.lists(PIECES, max_size=14).map(" ".join)


@settings(max_examples=100)
@given(TEXTS)
def test_any_text_gives_an_answer_of_its_kind_or_none(reply: str) -> None:
    assert clean_text(reply) == clean_text(reply).strip()
    assert strip_wrapping(strip_wrapping(reply)) == strip_wrapping(reply)
    assert bool(normalize_keeping_meaning(reply)) == bool(reply.strip())
    assert len(answer_text(reply)) <= len(reply) + 2
    option, number, confidence = find_choice(reply, *DRUGS), read_number(reply), stated_confidence(reply)
    assert option is None or 0 <= option < len(DRUGS[0])
    assert number is None or math.isfinite(number)
    assert confidence is None or 0 <= confidence <= 1
    assert abstains(reply) or not abstains(reply, 0), "to name an option never makes an answer an abstention"
    assert read_date(reply) is None or isinstance(read_date(reply), date)
    assert read_weeks_and_days(reply) is None or len(read_weeks_and_days(reply) or ()) == 2
    assert all(3 <= len(code) <= 7 and read_codes(code) == {code} for code in read_codes(reply))
    query = find_query(reply)
    assert query is None or query == query.strip()
    assert isinstance(apply_conventions(published_query(reply), "2105-12-31 23:59:00"), str)


LENGTH = 40_000
DATES = ["1", "1/", "1 ", "1w", "May ", "answer ", "-", "(", "2014-", "\n"]
UNSURE = ["confidence ", "1", "1.", "sure 1 ", "question is ", "no ", "cannot be ", "\n", "insufficient "]

LONG: dict[str, tuple[Callable[[str], object], str, object, list[str]]] = {
    "option": (
        lambda text: find_choice(text, *DRUGS),
        *("\nThe answer is B", 1),
        ["A", "answer: ", "(", "A or ", "A.\n", " ", "\\boxed{", "<think>", "B is ", "*", "\nQuestion:", "答案"],
    ),
    "number": (
        read_number,
        *("\nThe answer is 4", 4),
        ["1,", "1.", "-", "1 ", "answer: ", "=1", '{"a":', "[", "\\boxed{", "\n", "1/", "x10^", "1e"],
    ),
    "date": (read_date, " answer: 09/23/2014", date(2014, 9, 23), DATES),
    "weeks": (read_weeks_and_days, " answer: 14w2d", (14, 2), DATES),
    "confidence": (stated_confidence, "", None, UNSURE),
    "abstention": (abstains, "", False, UNSURE),
}
"""Reader -> what it reads, an answer at the end, what that says, and what a long text is made of."""


@pytest.mark.parametrize("reader", LONG)
def test_long_texts_are_read(reader: str) -> None:
    """Every pattern is bounded: with quadratic time, a text of this length would be the slowest test by far."""
    read, ending, answer, pieces = LONG[reader]
    for piece in pieces:
        assert read(piece * (LENGTH // len(piece)) + ending) in (None, answer), piece


@pytest.mark.parametrize("piece", ["\\boxed{", "<answer>", '{"a', "{'a':", "** a", "$a", "\n>", "```", '"answer": '])
def test_long_texts_are_cleaned(piece: str) -> None:
    completion = piece * (LENGTH // len(piece))
    for function in (clean_text, answer_text, normalize_keeping_meaning, strip_wrapping):
        assert len(function(completion)) <= LENGTH + 100
