"""The egress policy of a command, and consent to send private data away.

Gated and private benchmarks, and data of the user's own, are sent to this machine only, unless the user names the host
with --allow-host or the administrator's file lists it under `private_data`. Invented sample rows need no consent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from medhelm.domain import JURY, Benchmark, Model
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.io.http.egress import (
    ADMINISTRATOR_FILE,
    AdministratorRules,
    ConnectionSettings,
    EgressPolicy,
    Endpoint,
    HostList,
    read_rules,
)
from medhelm.io.http.hosts import host_of, is_loopback
from medhelm.models.addresses import checked_proxy

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
    return is_loopback(host) or consent.has(host) or bool(rules and rules.private_data.has(host))


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
