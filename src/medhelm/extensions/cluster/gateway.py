"""The workers' side of a gateway: its address, tokens, and the client whose models it calls.

A gateway is one process that owns the cache, keys, budget and egress policy for others.
"""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import hmac
import json
import os
import platform
import secrets
import stat
import time
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from sys import byteorder
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from medhelm.domain import Completion, Model, Request
from medhelm.domain.text import LONGEST, is_worker_name, plural
from medhelm.errors import BudgetError, MissingError, ProviderError, StoreError, UserError
from medhelm.extensions.cluster.gateway_wire import (
    FORMAT,
    GATHER_S,
    KNOWN_PATH,
    MODELS_PATH,
    MOST_BYTES,
    MOST_PENDING,
    REQUESTS_PATH,
    STOPPING,
    WORKER_HEADER,
    GatewayError,
    joined,
    read_results,
    tag_of,
    write_request,
)
from medhelm.io.http.egress import EgressPolicy, open_http_session
from medhelm.io.http.hosts import Audit, Subject, is_inside, is_loopback, without_secrets
from medhelm.models.addresses import checked_address
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ClientResult, ModelUnusable
from medhelm.models.gateway import GATEWAY_VARIABLE, is_offline
from medhelm.models.provider import Provider
from medhelm.models.providers import answers_in_process
from medhelm.storage.store import MODEL

# --- address and tokens -----------------------------------------------------------------------------------------------
# The address and the token of a gateway, from the environment, and files with tokens.

TOKEN, TOKEN_FILE = "MEDHELM_GATEWAY_TOKEN", "MEDHELM_GATEWAY_TOKEN_FILE"
"""Variables with the token of the gateway, and with a file that holds it."""

SOCKET = "unix:"
"""First characters of the address of a gateway that listens on a socket file; its path follows."""

SHORTEST_TOKEN = 24
"""Fewest characters of a token, so that it cannot be guessed."""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """A gateway, as a worker reaches it."""

    url: str
    """`http://HOST:PORT` or `https://HOST:PORT`; for a socket file a URL whose host is never looked up."""
    socket_file: str = ""
    """Path of the socket file; empty if it listens on a port."""
    token: str = ""
    """The token; empty if none is needed, which only a socket file allows."""

    def __str__(self) -> str:
        """Return the address as users write it, without the token."""
        return f"{SOCKET}{self.socket_file}" if self.socket_file else self.url

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"GatewayAddress({str(self)!r})"

    @property
    def host(self) -> str:
        """Its host; empty for a socket file, which is on this machine."""
        return "" if self.socket_file else urlsplit(self.url).hostname or ""

    @property
    def is_inside(self) -> bool:
        """Return True if the gateway is on this machine, or by the form of its address in a private network."""
        return bool(self.socket_file) or is_inside(self.host)


def gateway_address(environment: Mapping[str, str]) -> GatewayAddress:
    """Return the address and token of the gateway. Raises: UserError, MissingError for a token that is missing."""
    text = environment.get(GATEWAY_VARIABLE, "").strip()
    if text.startswith(SOCKET):
        path = text.removeprefix(SOCKET)
        if not path or "\0" in path:
            raise UserError(f"--gateway {text}: the path of the socket file must follow `{SOCKET}`.")
        return GatewayAddress("http://localhost", path, _token(environment))
    try:
        url = checked_address(text).removesuffix("/v1")
    except ValueError as error:
        raise UserError(f"--gateway: {error} A gateway on a socket file is `unix:PATH`. Nothing was sent.") from None
    if urlsplit(url).path or urlsplit(url).query:
        raise UserError(f"--gateway {url}: write https://HOST:PORT without a path. Nothing was sent.")
    if url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        raise UserError(
            f"--gateway {url}: prompts and the token would be sent unencrypted to another machine. Start the gateway "
            "with --tls and write https://, or forward a port to it (`ssh -L`). Nothing was sent."
        )
    token = _token(environment)
    if not token:
        raise MissingError(
            f"the gateway {url} needs a token: put it into {TOKEN}, or the path of the gateway's file into "
            f"{TOKEN_FILE}. Nothing was sent."
        )
    return GatewayAddress(url, token=token)


