"""A model server with a wire format of its own: {"model", "question", "limit"} -> {"answer", "tokens": [in, out]}."""

from __future__ import annotations

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import HttpClient, read_json
from medhelm.models.provider import Provider
from medhelm.models.providers import ProviderContext


class Ward(Provider):
    """Sends one request once. MedHELM adds cache, budget, rate limits, retries and the egress policy."""

    def __init__(self, model: Model, http: HttpClient, key: str) -> None:
        """Keep the address and the client; `key` is sent if there is one."""
        self.endpoint = model.base_url
        self._http = http
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def complete(self, request: Request) -> Completion:
        """Send one request and read the completion. Raises: ProviderError if there is none."""
        question = "\n\n".join(message.text for message in request.prompt.messages)
        payload = {"model": request.model.remote_name, "question": question, "limit": request.max_tokens}
        response = await self._http.post_json(f"{self.endpoint}/answer", headers=self._headers, payload=payload)
        if response.status == 401:
            raise ProviderError("bad_key", "the server does not accept this key", fatal=True)
        if response.status >= 400:
            raise ProviderError("server_error", f"status {response.status}", retryable=response.status >= 500)
        body = read_json(response)
        n_input, n_output = body["tokens"]
        return Completion(
            text=body["answer"],
            finish_reason="stop",
            usage=Usage(input=n_input, output=n_output),
            latency_s=response.latency_s,
        )


def open_ward(model: Model, context: ProviderContext) -> Provider:
    """Open `ward/NAME@http://HOST`. Raises: UserError for a model without an address."""
    if not model.base_url:
        raise UserError(f"{model.name} needs an address: write {model.name}@http://..., or `base_url` in models.yaml.")
    return Ward(model, context.http, context.value_of(model.key_variable))
