"""Ollama: its OpenAI-compatible API, and a check that it has not silently truncated a prompt."""

from __future__ import annotations

from medhelm.domain import Completion, Model, Request
from medhelm.errors import UserError
from medhelm.io.http.client import HttpClient
from medhelm.models.provider import Service
from medhelm.models.providers.errors import fewest_tokens
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.local_servers import local_address, truncation_message, was_truncated, window_of
from medhelm.models.providers.openai import ChatCompletions


class Ollama(HttpProvider):
    """One model that Ollama runs. A completion of a truncated prompt is a failure, `context_length`."""

    def __init__(self, model: Model, http: HttpClient, *, key: str = "") -> None:
        """`key`: for an Ollama behind a gateway; Ollama itself needs none.

        Raises: UserError for a context window among the parameters, which this API of Ollama silently drops.
        """
        if ignored := sorted(model.parameters.keys() & {"num_ctx", "options"}):
            raise UserError(
                f"{model.name}: parameters: `{ignored[0]}` is ignored by Ollama's OpenAI-compatible API. Start Ollama "
                "with OLLAMA_CONTEXT_LENGTH=32768 ollama serve, or create a model with PARAMETER num_ctx 32768 in its "
                "Modelfile."
            )
        super().__init__(model, http, ChatCompletions(model, key=key), SERVICE)
        self._window: int | None = None
        self._window_is_known = False

    async def truncation(self, request: Request, completion: Completion) -> str:
        """Return the message about a prompt that Ollama has truncated; "" if it has not.

        Ollama reports its context window only while it runs the model: after the first completion.
        """
        if not self._window_is_known:
            self._window = await window_of(self.model, "ollama", self._http)
            self._window_is_known = True
        if self._window is not None and was_truncated(completion, self._window, fewest_tokens(request.prompt)):
            return truncation_message(self.model, self._window)
        return await super().truncation(request, completion)


SERVICE: Service = Service(
    name="ollama",
    title="Ollama",
    open=lambda model, context: Ollama(model, context.http, key=context.value_of(model.key_variable)),
    locate=lambda written, _, environment: local_address("ollama", written, environment),
    key_variables=("OLLAMA_API_KEY",),
    examples=("ollama/llama3.2",),
)
