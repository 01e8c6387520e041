"""A server on 127.0.0.1 that keeps objects in memory: S3, Google Cloud Storage and Azure, as far as they are used."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Received:
    """A request."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class ObjectServer:
    """Answers requests for one bucket. `with ObjectServer() as server: ... server.url`."""

    PAGE = 2
    """Objects in one page of a list."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        """Path with the bucket -> content."""
        self.received: list[Received] = []
        self.redirect: tuple[int, str] | None = None
        """Status and target of the answer to every request."""
        self.failures: list[int] = []
        """Statuses of the answers to the next requests."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.command, self.path, headers, body)
                server.received.append(request)
                status, content, extra = server.answer(request)
                self.send_response(status)
                for name, value in {**extra, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(600)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: Received) -> tuple[int, bytes, Mapping[str, str]]:
        """Return status, body and headers."""
        if self.redirect:
            return self.redirect[0], b"", {"Location": self.redirect[1] + request.path}
        if self.failures:
            return self.failures.pop(0), b"<Error><Code>Failed</Code></Error>", {}
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if query.get("list-type") == "2" or query.get("comp") == "list":
            return 200, self._list(unquote(parts.path).strip("/"), query), {}
        path = unquote(parts.path).strip("/")
        if request.method == "PUT":
            names = ("if-none-match", "x-goog-if-generation-match")
            if path in self.objects and any(name in request.headers for name in names):
                return (409 if "x-ms-blob-type" in request.headers else 412), b"", {}
            self.objects[path] = request.body
            return 201, b"", {}
        return (200, self.objects[path], {}) if path in self.objects else (404, b"", {})

    def _list(self, bucket: str, query: Mapping[str, str]) -> bytes:
        start = f"{bucket}/{query.get('prefix', '')}"
        keys = sorted(key.removeprefix(f"{bucket}/") for key in self.objects if key.startswith(start))
        first = int(query.get("continuation-token") or query.get("marker") or 0)
        more = str(first + self.PAGE) if first + self.PAGE < len(keys) else ""
        found = [(escape(key), len(self.objects[f"{bucket}/{key}"])) for key in keys[first : first + self.PAGE]]
        if "comp" in query:
            items = "".join(
                f"<Blob><Name>{key}</Name><Properties><Content-Length>{size}</Content-Length></Properties></Blob>"
                for key, size in found
            )
            text = f"<EnumerationResults><Blobs>{items}</Blobs><NextMarker>{more}</NextMarker></EnumerationResults>"
        else:
            items = "".join(f"<Contents><Key>{key}</Key><Size>{size}</Size></Contents>" for key, size in found)
            token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
            text = f'<ListBucketResult xmlns="http://s3.example/doc">{items}{token}</ListBucketResult>'
        return f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()
