"""Checking models: a small request or two shows whether a model responds, what it supports, and what to do if not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from urllib.parse import urlsplit

from medhelm.domain import Completion, Failure, FailureCode, Message, Model, Prompt, Request
from medhelm.domain.completion import REASONING_TOKENS, ModelCheck
from medhelm.domain.text import listed
from medhelm.errors import MedHelmError, ProviderError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.http.hosts import SUBJECT, Audit, Subject, is_inside
from medhelm.models.addresses import policy_for
from medhelm.models.client import PoolProvider
from medhelm.models.keys import missing_key
from medhelm.models.model_names import plain_name
from medhelm.models.provider import (
    OptionalParameter,
    Provider,
    SharedResources,
    separate_reasoning,
    unsupported_parameter,
)
from medhelm.models.providers import open_provider
from medhelm.models.providers.advice import ADVICE
from medhelm.models.providers.errors import CHECK_LISTS
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.local_servers import LLAMACPP_PORT, OLLAMA_PORT, ServerCheck, check_server

PROMPT = "Reply with the word OK."
"""The prompt; it costs next to nothing."""

SCHEMA = {
    "type": "object",
    "properties": {"reply": {"type": "string"}},
    "required": ["reply"],
    "additionalProperties": False,
}
"""JSON schema of the completion, as judges get one."""

MAX_TOKENS = 32
"""Limit on the completion; models that reason get as many tokens as in a run."""

TIMEOUT_S = 60.0
"""Timeout of a request."""

PROBE_TIMEOUT_S = 5.0
"""Timeout of a probe."""

_ADVICE = {
    **ADVICE,
    "rate_limit": "The key works. Runs slow down automatically; only the provider can raise the limit.",
    "overloaded": "The service is overloaded. Runs retry automatically.",
    "context_length": "Prompt and limit exceed its context window: lower `max_tokens` in models.yaml.",
    "refusal": "It refused a harmless prompt: check the content filters of the account or deployment.",
}
"""Failure code -> what to do, if the failure's message does not say."""


def check(
    models: Sequence[Model],
    *,
    environment: Mapping[str, str],
    offline: bool = False,
    proxy: str = "",
    audit: Audit | None = None,
) -> list[ModelCheck]:
    """Send one request to each model, without cache and retries; an error becomes a completion with a failure.

    Each server of a pool is checked separately.

    A model that responds gets a second request, for log-probabilities, if its service has them. After an error about
    an optional parameter the request is sent again without it, as in a run. A model without a key gets none.
    `proxy`: address of the proxy, if any; `audit`: records each request.
    Raises: UserError if a host is not allowed; then nothing is sent to any model.
    """
    models = [one for model in models for one in _one_per_server(model)]
    without_key = {model.name: text for model in models if (text := missing_key(model, environment))}
    asked = [model for model in models if model.name not in without_key]
    policy = policy_for(asked, offline=offline, proxy=proxy, environment=environment)
    policy.admit_all(address for model in asked for address in model.addresses)
    checked = iter(asyncio.run(_check_all(asked, environment, policy, audit)))
    return [
        _not_asked(model, without_key[model.name]) if model.name in without_key else next(checked) for model in models
    ]


def _not_asked(model: Model, text: str) -> ModelCheck:
    """Return the result for a model without a key."""
    text = text.removeprefix(f"{model.name}:").removeprefix(model.name).strip()
    return ModelCheck(
        model=model, answer=Completion(failure=Failure("provider", FailureCode.NO_KEY, text)), asked=False
    )


def _one_per_server(model: Model) -> list[Model]:
    """Return the model as each of its servers serves it."""
    return [
        replace(model, name=f"{model.name} at {address}", base_url=address, replicas=(), endpoints_file="")
        for address in model.replicas
    ] or [model]


async def probe(provider: Provider, n_cached: int, reported: Collection[str]) -> str:
    """Check that the user's own server still serves a model whose completions all came from the cache.

    Sends one request, for the list of its models; for a pool, to each server until one is fine. Services of vendors
    are not asked.
    `n_cached`: number of those completions; `reported`: names of the model in them.
    Returns: a sentence if it does not respond, or lists other models only; else "".
    """
    if isinstance(provider, PoolProvider):
        found = ""
        for server in provider.servers():
            if not (found := await probe(server, n_cached, reported)):
                break
        return found
    if not isinstance(provider, HttpProvider):
        return ""
    model, cached = provider.model, f"all {n_cached:,} completions come from the cache"
    if not model.base_url or provider.service.owns(urlsplit(model.base_url).hostname or ""):
        return ""
    try:
        names = await provider.listed_names(timeout_s=PROBE_TIMEOUT_S)
    except MedHelmError as error:
        return f"{model.name}: {cached}, and its server did not respond: {error}"
    expected = {model.remote_name, *reported}
    if not names or not expected.isdisjoint({*names, *(name.removesuffix(":latest") for name in names)}):
        return ""
    return (
        f"{model.name}: {cached}, and its server now lists {listed(names, 3)} instead of {model.remote_name}. "
        "`medhelm run --fresh` requests new completions."
    )


