"""A model behind an HTTP API: sends one request and reads the reply, in the service's own dialect."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medhelm.domain import Completion, FailureCode, Message, Model, Request, Usage
from medhelm.errors import MedHelmError, ProviderError
from medhelm.io.http.client import HttpClient, HttpResponse, read_json, retry_after_s, without_keys
from medhelm.models.provider import (
    BilledError,
    OptionalParameter,
    Provider,
    Service,
    fold_system,
    unsupported_parameter,
)
from medhelm.models.providers.errors import names_in, truncation_by_count

if TYPE_CHECKING:
    from medhelm.models.providers.errors import ErrorResponse

MAX_NAMES = 2000
"""Most models of a server that are listed; the longest list of a vendor has some hundred."""

SHORTEST_KEY = 16
"""Fewest characters of a key that is replaced in completions; the shortest ones of services have 32."""

NAMES_TIMEOUT_S = 20.0
"""Timeout for that list, which only helps with error messages."""


SMALL_LIMIT = 16
"""Lowest limit on a completion that OpenAI's Responses API accepts, in tokens; gateways send requests on to it."""

_ERRORS = {"message", "msg", "detail", "errors", "error_msg", "error_message", "base_resp"}
"""Keys of a reply without a completion that hold an error, such as those of MiniMax and Baidu."""

_HIGHEST_MINIMUM = 1024
_MINIMUM = re.compile(r"(?:>=|at least|equal to|minimum(?: value)?(?: is| of)?|\[)\s*`?(\d{1,4})\b")
_LIMIT_FIELDS = {"max_tokens", "max_completion_tokens", "maxOutputTokens", "maxTokens"}


class Dialect(ABC):
    """The request and reply format of one service. Pure: it sends nothing and keeps no state."""

    url: str
    """Address of requests."""
    names_url: str = ""
    """Address of the service's list of models; empty if there is none."""
    secrets: tuple[str, ...]
    """Texts that must never appear in a message."""
    logprobs_parameters: Mapping[str, Any] = MappingProxyType({})
    """Parameters that request log-probabilities of tokens; empty if the service has none."""

    @abstractmethod
    def headers(self, body: bytes | None) -> Mapping[str, str]:
        """Return the headers with the key, or with a signature over `body`; None: for requests without a body."""

    @abstractmethod
    def optional_parameters(self, request: Request) -> frozenset[OptionalParameter]:
        """Return the parameters of this request that can be left out."""

    @abstractmethod
    def payload(self, request: Request, optional: Collection[OptionalParameter]) -> dict[str, Any]:
        """Return the JSON body of a request, with only these of its optional parameters."""

    @abstractmethod
    def error_in(self, document: Mapping[str, Any]) -> object:
        """Return the error in a reply with a status of success; None if there is none."""

    @abstractmethod
    def usage_in(self, document: Mapping[str, Any]) -> Usage:
        """Return the tokens that a reply reports; none if it reports none."""

    @abstractmethod
    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """Read the completion in a successful reply. Raises: ProviderError, retryable, if it holds none."""

    def names_in(self, document: Mapping[str, Any]) -> list[str]:
        """Return the names in the service's list of models: `{"data": [{"id": NAME}, ...]}`, unless overridden."""
        return names_in(document.get("data"), "id")

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for services that have them
        """Return True if a successful reply holds log-probabilities."""
        return False


