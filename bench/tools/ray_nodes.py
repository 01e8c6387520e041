"""A Ray cluster of several nodes on 127.0.0.1, in a process of its own, for studies and for tests that kill nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SMALLEST_STORE = 78_643_200
"""Bytes of the smallest object store that Ray starts."""

LOOPBACK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray then uses 127.0.0.1 everywhere
}

CODE = """
import sys
from ray.cluster_utils import Cluster

node = {"num_cpus": 1, "object_store_memory": int(sys.argv[2]), "node_ip_address": "127.0.0.1"}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
others = [cluster.add_node(**node, wait=False) for _ in range(int(sys.argv[1]) - 1)]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(others.pop(), allow_graceful=False)
    print("removed", flush=True)
cluster.shutdown()
"""


class RayNodes:
    """A running cluster."""

    def __init__(self, process: subprocess.Popen[str], environment: Mapping[str, str]) -> None:
        """Wait until the cluster in `process` has started."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self.environment = dict(environment)
        """Environment of processes that join it."""
        self.address = self._stdout.readline().strip()
        assert self.address, "the cluster did not start"

    def remove_node(self) -> None:
        """Kill all processes of one node that is not the head."""
        print("remove", file=self._stdin, flush=True)
        assert self._stdout.readline() == "removed\n"


@contextmanager
def ray_nodes(n: int, **environment: str) -> Iterator[RayNodes]:
    """Start a cluster of `n` nodes with one CPU each; `environment`: further variables of all its processes."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "MEDHELM_"))}
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # short: it holds sockets
        Path(folder, "ray").mkdir()
        whole = {**inherited, **LOOPBACK, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder, **environment}
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(n), str(SMALLEST_STORE)],
            env=whole,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield RayNodes(process, whole)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
