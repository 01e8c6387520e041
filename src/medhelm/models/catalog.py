"""Names of models -> how they are reached.

A name is `PROVIDER/NAME` (`openai/gpt-4o`, `anthropic/...`, `google/...`, `vertex/...`, `bedrock/...`,
`azure/DEPLOYMENT`, `baseline/majority`, `replay/FILE.jsonl`), the same with an address
(`openai/NAME@http://127.0.0.1:8000/v1`), or one that models.yaml defines. Providers of installed packages go by their
names. Keys stand in environment variables, and each goes only where it belongs (`models.keys`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.domain import Model
from medhelm.errors import MedHelmError, UserError, suggestion
from medhelm.models.addresses import (
    anthropic_address,
    azure_address,
    bedrock_address,
    checked_address,
    google_address,
    vertex_address,
)
from medhelm.models.keys import key_variable, region_in
from medhelm.models.keys import missing_key as missing_key  # where callers look for it
from medhelm.models.local.local_servers import local_address
from medhelm.models.local.weights import checked_name, find_weights
from medhelm.models.providers import PROVIDERS
from medhelm.models.providers.baseline import BASELINES

if TYPE_CHECKING:
    from medhelm.models.models_file import ModelDefinition

_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta",
}
"""Where `PROVIDER/NAME` goes when no address is given."""

_HOSTED = frozenset(PROVIDERS.built_in) - {"baseline", "replay"}
"""Built-in providers that are reached over the network."""

ON_THIS_MACHINE = frozenset({"hf", "vllm"})
"""Providers that run a model from its files."""

_MAKERS = {"claude": "anthropic", "gem(ini|ma)": "google", "(chat)?gpt-(?!oss)|o[1-9]": "openai"}
"""How the names of a maker's models begin -> who serves them."""

_WITH_ADDRESS = re.compile(r"(?P<name>.*?)@(?P<address>https?:.*)", re.IGNORECASE | re.DOTALL)
_LIKE_ADDRESS = re.compile(r"|localhost|[^@]*[:/][^@]*")
_PLACE = re.compile(r"[a-z0-9-]+")
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")

_REASONS = re.compile(
    r"(?:.*/|(?:[a-z]+\.)+)?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d|-chat)|gpt-oss|(?<=deepseek\.)r\d"
    r"|deepseek-r\d|deepseek-reasoner|qwq|magistral|gemini-(?:2\.5-(?!flash-lite)|[3-9]|\d\d)"
    r"|claude-[a-z]+-(?:[5-9]|\d\d)(?!\d)|claude-mythos|.*-(?:thinking|reasoning)\b)",
    re.IGNORECASE,
)
"""Models that spend hidden tokens first, unless they are told not to: OpenAI's since o1, all but `gpt-5-chat`; Gemini
since 2.5, whose Flash-Lite did not before 3 (ai.google.dev/gemini-api/docs/thinking); Claude since 5, earlier ones only
where `thinking` asks for it (platform.claude.com/docs, thinking by model); and open models known for it."""


def find_models(names: Sequence[str], *, file: Path | None, environment: Mapping[str, str]) -> list[Model]:
    """The models of these names, in order and each once.

    `file`: models.yaml; None: the file MEDHELM_MODELS names, or ./models.yaml if there is one.
    Raises: ConfigError with all problems of models.yaml, or UserError with all names that lead nowhere.
    """
    found, problems = _all_found(names, _definitions(file, environment), environment)
    if problems:
        raise UserError("\n".join(problems))
    return found


def _all_found(
    names: Sequence[str], definitions: Mapping[str, ModelDefinition], environment: Mapping[str, str]
) -> tuple[list[Model], list[str]]:
    """The models of these names, each once, and what is wrong with the other names."""
    found: list[Model] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            found.append(_find(name, definitions, environment))
        except (ValueError, UserError) as error:  # the latter from packages that cannot be used
            problems.append(f"model `{_without_secrets(name)}`: {error}")
    return found, problems


