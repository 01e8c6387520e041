"""Models and neural metrics on a Ray cluster: `medhelm run --cluster`."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import medhelm
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import RULES, Completion, Failure, FailureCode, Instance, Model, Request, Score
from medhelm.domain.text import listed, plural
from medhelm.errors import MedHelmError, MissingError, ProviderError, UserError
from medhelm.evaluation.settings import Settings
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import ADMINISTRATOR_FILE, EgressPolicy
from medhelm.io.http.hosts import SUBJECT, Audit, Subject, is_loopback
from medhelm.models.addresses import is_private, record_consent
from medhelm.models.provider import Closable, Provider, SharedResources
from medhelm.models.providers import SERVICES, open_provider
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRICS, metrics_of

# --- pool -------------------------------------------------------------------------------------------------------------
# The actors of a Ray cluster that compute for this process, and the provider that sends requests to them.
#
# This process decides everything: which actor gets which request, what is sent again, and what is stored. Ray places
# the actors, restarts lost ones (`max_restarts=-1`), and never sends a request again by itself (`max_task_retries=0`).
# What a lost actor held is sent to another one. A completion goes from the actor to this process, is committed to the
# cache, and counts then; no result is kept in Ray.

MOST_HELD = {"complete": 128, "compute": 4}
"""Method -> most calls in one actor at a time. An engine computes up to 128 completions in one batch. Metrics score one
call after the other, and must not take the places of completions."""

ALONE_AFTER, MOST_LOSSES = 2, 3
"""A call that was lost with `ALONE_AFTER` actors is sent to an actor without other calls, so that no other is lost with
it. After `MOST_LOSSES` it fails."""

START_NOTE_S = 20.0
"""Time without any actor until the user gets a message."""

CLOSED = "the cluster is left"


class WorkerDescription(NamedTuple):
    """The process of an actor, as it describes itself."""

    host: str
    """Address of its node."""
    version: str
    """Its version of medhelm."""


class WorkerResult(NamedTuple):
    """The result of a call of an actor."""

    value: Any
    """The returned value."""
    notes: tuple[str, ...] = ()
    """Messages for the user since the last call."""


class WorkerFailure(NamedTuple):
    """A `ProviderError` of an actor: exceptions with several arguments cannot be sent between processes."""

    code: str
    message: str
    retryable: bool
    fatal: bool


class Actors(Closable, Protocol):
    """Actors on the machines of a cluster, which compute models and neural metrics."""

    size: int

    async def call(self, method: str, *arguments: object, subject: Subject, n_bytes: int) -> Any:
        """Call a method of some actor."""


@dataclass(slots=True, eq=False)
class Actor:
    """One actor of the pool."""

    handle: Any
    """Ray's handle."""
    host: str = ""
    """Address of its node; empty until it has started."""
    is_ready: bool = False
    """True from its start until it is lost."""
    n_starts: int = 0
    """Number of its starts so far."""
    is_reserved: bool = False
    """True while it holds a call that must be alone."""
    held: Counter[str] = field(default_factory=Counter)
    """Method -> calls that it holds."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A call that waits for an actor."""

    method: str
    alone: bool
    """True if no other call may be in the actor."""
    actor: asyncio.Future[Actor]


