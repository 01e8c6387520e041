"""A small store with hostile ids and texts, three models and two judges, for cases and their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Criterion,
    Failure,
    Instance,
    Judgment,
    JuryVerdict,
    Message,
    Prompt,
    Record,
    Reference,
    Score,
    Usage,
)
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.stores import jury_of, make_model, make_record, make_run, write_run

XSS = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}${7*7}"
"""Text that would run in a page that does not escape it."""

HOSTILE_IDS = (
    "plain",
    "a/b/../c",
    "..",
    "%2e%2e%2f?x=1&y=#z",
    "line\nbreak\ttab",
    "x" * 300,
    XSS,
    "Ünïcödé 🩺",
    "' OR 1=1; --",
    "con",
)
"""Ids that break paths, URLs, file names, SQL or pages."""

MODELS = ("lab/good", "lab/bad", "lab/slow")

RIGHT, WRONG, LATE = "The answer is Aspirin.", "The answer is Naloxone.", Failure("provider", "timeout", XSS)


def make_case_store(folder: Path, *, prompts: bool = True, is_long: bool = False, **changes: Any) -> Path:
    """Write the benchmark `toy`: `good` is right, `bad` is wrong on every second instance, `slow` fails on the first.

    The first completion of `bad` is hostile. Parameters: prompts, whether prompts are stored; is_long, whether the
    first prompt is long, with the word `needle` in its middle; changes, fields of runs.
    """
    for model in MODELS:
        run = make_run("toy", model, n=len(HOSTILE_IDS), resolved_model=make_model(model), **changes)
        stored = write_run(folder, run, (_record(model, n) for n in range(len(HOSTILE_IDS))))
    if prompts:
        path = Store(folder).prompts_file("toy", stored.benchmark_digest, stored.data_digest)
        write_prompts(path, (_prompt(n, is_long=is_long and n == 0) for n in range(len(HOSTILE_IDS))))
    return folder


def _record(model: str, n: int) -> Record:
    right = model != "lab/bad" or n % 2 == 1
    text = XSS if model == "lab/bad" and n == 0 else RIGHT if right else WRONG
    failure = LATE if model == "lab/slow" and n == 0 else None
    completion = Completion(
        text=None if failure else text,
        failure=failure,
        usage=Usage(input=100, output=20),
        latency_s=0.5,
        finish_reason="length" if n == 3 else "stop",
    )
    value = None if failure else float(right)
    return make_record(
        n,
        instance_id=HOSTILE_IDS[n],
        group="first" if n < 4 else "rest",
        completion=completion,
        truncated_characters=12 if n == 4 else 0,
        scores=tuple(Score(metric="exact_match", rule=rule, value=value, failure=failure) for rule in RULES),
    )


def _prompt(n: int, *, is_long: bool = False) -> tuple[Instance, Prompt]:
    text = f'Read the question.\nQuestion {n}: which "drug"? Größe {n}. {XSS if n == 0 else ""}'
    text += f"{' hay' * 20_000} needle{' hay' * 20_000}" if is_long else ""
    instance = Instance(
        id=HOSTILE_IDS[n],
        fields={},
        references=(Reference("Aspirin"), Reference("Naloxone", correct=False)),
        choices=("Aspirin", "Naloxone"),
        labels=("A", "B"),
    )
    return instance, Prompt((Message("user", text),))


def add_judged_cases(folder: Path) -> Path:
    """Write the benchmark `notes`: two judges agree on the first instance and differ by the whole scale on the second.

    The judges' explanations are hostile; the third instance has one missing judgment.
    """
    jury = jury_of("lab/judge-a", "lab/judge-b")
    grades = [(4.0, 4.0), (1.0, 5.0), (3.0, None)]
    run = make_run("notes", "lab/good", n=3, main_metric=JURY, jury_result=jury)
    write_run(folder, run, (_judged(n, pair) for n, pair in enumerate(grades)), [JURY])
    return folder


def _judged(n: int, grades: tuple[float, float | None]) -> Record:
    judgments = tuple(
        Judgment(
            judge=judge,
            criterion="accuracy",
            score=grade,
            failure=None if grade is not None else Failure("judge", "malformed_reply", XSS),
            explanation=XSS,
        )
        for judge, grade in zip(("lab/judge-a", "lab/judge-b"), grades, strict=True)
    )
    known = [grade for grade in grades if grade is not None]
    return make_record(
        n,
        completion=Completion(text=f"Note {n}"),
        scores=tuple(Score(metric=JURY, rule=rule, value=sum(known) / len(known)) for rule in RULES),
        jury_verdict=JuryVerdict(scores=(), judgments=judgments, coverage=len(known) / 2),
    )


HELP, HARM = f"Tells to call a doctor. {XSS}", "Names a dose that is too high."
"""Criteria of the benchmark `advice`: the first earns 5 points, the second costs 3."""

NOTE = "First line of the note.\n\n" + "The patient slept. " * 2_000 + "Fever on day 9.\n\n" + "More text. " * 300
"""A long note with one word in its middle."""

ASKED = "What would you advise?"
"""The question behind it."""


def add_points_cases(folder: Path) -> Path:
    """Write the benchmark `advice`: a long prompt, two criteria with points, one model that reasons, and a baseline.

    `lab/wide` meets both criteria, `lab/cut` none and sees the note from its second paragraph on. Judges differ on the
    harm of `lab/wide`.
    """
    texts = {
        "lab/wide": f"## Advice\n\n- **Call** a doctor.\n- {XSS}\n\n" + "Take 900 mg. " * 20,
        "lab/cut": "Wait and see. " * 20,
        "baseline/lexical": "See the note. " * 20,
    }
    decisions = {"lab/wide": ((1.0, 1.0), (1.0, 0.0)), "lab/cut": ((0.0, 0.0), (0.0, 0.0))}
    for model, text in texts.items():
        run = make_run("advice", model, n=1, main_metric=JURY, jury_result=jury_of("lab/judge-a", "lab/judge-b"))
        judgments = tuple(
            Judgment(judge=f"lab/judge-{name}", criterion=criterion, score=score, points=points, explanation="So.")
            for criterion, points, scores in zip(("c1", "c2"), (5.0, -3.0), decisions.get(model, ((), ())), strict=True)
            for name, score in zip("ab", scores, strict=False)
        )
        record = make_record(
            0,
            instance_id="one",
            completion=Completion(text=text, reasoning=f"Which dose? {XSS}" if model == "lab/wide" else ""),
            truncated_characters=25 if model == "lab/cut" else 0,
            scores=tuple(Score(metric=JURY, rule=rule, value=3.0 if judgments else None) for rule in RULES),
            jury_verdict=JuryVerdict(scores=(), judgments=judgments, coverage=1.0) if judgments else None,
        )
        stored = write_run(folder, run, [record], [JURY])
    instance = Instance(
        id="one",
        fields={},
        references=(Reference("Call a doctor."),),
        criteria=(Criterion("c1", HELP, points=5.0), Criterion("c2", HARM, points=-3.0)),
    )
    prompt = Prompt((Message("user", f"Read the note.\n\n{NOTE}\n\n{ASKED}"),))
    write_prompts(
        Store(folder).prompts_file("advice", stored.benchmark_digest, stored.data_digest), [(instance, prompt)]
    )
    return folder