def _without_secrets(name: str) -> str:
    """A name as it may be shown: what stands where people put passwords and keys into addresses is left out.

    >>> _without_secrets("openai/m@https://me:secret@a.org/v1?key=secret")
    'openai/m@https://***@a.org/v1?***'
    """
    name = re.sub(r"(?i)(@https?://)[^/]*@", r"\1***@", name)
    return re.sub(r"(@https?://[^?#]*)([?#])(?!api-version=[A-Za-z0-9.-]*$).*", r"\1\2***", name)


def defined_models(*, file: Path | None, environment: Mapping[str, str]) -> tuple[list[Model], list[str]]:
    """The models of models.yaml, in its order, and the baselines; and what is wrong with those that lead nowhere.

    Raises: ConfigError with all problems of models.yaml.
    """
    definitions = _definitions(file, environment)
    return _all_found([*definitions, *(f"baseline/{name}" for name in BASELINES)], definitions, environment)


def model_named(name: str, environment: Mapping[str, str]) -> Model:
    """The model of one name as it is without any models.yaml. Raises: ValueError or UserError with the reason."""
    return _find(name, {}, environment)


def reasons(remote_name: str) -> bool:
    """Whether a model of this name spends hidden tokens before it answers, as far as names tell.

    >>> [reasons(name) for name in ("gpt-5-mini", "openai/o3-mini-2025-01-31", "gpt-4o", "gpt-5-chat-latest")]
    [True, True, False, False]
    """
    return _REASONS.match(remote_name) is not None


def _reasons_as_told(remote_name: str, parameters: Mapping[str, Any]) -> bool:
    """The same, unless the model's own parameters turn its thoughts on or off, as Anthropic and Google have it."""
    thinking, config = parameters.get("thinking"), parameters.get("thinkingConfig")
    if isinstance(thinking, dict) and "type" in thinking:
        return thinking["type"] not in ("disabled", "between_tools")
    if isinstance(config, dict) and "thinkingBudget" in config:
        return bool(config["thinkingBudget"])
    return reasons(remote_name)


def _definitions(file: Path | None, environment: Mapping[str, str]) -> Mapping[str, ModelDefinition]:
    named, usual = environment.get("MEDHELM_MODELS"), Path("models.yaml")
    file = file or (Path(named) if named else usual if usual.is_file() else None)
    if file is None:
        return {}
    from medhelm.models.models_file import read_definitions  # late: most runs have no such file

    return read_definitions(file)


def _find(name: str, definitions: Mapping[str, ModelDefinition], environment: Mapping[str, str]) -> Model:
    """The model of one name. Raises: ValueError with the reason and the fix."""
    if name in definitions:
        return _defined(name, definitions[name], environment)
    provider, slash, rest = name.partition("/")
    if not slash or provider not in PROVIDERS:
        raise ValueError(_unknown(name, definitions))
    if not rest or not rest.isprintable():
        raise ValueError(f"a name must follow `{provider}/`.")
    match provider:
        case "baseline":
            if rest not in BASELINES:
                raise ValueError(f"there is no such baseline. {suggestion(rest, BASELINES)}")
            return Model(name=name, provider=provider, remote_name=rest)
        case "replay":
            return _replayed(name, rest)
        case "hf" | "vllm":
            model = Model(name=name, provider=provider, remote_name=rest, reasoning=reasons(rest))
            return _with_weights(model, environment)
        case _:
            _ = PROVIDERS[provider]  # a package that cannot be used is told of now
            return _reached(name, provider, rest, environment)


def _unknown(name: str, definitions: Mapping[str, ModelDefinition]) -> str:
    """Words for a name that is neither defined nor of a known provider."""
    provider, slash, rest = name.partition("/")
    known = [*definitions, *(f"baseline/{baseline}" for baseline in BASELINES)]
    if (near := suggestion(name, known)).startswith("Did you mean"):
        return f"unknown. {near}"
    forms = f"A name is PROVIDER/NAME with one of {', '.join(PROVIDERS)}, or one that models.yaml defines."
    if not slash:
        meant_whole = _meant(name)
        return f"unknown. {meant_whole}" if meant_whole.startswith("Did") else f"unknown. {forms} {meant_whole}"
    meant = get_close_matches(provider, PROVIDERS, n=1)
    return f"there is no provider `{provider}`. " + (f"Did you mean `{meant[0]}/{rest}`?" if meant else forms)


