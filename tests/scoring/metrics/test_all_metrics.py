"""What every metric promises."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import RULES, Instance, Reference, Rule
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.library import sample_tier
from tests.support.benchmarks.questions import choice
from tests.support.cases import table


def calculation(number: str, calculator: int, category: str, low: str = "", high: str = "") -> Instance:
    metadata = {
        "Calculator ID": str(calculator),
        "Category": category,
        "Lower Limit": low or number,
        "Upper Limit": high or number,
    }
    return Instance(id=number, fields={}, references=(Reference(number),), metadata=metadata)


CHOICES = [
    choice(0, "yes", "no", "maybe"),
    choice(1, "A", "B"),
    choice(0, "0", "1", by_text=True),
    choice(1, "yes", "no", by_text=True),
    choice(4, "E. coli", "B lymphocytes", "No", "No change", "None of the above"),
    choice(2, "Not applicable", "fever", "Not applicable"),
]
OPEN = [
    Instance(id=text, fields={}, references=(Reference(text),)) for text in ("yes", "3.5 mg", " the ", ".", "東京", "A")
]
CALCULATIONS = [
    calculation("22.86", 6, "physical", "21.717", "24.003"),
    calculation("-1", 16, "risk"),
    calculation("09/23/2014", 13, "date"),
    calculation("('14 weeks', '2 days')", 69, "date"),
]


def reference(text: str, **metadata: str) -> Instance:
    return Instance(id=text, fields={}, references=(Reference(text),), metadata=metadata)


NOTES = [reference("CORRECT"), reference("10 Oseltamivir is started."), reference("0 The patient is 54 years old.")]
CODED = [reference("I10."), reference("I10., E11.9, J18.9"), reference("S72.001A, 02HV33Z, Z3A.20, E11.65")]
LABELLED = [reference("asthma"), reference("asthma, COPD; heart failure"), reference("1. asthma\n2. type 2 diabetes")]
NUMBERS = [
    reference("27.4"),
    reference("27.4", tolerance_percent="5"),
    reference("-0.8", tolerance="0.04"),
    reference("3", low="-inf", high="4"),
]
SUMMARIES = [
    Instance(
        id=text[:12],
        fields={"note": f"Seen in clinic today. {text} Return in two weeks."},
        references=(Reference(text),),
    )
    for text in ("No acute distress.", "Lisinopril 10 mg is continued; the cough has resolved.")
]
QUERIES = [instance for instance in sample_tier("ehrsql") if instance.expected != "null"][:3]
FITTING = {
    "balanced_accuracy": CHOICES,
    "choice_extracted": CHOICES,
    "medcalc_accuracy": CALCULATIONS,
    "numeric_tolerance": NUMBERS,
    **dict.fromkeys(("medec_flag_accuracy", "medec_sentence_accuracy"), NOTES),
    **dict.fromkeys(("icd_f1", "icd_precision", "icd_recall", "icd_micro_f1"), CODED),
    **dict.fromkeys(("label_f1", "label_micro_f1", "label_macro_f1"), LABELLED),
    **dict.fromkeys(("rouge_1", "rouge_2", "rouge_l", "coverage", "density", "compression"), SUMMARIES),
    **dict.fromkeys(("sql_execution_accuracy", "sql_precision", "sql_recall", "sql_validity"), QUERIES),
    # They need a model, which their own tests bring.
    **{name: [] for name in ("bertscore", "bertscore_precision", "bertscore_recall")},
}
"""What a metric is for, where that is not questions of every kind."""

CASES = [(metric, instance) for metric in METRICS.values() for instance in FITTING.get(metric.name, CHOICES + OPEN)]

FAULTS = {
    ("medec_flag_accuracy", NOTES[1].id): "a blank says that there is an error",
    ("medec_flag_accuracy", NOTES[2].id): "a blank says that there is an error",
    ("medec_sentence_accuracy", NOTES[1].id): "the sentence is never found",
    ("medec_sentence_accuracy", NOTES[2].id): "the sentence is never found",
}
"""Where the published rule breaks a promise: metric and instance -> its fault."""

every_case = table(
    ("metric", "instance", "rule"),
    [pytest.param(m, i, rule, id=f"{m.name}-{i.id}-{rule}") for m, i in CASES for rule in RULES],
)


@table("metric", METRICS.values(), ids=METRICS)
def test_every_metric_says_what_it_is(metric: Metric) -> None:
    assert metric.title
    assert metric.description.endswith(".")
    assert metric.source
    assert metric.low < metric.high
    assert metric.best in (metric.low, metric.high)


@every_case
def test_the_expected_answer_gets_the_best_value(metric: Metric, instance: Instance, rule: Rule) -> None:
    if rule == "published" and FAULTS.get((metric.name, instance.id)) == "the sentence is never found":
        assert metric.function("published")(instance.expected, instance) == metric.low
        return
    if metric.descriptive:
        assert metric.low < metric.function(rule)(instance.expected, instance) < metric.high
        return
    assert metric.function(rule)(instance.expected, instance) == metric.best
    assert metric.function(rule)(f"\n {instance.expected}\t", instance) == metric.best
    assert metric.explain(instance.expected, instance, "corrected") == ""


NEEDS_NO_REFERENCE = ("choice_extracted", "coverage", "density", "compression")


@table("metric", [metric for metric in METRICS.values() if metric.name not in NEEDS_NO_REFERENCE])
def test_without_a_right_reference_there_is_no_score(metric: Metric) -> None:
    wrong = replace(CHOICES[0], references=(Reference("yes", correct=False),))
    for rule in RULES:
        with pytest.raises(DataError):
            metric.function(rule)("yes", wrong)


@every_case
def test_an_empty_completion_scores_0(metric: Metric, instance: Instance, rule: Rule) -> None:
    if rule == "published" and FAULTS.get((metric.name, instance.id)) == "a blank says that there is an error":
        assert metric.function("published")("", instance) == metric.best
        return
    assert metric.function(rule)("", instance) == metric.low
    assert metric.function(rule)(" \n\t", instance) == metric.low


@every_case
def test_the_reference_scores_in_every_part_and_an_empty_completion_in_none(
    metric: Metric, instance: Instance, rule: Rule
) -> None:
    if metric.parts is None:
        return
    assert all(above == below > 0 for above, below in metric.parts(instance.expected, instance, rule).values())
    assert all(above == 0 < below for above, below in metric.parts("", instance, rule).values())


@given(st.sampled_from(CASES), st.sampled_from(get_args(Rule)), st.text())
def test_any_text_scores_within_bounds(case: tuple[Metric, Instance], rule: Rule, reply: str) -> None:
    metric, instance = case
    assert metric.low <= metric.function(rule)(reply, instance) <= metric.high
    assert isinstance(metric.explain(reply, instance, "published"), str)


@given(st.sampled_from(CASES), st.text())
def test_what_the_published_rule_accepts_word_for_word_is_accepted(case: tuple[Metric, Instance], reply: str) -> None:
    metric, instance = case
    if metric.name in ("exact_match", "choice_extracted", "medcalc_accuracy") and metric.function("published")(
        reply, instance
    ):
        assert metric.corrected(reply, instance)
