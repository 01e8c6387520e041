"""Addresses of services, checked and normalized, and the egress policy of a command that calls them.

Addresses are given one by one, or as the list of a pool of servers. They are stricter than URLs in general, so that
every parser finds the same host: no user name, no password, no backslash, no fragment, and no query except Azure's
`api-version`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from medhelm.domain import JURY, Benchmark, Model
from medhelm.domain.text import plural
from medhelm.errors import ConfigError, Problem, UserError
from medhelm.io.http.egress import (
    ADMINISTRATOR_FILE,
    DIRECT,
    AdministratorRules,
    ConnectionSettings,
    EgressPolicy,
    Endpoint,
    HostList,
    read_rules,
)
from medhelm.io.http.hosts import Audit, ConsentSource, host_of, is_inside, is_loopback, without_secrets

MAX_ENDPOINTS_BYTES = 1_000_000
"""Longest file of addresses that is read."""

MAX_SHOWN = 60
"""Most characters of a wrong line in a message."""

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)"
    r"(?P<port>:[0-9]{1,5})?(?P<path>/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?(?P<query>\?api-version=[A-Za-z0-9.-]+)?",
    re.IGNORECASE,
)
_OPERATION = re.compile(r"(?:/chat/completions|(?<=/v1)/(?:completions|responses|messages|embeddings|models))$")
"""Ends of addresses that were copied from examples."""


def checked_address(text: str, *, insecure: bool = False) -> str:
    """Normalize an address: lower case scheme and host, no trailing slash or space, no operation at the end.

    An operation is what clients add, such as `/chat/completions`. http:// is allowed for this machine and private
    networks (addresses such as 10.0.0.5, names without a dot, `.local`, `.internal`); any other host needs https://, or
    `insecure`.
    Raises: ValueError with the reason and the fix; it never repeats a possible password or key.
    """
    text = text.strip()
    found = _ADDRESS.fullmatch(text)
    if not found or int((found["port"] or ":0")[1:]) > 65535 or not _is_valid_host(found["host"]):
        raise ValueError(_address_problem(text))
    scheme, host = found["scheme"].lower(), found["host"].lower()
    if scheme == "http" and not insecure and not is_inside(host.strip("[]")):
        raise ValueError(
            f"http:// would send questions and keys to {host} unencrypted. "
            "Use https://, or define the model in models.yaml with `insecure: true`."
        )
    path = _OPERATION.sub("", (found["path"] or "").rstrip("/")).rstrip("/")
    return f"{scheme}://{host}{found['port'] or ''}{path}{found['query'] or ''}"


def _is_valid_host(host: str) -> bool:
    if not host.startswith("["):
        return ".." not in host
    try:
        ipaddress.IPv6Address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _address_problem(text: str) -> str:
    if not text.lower().startswith(("http://", "https://")):
        return "an address must begin with http:// or https://, such as http://127.0.0.1:8000/v1."
    if "@" in text.partition("://")[2].partition("/")[0]:
        return "an address must not contain a user name or password; put keys into environment variables."
    port = re.fullmatch(r"https?://[^/?#]*:(\d{1,9})([/?#].*)?", text, re.IGNORECASE)
    if port and int(port[1]) > 65535:
        return f"port {port[1]} does not exist: ports go up to 65535."
    if "?" in text or "#" in text:
        return "an address must not contain `?` or `#`, except Azure's `?api-version=`."
    return "not a valid address. Write scheme, host, port and path, such as http://127.0.0.1:8000/v1."


def checked_proxy(text: str) -> str:
    """Normalize the address of a proxy, `http://HOST:PORT` or `https://HOST:PORT`; `direct` means none.

    Raises: ValueError with the reason and the fix; it never repeats a possible password.
    """
    if text.strip() == DIRECT:
        return DIRECT
    if "@" in text:
        raise ValueError(
            "a proxy's address must not contain a user name or password; put `user:password` into the environment "
            "variable MEDHELM_PROXY_LOGIN."
        )
    address = checked_address(text, insecure=True)
    if urlsplit(address).path or urlsplit(address).query:
        raise ValueError("a proxy's address has no path: write http://HOST:PORT.")
    return address


def checked_pool(texts: Sequence[str], *, insecure: bool = False) -> tuple[str, ...]:
    """Check and normalize the addresses of a pool of servers.

    Raises: ValueError with every problem: an address that `checked_address` refuses, one that occurs twice, or both
    http:// and https://.
    """
    found: dict[str, None] = {}
    problems = []
    for number, text in enumerate(texts, 1):
        try:
            address = _pool_address(text, insecure=insecure)
        except ValueError as error:
            problems.append(f"address {number}, `{_redacted(text)}`: {error}")
            continue
        if address in found:
            problems.append(f"address {number}, `{address}`, occurs twice. Leave it out.")
        found[address] = None
    problems += filter(None, [mixed_schemes(tuple(found))])
    if problems:
        raise ValueError("\n".join(problems))
    return tuple(found)


def read_endpoints(file: Path) -> tuple[tuple[str, ...], list[Problem]]:
    """Read a file with the addresses of a pool, one per line. Blank lines and lines that begin with `#` are skipped.

    Returns: the valid addresses, each once, because a server that restarts may add its line again; and the problems of
    the other lines.
    Raises: UserError if the file cannot be read.
    """
    problem, lines = "", list[str]()
    try:
        if file.stat().st_size > MAX_ENDPOINTS_BYTES:
            problem = f"is longer than {MAX_ENDPOINTS_BYTES:,} bytes"
        else:
            lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        problem = "is not a text in UTF-8"
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    if problem:
        raise UserError(f"{file} {problem}. Name a text file with one address per line, such as http://HOST:8000/v1.")
    found: dict[str, None] = {}
    problems = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found[_pool_address(line)] = None
        except ValueError as error:
            problems.append(Problem(f"`{_redacted(line)}`: {error}", number))
    return tuple(found), problems


def checked_endpoints(file: Path) -> tuple[str, ...]:
    """Return the addresses in a file. Raises: UserError if it cannot be read, ConfigError with all its problems."""
    found, problems = read_endpoints(file)
    if text := mixed_schemes(found):
        problems.append(Problem(text))
    if not found and not problems:
        problems.append(
            Problem("holds no address. Start a server, and add its address as a line: http://HOST:PORT/v1.")
        )
    if problems:
        raise ConfigError(str(file), problems)
    return found


def mixed_schemes(addresses: Sequence[str]) -> str:
    """Return the problem of a pool with http:// and https://: a key for the one must not leave over the other."""
    if len({address.partition(":")[0] for address in addresses}) < 2:
        return ""
    return "the servers of a pool must all have http://, or all https://: they get the same prompts and the same key."


