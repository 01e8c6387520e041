"""The interface of providers and the record of each, and the separation of reasoning from completions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, runtime_checkable

from medhelm.domain import Completion, Failure, FailureCode, Instance, Message, Model, Request, Usage
from medhelm.domain.completion import REASONING_TOKENS, SplitText, split_reasoning
from medhelm.errors import ProviderError

if TYPE_CHECKING:
    from medhelm.io.http.client import HttpClient


# --- reasoning --------------------------------------------------------------------------------------------------------
# The separation of reasoning from the text of a completion.
#
# The cache holds what was received. A completion that is returned, new or from the cache, is the answer alone. So a
# marker that becomes known later (`reasoning_tags`) also applies to completions that were bought before.

LENGTH = "length"
"""Finish reason of a completion that reached its limit."""


def separate_reasoning(completion: Completion, request: Request) -> Completion:
    """Return a completion without the reasoning in its text.

    If nothing else is left because it reached its limit, it is a failure (`length`). Without a count of the server, the
    tokens of the reasoning are estimated by its share of the text. A judge's reply, which has a schema, may quote
    markers: only reasoning at its beginning counts.
    """
    if not completion.text:
        return completion
    split = split_reasoning(completion.text, request.model.reasoning_tags, start_only=request.schema is not None)
    if completion.finish_reason == LENGTH and _is_cut_marker(completion.text.strip()):
        split = SplitText(completion.text, "")
    if split.answer == completion.text:
        return completion
    usage = with_hidden_share(completion.usage, len(completion.text) - len(split.answer), len(split.answer))
    failure = None
    if completion.finish_reason == LENGTH and not split.answer.strip():
        failure = used_up_by_reasoning(usage, is_known=request.model.reasoning)
    reasoning = "\n\n".join(filter(None, [completion.reasoning, split.reasoning]))
    text = None if failure else split.answer
    return replace(completion, text=text, failure=failure, usage=usage, reasoning=reasoning)


def with_hidden_share(usage: Usage, hidden: int, visible: int) -> Usage:
    """Return token counts with an estimate of the reasoning, unless the server counted it.

    The estimate is at least 1, so that the counts always show that there was reasoning.

    Parameters
    ----------
    hidden, visible : characters of the reasoning and of the rest
    """
    if usage.reasoning or not hidden:
        return usage
    share = round(usage.output * hidden / (hidden + visible))
    return replace(usage, reasoning=max(1, min(share, usage.output - bool(visible))))


def with_room(request: Request) -> Request | None:
    """Return a request with the limit of reasoning models; None if it has that already, or the user has set one.

    Judges, whose requests have a schema, have enough room for either.
    """
    model = request.model
    if model.reasoning or model.max_tokens or request.schema or request.max_tokens >= REASONING_TOKENS:
        return None
    return replace(request, max_tokens=REASONING_TOKENS)


def needs_room(completion: Completion, request: Request) -> bool:
    """Return True if a model that is not known to reason used up its limit by reasoning, and can get a higher one."""
    failure = completion.failure
    return failure is not None and failure.code == FailureCode.LENGTH and with_room(request) is not None


def used_up_by_reasoning(usage: Usage, *, is_known: bool) -> Failure:
    """Return the failure of a completion that reached its limit before the first word of its answer.

    `is_known`: the model is known to reason. A higher limit would have brought a text.
    """
    spent = f"all {usage.output:,} tokens" if usage.output else "all the tokens"
    message = (
        f"the model used {spent} of its limit for hidden reasoning, before the first word of its answer. "
        "Set a higher `max_tokens` or a lower `reasoning_effort` in models.yaml"
        + ("." if is_known else ", or `reasoning: true`.")
    )
    return Failure("provider", FailureCode.LENGTH, message)


_FIRST_TOKENS = ("<think>", "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>", "[THINK]", "◁think▷",
                 "<unused94>thought", "<seed:think>", "<|begin_of_thought|>", "<|START_THINKING|>")  # fmt: skip


def _is_cut_marker(text: str) -> bool:
    """Return True if a completion of a few tokens is the beginning of a marker of reasoning."""
    return text == "analysis" or (len(text) > 1 and any(start.startswith(text) for start in _FIRST_TOKENS))


# --- interface --------------------------------------------------------------------------------------------------------
# The interface between medhelm and a model: one asynchronous method, and a few optional hooks.


class OptionalParameter(StrEnum):
    """A part of a request that some servers do not support, and that can be left out."""

    SCHEMA = "schema"
    """The JSON schema of the completion."""
    TEMPERATURE = "temperature"
    """The sampling temperature."""
    STOP = "stop"
    """The sequences that end a completion."""
    MAX_TOKENS = "max_tokens"
    """The usual name of the limit on the completion; without it the limit goes by its newer name."""
    NEW_LIMIT = "max_completion_tokens"
    """The newer name of the limit; without it the limit goes by its usual name."""
    SMALL_LIMIT = "small max_tokens"
    """A limit below the server's minimum; without it the limit is the minimum."""
    SYSTEM = "system message"
    """The role of system messages; without it their text goes before the user's first message."""
    SEED = "seed"
    """The seed of the sampling."""
    LOGPROBS = "logprobs"
    """The request for log-probabilities of tokens."""
    CACHE = "cache"
    """The mark up to which the prompt is kept in the provider's cache."""

    @property
    def error_code(self) -> str:
        """Code of the error of a server that does not support it: a `FailureCode`."""
        return f"{self.replace(' ', '_')}_refused"

    @property
    def changes_completions(self) -> bool:
        """Return True if a model may write another completion without it."""
        return self not in (OptionalParameter.MAX_TOKENS, OptionalParameter.NEW_LIMIT, OptionalParameter.CACHE)


