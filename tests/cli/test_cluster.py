"""`--cluster` of commands, without a cluster: what is refused before anything is sent, and what needs none."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.extensions.cluster import ray as connection
from tests.support.benchmarks.choice import DEFINITION, make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.plugins import Install

METRIC = """
from medhelm.scoring.metric import Metric

NEURAL = Metric(
    name="ward_length",
    title="Length",
    description="In place of a neural network's number.",
    source="This test",
    corrected=lambda completion, instance: 0.5,
    neural=True,
)
"""


@pytest.fixture
def neural(tmp_path: Path, install: Install) -> Path:
    """A benchmark with a neural metric."""
    pytest.importorskip("ray", reason="Ray comes with the extra ray")
    install("ward", METRIC, metrics={"ward_length": "NEURAL"})
    place = make_benchmark(tmp_path)
    text = DEFINITION.format(name="toy").replace("metrics: [exact_match,", "metrics: [exact_match, ward_length,")
    (place / "benchmark.yaml").write_text(text, encoding="utf-8")
    return place


def test_without_a_cluster_nothing_is_stored(
    neural: Path, medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run, message = ("run", neural, "--model", "baseline/majority"), "this machine belongs to no Ray cluster"
    assert_refused(medhelm(*run, "--cluster", "auto"), message)
    assert medhelm(*run).code == 0
    monkeypatch.setenv("MEDHELM_CLUSTER", "auto")
    assert_refused(medhelm("rescore", neural), message)
    monkeypatch.setattr("socket.create_connection", lambda *_: pytest.fail("a connection"))
    assert_refused(medhelm(*run, "--cluster", "10.0.0.5:6379", "--offline"), "the cluster has 10.0.0.5")
    monkeypatch.setattr(connection, "find_spec", lambda name: None)
    assert_refused(medhelm(*run), "pip install '.[ray]'", code=4)


def test_an_evaluation_that_needs_no_cluster_joins_none(tmp_path: Path, medhelm: Medhelm) -> None:
    run = ("run", make_benchmark(tmp_path), "--model", "baseline/majority")
    assert_refused(medhelm(*run, "--actors", "2"), "--actors 2 is for a cluster: add --cluster auto")
    assert "--cluster has no effect" in succeeded(medhelm(*run, "--cluster", "ray://nowhere:1")).err
