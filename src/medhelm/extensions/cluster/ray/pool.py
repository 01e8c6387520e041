"""The actors of a Ray cluster that compute for this process, and the provider that sends requests to them.

This process decides everything: which actor gets which request, what is sent again, and what is stored. Ray places the
actors, restarts lost ones (`max_restarts=-1`), and never sends a request again by itself (`max_task_retries=0`). What a
lost actor held is sent to another one. A completion goes from the actor to this process, is committed to the cache, and
counts then; no result is kept in Ray.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple, Protocol

import medhelm
from medhelm.domain import Completion, FailureCode, Model, Request
from medhelm.errors import ProviderError
from medhelm.io.http.hosts import SUBJECT, Audit, Subject
from medhelm.models.provider import Closable, Provider

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