class ClusterPool:
    """Sends calls to actors, and sends again what lost actors held. For use in one event loop."""

    def __init__(
        self,
        handles: Sequence[Any],
        *,
        errors: Mapping[str, type[Exception]],
        shutdown: Callable[[], object],
        note: Callable[[str], object],
        audit: Audit | None = None,
        resources: str = "",
    ) -> None:
        """Wait for the actors to start, in the background.

        Parameters
        ----------
        handles : of the actors, which are `ClusterWorker`s
        errors : Ray's exceptions: `call` for one in our code, `ray` for all
        shutdown : ends the actors and leaves the cluster
        note : shows a message to the user
        audit : notes each call before it is sent
        resources : what an actor needs, for messages
        """
        self.size = len(handles)
        """Number of actors."""
        self._actors = [Actor(handle) for handle in handles]
        self._call_error, self._ray_error = errors["call"], errors["ray"]
        self._shutdown = shutdown
        self._note = note
        self._noted: set[str] = set()
        self._audit = audit
        self._waiting: dict[str, deque[Waiting]] = {method: deque() for method in MOST_HELD}
        self._unusable: ProviderError | None = None
        self._starting = {asyncio.create_task(self._start(actor)) for actor in self._actors}
        self._timer = asyncio.get_running_loop().call_later(START_NOTE_S, self._note_wait, resources)

    async def call(self, method: str, *arguments: object, subject: Subject, n_bytes: int) -> Any:
        """Call a method of some actor and return its result.

        `subject`, `n_bytes`: what is sent, for the audit log. Raises: ProviderError; StoreError if it cannot be noted.
        """
        losses = 0
        while True:
            alone = losses >= ALONE_AFTER
            actor = await self._acquire(method, alone=alone)
            start = actor.n_starts
            try:
                if self._audit:
                    await self._audit.request("CALL", f"ray-actor://{actor.host}", "", subject, n_bytes)
                result: WorkerResult = await getattr(actor.handle, method).remote(*arguments)
                self._note_once(result.notes)
                return result.value
            except self._call_error as error:
                raise ProviderError("broken", f"on node {actor.host}: {_last_line(error)}") from None
            except self._ray_error as error:
                self._lose(actor, start)
                losses += 1
                if losses >= MOST_LOSSES:
                    raise ProviderError(
                        FailureCode.ACTOR_LOST,
                        f"{losses} actors were lost while they computed it, the last one on node {actor.host} with "
                        f"nothing else: {_last_line(error)}",
                    ) from None
            finally:
                self._release(actor, method, alone=alone)

    async def close(self) -> None:
        """End the actors and leave the cluster. May be called more than once."""
        if self._unusable is None or str(self._unusable) != CLOSED:
            self._fail(ProviderError("closed", CLOSED))
            self._timer.cancel()
            for task in self._starting:
                task.cancel()
            self._shutdown()

    # --- which actor gets the next call -------------------------------------------------------------------------------

    async def _acquire(self, method: str, *, alone: bool) -> Actor:
        """Wait for an actor with room for a call. Raises: ProviderError if there will be none."""
        if self._unusable:
            raise self._unusable
        waiting = Waiting(method, alone, asyncio.get_running_loop().create_future())
        self._waiting[method].append(waiting)
        self._dispatch()
        try:
            return await waiting.actor
        except asyncio.CancelledError:
            if waiting.actor.done() and not waiting.actor.cancelled():
                self._release(waiting.actor.result(), method, alone=alone)
            raise

    def _dispatch(self) -> None:
        """Give actors to waiting calls, in their order for each method.

        A call that must be alone holds up all others until it can be.
        """
        for queue in sorted(self._waiting.values(), key=lambda queue: not (queue and queue[0].alone)):
            while queue:
                first = queue[0]
                if not first.actor.done():
                    actor = self._free_actor(first)
                    if actor is None and first.alone:
                        return
                    if actor is None:
                        break
                    actor.held[first.method] += 1
                    actor.is_reserved = first.alone
                    first.actor.set_result(actor)
                queue.popleft()

    def _free_actor(self, call: Waiting) -> Actor | None:
        """Return the actor that holds the fewest calls of a method; None if none has room.

        No actor holds more than its share, so that the first one to start does not take all calls.
        """
        ready = [one for one in self._actors if one.is_ready and not one.is_reserved]
        if call.alone:
            return next((one for one in ready if not one.held.total()), None)
        n = len(self._waiting[call.method]) + sum(one.held[call.method] for one in self._actors)
        most = min(ceil(n / max(1, len(self._actors))), MOST_HELD[call.method])
        free = [one for one in ready if one.held[call.method] < most]
        return min(free, key=lambda one: one.held[call.method], default=None)

    def _release(self, actor: Actor, method: str, *, alone: bool) -> None:
        actor.held[method] -= 1
        if alone:
            actor.is_reserved = False
        self._dispatch()

    # --- actors come and go -------------------------------------------------------------------------------------------

    async def _start(self, actor: Actor) -> None:
        """Wait until an actor has started, or started again."""
        try:
            found: WorkerDescription = await actor.handle.describe.options(max_task_retries=-1).remote()
        except self._ray_error as error:
            self._remove(actor, _last_line(error))
            return
        if found.version != medhelm.__version__:
            self._remove(actor, f"node {found.host} has medhelm {found.version}, not {medhelm.__version__}")
            return
        actor.host, actor.is_ready = found.host, True
        actor.n_starts += 1
        self._timer.cancel()
        self._dispatch()

    def _lose(self, actor: Actor, start: int) -> None:
        """Send nothing to an actor that was lost until Ray has started it again.

        All calls in it report the loss, some perhaps after its next start. `start`: the one that they were sent to.
        """
        if not actor.is_ready or actor.n_starts != start:
            return
        actor.is_ready = False
        if self._unusable is None:
            self._note(f"an actor on node {actor.host} was lost. What it held is sent to another one.")
            task = asyncio.create_task(self._start(actor))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _remove(self, actor: Actor, reason: str) -> None:
        """Remove an actor that cannot start. If none is left, all calls fail."""
        self._actors.remove(actor)
        if self._actors:
            self._note(f"an actor cannot start and is left out: {reason}")
        else:
            self._fail(ProviderError(FailureCode.NOT_STARTED, _no_actors(actor, reason.rstrip(".")), fatal=True))

    def _fail(self, error: ProviderError) -> None:
        self._unusable = error
        for queue in self._waiting.values():
            for waiting in queue:
                if not waiting.actor.done():
                    waiting.actor.set_exception(error)
            queue.clear()

    def _note_once(self, notes: Iterable[str]) -> None:
        """Show each message of the actors once; most have the same ones."""
        for text in notes:
            if text not in self._noted:
                self._noted.add(text)
                self._note(text)

    def _note_wait(self, resources: str) -> None:
        self._note(
            f"waiting for the cluster: none of {self.size} actors has started yet. Each needs {resources}; "
            "`ray status` shows what is free."
        )