class HttpProvider(Provider):
    """One model behind an API.

    Whether a server supports a JSON schema, a temperature, stop sequences or the usual name of the limit shows only in
    its replies. After an error about an optional parameter this and every later request is sent without it
    (`unsupported`), and each completion says what its request went without.
    """

    def __init__(self, model: Model, http: HttpClient, dialect: Dialect, service: Service) -> None:
        """`dialect` holds the address and the key."""
        self.model = model
        self.dialect = dialect
        self.service = service
        self.endpoint = endpoint_of(model.base_url)
        self.unsupported: dict[OptionalParameter, str] = {}
        """Parameter that the server does not support -> its message."""
        self._http = http

    def __repr__(self) -> str:
        """Leave out the key."""
        return f"HttpProvider({self.model.name!r})"

    def payload(self, request: Request) -> dict[str, Any]:
        """Return the JSON body of a request, without what the server does not support."""
        return self._payload(request, self.dialect.optional_parameters(request) - self.unsupported.keys())

    def _payload(self, request: Request, optional: Collection[OptionalParameter]) -> dict[str, Any]:
        """Return the same, with only these of its optional parameters."""
        if OptionalParameter.SYSTEM in self.unsupported:
            messages = tuple(fold_system(request.prompt.messages))
            request = replace(request, prompt=replace(request.prompt, messages=messages), shared_characters=0)
        if said := self.unsupported.get(OptionalParameter.SMALL_LIMIT):
            request = replace(request, max_tokens=max(request.max_tokens, minimum_in(said)))
        return self.dialect.payload(request, optional)

    async def complete(self, request: Request) -> Completion:
        """Send one request. A refusal is a completion with a failure; any other error is a ProviderError.

        So is the completion of a prompt that the server has truncated without saying so (`context_length`).
        """
        completion = await self._complete(request)
        if completion.text is not None and (message := await self.truncation(request, completion)):
            raise BilledError(ProviderError(FailureCode.CONTEXT_LENGTH, message), completion.usage)
        return completion

    async def truncation(self, request: Request, completion: Completion) -> str:
        """Return the message about a prompt that the server has truncated; "" if it has not, as far as is known."""
        return truncation_by_count(request, completion)

    async def _complete(self, request: Request) -> Completion:
        """Send one request and read the reply."""
        wanted = self.dialect.optional_parameters(request)
        optional = wanted - self.unsupported.keys()
        body = json.dumps(self._payload(request, optional)).encode()
        try:
            reply = await self._http.post(self.dialect.url, headers=self.dialect.headers(body), body=body)
        except ProviderError as error:
            if error.reply_lost:
                raise BilledError(error, Usage()) from error
            raise
        content: object = reply.body
        completion: Completion | None = None
        if 200 <= reply.status < 300:
            completion, content = self._read(reply, request)
        if completion is None:
            completion = self.read_error(self._parse_error(reply, content), optional)
        omitted = omitted_parameters(request, wanted - optional)
        return self.redacted(
            replace(completion, latency_s=reply.latency_s, refused_parameters=omitted, received=time())
        )

    def redacted(self, completion: Completion) -> Completion:
        """Replace the key in everything that a completion stores.

        Short keys are words that servers without keys accept, such as `not-needed`, and are left in texts.
        """

        def clean(text: str) -> str:
            return without_keys(text, self.dialect.secrets, mark="[key removed]", shortest=SHORTEST_KEY)

        if all(len(secret) < SHORTEST_KEY for secret in self.dialect.secrets):
            return completion
        failure = completion.failure
        text = None if completion.text is None else clean(completion.text)
        return replace(
            completion,
            text=text,
            token_logprobs=completion.token_logprobs if text == completion.text else "",
            failure=failure and replace(failure, message=clean(failure.message)),
            finish_reason=clean(completion.finish_reason),
            reported_model=clean(completion.reported_model),
            fingerprint=clean(completion.fingerprint),
            reasoning=clean(completion.reasoning),
        )

    def _read(self, reply: HttpResponse, request: Request) -> tuple[Completion | None, object]:
        """Return the completion in a reply with a status of success, or the error that it holds.

        Raises: BilledError, with the tokens that the reply reports, if it holds neither.
        """
        document: Mapping[str, Any] = {}
        try:
            document = read_json(reply)
            error = self.dialect.error_in(document)
            return (self.dialect.read(document, request), None) if error is None else (None, error)
        except ProviderError as problem:
            if problem.code == FailureCode.EMPTY_CHOICE and not _ERRORS.isdisjoint(document):
                return None, document
            raise BilledError(problem, self.dialect.usage_in(document)) from problem

    def _parse_error(self, reply: HttpResponse, content: object) -> ErrorResponse:
        """Parse the error in `content`: the body of a reply, or a part of it."""
        from medhelm.models.providers.errors import parse_error  # lazy: most first replies hold no error

        return parse_error(
            reply.status,
            content,
            kind=reply.headers.get("x-amzn-errortype", ""),
            secrets=self.dialect.secrets,
            retry_after_s=retry_after_s(reply.headers, time()),
        )

    def read_error(self, response: ErrorResponse, optional: Collection[OptionalParameter]) -> Completion:
        """Return the refusal in an error response. Raises: ProviderError for any other error.

        `optional`: optional parameters that the request had. One that the server does not support is remembered.
        """
        from medhelm.models.providers.errors import classify_error  # lazy, as above

        try:
            return classify_error(response, self.model, self.service, optional)
        except ProviderError as error:
            if parameter := unsupported_parameter(error):
                self.unsupported[parameter] = response.message
            raise

    async def gives_logprobs(self, request: Request) -> bool:
        """Return True if the server returns log-probabilities of tokens; sends one request."""
        if not self.dialect.logprobs_parameters:
            return False
        parameters = {**request.model.parameters, **self.dialect.logprobs_parameters}
        request = replace(request, model=replace(request.model, parameters=parameters), schema=None)
        body = json.dumps(self.payload(request)).encode()
        try:
            reply = await self._http.post(self.dialect.url, headers=self.dialect.headers(body), body=body)
            return reply.status == 200 and self.dialect.has_logprobs(read_json(reply))
        except MedHelmError:
            return False

    async def names(self, url: str = "") -> list[str]:
        """Return the names of the server's models, in its order; empty if it does not list them.

        `url`: the list's address, if it is not the dialect's.
        """
        try:
            return await self.listed_names(url)
        except MedHelmError:
            return []

    async def listed_names(self, url: str = "", *, timeout_s: float = NAMES_TIMEOUT_S) -> list[str]:
        """Return the same; empty if the server responds with anything but a list.

        Raises: ProviderError if it cannot be reached; UserError if its host is not allowed.
        """
        url = url or self.dialect.names_url
        return (await self.list_models(url, timeout_s=timeout_s))[1] if url else []

    async def list_models(self, url: str = "", *, timeout_s: float = NAMES_TIMEOUT_S) -> tuple[int, list[str]]:
        """Return the HTTP status of the server's list of models, and their names; none if it is not such a list.

        Raises: ProviderError if the server cannot be reached; UserError if its host is not allowed.
        """
        url = url or self.dialect.names_url
        reply = await self._http.get(url, headers=self.dialect.headers(None), timeout_s=timeout_s)
        try:
            names = self.dialect.names_in(read_json(reply))[:MAX_NAMES] if reply.status == 200 else []
        except MedHelmError:
            names = []
        return reply.status, [name for name in names if without_keys(name, self.dialect.secrets) == name]


