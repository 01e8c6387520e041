"""Sockets and certificates of servers: a port, or a socket file that only its owner can open."""

from __future__ import annotations

import errno
import socket
import ssl
import stat
from ipaddress import ip_address
from os import umask
from pathlib import Path

from medhelm.errors import UserError


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
