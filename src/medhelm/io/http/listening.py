"""Sockets, certificates and proxies of servers: a port, or a socket file that only its owner can open."""

from __future__ import annotations

import errno
import re
import socket
import ssl
import stat
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from os import umask
from pathlib import Path
from typing import TypeAlias

from medhelm.domain.option_fields import option
from medhelm.errors import UserError

Address: TypeAlias = IPv4Address | IPv6Address

HEADER_NAME = re.compile("[A-Za-z][A-Za-z0-9-]{1,60}")
"""Name of a header in which a proxy names the user; without `_`, which some servers read as `-`."""

USED_HEADERS = ("authorization", "cookie", "host", "origin", "accept", "content-type", "content-length", "user-agent")
"""Headers that browsers set themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """A proxy with TLS in front of a server, and what it is believed."""

    hosts: tuple[str, ...] = option(
        "--behind-proxy", "Host name of a proxy with TLS in front of the server; repeatable.", (), metavar="HOST"
    )
    user_header: str = option(
        "--user-header",
        "Header in which the proxy names the user who signed in, such as X-Remote-User: raters of a study with this "
        "user name need no link. Requires --proxy.",
        "",
        metavar="NAME",
    )
    addresses: tuple[str, ...] = option(
        "--proxy",
        "IP address of a proxy whose --user-header is believed, such as 127.0.0.1; repeatable.",
        (),
        metavar="ADDRESS",
    )

    def check(self) -> None:
        """Check that a header of users is believed from some addresses alone. Raises: UserError."""
        header = self.user_header
        if not (header or self.addresses):
            return
        if not self.hosts:
            raise UserError("--user-header and --proxy: add --behind-proxy HOST, the proxy's name in browsers.")
        if not header:
            raise UserError("--proxy: add --user-header NAME, the header in which the proxy names the user.")
        if not HEADER_NAME.fullmatch(header) or header.lower() in USED_HEADERS:
            raise UserError(f"--user-header {header}: not a name of a header for users, such as X-Remote-User.")
        if not self.addresses:
            raise UserError(
                f"--user-header {header}: add --proxy ADDRESS, the proxy's IP address as this server sees it, such as "
                "127.0.0.1. The header is ignored in requests from anywhere else."
            )
        for address in self.addresses:
            if address_of(address) is None:
                raise UserError(f"--proxy {address}: not an IP address, such as 127.0.0.1.")

    def trusted(self) -> list[Address]:
        """Return the addresses from which the header is believed."""
        return [found for address in self.addresses if (found := address_of(address))]


NO_PROXY = ProxyOptions()
"""A server that browsers reach directly."""


def check_certificate(certificate: Path, key: Path) -> None:
    """Raise UserError for files that are not a certificate chain and its private key in PEM format."""
    for path in (certificate, key):
        if not path.is_file():
            raise UserError(f"--tls {path}: the file does not exist.")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise UserError(
            f"--tls {certificate} {key}: not a certificate chain and its unencrypted private key as PEM ({reason})."
        ) from None


def address_of(host: str) -> Address | None:
    """Return an IP address, of IPv4 if it is one inside IPv6; None for anything else.

    >>> address_of("::ffff:10.0.0.1"), address_of("proxy.test")
    (IPv4Address('10.0.0.1'), None)
    """
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def is_loopback_address(host: str) -> bool:
    """Return True if other machines cannot reach a server on this address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address and port; port 0 takes any free one. Raises: UserError, such as in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        place = f"{host}, port {port}"
        if error.errno == errno.EADDRINUSE:
            text = f"{place}: in use. Choose another port with --port; --port 0 takes any free one."
            raise UserError(text) from None
        raise UserError(f"{place}: cannot listen there: {error.strerror or error}.") from None
    return listening


def listen_on_file(path: Path) -> socket.socket:
    """Return a socket file that only its owner can open. A file that a dead server left behind is replaced."""
    if path.is_symlink() or (path.exists() and not stat.S_ISSOCK(path.stat().st_mode)):
        raise UserError(f"--socket {path}: the file exists and is not a socket. Choose another name.")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists():
            if _is_alive(path):
                raise UserError(f"--socket {path}: another server listens there. Choose another name.")
            path.unlink()
        before = umask(0o177)
        try:
            listening.bind(str(path))
            listening.listen()
        finally:
            umask(before)
    except OSError as error:
        listening.close()
        raise UserError(f"--socket {path}: cannot be made: {error.strerror or error}.") from None
    except UserError:
        listening.close()
        raise
    return listening


def _is_alive(path: Path) -> bool:
    """Return True if a server accepts connections on a socket file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        return probe.connect_ex(str(path)) == 0
