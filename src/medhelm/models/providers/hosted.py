"""A model behind an API: one request, one reply, whatever dialect the service speaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import time
from typing import Any, Protocol
from urllib.parse import urlsplit

from medhelm.domain import Completion, Message, Model, Request
from medhelm.errors import MedHelmError, ProviderError
from medhelm.io.http_client import HttpClient, HttpResponse, read_json, retry_after_s
from medhelm.models.provider import CACHE, LOSSLESS, REFUSED_PARTS, SCHEMA, STOP, TEMPERATURE
from medhelm.models.providers.errors.classify import UNKNOWN_MODEL, classify_error, with_names
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.errors.redact import SHORTEST_SECRET

MOST_NAMES = 2000
"""Models of a server that are listed; the longest list of a vendor has some hundred."""


NAMES_TIMEOUT_S = 20.0
"""Longest wait for that list, which only helps."""


class Dialect(Protocol):
    """How one service is asked and how its replies read. Pure: it sends nothing and remembers nothing."""

    @property
    def url(self) -> str:
        """Where requests go."""

    @property
    def names_url(self) -> str:
        """Where the service lists its models; empty if it does not, or not there."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never show in a message."""

    def headers(self, body: bytes | None) -> Mapping[str, str]:
        """What is sent beside `body`: the key, or a signature over it; None: for the list of models."""

    def parts(self, request: Request) -> frozenset[str]:
        """The parts of this request that it can do without, of those in `models.provider`."""

    def payload(self, request: Request, parts: Collection[str]) -> dict[str, Any]:
        """The JSON body of one request; of what it can do without, with these `parts` only."""

    def error_in(self, document: Mapping[str, Any]) -> object:
        """The error in a reply that calls itself a success; None if there is none."""

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """The completion in a successful reply. Raises: ProviderError, retryable, if it holds none."""

    def names_in(self, document: Mapping[str, Any]) -> list[str]:
        """Names of models in the service's list."""

    @property
    def asks_logprobs(self) -> Mapping[str, Any]:
        """Parameters that ask how likely each token was; empty where the service does not say."""

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:
        """Whether a successful reply says how likely each token was."""


class HttpProvider:
    """One model behind an API. Knows nothing of benchmarks, retries or prices.

    Whether a server takes a JSON schema, a temperature, stop sequences or the usual name of the limit shows when it
    gets them. Some ignore what they do not know; one that refuses a part is asked the same without it, and so is every
    later request. `left_out` says which parts those are, and each completion what its request went without.
    """

    local = False

    def __init__(self, model: Model, http: HttpClient, dialect: Dialect) -> None:
        """`dialect` holds the address and the key."""
        self.model = model
        self.dialect = dialect
        self.endpoint = endpoint_of(model.base_url)
        self.left_out: dict[str, str] = {}
        """Part that the server refused -> what it said."""
        self.tells_names = True
        """Whether the error of an unknown model tells those that the server has."""
        self._http = http
        self._listed: asyncio.Future[list[str]] | None = None

    def __repr__(self) -> str:
        """Without the key."""
        return f"Hosted({self.model.name!r})"

    async def complete(self, request: Request) -> Completion:
        """Send one request. A refusal is a completion with a failure; everything else that fails is a ProviderError.

        Codes `schema_refused` and its kin (`models.provider`): asked again, the server is asked without that part.
        """
        parts = wanted = self.dialect.parts(request)
        if self.left_out:
            parts -= self.left_out.keys()
        body = json.dumps(self.dialect.payload(request, parts)).encode()
        reply = await self._http.post(self.dialect.url, headers=self.dialect.headers(body), body=body)
        if 200 <= reply.status < 300:
            document = read_json(reply)
            said = self.dialect.error_in(document)
            if said is None:
                return _told(self.dialect.read(document, request), reply, request, wanted - parts)
        else:
            said = reply.body
        complaint = parse_error(
            reply.status,
            said,
            kind=reply.headers.get("x-amzn-errortype", ""),
            secrets=self.dialect.secrets,
            retry_after_s=retry_after_s(reply.headers, time()),
        )
        try:
            return _told(classify_error(complaint, self.model, parts=parts), reply, request, wanted - parts)
        except ProviderError as error:
            if part := REFUSED_PARTS.get(error.code):
                self.left_out[part] = complaint.message
            if error.code == UNKNOWN_MODEL and self.tells_names and self.dialect.names_url:
                raise await self._with_names(error) from error
            raise

    async def _with_names(self, error: ProviderError) -> ProviderError:
        """The same error with the models that the server has, for which it is asked once."""
        if self._listed is None:
            self._listed = asyncio.ensure_future(self.names())
        return with_names(error, self.model, await asyncio.shield(self._listed))

    async def gives_logprobs(self, request: Request) -> bool:
        """Whether the server says how likely each token of its answer was, when it is asked to; asks once."""
        if not self.dialect.asks_logprobs:
            return False
        parameters = {**request.model.parameters, **self.dialect.asks_logprobs}
        asked = replace(request, model=replace(request.model, parameters=parameters), schema=None)
        parts = self.dialect.parts(asked) - self.left_out.keys()
        body = json.dumps(self.dialect.payload(asked, parts)).encode()
        try:
            reply = await self._http.post(self.dialect.url, headers=self.dialect.headers(body), body=body)
            return reply.status == 200 and self.dialect.has_logprobs(read_json(reply))
        except MedHelmError:
            return False

    async def names(self, url: str = "") -> list[str]:
        """Names of the models the server says it has, in its order; empty if it does not say.

        `url`: where else its list may stand.
        """
        url = url or self.dialect.names_url
        if not url:
            return []
        try:
            reply = await self._http.get(url, headers=self.dialect.headers(None), timeout_s=NAMES_TIMEOUT_S)
            names = self.dialect.names_in(read_json(reply))[:MOST_NAMES] if reply.status == 200 else []
        except MedHelmError:
            return []
        secrets = [secret for secret in self.dialect.secrets if len(secret) >= SHORTEST_SECRET]
        return [name for name in names if not any(secret in name for secret in secrets)]


