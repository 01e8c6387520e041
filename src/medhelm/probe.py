"""One small request to a model: is it there, does the key work, what can it do, and what is to be done if not?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request
from medhelm.errors import MissingError, ProviderError, suggestion
from medhelm.models.addresses import is_inside
from medhelm.models.http import Gate, Http, is_loopback
from medhelm.models.keys import missing_key
from medhelm.models.provider import REFUSED_PARTS, SCHEMA, Provider
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import Hosted
from medhelm.models.providers.local.machine import Machine
from medhelm.models.providers.local.neighbours import LLAMACPP_PORT, OLLAMA_PORT, Finding, examine
from medhelm.settings import REASONING_TOKENS

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
    "timeout": "A server may still be loading the model: ask again in a minute.",
    "rate_limit": "The key works. Runs slow down by themselves; a higher limit is the provider's to give.",
    "overloaded": "Nothing is wrong here: the service has too much to do. Runs ask again by themselves.",
    "server_error": "If it lasts, look at the service's status page, or at the log of your own server.",
    "bad_request": "It is about the request: look at `parameters`, `reasoning` and `max_tokens` in models.yaml.",
    "refusal": "It refused a harmless question: look at the content filters of the account or deployment.",
    "certificate": "A server that speaks plain HTTP needs an address with http://.",
}
"""Code of a failure -> what to do, where its own message does not say."""


_WHOSE = {
    "openai": "an OpenAI-compatible server",
    "azure": "Azure OpenAI",
    "anthropic": "Anthropic",
    "google": "Gemini",
    "vertex": "Vertex AI",
    "bedrock": "Bedrock",
    "ollama": "Ollama",
    "llamacpp": "llama.cpp",
}
"""Provider -> whose API it speaks to, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
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


def check(models: Sequence[Model], *, environment: Mapping[str, str], offline: bool = False) -> list[Checked]:
    """Ask each model once, without cache and without second attempts; trouble is a completion with a failure.

    One that answers is asked once more, for the probabilities of its tokens, where its service has them. A part that a
    server refuses is left out and the question asked again, as in a run.
    Raises: MissingError with all keys that are not there, UserError if a host may not be reached; nothing is sent.
    """
    missing = [text for model in models if (text := missing_key(model, environment))]
    if missing:
        raise MissingError("\n".join(missing))
    gate = Gate(offline, {urlsplit(model.base_url).hostname or "" for model in models if model.base_url})
    for model in models:
        if model.base_url:
            gate.admit(model.base_url)
    return asyncio.run(_check_all(models, environment, gate))


async def _check_all(models: Sequence[Model], environment: Mapping[str, str], gate: Gate) -> list[Checked]:
    http, machine = Http(gate, timeout_s=PATIENCE_S), Machine()
    try:
        return list(await asyncio.gather(*(_check(model, http, environment, machine) for model in models)))
    finally:
        await machine.close()
        await http.close()


async def _check(model: Model, http: Http, environment: Mapping[str, str], machine: Machine) -> Checked:
    provider = open_provider(model, http, environment=environment, machine=machine)
    if provider.local:
        return Checked(model=model, answer=Completion(text=""), asked=False)
    request = Request(
        model=model,
        prompt=Prompt((Message("user", QUESTION),)),
        max_tokens=model.max_tokens or (REASONING_TOKENS if model.reasoning else ROOM),
        schema=FORM,
    )
    if not isinstance(provider, Hosted):  # of its dialect nothing is known
        return Checked(model=model, answer=await _ask(provider, request))
    held = SCHEMA in provider.dialect.parts(request)
    answer = await _ask(provider, request)
    found = await examine(model, http, answer) if _is_near(model) else Finding()
    names, advice = found.names, found.advice
    if answer.failure and not advice:
        names, advice = await _help(provider, answer.failure)
    return Checked(
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
            failed = Completion(failure=Failure("provider", error.code, str(error)))
            if error.code not in REFUSED_PARTS:
                break
    return failed


async def _help(provider: Hosted, failure: Failure) -> tuple[list[str], str]:
    """The models the server has, if this one is not among them, and what to do."""
    model = provider.model
    if failure.code not in ("unknown_model", "malformed_reply", "empty_choice"):
        return [], _whereabouts(model) if failure.code == "connection" else _ADVICE.get(failure.code, "")
    base, mark, _ = model.base_url.partition("?")
    without_version = model.provider == "openai" and not mark and not base.endswith("/v1")
    if without_version and (names := await provider.names(f"{base}/v1/models")):
        return names, f"The API of this server stands at {base}/v1: write that address."
    if failure.code != "unknown_model":
        return [], f"Something answers at {provider.dialect.url}, but not as the API of {_WHOSE[model.provider]} does."
    if model.provider == "azure":
        return [], "The name is that of a deployment, not of a model: the Azure portal lists them."
    names = await provider.names()
    near = suggestion(model.remote_name, names) if names else ""
    return names, near if near.startswith("Did you mean") else ""


def _whereabouts(model: Model) -> str:
    """What to do if nobody is at an address."""
    parts = urlsplit(model.base_url)
    if is_loopback(parts.hostname or ""):
        return (
            f"Start the server, or correct the port {parts.port or 80}: vLLM's is 8000, llama.cpp's 8080, Ollama's "
            "11434, LM Studio's 1234."
        )
    return (
        f"Check how {parts.hostname} is spelled, and whether this machine can reach it: VPN, firewall. Proxies that "
        "the environment names are not used."
    )


def _follows(text: str | None) -> bool:
    """Whether a reply has the form that was asked for."""
    try:
        reply = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(reply, dict) and isinstance(reply.get("reply"), str)
