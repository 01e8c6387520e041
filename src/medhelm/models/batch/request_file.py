"""The file with the requests of one batch, which can have hundreds of megabytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import IO, Any

from medhelm.errors import StoreFullError
from medhelm.models.batch.protocol import BatchFraming, BatchService


@dataclass(slots=True)
class RequestFile:
    """Requests of one batch, encoded as its service expects them."""

    service: BatchService
    """Encodes the requests."""
    file: IO[bytes]
    """An empty file; what is submitted, once `close_batch` was called."""
    max_requests: int
    """Most requests, if lower than the service's own limit."""
    name: str = field(default_factory=lambda: f"medhelm-{token_hex(10)}")
    """Our unique name for the batch."""
    digests: list[str] = field(default_factory=list)
    """Digests of the requests, as hexadecimal digits."""
    benchmarks: set[str] = field(default_factory=set)
    """Benchmarks of the requests."""
    has_stop_sequences: bool = False
    """True if any request names stop sequences."""
    framing: BatchFraming = field(init=False)
    """The bytes around the requests."""
    _size: int = 0

    def __post_init__(self) -> None:
        """The framing depends on the name."""
        self.framing = self.service.framing(self.name)

    def add(self, digest: str, body: Mapping[str, Any], *, has_stop_sequences: bool = False) -> bool:
        """Add a request; return False if it exceeds a limit. Raises: StoreFullError."""
        encoded = self.service.encode(self.name, digest, body)
        size = self._size + len(encoded) + len(self.framing.separator)
        if len(self.digests) >= self.max_requests or size > self.service.max_bytes:
            return False
        self._write(self.framing.separator if self.digests else self.framing.prefix, encoded)
        self._size = size
        self.digests.append(digest)
        self.has_stop_sequences = self.has_stop_sequences or has_stop_sequences
        return True

    def finish(self) -> None:
        """Write the bytes after the last request. Raises: StoreFullError."""
        self._write(self.framing.suffix)

    def _write(self, *parts: bytes) -> None:
        try:
            self.file.writelines(parts)
        except OSError as error:
            raise StoreFullError(
                f"no space left on the disk for a batch ({error.strerror or error}); free some space"
            ) from error