def _told(completion: Completion, reply: HttpResponse, request: Request, refused: Collection[str]) -> Completion:
    """The completion with how long it took, and what its request went without."""
    return replace(completion, latency_s=reply.latency_s, refused_parameters=missed(request, refused))


def missed(request: Request, refused: Collection[str]) -> tuple[str, ...]:
    """Of the parts that were `refused`, those with which the answer to a request might have been another."""
    return tuple(sorted({*refused} - {*LOSSLESS, *(() if request.stop else (STOP,))}))


def optional_parts(request: Request, *, forms: Collection[str], stops: bool, mark: str = "") -> frozenset[str]:
    """The parts of `request` that it holds and can do without, the same for every dialect.

    A schema, unless the model is not to be held to one or its parameters set a form of their own (one of `forms`); a
    temperature, for models that do not reason; stop sequences, for those and wherever `stops` says that all take them;
    a mark for the cache, where there is one and its beginning is shared. What a user's own parameters set (null too)
    stays: a complaint about that is theirs to mend.
    """
    model, parts = request.model, set()
    if request.schema is not None and model.structured and model.parameters.keys().isdisjoint(forms):
        parts.add(SCHEMA)
    if not model.reasoning and "temperature" not in model.parameters:
        parts.add(TEMPERATURE)
    if stops or not model.reasoning:
        parts.add(STOP)
    if mark and request.shared_characters and mark not in model.parameters:
        parts.add(CACHE)
    return frozenset(parts)


def marked_place(messages: Sequence[Message], shared: int) -> tuple[int, str, str]:
    """Where the first `shared` characters of all messages end: the number of a message, and its text in two.

    -1 if they end nowhere, or if there would be no words on one side: services take no blank parts.

    >>> system, user = Message("system", "Be brief."), Message("user", "Note: fever. What now?")
    >>> marked_place([system, user], 22), marked_place([system, user], 9)
    ((1, 'Note: fever. ', 'What now?'), (0, 'Be brief.', ''))
    """
    for number, message in enumerate(messages):
        opening, rest = message.text[:shared], message.text[shared:]
        shared -= len(message.text)
        if shared <= 0:
            return (number, opening, rest) if opening.strip() and (rest.strip() or not rest) else (-1, "", "")
    return -1, "", ""


def endpoint_of(base_url: str) -> str:
    """Scheme, host and port: requests to the same endpoint share its limit.

    >>> endpoint_of("https://api.openai.com/v1")
    'https://api.openai.com:443'
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
