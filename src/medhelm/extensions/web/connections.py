"""Connections of the server: a client that sends or reads too slowly, or keeps too many open, stops no other client.

uvicorn limits neither the time for a request nor the connections of one client, and refuses everyone when there are too
many. Here a request must arrive within seconds. Of connections without a whole request, the oldest of the client with
the most are closed first. Clients are known by their address: all users of this machine are one client.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

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
