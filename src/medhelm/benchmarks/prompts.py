"""From a benchmark and an instance to the prompt a model reads.

A template is text with places to fill in: `{name}` stands for the field `name`, `{options}` for the options of a choice
question, one a line; `{{` and `}}` are literal braces. A template is read once, from left to right: the text of a field
is never looked at, so braces in patient notes are nothing but braces.
"""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_uppercase

from medhelm.domain import Benchmark, Instance, Message, Prompt
from medhelm.errors import UserError, suggestion

LETTERS = tuple(ascii_uppercase)
"""Names of lettered options, in order: there can be 26."""

OPTIONS = "options"
"""The place that stands for the options of a choice question."""

NO_FIELD = "none"
"""What a definition says under `shorten` where no field may lose anything."""

FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a place in a template can be called."""

_TOKEN = re.compile(rf"\{{\{{|\}}\}}|\{{({FIELD_NAME.pattern})\}}|[{{}}]")


def render(benchmark: Benchmark, instance: Instance) -> Prompt:
    """The prompt for one instance: the system message if the benchmark has one, and the user message.

    Where there is a conversation to continue, its turns are the messages, as they stand.
    Raises: UserError if a template names a field that `instance` lacks.
    """
    messages = instance.turns or (Message("user", fill(benchmark.prompt, benchmark, instance)),)
    if benchmark.system:
        return Prompt((Message("system", fill(benchmark.system, benchmark, instance)), *messages))
    return Prompt(messages)


def option_lines(benchmark: Benchmark, instance: Instance) -> str:
    """The options one a line: `A. text` where letters name them, just the text where the text itself does."""
    if benchmark.choice_labels == "texts":
        return "\n".join(instance.choices)
    return "\n".join(f"{letter}. {text}" for letter, text in zip(instance.labels, instance.choices, strict=True))


def placeholders(template: str) -> set[str]:
    """Names of all places in `template`.

    >>> sorted(placeholders("{note} and {{this}} and {options}"))
    ['note', 'options']
    """
    return {name for _, name in _parts(template) if name}


def stray_braces(template: str) -> list[str]:
    """Lines of `template` with a brace that is neither part of a place nor doubled.

    >>> stray_braces("{note}" + chr(10) + 'reply as {"answer": 1}')
    ['reply as {"answer": 1}']
    """
    lines = template.split("\n")
    found = (match for match in _TOKEN.finditer(template) if match.group() in "{}")
    numbers = dict.fromkeys(template.count("\n", 0, match.start()) for match in found)
    return [lines[number] for number in numbers]


def fill(template: str, benchmark: Benchmark, instance: Instance) -> str:
    """`template` with every place filled in. White space at its end is cut off.

    Raises: UserError if it names a field that `instance` lacks.
    """
    pieces: list[str] = []
    for literal, name in _parts(template):
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
def _parts(template: str) -> tuple[tuple[str, str], ...]:
    """`template` cut into pairs of literal text and the name of the place that follows it ("" at the end)."""
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
