"""Hosts in addresses, on this machine, inside or outside a private network; and the audit of requests to them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

_INSIDE = (".local", ".internal")
"""Endings of host names within a private network."""


def host_of(address: str) -> str:
    """Return the host of an address, in lower case and without brackets; "" if there is none."""
    return urlsplit(address).hostname or ""


def is_inside(host: str) -> bool:
    """Return True if `host` is this machine, or by its form a machine of a private network."""
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_INSIDE)
    return address.is_private and not address.is_unspecified


def is_loopback(host: str) -> bool:
    """Return True if `host`, a name or an address without brackets, always means this machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_loopback
    return address == ipaddress.IPv6Address("::1")


def without_secrets(url: str) -> str:
    """Return the address without query, user name and password, for messages."""
    start, mark, rest = url.partition("://")
    # A password may hold a slash, against the rules: nothing before the last @ is shown.
    return start + mark + rest.partition("?")[0].rpartition("@")[2] if mark else url.partition("?")[0]


# --- audit ------------------------------------------------------------------------------------------------------------
# Noting requests in the audit log before they are sent: what an entry says, and who writes it.


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


ConsentSource = Literal["option", "administrator"]
"""Source of consent to send data that is not public: the option --allow-host, or the administrator's file."""


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

    def consent(self, host: str, benchmarks: Sequence[str], source: ConsentSource) -> None:
        """Note that data of benchmarks that are not public may be sent to a host; none are named: of any benchmark."""
