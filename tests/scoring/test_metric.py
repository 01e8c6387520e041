"""How metrics are applied to completions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medhelm.domain import RULES, Completion, Failure, Instance, Reference
from medhelm.errors import NotComputed
from medhelm.scoring.metric import MAX_CHARACTERS, Metric, apply
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import choice

INSTANCE = choice(0, "yes", "no")


def metric(name: str = "x", **changes: Any) -> Metric:
    """A metric that gives 0 by the published and 1 by the corrected rule."""
    constant = Metric(
        name=name,
        title=name,
        description="A constant.",
        source="this test",
        published=lambda reply, instance: 0.0,
        corrected=lambda reply, instance: 1.0,
    )
    return replace(constant, **changes)


def raising(error: Exception) -> Callable[[str, Instance], float]:
    def rule(reply: str, instance: Instance) -> float:
        raise error

    return rule


def test_one_score_for_each_metric_and_rule_in_order() -> None:
    scores = apply([metric("one"), metric("two", published=lambda *_: 0.25)], INSTANCE, Completion(text="A"))
    assert [(score.metric, score.rule, score.value) for score in scores] == [
        ("one", "corrected", 1.0),
        ("one", "published", 0.0),
        ("two", "corrected", 1.0),
        ("two", "published", 0.25),
    ]
    assert all(score.failure is None for score in scores)
    assert metric().explain("A", INSTANCE, "corrected") == "", "nothing to explain"


def test_a_failed_completion_has_no_score_but_its_failure() -> None:
    failure = Failure("provider", "timeout", "no answer within 60 s")
    scores = apply(list(METRICS.values()), INSTANCE, Completion(failure=failure))
    assert len(scores) == len(METRICS) * len(RULES)
    assert all(score.value is None and score.failure is failure for score in scores)


def test_an_empty_answer_is_an_answer() -> None:
    scores = apply([METRICS["exact_match"]], INSTANCE, Completion(text=""))
    assert [(score.value, score.failure) for score in scores] == [(0.0, None), (0.0, None)]


def test_text_longer_than_any_limit_is_not_scored() -> None:
    found = metric("one")
    (longest, _) = apply([found], INSTANCE, Completion(text="a" * MAX_CHARACTERS))
    assert longest.value == 1.0
    for score in apply([found], INSTANCE, Completion(text="a" * (MAX_CHARACTERS + 1))):
        assert (score.value, score.failure and score.failure.code) == (None, "unscorable")
        assert "has 1,000,001 characters; more than 1,000,000 are not scored" in str(score.failure)


def test_an_instance_that_cannot_be_scored_fails_with_a_reason() -> None:
    instance = Instance(id="7", fields={}, references=(Reference("yes", correct=False),))
    for score in apply([METRICS["exact_match"]], instance, Completion(text="A")):
        assert score.value is None
        assert score.failure is not None
        assert (score.failure.boundary, score.failure.code) == ("metric", "unscorable")
        assert "exact_match, instance 7: no reference" in score.failure.message


def test_one_metric_that_cannot_score_does_not_stop_the_others() -> None:
    open_question = Instance(id="7", fields={}, references=(Reference("yes"),))
    scores = apply([METRICS["choice_extracted"], METRICS["exact_match"]], open_question, Completion(text="yes"))
    assert [score.value for score in scores] == [None, None, 1.0, 1.0]


def test_other_errors_are_faults_of_the_program() -> None:
    with pytest.raises(ZeroDivisionError):
        apply([metric(published=raising(ZeroDivisionError()))], INSTANCE, Completion(text="A"))


def test_a_metric_with_missing_requirements_is_not_computed() -> None:
    absent = raising(NotComputed("needs a package"))
    for score in apply([metric(published=absent, corrected=absent)], INSTANCE, Completion(text="A")):
        assert score.value is None
        assert score.failure == Failure("metric", "not_computed", "needs a package")


def test_parts_come_with_the_score_and_by_the_published_rule_an_instance_counts_for_its_group() -> None:
    grouped, ratio = replace(INSTANCE, group="ward"), metric(parts=lambda reply, instance, rule: {rule: (1.0, 2.0)})
    scores = apply([ratio, metric("y", published=lambda *_: 0.25)], grouped, Completion(text="A"))
    assert [score.parts for score in scores] == [
        {"corrected": (1.0, 2.0)},
        {"published": (1.0, 2.0)},
        {},
        {"ward": (0.25, 1.0)},
    ]
