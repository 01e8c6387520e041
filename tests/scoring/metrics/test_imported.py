"""Metrics on instances that were read from the files of another harness."""

from __future__ import annotations

import pytest

from medhelm.domain import RULES, Completion, Instance, Reference
from medhelm.errors import NotComputed
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.metrics.imported import imported_metric, needed_columns, on_imported_instances
from tests.support.cases import table

BARE = Instance(id="1", fields={"input": "x"}, references=(Reference("22.9"),))


def test_a_metric_of_another_harness_gives_no_number_here() -> None:
    metric = imported_metric("summac", "helm")
    assert metric.name == "summac"
    for score in apply([metric], BARE, Completion(text="x")):
        assert score.value is None
        assert score.failure is not None
        assert score.failure.code == "not_computed"


@pytest.mark.parametrize("name", [name for name in METRICS if needed_columns(name)])
def test_a_missing_column_is_named_and_nothing_is_computed(name: str) -> None:
    metric = on_imported_instances(METRICS[name], "helm")
    for score in apply([metric], BARE, Completion(text="22.9")):
        assert score.failure is not None
        assert score.failure.code == "not_computed"
        assert "--data" in score.failure.message
    if metric.parts:
        with pytest.raises(NotComputed):
            metric.parts("22.9", BARE, "corrected")


@table("name", [name for name in METRICS if not needed_columns(name)])
def test_all_other_metrics_are_unchanged(name: str) -> None:
    assert on_imported_instances(METRICS[name], "helm") is METRICS[name]


def test_with_its_columns_a_metric_gives_its_own_numbers() -> None:
    limits = {"Category": "physical", "Calculator ID": "6", "Lower Limit": "21.7", "Upper Limit": "24.0"}
    one = Instance(id="1", fields={}, references=(Reference("22.9"),), metadata=limits)
    metric = on_imported_instances(METRICS["medcalc_accuracy"], "helm")
    for rule in RULES:
        assert metric.function(rule)("22.9", one) == METRICS["medcalc_accuracy"].function(rule)("22.9", one) == 1.0
    without = Instance(id="1", fields={}, references=(Reference("22.9"),), metadata={"Category": "physical", **{
        name: limits[name] for name in ("Lower Limit", "Upper Limit")}})  # fmt: skip
    assert metric.function("published")("22.9", without) == 1.0
    with pytest.raises(NotComputed, match="Calculator ID"):
        metric.corrected("22.9", without)