class ClusterModel(Provider):
    """A model that actors compute. Completions are cached as those that are paid for."""

    starts_at_maximum = True
    replies_in_time = False

    def __init__(self, model: Model, cluster: Actors, seed: int) -> None:
        """`seed`: for providers that use one."""
        self.endpoint = f"cluster/{model.name}"
        self.copies = cluster.size
        self._cluster = cluster
        self._seed = seed

    async def complete(self, request: Request) -> Completion:
        """Complete one request in some actor.

        Raises: ProviderError, with code `actor_lost` if several actors were lost while they computed it.
        """
        n_bytes = sum(len(message.text.encode("utf-8", "replace")) for message in request.prompt.messages)
        subject = SUBJECT.get() or Subject(request.model.name, request.benchmark)
        found = await self._cluster.call("complete", request, self._seed, subject=subject, n_bytes=n_bytes)
        if isinstance(found, WorkerFailure):
            raise ProviderError(found.code, found.message, retryable=found.retryable, fatal=found.fatal)
        completion: Completion = found
        return completion


def _no_actors(last: Actor, reason: str) -> str:
    """Return the message about a cluster without any actor."""
    if last.n_starts:
        return f"all actors are lost: {reason}. Everything received is kept; run the same command again to continue."
    return f"no actor can start on the cluster: {reason}. Every node needs the same medhelm with its extras."


