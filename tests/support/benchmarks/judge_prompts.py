"""A benchmark whose answers judges grade, and what they are asked about an answer; for tests of asking and reading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medhelm.domain import (
    AnswerField,
    Benchmark,
    Completion,
    Criterion,
    Instance,
    Judgment,
    Reference,
    Rubric,
    Source,
    Taxonomy,
)
from medhelm.scoring.jury.parsing import parse_judgments
from medhelm.scoring.jury.prompts import JudgePrompt, judge_prompts

RUBRIC = Rubric(
    task="You are a nurse on the telephone.",
    criteria=(
        Criterion("accuracy", "Is the advice right?"),
        Criterion("completeness", "Is everything said?"),
        Criterion("clarity", "Can everybody understand it?"),
    ),
)
"""Three criteria, 1 to 5, with the reference shown."""

POINTS = Rubric(
    task="You check a conversation.",
    criteria=(
        Criterion("see-a-doctor", "Says when to see a doctor.", points=5),
        Criterion("antibiotics", "Advises antibiotics without need.", points=-7),
    ),
    low=0,
    high=1,
    form="points",
)
"""Two criteria that are met or not, one of them a harm."""

BENCHMARK = Benchmark(
    name="calls",
    title="Calls",
    description="Answer callers.",
    taxonomy=Taxonomy(category="a", subcategory="b"),
    access="public",
    source=Source(kind="csv"),
    prompt="A caller asks a question. Answer it.\n\nQuestion: {question}\n\nAnswer:",
    answer=AnswerField(column="answer"),
    metrics=("jury",),
    max_tokens=64,
    rubric=RUBRIC,
)
"""One field, so that the field is the question."""

INSTANCE = Instance(
    id="1",
    fields={"question": "I have had a fever since yesterday. What now?"},
    references=(Reference("Rest and drink. See a doctor after three days."),),
)
"""One call."""

OWN: Mapping[str, Mapping[str, object]] = {
    "accuracy": {"score": 2, "explanation": "No word about children or pregnancy."},
    "completeness": {"score": 1, "explanation": "Leaves out the signs of danger."},
    "clarity": {"score": 3, "explanation": "Short, but it can be followed."},
}
"""The verdict of an honest judge on the completions of these tests."""


def asked(text: str, *, rubric: Rubric = RUBRIC, instance: Instance = INSTANCE, **changes: Any) -> list[JudgePrompt]:
    """Return the judge prompts for the completion `text`; `changes` are fields of the benchmark."""
    return judge_prompts(replace(BENCHMARK, rubric=rubric, **changes), instance, text)


def said(
    reply: str | Completion, *, rubric: Rubric = RUBRIC, shown: Sequence[str] = (), part: int = 0
) -> tuple[Judgment, ...]:
    """Parse a judge's reply into judgments; no verification code was asked for, as in stores of earlier versions."""
    completion = Completion(text=reply, finish_reason="stop") if isinstance(reply, str) else reply
    return parse_judgments("judge", asked("", rubric=rubric)[part].criteria, completion, rubric=rubric, shown=shown)


def scores(judgments: Sequence[Judgment]) -> list[float | None]:
    """Return the grade of each judgment."""
    return [judgment.score for judgment in judgments]


def codes(judgments: Sequence[Judgment]) -> list[str]:
    """Return the failure code of each judgment, "" for one with a grade."""
    return [judgment.failure.code if judgment.failure else "" for judgment in judgments]


def verdict(**grades: object) -> str:
    """A verdict as JSON, one object with `score` and `explanation` for each criterion."""
    return json.dumps({name: {"score": grade, "explanation": f"On {name}."} for name, grade in grades.items()})
