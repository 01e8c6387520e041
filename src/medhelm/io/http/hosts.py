"""Hosts in addresses: which of them are this machine, or within a private network."""

from __future__ import annotations

import ipaddress
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