def _last_line(error: BaseException) -> str:
    """Return the reason in an exception of Ray, whose text is a report of many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


# --- worker -----------------------------------------------------------------------------------------------------------
# The class that Ray starts on the nodes of a cluster: a process that holds models and computes neural metrics.
#
# It gets the names of what it computes, and data. It stores nothing: every result goes back to the process that asked,
# which commits it.

DEVICE = "MEDHELM_HF_DEVICE"
"""Environment variable with the device of models within a process."""


class ClusterWorker:
    """Holds models, each loaded at its first request, and computes by name. Its methods run in one event loop."""

    def __init__(self, host: str = "", folder: str = "") -> None:
        """`host`: address of the node, if it is known; `folder`: working directory, if it exists here."""
        self._host = host or _node_address()
        self._notes: list[str] = []
        self._resources = SharedResources(self._notes.append)
        self._http = HttpClient(EgressPolicy(offline=True))  # workers contact no host
        self._providers: dict[str, Provider] = {}
        with suppress(OSError):
            os.chdir(folder or ".")

    async def describe(self) -> WorkerDescription:
        """Return where it runs; the answer also shows that it has started."""
        return WorkerDescription(self._host, medhelm.__version__)

    async def complete(self, request: Request, seed: int) -> WorkerResult:
        """Return the completion of one request, or a `WorkerFailure`."""
        return self._result(await self._complete(request, seed))

    async def compute(self, function: str, *arguments: object) -> WorkerResult:
        """Call a function of medhelm, given as `module:name`, in a thread, and return its result."""
        module, _, name = function.partition(":")
        called: Callable[..., Any] = getattr(import_module(f"medhelm.{module}"), name)
        return self._result(await asyncio.to_thread(called, *arguments))

    async def _complete(self, request: Request, seed: int) -> Completion | WorkerFailure:
        try:
            return await self._provider(request.model, seed).complete(request)
        except ProviderError as error:
            # Only fatal errors name the node: the message on a prompt that is too long is read again.
            message = self._with_node(error) if error.fatal else str(error)
            return WorkerFailure(error.code, message, error.retryable, error.fatal)
        except MedHelmError as error:  # the model cannot be opened on this node
            return WorkerFailure(FailureCode.NOT_STARTED, self._with_node(error), retryable=False, fatal=True)

    def _provider(self, model: Model, seed: int) -> Provider:
        """Return the provider of a model; opened once. Raises: UserError, MissingError."""
        provider = self._providers.get(model.name)
        if provider is None:
            environment = dict(os.environ)
            if environment.get("CUDA_VISIBLE_DEVICES"):  # Ray has chosen the GPU, which is then the first
                environment.pop(DEVICE, None)
            _check_same(model, environment)
            provider = open_provider(model, self._http, environment=environment, seed=seed, resources=self._resources)
            self._providers[model.name] = provider
        return provider

    def _result(self, value: object) -> WorkerResult:
        notes = tuple(self._notes)
        self._notes.clear()
        return WorkerResult(value, notes)

    def _with_node(self, error: MedHelmError) -> str:
        return f"on node {self._host}: {error}"


def _check_same(model: Model, environment: dict[str, str]) -> None:
    """Check that the model's files here are those that identify its completions. Raises: ProviderError."""
    wanted = model.parameters.get("version")
    found = SERVICES[model.provider].resolve(model, environment).parameters.get("version")
    if found != wanted:
        versions = [str(version)[:16] if version else "none" for version in (found, wanted)]
        raise ProviderError(
            FailureCode.NOT_LOADED,
            f"{model.name}: the version of its files is {versions[0]} here, but {versions[1]} on the machine that "
            "started the evaluation. Copy the same files to all of them.",
            fatal=True,
        )


def _node_address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())


# --- connection -------------------------------------------------------------------------------------------------------
# Join a Ray cluster: find it, check that it is protected and allowed, and start the actors.
#
# This process must run on a machine of the cluster, as `ray job submit` arranges it. Ray lets everyone who reaches a
# cluster run any program there. So a cluster that other machines can reach must require a token, and that is tested by
# a request without one.

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
    options: Settings,
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
    if use.private:  # consent to the head is consent to the whole cluster
        machines = [_host_of(found), *hosts]
        allowed = machines if machines[0] in {host.lower() for host in options.allow_hosts} else ()
        record_consent(http.audit, machines, use.private, allowed=allowed)
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


