"""Metrics of packages: what is accepted, what is refused, and what becomes of their faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import JURY, RULES, Completion, Instance, Reference
from medhelm.errors import DataError, NotComputed, UserError
from medhelm.io.plugins import METRICS as GROUP
from medhelm.io.plugins import Plugin
from medhelm.scoring.metric import EXAMPLES, Metric, accept_metric, apply
from medhelm.scoring.metrics import METRIC_NAMES, METRICS, metrics_of
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.cases import table
from tests.support.plugins import Install

PLUGIN = Plugin(group=GROUP, name="mine", package="ward", version="1.2", target="ward:MINE")
ONE = Instance(id="7", fields={}, references=(Reference("yes"),))


def half(reply: str, instance: Instance) -> float:
    return 0.5


def mine(**changes: Any) -> Metric:
    sound = Metric(
        name="mine", title="Mine", description="Half a point.", source="A test.", published=half, corrected=half
    )
    return replace(sound, **changes)


def raising(error: BaseException) -> Callable[..., float]:
    def rule(*_: object) -> float:
        raise error

    return rule


def giving(*values: object) -> Callable[..., Any]:
    """One value after the other, the last for ever."""
    left = list(values)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


def on_one(function: Callable[[str, Instance], Any], otherwise: Any = 0.5) -> Callable[[str, Instance], Any]:
    """A rule that is sound on the examples, and something else on `ONE`."""
    return lambda reply, instance: function(reply, instance) if instance.id == ONE.id else otherwise


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
        ({"title": ""}, "without a `title`"),
        ({"source": None}, "without a `source`"),
        ({"low": 1.0}, "scale goes from 1.0 to 1.0: `low` must be below `high`"),
        ({"low": math.nan}, "scale goes from nan to 1.0"),
        ({"high": True}, "scale goes from 0.0 to True"),
        ({"corrected": 1.0}, "whose `corrected` is a float"),
        ({"corrected": giving("0.5")}, "`corrected` rule gives a str and not a number for an example"),
        ({"corrected": giving(True)}, "gives a bool and not a number"),
        ({"published": giving(math.nan)}, "`published` rule gives nan and not a finite number for an example"),
        ({"published": giving(1.01)}, "gives 1.01, outside its scale from 0 to 1, for an example"),
        ({"published": giving(0, -1)}, "gives -1, outside its scale"),
        ({"corrected": giving(0.1, 0.2)}, "gives 0.1 and then 0.2 for the same example: it must be pure"),
        ({"corrected": raising(KeyError("gold"))}, "`corrected` rule fails on an example: KeyError: 'gold'"),
        ({"published": lambda reply: 0.5}, "`published` rule fails on an example: TypeError"),
        ({"published": raising(RuntimeError("a\nlast"))}, "RuntimeError: last"),
    ],
)  # fmt: skip
def test_an_invalid_metric_is_reported_before_anything_is_scored(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        accept_metric(PLUGIN, mine(**changes))
    assert words in str(caught.value)
    assert str(caught.value).startswith("ward 1.2 (entry point `mine` of medhelm.metrics) gives a metric ")
    assert str(caught.value).endswith(". Fix the package, or uninstall it.")


@pytest.mark.parametrize("name", ["Mine", "my metric", "1st", "my-metric", "_mine", "é", ""])
def test_a_name_must_be_valid_as_a_column(name: str) -> None:
    with pytest.raises(UserError, match="a name that is not in lower case letters"):
        accept_metric(replace(PLUGIN, name=name), mine(name=name))


@pytest.mark.parametrize("error", [DataError("needs a column `gold`"), NotComputed("needs a model")])
def test_a_metric_may_say_that_it_cannot_score_the_examples(error: DataError) -> None:
    metric = accept_metric(PLUGIN, mine(published=raising(error), corrected=raising(error)))
    failures = [score.failure for score in apply([metric], ONE, Completion(text="x"))]
    assert all(failure is not None and str(error) in failure.message for failure in failures)
    code = "not_computed" if isinstance(error, NotComputed) else "unscorable"
    assert {failure.code for failure in failures if failure} == {code}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (raising(ZeroDivisionError("by zero")), "ward 1.2 (entry point `mine` of medhelm.metrics) failed: ZeroDiv"),
        (giving(math.nan), "gave nan and not a finite number"),
        (giving(7), "gave 7, outside its scale from 0 to 1"),
        (giving("x"), "gave a str and not a number"),
    ],
)
def test_an_error_is_a_missing_score_with_a_reason(wrong: Callable[..., Any], words: str) -> None:
    metric = accept_metric(PLUGIN, mine(corrected=on_one(wrong)))
    corrected, published = apply([metric], ONE, Completion(text="x"))
    assert (corrected.value, published.value) == (None, 0.5)
    assert corrected.failure is not None
    assert (corrected.failure.boundary, corrected.failure.code) == ("metric", "unscorable")
    assert words in corrected.failure.message


def test_whole_numbers_become_numbers_like_all_others() -> None:
    metric = accept_metric(PLUGIN, mine(corrected=giving(1)))
    assert type(metric.corrected("x", ONE)) is float


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


def test_explanations_are_guarded_too() -> None:
    metric = accept_metric(PLUGIN, mine(explain=raising(IndexError("out"))))
    with pytest.raises(DataError, match="failed: IndexError: out"):
        metric.explain("x", ONE, "corrected")


def test_the_examples_are_questions_that_built_in_metrics_can_score() -> None:
    assert [instance.expected for _, instance in EXAMPLES] == ["B", "Rest and fluids.", "none"]
    for name, rule, (reply, instance) in product(("exact_match", "rouge_1"), RULES, EXAMPLES):
        assert 0 <= METRICS[name].function(rule)(reply, instance) <= 1


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
    assert "parity" in METRIC_NAMES
    assert "parity" in METRICS
    assert (len(METRICS), len(METRIC_NAMES)) == (before + 1, before + 2)
    assert list(METRICS)[-1] == "parity"
    assert list(METRIC_NAMES)[-2:] == ["parity", JURY]
    assert METRICS["exact_match"].title != "T"
    assert JURY not in METRICS
    assert {plugin.name for plugin in METRICS.problems()} == {"exact_match", JURY}
    benchmark = replace(make_benchmark(tmp_path), metrics=("parity", "exact_match"))
    assert [metric.name for metric in metrics_of(benchmark, judged=False)] == ["parity", "exact_match"]
    assert len(metrics_of(benchmark, judged=False, harness="lm_eval")) == 2
