"""Hugging Face models in this process: `hf/ORG/NAME` from the local cache, `hf/./folder` from a folder.

Nothing is sent or downloaded. Requests are processed in batches (`local.engine`), at temperature 0 with the most likely
token. Of the model's own decoding settings only the end tokens are used, so that temperature and limits are the
benchmark's. JSON schemas are ignored: judges are read from plain text.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medhelm.domain import Completion, FailureCode, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.extensions.local import loading
from medhelm.extensions.local.engine import Engine
from medhelm.extensions.local.generation import GenerationState
from medhelm.extensions.local.weights import THINK, find_weights, has_template, is_folder, with_weights
from medhelm.models.provider import Provider, Service, SharedResources
from medhelm.models.providers.errors import completion_of

TURN = "hf turn"
"""Key of the lock that the model holds which computes: several at once would only slow each other down."""


class HuggingFace(Provider):
    """One model in this process. Its weights are loaded once, at the first request.

    It is not `local`: its completions take time, so they are cached as those that are paid for.
    """

    starts_at_maximum = True
    replies_in_time = False

    def __init__(self, model: Model, environment: Mapping[str, str], resources: SharedResources) -> None:
        """Raises: MissingError if packages or the model's files are missing; UserError if they cannot be used."""
        loading.check_packages()
        loading.check_options(model.name, model.parameters)
        self.model = model
        self.weights = find_weights(model.remote_name, environment)
        self.endpoint = f"hf/{self.weights.folder}"
        options = model.parameters
        settings = {"device": environment.get(loading.DEVICE, "").strip(), "dtype": options.get("dtype") or ""}
        template_options = dict(options.get("chat_template_kwargs", {}))
        key = (self.endpoint, *settings.values(), repr(sorted(template_options.items())))
        self.engine = resources.shared(
            key,
            lambda: Engine(
                lambda: loading.load(self.weights, **settings, template_options=template_options),
                resources.shared(TURN, threading.Lock),
                engines=lambda: resources.opened(Engine),
                note=resources.note,
            ),
        )
        if not has_template(self.weights):
            resources.note(
                f"{model.name} has no chat template: it continues the messages as plain text, until a stop sequence or "
                "its limit. It is probably a base model: use the instruction-tuned one."
            )

    async def complete(self, request: Request) -> Completion:
        """Complete one request, in a batch with others that are waiting.

        Raises: ProviderError `context_length` if prompt and limit exceed the model's context window, `bad_request` if
        its chat template rejects the messages, `out_of_memory`; fatal `not_loaded` if it cannot be loaded.
        """
        state, seconds = await self.engine.ask(lambda loaded: _generation_state(request, loaded))
        return replace(_read_completion(state, request, reported=self._reported_name()), latency_s=seconds)

    def _reported_name(self) -> str:
        name = (
            self.weights.folder.resolve().name if is_folder(self.weights.name) else self.weights.name.partition("@")[0]
        )
        return f"{name}@{self.weights.version[:16]}"


def _generation_state(request: Request, loaded: loading.LoadedModel) -> GenerationState:
    """Convert a request to tokens and decoding settings."""
    try:
        text = loaded.chat.text(request.prompt.messages)
    except ValueError as error:
        raise ProviderError(FailureCode.BAD_REQUEST, str(error)) from error
    prompt = loaded.chat.token_ids(text)
    sizes = [size for size in (loaded.window, request.model.window) if size is not None]
    if not prompt:
        raise ProviderError(FailureCode.BAD_REQUEST, "the prompt has no tokens")
    if sizes and len(prompt) + request.max_tokens > min(sizes):
        raise ProviderError(
            FailureCode.CONTEXT_LENGTH,
            f"the prompt has {len(prompt):,} tokens and the completion may have {request.max_tokens:,}; together the "
            f"model can hold {min(sizes):,}",
        )
    options: Mapping[str, Any] = request.model.parameters
    return GenerationState(
        prompt=prompt,
        thinking=text.rstrip().endswith(THINK),
        limit=request.max_tokens,
        stops=() if request.model.reasoning else request.stop,
        temperature=request.temperature,
        top_p=float(options.get("top_p", 1.0)),
        top_k=int(options.get("top_k", 0)),
        seed=_seed(request),
    )


def _seed(request: Request) -> int:
    """Return the seed of one completion: different for each prompt, sample and `seed`."""
    return int.from_bytes(hashlib.sha256(b"hf" + request.content_digest).digest()[:6], "big")


def _read_completion(state: GenerationState, request: Request, *, reported: str) -> Completion:
    """Return the completion; it still holds the model's reasoning, with its markers (`separate_reasoning`)."""
    return completion_of(
        text=f"{THINK}{state.text}" if state.thinking else state.text,
        finish_reason=state.finish,
        usage=Usage(input=len(state.prompt), output=len(state.written)),
        reported_model=reported,
        reasons=request.model.reasoning,
    )


SERVICE = Service(
    name="hf",
    title="Hugging Face",
    open=lambda model, context: HuggingFace(model, context.environment, context.resources),
    takes_address=False,
    on_cluster=True,
    resolve=with_weights,
    examples=("hf/Qwen/Qwen2.5-0.5B-Instruct",),
)