def _token(environment: Mapping[str, str]) -> str:
    """Return the token in the environment, or the first one in its file; "" if there is none."""
    if token := environment.get(TOKEN, "").strip():
        if not token.isascii() or not token.isprintable():
            raise UserError(f"{TOKEN} is not a token: it has characters that tokens never have.")
        return token
    file = environment.get(TOKEN_FILE, "").strip()
    return read_tokens(Path(file))[0].token if file else ""


@dataclass(frozen=True, slots=True)
class NamedToken:
    """A token, and the name of the worker or user it was given to."""

    name: str
    """The name; empty if the file states none."""
    token: str
    """The token."""

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"NamedToken({self.name!r})"


class Tokens:
    """The tokens that a gateway accepts."""

    def __init__(
        self, accepted: Sequence[NamedToken], file: Path | None = None, note: Callable[[str], object] = str
    ) -> None:
        """Keep their digests only. `file`: read again when it changes; `note`: receives messages for the user."""
        self._known = [(one.name, _digest(one.token)) for one in accepted]
        self._file, self._note = file, note
        self._version = _version(file)

    def name_of(self, token: str) -> str | None:
        """Return the name of the token's owner, "" if it has none; None for a wrong token.

        Every token takes the same time to check.
        """
        if self._file is not None and _version(self._file) != self._version:
            self._read_again(self._file)
        given, found = _digest(token), None
        for name, known in self._known:
            if hmac.compare_digest(given, known):
                found = name
        return found

    def _read_again(self, file: Path) -> None:
        """Accept the tokens that are in the file now; those accepted before stay if it cannot be read."""
        self._version = _version(file)
        try:
            self._known = [(one.name, _digest(one.token)) for one in read_tokens(file)]
        except UserError as error:
            self._note(f"{error} The tokens that were in it before are still accepted.")
        else:
            n = len(self._known)
            self._note(f"{file} has changed: {plural(n, 'token')} {'is' if n == 1 else 'are'} accepted")


def _version(file: Path | None) -> tuple[int, ...]:
    """Return what differs when a file has changed; empty if there is none."""
    try:
        about = file.stat() if file else None
    except OSError:
        return ()
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_mode) if about else ()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(file: Path) -> list[NamedToken]:
    """Read a file with one token a line, each after a name or alone. Raises: UserError naming the line."""
    try:
        mode = file.stat().st_mode
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UserError(f"{file}: the file with the gateway's tokens cannot be read ({reason}).") from None
    if os.name != "nt" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"{file}: other users can read the gateway's tokens. Restrict access: chmod 600 {file}")
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or not (len(words) == 1 or is_worker_name(words[0])):
            raise UserError(
                f"{file}, line {number}: write TOKEN, or NAME TOKEN. A name has at most {LONGEST} letters, digits and "
                "characters of `_.:@+-`."
            )
        if len(words[-1]) < SHORTEST_TOKEN or not words[-1].isascii() or not line.isprintable():
            raise UserError(
                f"{file}, line {number}: a token has at least {SHORTEST_TOKEN} characters, all of them ASCII. "
                "`openssl rand -hex 32` makes one."
            )
        found.append(NamedToken(words[0] if len(words) == 2 else "", words[-1]))
    if not found:
        raise UserError(f"{file}: holds no token. Write one per line; `openssl rand -hex 32` makes one.")
    return found


