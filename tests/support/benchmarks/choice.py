"""A small benchmark of our own, and the replies of a server that knows its answers; for tests of whole runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.benchmarks.definitions import write_folder
from tests.support.servers.openai import Answer

DEFINITION = """\
name: {name}
title: {name}
description: Toy questions with two options.
taxonomy: {{category: clinical_decision_support, subcategory: planning_treatments, task: Play}}
access: public
license: CC0-1.0
source:
  kind: jsonl
  files: {{rows.jsonl: ""}}
id: id
choices: [good, bad]
answer: {{column: answer, form: letter}}
metadata: [topic]
prompt: |
  Question {{question}}
  {{options}}
  Answer:
max_tokens: 5
metrics: [exact_match, quasi_exact_match, choice_extracted]
"""


def rows(n: int) -> list[dict[str, str]]:
    """`n` questions; every third one has the answer B."""
    return [
        {"id": f"q{i}", "question": f"number {i}?", "answer": "B" if i % 3 == 2 else "A", "topic": str(i % 2)}
        for i in range(n)
    ]


def make_benchmark(folder: Path, *, name: str = "toy", n: int = 9, extra: str = "") -> Path:
    """Write a benchmark folder with its data beside the definition, and return it."""
    return write_folder(folder / name, DEFINITION.format(name=name) + extra, rows(n))


def chat(text: str | None, **changes: Any) -> Answer:
    """A chat completion with this text; `changes` go to the choice."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **changes}
    usage = {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21}
    return Answer(body={"model": "mock-1", "choices": [choice], "usage": usage})


def question_number(body: Mapping[str, Any]) -> int:
    """Return the number of the question that a request asks."""
    text: str = body["messages"][-1]["content"]
    return int(text.partition("number ")[2].partition("?")[0])


def answers_with(text_of: Callable[[int], str | None]) -> Callable[[dict[str, Any]], Answer]:
    """For `Server.answer_with`: the text depends on the number of the question."""
    return lambda body: chat(text_of(question_number(body)))


def perfect(number: int) -> str:
    """The right letter of a question."""
    return "B" if number % 3 == 2 else "A"