def _pool_address(text: str, *, insecure: bool = False) -> str:
    address = checked_address(text, insecure=insecure)
    if "?" in address:
        raise ValueError("`?api-version=` belongs to azure/DEPLOYMENT, which cannot be a server of a pool.")
    return address


def _redacted(text: str) -> str:
    """Return a wrong address without what may be a password or a key."""
    shown = without_secrets(text.strip())
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."


# --- allowed hosts ----------------------------------------------------------------------------------------------------
# The egress policy of a command, and consent to send private data away.
#
# Gated and private benchmarks, and data of the user's own, are sent to this machine only, unless the user names the
# host with --allow-host or the administrator's file lists it under `private_data`. Invented sample rows need no
# consent.

PROXY_LOGIN = "MEDHELM_PROXY_LOGIN"
"""Variable with `user:password` for proxies."""


def policy_for(
    models: Iterable[Model],
    *,
    offline: bool,
    proxy: str = "",
    environment: Mapping[str, str] | None = None,
    allow_hosts: Collection[str] = (),
) -> EgressPolicy:
    """Return the policy of a command that calls these models: their hosts may be contacted, and no others.

    `proxy`: the command's own. `allow_hosts`: values of --allow-host, which servers that join a pool later may match.
    Raises: UserError for a proxy, certificate, host or administrator's file that cannot be used.
    """
    models = [model for model in models if model.base_url]
    routes: dict[Endpoint, tuple[str, ConnectionSettings]] = {}
    for model, address in [(one, address) for one in models for address in one.addresses]:
        route = ConnectionSettings(model.proxy, model.ca_file, model.client_certificate, model.client_key)
        other, known = routes.setdefault(_endpoint(address), (model.name, route))
        if route != known:
            raise UserError(
                f"{other} and {model.name} have the same endpoint, but different values of `proxy`, `ca_file`, "
                "`client_certificate` or `client_key` in models.yaml. Give them the same ones. Nothing was sent."
            )
    try:
        proxy = checked_proxy(proxy) if proxy else ""
    except ValueError as error:
        raise UserError(f"proxy: {error}") from None
    return EgressPolicy(
        offline,
        {host_of(address) for model in models for address in model.addresses},
        joining=_host_list(allow_hosts) if any(model.endpoints_file for model in models) else HostList(),
        routes={endpoint: route for endpoint, (_, route) in routes.items() if route != ConnectionSettings()},
        proxy=proxy,
        proxy_login=(environment or {}).get(PROXY_LOGIN, "").strip(),
    )


def _host_list(allowed: Collection[str]) -> HostList:
    """Read the values of --allow-host: hosts, `*.ENDING` and networks. Raises: UserError."""
    try:
        return HostList.of(allowed)
    except ValueError as error:
        raise UserError(f"--allow-host: {error} Nothing was sent.") from None


