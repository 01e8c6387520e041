"""Metrics of packages: what is accepted, what is refused, and what becomes of their faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import JURY, Completion, Instance, Reference
from medhelm.errors import UserError
from medhelm.io.plugins import METRICS as GROUP
from medhelm.io.plugins import Plugin
from medhelm.scoring.metric import Metric, accept_metric, apply
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
