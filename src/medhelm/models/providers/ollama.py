"""Ollama: its OpenAI-compatible API, and a watch over its habit of cutting long prompts without a word."""

from __future__ import annotations

from medhelm.domain import Completion, Model, Request
from medhelm.errors import ProviderError, UserError
from medhelm.io.http_client import HttpClient
from medhelm.models.local import local_servers
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import ChatCompletions


class Ollama(HttpProvider):
    """One model that Ollama runs. An answer to a prompt that it has cut is no answer: it fails as `context_length`."""

    def __init__(self, model: Model, http: HttpClient, *, key: str = "") -> None:
        """`key`: for an Ollama behind a gateway; itself it asks for none.

        Raises: UserError for a window among the parameters: this API of Ollama drops it without a word.
        """
        if unheard := sorted(model.parameters.keys() & {"num_ctx", "options"}):
            raise UserError(
                f"{model.name}: parameters: `{unheard[0]}` is not heard by the API of Ollama that is used here. Start "
                "it with OLLAMA_CONTEXT_LENGTH=32768 ollama serve, or make a model whose Modelfile says "
                "PARAMETER num_ctx 32768."
            )
        super().__init__(model, http, ChatCompletions(model, key=key))
        self._window: int | None = None
        self._looked = False

    async def complete(self, request: Request) -> Completion:
        """Send one request. Raises: ProviderError, as every server of this dialect; `context_length` for a cut prompt.

        How large its window is, Ollama says only while it runs the model: after the first answer.
        """
        completion = await super().complete(request)
        if not self._looked:
            self._window = await local_servers.window_of(self.model, "ollama", self._http)
            self._looked = True
        if completion.text is not None and self._window is not None and local_servers.was_cut(completion, self._window):
            raise ProviderError("context_length", local_servers.cut_words(self.model, self._window))
        return completion