def _endpoint(address: str) -> Endpoint:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentData:
    """A benchmark whose data a command would send."""

    benchmark: Benchmark
    n: int | None
    """Number of instances; None if unknown."""
    is_invented: bool = False
    """True for sample rows."""
    is_own: bool = False
    """True for data of the user's own in place of the published files."""

    @property
    def is_private(self) -> bool:
        """Return True if the data may not leave this machine without consent."""
        return is_private(self.benchmark, is_sample=self.is_invented, is_own=self.is_own)


def is_private(benchmark: Benchmark, *, is_sample: bool, is_own: bool) -> bool:
    """Return True if the data of a benchmark may not leave this machine without consent; sample rows may."""
    return not is_sample and (is_own or benchmark.access != "public")


def missing_consent(
    selections: Iterable[SentData],
    models: Sequence[Model],
    judges: Sequence[Model],
    *,
    allowed: Collection[str],
) -> str:
    """Return the message on private data that would leave this machine without consent; "" if there is none.

    Parameters: models, get the prompts; judges, get prompts, completions and references of benchmarks in free text;
    allowed, hosts of --allow-host.
    """
    private = [one for one in selections if one.is_private]
    if not private:
        return ""
    rules = read_rules()
    consent = _host_list(allowed)
    lines: list[str] = []
    hosts: dict[str, None] = {}
    called = [*((model, False) for model in models), *((judge, True) for judge in judges)]
    for model, host, is_judge in [(m, h, is_judge) for m, is_judge in called for h in _hosts_of(m)]:
        if _may_get_private_data(host, consent, rules):
            continue
        for one in private:
            if is_judge and JURY not in one.benchmark.metrics:
                continue
            hosts[host] = None
            lines.append(_consent_line(one, model, host, n_models=len(models) or 1, is_judge=is_judge))
    if not lines:
        return ""
    options = " ".join(f"--allow-host {host}" for host in hosts)
    return "\n".join(
        [
            "data that is not public would leave this machine:",
            *(f"  {line}" for line in lines),
            f"If its terms of use permit that, add {options}",
            f"`private_data` in {ADMINISTRATOR_FILE} permits hosts for every command. Nothing was sent.",
        ]
    )


def _hosts_of(model: Model) -> list[str]:
    """Return the hosts that a model's prompts go to, each once."""
    return list(dict.fromkeys(filter(None, map(host_of, model.addresses))))


def _may_get_private_data(host: str, consent: HostList, rules: AdministratorRules | None) -> bool:
    return is_loopback(host) or _consent_source(host, consent, rules) is not None


def _consent_source(host: str, consent: HostList, rules: AdministratorRules | None) -> ConsentSource | None:
    if consent.has(host):
        return "option"
    return "administrator" if rules and rules.private_data.has(host) else None


def record_consent(
    audit: Audit | None, hosts: Iterable[str], benchmarks: Sequence[str], *, allowed: Collection[str]
) -> None:
    """Record in the audit log which hosts outside this machine may get private data, and who consented.

    Parameters: benchmarks, names of those that are not public, empty if they are not known yet; allowed, hosts of
    --allow-host. Raises: StoreError if the log cannot be written.
    """
    rules, consent = read_rules(), _host_list(allowed)
    for host in dict.fromkeys(hosts):
        if audit and not is_loopback(host) and (source := _consent_source(host, consent, rules)):
            audit.consent(host, benchmarks, source)


def hosts_of(models: Iterable[Model]) -> list[str]:
    """Return the hosts that the prompts of some models go to, each once."""
    return list(dict.fromkeys(host for model in models for host in _hosts_of(model)))


def hosts_without_consent(models: Iterable[Model], *, allowed: Collection[str]) -> dict[str, list[str]]:
    """Return model -> those of its hosts that may not get private data; models without any are left out.

    `allowed`: hosts of --allow-host.
    """
    rules, consent = read_rules(), _host_list(allowed)
    found = {
        model.name: [host for host in _hosts_of(model) if not _may_get_private_data(host, consent, rules)]
        for model in models
    }
    return {name: hosts for name, hosts in found.items() if hosts}


def _consent_line(one: SentData, model: Model, host: str, *, n_models: int, is_judge: bool) -> str:
    """Return one line: what would be sent where."""
    access = "your own data" if one.is_own else one.benchmark.access
    if is_judge:
        n = "" if one.n is None else f" of up to {plural(one.n * n_models, 'completion')}"
        return f"{one.benchmark.name} ({access}): prompts, completions and references{n} to {host} (judge {model.name})"
    n = "prompts" if one.n is None else f"up to {plural(one.n, 'prompt')}"
    return f"{one.benchmark.name} ({access}): {n} to {host} ({model.name})"
