"""The server of a site: on a port of this machine, or on a socket file that only its owner can open."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from medhelm.errors import UserError
from medhelm.extensions.web.app import LINKS, answer, create_app, environment
from medhelm.extensions.web.page import BY_NAME, PageRequest
from medhelm.extensions.web.security import LOCAL_NAMES, Security
from medhelm.extensions.web.site import Site
from medhelm.io.http.listening import (
    NO_PROXY,
    ProxyOptions,
    check_certificate,
    is_loopback_address,
    listen_on,
    listen_on_file,
)
from medhelm.io.http.mounted_pages import MountedPages
from medhelm.io.plugins import PAGES, LazyMapping, extension_targets

LOOPBACK = "127.0.0.1"
"""Address that other machines cannot reach."""

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""New objects after which Python looks for cycles: after its 700 that takes a tenth of the time of a large store."""

SWITCH_S = 0.001
"""Seconds for which a thread computes before others may: with Python's 0.005, small pages wait long for large ones."""

DEFAULT_PORT = 8642
"""Port unless another one is asked for."""

HTTPS_PORT = 443
"""Port of addresses that begin with `https:` and name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Address, port or socket file of a server."""

    host: str = LOOPBACK
    """Address to listen on; another one than loopback only with a certificate or behind a proxy."""
    port: int = DEFAULT_PORT
    """Port; 0 for any free one."""
    socket_file: Path | None = None
    """File of a socket to listen on instead of a port."""
    proxy: ProxyOptions = NO_PROXY
    """A proxy with TLS in front of the server."""
    certificate: tuple[Path, Path] | None = None
    """PEM files of a certificate chain and its private key: the server speaks TLS itself."""
    names: Sequence[str] = ()
    """Host names by which browsers reach a server with a certificate."""


def serve(site: Site, where: Listener, announce: Callable[[str], None]) -> None:
    """Serve a site until the process is interrupted.

    Parameters: announce, called once with the address that opens the site, token included.
    Raises: UserError for an address or file that cannot be used.
    """
    _check(where)
    listening = _listen(where)
    try:
        security, address = _secure(where, listening)
        added: LazyMapping[MountedPages] = LazyMapping(extension_targets(PAGES))
        app = create_app(site, security, list(added.values()))
        threading.Thread(target=_warm_up, args=(site,), daemon=True).start()
        server = server_of(app, where.certificate)
        announce(f"{address}/login#t={quote(security.token)}")
        server.run(sockets=[listening])
    finally:
        listening.close()
        if where.socket_file is not None:
            where.socket_file.unlink(missing_ok=True)


def _check(where: Listener) -> None:
    """Raise UserError for an address that other machines could reach without TLS, and for files TLS cannot use."""
    where.proxy.check()
    if where.certificate is not None:
        if where.proxy.hosts or where.socket_file is not None:
            raise UserError("--tls: choose one of --tls, --behind-proxy and --socket.")
        if not where.names:
            raise UserError("--tls: add --name HOST, the name of this machine in the certificate.")
        check_certificate(*where.certificate)
    elif where.names:
        raise UserError("--name: only a server with --tls has names.")
    elif where.socket_file is None and not where.proxy.hosts and not is_loopback_address(where.host):
        raise UserError(
            f"--host {where.host}: other machines could read the site without encryption. Use the default, 127.0.0.1, "
            "with `ssh -L`, give a certificate with --tls, or name a proxy with TLS in front: --behind-proxy HOST."
        )


def _secure(where: Listener, listening: socket.socket) -> tuple[Security, str]:
    """Return the token and hosts of the server, and the address that browsers use."""
    if where.proxy.hosts:
        hosts = [host.lower() for host in where.proxy.hosts]
        believed, header = where.proxy.trusted(), where.proxy.user_header
        security = Security(hosts=hosts, https=True, cookie="__Host-medhelm", proxies=believed, user_header=header)
        return security, f"https://{hosts[0]}"
    if where.socket_file is not None:
        return Security(hosts=LOCAL_NAMES, any_port=True), "http://localhost:PORT"
    port = listening.getsockname()[1]
    if where.certificate is not None:
        hosts = [f"{name.lower()}:{port}" for name in where.names]
        if port == HTTPS_PORT:
            hosts = [name.lower() for name in where.names]  # browsers leave out the port of their scheme
        return Security(hosts=hosts, https=True, cookie="__Host-medhelm"), f"https://{hosts[0]}"
    shown = f"[{where.host}]" if ":" in where.host else where.host
    hosts = [f"{name}:{port}" for name in dict.fromkeys([shown, *LOCAL_NAMES])]
    return Security(hosts=hosts, cookie=f"medhelm-{port}"), f"http://{shown}:{port}"


