"""The egress policy: which hosts may be contacted, by which way, and which of them may get private data.

It is made once per command and never changes. A host may be contacted if it is this machine, or if the user named it
(with a model, a judge, data to download, or a proxy) and the administrator's file, where there is one, allows it.
`admit` decides by the name in an address, before any name lookup; `check_addresses` decides again by the addresses that
the name has, before any connection. `HttpClient` asks both for every connection.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import os
import socket
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medhelm import __version__
from medhelm.errors import ConfigError, Problem, UserError
from medhelm.io.http.hosts import SUBJECT, WORKER, Audit, Subject, is_inside, is_loopback, without_secrets

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from yarl import URL

ADMINISTRATOR_FILE = Path("C:/ProgramData/medhelm/egress.yaml" if os.name == "nt" else "/etc/medhelm/egress.yaml")
"""The administrator's file. Its place is fixed: an option or a variable could name another one."""

ADMINISTRATOR_ID = 0
"""User who must own it."""

PIECE_BYTES = 2**20
"""Bytes of a file that are held in memory at once."""

DIRECT = "direct"
"""A proxy's address that means: none, whatever `--proxy` says."""


@dataclass(frozen=True, slots=True)
class HostList:
    """Hosts and networks, as the administrator's file lists them."""

    names: frozenset[str] = frozenset()
    """Exact names and addresses."""
    endings: tuple[str, ...] = ()
    """`.hospital.example` for each entry `*.hospital.example`."""
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    """Networks, single addresses included."""

    @classmethod
    def of(cls, entries: Iterable[str]) -> HostList:
        """Parse entries such as `api.openai.com`, `*.hospital.example`, `10.20.0.0/16`. Raises: ValueError."""
        names, endings, networks = set(), [], []
        for entry in (entry.strip().lower() for entry in entries):
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError as error:
                host = entry.removeprefix("*.")
                if not host or set(host) & set("/:*@ ") or (not host.isascii()):
                    raise ValueError(
                        f"`{entry}` is neither a host, such as api.openai.com or *.hospital.example, nor a network, "
                        f"such as 10.20.0.0/16 ({error})."
                    ) from None
                if host == entry:
                    names.add(entry)
                else:
                    endings.append(f".{host}")
        return cls(frozenset(names), tuple(endings), tuple(networks))

    def has(self, host: str) -> bool:
        """Return True if a host is listed by its name, or by the address it is written as."""
        return host in self.names or host.endswith(self.endings or ("\0",)) or self.has_address(host)

    def has_address(self, text: str) -> bool:
        """Return True if `text` is an address in one of the networks."""
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class AdministratorRules:
    """Content of the administrator's file."""

    file: str
    """The file, for messages."""
    allow: HostList | None = None
    """The hosts that may be contacted besides this machine; None: every host that the user names."""
    private_data: HostList = field(default_factory=HostList)
    """Hosts that may get gated and private benchmarks without --allow-host."""


def read_rules() -> AdministratorRules | None:
    """Read the administrator's file; None if there is none. Raises: UserError, ConfigError if it cannot be trusted."""
    file = ADMINISTRATOR_FILE
    try:
        found = file.stat()
        if os.name != "nt" and (found.st_uid != ADMINISTRATOR_ID or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            raise UserError(
                f"{file} must be owned by the administrator (root) and writable by no other user, so that users "
                f"cannot change it. As root: chown root {file}; chmod 644 {file}. Nothing was sent."
            )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}), so nothing may be sent.") from error
    from medhelm.io.strict_yaml import read_yaml

    document = read_yaml(file)
    problems, lists = list(document.problems), {}
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        problems, data = [Problem("must map `allow` and `private_data` to lists of hosts and networks.")], {}
    for key, value in data.items():
        line = document.line_of((key,))
        if key not in ("allow", "private_data"):
            problems.append(Problem(f"{key}: unknown key. Known: allow, private_data.", line))
        elif not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            problems.append(Problem(f"{key}: must be a list of hosts and networks; [] for none.", line))
        else:
            try:
                lists[key] = HostList.of(value)
            except ValueError as error:
                problems.append(Problem(f"{key}: {error}", line))
    if problems:
        raise ConfigError(str(file), problems)
    return AdministratorRules(str(file), lists.get("allow"), lists.get("private_data", HostList()))


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Proxy and certificates for one endpoint."""

    proxy: str = ""
    """Address of an HTTP proxy, or `direct`; empty: the proxy of the command, if it has one."""
    ca_file: str = ""
    """File with the only certificate authorities to accept, PEM; empty: those that this machine trusts."""
    client_certificate: str = ""
    """File with the certificate to identify with, PEM; empty: none."""
    client_key: str = ""
    """File with its key; empty: the key is in the file of the certificate."""

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS settings; None for the usual ones. Raises: UserError naming the file."""
        if not self.ca_file and not self.client_certificate:
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            raise UserError(f"ca_file {self.ca_file}: no certificates can be read from it: {error}.") from None
        if self.client_certificate:
            try:
                context.load_cert_chain(self.client_certificate, self.client_key or None, password=_no_password)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"client_certificate {self.client_certificate}: the certificate and its key cannot be used: "
                    f"{error}."
                ) from None
        return context