# --- evaluations ------------------------------------------------------------------------------------------------------
# Evaluations on a Ray cluster: its actors compute models within this process, and neural metrics.

FUNCTION = "extensions.cluster.ray:scores_of"
"""The function that actors call."""


def cluster_use(models: Iterable[Model], datasets: Iterable[Dataset], *, own_data: bool) -> ClusterUse:
    """Return the part of an evaluation that a cluster computes: its models, and the neural metrics of its benchmarks.

    `own_data`: the data sets are the user's own.
    """
    computed = [model.name for model in models if SERVICES[model.provider].on_cluster]
    metrics: dict[str, None] = {}
    private = []
    for dataset in datasets:
        neural = [m.name for m in metrics_of(dataset.benchmark, judged=False, harness="helm") if m.neural]
        metrics |= dict.fromkeys(neural)
        if (computed or neural) and is_private(dataset.benchmark, is_sample=dataset.tier == "sample", is_own=own_data):
            private.append(dataset.benchmark.name)
    return ClusterUse(computed, list(metrics), private)


def join_for(
    models: Iterable[Model],
    datasets: Iterable[Dataset],
    resources: SharedResources,
    http: HttpClient,
    options: Settings,
    own_data: bool,
    environment: Mapping[str, str],
) -> RayCluster | None:
    """Join the cluster of `options` for what it computes of an evaluation; None if that is nothing.

    `resources` leaves the cluster when it is closed, and shows messages.
    Raises: MissingError, UserError as `join`; nothing was sent.
    """
    use = cluster_use(models, datasets, own_data=own_data)
    if not use.what:
        resources.note(
            "--cluster has no effect: a cluster computes models within this process (hf/) and neural metrics, and this "
            "evaluation has none"
        )
        return None
    return RayCluster(resources.shared("cluster", lambda: join(use, options, http, environment, resources.note)))


class RayCluster:
    """A cluster that this process has joined: an `evaluation.session.Cluster`."""

    def __init__(self, actors: Actors) -> None:
        """`actors`: compute what is sent to the cluster."""
        self._actors = actors

    def open_provider(self, model: Model, seed: int) -> Provider:
        """Return the provider of a model that actors compute; `seed`: for providers that use one."""
        return ClusterModel(model, self._actors, seed)

    async def apply(
        self, metrics: Sequence[Metric], instance: Instance, completion: Completion, subject: Subject
    ) -> tuple[Score, ...]:
        """Score one completion as `metric.apply` does, neural metrics by an actor.

        If several actors were lost with it, those scores are missing, with the reason. `subject`: for the audit log.
        """
        neural = [metric.name for metric in metrics if metric.neural]
        others = [metric for metric in metrics if not metric.neural]
        here = await asyncio.to_thread(apply, metrics if completion.failure else others, instance, completion)
        if completion.failure or not neural:
            return here
        texts = (
            completion.text or "",
            *(reference.text for reference in instance.references),
            *instance.fields.values(),
        )
        n_bytes = sum(len(text.encode("utf-8", "replace")) for text in texts)
        try:
            there: Sequence[Score] = await self._actors.call(
                "compute", FUNCTION, neural, instance, completion, subject=subject, n_bytes=n_bytes
            )
        except ProviderError as error:
            failure = Failure("metric", "not_computed", str(error))
            there = [Score(metric=name, rule=rule, value=None, failure=failure) for name in neural for rule in RULES]
        found = {(score.metric, score.rule): score for score in (*here, *there)}
        return tuple(found[metric.name, rule] for metric in metrics for rule in RULES)


def scores_of(names: Collection[str], instance: Instance, completion: Completion) -> tuple[Score, ...]:
    """Score one completion by the metrics of these names; called in an actor."""
    return apply([METRICS[name] for name in names], instance, completion)