async def _check_all(
    models: Sequence[Model], environment: Mapping[str, str], policy: EgressPolicy, audit: Audit | None
) -> list[ModelCheck]:
    http, resources = HttpClient(policy, timeout_s=TIMEOUT_S, audit=audit), SharedResources()
    try:
        return list(await asyncio.gather(*(_check(model, http, environment, resources) for model in models)))
    finally:
        await resources.close()
        await http.close()


async def _check(
    model: Model, http: HttpClient, environment: Mapping[str, str], resources: SharedResources
) -> ModelCheck:
    provider = open_provider(model, http, environment=environment, resources=resources)
    if provider.local:
        return ModelCheck(model=model, answer=Completion(text=""), asked=False)
    request = Request(
        model=model,
        prompt=Prompt((Message("user", PROMPT),)),
        max_tokens=model.max_tokens or (REASONING_TOKENS if model.reasoning else MAX_TOKENS),
        schema=SCHEMA,
    )
    if not isinstance(provider, HttpProvider):  # its dialect is unknown
        return ModelCheck(model=model, answer=await _ask(provider, request))
    SUBJECT.set(Subject(model=model.name))
    has_schema = OptionalParameter.SCHEMA in provider.dialect.optional_parameters(request)
    answer = await _ask(provider, request)
    found = await check_server(model, http, answer) if _is_local_server(model) else ServerCheck()
    names, advice = found.names, found.advice
    if answer.failure and not advice:
        names, advice = await _names_and_advice(provider, answer.failure)
    return ModelCheck(
        model=model,
        answer=answer,
        structured=_follows_schema(provider, answer.text) if has_schema and answer.text else None,
        logprobs=None if answer.failure else await provider.gives_logprobs(request),
        left_out={str(parameter): text for parameter, text in provider.unsupported.items()},
        names=names,
        advice=advice,
    )


def _is_local_server(model: Model) -> bool:
    """Return True if it is Ollama or llama.cpp's server, by its provider or address."""
    parts = urlsplit(model.base_url)
    usual = is_inside(parts.hostname or "") and parts.port in (OLLAMA_PORT, LLAMACPP_PORT)
    return model.provider in ("ollama", "llamacpp") or (model.provider == "openai" and usual)


async def _ask(provider: Provider, request: Request) -> Completion:
    """Send a request, and again without the optional parameters that the server does not support."""
    for _ in range(len(OptionalParameter) + 1):
        try:
            return separate_reasoning(await provider.complete(request), request)
        except ProviderError as error:
            message = str(error).removeprefix(f"{request.model.name}: ").removesuffix(CHECK_LISTS).rstrip()
            failed = Completion(failure=Failure("provider", error.code, message))
            if unsupported_parameter(error) is None:
                break
    return failed


async def _names_and_advice(provider: HttpProvider, failure: Failure) -> tuple[list[str], str]:
    """Return the models of the server, if this one is not among them, and what to do."""
    model = provider.model
    if failure.code not in (FailureCode.UNKNOWN_MODEL, FailureCode.MALFORMED_REPLY, FailureCode.EMPTY_CHOICE):
        return [], _ADVICE.get(failure.code, "")
    base, mark, _ = model.base_url.partition("?")
    without_version = model.provider == "openai" and not mark and not base.endswith("/v1")
    if without_version and (names := await provider.names(f"{base}/v1/models")):
        return _names_without(model, names), f"The API of this server is at {base}/v1: use that address."
    if failure.code != FailureCode.UNKNOWN_MODEL:
        return [], (
            f"A server responds at {provider.dialect.url}, but not in the format of {provider.service.title}: correct "
            "the address, or name the provider whose API it has."
        )
    names = await provider.names()
    if names and not _names_without(model, names):
        return [], f"The server lists {model.remote_name}, but does not know it at {provider.dialect.url}."
    if not names and provider.service.lists_models:
        return [], "The server lists no models at this address, so the address is probably wrong, not the name."
    return names, _nearest_name(model.remote_name, names)


def _nearest_name(name: str, names: Sequence[str]) -> str:
    """Suggest the listed name that `name` may mean; case and vendor do not matter.

    >>> _nearest_name("qwen2.5", ["llama-3.3-70b", "Qwen/Qwen2.5-7B-Instruct"])
    'Did you mean `Qwen/Qwen2.5-7B-Instruct`?'
    """
    by_plain_name, wanted = {plain_name(known): known for known in names}, plain_name(name)
    parts = [plain for plain in by_plain_name if wanted in plain]
    near = get_close_matches(wanted, parts or by_plain_name, n=1, cutoff=0.0 if parts else 0.7)
    return f"Did you mean `{by_plain_name[near[0]]}`?" if near else ""


def _names_without(model: Model, names: list[str]) -> list[str]:
    """Return the names, unless the model's is one of them."""
    return [] if model.remote_name in names else names


def _follows_schema(provider: HttpProvider, text: str | None) -> bool:
    """Return True if a completion follows the schema, and the server was sent one."""
    if OptionalParameter.SCHEMA in provider.unsupported:
        return False
    try:
        reply = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(reply, dict) and isinstance(reply.get("reply"), str)
