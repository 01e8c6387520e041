"""What every metric promises."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import RULES, Instance, Reference, Rule
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import METRICS


def calculation(number: str, calculator: int, category: str, low: str = "", high: str = "") -> Instance:
    metadata = {
        "Calculator ID": str(calculator),
        "Category": category,
        "Lower Limit": low or number,
        "Upper Limit": high or number,
    }
    return Instance(id=number, fields={}, references=(Reference(number),), metadata=metadata)


def choice(right: int, *texts: str, by_text: bool = False) -> Instance:
    return Instance(
        id=texts[right],
        fields={},
        references=tuple(Reference(text, n == right) for n, text in enumerate(texts)),
        choices=texts,
        labels=texts if by_text else tuple("ABCDE"[: len(texts)]),
    )


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
CASES = [
    (metric, instance)
    for metric in METRICS.values()
    for instance in (
        CALCULATIONS
        if metric.name == "medcalc_accuracy"
        else CHOICES
        if metric.name == "choice_extracted"
        else CHOICES + OPEN
    )
]
every_case = pytest.mark.parametrize(("metric", "instance"), CASES, ids=[f"{m.name}-{i.id}" for m, i in CASES])
every_rule = pytest.mark.parametrize("rule", RULES)


def test_names_are_keys() -> None:
    assert {name: metric.name for name, metric in METRICS.items()} == {name: name for name in METRICS}
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_says_what_it_is(metric: Metric) -> None:
    assert metric.title
    assert metric.description.endswith(".")
    assert metric.source
    assert metric.low < metric.high
    assert metric.best in (metric.low, metric.high)


@every_rule
@every_case
def test_the_expected_answer_gets_the_best_value(metric: Metric, instance: Instance, rule: Rule) -> None:
    assert metric.rating(rule)(instance.expected, instance) == metric.best
    assert metric.rating(rule)(f"\n {instance.expected}\t", instance) == metric.best
    assert metric.explain(instance.expected, instance, "corrected") == ""


@every_rule
@every_case
def test_silence_scores_nothing(metric: Metric, instance: Instance, rule: Rule) -> None:
    assert metric.rating(rule)("", instance) == metric.low
    assert metric.rating(rule)(" \n\t", instance) == metric.low


@every_case
def test_a_right_answer_is_right_in_a_frame(metric: Metric, instance: Instance) -> None:
    if instance.choices:
        for frame in ("**{}**", "The answer is {}.", "\\boxed{{{}}}", "<think>Hm.</think>{}"):
            assert metric.corrected(frame.format(instance.expected), instance) == metric.best


@settings(deadline=None)
@given(st.sampled_from(CASES), st.sampled_from(get_args(Rule)), st.text())
def test_any_text_scores_within_bounds(case: tuple[Metric, Instance], rule: Rule, reply: str) -> None:
    metric, instance = case
    assert metric.low <= metric.rating(rule)(reply, instance) <= metric.high
    assert isinstance(metric.explain(reply, instance, "published"), str)


@settings(deadline=None)
@given(st.sampled_from(CASES), st.text())
def test_what_the_published_rule_accepts_word_for_word_is_accepted(case: tuple[Metric, Instance], reply: str) -> None:
    metric, instance = case
    if metric.name in ("exact_match", "choice_extracted", "medcalc_accuracy") and metric.published(reply, instance):
        assert metric.corrected(reply, instance)


@settings(deadline=None)
@given(st.sampled_from(CASES), st.text(max_size=3), st.text(max_size=3))
def test_so_it_is_near_the_right_answer(case: tuple[Metric, Instance], before: str, after: str) -> None:
    metric, instance = case
    reply = before + instance.expected + after
    for rule in RULES:
        assert metric.low <= metric.rating(rule)(reply, instance) <= metric.high
