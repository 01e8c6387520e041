"""API keys: which environment variable holds the key for an address, and whether its value can be a key.

A provider's key goes only to the provider's own hosts and to this machine, where people run gateways; MEDHELM_API_KEY
goes to any address that the user wrote out; models.yaml can name another variable. Values are stripped of surrounding
whitespace. They are checked here and never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from medhelm.domain import Model
from medhelm.io.http.hosts import host_of, is_loopback
from medhelm.models.provider import Service
from medhelm.models.providers import SERVICES

GENERAL_KEY = "MEDHELM_API_KEY"
"""Variable with the key for addresses that the user wrote out and that have no variable of their own."""

KeyState = Literal["none", "set", "missing", "wrong"]
"""State of a key: not needed; set; not set; set to a value that cannot be a key, or belongs to another service."""

_OTHER_PREFIXES = {
    "sk-or-": "OpenRouter",
    "gsk_": "Groq",
    "xai-": "xAI",
    "hf_": "Hugging Face",
    "nvapi-": "NVIDIA",
}
"""First characters of keys -> the service they belong to, for services that are not providers here."""

_QUOTES = "\"'`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}" + (
    "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\N{SINGLE LOW-9 QUOTATION MARK}"
    "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}"
)
_SET_AGAIN = "Set it again, to the key alone."
_ASSIGNED = re.compile(r"(?:export\s+|set\s+)?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\s*=")
_PLACEHOLDER = re.compile(
    r"<.*>|\$\{?[A-Z_]+\}?|(?i:(?:your|my)[-_].*key.*|change[-_ ]?me|(?:sk-)?x{4,}|\.{3,}|(?:sk-)?\.{3})"
)
"""Placeholders for keys in documentation and templates."""


def key_variable(provider: str, base_url: str, environment: Mapping[str, str]) -> str:
    """Return the variable whose key may be sent to this address; "" if no key is sent."""
    service = SERVICES.built_in.get(provider)
    own = service.key_variables if service else ()
    if not base_url and not own:
        return ""
    host = host_of(base_url)
    if service and base_url.startswith("https://") and (service.owns(host) or host == _own_host(service, environment)):
        return _first_variable_set(own, environment) or service.default_key_variable or own[0]
    return _first_variable_set((GENERAL_KEY, *own) if is_loopback(host) else (GENERAL_KEY,), environment)


def _own_host(service: Service, environment: Mapping[str, str]) -> str | None:
    """Return the host of the service's address in the environment, if it has such a variable."""
    return (host_of(environment.get(service.host_variable, "").strip()) if service.host_variable else "") or None


def missing_key(model: Model, environment: Mapping[str, str]) -> str | None:
    """Return what to do about a key that is missing or cannot be right; None if the key is fine, or not needed."""
    if not model.key_variable:
        return None
    service = SERVICES[model.provider]
    for variable in _variables_of(model, service):
        key = environment.get(variable, "").strip()
        if not key:
            hint = service.key_hints.get(variable, "")
            return f"{model.name} needs a key: set the environment variable {variable}. {hint}".rstrip()
        problem = _format_problem(key)
        if not problem and variable == model.key_variable:
            problem = _wrong_service_problem(model, service, key)
        elif not problem and _service_of_key(key)[1] == model.key_variable:
            problem = f"belongs in {model.key_variable}. Set both variables again."
        if problem:
            return f"{model.name}: the value of {variable} {problem}"
    return None


def key_state(model: Model, environment: Mapping[str, str]) -> KeyState:
    """Return the state of the key that `model` needs."""
    if not model.key_variable:
        return "none"
    if missing_key(model, environment) is None:
        return "set"
    variables = _variables_of(model, SERVICES[model.provider])
    return "wrong" if all(environment.get(name, "").strip() for name in variables) else "missing"


def _variables_of(model: Model, service: Service) -> list[str]:
    """Return the variable of the model's key, and the second one that the key needs, if any."""
    second = service.key_pairs.get(model.key_variable)
    return [model.key_variable, *([second] if second else [])]


def _format_problem(key: str) -> str:
    """Say why a value cannot be a key of any service, and what to do; "" if it can."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        return f"has a quotation mark at its beginning or end, which is not part of a key. {_SET_AGAIN}"
    if key.lower().startswith(("bearer ", "basic ")):
        return f"begins with `{key.partition(' ')[0]}`, which medhelm adds itself. {_SET_AGAIN}"
    if found := _ASSIGNED.match(key):
        return f"begins with `{found[0]}`, the name of a variable. {_SET_AGAIN}"
    if len(key.split()) > 1:
        return f"has more than one word or line; keys contain no spaces. {_SET_AGAIN}"
    if not key.isprintable() or not key.isascii():
        return f"contains characters that keys never have, perhaps from a word processor. {_SET_AGAIN}"
    return ""


def _wrong_service_problem(model: Model, service: Service, key: str) -> str:
    """Say that a key belongs to another service by its first characters, or is a placeholder; "" if neither."""
    if not service.owns(host_of(model.base_url)):
        return ""  # keys of gateways have any form
    if _PLACEHOLDER.fullmatch(key):
        return f"is a placeholder. {_SET_AGAIN}"
    title, variable, prefix = _service_of_key(key)
    has_pair = service.key_pairs.get(model.key_variable)
    if not prefix or (variable in service.key_variables and service.key_pairs.get(variable) == has_pair):
        return ""
    belongs = f"; this one belongs in {variable}." if variable else "."
    return f"is a key for {title}: it begins with `{prefix}`. Use a key for {service.title}{belongs}"


def _service_of_key(key: str) -> tuple[str, str, str]:
    """Return the service that a key's longest known prefix belongs to, its variable, and the prefix; "" if unknown."""
    known = [(prefix, title, "") for prefix, title in _OTHER_PREFIXES.items()]
    for service in SERVICES.built_in.values():
        known += [(prefix, service.title, variable) for prefix, variable in service.key_prefixes.items()]
    found = [(prefix, title, variable) for prefix, title, variable in known if key.startswith(prefix)]
    prefix, title, variable = max(found, key=lambda row: len(row[0]), default=("", "", ""))
    return title, variable, prefix


def _first_variable_set(variables: tuple[str, ...], environment: Mapping[str, str]) -> str:
    return next((name for name in variables if environment.get(name, "").strip()), "")
