"""Models, requests to them, and their completions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from medhelm.domain.benchmark import Instance, Prompt
from medhelm.domain.names import reported_name

Boundary = Literal["data", "provider", "judge", "metric", "budget", "interrupt"]
"""Stage at which a failure happened."""


REASONING_TOKENS = 4000
"""Limit on hidden reasoning and completion together, for models with hidden reasoning."""


POOL = "pool:"
"""`Model.base_url` of a model that is served by a pool of servers, whatever their addresses."""


_OWN_TEMPERATURE = re.compile(r"(?:.*[/.])?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d))|.*claude", re.IGNORECASE)
"""Models that reason at a temperature of their own: OpenAI's since o1, and Claude."""

_OWN_HOSTS = re.compile(r"https://(?:.*\.)?api\.(?:openai|anthropic)\.com(?:[:/]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model in US dollars per million tokens."""

    input: float
    """Per million input tokens that were not cached by the provider."""
    output: float
    """Per million output tokens, hidden reasoning included."""
    cached_input: float | None = None
    """Per million input tokens the provider had cached; None: as `input`."""
    cache_write: float | None = None
    """Per million input tokens that the provider writes into its cache; None: as `input`."""
    source: str = ""
    """Source of the price, and its date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model, its provider and its settings."""

    name: str
    """Name in commands and tables, such as `openai/gpt-4o` or `openai/NAME@http://127.0.0.1:8000/v1`."""
    provider: str
    """Provider that serves it: a key of `models.providers.SERVICES`."""
    remote_name: str
    """Name of the model at the provider."""
    base_url: str = ""
    """URL of the service, up to and including its version part; `POOL` for several identical servers; empty for models
    that need no network."""
    key_variable: str = ""
    """Environment variable that holds the API key; empty if none is needed."""
    reasoning: bool = False
    """True if it spends hidden tokens on reasoning, so that other limits and parameters apply."""
    reasoning_effort: str = ""
    """Reasoning effort to request; empty: the provider's default."""
    window: int | None = None
    """Context window: tokens of prompt and completion together; None if unknown."""
    max_tokens: int | None = None
    """Limit on completions that overrides the benchmark's; None: the benchmark's (4000 with hidden reasoning)."""
    max_concurrency: int | None = None
    """Maximum number of concurrent requests to its endpoint; None: the run's limit."""
    price: Price | None = None
    """Price; None if unknown, which never counts as free."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further request parameters, sent unchanged."""
    reasoning_tags: tuple[tuple[str, str], ...] = ()
    """Pairs of start and end of the reasoning in its completions, besides the known ones; not part of any digest."""
    structured: bool = True
    """True if its server supports completions that follow a JSON schema."""
    scope: str = ""
    """Name that keeps its completions apart from those of other names for the same model; empty: shared by all."""
    proxy: str = ""
    """Address of the proxy for requests to it, or `direct`; empty: the proxy of the command, if it has one."""
    ca_file: str = ""
    """File with the only certificate authorities to accept for it; empty: those that this machine trusts."""
    client_certificate: str = ""
    """File with the certificate to identify with; empty: none."""
    client_key: str = ""
    """File with the key of that certificate; empty: it is in the same file."""
    replicas: tuple[str, ...] = ()
    """Addresses of the servers of a pool, as known at the start; `base_url` is then `POOL`. Neither they nor the
    file below are part of any digest: a server can be added without requesting completions again."""
    endpoints_file: str = ""
    """File that lists the addresses of a pool, read again when it changes; empty: the pool does not change."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """URLs of its service: one, those of the servers of a pool, or none for models that need no network."""
        return self.replicas or ((self.base_url,) if self.base_url else ())

    @property
    def takes_temperature(self) -> bool:
        """True unless it reasons and its service is known to refuse a sampling temperature then.

        That is so at OpenAI, Azure and Anthropic, and for their models anywhere. Others are sent one, as by HELM.
        """
        is_own = self.provider in ("azure", "anthropic") or _OWN_HOSTS.match(self.base_url)
        return not self.reasoning or not (is_own or _OWN_TEMPERATURE.match(self.remote_name))

    @property
    def digest(self) -> str:
        """Hash of everything that determines the model, equal for all names of one model."""
        identity = [self.provider, self.base_url, self.remote_name, self.reasoning, self.reasoning_effort]
        return hashlib.sha256(json.dumps([identity, sorted(self.parameters.items())]).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a model. Equal requests have equal digests."""

    model: Model
    """Model to send it to."""
    prompt: Prompt
    """Prompt to send."""
    max_tokens: int
    """Limit on the completion."""
    temperature: float = 0.0
    """Sampling temperature; not sent unless the model `takes_temperature`."""
    stop: tuple[str, ...] = ()
    """Sequences that end the completion."""
    sample: int = 0
    """Number of the completion among several for the same prompt, from 0."""
    schema: Mapping[str, Any] | None = None
    """JSON schema that the completion must follow, enforced for `structured` models; None: free text."""
    benchmark: str = ""
    """Name of the benchmark, for providers that need no network; not part of the digest."""
    instance: Instance | None = None
    """Instance behind the prompt, for the same providers; not part of the digest."""
    shared_characters: int = 0
    """Length of the prefix, over all messages, that concurrent requests share, if the provider's prompt cache makes it
    cheaper; not part of the digest."""
    fresh: str = ""
    """Start of the fresh run that it belongs to, ISO 8601; empty: a completion of any age will do."""

    @property
    def shared_prefix(self) -> str:
        """Text of the shared prefix."""
        return "".join(message.text for message in self.prompt.messages)[: self.shared_characters]

    @property
    def digest(self) -> bytes:
        """32-byte key of its completion in the cache: the content digest, unless scope or fresh run set it apart."""
        if not self.model.scope and not self.fresh:
            return self.content_digest
        return hashlib.sha256(json.dumps([self.content_digest.hex(), self.model.scope, self.fresh]).encode()).digest()

    @property
    def content_digest(self) -> bytes:
        """32-byte hash of the model and the content sent, equal for all names of one model."""
        return self._hash("temperature") if self._reasons_at_temperature else self._hash()

    @property
    def earlier_digest(self) -> bytes:
        """Content digest before version 0.3, if it was another one: models that reason were sent no temperature."""
        return self._hash() if self._reasons_at_temperature else b""

    @property
    def _reasons_at_temperature(self) -> bool:
        """True for a model that reasons and is sent a temperature; in this process it always had one."""
        return self.model.reasoning and self.model.takes_temperature and self.model.provider != "hf"

    def _hash(self, *marks: str) -> bytes:
        """Return the hash of the content, and of these marks."""
        model = self.model
        identity = [
            [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
            sorted(model.parameters.items()),
            [[message.role, message.text] for message in self.prompt.messages],
            [self.max_tokens, self.temperature, list(self.stop), self.sample],
        ]
        if self.schema is not None and model.structured:
            identity.append([self.schema])
        identity += [[mark] for mark in marks]
        return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one request, or of many."""

    input: int = 0
    """Input tokens, `cached_input` and `cache_write` included."""
    cached_input: int = 0
    """Input tokens that the provider had in its cache."""
    output: int = 0
    """Output tokens, `reasoning` included."""
    reasoning: int = 0
    """Hidden output tokens."""
    cache_write: int = 0
    """Input tokens that the provider reports to have written into its cache."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            input=self.input + other.input,
            cached_input=self.cached_input + other.cached_input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_write=self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a missing result. A failure is missing data, never a score."""

    boundary: Boundary
    """Stage at which it happened."""
    code: str
    """A `FailureCode` such as `refusal`, or a code of a plug-in, another harness or an older version."""
    message: str
    """Description for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A text or a failure, never both. An empty text is a completion, not a failure.

    What servers report beside it, such as their model, is kept if it is a name, and as a hash otherwise: these fields
    are part of results that hold no text.
    """

    text: str | None = None
    """The text; None if and only if `failure` is set."""
    failure: Failure | None = None
    """Reason for the missing text."""
    finish_reason: str = ""
    """Reason why the model stopped: `stop`, `length`, or the provider's own code."""
    usage: Usage = Usage()
    """Tokens as counted by the provider."""
    latency_s: float = 0.0
    """Seconds from sending the request to the end of the response, without waits and retries."""
    reported_model: str = ""
    """Name of the model in the response, which may include a version."""
    fingerprint: str = ""
    """System fingerprint in the response; empty if there is none."""
    refused_parameters: tuple[str, ...] = ()
    """Request parameters that the server refused and that were therefore left out, such as `seed`."""
    batched: bool = False
    """True if it came through a batch API, at a reduced price."""
    received: float | None = field(default=None, compare=False)
    """Time of arrival in seconds since 1970, UTC; None if unknown, or computed in this process."""

    def __post_init__(self) -> None:
        """Replace what is no name."""
        for name in ("finish_reason", "reported_model", "fingerprint"):
            given = getattr(self, name)
            if given and (kept := reported_name(given)) is not given:
                object.__setattr__(self, name, kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """Result of checking a model."""

    model: Model
    """The model."""
    answer: Completion
    """The completion, or why there is none."""
    asked: bool = True
    """True if a request was sent; providers within this process need none."""
    structured: bool | None = None
    """True if it followed a JSON schema; None if there was no schema, or no completion."""
    logprobs: bool | None = None
    """True if its server returns log-probabilities of tokens; None if not checked."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Optional parameter that its server does not support -> its message; runs omit it as well."""
    names: Sequence[str] = ()
    """The models of its server, if this one is not among them."""
    advice: str = ""
    """Advice about a failure, beyond its message."""
