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
from medhelm.io.http_client import is_loopback
from medhelm.models.addresses import host_of

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
"""Provider -> variables that may hold its key; the first that is set counts."""

_ASKED_FOR = {"bedrock": "AWS_ACCESS_KEY_ID"}
"""Provider -> the variable that is asked for if none is set, where that is not the first."""

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

_SERVICES = {
    "openai": "OpenAI",
    "azure": "the Azure resource",
    "anthropic": "Anthropic",
    "google": "Google's Gemini API",
    "vertex": "Google Cloud (an access token)",
    "bedrock": "AWS",
}
"""Provider with hosts of its own -> whose keys it takes."""

_MARKS = (
    ("Anthropic", "ANTHROPIC_API_KEY", "sk-ant-"),
    ("OpenRouter", "", "sk-or-"),
    ("OpenAI", "OPENAI_API_KEY", "sk-"),
    ("Google's Gemini API", "GEMINI_API_KEY", "AIza"),
    ("Google's Gemini API", "GEMINI_API_KEY", "AQ."),
    ("Google Cloud (an access token)", "GOOGLE_ACCESS_TOKEN", "ya29."),
    ("AWS", "AWS_ACCESS_KEY_ID", "AKIA"),
    ("AWS", "AWS_ACCESS_KEY_ID", "ASIA"),
    ("AWS Bedrock", "AWS_BEARER_TOKEN_BEDROCK", "ABSK"),
    ("AWS Bedrock", "AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-"),
    ("Groq", "", "gsk_"),
    ("xAI", "", "xai-"),
    ("Hugging Face", "", "hf_"),
    ("NVIDIA", "", "nvapi-"),
)
"""Whose key it is, which variable it belongs in here, and how its keys begin; the first that fits counts."""

_QUOTES = "\"'`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}" + (
    "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\N{SINGLE LOW-9 QUOTATION MARK}"
    "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}"
)
_AGAIN = "Set it again, to the key alone."
_ASSIGNED = re.compile(r"(?:export\s+|set\s+)?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\s*=")
_PLACEHOLDER = re.compile(
    r"<.*>|\$\{?[A-Z_]+\}?|(?i:(?:your|my)[-_].*key.*|change[-_ ]?me|(?:sk-)?x{4,}|\.{3,}|(?:sk-)?\.{3})"
)
"""What documentation and templates put in place of a key."""

_SECRET_OF_AWS = re.compile(r"[A-Za-z0-9/+=]{40}")
"""The form of a secret access key; key IDs have 20 capitals and digits."""


def key_variable(provider: str, base_url: str, environment: Mapping[str, str]) -> str:
    """The variable whose key may be sent to this address; "" if none is to be sent."""
    host, own = host_of(base_url), _OWN_KEYS.get(provider, ())
    if not base_url and not own:
        return ""
    endpoint = host_of(environment.get("AZURE_OPENAI_ENDPOINT", "").strip()) if provider == "azure" else ""
    if base_url.startswith("https://") and (_is_own(provider, host) or host == endpoint):
        return _first_set(own, environment) or _asked_for(provider)
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
        if wrong := _malformed(variable, key):
            return f"{model.name}: the value of {variable} {wrong}"
        if variable == model.key_variable and (wrong := _stranger(model, key)):
            return f"{model.name}: the value of {variable} {wrong}"
    return None


def _malformed(variable: str, key: str) -> str:
    """What is wrong with a value that no service would take for a key, and what to do; "" if it could be one."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        return f"has a quotation mark at its beginning or end, which is no part of a key. {_AGAIN}"
    if key.lower().startswith(("bearer ", "basic ")):
        return f"begins with `{key.partition(' ')[0]}`, which is sent by itself. {_AGAIN}"
    if found := _ASSIGNED.match(key):
        return f"begins with `{found[0]}`, the name of a variable and not a key. {_AGAIN}"
    if len(key.split()) > 1:
        return f"is more than one word or line; keys hold no blanks. {_AGAIN}"
    if not key.isprintable() or not key.isascii():
        return f"holds characters that keys never have, as come from text programs. {_AGAIN}"
    if variable == "AWS_ACCESS_KEY_ID" and _SECRET_OF_AWS.fullmatch(key):
        return "looks like a secret access key: that one belongs in AWS_SECRET_ACCESS_KEY. Set both again."
    return ""


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
    if variable == "GEMINI_API_KEY":
        return " (GOOGLE_API_KEY is read too.)"
    if variable == "AWS_ACCESS_KEY_ID":
        return " (Or AWS_BEARER_TOKEN_BEDROCK to an API key of Bedrock.)"
    return ""


def _stranger(model: Model, key: str) -> str:
    """What is wrong with a key that by its first letters belongs elsewhere than where it would go; "" if nothing is."""
    if not _is_own(model.provider, host_of(model.base_url)):
        return ""  # Gateways have keys of any form.
    if _PLACEHOLDER.fullmatch(key):
        return f"is a placeholder and no key. {_AGAIN}"
    owner, home, mark = next((known for known in _MARKS if key.startswith(known[2])), ("", "", ""))
    signs = companion_of(home) == companion_of(model.key_variable)  # an ID signs, an API key does not
    if not owner or (home in _OWN_KEYS[model.provider] and signs):
        return ""
    belongs = f"; this one belongs in {home}." if home else "."
    return f"is a key of {owner}: it begins with `{mark}`. Put a key of {_SERVICES[model.provider]} there{belongs}"


def _asked_for(provider: str) -> str:
    """The variable that a provider's key belongs in."""
    return _ASKED_FOR.get(provider, _OWN_KEYS[provider][0])


def _is_own(provider: str, host: str) -> bool:
    return provider in _OWN_HOSTS and _OWN_HOSTS[provider].fullmatch(host) is not None


def _first_set(variables: tuple[str, ...], environment: Mapping[str, str]) -> str:
    return next((name for name in variables if environment.get(name, "").strip()), "")
