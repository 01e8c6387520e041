"""Pools: one model that several identical servers serve.

A request goes to the server with the fewest requests in flight, or to one that has received a prompt with the same
long prefix, because that server's prefix cache holds it. A server gets requests after it has returned its list of
models. A server that does not respond gets no requests and is tried again, less and less often. One that serves another
model, or refuses the key, gets no requests either, and the user gets a message. The other servers continue.

The addresses may be in a file, which is read again when it changes. A new address gets requests if its host is this
machine, one that the pool had at the start, or one that --allow-host names; the egress policy decides as well. An
address that is removed gets no new requests, and what is in flight there may finish.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.domain import Completion, FailureCode, Model, Request
from medhelm.domain.text import listed, plural
from medhelm.errors import MedHelmError, ProviderError, UserError
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.http.hosts import SUBJECT, Subject, host_of, is_loopback
from medhelm.models.addresses import read_endpoints
from medhelm.models.client import (
    UNREACHABLE,
    Attempts,
    Client,
    ClientResult,
    ModelUnusable,
    PoolProvider,
    failed_completion,
)
from medhelm.models.concurrency import MAX_PAUSE_S, ConcurrencyLimiter
from medhelm.models.prompt_caching import MAX_KNOWN, MIN_CHARACTERS
from medhelm.models.provider import unsupported_parameter
from medhelm.models.providers.hosted import HttpProvider

if TYPE_CHECKING:
    from medhelm.storage.live_status import ServerProgress

TICK_S = 0.5
"""Interval between checks of the servers and of the file of addresses."""

PROBE_TIMEOUT_S = 5.0
"""Longest wait for a server's list of models."""

MAX_PROBE_INTERVAL_S = 60.0
"""Longest time between two attempts to reach a server."""

NOT_READY = frozenset({500, 502, 503, 504})
"""HTTP statuses of a server that is loading, or of a proxy without one. Any other error means that a server has no list
of models."""

DEAD_AFTER = 3
"""Failed attempts in a row to reach a server, without any reply, after which its requests in flight fail."""

SERVER_ERRORS_IN_A_ROW = 5
"""Internal errors in a row after which a server counts as lost."""

FIRST_WAIT_S = 30.0
"""Longest wait for the first server that responds, if the list of servers does not change."""

PREFIX_LENGTHS = (16_384, 8_192, MIN_CHARACTERS)
"""Lengths of the prefixes that are compared, in characters, longest first."""

SLACK, SLACK_SHARE = 4, 1 / 4
"""Requests that a server with the same prefix may have in flight beyond those of the least busy server: this number, or
this share of its limit if that is more."""

LOOK_AHEAD = 64
"""Number of waiting requests that are searched for one whose prefix a free server has received before."""

_IN_FLIGHT = attrgetter("in_flight")


class ReplicaState(StrEnum):
    """State of one server of a pool."""

    STARTING = "starting"
    """It has not responded yet."""
    READY = "ready"
    """It gets requests."""
    LOST = "lost"
    """It does not respond; it is tried again."""
    OTHER_MODEL = "other model"
    """It lists other models only; it is tried again."""
    REFUSED = "refused"
    """It refuses every request, or its host is not allowed; it is not tried again."""


@dataclass(slots=True, eq=False)
class Replica:
    """One server of a pool."""

    address: str
    provider: HttpProvider
    """Sends requests to it."""
    limiter: ConcurrencyLimiter
    """Its own limit on requests in flight."""
    state: ReplicaState = ReplicaState.STARTING
    reason: str = ""
    """Reason that it is not ready; empty if it is."""
    is_listed: bool = True
    """False since its address was removed: it gets no new requests."""
    in_flight: int = 0
    """Requests that it was given, including those that wait to be sent."""
    done: int = 0
    """Completions received from it."""
    losses: int = 0
    """Number of times that it was lost since its last completion."""
    server_errors: int = 0
    """Internal errors in a row."""
    failed_probes: int = 0
    """Attempts in a row to reach it that failed."""
    probe_at: float = float("-inf")
    """Time of the next attempt."""
    is_probed: bool = False
    """True while an attempt is under way."""
    is_reported: bool = False
    """True if the user has a message that it is not ready."""
    done_when_lost: int = 0

    @property
    def is_live(self) -> bool:
        """Return True if it may get new requests."""
        return self.state is ReplicaState.READY and self.is_listed

    @property
    def is_free(self) -> bool:
        """Return True if it can take another request now."""
        return self.in_flight < self.limiter.limit and not self.limiter.pause_s

    @property
    def label(self) -> str:
        """State in one or two words."""
        return str(self.state) if self.is_listed else "draining"


