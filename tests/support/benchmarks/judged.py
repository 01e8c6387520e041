"""A small benchmark whose answers are free text, and a server that is both the model and its judges."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Jury, Model
from medhelm.models.catalog import find_models
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.definitions import write_folder
from tests.support.servers.openai import Answer, Server

DEFINITION = """\
name: letters
title: Letters
description: Toy questions with answers in free text.
taxonomy: {category: patient_communication_and_education, subcategory: patient_provider_messaging, task: Write}
access: public
license: CC0-1.0
source:
  kind: jsonl
  files: {rows.jsonl: ""}
id: id
answer: reply
prompt: |
  Question {question}
  Answer:
max_tokens: 50
metrics: [jury, rouge_l]
rubric:
  task: You are a nurse. You see a question, the answer of a model, and a reference. Grade the answer of the model.
  criteria:
    accuracy: Is it right?
    completeness: Is all of it there?
    clarity: Is it plain?
"""

CRITERIA = ("accuracy", "completeness", "clarity")
JUDGES = ("judge-1", "judge-2", "judge-3")


def open_benchmark(folder: Path, *, n: int = 9, definition: str = DEFINITION) -> Benchmark:
    """Write the benchmark below `folder` and load it."""
    (benchmark,) = load_benchmarks([str(write_benchmark(folder, n=n, definition=definition))], metrics=METRIC_NAMES)
    return benchmark


def write_benchmark(folder: Path, *, n: int = 9, definition: str = DEFINITION) -> Path:
    """Write a benchmark folder with `n` questions and their data beside the definition, and return it."""
    rows = [{"id": f"q{i}", "question": f"number {i}?", "reply": f"The answer to number {i} is {i}."} for i in range(n)]
    return write_folder(folder / "letters", definition, rows)


def jury(server: Server, *names: str, at_least: int = 2) -> Jury:
    """Judges behind a server."""
    return Jury(judges=tuple(mock(server, name) for name in names or JUDGES), min_judges=at_least)


def mock(server: Server, name: str = "mock") -> Model:
    """A model behind a server."""
    (found,) = find_models([f"openai/{name}@{server.url}/v1"], file=None, environment={})
    return found


def number(body: Mapping[str, Any]) -> int:
    """Return the number of the question that a request is about, to the model or to a judge."""
    return int(body["messages"][0]["content"].partition("number ")[2].partition("?")[0])


def is_judge(body: Mapping[str, Any]) -> bool:
    """Tell whether a request is for a judge."""
    return str(body["model"]).startswith("judge")


def verdict(*grades: object, criteria: tuple[str, ...] = CRITERIA) -> str:
    """A judge's reply with these grades."""
    named = zip(criteria, grades, strict=False)
    return json.dumps({name: {"score": grade, "explanation": f"it is {grade}"} for name, grade in named})


def grades_of(judge: str, question: int) -> tuple[int, int, int]:
    """Return the grades of a well-behaved judge: they depend on the judge, by a point at most, and on the question."""
    base = 2 + question % 3
    return base, min(5, base + JUDGES.index(judge) % 2), base


Script = Callable[[Mapping[str, Any]], Answer]


def court(
    judging: Callable[[str, int, Mapping[str, Any]], str | Answer | None] | None = None,
    answering: Callable[[int], str] = lambda n: f"An answer to number {n}",
) -> Script:
    """For `Server.answer_with`: models answer, judges grade.

    `judging`: judge, question and request -> reply; None where the judge behaves.
    """

    def decide(body: Mapping[str, Any]) -> Answer:
        question = number(body)
        if not is_judge(body):
            return chat(answering(question))
        said = judging(body["model"], question, body) if judging else None
        if isinstance(said, Answer):
            return said
        return chat(said if said is not None else verdict(*grades_of(body["model"], question)))

    return decide