_BY_ERROR_CODE = {parameter.error_code: parameter for parameter in OptionalParameter}


def unsupported_parameter(error: ProviderError) -> OptionalParameter | None:
    """Return the parameter that the server does not support; None for an error about anything else.

    >>> unsupported_parameter(ProviderError("seed_refused", "unknown field: seed"))
    <OptionalParameter.SEED: 'seed'>
    """
    return _BY_ERROR_CODE.get(error.code)


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """Return messages with those of the system moved before the text of the user's first message.

    >>> fold_system([Message("system", "Be brief."), Message("user", "Why?")])
    [Message(role='user', text='Be brief.\\n\\nWhy?')]
    """
    system = [message.text for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    first = next((place for place, message in enumerate(others) if message.role == "user"), None)
    if first is None:
        return [Message("user", "\n\n".join(system)), *others]
    others[first] = Message("user", "\n\n".join([*system, others[first].text]))
    return others


class BilledError(ProviderError):
    """A request that a service has billed, or may have billed, brought no completion."""

    def __init__(self, cause: ProviderError, usage: Usage) -> None:
        """`cause`: the error; `usage`: tokens that the service reported with its reply, none if it reported none."""
        super().__init__(cause.code, str(cause))
        self.__dict__.update(cause.__dict__)
        self.usage = usage


class Provider(ABC):
    """One model of one service: sends a request and reads the completion.

    Retries, cache, rate limits, budget and prices are the client's. A provider sets `endpoint` and `local` and
    implements `complete`; the hooks below it have defaults.
    """

    endpoint: str = ""
    """Requests to the same endpoint share one limit on requests in flight, e.g. `http://127.0.0.1:8000`. Empty if
    `local`, unless the provider repeats completions that were bought elsewhere."""
    local: bool = False
    """True if it answers within this process, at once and for free: nothing is cached, limited or charged."""

    @abstractmethod
    async def complete(self, request: Request) -> Completion:
        """Send one request and read the completion.

        A refusal is a completion too, with a `Failure` of code `refusal`.
        Raises: ProviderError if it has no completion. It says whether a retry may help, whether the endpoint is
        overloaded, and whether every request to this model is bound to fail. After an error about an optional
        parameter (`unsupported_parameter`) the same request is sent again, without that parameter.
        """

    n_servers: int = 1
    """Hook: the number of servers that share its requests, each with a limit of its own."""

    replies_in_time: bool = True
    """Hook: False for models that this process starts or runs, whose first completion may take as long as it needs."""

    starts_at_maximum: bool = False
    """Hook: the limit on requests in flight starts at its maximum, because many requests take as long as one."""

    copies: int = 1
    """Hook: number of copies of the model that compute at the same time; each has its own limit on requests."""

    def prepare(self, benchmark: str, instances: Iterable[Instance]) -> None:  # noqa: B027 - an optional hook
        """Hook: read all instances of a benchmark before the first request about one of them."""


# --- service ----------------------------------------------------------------------------------------------------------
# One record for each provider: its title, addresses, keys, errors, examples and batch API, and how to open it.

Environment = Mapping[str, str]
"""Environment variables: name -> value."""

T = TypeVar("T")


@runtime_checkable
class Closable(Protocol):
    """Something that has to be closed, such as a loaded model or a server that was started."""

    async def close(self) -> None:
        """Close it and release all its resources. May be called more than once."""


class SharedResources:
    """Objects that the providers of a session share, such as loaded models, servers and locks; closed together."""

    def __init__(self, note: Callable[[str], object] | None = None) -> None:
        """`note` shows a message to the user; it is called in the event loop."""
        self.note = note or (lambda _: None)
        self._opened: dict[Hashable, object] = {}

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object of this key; the first call makes it with `make`."""
        if key not in self._opened:
            self._opened[key] = make()
        return cast("T", self._opened[key])

    def opened(self, kind: type[T]) -> list[T]:
        """Return all objects of one type, in the order of opening."""
        return [each for each in list(self._opened.values()) if isinstance(each, kind)]

    async def close(self) -> None:
        """Close all that are `Closable`, concurrently, then raise the first error."""
        import asyncio  # lazy: commands that read results need the names of the providers only

        ending = [each.close() for each in self._opened.values() if isinstance(each, Closable)]
        self._opened.clear()
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """Objects that a provider may use in addition to its model."""

    http: HttpClient
    """The HTTP client; it enforces the egress policy."""
    environment: Environment
    """Environment variables, keys included."""
    seed: int
    """Seed of random numbers."""
    aliases: Mapping[str, str]
    """Alias of a benchmark -> its name."""
    resources: SharedResources = field(default_factory=SharedResources)
    """Objects that the providers of the session share."""

    def value_of(self, variable: str) -> str:
        """Return the value of an environment variable without surrounding whitespace; "" if it is not set."""
        return self.environment.get(variable, "").strip() if variable else ""

    def __repr__(self) -> str:
        """Leave out the environment, which holds keys."""
        return f"ProviderContext(seed={self.seed})"


Opener = Callable[[Model, ProviderContext], Provider]
"""Opens the provider of a model. Nothing is sent."""


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable, other than the key, that a service needs to have an address."""

    variables: tuple[str, ...]
    """Its names; the first that is set counts."""
    example: str
    """A value for examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A provider of models."""

    name: str
    """The part of a model's name before the slash."""
    title: str
    """Its name in messages."""
    open: Opener
    """Opens the provider of a model."""
    examples: tuple[str, ...] = ()
    """Models as users name them, for `medhelm models list`; words in capitals are placeholders."""

    # --- address
    base_url: str = ""
    """Its own address, including the version; empty if it depends on the environment or the user."""
    locate: Callable[[str, str, Environment], str] | None = None
    """(address as written, name of the model, environment) -> base URL. Raises: ValueError with what is missing."""
    settings: tuple[Setting, ...] = ()
    """Variables without which it has no address."""
    resolve: Callable[[Model, Environment], Model] = lambda model, _: model
    """Checks the name of a model and adds what is known without a request. Raises: ValueError, UserError."""
    takes_address: bool = True
    """True if `@http://...` may follow the name of a model."""
    in_process: bool = False
    """True if it answers within this process without any model: always free."""

    on_cluster: bool = False
    """True if its models run in this process, so that actors can run them with `--cluster`."""

    # --- keys
    key_variables: tuple[str, ...] = ()
    """Variables that may hold its key; the first that is set counts."""
    default_key_variable: str = ""
    """The variable to ask for if none is set; empty: the first."""
    key_pairs: Mapping[str, str] = field(default_factory=dict)
    """Variable of a key -> the second variable that this key needs."""
    key_prefixes: Mapping[str, str] = field(default_factory=dict)
    """First characters of its keys -> the variable for such keys."""
    key_hints: Mapping[str, str] = field(default_factory=dict)
    """Variable -> where to get its key, as a sentence."""
    hosts: str = ""
    """Regular expression for its own hosts: only these and this machine get its key."""
    host_variable: str = ""
    """Variable with an address; its host also belongs to the service."""

    # --- errors
    error_codes: Mapping[str, FailureCode] = field(default_factory=dict)
    """Documented error code, type or reason, in lower case -> what it means."""
    error_phrases: Mapping[FailureCode, str] = field(default_factory=dict)
    """Meaning -> regular expression for messages, in lower case, that have no code of their own."""
    advice: Mapping[FailureCode, str] = field(default_factory=dict)
    """Code -> what to do, instead of the general advice; it may name `{model.remote_name}` and other fields."""
    lists_models: bool = True
    """True if the address of requests also lists its models."""

    batch: str = ""
    """`module:CLASS` of its batch API, a `BatchService`, which most runs do not import; empty if it has none."""

    def address(self, written: str, remote_name: str, environment: Environment) -> str:
        """Return the base URL of a model, given the address that the user wrote, "" if none.

        Raises: ValueError with the variables that are missing or invalid.
        """
        if self.locate is not None:
            return self.locate(written, remote_name, environment)
        return written or self.base_url

    def owns(self, host: str) -> bool:
        """Return True if a host is the service's own."""
        return bool(self.hosts) and re.fullmatch(self.hosts, host) is not None
