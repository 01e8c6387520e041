"""One small request to a model: is it there, does the key work, what can it do, and what is to be done if not?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request
from medhelm.domain.completion import REASONING_TOKENS
from medhelm.errors import ProviderError
from medhelm.io.http_client import EgressPolicy, HttpClient
from medhelm.models.addresses import is_inside
from medhelm.models.keys import missing_key
from medhelm.models.local.local_servers import LLAMACPP_PORT, OLLAMA_PORT, ServerCheck, check_server
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.provider import REFUSED_PARTS, SCHEMA, Provider
from medhelm.models.providers import open_provider
from medhelm.models.providers.errors.advice import ADVICE
from medhelm.models.providers.errors.classify import CHECK_LISTS, WITHOUT_LIST, near_names
from medhelm.models.providers.hosted import HttpProvider

QUESTION = "Reply with the word OK."
"""What is asked: costs next to nothing."""

FORM = {
    "type": "object",
    "properties": {"reply": {"type": "string"}},
    "required": ["reply"],
    "additionalProperties": False,
}
"""The form of the reply that is asked for, as judges are asked for theirs."""

ROOM = 32
"""Tokens for the answer; models that reason get as many as in a run."""

PATIENCE_S = 60.0
"""Longest wait for the answer."""

_ADVICE = {
    **ADVICE,
    "rate_limit": "The key works. Runs slow down by themselves; a higher limit is the provider's to give.",
    "overloaded": "Nothing is wrong here: the service has too much to do. Runs ask again by themselves.",
    "context_length": "Its window does not hold the question and its limit: lower `max_tokens` in models.yaml.",
    "refusal": "It refused a harmless question: look at the content filters of the account or deployment.",
}
"""Code of a failure -> what to do, where its own message does not say."""

NO_KEY = "no_key"
"""Failure code of a model that was not asked, because its key is missing or cannot be right."""

_WHOSE = {
    "openai": "an OpenAI-compatible server",
    "azure": "Azure OpenAI",
    "anthropic": "Anthropic",
    "google": "the Gemini API",
    "vertex": "Vertex AI",
    "bedrock": "Bedrock",
    "ollama": "Ollama",
    "llamacpp": "llama.cpp",
}
"""Provider -> whose API it speaks to, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """What came of asking a model once."""

    model: Model
    """Who was asked."""
    answer: Completion
    """What came back, or why nothing did."""
    asked: bool = True
    """Whether a request was sent; models that answer within this process need none."""
    structured: bool | None = None
    """Whether it held to a JSON schema; None if it was not to, or gave no answer."""
    logprobs: bool | None = None
    """Whether its server says how likely each token was; None if that was not asked."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Part of the request that its server refused -> what it said; runs leave it out as well."""
    names: Sequence[str] = ()
    """The models its server says it has, where it does not have this one."""
    advice: str = ""
    """What to do about a failure, beyond what its message says."""


def check(models: Sequence[Model], *, environment: Mapping[str, str], offline: bool = False) -> list[ModelCheck]:
    """Ask each model once, without cache and without second attempts; trouble is a completion with a failure.

    One that answers is asked once more, for the probabilities of its tokens, where its service has them. A part that a
    server refuses is left out and the question asked again, as in a run. A model whose key is missing is not asked.
    Raises: UserError if a host may not be reached; then nothing is sent to anybody.
    """
    lacking = {model.name: text for model in models if (text := missing_key(model, environment))}
    asked = [model for model in models if model.name not in lacking]
    gate = EgressPolicy(offline, {urlsplit(model.base_url).hostname or "" for model in asked if model.base_url})
    for model in asked:
        if model.base_url:
            gate.admit(model.base_url)
    checked = iter(asyncio.run(_check_all(asked, environment, gate)))
    return [_without_key(model, lacking[model.name]) if model.name in lacking else next(checked) for model in models]


def _without_key(model: Model, text: str) -> ModelCheck:
    """A model that was not asked."""
    text = text.removeprefix(f"{model.name}:").removeprefix(model.name).strip()
    return ModelCheck(model=model, answer=Completion(failure=Failure("provider", NO_KEY, text)), asked=False)


