"""A server with a wire format of its own: {"model", "question", "limit"} -> {"answer", "tokens": [input, output]}."""

from __future__ import annotations

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError, UserError
from medhelm.io.http_client import HttpClient, read_json
from medhelm.models.provider import Provider
from medhelm.models.providers import ProviderContext


class Ward(Provider):
    """Sends one request. Retries, cache, limits, budget and the egress policy are the client's."""

    def __init__(self, model: Model, http: HttpClient, key: str) -> None:
        """`key` is sent if there is one."""
        self.endpoint = model.base_url
        self._http = http
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def complete(self, request: Request) -> Completion:
        """Send one request and read the completion. Raises: ProviderError if there is none."""
        question = "\n\n".join(message.text for message in request.prompt.messages)
        payload = {"model": request.model.remote_name, "question": question, "limit": request.max_tokens}
        reply = await self._http.post_json(f"{self.endpoint}/answer", headers=self._headers, payload=payload)
        if reply.status == 401:
            raise ProviderError("bad_key", "the ward's server rejects this key", fatal=True)
        if reply.status >= 400:
            raise ProviderError("server_error", f"status {reply.status}", retryable=reply.status >= 500)
        body = read_json(reply)
        read, written = body["tokens"]
        return Completion(
            text=body["answer"],
            finish_reason="stop",
            usage=Usage(input=read, output=written),
            latency_s=reply.latency_s,
        )


def open_ward(model: Model, context: ProviderContext) -> Provider:
    """The entry point `ward` of medhelm.providers: `ward/NAME@http://ward.local/api`.

    Raises: UserError for a model without an address.
    """
    if not model.base_url:
        raise UserError(f"{model.name} needs an address: write {model.name}@http://..., or `base_url` in models.yaml.")
    return Ward(model, context.http, context.value_of(model.key_variable))
