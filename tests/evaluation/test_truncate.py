"""What may be left out of a prompt, where it is cut, and what never is left out."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.prompts import option_lines, render
from medhelm.domain import AnswerField, Benchmark, Instance, Message, Source, Taxonomy
from medhelm.evaluation.context_window import (
    TruncatedPrompt,
    n_characters,
    n_truncated,
    sentence_starts,
    truncate_to,
    truncated_field,
    word_starts,
)
from tests.support.benchmarks.library import SHIPPED, sample_tier
from tests.support.benchmarks.library import benchmark as shipped

NOTE = "On Monday she fell. On Tuesday she slept. On Wednesday she was well."


def benchmark(prompt: str = "Read.\n{note}\nQ: {question}", **settings: Any) -> Benchmark:
    usual = Benchmark(
        name="b",
        title="B",
        description="",
        taxonomy=Taxonomy(category="c", subcategory="s"),
        access="public",
        source=Source(kind="jsonl"),
        prompt=prompt,
        answer=AnswerField(column="a"),
        metrics=("exact_match",),
        max_tokens=5,
    )
    return replace(usual, **settings)


def instance(note: str = NOTE, question: str = "Did she fall?", **settings: Any) -> Instance:
    return Instance(id="1", fields={"note": note, "question": question}, references=(), **settings)


def truncated(of: Benchmark, one: Instance, most: int) -> TruncatedPrompt | None:
    return next(truncate_to(of, one, (most,)), None)


VIGNETTE = instance(choices=("yes", "no"), labels=("A", "B"))


FIELDS = {
    "the longest": (benchmark(), instance(), "note"),
    "none by name": (benchmark(shorten="none"), instance(), ""),
    "another by name": (benchmark(shorten="question"), instance(), "question"),
    "not there": (benchmark(shorten="elsewhere"), instance(), ""),
    "a vignette": (benchmark("{note}\n{options}"), VIGNETTE, ""),
    "a vignette by name": (benchmark("{note}\n{options}", shorten="note"), VIGNETTE, "note"),
    "a choice beside a text": (benchmark("{note}\n{question}\n{options}"), VIGNETTE, "note"),
    "less than half": (benchmark("Instruction. " * 10 + "{note}"), instance(), ""),
    "in the system message": (benchmark("{question}", system="You read {note}"), instance(), "note"),
    "a question alone": (benchmark("{question}"), instance(question=NOTE), ""),
    "a long question": (benchmark(), instance(question=NOTE * 9), ""),
    "no field": (benchmark("No field at all."), instance(), ""),
    "a conversation": (benchmark(""), instance(turns=(Message("user", NOTE),)), ""),
}


@pytest.mark.parametrize(("of", "one", "field"), FIELDS.values(), ids=FIELDS)
def test_which_field_may_lose_something(of: Benchmark, one: Instance, field: str) -> None:
    assert truncated_field(of, one) == field


def test_the_oldest_part_goes_and_a_mark_stays() -> None:
    note = NOTE * 4
    most = n_characters(render(benchmark(), instance())) + 80
    shorter = truncated(benchmark(), instance(note), most)
    assert shorter is not None
    mark = f"[{shorter.left_out:,} of {len(note):,} characters, from the beginning, are left out here.]\n"
    assert shorter.prompt.messages[0].text == f"Read.\n{mark}{note[shorter.left_out :]}\nQ: Did she fall?"
    assert note[: shorter.left_out].endswith(". ")
    assert n_characters(shorter.prompt) <= most
    # A stored run knows the whole prompt and what was left out of it, which tells the length that was sent.
    sent = n_characters(render(benchmark(), instance(note)))
    assert abs(sent - n_truncated(shorter.left_out, sent) - n_characters(shorter.prompt)) <= 2
    assert n_truncated(0, sent) == 0
    # A text without sentences is cut between words.
    shorter = truncated(benchmark(), instance("word " * 200 + "end"), 300)
    assert shorter is not None
    assert shorter.left_out % 5 == 0


@given(most=st.integers(0, 400), words=st.lists(st.sampled_from(["a", "bc.", "Def", "g.\n", "H?"]), max_size=80))
def test_what_comes_out_is_short_enough_and_loses_as_little_as_it_can(most: int, words: list[str]) -> None:
    text = " ".join(words)
    one, of = instance(text, "Q?"), benchmark(shorten="note")
    shorter = truncated(of, one, most)
    if shorter is None:
        return
    assert n_characters(render(of, one)) > most >= n_characters(shorter.prompt)
    assert 0 < shorter.left_out < len(text)
    assert (
        shorter.prompt.messages[0].text.endswith(text[shorter.left_out :].rstrip() + "\nQ: Q?") or text[-1:].isspace()
    )
    longer = truncated(of, one, most + 1)
    assert longer is None or longer.left_out <= shorter.left_out


@pytest.mark.parametrize("name", SHIPPED)
def test_the_question_stands_at_any_length(name: str) -> None:
    """All that is asked, all options and the end of the text are there, whatever is left out of its beginning."""
    of = shipped(name)
    asked = {"question", "instructions", "criterion", "definition", "condition_words", "procedure", "diagnosis"}
    for one in sample_tier(name)[:4]:
        whole = render(of, one)
        field = truncated_field(of, one)
        assert field not in asked
        for shorter in truncate_to(of, one, range(n_characters(whole), 0, -60)):
            assert field
            said, text = shorter.prompt.messages[-1].text, one.fields[field]
            before, _, behind = whole.messages[-1].text.partition(text)
            assert said.startswith(before)
            assert said.endswith(text[shorter.left_out :] + behind)
            assert [m.role for m in shorter.prompt.messages] == [m.role for m in whole.messages]
            assert option_lines(of, one) in said


# --- where a text can be cut ------------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """The pieces between the starts."""
    starts = [0, *sentence_starts(text), len(text)]
    return [text[a:b] for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("One. Two.", ["One. ", "Two."]),
        ('He said "no." Then he left.', ['He said "no." ', "Then he left."]),
        # Not every full stop ends a sentence.
        ("Seen by Dr. Low and Mrs. Pine.", ["Seen by Dr. Low and Mrs. Pine."]),
        ("Took approx. 5 mg, i.e. half. Then slept.", ["Took approx. 5 mg, i.e. half. ", "Then slept."]),
        ("Na 3.5 mmol/l. K 4.1.", ["Na 3.5 mmol/l. ", "K 4.1."]),
        ("ended. in small letters", ["ended. in small letters"]),
        # Lines of a note, a list, a conversation.
        ("BP 120/80\n- no fever\n\n1. Aspirin", ["BP 120/80\n", "- no fever\n\n", "1. Aspirin"]),
        ("[doctor] hi , brian .\n[patient] hello .", ["[doctor] hi , brian .\n", "[patient] hello ."]),
        ("All well.\r\nHome.\r\n\r\nPLAN:\r\n* rest", ["All well.\r\n", "Home.\r\n\r\n", "PLAN:\r\n", "* rest"]),
        ("\u2022 rest\n\u2022 water", ["\u2022 rest\n", "\u2022 water"]),
        # Numbers of a list within a line, and numbers that end a sentence.
        ("PLAN: 1. Rest. 2. Water.", ["PLAN: 1. Rest. ", "2. Water."]),
        ("DIAGNOSES:1. Chylous ascites.2. Pain.", ["DIAGNOSES:1. Chylous ascites.2. Pain."]),
        ("Pulse 68. Respirations 12. Weight 70 kg.", ["Pulse 68. ", "Respirations 12. ", "Weight 70 kg."]),
        # Notes that lost their line ends.
        ("Intact.MOTOR EXAM: Normal.GAIT: Steady.", ["Intact.", "MOTOR EXAM: Normal.", "GAIT: Steady."]),
        ("Fell ill in the U.S. The food was bad.", ["Fell ill in the U.S. The food was bad."]),
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
    assert list(word_starts(text)) == [match.end() - 1 for match in re.finditer(r"(?<=\s)\S", text)]
