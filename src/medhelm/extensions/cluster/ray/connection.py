"""Join a Ray cluster: find it, check that it is protected and allowed, and start the actors.

This process must run on a machine of the cluster, as `ray job submit` arranges it. Ray lets everyone who reaches a
cluster run any program there. So a cluster that other machines can reach must require a token, and that is tested by a
request without one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from medhelm.domain.text import listed, plural
from medhelm.errors import MissingError, UserError
from medhelm.extensions.cluster.ray.pool import ClusterPool
from medhelm.extensions.cluster.ray.worker import ClusterWorker
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import ADMINISTRATOR_FILE, EgressPolicy
from medhelm.io.http.hosts import is_loopback

PROBE_S = 30.0
"""Longest time for Ray's own check of a cluster."""

CONNECT_S = 5.0
"""Longest time for a connection to the cluster's address."""

NO_CLIENT = (
    "--cluster {address}: Ray Client (ray://) is not supported: it has architectural limitations, and all work ends "
    "when its connection is interrupted. Start the evaluation inside the cluster, with Ray's Jobs API:\n"
    "  ray job submit -- medhelm run ... --cluster auto\n"
    "Nothing was sent."
)

_TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_REFUSED = "InvalidAuthToken"
"""Part of Ray's message about a missing or wrong token."""


class ClusterOptions(Protocol):
    """Options of the user about a cluster."""

    @property
    def cluster(self) -> str:
        """Return its address, `HOST:PORT`, or `auto` for the cluster of this machine or of RAY_ADDRESS."""

    @property
    def actors(self) -> int | None:
        """Return the number of actors; None: one for each GPU, or without GPUs one for each node."""

    @property
    def allow_hosts(self) -> Collection[str]:
        """Return the hosts that may get data that is not public."""


class ClusterUse(NamedTuple):
    """The part of an evaluation that a cluster computes."""

    models: Sequence[str]
    """Names of models and judges."""
    metrics: Sequence[str]
    """Names of metrics."""
    private: Sequence[str]
    """Names of the benchmarks whose data may not leave this machine without consent."""

    @property
    def what(self) -> str:
        """Name what is computed."""
        return listed([*self.models, *self.metrics])


def join(
    use: ClusterUse,
    options: ClusterOptions,
    http: HttpClient,
    environment: Mapping[str, str],
    note: Callable[[str], object],
) -> ClusterPool:
    """Connect this process to a running cluster and start actors there. Call it in an event loop.

    Parameters
    ----------
    use : what the cluster computes, for messages and consent
    http : its egress policy and its audit log apply to the machines of the cluster as well

    Raises
    ------
    MissingError : Ray is not installed
    UserError : no cluster, `ray://`, no token, a machine that is not allowed, or no consent; nothing was sent
    """
    address = options.cluster
    if find_spec("ray") is None:
        raise MissingError("--cluster needs Ray: in a checkout, pip install '.[ray]'. Nothing was sent.")
    found = find_cluster(address, environment)
    check_machines(found, [], use, http.egress_policy, options.allow_hosts)  # before any connection
    _check_listening(found)
    _set_up_ray(found)
    has_token = _requires_token(found)
    if has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    import ray

    try:
        ray.init(address=found, log_to_driver=False, configure_logging=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"--cluster {address}: Ray cannot connect to {found}: {reason}. Nothing was sent.") from error
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        hosts = sorted({str(node["NodeManagerAddress"]) for node in nodes})
        if not has_token:
            check_loopback(found, hosts)
        check_machines(found, hosts, use, http.egress_policy, options.allow_hosts)
        n, needs = planned_actors([node["Resources"] for node in nodes], options.actors)
    except UserError:
        ray.shutdown()
        raise
    if http.audit:
        http.audit.cluster(f"ray-cluster://{found}", hosts, has_token=has_token, uses=[*use.models, *use.metrics])
    resources = " and ".join(f"{value:g} {name.removeprefix('num_').upper()[:-1]}" for name, value in needs.items())
    note(f"{use.what}: computed by {plural(n, 'actor')} of the Ray cluster {found} ({plural(len(nodes), 'node')})")
    return ClusterPool(
        _start_actors(ray, n, needs),
        errors={"call": ray.exceptions.RayTaskError, "ray": ray.exceptions.RayError},
        shutdown=ray.shutdown,
        note=note,
        audit=http.audit,
        resources=resources,
    )


