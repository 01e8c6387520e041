"""An evaluation on a real Ray cluster of this machine: the results of one process, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.tools.ray_nodes import RayNodes, ray_nodes
from medhelm.storage.audit import read_audit_log
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support import programs
from tests.support.benchmarks.choice import DEFINITION, make_benchmark
from tests.support.plugins import write_metadata
from tests.support.running import eventually

pytest.importorskip("ray", reason="Ray comes with the extra ray")

PLUGIN = '''
import asyncio
import hashlib
import os
import signal

from medhelm.domain import Completion, Usage
from medhelm.models.provider import Provider
from medhelm.scoring.metric import Metric


class Engine(Provider):
    """A model in this process: its text depends on the prompt alone."""

    endpoint = "ward"
    starts_at_maximum = True

    async def complete(self, request):
        text = request.prompt.messages[-1].text
        with open(os.environ["WARD_LOG"], "a", encoding="utf-8") as log:
            log.write(f"{os.getpid()} {request.digest.hex()}\\n")
        await asyncio.sleep(0.1)
        digest = hashlib.sha256(text.encode()).digest()
        return Completion(text="AB"[digest[0] % 2], finish_reason="stop", usage=Usage(input=20, output=1))


def open_engine(model, context):
    return Engine()


open_engine.on_cluster = True


def similarity(completion, instance):
    return int(hashlib.sha256(f"{completion} {instance.expected}".encode()).hexdigest()[:4], 16) / 0xFFFF


SIMILARITY = Metric(
    name="ward_similarity",
    title="Similarity",
    description="In place of a neural network's number.",
    source="This test",
    corrected=similarity,
    slow=True,
    neural=True,
)
'''

N, PER_ACTOR = 240, 4
"""Instances, and requests in flight for each actor."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-in, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "ward_engine.py").write_text(PLUGIN, encoding="utf-8")
    groups = {
        "medhelm.providers": {"ward": "ward_engine:open_engine"},
        "medhelm.metrics": {"ward_similarity": "ward_engine:SIMILARITY"},
    }
    write_metadata(folder, "ward", "0.1", groups)
    return folder


@pytest.fixture(scope="module")
def three_nodes(site: Path) -> Iterator[RayNodes]:
    """A cluster that requires a token."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 3}
    with ray_nodes(3, PYTHONPATH=str(site), WARD_LOG=str(site / "log"), **token) as nodes:
        yield nodes


def benchmark_of(folder: Path, n: int) -> Path:
    made = make_benchmark(folder, n=n)
    text = DEFINITION.format(name="toy").replace("metrics: [exact_match,", "metrics: [exact_match, ward_similarity,")
    (made / "benchmark.yaml").write_text(text, encoding="utf-8")
    return made


def start(nodes: RayNodes, benchmark: Path, store: Path, *options: str) -> subprocess.Popen[str]:
    words = ("run", str(benchmark), "--model", "ward/x", "--store", str(store), "--json", *options)
    return programs.start(benchmark.parent, *words, **nodes.environment)


def run(nodes: RayNodes, benchmark: Path, store: Path, *options: str) -> tuple[int, str, str]:
    return programs.finish(start(nodes, benchmark, store, *options))


def records(store: Path) -> list[dict[str, object]]:
    (made,) = load_runs(open_store(store))
    varying = ("latency_s", "received")
    return [{key: value for key, value in row.items() if key not in varying} for row in read_records(made)]


def computed(nodes: RayNodes) -> list[str]:
    """Return the process and the digest of each request that an engine began."""
    log = Path(nodes.environment["WARD_LOG"])
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


@pytest.mark.long
def test_a_cluster_gives_the_results_of_one_process(site: Path, tmp_path: Path) -> None:
    benchmark = benchmark_of(tmp_path, 12)
    with ray_nodes(1, PYTHONPATH=str(site), WARD_LOG=str(tmp_path / "log")) as nodes:
        code, _, err = run(nodes, benchmark, tmp_path / "cluster", "--cluster", "auto")
        assert code == 0, err
        assert f"computed by 1 actor of the Ray cluster {nodes.address} (1 node)" in err
        assert len(computed(nodes)) == 12
        assert run(nodes, benchmark, tmp_path / "alone")[0] == 0
    assert records(tmp_path / "cluster") == records(tmp_path / "alone")
    joined, *calls = (entry.content for entry in read_audit_log(open_store(tmp_path / "cluster").audit_file))
    assert (joined["action"], joined["nodes"], joined["token"]) == ("cluster", ["127.0.0.1"], False)
    assert len(calls) == 24  # a request and a score for each instance
    assert {(call["destination"], call["model"]) for call in calls} == {("ray-actor://127.0.0.1", "ward/x")}
    assert {call["digest"] for call in calls} == {str(row["request_digest"]) for row in records(tmp_path / "cluster")}


@pytest.mark.long
def test_a_worker_a_node_and_the_driver_killed_in_the_middle_change_nothing(
    three_nodes: RayNodes, tmp_path: Path
) -> None:
    nodes, benchmark, store = three_nodes, benchmark_of(tmp_path, N), tmp_path / "cluster"
    options = ("--cluster", nodes.address, "--concurrency", str(PER_ACTOR))
    before = len(computed(nodes))
    driver = start(nodes, benchmark, store, *options)
    try:
        eventually(lambda: len(computed(nodes)) >= before + 40)
        os.kill(int(computed(nodes)[-1].split()[0]), signal.SIGKILL)
        eventually(lambda: len(computed(nodes)) >= before + 90)
        nodes.remove_node()
        eventually(lambda: len(computed(nodes)) >= before + 140)
    finally:
        driver.kill()
        driver.communicate()
    n_then = len(computed(nodes))
    code, out, err = run(nodes, benchmark, store, *options)
    assert code == 0, err
    (row,) = json.loads(out)["runs"]
    in_flight = 3 * PER_ACTOR
    assert row["requests_cached"] >= n_then - before - 3 * in_flight  # received before: not computed again
    assert row["requests_sent"] == len(computed(nodes)) - n_then == N - row["requests_cached"]
    assert len(computed(nodes)) - before - N <= 3 * in_flight  # lost with the worker, the node and the driver
    assert run(nodes, benchmark, tmp_path / "alone")[0] == 0
    assert records(store) == records(tmp_path / "alone")
    assert len(records(store)) == N