@dataclass(slots=True)
class _PoolAttempts(Attempts):
    """Attempts at one completion, at any servers."""

    free: int = 0
    """Of these, those that another server takes over, so that they do not count as attempts."""

    @property
    def counted(self) -> int:
        """Attempts that count."""
        return self.sent - self.free


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits for a server."""

    prefixes: Sequence[int]
    avoid: Collection[Replica]
    place: asyncio.Future[Replica]
    passed_over: int = 0


class ReplicaPool(PoolProvider):
    """One model that several identical servers serve.

    It checks its servers only while it has requests, so it needs no `close`.
    """

    def __init__(self, model: Model, policy: EgressPolicy, open_server: Callable[[str], HttpProvider]) -> None:
        """`open_server`: opens the provider of an address; nothing is sent."""
        self.model = model
        self.endpoint = f"pool/{model.name}"
        self.n_servers = len(model.replicas)
        self.replicas: list[Replica] = []
        self._policy, self._open_server = policy, open_server
        self._first_hosts = {host_of(address) for address in model.replicas}
        self._scheme = model.replicas[0].partition(":")[0]
        self._prefix_holders: dict[int, list[Replica]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._n_users = 0
        self._watcher: asyncio.Task[None] | None = None
        self._probes: set[asyncio.Task[None]] = set()
        self._stamp: tuple[int, int, int] | None = None
        self._noted: set[str] = set()
        self._was_ready = False
        self._none_since: float | None = None
        self._error: Exception | None = None
        """Reason for which no server is waited for any longer."""

    def _connect(self, client: Client) -> None:
        """Use the limits, the clock and the messages of a client, before its first request."""
        client.pools.append(self)
        self._endpoint_of = partial(client.endpoint, model=self.model)
        self._give_up_after_s = client.limits.max_silence_s
        self._note, self._clock, self._sleep = client.note, client.clock, client.sleep
        for address in self.model.replicas:
            self._add_replica(address)

    def servers(self) -> list[HttpProvider]:
        """Return the providers of the servers that were known at the start."""
        return [self._open_server(address) for address in self.model.replicas]

    def progress(self) -> list[ServerProgress]:
        """Return the progress of each server that is known now."""
        from medhelm.storage.live_status import ServerProgress  # lazy: the first requests do not wait for it

        return [
            ServerProgress(
                model=self.model.name,
                address=server.address,
                state=server.label,
                in_flight=server.in_flight,
                limit=server.limiter.limit,
                done=server.done,
                reason=server.reason,
            )
            for server in tuple(self.replicas)
        ]

    async def complete(self, request: Request) -> Completion:
        """Send one request to the first server. A client uses `buy` instead, which chooses a server."""
        return await self._open_server(self.model.replicas[0]).complete(request)

    # --- buying a completion ------------------------------------------------------------------------------------------

    async def buy(self, client: Client, request: Request, digest: bytes) -> ClientResult:
        """Retry at the servers until the request succeeds or cannot succeed. Raises: as `Client.complete`."""
        if self not in client.pools:
            self._connect(client)
        attempts, failed = _PoolAttempts(), list[Replica]()
        while True:
            async with client.turn(request):
                try:
                    async with self.place(request, failed) as replica:
                        verdict = await self._attempt_at(replica, client, request, digest, attempts, failed)
                except ProviderError as error:  # no server is left
                    raise ModelUnusable(request.model.name, str(error), attempts.sent) from error
            if isinstance(verdict, ClientResult):
                return verdict
            await client.sleep(verdict)

    async def _attempt_at(
        self,
        replica: Replica,
        client: Client,
        request: Request,
        digest: bytes,
        attempts: _PoolAttempts,
        failed: list[Replica],
    ) -> ClientResult | float:
        """Send a request to one server; return the result, or the seconds before the next attempt.

        The first loss at each server does not count as an attempt: another server takes over at once. `failed`: servers
        at which the request failed. Raises: what `Client.complete` raises.
        """
        endpoint = client.endpoint(replica.provider, replica.provider.model)
        endpoint.title, endpoint.down = replica.address, ""  # it responds
        try:
            result = await client.attempt(replica.provider, request, digest, endpoint, attempts)
        except ProviderError as problem:
            error = problem
        except ModelUnusable:
            if client.is_given_up(request.model):
                raise
            text = f"{replica.address} has not replied to anything for too long"
            error = ProviderError(FailureCode.TIMEOUT, text, retryable=True, reply_lost=True)
        else:
            self.replied(replica)
            return result
        if unsupported_parameter(error):  # sent again at once without it; does not count as an attempt
            return 0.0
        pause_s = error.retry_after_s or 0.0
        is_lost = error.fatal or error.code in UNREACHABLE or pause_s > MAX_PAUSE_S
        self.failed(replica, error, is_lost=is_lost)
        if is_lost and replica not in failed and len(failed) < client.limits.attempts:
            attempts.free += 1
            delay_s = 0.0
        elif (error.retryable or error.fatal) and attempts.counted < client.limits.attempts:
            delay_s = 0.0 if is_lost else client.delay_s(error, attempts.counted, endpoint)
        else:
            return ClientResult(failed_completion(error, attempts.sent), False, attempts.sent, 0.0, digest)
        failed.append(replica)
        return delay_s

    # --- a place for a request ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def place(self, request: Request, avoid: Collection[Replica]) -> AsyncIterator[Replica]:
        """Wait for a server that can take a request, and hold a place there.

        `avoid`: servers at which it failed, used only if no other one is live.
        Raises: ProviderError if no server responds or serves the model; StoreError.
        """
        self._n_users += 1
        replica = None
        try:
            if self._watcher is None:
                self._watcher = asyncio.get_running_loop().create_task(self._watch())
            replica = await self._acquire(_prefix_hashes(request), avoid)
            yield replica
        finally:
            self._n_users -= 1
            if replica is not None:
                self._release(replica)
            if not self._n_users and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None
                for probe in self._probes:
                    probe.cancel()

    async def _acquire(self, prefixes: Sequence[int], avoid: Collection[Replica]) -> Replica:
        if self._error is not None:
            raise self._error
        waiting = _Waiting(prefixes, avoid, asyncio.get_running_loop().create_future())
        if replica := self._least_busy(waiting):
            self._assign(replica, waiting)
            return replica
        self._waiting.append(waiting)
        try:
            return await waiting.place
        except asyncio.CancelledError:
            if waiting.place.done() and not waiting.place.cancelled() and waiting.place.exception() is None:
                self._release(waiting.place.result())  # granted just before the cancellation
            raise

    def _assign(self, replica: Replica, waiting: _Waiting) -> None:
        """Count a request at a server, and remember the prefixes of its prompt."""
        replica.in_flight += 1
        for prefix in waiting.prefixes:
            if len(self._prefix_holders) >= MAX_KNOWN:
                self._prefix_holders.clear()
            holders = self._prefix_holders.setdefault(prefix, [])
            if replica not in holders:
                holders.append(replica)

    def _release(self, replica: Replica) -> None:
        """Free a place, and give free places to waiting requests."""
        replica.in_flight -= 1
        if not replica.is_listed and not replica.in_flight and replica in self.replicas:
            self.replicas.remove(replica)
        self._assign_waiting()

    def _usable(self, avoid: Collection[Replica]) -> list[Replica]:
        """Return the servers that may take a request."""
        live = [replica for replica in self.replicas if replica.is_live]
        return [replica for replica in live if replica not in avoid] or live if avoid else live

    def _least_busy(self, waiting: _Waiting) -> Replica | None:
        """Return the free server for a request: one with its prefix if it is not much busier, else the least busy one.

        None if no server is free.
        """
        free = [replica for replica in self._usable(waiting.avoid) if replica.is_free]
        if not free:
            return None
        least = min(free, key=_IN_FLIGHT)
        holders = [replica for replica in self._holders_of(waiting) if replica in free]
        holder = min(holders, key=_IN_FLIGHT, default=least)
        slack = max(SLACK, SLACK_SHARE * holder.limiter.limit)
        return holder if holder.in_flight <= least.in_flight + slack else least

    def _holders_of(self, waiting: _Waiting) -> Sequence[Replica]:
        """Return the servers that have received the longest known prefix of a prompt."""
        return next((holders for one in waiting.prefixes if (holders := self._prefix_holders.get(one))), ())

    def _assign_waiting(self) -> None:
        """Give the free places of all servers to waiting requests."""
        if not self._waiting:
            return
        free = {replica for replica in self.replicas if replica.is_live and replica.is_free}
        while free and self._waiting:
            replica = min(free, key=_IN_FLIGHT)
            if waiting := self._next_waiting(replica):
                self._waiting.remove(waiting)
                self._assign(replica, waiting)
                waiting.place.set_result(replica)
            if not waiting or not replica.is_free:
                free.discard(replica)

    def _next_waiting(self, replica: Replica) -> _Waiting | None:
        """Return the waiting request that a server takes next.

        The first whose prefix this server has received; else the first whose prefix no server has received; else the
        first. A request that was passed over `LOOK_AHEAD` times is taken next.
        """
        while self._waiting and self._waiting[0].place.done():
            self._waiting.popleft()  # canceled
        oldest = new = None
        for waiting in islice(self._waiting, LOOK_AHEAD):
            if waiting.place.done() or (waiting.avoid and replica not in self._usable(waiting.avoid)):
                continue
            oldest = oldest or waiting
            holders = self._holders_of(waiting)
            if replica in holders:
                new = waiting
                break
            new = new or (None if holders else waiting)
            if new is oldest and not new.prefixes:
                break
        if oldest is None or new is None or oldest.passed_over >= LOOK_AHEAD:
            return oldest
        oldest.passed_over += new is not oldest
        return new

    # --- how requests ended -------------------------------------------------------------------------------------------

    def replied(self, replica: Replica) -> None:
        """Note a completion from a server: it is alive."""
        replica.done += 1
        replica.losses = replica.server_errors = 0
        if replica.state is ReplicaState.LOST:
            self._make_ready(replica)

    def failed(self, replica: Replica, error: ProviderError, *, is_lost: bool) -> None:
        """Note an error of a server. `is_lost`: it gets no requests until it has been tried again with success."""
        if error.code == FailureCode.SERVER_ERROR:
            replica.server_errors += 1
            is_lost = is_lost or replica.server_errors >= SERVER_ERRORS_IN_A_ROW
        if not is_lost or replica.state is not ReplicaState.READY:
            return
        reason = str(error).removeprefix(f"{self.model.name}: ")
        if error.fatal:
            self._set_aside(replica, ReplicaState.REFUSED, reason)
            return
        replica.state, replica.reason, replica.done_when_lost = ReplicaState.LOST, reason, replica.done
        replica.losses += 1
        wait_s = 0.0 if replica.losses == 1 else min(2.0 ** (replica.losses - 2), MAX_PROBE_INTERVAL_S)
        replica.probe_at = self._clock() + max(wait_s, error.retry_after_s or 0.0)
        self._begin_probes()

    # --- health -------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Check the servers and the file of addresses for as long as there are requests."""
        SUBJECT.set(Subject(model=self.model.name))
        try:
            while True:
                self._reread_addresses()
                self._begin_probes()
                self._assign_waiting()
                self._check_alive()
                await self._sleep(TICK_S)
        except Exception as error:  # requests must not wait for ever
            self._give_up(error)
            raise

    def _begin_probes(self) -> None:
        """Start a probe of each server whose next one is due."""
        now = self._clock()
        for replica in self.replicas:
            is_due = replica.state not in (ReplicaState.READY, ReplicaState.REFUSED) and replica.probe_at <= now
            if is_due and replica.is_listed and not replica.is_probed:
                replica.is_probed = True
                task = asyncio.get_running_loop().create_task(self._probe(replica))
                self._probes.add(task)
                task.add_done_callback(partial(self._probe_ended, replica))

    def _probe_ended(self, replica: Replica, task: asyncio.Task[None]) -> None:
        """Allow the next probe; called even if the task was canceled before it began."""
        replica.is_probed = False
        self._probes.discard(task)

    async def _probe(self, replica: Replica) -> None:
        """Request a server's list of models: it is ready if it responds, and lists the model or nothing."""
        SUBJECT.set(Subject(model=self.model.name))
        try:
            status, names = await replica.provider.list_models(timeout_s=PROBE_TIMEOUT_S)
        except ProviderError as error:
            self._not_reached(replica, str(error))
        except UserError as error:
            self._set_aside(replica, ReplicaState.REFUSED, str(error))
        except MedHelmError as error:
            self._give_up(error)
        else:
            if status in NOT_READY:
                self._not_reached(replica, f"its list of models has the status {status}")
            elif names and not {self.model.remote_name, f"{self.model.remote_name}:latest"}.intersection(names):
                self._set_aside(replica, ReplicaState.OTHER_MODEL, f"it serves {listed(names, 3)}")
            else:
                self._make_ready(replica)

    def _make_ready(self, replica: Replica) -> None:
        if replica.is_reported:
            self._note(f"{self.model.name}: {replica.address} responds and gets requests")
        replica.state, replica.reason, replica.is_reported = ReplicaState.READY, "", False
        replica.failed_probes = replica.server_errors = 0
        self._was_ready, self._none_since = True, None
        self._assign_waiting()

    def _not_reached(self, replica: Replica, reason: str) -> None:
        """Note a failed attempt to reach a server that is starting or lost."""
        if replica.state is ReplicaState.READY:
            return  # a completion arrived meanwhile
        if replica.state is ReplicaState.OTHER_MODEL:
            replica.state = ReplicaState.STARTING
        replica.reason = reason
        replica.failed_probes += 1
        replica.probe_at = self._clock() + min(2.0 ** (replica.failed_probes - 1), MAX_PROBE_INTERVAL_S)
        if not replica.is_reported:
            replica.is_reported = True
            self._note(
                f"{self.model.name}: {replica.address} does not respond and gets no requests until it does: {reason}"
            )
        if replica.failed_probes >= DEAD_AFTER and replica.in_flight and replica.done == replica.done_when_lost:
            self._endpoint_of(replica.provider).end_waits(f"does not respond ({reason.rstrip('.')})")

    def _set_aside(self, replica: Replica, state: ReplicaState, reason: str) -> None:
        """Stop sending requests to a server that responds but cannot be used."""
        replica.state, replica.reason = state, reason
        replica.probe_at = self._clock() + MAX_PROBE_INTERVAL_S
        if not replica.is_reported:
            replica.is_reported = True
            again = " until it serves this one" if state is ReplicaState.OTHER_MODEL else ""
            self._note(f"{self.model.name}: {replica.address} is set aside and gets no requests{again}: {reason}")
        self._check_alive()

    def _check_alive(self) -> None:
        """Give up if no server can be used, or none has responded for too long."""
        now = self._clock()
        if any(replica.is_live for replica in self.replicas):
            self._none_since = None
            return
        if self._none_since is None:
            self._none_since = now
        is_hopeless = not any(one.state in (ReplicaState.STARTING, ReplicaState.LOST) for one in self.replicas)
        is_patient = self._was_ready or self.model.endpoints_file
        wait_s = self._give_up_after_s if is_patient else min(FIRST_WAIT_S, self._give_up_after_s)
        waited_s = now - self._none_since
        if is_hopeless or waited_s >= wait_s:
            self._give_up(self._lost_error())
        elif waited_s >= 1.0 and all(replica.is_reported for replica in self.replicas):
            self._note_once(
                f"{self.model.name}: none of {plural(len(self.replicas), 'server')} responds. medhelm gives up "
                f"on the model if none does for {wait_s:.0f} s (--give-up-after)."
            )

    def _lost_error(self) -> ProviderError:
        """Return the error about a pool without any server that can be used, with the reason of each."""
        reasons = [f"{one.address}: {one.reason.rstrip('.') or one.label}" for one in self.replicas]
        return ProviderError(
            FailureCode.CONNECTION,
            f"none of its servers can be used ({listed(reasons, 5)}). Everything received is kept; the same command "
            "continues from here.",
        )

    def _give_up(self, error: Exception) -> None:
        """Fail all waiting and all later requests with an error."""
        self._error = self._error or error
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.place.done():
                waiting.place.set_exception(error)

    # --- the file of addresses ----------------------------------------------------------------------------------------

    def _reread_addresses(self) -> None:
        """Read the addresses again if the file has changed; keep the last list if it cannot be read."""
        if not self.model.endpoints_file:
            return
        file = Path(self.model.endpoints_file)
        try:
            found = file.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            addresses, problems = read_endpoints(file)
        except (OSError, UserError) as error:
            self._stamp = None
            reason = str(error) if isinstance(error, UserError) else f"{file} cannot be read: {error.strerror or error}"
            self._note_once(f"{self.model.name}: {reason.rstrip('.')}. Its last list of servers is kept.")
            return
        for problem in problems:
            self._note_once(f"{self.model.name}: {file}:{problem.line}: {problem.text} The line is left out.")
        permitted = [address for address in addresses if self._is_permitted(address)]
        if not permitted:
            self._note_once(f"{self.model.name}: {file} lists no server to use. Its last list of servers is kept.")
            return
        self._update_replicas(permitted)

    def _is_permitted(self, address: str) -> bool:
        """Return True if an address in the file may get requests; otherwise tell the user why not."""
        host, problem = host_of(address), ""
        if any(replica.address == address for replica in self.replicas):
            return True
        if not address.startswith(f"{self._scheme}://"):
            problem = f"the servers of this pool have {self._scheme}://."
        elif not (is_loopback(host) or host in self._first_hosts or self._policy.joining.has(host)):
            problem = (
                f"{host} was not in the list when the command started. Start the command again, or name hosts that may "
                f"join with --allow-host (HOST, *.ENDING, or a network such as 10.20.0.0/16)."
            )
        else:
            try:
                self._policy.admit(address)
            except UserError as error:
                problem = str(error)
        if problem:
            self._note_once(f"{self.model.name}: {address} in {self.model.endpoints_file} gets no requests: {problem}")
        return not problem

    def _update_replicas(self, addresses: Sequence[str]) -> None:
        """Add the servers that are new, and let those that are gone finish."""
        known = {replica.address: replica for replica in self.replicas}
        for replica in known.values():
            was_listed, replica.is_listed = replica.is_listed, replica.address in addresses
            if was_listed and not replica.is_listed:
                rest = f"; {plural(replica.in_flight, 'request')} in flight may finish" if replica.in_flight else ""
                self._note(f"{self.model.name}: {replica.address} was removed and gets no new requests{rest}")
        self.replicas = [replica for replica in self.replicas if replica.is_listed or replica.in_flight]
        if new := [address for address in addresses if address not in known]:
            for address in new:
                self._add_replica(address)
            self._note(f"{self.model.name}: {listed(new, 5)} joined")
        self.n_servers = len(addresses)

    def _add_replica(self, address: str) -> None:
        provider = self._open_server(address)
        self.replicas.append(Replica(address, provider, self._endpoint_of(provider).limiter))

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


def _prefix_hashes(request: Request) -> tuple[int, ...]:
    """Return hashes of the prefixes of a prompt, the longest first; none for a short prompt."""
    text = "".join(message.text for message in request.prompt.messages)
    found = [hash(text[:length]) for length in PREFIX_LENGTHS if len(text) > length]
    if request.shared_characters:
        found.insert(0, hash(text[: request.shared_characters]))
    return tuple(found)