def find_cluster(address: str, environment: Mapping[str, str]) -> str:
    """Return `HOST:PORT` of a cluster; nothing is contacted. Raises: UserError if no cluster is named."""
    found = address
    if address == "auto":
        found = environment.get("RAY_ADDRESS", "").strip() or "auto"
    if found == "auto":
        file = Path(environment.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"  # noqa: S108 - Ray's place
        found = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if found.startswith("ray://"):
        raise UserError(NO_CLIENT.format(address=found))
    if not found:
        raise UserError(
            "--cluster auto: this machine belongs to no Ray cluster. Start the evaluation inside one "
            "(ray job submit -- medhelm run ... --cluster auto), or start one here, with a token: "
            "docs/how-to/ray.md. Nothing was sent."
        )
    host, _, port = found.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise UserError(f"--cluster {found}: write `auto` or HOST:PORT, such as 10.0.0.5:6379. Nothing was sent.")
    return found


def check_loopback(address: str, hosts: Sequence[str]) -> None:
    """Check that other machines cannot reach a cluster that requires no token. Raises: UserError."""
    if not all(map(is_loopback, (_host_of(address), *hosts))):
        raise UserError(
            f"--cluster {address}: everyone who reaches this cluster can read its data and run programs there, because "
            "it requires no token. Create one with `ray get-auth-token --generate`, copy ~/.ray/auth_token to every "
            "node, and start all nodes with RAY_AUTH_MODE=token. Nothing was sent."
        )


def check_machines(
    address: str, hosts: Sequence[str], use: ClusterUse, policy: EgressPolicy, consent: Iterable[str]
) -> None:
    """Check that a cluster's head and its other machines, `hosts`, may get what they compute.

    Raises: UserError for machines that offline mode or the administrator's file forbids, and for data that is not
    public without consent.
    """
    others = [host for host in dict.fromkeys((_host_of(address), *hosts)) if not is_loopback(host)]
    if not others:
        return
    if policy.offline:
        raise UserError(
            f"--cluster {address}: offline mode allows this machine only, but the cluster has {listed(others)}. Leave "
            "out --offline (and MEDHELM_OFFLINE) to allow it. Nothing was sent."
        )
    for host in others:
        policy.check_addresses(host, [host])
    private = policy.rules.private_data if policy.rules else None
    refused = [host for host in others if not (private and private.has(host))]
    if use.private and refused and others[0] not in {host.lower() for host in consent}:
        raise UserError(
            f"data that is not public would leave this machine: {listed(use.private)}, to the cluster {address} "
            f"({listed(refused)}), for {use.what}.\nIf its terms of use permit that, add --allow-host {others[0]}\n"
            f"`private_data` in {ADMINISTRATOR_FILE} permits hosts for every command. Nothing was sent."
        )


def planned_actors(nodes: Sequence[Mapping[str, float]], number: int | None) -> tuple[int, dict[str, float]]:
    """Return the number of actors, and what each needs, as options of Ray.

    Without `number`, one actor for each GPU; without GPUs, one for each node, with its CPUs. Further actors share them
    evenly. Raises: UserError if there are more actors than CPUs.

    >>> planned_actors([{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 2}], 8)
    (8, {'num_gpus': 0.5})
    >>> planned_actors([{"CPU": 4}, {"CPU": 8}, {}], None)
    (2, {'num_cpus': 4})
    """
    gpus = sum(floor(node.get("GPU", 0)) for node in nodes)
    if gpus:
        return number or gpus, {"num_gpus": 1 / ceil((number or gpus) / gpus)}
    cpus = [floor(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    if not cpus or (number or 0) > sum(cpus):
        raise UserError(
            f"--actors {number or 'auto'}: the cluster has {sum(cpus)} CPUs and no GPU, and an actor needs one. "
            "Nothing was sent."
        )
    number = number or len(cpus)
    each = max(1, min(cpus) // ceil(number / len(cpus)))
    return number, {"num_cpus": each}


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]").lower()


def _check_listening(address: str) -> None:
    """Check that an address accepts connections. Raises: UserError."""
    try:
        socket.create_connection((_host_of(address), int(address.rpartition(":")[2])), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--cluster {address}: no Ray cluster is running there ({error}). `ray status` shows whether one runs on "
            "this machine. Nothing was sent."
        ) from None


def _start_actors(ray: Any, number: int, needs: Mapping[str, float]) -> list[Any]:
    """Start actors, spread over the nodes."""
    kind = ray.remote(ClusterWorker)
    options = {"max_restarts": -1, "max_task_retries": 0, "scheduling_strategy": "SPREAD", **needs}
    return [kind.options(**options).remote(folder=os.getcwd()) for _ in range(number)]  # noqa: PTH109 - a text


def _set_up_ray(address: str) -> None:
    """Set the environment that Ray reads when it is imported."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ |= {"RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}  # else it writes into standard output
    if is_loopback(_host_of(address)):
        # Else Ray replaces 127.0.0.1 by the address of a network card, where such a cluster does not listen.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def _requires_token(address: str) -> bool:
    """Return True if a cluster refuses requests without a token, and accepts those of this process.

    Raises: UserError if there is no cluster at the address, or if the token is missing or wrong.
    """
    without = {name: text for name, text in os.environ.items() if name not in _TOKEN_VARIABLES}
    message = _health_check(address, {**without, "RAY_AUTH_MODE": "disabled"})
    if message is None:
        return False
    if _REFUSED not in message:
        reason = message.splitlines()[-1] if message else "no reply"
        raise UserError(f"--cluster: {address} is not a Ray cluster of this version ({reason}). Nothing was sent.")
    if _health_check(address, {"RAY_AUTH_MODE": "token", **os.environ}) is not None:
        raise UserError(
            f"--cluster: {address} requires a token, and the one of this process is missing or wrong. Copy the file "
            "~/.ray/auth_token of the cluster's head to this machine, or set RAY_AUTH_TOKEN_PATH (or RAY_AUTH_TOKEN). "
            "Nothing was sent."
        )
    return True


def _health_check(address: str, environment: Mapping[str, str]) -> str | None:
    """Check a cluster with Ray's own program, in a new process; return its error message, None if it is healthy."""
    code = "from ray.scripts.scripts import main; main()"
    command = [sys.executable, "-c", code, "health-check", "--address", address]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            command, env=dict(environment), capture_output=True, text=True, timeout=PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "no reply"
    return None if done.returncode == 0 else done.stderr.strip()
