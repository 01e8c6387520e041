"""A small open benchmark of our own, and a fake judge that marks its references as configured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.definitions import write_folder
from tests.support.servers.openai import Answer

DEFINITION = """\
name: {name}
title: Impressions
description: Write an impression.
taxonomy: {{category: clinical_note_generation, subcategory: documenting_diagnostic_reports, task: Play}}
access: public
license: CC0-1.0
source:
  kind: jsonl
  files: {{rows.jsonl: ""}}
id: id
cluster: patient
answer: impression
prompt: |
  Write the impression.

  Findings: {{findings}}
max_tokens: 50
metrics: [jury, rouge_l, rouge_1]
rubric:
  task: You are a radiologist. Grade the impression.
  scale: [1, 5]
  reference: {reference}
  criteria:
    accuracy: Is it true?
"""
"""`findings` is all a model sees."""


def row(number: int, **changes: str) -> dict[str, str]:
    """One report."""
    return {
        "id": f"r{number}",
        "patient": f"p{number}",
        "findings": f"finding number {number}.",
        "impression": f"Impression of report {number}.",
        **changes,
    }


def make_open_benchmark(
    folder: Path, *, name: str = "reports", rows: Sequence[Mapping[str, str]] = (), n: int = 6, reference: bool = True
) -> Path:
    """Write a benchmark folder with its data beside the definition, `n` rows unless `rows` are given; return it."""
    text = DEFINITION.format(name=name, reference=str(reference).lower())
    return write_folder(folder / name, text, rows or [row(number) for number in range(n)])


def report_number(body: Mapping[str, Any]) -> int:
    """Return the number of the report that a judge is asked about."""
    found = re.search(r"finding number (\d+)", body["messages"][0]["content"])
    assert found, body
    return int(found[1])


def attempt(body: Mapping[str, Any]) -> int:
    """0, or 1 for the second try."""
    return len(body["messages"]) // 2


def verdict(outside: bool) -> str:
    """A reply in the form that was asked for."""
    return json.dumps({"explanation": "Because.", "outside_information": outside})


def marks_as_outside(*numbers: int) -> Callable[[dict[str, Any]], Answer]:
    """For `Server.answer_with`: these reports rest on information outside the prompt, others do not."""
    return lambda body: chat(verdict(report_number(body) in numbers))
