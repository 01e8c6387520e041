"""Chat completions: OpenAI, Azure OpenAI, vLLM, Ollama, and every other server that speaks the same dialect."""

from __future__ import annotations

import re
from dataclasses import replace
from time import time
from typing import Any
from urllib.parse import urlsplit

from medhelm.domain import Completion, Model, Request
from medhelm.models.http import Http, read_json, retry_after_s
from medhelm.models.providers.complaints import outcome, read_complaint
from medhelm.models.providers.openai_wire import read_completion

_NEW_LIMIT = re.compile(r"(?:.*/)?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d))", re.IGNORECASE)
"""OpenAI's models since o1: they know the limit by its new name only."""

_FORM = "response_format"
_SCHEMA_NAME = "reply"
"""What every schema is called on its way; servers want a name."""


class OpenAICompatible:
    """One model behind `POST .../chat/completions`. Knows nothing of benchmarks, retries or prices.

    Whether a server can hold the model to a JSON schema shows when it is asked to. Some ignore what they do not know;
    one that refuses is not asked again, and gets the same requests without it.
    """

    local = False

    def __init__(self, model: Model, http: Http, *, key: str = "") -> None:
        """`key` is sent as Azure or as everyone else wants it; empty: no key is sent."""
        self.model = model
        self.url = completions_url(model.base_url)
        self.endpoint = endpoint_of(model.base_url)
        self._http = http
        self._key = key
        self._headers = _key_header(model, key) if key else {}
        self._knows_schemas = True

    def __repr__(self) -> str:
        """Without the key."""
        return f"OpenAICompatible({self.model.name!r})"

    async def complete(self, request: Request) -> Completion:
        """Send one request. A refusal is a completion with a failure; everything else that fails is a ProviderError.

        Code `schema_refused`: the server cannot hold the model to the schema; asked again, it is asked without.
        """
        with_schema = self._knows_schemas and asks_for_schema(request)
        body = payload(request, with_schema=with_schema)
        reply = await self._http.post_json(self.url, headers=self._headers, payload=body)
        if 200 <= reply.status < 300:
            document = read_json(reply)
            said: object = document if document.get("error") else _error_in_choice(document)
            if said is None:
                completion = read_completion(document, whole=request.schema is not None)
                return replace(completion, latency_s=reply.latency_s)
        else:
            said = reply.body
        wait_s = retry_after_s(reply.headers, time())
        complaint = read_complaint(reply.status, said, secrets=(self._key,), retry_after_s=wait_s)
        if with_schema and complaint.about_form:
            self._knows_schemas = False
        return replace(outcome(complaint, self.model, with_schema=with_schema), latency_s=reply.latency_s)


def asks_for_schema(request: Request) -> bool:
    """Whether the model is to be held to a JSON schema, and nobody has set another form of reply in its parameters."""
    model = request.model
    return request.schema is not None and model.structured and _FORM not in model.parameters


def payload(request: Request, *, with_schema: bool = False) -> dict[str, Any]:
    """The JSON body of one request; `with_schema`: with the schema that its reply has to follow.

    Models that reason get neither temperature nor stop sequences. The model's own parameters come last and win; one
    set to None leaves the field out; a `seed` grows with the sample's number, so that samples differ.
    """
    model = request.model
    body: dict[str, Any] = {
        "model": model.remote_name,
        "messages": [{"role": message.role, "content": message.text} for message in request.prompt.messages],
        limit_name(model): request.max_tokens,
    }
    if not model.reasoning:
        body["temperature"] = request.temperature
        if request.stop:
            body["stop"] = list(request.stop)
    if model.reasoning_effort:
        body["reasoning_effort"] = model.reasoning_effort
    if with_schema:
        schema = {"name": _SCHEMA_NAME, "strict": True, "schema": request.schema}
        body[_FORM] = {"type": "json_schema", "json_schema": schema}
    for name, value in model.parameters.items():
        if value is None:
            body.pop(name, None)
        elif name == "seed" and isinstance(value, int):
            body[name] = value + request.sample
        else:
            body[name] = value
    return body


def limit_name(model: Model) -> str:
    """What the server calls the limit on the completion.

    OpenAI's models since o1 refuse `max_tokens`; Ollama and others silently ignore `max_completion_tokens`. So the new
    name goes to those models by name, and to whatever reasons at OpenAI or Azure, where names say nothing.
    """
    hosted = model.provider == "azure" or (urlsplit(model.base_url).hostname or "").endswith("api.openai.com")
    if _NEW_LIMIT.match(model.remote_name) or (model.reasoning and hosted):
        return "max_completion_tokens"
    return "max_tokens"


def completions_url(base_url: str) -> str:
    """Where requests go: the path is added before the query, which Azure's classic form has.

    >>> completions_url("https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21")
    'https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21'
    """
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}/chat/completions{mark}{query}"


def endpoint_of(base_url: str) -> str:
    """Scheme, host and port: requests to the same endpoint share its limit.

    >>> endpoint_of("https://api.openai.com/v1")
    'https://api.openai.com:443'
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _key_header(model: Model, key: str) -> dict[str, str]:
    return {"api-key": key} if model.provider == "azure" else {"Authorization": f"Bearer {key}"}


def _error_in_choice(document: dict[str, Any]) -> dict[str, Any] | None:
    """An error that stands inside the first choice of a reply that calls itself a success, as gateways send it."""
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) and first.get("error") else None