def _no_password() -> str:
    """Refuse to ask for a password on the terminal."""
    raise ValueError("the key is encrypted, which is not supported")


Endpoint = tuple[str, str, int]
"""Scheme, host without brackets, and port."""


class EgressPolicy:
    """Decides which hosts may be contacted. One for each command; it does not change."""

    def __init__(
        self,
        offline: bool,
        allowed: Collection[str] = (),
        *,
        routes: Mapping[Endpoint, ConnectionSettings] | None = None,
        proxy: str = "",
        proxy_login: str = "",
        joining: HostList | None = None,
    ) -> None:
        """Read the administrator's file and the certificates. Raises: UserError if one of them cannot be used.

        Parameters: offline, allow this machine only; allowed, exact names of other hosts, such as `api.openai.com`;
        routes, how requests to some endpoints leave; proxy, address of the proxy for hosts outside this machine and
        private networks; proxy_login, `user:password` for all proxies; joining, further hosts, for servers of a pool
        that are not known yet.
        """
        self.offline = offline
        self.rules = read_rules()
        self.proxy_login = proxy_login
        self.joining = joining or HostList()
        self._proxy = "" if proxy == DIRECT else proxy
        self._routes = dict(routes or {})
        self._tls = {endpoint: tls for endpoint, route in self._routes.items() if (tls := route.tls())}
        proxies = {proxy, *(route.proxy for route in self._routes.values())} - {"", DIRECT}
        self.allowed = frozenset(
            name.lower() for name in (*allowed, *(urlsplit(one).hostname or "" for one in proxies))
        )

    def proxy_of(self, address: URL) -> str:
        """Return the address of the proxy for requests to an address; "" if they are sent directly.

        Requests without TLS are never sent through a proxy, which could read them.
        """
        host = address.raw_host or ""
        route = self._routes.get((address.scheme, host, address.port or 0), ConnectionSettings())
        proxy = route.proxy or ("" if is_inside(host) else self._proxy)
        return "" if proxy == DIRECT or address.scheme != "https" else proxy

    def tls_of(self, address: URL) -> ssl.SSLContext | None:
        """Return the TLS settings for requests to an address; None for the usual ones."""
        return self._tls.get((address.scheme, address.raw_host or "", address.port or 0))

    def admit(self, url: str) -> URL:
        """Return the parsed address if its host may be contacted; no name is looked up.

        This machine (127.0.0.0/8, ::1, localhost) may always be contacted.
        Raises: UserError naming the host and the rule that forbids it, or the reason why `url` is not a valid address.
        """
        from yarl import URL  # the HTTP library's own parser, so that the host checked is the host contacted

        try:
            address = URL(url)
            host = (address.raw_host or "").lower()
        except ValueError as error:
            raise UserError(f"`{without_secrets(url)}` is not an address: {error}") from None
        if address.scheme not in ("http", "https") or not host:
            raise UserError(
                f"`{without_secrets(url)}` is not an address: it must start with http:// or https:// and a host name."
            )
        if is_loopback(host):
            return address
        if self.offline:
            raise UserError(
                f"{host} may not be reached: offline mode allows this machine only (127.0.0.0/8, ::1, localhost). "
                "Leave out --offline (and MEDHELM_OFFLINE) to allow it. Nothing was sent to it."
            )
        if self.allowed.isdisjoint({host, (address.host or "").lower()}) and not self.joining.has(host):
            known = ", ".join(sorted(self.allowed)) or "none but this machine"
            raise UserError(
                f"{host} may not be reached: only hosts of the models that were asked for are allowed ({known}). "
                "Nothing was sent to it."
            )
        proxy = urlsplit(self.proxy_of(address)).hostname or ""
        self._check_name(host, is_looked_up=not proxy)
        if proxy and not is_loopback(proxy):
            self._check_name(proxy, is_looked_up=True)
        return address

    def admit_all(self, urls: Iterable[str], *, look_up: bool = True) -> None:
        """Check addresses before the first request; `look_up`: names that only a network allows are looked up.

        Raises: UserError with every refusal.
        """
        problems: dict[str, None] = {}
        for url in urls:
            try:
                address = self.admit(url)
                host = urlsplit(self.proxy_of(address)).hostname or address.raw_host or ""
                if look_up and not is_loopback(host) and self._allow is not None and not self._allow.has(host):
                    self.check_addresses(host, _addresses_of(host))
            except UserError as error:
                problems[str(error)] = None
        if problems:
            raise UserError("\n".join(problems))

    def check_addresses(self, host: str, addresses: Sequence[str]) -> list[str]:
        """Return those of a host's addresses that may be connected to.

        Raises: UserError if there are addresses, and none of them may.
        """
        found = ", ".join(addresses)
        if is_loopback(host):
            kept = [address for address in addresses if is_loopback(address)]
            rule = f"`{host}` must be this machine. Correct the hosts file or the name server of this machine."
        elif self._allow is None or self._allow.has(host):
            return list(addresses)
        else:
            kept = [address for address in addresses if self._allow.has_address(address)]
            rule = f"{self._file} allows neither the host nor its address. Only its owner can change that."
        if addresses and not kept:
            raise UserError(f"{host} may not be reached at {found}: {rule} Nothing was sent to it.")
        return kept

    @property
    def is_restricted(self) -> bool:
        """Return True if the administrator's file lists the hosts that may be contacted."""
        return self._allow is not None

    @property
    def _allow(self) -> HostList | None:
        return self.rules.allow if self.rules else None

    @property
    def _file(self) -> str:
        return self.rules.file if self.rules else ""

    def _check_name(self, host: str, *, is_looked_up: bool) -> None:
        """Raise UserError if the administrator's file forbids a host, whatever its address is."""
        if self._allow is None or self._allow.has(host) or (is_looked_up and self._allow.networks and _is_name(host)):
            return
        is_excluded = self._allow.networks and not is_looked_up
        why = " (its networks do not apply, because the proxy looks up the name)" if is_excluded else ""
        raise UserError(
            f"{host} may not be reached: {self._file} does not allow it{why}. Only its owner can change that. "
            "Nothing was sent to it."
        )


