"""Noting requests in the audit log before they are sent: what an entry says, and who writes it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple, Protocol


class Subject(NamedTuple):
    """Model, benchmark and digest of a request, for the audit log."""

    model: str = ""
    """Name of the model; empty if none is asked."""
    benchmark: str = ""
    """Name of the benchmark whose data is in it, or several with commas; empty if there is none."""
    digest: str = ""
    """Hexadecimal digest of the request in cache and records; empty: the SHA-256 of the body is used."""
    requests: int = 1
    """Number of requests to models in it, if it has a body."""
    in_file: bool = False
    """True if those requests are in a file for a batch API, and not in other requests about it."""
    worker: str = ""
    """Name of the worker that a gateway sends it for; empty if this process needs it itself."""


SUBJECT: ContextVar[Subject | None] = ContextVar("SUBJECT", default=None)
"""Subject of the requests that the current task sends; a variable, so that providers need not pass it on."""

WORKER: ContextVar[str] = ContextVar("WORKER", default="")
"""Name of the worker that a gateway sends the requests of the current task for."""


class Audit(Protocol):
    """Writes the audit log. Methods return once the entry survives the end of this process, or raise StoreError."""

    async def request(self, method: str, destination: str, proxy: str, subject: Subject, n_bytes: int) -> None:
        """Note a request that is about to be sent."""

    def request_all(self, method: str, destination: str, sent: Sequence[tuple[Subject, int]]) -> None:
        """Note requests that are about to be sent together, with the bytes of each."""

    def lookup(self, host: str, addresses: Sequence[str]) -> None:
        """Note the addresses of a host that is about to be connected to."""

    def cluster(self, destination: str, nodes: Sequence[str], *, has_token: bool, uses: Sequence[str]) -> None:
        """Note a cluster that is about to compute models or metrics: its machines, and if it requires a token."""