def new_token_file(file: Path) -> None:
    """Write a new token to a file that only its owner can read; one that exists stays. Raises: UserError."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise UserError(f"{file}: the file with the gateway's token cannot be made ({error.strerror}).") from None
    with os.fdopen(number, "w", encoding="utf-8") as opened:
        opened.write(f"{secrets.token_urlsafe(32)}\n")


# --- worker -----------------------------------------------------------------------------------------------------------
# A client whose models are called by another process.
#
# A worker needs neither keys nor a cache, and contacts the gateway alone. Models are the gateway's own, with its
# addresses and prices, so that digests, runs and costs are those of a run without a gateway. A connection that breaks
# is opened again, and requests without a result are sent again.

FIRST_ATTEMPTS = 5
"""Attempts to reach a gateway when a command starts; the waits between them double from `FIRST_WAIT_S`."""

FIRST_WAIT_S = 0.5
"""Wait before the second attempt."""

LONGEST_WAIT_S = 10.0
"""Longest wait between two attempts to connect again."""

HEARTBEAT_S = 20.0
"""Seconds after which a connection without any sign of life counts as lost."""

REPLY_S = 30.0
"""Seconds to wait for a reply that needs no model, all attempts to reach a gateway at the start included."""

DIGEST_BYTES = 8
"""Bytes of the digests of what was bought before: enough to identify them."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a gateway serves."""

    model: Model
    """The model, as the gateway defines it."""
    gets_private_data: bool
    """True if it may get data that is not public."""
    hosts: tuple[str, ...]
    """Its hosts that may not get such data."""


class GatewayProvider(Provider):
    """A model behind a gateway."""

    replies_in_time = False  # the gateway watches the service

    def __init__(self, model: Model, client: GatewayClient, public: Collection[str]) -> None:
        """`public`: names of the benchmarks whose data may go to any host."""
        self.model = model
        self.endpoint = str(client.address)
        self.tag = tag_of(model)
        self._client, self._public = client, frozenset(public)

    def is_public(self, benchmark: str) -> bool:
        """Return True if the data of a benchmark may go to any host; other data needs consent."""
        return benchmark in self._public

    async def complete(self, request: Request) -> Completion:
        """Return the completion of a request, from the gateway's cache or its model."""
        return (await self._client.complete(self, request)).completion


class GatewayClient(Client):
    """A client whose requests a gateway completes; models within this process are called here, as usual."""

    def __init__(
        self,
        address: GatewayAddress,
        budget: Budget,
        link: _Link,
        known: bytes,
        *,
        note: Callable[[str], object] | None = None,
    ) -> None:
        """`known`: what the gateway has bought before (`KNOWN_PATH`)."""
        super().__init__(cache=None, budget=budget, note=note)
        self.address = address
        self._link = link
        self._bought: set[bytes] = set()
        self._known_before = array("Q", known)
        if byteorder == "little":
            self._known_before.byteswap()

    def is_known(self, request: Request) -> bool:
        """Return True if the completion was in the gateway's cache at the start, or has arrived since."""
        digest = request.digest
        if digest in self._bought:
            return True
        number, known = int.from_bytes(digest[:DIGEST_BYTES]), self._known_before
        place = bisect_left(known, number)
        return place < len(known) and known[place] == number

    async def complete(self, provider: Provider, request: Request) -> ClientResult:
        """Return the completion of a request, as `Client.complete` does, and raise what it raises."""
        if not isinstance(provider, GatewayProvider):
            return await super().complete(provider, request)
        if self._stopped is not None:
            raise self._stopped
        digest = request.digest
        public = provider.is_public(request.benchmark)
        async with self._budget.purchase(request, digest) as purchase:
            purchase.sent = True
            try:
                result = await self._link.complete(request, digest, provider.tag, public=public)
            except (BudgetError, StoreError, UserError):
                purchase.sent = False  # refused by the gateway
                raise
            if result.cached:
                purchase.sent = False  # it costs nothing
            else:
                purchase.completion = result.completion
        self.requests_sent += result.requests_sent
        self._bought.update((digest, result.digest))
        return result


class _Sent(NamedTuple):
    """A request without a result."""

    text: str
    """Its JSON object."""
    subject: Subject
    """Its entry in the audit log."""
    result: asyncio.Future[ClientResult]


