"""Metrics on a cluster: the scores of one process, in the same order, and a reason where actors were lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from medhelm.domain import Completion, Failure, Instance, Reference, Score
from medhelm.errors import ProviderError
from medhelm.extensions.cluster.ray import RayCluster
from medhelm.io.http.hosts import Subject
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRICS
from tests.support.plugins import Install

PLUGIN = """
from medhelm.scoring.metric import Metric

NEURAL = Metric(
    name="ward_length",
    title="Length",
    description="In place of a neural network's number.",
    source="This test",
    corrected=lambda completion, instance: min(1.0, len(completion) / 10),
    slow=True,
    neural=True,
)
"""

INSTANCE = Instance(id="1", fields={"question": "why?"}, references=(Reference("because"),))


class FakeCluster:
    """Computes in this process."""

    size = 1

    def __init__(self, error: ProviderError | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._error = error

    async def call(self, method: str, *arguments: Any, subject: Subject, n_bytes: int) -> Any:
        if self._error:
            raise self._error
        function, *rest = arguments
        self.calls.append((method, rest[0], subject, n_bytes))
        module, _, name = function.partition(":")
        return getattr(import_module(f"medhelm.{module}"), name)(*rest)

    async def close(self) -> None:
        return


@pytest.fixture
def metrics(install: Install) -> list[Metric]:
    install("ward", PLUGIN, metrics={"ward_length": "NEURAL"})
    return [METRICS["rouge_l"], METRICS["ward_length"], METRICS["exact_match"]]


def score(cluster: FakeCluster, metrics: list[Metric], completion: Completion) -> tuple[Score, ...]:
    return asyncio.run(RayCluster(cluster).apply(metrics, INSTANCE, completion, Subject("m", "b")))


@pytest.mark.parametrize(
    "completion",
    [Completion(text="because of it"), Completion(text=""), Completion(failure=Failure("provider", "timeout", "late"))],
)
def test_scores_are_those_of_one_process(metrics: list[Metric], completion: Completion) -> None:
    cluster = FakeCluster()
    assert score(cluster, metrics, completion) == apply(metrics, INSTANCE, completion)
    if completion.failure:
        assert cluster.calls == []
    else:
        n_bytes = len(f"{completion.text}becausewhy?")
        assert cluster.calls == [("compute", ["ward_length"], Subject("m", "b"), n_bytes)]


def test_without_neural_metrics_nothing_is_sent(metrics: list[Metric]) -> None:
    cluster = FakeCluster()
    others = [replace(metric, neural=False) for metric in metrics]
    assert score(cluster, others, Completion(text="x")) == apply(metrics, INSTANCE, Completion(text="x"))
    assert cluster.calls == []


def test_scores_that_ended_every_actor_are_missing(metrics: list[Metric]) -> None:
    found = score(FakeCluster(ProviderError("actor_lost", "3 actors were lost")), metrics, Completion(text="x"))
    missing = [each for each in found if each.value is None]
    assert {each.metric for each in missing} == {"ward_length"}
    assert {each.failure for each in missing} == {Failure("metric", "not_computed", "3 actors were lost")}
    assert [each.metric for each in found[::2]] == ["rouge_l", "ward_length", "exact_match"]
