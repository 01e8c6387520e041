"""Keys: which environment variables hold them, and to which hosts each may go.

A provider's own key goes to its own hosts and to this machine, where people run gateways and stand-ins; MEDHELM_API_KEY
goes to any address that was written out; models.yaml can name another variable. Values are stripped of blanks and line
ends around them, which is how keys come out of files. They are looked at here, and never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from medhelm.domain import Model
from medhelm.models.addresses import host_of
from medhelm.models.http import is_loopback

GENERAL_KEY = "MEDHELM_API_KEY"
"""Variable with the key for addresses that were written out and have no key variable of their own."""

SESSION_TOKEN = "AWS_SESSION_TOKEN"  # noqa: S105 - the name of a variable
"""Variable that goes with a temporary key of AWS."""

KeyState = Literal["none", "set", "missing", "wrong"]
"""Of a key: none is needed; it is there; it is not; something is there that cannot be one, or not for this service."""

_OWN_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "vertex": ("GOOGLE_ACCESS_TOKEN",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"),
    "ollama": ("OLLAMA_API_KEY",),
    "llamacpp": ("LLAMA_API_KEY",),
}
"""Provider -> variables that may hold its key; the first that is set counts, and the last is asked for if none is."""

_COMPANIONS = {"AWS_ACCESS_KEY_ID": "AWS_SECRET_ACCESS_KEY"}
"""Variable -> another one without which it is of no use."""

_OWN_HOSTS = {
    "openai": re.compile(r"(.+\.)?api\.openai\.com"),
    "azure": re.compile(r".+\.(openai\.azure\.(com|us|cn)|(cognitiveservices|services\.ai)\.azure\.(com|us))"),
    "anthropic": re.compile(r"(.+\.)?api\.anthropic\.com"),
    "google": re.compile(r"generativelanguage\.googleapis\.com"),
    "vertex": re.compile(r"([a-z0-9-]+-)?aiplatform\.googleapis\.com|aiplatform\.[a-z]+\.rep\.googleapis\.com"),
    "bedrock": re.compile(r"(.+\.)?bedrock-runtime(-fips)?\.[a-z0-9-]+\.((vpce\.)?amazonaws\.com(\.cn)?|api\.aws)"),
}

_MARKS = (
    ("Anthropic", "anthropic", "sk-ant-"),
    ("OpenRouter", "", "sk-or-"),
    ("OpenAI", "openai", "sk-"),
    ("Google's Gemini API", "google", "AIza"),
    ("Google Cloud (an access token)", "vertex", "ya29."),
    ("AWS", "bedrock", "AKIA"),
    ("AWS", "bedrock", "ASIA"),
    ("AWS Bedrock", "bedrock", "ABSK"),
    ("AWS Bedrock", "bedrock", "bedrock-api-key-"),
    ("Groq", "", "gsk_"),
    ("xAI", "", "xai-"),
    ("Hugging Face", "", "hf_"),
    ("NVIDIA", "", "nvapi-"),
)
"""Whose key it is, which provider that is here, and how its keys begin; the first that fits counts."""


def key_variable(provider: str, base_url: str, environment: Mapping[str, str]) -> str:
    """The variable whose key may be sent to this address; "" if none is to be sent."""
    host, own = host_of(base_url), _OWN_KEYS.get(provider, ())
    if not base_url and not own:
        return ""
    endpoint = host_of(environment.get("AZURE_OPENAI_ENDPOINT", "").strip()) if provider == "azure" else ""
    if base_url.startswith("https://") and (_is_own(provider, host) or host == endpoint):
        return _first_set(own, environment) or own[-1]
    return _first_set((GENERAL_KEY, *own) if is_loopback(host) else (GENERAL_KEY,), environment)


def companion_of(variable: str) -> str:
    """The variable without which `variable` is of no use; "" if it stands by itself."""
    return _COMPANIONS.get(variable, "")


def region_in(environment: Mapping[str, str]) -> str:
    """AWS's region, as its own tools find it; "" if none is set."""
    return next(
        (name for key in ("AWS_REGION", "AWS_DEFAULT_REGION") if (name := environment.get(key, "").strip())), ""
    )


def missing_key(model: Model, environment: Mapping[str, str]) -> str | None:
    """What is to be done about a key that `model` needs and the environment lacks; None if nothing is missing."""
    if not model.key_variable:
        return None
    for variable in filter(None, (model.key_variable, companion_of(model.key_variable))):
        key = environment.get(variable, "").strip()
        if not key:
            return f"{model.name} needs a key: set the environment variable {variable}.{_elsewhere(variable)}"
        if not key.isprintable() or not key.isascii():
            return f"{model.name}: the value of {variable} is no key; it holds characters that keys never have."
    return _stranger(model, environment.get(model.key_variable, "").strip())


def key_state(model: Model, environment: Mapping[str, str]) -> KeyState:
    """What there is of the key that `model` needs."""
    if not model.key_variable:
        return "none"
    if missing_key(model, environment) is None:
        return "set"
    held = [model.key_variable, *filter(None, [companion_of(model.key_variable)])]
    return "wrong" if all(environment.get(name, "").strip() for name in held) else "missing"


def _elsewhere(variable: str) -> str:
    """Where a key comes from, for those that few people have at hand."""
    if variable == "GOOGLE_ACCESS_TOKEN":
        return " `gcloud auth print-access-token` prints one, which lasts an hour."
    if variable == "AWS_ACCESS_KEY_ID":
        return " (Or AWS_BEARER_TOKEN_BEDROCK to an API key of Bedrock.)"
    return ""


def _stranger(model: Model, key: str) -> str | None:
    """What is wrong with a key that by its first letters belongs to another service than the one it would go to."""
    if not _is_own(model.provider, host_of(model.base_url)):
        return None  # Gateways have keys of any form.
    for owner, provider, mark in _MARKS:
        if key.startswith(mark):
            if provider == model.provider:
                return None
            fix = f" Did you mean {provider}/{model.remote_name}?" if provider else ""
            return f"{model.name}: the value of {model.key_variable} is a key of {owner}: it begins with `{mark}`.{fix}"
    return None


def _is_own(provider: str, host: str) -> bool:
    return provider in _OWN_HOSTS and _OWN_HOSTS[provider].fullmatch(host) is not None


def _first_set(variables: tuple[str, ...], environment: Mapping[str, str]) -> str:
    return next((name for name in variables if environment.get(name, "").strip()), "")
