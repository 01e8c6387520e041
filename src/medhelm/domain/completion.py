"""Who answers, and what comes back: models, requests, completions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from medhelm.domain.benchmark import Instance, Prompt

Boundary = Literal["data", "provider", "judge", "metric", "budget", "interrupt"]
"""Where a failure happened."""


REASONING_TOKENS = 4000
"""Limit on hidden reasoning and answer together, for models that reason first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in US dollars per million tokens."""

    input: float
    """Per million input tokens that were not cached by the provider."""
    output: float
    """Per million output tokens, hidden reasoning included."""
    cached_input: float | None = None
    """Per million input tokens the provider had cached; None: as `input`."""
    cache_write: float | None = None
    """Per million input tokens that the provider writes into its cache; None: as `input`."""
    source: str = ""
    """Where the price was read, and its date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model and how it is reached."""

    name: str
    """As the user writes it and tables show it, such as `openai/gpt-4o` or `openai/NAME@http://127.0.0.1:8000/v1`."""
    provider: str
    """Which provider serves it: a name in `models.providers.SERVICES`."""
    remote_name: str
    """What the provider calls it."""
    base_url: str = ""
    """Address of the service, up to and including its version part; empty for models without a network."""
    key_variable: str = ""
    """Environment variable that holds the key; empty if none is needed."""
    reasoning: bool = False
    """Whether it spends hidden tokens before it answers: other limits and parameters apply."""
    reasoning_effort: str = ""
    """Effort asked of a reasoning model; empty: the provider's default."""
    window: int | None = None
    """Tokens that prompt and completion may have together; None if unknown."""
    max_tokens: int | None = None
    """Limit on completions that overrides the benchmark's; None: the benchmark's (4000 if it reasons)."""
    max_concurrency: int | None = None
    """Most requests in flight to its endpoint; None: the run's limit."""
    price: Price | None = None
    """What it costs; None if unknown, which never counts as free."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further request parameters, sent as they are."""
    structured: bool = True
    """Whether its server may be asked to hold it to a JSON schema."""

    @property
    def digest(self) -> str:
        """Hash of everything that decides which model answers, the same for all names of one model."""
        identity = [self.provider, self.base_url, self.remote_name, self.reasoning, self.reasoning_effort]
        return hashlib.sha256(json.dumps([identity, sorted(self.parameters.items())]).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call as sent. Equal requests have equal digests."""

    model: Model
    """Who is asked."""
    prompt: Prompt
    """What is asked."""
    max_tokens: int
    """Limit on the completion."""
    temperature: float = 0.0
    """Sampling temperature; not sent to reasoning models."""
    stop: tuple[str, ...] = ()
    """Sequences that end the completion."""
    sample: int = 0
    """Which of several completions of the same prompt this is, from 0."""
    schema: Mapping[str, Any] | None = None
    """JSON schema that the completion has to follow, which a `structured` model is held to; None: free text."""
    benchmark: str = ""
    """Name of the benchmark, for providers that answer without a network; no part of the digest."""
    instance: Instance | None = None
    """The question behind the prompt, for the same providers; no part of the digest."""
    shared_characters: int = 0
    """Characters of the prompt, message after message, that several requests sent at about the same time begin with,
    where the provider's cache makes that cheaper; no part of the digest."""

    @property
    def shared_prefix(self) -> str:
        """The text of these characters."""
        return "".join(message.text for message in self.prompt.messages)[: self.shared_characters]

    @property
    def digest(self) -> bytes:
        """32 bytes that identify what is sent and to whom; the key of the cache."""
        model = self.model
        identity = [
            [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
            sorted(model.parameters.items()),
            [[message.role, message.text] for message in self.prompt.messages],
            [self.max_tokens, self.temperature, list(self.stop), self.sample],
        ]
        if self.schema is not None and model.structured:
            identity.append([self.schema])
        return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, or of many."""

    input: int = 0
    """Read, `cached_input` and `cache_write` included."""
    cached_input: int = 0
    """Of those read: the provider had them in its cache."""
    output: int = 0
    """Written, `reasoning` included."""
    reasoning: int = 0
    """Of those written: hidden ones."""
    cache_write: int = 0
    """Of those read: the provider put them into its cache, and says so."""

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(
            input=self.input + other.input,
            cached_input=self.cached_input + other.cached_input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_write=self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result: data, never a score."""

    boundary: Boundary
    """Where it happened."""
    code: str
    """A `FailureCode` such as `refusal`, or a code of a plug-in, another harness or an older version."""
    message: str
    """In words, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came back: a text, or a failure, never both. An empty text is an answer: the model said nothing."""

    text: str | None = None
    """The answer; None if and only if `failure` is set."""
    failure: Failure | None = None
    """Why there is no answer."""
    finish_reason: str = ""
    """Why the model stopped: `stop`, `length`, or the provider's own word."""
    usage: Usage = Usage()
    """Tokens the provider counted."""
    latency_s: float = 0.0
    """Seconds from sending the request to having read its answer, without waiting and retries."""
    reported_model: str = ""
    """The model's name as the provider gives it, which may carry a version."""
    fingerprint: str = ""
    """What the provider calls the software and settings that answered; empty where it does not say."""
    refused_parameters: tuple[str, ...] = ()
    """Parts of the request that its server refuses, so that it went without them, such as `seed`."""
    batched: bool = False
    """Whether it was bought through a batch API, at a part of the price."""