def omitted_parameters(request: Request, omitted: Collection[OptionalParameter]) -> tuple[str, ...]:
    """Return those of the omitted parameters that may have changed the completion, sorted."""
    return tuple(
        sorted(
            parameter
            for parameter in omitted
            if parameter.changes_completions
            and (parameter != OptionalParameter.STOP or request.stop)
            and (parameter != OptionalParameter.SMALL_LIMIT or request.max_tokens < SMALL_LIMIT)
        )
    )


def common_optional_parameters(
    request: Request, *, schema_fields: Collection[str], stop_if_reasoning: bool, cache_field: str = ""
) -> frozenset[OptionalParameter]:
    """Return the optional parameters of a request that most dialects share.

    A schema, unless the model is not `structured`; a temperature, unless the model takes none; stop sequences, unless
    the model reasons and the service then takes none; a cache mark, if the prompt starts with a shared text. What the
    model's own parameters set, null included, is not optional: an error about it is the user's to resolve.

    Parameters
    ----------
    schema_fields : fields that set an output format among the model's own parameters
    stop_if_reasoning : whether models that reason take stop sequences
    cache_field : field that marks a text for the cache; empty if the service has none
    """
    model, found = request.model, set()
    if request.schema is not None and model.structured and model.parameters.keys().isdisjoint(schema_fields):
        found.add(OptionalParameter.SCHEMA)
    if any(message.role == "system" for message in request.prompt.messages):
        found.add(OptionalParameter.SYSTEM)
    if request.max_tokens < SMALL_LIMIT and model.parameters.keys().isdisjoint(_LIMIT_FIELDS):
        found.add(OptionalParameter.SMALL_LIMIT)
    if model.takes_temperature and "temperature" not in model.parameters:
        found.add(OptionalParameter.TEMPERATURE)
    if stop_if_reasoning or not model.reasoning:
        found.add(OptionalParameter.STOP)
    if cache_field and request.shared_characters and cache_field not in model.parameters:
        found.add(OptionalParameter.CACHE)
    return frozenset(found)


