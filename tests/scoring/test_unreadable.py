"""Completions in which the main metric finds no answer: one property of every metric that reads one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medhelm.domain import Completion, Failure, Instance
from medhelm.errors import UserError
from medhelm.io.plugins import Plugin
from medhelm.scoring.metric import AnswerReader, Metric, accept_metric, apply, is_unreadable
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import choice, open_question
from tests.support.cases import table

SCORES_ANY_TEXT = {
    *("rouge_l", "rouge_1", "rouge_2", "bertscore", "bertscore_precision", "bertscore_recall"),
    *("coverage", "density", "compression"),
}

CHOICE = choice(1, "Warfarin", "Aspirin")
NUMBER = open_question("22.9")
POINTS = open_question("3", **{"Calculator ID": "4", "Category": "risk"})
NOTE = open_question("3 Give insulin.")
LABELS = open_question("asthma, copd")
CODES = open_question("I10, E53.8")
QUERY = open_question("select 1", database="missing.sqlite")

PROSE = "Both are interesting, and more tests would help."


def test_every_metric_reads_an_answer_or_scores_any_text() -> None:
    assert {name for name in METRICS.built_in if METRICS[name].reads is None} == SCORES_ANY_TEXT


@table(
    ("metric", "instance", "text", "unreadable"),
    [
        ("exact_match", CHOICE, PROSE, True),
        ("exact_match", CHOICE, "<think>The answer is B.</think>Both.", True),
        ("exact_match", NUMBER, PROSE, False),  # an open question: any text is an answer
        ("numeric_tolerance", NUMBER, PROSE, True),
        ("medcalc_accuracy", POINTS, "The score is 7.", False),
        ("medec_flag_accuracy", NOTE, "CORRECT", False),
        ("medec_sentence_accuracy", NOTE, PROSE, True),
        ("label_f1", LABELS, "cancer", False),
        ("label_micro_f1", LABELS, "***", True),
        ("icd_f1", CODES, PROSE, True),
        ("icd_micro_f1", CODES, "None.", False),
        ("icd_f1", CODES, "```json\n[]\n```", False),
        ("sql_execution_accuracy", QUERY, PROSE, True),
        ("rouge_l", NUMBER, PROSE, None),
    ],
)
def test_the_reader_of_the_metric_decides(metric: str, instance: Instance, text: str, unreadable: bool | None) -> None:
    one = METRICS[metric]
    completion = Completion(text=text)
    assert is_unreadable(one, instance, completion, apply([one], instance, completion)) is unreadable


@pytest.mark.parametrize("text", ["", " \n", "<think>The answer is B.</think>", "<think>The answer is B"])
def test_a_blank_completion_is_blank_and_not_unreadable(text: str) -> None:
    assert is_unreadable(METRICS["exact_match"], CHOICE, Completion(text=text)) is None


def test_what_cannot_be_scored_is_not_unreadable() -> None:
    failed = Completion(failure=Failure("provider", "timeout", "late"))
    assert is_unreadable(METRICS["exact_match"], CHOICE, failed) is None
    lacking = replace(CHOICE, labels=("A",))
    assert is_unreadable(METRICS["exact_match"], lacking, Completion(text=PROSE)) is None
    assert is_unreadable(METRICS["exact_match"], CHOICE, Completion(text="x" * 1_000_001)) is None


def test_a_metric_of_a_package_brings_its_own_reader() -> None:
    plugin = Plugin(group="medhelm.metrics", name="dose", package="p", version="1", target="p:DOSE")
    reader = AnswerReader("dose", lambda text, _: text.index("mg") if "mg" in text else 1 // 0)
    metric = Metric(name="dose", title="Dose", description="D.", source="S.", corrected=lambda *_: 1.0, reads=reader)
    accepted = accept_metric(plugin, metric)
    assert is_unreadable(accepted, CHOICE, Completion(text="81 mg")) is False
    assert is_unreadable(accepted, CHOICE, Completion(text="none")) is None, "its error is not a finding"
    with pytest.raises(UserError, match="`reads`"):
        accept_metric(plugin, replace(metric, reads=len))  # type: ignore[arg-type]
