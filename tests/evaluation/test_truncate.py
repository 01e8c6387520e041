"""What may be left out of a prompt, and what never is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.prompts import option_lines, render
from medhelm.domain import AnswerField, Benchmark, Instance, Message, Source, Taxonomy
from medhelm.evaluation.context import TruncatedPrompt, n_characters, n_truncated, truncate_to, truncated_field
from tests.support.benchmarks.library import SHIPPED, sample_tier
from tests.support.benchmarks.library import benchmark as shipped

NOTE = "On Monday she fell. On Tuesday she slept. On Wednesday she was well."


def benchmark(prompt: str = "Read.\n{note}\nQ: {question}", **settings: Any) -> Benchmark:
    known = Benchmark(
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
    return replace(known, **settings)


def instance(**settings: Any) -> Instance:
    known = Instance(id="1", fields={"note": NOTE, "question": "Did she fall?"}, references=())
    return replace(known, **settings)


def shortened(of: Benchmark, one: Instance, most: int) -> TruncatedPrompt | None:
    return next(truncate_to(of, one, (most,)), None)


CHOICE = {"choices": ("yes", "no"), "labels": ("A", "B")}


LONG_QUESTION = instance(fields={"note": NOTE, "question": NOTE * 9})
FIELDS = {
    "the longest": (benchmark(), instance(), "note"),
    "none by name": (benchmark(shorten="none"), instance(), ""),
    "another by name": (benchmark(shorten="question"), instance(), "question"),
    "not there": (benchmark(shorten="elsewhere"), instance(), ""),
    "a vignette": (benchmark("{note}\n{options}"), instance(**CHOICE), ""),
    "a vignette by name": (benchmark("{note}\n{options}", shorten="note"), instance(**CHOICE), "note"),
    "a choice beside a text": (benchmark("{note}\n{question}\n{options}"), instance(**CHOICE), "note"),
    "less than half": (benchmark("Instruction. " * 10 + "{note}"), instance(), ""),
    "in the system message": (benchmark("{question}", system="You read {note}"), instance(), "note"),
    "a question alone": (benchmark("{question}"), instance(fields={"question": NOTE}), ""),
    "a long question": (benchmark(), LONG_QUESTION, ""),
    "no field": (benchmark("No field at all."), instance(), ""),
    "a conversation": (benchmark(""), instance(turns=(Message("user", NOTE),)), ""),
}


@pytest.mark.parametrize(("of", "one", "field"), FIELDS.values(), ids=FIELDS)
def test_which_field_may_lose_something(of: Benchmark, one: Instance, field: str) -> None:
    assert truncated_field(of, one) == field


def test_the_oldest_part_goes_and_a_mark_stays() -> None:
    whole = n_characters(render(benchmark(), instance()))
    note = NOTE * 4
    long = instance(fields={"note": note, "question": "Did she fall?"})
    found = shortened(benchmark(), long, whole + 80)
    assert found is not None
    mark = f"[{found.left_out:,} of {len(note):,} characters, from the beginning, are left out here.]\n"
    assert found.prompt.messages[0].text == f"Read.\n{mark}{note[found.left_out :]}\nQ: Did she fall?"
    assert note[: found.left_out].endswith(". ")
    assert n_characters(found.prompt) <= whole + 80
    # A stored run knows the whole prompt and what was left out of it, which tells the length that was sent.
    sent = n_characters(render(benchmark(), long))
    assert abs(sent - n_truncated(found.left_out, sent) - n_characters(found.prompt)) <= 2
    assert n_truncated(0, sent) == 0


@given(most=st.integers(0, 400), words=st.lists(st.sampled_from(["a", "bc.", "Def", "g.\n", "H?"]), max_size=80))
def test_what_comes_out_is_short_enough_and_loses_as_little_as_it_can(most: int, words: list[str]) -> None:
    text = " ".join(words)
    one, of = instance(fields={"note": text, "question": "Q?"}), benchmark(shorten="note")
    whole = n_characters(render(of, one))
    found = shortened(of, one, most)
    if found is None:
        return
    assert whole > most >= n_characters(found.prompt)
    assert 0 < found.left_out < len(text)
    assert found.prompt.messages[0].text.endswith(text[found.left_out :].rstrip() + "\nQ: Q?") or not text[-1:].strip()
    # What is left could not have been more: with one character less to leave out it is no shorter than asked.
    again = shortened(of, one, most + 1)
    assert again is None or again.left_out <= found.left_out


def test_a_text_without_sentences_is_cut_between_words() -> None:
    one = instance(fields={"note": "word " * 200 + "end", "question": "?"})
    found = shortened(benchmark(), one, 300)
    assert found is not None
    assert found.left_out % 5 == 0
    assert n_characters(found.prompt) <= 300


@pytest.mark.parametrize("most", [0, 20, 60])
def test_nothing_is_sent_where_nothing_would_be_left(most: int) -> None:
    assert shortened(benchmark(), instance(), most) is None
    assert shortened(benchmark(), instance(), n_characters(render(benchmark(), instance()))) is None
    assert shortened(benchmark(), instance(fields={"note": "x" * 500, "question": "?"}), most) is None


def test_a_field_that_is_shown_twice_counts_twice() -> None:
    of = benchmark("{note}\nAgain: {note}\nQ: {question}")
    one = instance(fields={"note": NOTE * 10, "question": "?"})
    found = shortened(of, one, 800)
    assert found is not None
    assert n_characters(found.prompt) <= 800
    assert found.prompt.messages[0].text.count("characters, from the beginning, are left out here.]") == 2


@pytest.mark.parametrize("name", SHIPPED)
def test_the_question_stands_at_any_length(name: str) -> None:
    """All that is asked, all options and the end of the text are there, whatever is left out of its beginning."""
    of = shipped(name)
    asked = {"question", "instructions", "criterion", "definition", "condition_words", "procedure", "diagnosis"}
    for one in sample_tier(name)[:4]:
        whole = render(of, one)
        field = truncated_field(of, one)
        assert field not in asked
        found = list(truncate_to(of, one, range(n_characters(whole), 0, -60)))
        assert bool(found) <= bool(field)
        for short in found:
            said, text = short.prompt.messages[-1].text, one.fields[field]
            before, _, behind = whole.messages[-1].text.partition(text)
            assert said.startswith(before)
            assert said.endswith(text[short.left_out :] + behind)
            assert [m.role for m in short.prompt.messages] == [m.role for m in whole.messages]
            for other, value in one.fields.items():
                assert other == field or value not in whole.messages[-1].text or value in said
            assert option_lines(of, one) in said


def test_benchmarks_whose_answer_can_hang_on_any_part_say_so() -> None:
    """An error to be found, a schema, a message under review: none of them is the same without its beginning."""
    kept = {name for name in SHIPPED if shipped(name).shorten == "none"}
    assert kept == {"ehrsql", "med_conf_info", "medec", "privacy_detection", "proxy_sender", "race_bias"}