def _is_name(host: str) -> bool:
    """Return True if a host is not written as an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _addresses_of(host: str) -> list[str]:
    """Look up the addresses of a host; none if it has none: connecting fails then."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


# --- connections ------------------------------------------------------------------------------------------------------


def way_of(policy: EgressPolicy, address: URL) -> dict[str, Any]:
    """Return the HTTP library's options for the proxy and the TLS settings of an address."""
    way: dict[str, Any] = {}
    if tls := policy.tls_of(address):
        way["ssl"] = tls
    if proxy := policy.proxy_of(address):
        way["proxy"] = proxy
        if policy.proxy_login:
            login = base64.b64encode(policy.proxy_login.encode()).decode()
            way["proxy_headers"] = {"Proxy-Authorization": f"Basic {login}"}
    return way


def open_http_session(
    policy: EgressPolicy, audit: Audit | None, *, connections: int = 0, **options: Any
) -> aiohttp.ClientSession:
    """Open a session whose connections go only to addresses that the policy permits.

    It takes no proxy, cookie or credential from the environment. `connections`: maximum open at once; 0: no limit.
    `options`: further options of the session.
    """
    import aiohttp

    class CheckedResolver(aiohttp.abc.AbstractResolver):
        """Looks up names, drops the addresses that the policy forbids, and notes the others in the audit log."""

        def __init__(self) -> None:
            self._resolver = aiohttp.DefaultResolver()

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[aiohttp.abc.ResolveResult]:
            found = await self._resolver.resolve(host, port, family)
            permitted = policy.check_addresses(host.lower(), [one["host"] for one in found])
            if audit:
                audit.lookup(host, permitted)
            return [one for one in found if one["host"] in permitted]

        async def close(self) -> None:
            await self._resolver.close()

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, resolver=CheckedResolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"medhelm/{__version__}"},
        trust_env=False,
        **options,
    )


async def note_request(
    audit: Audit, method: str, address: URL, proxy: str | None, body: bytes | IO[bytes] | None
) -> None:
    """Write a request into the audit log. Raises: StoreError; then it must not be sent."""
    subject = SUBJECT.get() or Subject()
    if body is None or isinstance(body, bytes):
        size = len(body or b"")
        digest = subject.digest or (hashlib.sha256(body).hexdigest() if body else "")
        if body is None or subject.in_file:
            subject = subject._replace(requests=0)
    else:
        size = body.seek(0, SEEK_END)
        digest = await asyncio.to_thread(_digest_of, body)
    worker = WORKER.get()
    if digest != subject.digest or worker:
        subject = subject._replace(digest=digest, worker=worker)
    await audit.request(method, str(address.origin()), proxy or "", subject, size)


def _digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()
