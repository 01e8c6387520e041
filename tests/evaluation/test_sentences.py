"""Where a text can be cut."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.evaluation.context import sentence_starts, word_starts


def sentences(text: str) -> list[str]:
    """The pieces between the starts."""
    starts = [0, *sentence_starts(text), len(text)]
    return [text[a:b] for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("One. Two.", ["One. ", "Two."]),
        ("One! Two? Three.", ["One! ", "Two? ", "Three."]),
        ('He said "no." Then he left.', ['He said "no." ', "Then he left."]),
        ("(Seen before.) Now well.", ["(Seen before.) ", "Now well."]),
        # Not every full stop ends a sentence.
        ("Seen by Dr. Low and Mrs. Pine.", ["Seen by Dr. Low and Mrs. Pine."]),
        ("J. R. Low saw the pt. Alone.", ["J. R. Low saw the pt. Alone."]),
        ("Took approx. 5 mg, i.e. half. Then slept.", ["Took approx. 5 mg, i.e. half. ", "Then slept."]),
        ("Na 3.5 mmol/l. K 4.1.", ["Na 3.5 mmol/l. ", "K 4.1."]),
        ("ended. in small letters", ["ended. in small letters"]),
        # Lines of a note, a list, a conversation.
        ("BP 120/80\n- no fever\n\n1. Aspirin", ["BP 120/80\n", "- no fever\n\n", "1. Aspirin"]),
        ("[doctor] hi , brian .\n[patient] hello .", ["[doctor] hi , brian .\n", "[patient] hello ."]),
        ("all well . and you ?", ["all well . ", "and you ?"]),
        ("a line\r\n  another", ["a line\r\n  ", "another"]),
        ("All well.\r\nHome.\r\n\r\nPLAN:\r\n* rest", ["All well.\r\n", "Home.\r\n\r\n", "PLAN:\r\n", "* rest"]),
        ("\u2022 rest\n\u2022 water", ["\u2022 rest\n", "\u2022 water"]),
        # Numbers of a list within a line, and numbers that end a sentence.
        ("PLAN: 1. Rest. 2. Water.", ["PLAN: 1. Rest. ", "2. Water."]),
        ("DIAGNOSES:1. Chylous ascites.2. Pain.", ["DIAGNOSES:1. Chylous ascites.2. Pain."]),
        ("Pulse 68. Respirations 12. Weight 70 kg.", ["Pulse 68. ", "Respirations 12. ", "Weight 70 kg."]),
        # Notes that lost their line ends.
        ("Intact.MOTOR EXAM: Normal.GAIT: Steady.", ["Intact.", "MOTOR EXAM: Normal.", "GAIT: Steady."]),
        ("Fell ill in the U.S. The food was bad.", ["Fell ill in the U.S. The food was bad."]),
        ("AST 30 (n.v. < 40). Well.", ["AST 30 (n.v. < 40). ", "Well."]),
        ("She eats until 7 p.m. Then she sleeps.", ["She eats until 7 p.m. ", "Then she sleeps."]),
    ],
)
def test_sentences_are_told_apart(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aB1.!? \n\"')", max_size=60))
def test_starts_lie_within_the_text_and_begin_something(text: str) -> None:
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert all(0 < start < len(text) and not text[start].isspace() for start in starts)
    assert "".join(sentences(text)) == text


@given(st.text(max_size=200))
def test_words_begin_after_white_space(text: str) -> None:
    assert [text[start:] for start in word_starts(text)] == [
        text[match.end() - 1 :] for match in re.finditer(r"(?<=\s)\S", text)
    ]


def test_a_long_text_takes_no_time_that_grows_with_its_square() -> None:
    text = "Dr. A. B. said so. " * 20_000
    assert len(sentence_starts(text)) == 20_000 - 1
