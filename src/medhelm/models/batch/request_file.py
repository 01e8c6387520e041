"""Requests that are handed over together, in a file: they can have hundreds of megabytes."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import IO, Any

from medhelm.errors import StoreFullError
from medhelm.models.batch.protocol import BatchService


class RequestFile:
    """One batch as its service gets it."""

    def __init__(self, service: BatchService, file: IO[bytes], most_requests: int) -> None:
        """Nothing is in it yet. `file`: takes what is put in, and is empty."""
        self.name = f"medhelm-{token_hex(10)}"
        """Our own name for the batch, which no other has."""
        self.digests: list[str] = []
        """Of the requests in it."""
        self.stops = False
        """Whether any of them names sequences that end its answer."""
        self.file = file
        """What is sent, once it is sealed."""
        self._service, self._most_requests = service, most_requests
        self._frame = service.frame(self.name)
        self._size = 0

    def add(self, digest: str, body: Mapping[str, Any], *, stops: bool = False) -> bool:
        """Put in a request; False if it has no room. Raises: StoreFullError."""
        line = self._service.line(self.name, digest, body)
        size = self._size + len(line) + len(self._frame.between)
        if len(self.digests) >= self._most_requests or size > self._service.most_bytes:
            return False
        self._write(self._frame.between if self.digests else self._frame.head, line)
        self._size = size
        self.digests.append(digest)
        self.stops = self.stops or stops
        return True

    def seal(self) -> None:
        """Nothing more is put in. Raises: StoreFullError."""
        self._write(self._frame.tail)

    def _write(self, *parts: bytes) -> None:
        try:
            self.file.writelines(parts)
        except OSError as error:
            raise StoreFullError(f"no room on disk for a batch: {error.strerror or error}; free some") from error