def add_parameters(body: dict[str, Any], request: Request) -> None:
    """Merge the model's own parameters into `body`: they win, and None removes a field.

    A seed is increased by the number of the sample, so that samples differ.
    """
    for name, value in request.model.parameters.items():
        if value is None:
            body.pop(name, None)
        elif name == "seed" and isinstance(value, int):
            body[name] = value + request.sample
        else:
            body[name] = value


def minimum_in(said: str) -> int:
    """Return the lowest limit on a completion that a server accepts, by its error; `SMALL_LIMIT` if it names none.

    >>> minimum_in("integer below minimum value. Expected a value >= 20, but got 5 instead.")
    20
    """
    found = [int(number) for number in _MINIMUM.findall(said.lower())]
    return min((number for number in found if 1 < number <= _HIGHEST_MINIMUM), default=SMALL_LIMIT)


def split_at_shared(messages: Sequence[Message], shared: int) -> tuple[int, str, str]:
    """Find the message in which the first `shared` characters of all messages end, and split its text there.

    Returns: the message's position, the text before the end, the text after it. The position is -1 if one side would
    be blank, which services reject.

    >>> system, user = Message("system", "Be brief."), Message("user", "Note: fever. What now?")
    >>> split_at_shared([system, user], 22), split_at_shared([system, user], 9)
    ((1, 'Note: fever. ', 'What now?'), (0, 'Be brief.', ''))
    """
    for number, message in enumerate(messages):
        opening, rest = message.text[:shared], message.text[shared:]
        shared -= len(message.text)
        if shared <= 0:
            return (number, opening, rest) if opening.strip() and (rest.strip() or not rest) else (-1, "", "")
    return -1, "", ""


def endpoint_of(base_url: str) -> str:
    """Return scheme, host and port: requests to the same endpoint share a limit on requests in flight.

    >>> endpoint_of("https://api.openai.com/v1")
    'https://api.openai.com:443'
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


_REASONING_KEYS = ("text", "thinking", "reasoning", "reasoningText", "summary", "content")
"""Keys of readable reasoning in a part of a reply; others hold signatures and encrypted parts."""


def reasoning_in(value: object) -> str:
    """Return the readable reasoning in a part of a reply; "" if there is none.

    >>> reasoning_in([{"type": "thinking", "thinking": "A or B?", "signature": "x1"}, {"text": "B."}])
    'A or B?\\n\\nB.'
    """
    if isinstance(value, Mapping):
        value = [value.get(key) for key in _REASONING_KEYS]
    if isinstance(value, list):
        return "\n\n".join(filter(None, map(reasoning_in, value)))
    return value if isinstance(value, str) else ""