class _Link:
    """The connection to a gateway, which is opened with the first request."""

    def __init__(
        self,
        address: GatewayAddress,
        session: aiohttp.ClientSession,
        audit: Audit,
        max_silence_s: float,
        note: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._session, self._audit = address, session, audit
        self._shown = str(address)
        self._max_silence_s, self._note, self._clock = max_silence_s, note, clock
        self._room = asyncio.Semaphore(MOST_PENDING // 2)
        self._number = 0
        self._waiting: dict[int, _Sent] = {}
        self._unsent: list[int] = []
        self._has_unsent = asyncio.Event()
        self._lost_since: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._given_up = ""

    async def complete(self, request: Request, digest: bytes, tag: str, *, public: bool) -> ClientResult:
        """Return the result of a request; `tag`: that of its model. Raises: what `Client.complete` raises."""
        name = request.model.name
        text = write_request(request, tag, public=public)
        async with self._room:
            if self._given_up:
                raise ModelUnusable(name, self._given_up)
            self._number += 1
            number = self._number
            future: asyncio.Future[ClientResult] = asyncio.get_running_loop().create_future()
            subject = Subject(name, request.benchmark, digest.hex())
            self._waiting[number] = _Sent(f'{{"id":{number},{text}', subject, future)
            self._unsent.append(number)
            self._has_unsent.set()
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())
            try:
                return await future
            except GatewayError as error:
                raise ModelUnusable(name, f"the gateway {self._address}: {error}") from error
            finally:
                self._waiting.pop(number, None)

    async def close(self) -> None:
        """Close the connection. Requests in progress are finished and kept by the gateway."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        """Keep a connection open until it is given up."""
        attempt = 0
        while True:
            began = self._clock()
            reason = await self._connect()
            if self._given_up:
                return
            if self._clock() - began > HEARTBEAT_S:
                self._lost_since = None  # it was there for some time
            attempt = 0 if self._lost_since is None else attempt + 1
            if self._lost_since is None:
                self._lost_since = max(began, self._clock() - HEARTBEAT_S)
                self._note(
                    f"the gateway {self._address} is lost ({reason}). Trying again for {self._max_silence_s:.0f} s."
                )
            if self._clock() - self._lost_since > self._max_silence_s:
                self._give_up(
                    f"the gateway {self._address} cannot be reached ({reason}) for {self._max_silence_s:.0f} s. "
                    "Everything received is kept; run the same command again to continue."
                )
                return
            await asyncio.sleep(min(LONGEST_WAIT_S, 0.1 * 2.0**attempt))

    async def _connect(self) -> str:
        """Use a connection until it ends, and return why it ended; give up if another attempt cannot help."""
        try:
            async with self._session.ws_connect(
                f"{self._address.url}{REQUESTS_PATH}",
                headers=headers_of(self._address),
                heartbeat=HEARTBEAT_S,
                max_msg_size=MOST_BYTES,
                compress=0,
            ) as socket:
                await self._exchange(socket)
                if socket.close_code == aiohttp.WSCloseCode.UNSUPPORTED_DATA:
                    self._give_up(f"the gateway {self._address} refused what was sent. Update both sides.")
        except aiohttp.WSServerHandshakeError as error:
            if error.status in (401, 404):
                why = "does not accept the token" if error.status == 401 else "is not a gateway of this version"
                self._give_up(f"the gateway {self._address} {why}.")
            return f"HTTP status {error.status}"
        except aiohttp.ClientSSLError as error:
            self._give_up(_tls_problem(error, self._address))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return _reason_of(error)
        except (GatewayError, ProviderError) as error:
            self._give_up(f"the gateway {self._address}: {error}")
        except UserError as error:
            self._give_up(str(error))
        return "it closed the connection"

    async def _exchange(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Exchange requests and results until the connection ends. Raises: GatewayError."""
        self._unsent = list(self._waiting)  # what an earlier connection lost is sent again
        if self._unsent:
            self._has_unsent.set()
        sending = asyncio.ensure_future(self._send(socket))
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    raise GatewayError("bad_request", "sent what is not text")
                self._receive(message.data)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, ConnectionError, aiohttp.ClientError):
                await sending

    async def _send(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Send requests; those that are made together share a message."""
        while True:
            await self._has_unsent.wait()
            await asyncio.sleep(GATHER_S)
            self._has_unsent.clear()
            numbers, self._unsent = self._unsent, []
            sent = [self._waiting[number] for number in numbers if number in self._waiting]
            try:
                self._audit.request_all("POST", self._shown, [(one.subject, len(one.text)) for one in sent])
            except StoreError as error:  # nothing is sent without an entry
                for one in sent:
                    if not one.result.done():
                        one.result.set_exception(error)
                continue
            for text in joined([one.text for one in sent]):
                await socket.send_str(text)

    def _receive(self, text: str) -> None:
        """Resolve the requests of a list of results. Raises: GatewayError."""
        self._lost_since = None
        for number, result in read_results(text):
            known = self._waiting.get(number)
            if known is None or known.result.done():
                continue  # its caller has gone
            future = known.result
            if isinstance(result, ClientResult):
                future.set_result(result)
            elif not (isinstance(result, GatewayError) and result.code == STOPPING):
                future.set_exception(result)  # after a stop it waits for the next gateway

    def _give_up(self, reason: str) -> None:
        """Fail all current and later requests."""
        self._given_up = self._given_up or reason
        for one in self._waiting.values():
            if not one.result.done():
                one.result.set_exception(GatewayError("lost", reason))


# --- opening ----------------------------------------------------------------------------------------------------------


class RemoteGateway:
    """A gateway, as the environment of a worker names it: a `models.gateway.Remote`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment`: variables with the address and the token, which are read when they are needed."""
        self._environment = environment

    def policy(self, *, offline: bool) -> EgressPolicy:
        """Return the egress policy of a worker: the gateway may be contacted, and no other host."""
        host = gateway_address(self._environment).host
        return EgressPolicy(offline, {host} if host else ())

    def models(self, names: Sequence[str]) -> list[Model]:
        """Return the models of these names, in order, as the gateway serves them.

        Raises: UserError for names that it does not serve, and for a wrong address or token; MissingError if it cannot
        be reached.
        """
        return [one.model for one in self._served(names)]

    def check_private_data(
        self, benchmarks: Collection[str], models: Sequence[Model], allowed: Collection[str]
    ) -> None:
        """Check that data that is not public may go to the gateway, and from there to the hosts of these models.

        Parameters: benchmarks, names of those that are not public; allowed, hosts of the worker's --allow-host.
        Raises: UserError.
        """
        address = gateway_address(self._environment)
        names = ", ".join(benchmarks)
        if not address.is_inside and address.host not in {host.lower() for host in allowed}:
            raise UserError(
                f"{names}: data that is not public would be sent to the gateway {address}, outside this machine and "
                f"private networks. If that is permitted, add --allow-host {address.host}. Nothing was sent."
            )
        if refused := [one for one in self._served([model.name for model in models]) if not one.gets_private_data]:
            hosts = dict.fromkeys(host for one in refused for host in one.hosts)
            raise UserError(
                f"{names}: data that is not public would leave the gateway {address} for {', '.join(hosts)} "
                f"({', '.join(one.model.name for one in refused)}). If its terms of use permit that, start the gateway "
                f"with {' '.join(f'--allow-host {host}' for host in hosts)}. Nothing was sent."
            )

    @asynccontextmanager
    async def open_client(
        self,
        policy: EgressPolicy,
        budget: Budget,
        audit: Audit,
        max_silence_s: float,
        note: Callable[[str], object] | None = None,
    ) -> AsyncIterator[GatewayClient]:
        """Open the client of a worker, and close it in the end. Raises: UserError, MissingError."""
        address = gateway_address(self._environment)
        async with _http_session(address, policy, audit) as session:
            known = await _get(session, address, KNOWN_PATH)
            if len(known) % DIGEST_BYTES:
                raise UserError(f"the gateway {address} sent digests of another length. Update both sides.")
            link = _Link(address, session, audit, max_silence_s, note or (lambda _: None))
            try:
                yield GatewayClient(address, budget, link, known, note=note)
            finally:
                await link.close()

    def open_providers(self, models: Iterable[Model], client: Client, public: Collection[str]) -> dict[str, Provider]:
        """Return model -> its provider, for all but those that answer within this process.

        `public`: names of the benchmarks whose data may go to any host.
        """
        assert isinstance(client, GatewayClient), "the session has a gateway"
        return {
            model.name: GatewayProvider(model, client, public)
            for model in models
            if not answers_in_process(model.provider)
        }

    def _served(self, names: Sequence[str]) -> list[ServedModel]:
        """Return the models of these names, with the data that they may get. Raises: as `models`."""
        if not names:
            return []
        with ThreadPoolExecutor(max_workers=1) as executor:  # the caller may be in an event loop
            return executor.submit(asyncio.run, self._fetch_models(names)).result()

    async def _fetch_models(self, names: Sequence[str]) -> list[ServedModel]:
        address = gateway_address(self._environment)
        async with _http_session(address, self.policy(offline=is_offline(self._environment)), None) as session:
            content = await _get(session, address, MODELS_PATH, {"format": FORMAT, "models": list(names)})
        try:
            served = json.loads(content)["models"]
            return [
                ServedModel(MODEL.read(one["model"]), bool(one["private_data"]), tuple(map(str, one["hosts"])))
                for one in served
            ]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(
                f"the gateway {address} sent models that cannot be read ({error}). Use the same version of medhelm on "
                "both sides. Nothing was sent."
            ) from None


def headers_of(address: GatewayAddress) -> dict[str, str]:
    """Return the headers of requests: the token, and the name of this worker for the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    name = f"{user}@{platform.node()}".encode("ascii", "replace").decode()
    token = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    return {WORKER_HEADER: name, **token}


def _http_session(address: GatewayAddress, policy: EgressPolicy, audit: Audit | None) -> aiohttp.ClientSession:
    """Open a session to the gateway alone, which follows no redirects. Raises: UserError if the policy forbids it."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=REPLY_S), "trace_configs": [trace]}
    if address.socket_file:
        return aiohttp.ClientSession(connector=aiohttp.UnixConnector(address.socket_file), **options)
    policy.admit(address.url)
    return open_http_session(policy, audit, **options)


async def _refuse_redirect(_: object, __: object, found: aiohttp.TraceRequestRedirectParams) -> None:
    """Raise ProviderError: the request that opens a WebSocket would follow a redirect to any host."""
    from medhelm.io.http.client import redirected

    target = without_secrets(found.response.headers.get("Location", ""))
    raise redirected(found.response.status, target, found.url)


async def _get(
    session: aiohttp.ClientSession, address: GatewayAddress, path: str, payload: Mapping[str, Any] | None = None
) -> bytes:
    """Return the body of a reply; the gateway may be starting. Raises: UserError, MissingError, StoreError."""
    reason = f"it did not reply within {REPLY_S:g} s"
    try:
        async with asyncio.timeout(REPLY_S):
            for attempt in range(FIRST_ATTEMPTS):
                if attempt:
                    await asyncio.sleep(FIRST_WAIT_S * 2.0 ** (attempt - 1))
                content, reason = await _get_once(session, address, path, payload)
                if not reason:
                    return content
    except TimeoutError:
        pass
    raise MissingError(
        f"the gateway {address} cannot be reached: {reason}. Start it with `medhelm gateway`, and name it with "
        "--gateway as it prints it. Nothing was sent."
    )


async def _get_once(
    session: aiohttp.ClientSession, address: GatewayAddress, path: str, payload: Mapping[str, Any] | None
) -> tuple[bytes, str]:
    """Return the body of a reply, or why there is none, if another attempt can help. Raises: as `_get`."""
    method = "GET" if payload is None else "POST"
    try:
        async with session.request(
            method, f"{address.url}{path}", json=payload, headers=headers_of(address), allow_redirects=False
        ) as response:
            content = await response.read()
            if response.status == 200:
                return content, ""
            reason = _message_in(content) or f"HTTP status {response.status}"
            if response.status < 500:
                raise UserError(f"the gateway {address}: {reason} Nothing was sent.")
            return b"", reason
    except aiohttp.ClientSSLError as error:
        raise MissingError(f"{_tls_problem(error, address)} Nothing was sent.") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return b"", _reason_of(error)


def _message_in(content: bytes) -> str:
    """Return the message in the body of an error; "" if there is none."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(content)["error"]["message"])[:2000]
    return ""


def _tls_problem(error: Exception, address: GatewayAddress) -> str:
    """Return why there is no TLS connection, and what to do."""
    from medhelm.io.http.client import connection_problem

    return str(connection_problem(error, URL(address.url), REPLY_S, near=False, of_model=False))


def _reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not reply"
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or type(error).__name__
