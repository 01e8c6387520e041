"""How metrics are applied to completions, what they cannot read, and what becomes of metrics of packages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import JURY, RULES, Completion, Failure, Instance, Reference
from medhelm.errors import NotComputed, UserError
from medhelm.io.plugins import METRICS as GROUP
from medhelm.io.plugins import Plugin
from medhelm.scoring.metric import MAX_CHARACTERS, AnswerReader, Metric, accept_metric, apply, is_unreadable
from medhelm.scoring.metrics import METRIC_NAMES, METRICS, metrics_of
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.benchmarks.questions import choice, open_question
from tests.support.cases import table
from tests.support.plugins import Install

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


def raising(error: BaseException) -> Callable[..., float]:
    def rule(*_: object) -> float:
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


# --- completions in which the main metric finds no answer -------------------------------------------------------------


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


# --- metrics of packages ----------------------------------------------------------------------------------------------


PLUGIN = Plugin(group=GROUP, name="mine", package="ward", version="1.2", target="ward:MINE")
ONE = Instance(id="7", fields={}, references=(Reference("yes"),))


def half(reply: str, instance: Instance) -> float:
    return 0.5


def mine(**changes: Any) -> Metric:
    sound = Metric(
        name="mine", title="Mine", description="Half a point.", source="A test.", published=half, corrected=half
    )
    return replace(sound, **changes)


def giving(*values: object) -> Callable[..., Any]:
    """One value after the other, the last for ever."""
    left = list(values)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


def test_a_valid_metric_keeps_its_fields_and_values() -> None:
    metric = accept_metric(PLUGIN, mine(low=-1, high=2.5, higher_is_better=False, slow=True, descriptive=True))
    assert (metric.name, metric.title, metric.low, metric.high, metric.best) == ("mine", "Mine", -1, 2.5, -1)
    assert (metric.slow, metric.descriptive, metric.parts) == (True, True, None)
    assert [score.value for score in apply([metric], ONE, Completion(text="x"))] == [0.5, 0.5]
    assert metric.explain("x", ONE, "corrected") == ""


@pytest.mark.parametrize("found", [None, 0.5, "mine", half, {"name": "mine"}, Metric])
def test_objects_that_are_not_metrics_are_refused(found: object) -> None:
    with pytest.raises(
        UserError, match=r"ward 1\.2 \(entry point `mine` of medhelm\.metrics\) is an? \w+, where a medhelm"
    ):
        accept_metric(PLUGIN, found)


@table(
    ("changes", "words"),
    [
        ({"name": "other"}, "gives a metric named `other`: entry point and metric need the same name"),
        ({"source": None}, "without a `source`"),
        ({"low": 1.0}, "scale goes from 1.0 to 1.0: `low` must be below `high`"),
        ({"corrected": 1.0}, "whose `corrected` is a float"),
        ({"corrected": giving("0.5")}, "`corrected` rule gives a str and not a number for an example"),
        ({"published": giving(math.nan)}, "`published` rule gives nan and not a finite number for an example"),
        ({"published": giving(1.01)}, "gives 1.01, outside its scale from 0 to 1, for an example"),
        ({"corrected": giving(0.1, 0.2)}, "gives 0.1 and then 0.2 for the same example: it must be pure"),
        ({"corrected": raising(KeyError("gold"))}, "`corrected` rule fails on an example: KeyError: 'gold'"),
        ({"published": lambda reply: 0.5}, "`published` rule fails on an example: TypeError"),
    ],
)  # fmt: skip
def test_an_invalid_metric_is_reported_before_anything_is_scored(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        accept_metric(PLUGIN, mine(**changes))
    assert words in str(caught.value)
    assert str(caught.value).startswith("ward 1.2 (entry point `mine` of medhelm.metrics) gives a metric ")
    assert str(caught.value).endswith(". Fix the package, or uninstall it.")


@pytest.mark.parametrize("name", ["my metric", "1st", "_mine", "é", ""])
def test_a_name_must_be_valid_as_a_column(name: str) -> None:
    with pytest.raises(UserError, match="a name that is not in lower case letters"):
        accept_metric(replace(PLUGIN, name=name), mine(name=name))


@pytest.mark.parametrize(
    "parts",
    [giving(None), giving({"a": 1.0}), giving({1: (1.0, 1.0)}), giving({"a": (1.0, math.nan)}), raising(KeyError("k"))],
)
def test_parts_are_guarded_too(parts: Callable[..., Any]) -> None:
    sound = accept_metric(PLUGIN, mine(parts=giving({"a": (1.0, 2.0)})))
    assert sound.parts is not None
    assert sound.parts("x", ONE, "corrected") == {"a": (1.0, 2.0)}
    broken = accept_metric(PLUGIN, mine(parts=lambda *_: parts()))
    assert all(score.failure is not None for score in apply([broken], ONE, Completion(text="x")))


CODE = """
from medhelm.scoring.metric import Metric

def rule(reply, instance):
    return float(len(reply) % 2)

PARITY = Metric(name="parity", title="Parity", description="D.", source="S.", published=rule, corrected=rule)
TAKEN = Metric(name="exact_match", title="T", description="D.", source="S.", published=rule, corrected=rule)
"""


def test_metrics_of_packages_are_known_wherever_metrics_are(install: Install, tmp_path: Path) -> None:
    before = len(METRICS)
    install("odd", CODE, metrics={"parity": "PARITY", "exact_match": "TAKEN", JURY: "PARITY"})
    assert (len(METRICS), list(METRICS)[-1]) == (before + 1, "parity")
    assert list(METRIC_NAMES)[-2:] == ["parity", JURY]
    assert METRICS["exact_match"].title != "T"
    assert {plugin.name for plugin in METRICS.problems()} == {"exact_match", JURY}
    benchmark = replace(make_benchmark(tmp_path), metrics=("parity", "exact_match"))
    assert [metric.name for metric in metrics_of(benchmark, judged=False)] == ["parity", "exact_match"]
    assert len(metrics_of(benchmark, judged=False, harness="lm_eval")) == 2
