"""An HTTP proxy on 127.0.0.1 that leads every tunnel to one server, and certificates made by openssl."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class _Listener:
    """A server in a thread of its own."""

    def __init__(self, handle: Handler, context: ssl.SSLContext | None = None) -> None:
        self._handle, self._context = handle, context
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(600)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(600)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()


class TunnelProxy(_Listener):
    """A proxy that knows CONNECT only."""

    def __init__(self, target_port: int, *, refusal: str = "") -> None:
        """`refusal`: status line with which it refuses every tunnel, such as `403 Forbidden`."""
        super().__init__(self._tunnel)
        self._refusal = refusal
        self.requests: list[str] = []
        """Head of each request to the proxy."""
        self._target_port = target_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if self._refusal:
            writer.write(f"HTTP/1.1 {self._refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            writer.close()
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(2**16):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


class TlsServer(_Listener):
    """A server with TLS that gives every request the same JSON body."""

    def __init__(self, context: ssl.SSLContext, body: bytes = b"{}") -> None:
        super().__init__(self._answer, context)
        self.bodies: list[bytes] = []
        self._body = body

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: *(\d+)", head.lower())
                self.bodies.append(await reader.readexactly(int(length[1]) if length else 0))
                fields = f"Content-Type: application/json\r\nContent-Length: {len(self._body)}"
                writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + self._body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@dataclass(frozen=True)
class Certificates:
    """A certificate authority, and certificates of a server and a client that it issued."""

    ca: Path
    server: Path
    client: Path

    def server_context(self, *, ask_client: bool = False) -> ssl.SSLContext:
        """Return the TLS settings of a server; `ask_client`: it requires the client's certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


def make_certificates(folder: Path, host: str) -> Certificates:
    """Make a certificate authority and certificates for `host` and a client; each file holds its key as well."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("needs openssl, to make certificates")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], check=True, capture_output=True, cwd=folder)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    run("req", "-x509", *new, "-subj", "/CN=Hospital CA", "-keyout", "ca.key", "-out", "ca.pem", *extensions)
    for name, subject in (("server", host), ("client", "evaluation")):
        run("req", *new, "-subj", f"/CN={subject}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "ext").write_text(f"subjectAltName=DNS:{subject}\n", encoding="utf-8")
        issuer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext")
        run("x509", "-req", "-in", f"{name}.csr", *issuer, "-out", f"{name}.crt")
        parts = [(folder / f"{name}{end}").read_text(encoding="utf-8") for end in (".crt", ".key")]
        (folder / f"{name}.pem").write_text("".join(parts), encoding="utf-8")
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
