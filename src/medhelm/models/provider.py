"""The interface between medhelm and a model: one asynchronous method, and a few optional hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import StrEnum

from medhelm.domain import Completion, Instance, Message, Request, Usage
from medhelm.errors import ProviderError


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
