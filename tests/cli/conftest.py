"""Fixtures of the tests of several commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.benchmarks.batched import BatchRuns, N, respond, write_models
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.vendors import KEYS


@pytest.fixture
def batches(medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchRuns]:
    """Commands on nine questions, with models and judges at a server that speaks the batch APIs and is never slow."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    monkeypatch.setattr("medhelm.evaluation.batches.FIRST_POLL_S", 0.005)
    monkeypatch.setattr("medhelm.evaluation.batches.FIRST_RETRY_S", 0.001)
    with BatchServer() as services:
        services.answer_with(respond)
        models = write_models(tmp_path / "models.yaml", services)
        yield BatchRuns(medhelm, services, models, make_benchmark(tmp_path, n=N))
