"""The parts of a stored prompt: its instruction, its short and long fields, and the options of a choice question.

Where the definition of the benchmark is known and its template made the prompt, the parts are the fields of the
template. Otherwise the start and the end of a long prompt are split from the rest: the end holds the question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.benchmarks.prompts import OPTIONS, placeholders, template_parts
from medhelm.domain import Benchmark
from medhelm.domain.text import group_title

MOST_OF_INSTRUCTION, MOST_OF_QUESTION = 1_200, 1_500
"""Characters of the start and of the end of a long prompt, where its template is not known."""

LEAST_TO_SPLIT = 3_000
"""Characters of a prompt that is split without its template."""


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of a prompt."""

    title: str
    """Name of the part."""
    text: str
    """The part."""
    is_instruction: bool = False
    """True for what is the same for all instances."""


def prompt_parts(
    messages: Sequence[Mapping[str, Any]], choices: Sequence[str], labels: Sequence[str], definition: Benchmark | None
) -> list[PromptPart]:
    """Split a stored prompt into parts, in the order of the prompt, without the options."""
    *earlier, last = messages or [{"role": "user", "content": ""}]
    parts = [_message_part(one) for one in earlier]
    is_conversation = any(one["role"] != "system" for one in earlier)
    if is_conversation:
        return [*parts, PromptPart("Last message", last["content"])]
    return [part for part in [*parts, *_split(last["content"], choices, labels, definition)] if part.text.strip()]


def _message_part(message: Mapping[str, Any]) -> PromptPart:
    role, text = str(message["role"]), str(message["content"])
    return PromptPart("System message" if role == "system" else role.capitalize(), text, role == "system")


def _split(text: str, choices: Sequence[str], labels: Sequence[str], definition: Benchmark | None) -> list[PromptPart]:
    """Split the message of a single question."""
    named_by_text = list(labels) == list(choices)
    lines = choices if named_by_text else [f"{label}. {one}" for label, one in zip(labels, choices, strict=False)]
    options = "\n".join(lines)
    template = definition.prompt if definition else ""
    found = fields_of(template, text, options) if template else None
    if found is not None:
        titles = {name: group_title(name) for name in placeholders(template)}
        instruction = re.sub(r"\{(\w+)\}", lambda match: f"[{titles.get(match[1], match[1])}]", template)
        fields = [PromptPart(titles[name], one) for name, one in found.items() if name != OPTIONS or not choices]
        return [PromptPart("Instruction", instruction.strip(), is_instruction=True), *fields]
    if options and text.count(options) == 1:
        before, _, after = text.partition(options)
        text = before.rstrip() + after
    return _split_by_length(text)


def _split_by_length(text: str) -> list[PromptPart]:
    """Split a long text into its first paragraphs, the longest part, and its last paragraphs."""
    if len(text) < LEAST_TO_SPLIT:
        return [PromptPart("Question", text)]
    start, end = text.find("\n\n", 0, MOST_OF_INSTRUCTION), text.rfind("\n\n", len(text) - MOST_OF_QUESTION)
    start = max(start, 0)
    if end <= start:
        end = max(start, text.rfind("\n", len(text) - MOST_OF_QUESTION))
    question_at = text.find("\n\n", len(text) - MOST_OF_QUESTION, end) if end > 0 else -1
    end = question_at if start < question_at else end if start < end else len(text)
    parts = [
        PromptPart("Start of the prompt", text[:start].strip(), is_instruction=True),
        PromptPart("Text", text[start:end].strip()),
        PromptPart("End of the prompt", text[end:].strip()),
    ]
    return [part for part in parts if part.text]


def fields_of(template: str, text: str, options: str = "") -> dict[str, str] | None:
    """Find the text of each placeholder in a prompt that `fill` made from a template; None if it made another one.

    `options`: the lines of the options. Where a field holds the words that follow it in the template, it ends at the
    last of these.

    >>> fields_of("Note: {note} Question: {question}", "Note: Question: none Question: Why?")
    {'note': 'Question: none', 'question': 'Why?'}
    """
    *parts, (last, _) = template_parts(template)
    start, end = len(parts[0][0]) if parts else 0, len(text) - len(last.rstrip())
    if not parts or start > end or not text.startswith(parts[0][0]) or not text.endswith(last.rstrip()):
        return None
    found: dict[str, str] = {}
    for place, (literal, name) in reversed([*enumerate(parts)]):
        if name == OPTIONS and options:
            begin = end - len(options) if text.endswith(options, start, end) else -1
        elif place == 0:
            begin = start
        else:
            at = text.rfind(literal, start, end) if literal else -1
            begin = -1 if at < 0 else at + len(literal)
        before = begin - len(literal) if place else begin
        if before < start or text[before:begin] != (literal if place else ""):
            return None
        found[name], end = text[begin:end], before
    return dict(reversed(found.items())) if end == start else None