async def _check_all(models: Sequence[Model], environment: Mapping[str, str], gate: EgressPolicy) -> list[ModelCheck]:
    http, machine = HttpClient(gate, timeout_s=PATIENCE_S), LocalRuntime()
    try:
        return list(await asyncio.gather(*(_check(model, http, environment, machine) for model in models)))
    finally:
        await machine.close()
        await http.close()


async def _check(model: Model, http: HttpClient, environment: Mapping[str, str], machine: LocalRuntime) -> ModelCheck:
    provider = open_provider(model, http, environment=environment, machine=machine)
    if provider.local:
        return ModelCheck(model=model, answer=Completion(text=""), asked=False)
    request = Request(
        model=model,
        prompt=Prompt((Message("user", QUESTION),)),
        max_tokens=model.max_tokens or (REASONING_TOKENS if model.reasoning else ROOM),
        schema=FORM,
    )
    if not isinstance(provider, HttpProvider):  # of its dialect nothing is known
        return ModelCheck(model=model, answer=await _ask(provider, request))
    provider.tells_names = False  # they have a line of their own
    held = SCHEMA in provider.dialect.parts(request)
    answer = await _ask(provider, request)
    found = await check_server(model, http, answer) if _is_near(model) else ServerCheck()
    names, advice = found.names, found.advice
    if answer.failure and not advice:
        names, advice = await _help(provider, answer.failure)
    return ModelCheck(
        model=model,
        answer=answer,
        structured=_follows(answer.text) and SCHEMA not in provider.left_out if held and answer.text else None,
        logprobs=None if answer.failure else await provider.gives_logprobs(request),
        left_out=dict(provider.left_out),
        names=names,
        advice=advice,
    )


def _is_near(model: Model) -> bool:
    """Whether it is Ollama or llama.cpp's server, by its provider or its address."""
    parts = urlsplit(model.base_url)
    usual = is_inside(parts.hostname or "") and parts.port in (OLLAMA_PORT, LLAMACPP_PORT)
    return model.provider in ("ollama", "llamacpp") or (model.provider == "openai" and usual)


async def _ask(provider: Provider, request: Request) -> Completion:
    """Ask, and ask again without what the server refused."""
    for _ in range(len(REFUSED_PARTS) + 1):
        try:
            return await provider.complete(request)
        except ProviderError as error:
            words = str(error).removeprefix(f"{request.model.name}: ").removesuffix(CHECK_LISTS).rstrip()
            failed = Completion(failure=Failure("provider", error.code, words))
            if error.code not in REFUSED_PARTS:
                break
    return failed


async def _help(provider: HttpProvider, failure: Failure) -> tuple[list[str], str]:
    """The models the server has, if this one is not among them, and what to do."""
    model = provider.model
    if failure.code not in ("unknown_model", "malformed_reply", "empty_choice"):
        return [], _ADVICE.get(failure.code, "")
    base, mark, _ = model.base_url.partition("?")
    without_version = model.provider == "openai" and not mark and not base.endswith("/v1")
    if without_version and (names := await provider.names(f"{base}/v1/models")):
        return _unless_among(model, names), f"The API of this server stands at {base}/v1: write that address."
    if failure.code != "unknown_model":
        return [], (
            f"Something answers at {provider.dialect.url}, but not as {_WHOSE[model.provider]} does: correct the "
            "address, or name the provider whose API it speaks."
        )
    names = await provider.names()
    if names and not _unless_among(model, names):
        return [], f"The server has {model.remote_name}, but does not answer for it at {provider.dialect.url}."
    if not names and model.provider not in WITHOUT_LIST:
        return [], "It lists no models where its API should be, so rather the address is wrong than the name."
    near = near_names(model.remote_name, names)
    return names, f"Did you mean `{near[0]}`?" if near else ""


def _unless_among(model: Model, names: list[str]) -> list[str]:
    """The names a server has, if the model's is none of them."""
    return [] if model.remote_name in names else names


def _follows(text: str | None) -> bool:
    """Whether a reply has the form that was asked for."""
    try:
        reply = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(reply, dict) and isinstance(reply.get("reply"), str)
