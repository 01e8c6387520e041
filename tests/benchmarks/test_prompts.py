"""Templates: one pass, fields come through as they are."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.prompts import LETTERS, option_lines, placeholders, render, stray_braces
from medhelm.domain import Instance, Message, Reference
from medhelm.errors import UserError
from tests.support.benchmarks.judge_prompts import BENCHMARK as CALLS
from tests.support.cases import table

BENCHMARK = replace(CALLS, name="tiny", prompt="{note}", rubric=None)
INSTANCE = Instance(id="7", fields={"note": "the note", "question": "why?"}, references=(Reference("yes"),))
CHOICE = replace(INSTANCE, choices=("yes", "no", "maybe"), labels=("A", "B", "C"))


def user_text(template: str, instance: Instance = INSTANCE, **changes: object) -> str:
    prompt = render(replace(BENCHMARK, prompt=template, **changes), instance)  # type: ignore[arg-type]
    return prompt.messages[-1].text


@table(
    ("template", "text"),
    [
        ("{note}", "the note"),
        ("{{note}}", "{note}"),
        ("{{{note}}}", "{the note}"),
        ('{{"answer": {{}}}} {note}', '{"answer": {}} the note'),
        ("  lead\n{note}\n\n  \n", "  lead\nthe note"),
        ("5 % of ${note} \\1 \\g<0>", "5 % of $the note \\1 \\g<0>"),
    ],
)
def test_templates_are_filled_in_once_from_left_to_right(template: str, text: str) -> None:
    assert user_text(template) == text


def test_options_named_by_their_texts_are_listed_without_letters() -> None:
    instance = replace(INSTANCE, choices=("0", "1"), labels=("0", "1"))
    assert user_text("{options}", instance, choice_labels="texts") == "0\n1"


def test_a_system_message_comes_first_and_only_if_there_is_one() -> None:
    assert render(BENCHMARK, INSTANCE).messages == (Message("user", "the note"),)
    both = render(replace(BENCHMARK, system="You answer {question}\n"), INSTANCE)
    assert both.messages == (Message("system", "You answer why?"), Message("user", "the note"))


def test_an_unknown_field_is_an_error_in_the_definition() -> None:
    with pytest.raises(UserError, match=r"tiny: the prompt names \{noet\}, .* instance 7 .* Did you mean `note`\?"):
        user_text("{noet}")


@pytest.mark.parametrize(
    ("template", "lines"), [("a\n {x y} \nb }\n}", [" {x y} ", "b }", "}"]), ("{", ["{"]), ("{note}}", ["{note}}"])]
)
def test_single_braces_are_found(template: str, lines: list[str]) -> None:
    assert stray_braces(template) == lines


@given(note=st.text(), question=st.text())
def test_fields_are_inserted_literally(note: str, question: str) -> None:
    instance = replace(INSTANCE, fields={"note": note, "question": question})
    assert user_text("<{note}|{question}|{note}>", instance) == f"<{note}|{question}|{note}>"


@given(text=st.text())
def test_text_with_doubled_braces_is_that_text(text: str) -> None:
    template = text.replace("{", "{{").replace("}", "}}")
    assert placeholders(template) == set()
    assert stray_braces(template) == []
    assert user_text(template) == text.rstrip()


@given(choices=st.lists(st.text(), min_size=1, max_size=26))
def test_every_option_has_its_letter(choices: list[str]) -> None:
    instance = replace(INSTANCE, choices=tuple(choices), labels=LETTERS[: len(choices)])
    lines = option_lines(BENCHMARK, instance)
    assert lines == "\n".join(f"{string.ascii_uppercase[i]}. {text}" for i, text in enumerate(choices))
