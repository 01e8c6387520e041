"""Parts of stored prompts: no word gets lost, and the question is never inside the long part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.prompt_parts import PromptPart, fields_of, prompt_parts
from medhelm.benchmarks.prompts import LETTERS, option_lines, render
from medhelm.domain import Instance
from tests.support.benchmarks.judge_prompts import BENCHMARK as ANY

BENCHMARK = replace(ANY, system="", prompt="Read it.\n\nNote: {note}\n\nQuestion: {question}\n{options}\nAnswer:")
CHOICES = ("yes", "no")


def parts_of(text: str, *, benchmark: object = None, choices: tuple[str, ...] = ()) -> list[PromptPart]:
    labels = LETTERS[: len(choices)]
    return prompt_parts([{"role": "user", "content": text}], choices, labels, benchmark)  # type: ignore[arg-type]


@given(st.text(min_size=1).filter(str.strip), st.text(alphabet="why ?", min_size=1).filter(str.strip))
def test_the_template_of_the_definition_splits_the_prompt(note: str, question: str) -> None:
    fields = {"note": note, "question": question}
    instance = Instance(id="1", fields=fields, references=(), choices=CHOICES, labels=("A", "B"))
    text = render(BENCHMARK, instance).messages[-1].text
    found = {part.title: part.text for part in parts_of(text, benchmark=BENCHMARK, choices=CHOICES)}
    instruction = "Read it.\n\nNote: [Note]\n\nQuestion: [Question]\n[Options]\nAnswer:"
    assert found == {"Instruction": instruction, "Note": note, "Question": question}


LONG = "The patient slept well and ate half of the breakfast.\n"


@pytest.mark.parametrize(
    ("text", "titles", "last"),
    [
        ("Why?", ["Question"], "Why?"),
        (f"Read.\n\n{LONG * 99}\n\nWhy?", ["Start of the prompt", "Text", "End of the prompt"], "Why?"),
        (f"Read.\n\n{LONG * 99}\n\nWhy?\nA. yes\nB. no\nAnswer:", ["Start of the prompt", "Text", "End of the prompt"],
         "Why?\nAnswer:"),
        ("x" * 9_000, ["Text"], "x" * 9_000),
        (f"{LONG * 99}Why?", ["Text", "End of the prompt"], "Why?"),
    ],
)  # fmt: skip
def test_without_a_definition_a_long_prompt_has_two_ends(text: str, titles: list[str], last: str) -> None:
    for benchmark in (None, replace(BENCHMARK, prompt="Another template: {note}")):
        found = parts_of(text, benchmark=benchmark, choices=CHOICES)
        assert [part.title for part in found] == titles
        assert found[-1].text == last or found[-1].text.endswith(last)
        assert not found[-1].is_instruction


@given(st.lists(st.text(alphabet="ab \n", max_size=900), max_size=9).map("\n\n".join))
def test_no_word_gets_lost(text: str) -> None:
    words = [word for part in parts_of(text) for word in part.text.split()]
    assert words == text.split()


def test_a_conversation_has_one_part_for_each_message() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Why?"},
    ]
    found = prompt_parts(messages, (), (), None)
    assert [(part.title, part.text) for part in found] == [
        ("System message", "Be brief."),
        ("User", "Hello"),
        ("Assistant", "Yes?"),
        ("Last message", "Why?"),
    ]
    assert [part.is_instruction for part in found] == [True, False, False, False]


def filled(template: str, instance: Instance) -> str:
    return render(replace(BENCHMARK, prompt=template), instance).messages[-1].text


TEMPLATES = ("{note}", "Read.\n\nNote: {note}\n\nQuestion: {question}\n{options}\nAnswer:", "{question} -- {note}\n")


@given(st.sampled_from(TEMPLATES), st.text(max_size=30).filter(str.strip), st.text(alphabet="why? ", max_size=9))
def test_a_prompt_can_be_split_into_its_fields_again(template: str, note: str, question: str) -> None:
    instance = Instance(
        id="1", fields={"note": note, "question": question}, references=(), choices=CHOICES, labels=("A", "B")
    )
    text = filled(template, instance)
    found = fields_of(template, text, option_lines(BENCHMARK, instance))
    assert found is not None
    assert filled(template, replace(instance, fields=found)) == text


@pytest.mark.parametrize("text", ["", "Note: a", "Read.\n\nNote: a", "Read.\n\nNote: a\n\nQuestion: b\nAnswer:"])
def test_a_prompt_of_another_template_has_no_fields(text: str) -> None:
    assert fields_of(TEMPLATES[1], text, "A. yes\nB. no") is None