def _meant(name: str) -> str:
    """What may be meant by a name without a provider."""
    if name.lower() in PROVIDERS:
        return f"`{name}` is a provider: its model's name follows, as in {name.lower()}/NAME."
    if maker := next((maker for start, maker in _MAKERS.items() if re.match(start, name, re.IGNORECASE)), ""):
        return f"Did you mean `{maker}/{name}`?"
    return f"Is it a server's own name? Then write openai/{name}@http://HOST:PORT/v1, or ollama/{name} for Ollama's."


def _reached(name: str, provider: str, rest: str, environment: Mapping[str, str]) -> Model:
    """A model behind an address: the one in its name, or its provider's."""
    remote_name, address = _split(rest)
    base_url = checked_address(address) if address else ""
    if "?" in base_url and provider != "azure":
        raise ValueError("`?api-version=` belongs to azure/DEPLOYMENT.")
    base_url = _address(provider, base_url, remote_name, environment)
    return Model(
        name=name,
        provider=provider,
        remote_name=remote_name,
        base_url=base_url,
        key_variable=key_variable(provider, base_url, environment),
        reasoning=reasons(remote_name),
    )


def _split(rest: str) -> tuple[str, str]:
    """Name and address in `NAME@ADDRESS`; names may hold an `@` of their own, as in `claude@20240620`."""
    if found := _WITH_ADDRESS.fullmatch(rest):
        if not found["name"]:
            raise ValueError("a name must stand before `@`.")
        return found["name"], found["address"]
    tail = rest.rpartition("@")[2]
    if tail != rest and _LIKE_ADDRESS.fullmatch(tail):
        checked_address(tail)  # It has no scheme: the error says so.
    return rest, ""


def _address(provider: str, address: str, remote_name: str, environment: Mapping[str, str]) -> str:
    """Where a provider is reached: at `address`, already checked, or where its own is if that is empty.

    Raises: ValueError with the variables that are missing or wrong.
    """
    match provider:
        case "azure":
            return azure_address(address or _azure_endpoint(environment), remote_name, _azure_version(environment))
        case "vertex":
            return _vertex(address, environment)
        case "bedrock":
            return bedrock_address(address) if address else _bedrock(environment)
        case "anthropic":
            return anthropic_address(address or _ADDRESSES[provider])
        case "google":
            return google_address(address or _ADDRESSES[provider])
        case "ollama" | "llamacpp":
            return local_address(provider, address, environment)
        case _:
            return address or _ADDRESSES.get(provider, "")  # a package's provider has the address that is written


def _azure_endpoint(environment: Mapping[str, str]) -> str:
    endpoint = environment.get("AZURE_OPENAI_ENDPOINT", "").strip()
    if not endpoint:
        raise ValueError(
            "set AZURE_OPENAI_ENDPOINT to the address of your resource, or write azure/DEPLOYMENT@https://... "
            "(`base_url` in models.yaml)."
        )
    try:
        return checked_address(endpoint)
    except ValueError as error:
        raise ValueError(f"AZURE_OPENAI_ENDPOINT: {error}") from None


def _vertex(address: str, environment: Mapping[str, str]) -> str:
    if "/projects/" in address:
        return vertex_address(address, "", "")
    project, location = _google_cloud("PROJECT", _PROJECT, environment), _google_cloud("LOCATION", _PLACE, environment)
    if not project or not location:
        raise ValueError(
            "set GOOGLE_CLOUD_PROJECT to the project's ID and GOOGLE_CLOUD_LOCATION to its location, such as "
            "us-central1 or global."
        )
    return vertex_address(address, project, location)


