"""Render the prompt of an instance from the templates of its benchmark, and check names of benchmarks.

A template is text with placeholders: `{name}` is replaced by the field `name`, `{options}` by the options of a choice
question, one per line; `{{` and `}}` are literal braces. Templates are filled in once, from left to right, and field
texts are never parsed, so braces in patient notes stay as they are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_uppercase
from unicodedata import combining, normalize

from medhelm.domain import Benchmark, Instance, Message, Prompt
from medhelm.domain.text import value_in_words
from medhelm.errors import UserError, suggestion

LETTERS = tuple(ascii_uppercase)
"""Labels of options, in order: at most 26."""

OPTIONS = "options"
"""Placeholder of the options of a choice question."""

NO_FIELD = "none"
"""Value of `shorten` for prompts that must not be truncated."""

FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Pattern of the name of a placeholder."""

_TOKEN = re.compile(rf"\{{\{{|\}}\}}|\{{({FIELD_NAME.pattern})\}}|[{{}}]")


def render(benchmark: Benchmark, instance: Instance) -> Prompt:
    """Render the prompt of one instance: an optional system message, solved examples if it has any, the user message.

    If the instance has a conversation, its turns are the messages.
    Raises UserError if a template names a field that `instance` lacks.
    """
    asked = instance.turns or (Message("user", fill(benchmark.prompt, benchmark, instance)),)
    messages = (*instance.examples, *asked)
    if benchmark.system:
        return Prompt((Message("system", fill(benchmark.system, benchmark, instance)), *messages))
    return Prompt(messages)


def option_lines(benchmark: Benchmark, instance: Instance) -> str:
    """Format the options, one per line: `A. text`, or only the text if texts are the labels."""
    if benchmark.choice_labels == "texts":
        return "\n".join(instance.choices)
    return "\n".join(f"{letter}. {text}" for letter, text in zip(instance.labels, instance.choices, strict=True))


def placeholders(template: str) -> set[str]:
    """Return the names of all placeholders in `template`.

    >>> sorted(placeholders("{note} and {{this}} and {options}"))
    ['note', 'options']
    """
    return {name for _, name in template_parts(template) if name}


def stray_braces(template: str) -> list[str]:
    """Return the lines of `template` with a brace that is neither part of a placeholder nor doubled.

    >>> stray_braces("{note}" + chr(10) + 'reply as {"answer": 1}')
    ['reply as {"answer": 1}']
    """
    lines = template.split("\n")
    found = (match for match in _TOKEN.finditer(template) if match.group() in "{}")
    numbers = dict.fromkeys(template.count("\n", 0, match.start()) for match in found)
    return [lines[number] for number in numbers]


def fill(template: str, benchmark: Benchmark, instance: Instance) -> str:
    """Fill in every placeholder of `template` and remove white space at its end.

    Raises UserError if it names a field that `instance` lacks.
    """
    pieces: list[str] = []
    for literal, name in template_parts(template):
        pieces.append(literal)
        if name == OPTIONS and instance.choices:
            pieces.append(option_lines(benchmark, instance))
        elif name:
            try:
                pieces.append(instance.fields[name])
            except KeyError:
                help_ = suggestion(name, instance.fields)
                text = f"{benchmark.name}: the prompt names {{{name}}}, which instance {instance.id} does not have."
                raise UserError(f"{text} {help_}".rstrip()) from None
    return "".join(pieces).rstrip()


@lru_cache(maxsize=256)
def template_parts(template: str) -> tuple[tuple[str, str], ...]:
    """Split a template into pairs of literal text and the following placeholder ("" at the end)."""
    parts: list[tuple[str, str]] = []
    literal, end = "", 0
    for match in _TOKEN.finditer(template):
        literal += template[end : match.start()]
        end = match.end()
        if match.group(1):
            parts.append((literal, match.group(1)))
            literal = ""
        else:
            literal += match.group()[0]  # `{{` and `}}` are one brace; a stray one stays as it is
    return (*parts, (literal + template[end:], ""))


# --- names of benchmarks ----------------------------------------------------------------------------------------------
# They are in snake case: checked, or made from a title.

_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def check_snake_case(text: str) -> str:
    """Return a text if it is in snake case. Raises: ValueError with the rule."""
    if not _SNAKE.fullmatch(text):
        raise ValueError(f"must be snake case (lower-case letters, digits, single `_`), is {value_in_words(text)}.")
    return text


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a benchmark. Raises UserError with the rule."""
    try:
        return check_snake_case(name)
    except ValueError as error:
        near = slug(name)
        hint = f" Try `{near}`." if _SNAKE.fullmatch(near) else ""
        raise UserError(f"the name {error}{hint}") from None


def slug(text: str) -> str:
    """Return a text in snake case, without accents.

    >>> slug("Discharge QA"), slug("Überprüfung Ärzte")
    ('discharge_qa', 'uberprufung_arzte')
    """
    letters = "".join(sign for sign in normalize("NFKD", text.casefold()) if not combining(sign))
    return "_".join(re.findall(r"[a-z0-9]+", letters))