def _listen(where: Listener) -> socket.socket:
    """Return a bound socket. Raises: UserError if the port is in use or the file cannot be made."""
    if where.socket_file is not None:
        return listen_on_file(where.socket_file)
    return listen_on(where.host, where.port)


def _warm_up(site: Site) -> None:
    """Make the first page before a browser asks for it, compile all templates, then test all pairs of models.

    The page that browsers get meanwhile is compiled first. A page shows its own errors.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(SWITCH_S)
    templates = environment()
    for name in ("base.html", "waiting.html"):
        templates.get_template(name)
    answer(site, PageRequest(route=BY_NAME["leaderboard"], links=LINKS))
    for name in templates.list_templates():
        templates.get_template(name)
    answer(site, PageRequest(route=BY_NAME["compare"], links=LINKS))


# --- connections ------------------------------------------------------------------------------------------------------
# Connections of the server: a client that sends or reads too slowly, or keeps too many open, stops no other client.
#
# uvicorn limits neither the time for a request nor the connections of one client, and refuses everyone when there are
# too many. Here a request must arrive within seconds. Of connections without a whole request, the oldest of the client
# with the most are closed first. Clients are known by their address: all users of this machine are one client.

REQUEST_S = 10.0
"""Seconds for a whole request to arrive, and for a connection with TLS to be opened."""

STALL_S = 30.0
"""Seconds for a client to continue reading a response."""

MOST_WAITING = 100
"""Connections without a whole request at a time; one more closes the oldest of the client that has the most."""

MOST_CONNECTIONS = 200
"""Connections at a time; further requests are refused."""

MOST_HEADER_BYTES = 32_768
"""Most bytes of the first line and the headers of a request."""


def server_of(app: Any, certificate: tuple[Path, Path] | None = None) -> Server:
    """Return a server of an application, which listens when it is run. `certificate`: files for TLS."""
    config = uvicorn.Config(
        app,
        access_log=False,  # addresses hold ids of cases
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        loop="asyncio",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
    )
    return Server(config)


class Server(uvicorn.Server):
    """A server whose connections are `Connection`."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on sockets."""
        waiting: dict[Connection, str] = {}
        config = self.config

        def connect() -> Connection:
            return Connection(config, self.server_state, waiting)

        loop, tls = asyncio.get_running_loop(), config.ssl
        limit_s = REQUEST_S if tls else None
        self.servers = [
            await loop.create_server(connect, sock=one, ssl=tls, ssl_handshake_timeout=limit_s, backlog=config.backlog)
            for one in sockets or ()
        ]
        self.started = True


class Connection(H11Protocol):
    """A connection that is closed if a request does not arrive, or a response is not read, in time."""

    def __init__(self, config: uvicorn.Config, state: Any, waiting: dict[Connection, str]) -> None:
        """`waiting`: the connections of the server without a whole request, the oldest first, with their clients."""
        super().__init__(config, state, {})
        self._waiting = waiting
        self._request_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._note_state()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._note_state()

    def on_response_complete(self) -> None:
        """Expect the next request."""
        super().on_response_complete()
        self._note_state()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all timers."""
        super().connection_lost(exc)
        self.resume_writing()
        self._note_state(is_lost=True)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._stall_timer = self._stall_timer or self.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue with the response."""
        super().resume_writing()
        if self._stall_timer:
            self._stall_timer.cancel()
        self._stall_timer = None

    def _note_state(self, *, is_lost: bool = False) -> None:
        """Start the time for a request if none is there, and end it when it has arrived. Bytes do not extend it."""
        is_waiting = not is_lost and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if is_waiting and not self._request_timer:
            self._request_timer = self.loop.call_later(REQUEST_S, self.transport.abort)
            self._waiting[self] = self.client[0] if self.client else ""
            if len(self._waiting) > MOST_WAITING:
                crowd = Counter(self._waiting.values()).most_common(1)[0][0]
                oldest = next(one for one, client in self._waiting.items() if client == crowd)
                oldest.transport.abort()
                del self._waiting[oldest]
        elif not is_waiting and self._request_timer:
            self._request_timer.cancel()
            self._request_timer = None
            self._waiting.pop(self, None)