def _bedrock(environment: Mapping[str, str]) -> str:
    region = region_in(environment)
    if not region:
        raise ValueError("set AWS_REGION to the region whose models you use, such as us-east-1.")
    if not _PLACE.fullmatch(region):
        raise ValueError("AWS_REGION is no region, such as us-east-1.")
    return f"https://bedrock-runtime.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _google_cloud(name: str, form: re.Pattern[str], environment: Mapping[str, str]) -> str:
    """The value of a variable that becomes part of an address. Raises: ValueError if it cannot."""
    value = environment.get(f"GOOGLE_CLOUD_{name}", "").strip()
    if value and not form.fullmatch(value):
        raise ValueError(f"GOOGLE_CLOUD_{name} is no {name.lower()}: it holds characters that those never have.")
    return value


def _azure_version(environment: Mapping[str, str]) -> str:
    """Version of Azure's classic API, where one is asked for."""
    version = environment.get("AZURE_OPENAI_API_VERSION") or environment.get("OPENAI_API_VERSION") or ""
    if version and not re.fullmatch(r"[A-Za-z0-9.-]+", version):
        raise ValueError("AZURE_OPENAI_API_VERSION is no version, such as 2024-10-21.")
    return version


def _replayed(name: str, path: str) -> Model:
    """A model that answers from a file. Another content of the file is another model."""
    if not path.endswith(".jsonl"):
        raise ValueError("a replay file is JSON lines: its name ends in .jsonl.")
    try:
        with Path(path).open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}.") from error
    return Model(name=name, provider="replay", remote_name=path, parameters={"sha256": content})


def _with_weights(model: Model, environment: Mapping[str, str]) -> Model:
    """A model that runs on this machine with what its files say. Another content of them is another model.

    Without files it is a model all the same; what is missing is said when it is to be asked.
    """
    checked_name(model.remote_name)
    try:
        weights = find_weights(model.remote_name, environment)
    except MedHelmError:
        return model
    window = weights.window if model.window is None else model.window
    return replace(model, window=window, parameters={**model.parameters, "version": weights.version})


def _defined(name: str, definition: ModelDefinition, environment: Mapping[str, str]) -> Model:
    """A model of models.yaml."""
    provider: str = definition.provider
    named = name.partition("/")[0]
    plain = "provider" not in definition.model_fields_set and not definition.base_url
    if plain and (named in _HOSTED or ("/" in name and named not in PROVIDERS.built_in and named in PROVIDERS)):
        provider = named  # `anthropic/claude-...: {max_tokens: ...}` is still Anthropic's
    remote_name, address = definition.model or name.removeprefix(f"{provider}/"), definition.base_url
    if not definition.model and not address and name.startswith(f"{provider}/"):
        remote_name, written = _split(remote_name)  # `openai/NAME@http://...: {window: ...}` is still there
        address = checked_address(written, insecure=definition.insecure) if written else ""
    _ = PROVIDERS[provider]
    base_url = _address(provider, address, remote_name, environment)
    if definition.serve_arguments and provider != "vllm":
        raise ValueError("`serve_arguments` are for models that are served by vllm/NAME.")
    serve_arguments = {"serve_arguments": definition.serve_arguments} if definition.serve_arguments else {}
    told = _reasons_as_told(remote_name, definition.parameters)
    model = Model(
        name=name,
        provider=provider,
        remote_name=remote_name,
        base_url=base_url,
        key_variable=definition.key or key_variable(provider, base_url, environment),
        reasoning=told if definition.reasoning is None else definition.reasoning,
        reasoning_effort=definition.reasoning_effort,
        window=definition.window,
        max_tokens=definition.max_tokens,
        max_concurrency=definition.max_concurrency,
        price=definition.price.price if definition.price else None,
        structured=definition.structured,
        parameters=definition.parameters | serve_arguments,
    )
    return _with_weights(model, environment) if provider in ON_THIS_MACHINE else model
