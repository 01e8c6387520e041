"""Templates: one pass, fields come through as they are."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.prompts import LETTERS, fill, option_lines, placeholders, render, stray_braces
from medhelm.domain import AnswerField, Benchmark, Instance, Message, Reference, Source, Taxonomy
from medhelm.errors import UserError
from tests.support.cases import table

BENCHMARK = Benchmark(
    name="tiny",
    title="Tiny",
    description="A tiny one.",
    taxonomy=Taxonomy(category="a", subcategory="b"),
    access="public",
    source=Source(kind="csv"),
    prompt="{note}",
    answer=AnswerField(column="answer"),
    metrics=("exact_match",),
    max_tokens=1,
)
INSTANCE = Instance(id="7", fields={"note": "the note", "question": "why?"}, references=(Reference("yes"),))
CHOICE = replace(INSTANCE, choices=("yes", "no", "maybe"), labels=("A", "B", "C"))

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def user_text(template: str, instance: Instance = INSTANCE, **changes: object) -> str:
    prompt = render(replace(BENCHMARK, prompt=template, **changes), instance)  # type: ignore[arg-type]
    return prompt.messages[-1].text


@table(
    ("template", "text"),
    [
        ("{note}", "the note"),
        ("a {note} b {question} c {note}", "a the note b why? c the note"),
        ("plain", "plain"),
        ("{{note}}", "{note}"),
        ("{{{note}}}", "{the note}"),
        ('{{"answer": {{}}}} {note}', '{"answer": {}} the note'),
        ("{{ {note} }}", "{ the note }"),
        ("  lead\n{note}\n\n  \n", "  lead\nthe note"),
        ("{note}\r\n\t", "the note"),
        ("line\n\nline {note}", "line\n\nline the note"),
        ("5 % of ${note} \\1 \\g<0>", "5 % of $the note \\1 \\g<0>"),
    ],
)
def test_templates_are_filled_in_once_from_left_to_right(template: str, text: str) -> None:
    assert user_text(template) == text


def test_options_are_lettered_lines() -> None:
    assert user_text("Pick:\n{options}\nAnswer:", CHOICE) == "Pick:\nA. yes\nB. no\nC. maybe\nAnswer:"


def test_options_named_by_their_texts_are_listed_without_letters() -> None:
    instance = replace(INSTANCE, choices=("0", "1"), labels=("0", "1"))
    assert user_text("{options}", instance, choice_labels="texts") == "0\n1"


def test_a_column_can_be_named_options_if_there_are_no_choices() -> None:
    instance = replace(INSTANCE, fields={"options": "free text"})
    assert user_text("{options}", instance) == "free text"


def test_a_system_message_comes_first_and_only_if_there_is_one() -> None:
    assert render(BENCHMARK, INSTANCE).messages == (Message("user", "the note"),)
    both = render(replace(BENCHMARK, system="You answer {question}\n"), INSTANCE)
    assert both.messages == (Message("system", "You answer why?"), Message("user", "the note"))


def test_a_conversation_is_sent_unchanged() -> None:
    turns = (Message("user", "Hm?\n"), Message("assistant", "{note}"), Message("user", " And now? "))
    instance = replace(INSTANCE, turns=turns)
    asked = replace(BENCHMARK, prompt="", conversation_column="turns")
    assert render(asked, instance).messages == turns
    both = render(replace(asked, system="About {note}."), instance)
    assert both.messages == (Message("system", "About the note."), *turns)


def test_any_template_can_be_filled_in() -> None:
    assert fill("{question} {{1}}\n{options}\n", BENCHMARK, CHOICE) == "why? {1}\nA. yes\nB. no\nC. maybe"


def test_an_unknown_field_is_an_error_in_the_definition() -> None:
    with pytest.raises(UserError, match=r"tiny: the prompt names \{noet\}, .* instance 7 .* Did you mean `note`\?"):
        user_text("{noet}")


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{a} {b_2} {a}", {"a", "b_2"}),
        ("{{a}} {options}", {"options"}),
        ("{a b} {1} {} {a.b} { a }", set()),
        ("", set()),
    ],
)
def test_placeholders_of_a_template(template: str, found: set[str]) -> None:
    assert placeholders(template) == found


@pytest.mark.parametrize(
    ("template", "lines"),
    [
        ("fine {a} {{b}}", []),
        ("a\n {x y} \nb }\n}", [" {x y} ", "b }", "}"]),
        ("{", ["{"]),
        ("{{{", ["{{{"]),
        ("{note}}", ["{note}}"]),
    ],
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


@given(parts=st.lists(st.tuples(st.text(alphabet="ab \n.", max_size=5), names), max_size=5))
def test_a_template_made_of_parts_is_filled_part_by_part(parts: list[tuple[str, str]]) -> None:
    template = "".join(f"{text}{{{name}}}" for text, name in parts) + "."
    fields = {name: name.upper() for _, name in parts}
    assert placeholders(template) == set(fields)
    expected = "".join(text + name.upper() for text, name in parts) + "."
    assert user_text(template, replace(INSTANCE, fields=fields)) == expected


@given(choices=st.lists(st.text(), min_size=1, max_size=26))
def test_every_option_has_its_letter(choices: list[str]) -> None:
    instance = replace(INSTANCE, choices=tuple(choices), labels=LETTERS[: len(choices)])
    lines = option_lines(BENCHMARK, instance)
    assert lines == "\n".join(f"{string.ascii_uppercase[i]}. {text}" for i, text in enumerate(choices))
