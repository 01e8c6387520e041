"""The server of a site: on a port of this machine, or on a socket file that only its owner can open."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from medhelm.errors import UserError
from medhelm.extensions.web.app import LINKS, answer, create_app
from medhelm.extensions.web.connections import server_of
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.routes import BY_NAME
from medhelm.extensions.web.security import LOCAL_NAMES, Security
from medhelm.extensions.web.site import Site
from medhelm.extensions.web.templating import environment
from medhelm.io.http.listening import check_certificate, is_loopback_address, listen_on, listen_on_file

LOOPBACK = "127.0.0.1"
"""Address that other machines cannot reach."""

DEFAULT_PORT = 8642
"""Port unless another one is asked for."""

HTTPS_PORT = 443
"""Port of addresses that begin with `https:` and name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Address, port or socket file of a server."""

    host: str = LOOPBACK
    """Address to listen on; another one than loopback only with a certificate or behind a proxy."""
    port: int = DEFAULT_PORT
    """Port; 0 for any free one."""
    socket_file: Path | None = None
    """File of a socket to listen on instead of a port."""
    proxy_hosts: Sequence[str] = ()
    """Host names by which browsers reach a proxy with TLS in front of the server; empty without a proxy."""
    certificate: tuple[Path, Path] | None = None
    """PEM files of a certificate chain and its private key: the server speaks TLS itself."""
    names: Sequence[str] = ()
    """Host names by which browsers reach a server with a certificate."""


def serve(site: Site, where: Listener, announce: Callable[[str], None]) -> None:
    """Serve a site until the process is interrupted.

    Parameters: announce, called once with the address that opens the site, token included.
    Raises: UserError for an address or file that cannot be used.
    """
    _check(where)
    listening = _listen(where)
    try:
        security, address = _secure(where, listening)
        app = create_app(site, security)
        threading.Thread(target=_warm_up, args=(site,), daemon=True).start()
        server = server_of(app, where.certificate)
        announce(f"{address}/login#t={quote(security.token)}")
        server.run(sockets=[listening])
    finally:
        listening.close()
        if where.socket_file is not None:
            where.socket_file.unlink(missing_ok=True)


def _check(where: Listener) -> None:
    """Raise UserError for an address that other machines could reach without TLS, and for files TLS cannot use."""
    if where.certificate is not None:
        if where.proxy_hosts or where.socket_file is not None:
            raise UserError("--tls: choose one of --tls, --behind-proxy and --socket.")
        if not where.names:
            raise UserError("--tls: add --name HOST, the name of this machine in the certificate.")
        check_certificate(*where.certificate)
    elif where.names:
        raise UserError("--name: only a server with --tls has names.")
    elif where.socket_file is None and not where.proxy_hosts and not is_loopback_address(where.host):
        raise UserError(
            f"--host {where.host}: other machines could read the site without encryption. Use the default, 127.0.0.1, "
            "with `ssh -L`, give a certificate with --tls, or name a proxy with TLS in front: --behind-proxy HOST."
        )


def _secure(where: Listener, listening: socket.socket) -> tuple[Security, str]:
    """Return the token and hosts of the server, and the address that browsers use."""
    if where.proxy_hosts:
        hosts = [host.lower() for host in where.proxy_hosts]
        return Security(hosts=hosts, https=True, cookie="__Host-medhelm"), f"https://{hosts[0]}"
    if where.socket_file is not None:
        return Security(hosts=LOCAL_NAMES, any_port=True), "http://localhost:PORT"
    port = listening.getsockname()[1]
    if where.certificate is not None:
        hosts = [f"{name.lower()}:{port}" for name in where.names]
        if port == HTTPS_PORT:
            hosts = [name.lower() for name in where.names]  # browsers leave out the port of their scheme
        return Security(hosts=hosts, https=True, cookie="__Host-medhelm"), f"https://{hosts[0]}"
    shown = f"[{where.host}]" if ":" in where.host else where.host
    hosts = [f"{name}:{port}" for name in dict.fromkeys([shown, *LOCAL_NAMES])]
    return Security(hosts=hosts, cookie=f"medhelm-{port}"), f"http://{shown}:{port}"


def _listen(where: Listener) -> socket.socket:
    """Return a bound socket. Raises: UserError if the port is in use or the file cannot be made."""
    if where.socket_file is not None:
        return listen_on_file(where.socket_file)
    return listen_on(where.host, where.port)


def _warm_up(site: Site) -> None:
    """Make the first page before a browser asks for it, then compile all templates. A page shows its own errors."""
    answer(site, PageRequest(route=BY_NAME["leaderboard"], links=LINKS))
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
