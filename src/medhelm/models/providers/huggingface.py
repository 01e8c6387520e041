"""Models of Hugging Face in this process: `hf/ORG/NAME` from the local cache, `hf/./folder` from a folder.

Nothing is sent and nothing is downloaded. Requests are answered in batches (`local.engine`), at temperature 0
always by the likeliest token. Of the model's own decoding settings only the tokens that end an answer are used, so that
temperature and limits are the benchmark's. JSON schemas are left out: judges are read from plain text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.local import loading
from medhelm.models.local.chat_template import THINK
from medhelm.models.local.engine import Engine
from medhelm.models.local.generation import GenerationState
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.local.weights import find_weights, has_template, is_folder
from medhelm.models.providers.openai_wire import without_thinking
from medhelm.models.providers.response_fields import ParsedResponse, completion_of


class HuggingFace:
    """One model in this process. Its weights are loaded at the first request, once for all who ask it."""

    local = False  # its answers take time: they are kept like those that are paid for
    gathers = True
    """It answers many requests in the time of one."""

    def __init__(self, model: Model, environment: Mapping[str, str], machine: LocalRuntime) -> None:
        """Raises: MissingError if packages or the model's files are not there; UserError if these cannot be used."""
        loading.check_packages()
        loading.checked_options(model.name, model.parameters)
        self.model = model
        self.weights = find_weights(model.remote_name, environment)
        self.endpoint = f"hf/{self.weights.folder}"
        options = model.parameters
        settings = {"device": environment.get(loading.DEVICE, "").strip(), "dtype": options.get("dtype", "")}
        template_options = dict(options.get("chat_template_kwargs", {}))
        key = (self.endpoint, *settings.values(), repr(sorted(template_options.items())))
        self.engine = machine.shared(
            key,
            lambda: Engine(
                lambda: loading.load(self.weights, **settings, template_options=template_options),
                machine.turn,
                neighbours=lambda: machine.opened(Engine),
                note=machine.note,
            ),
        )
        if not has_template(self.weights):
            machine.note(
                f"{model.name} comes without a chat template: it reads the messages as plain text, and goes on writing "
                "until a stop sequence or its limit. It is probably a base model; one made for instructions answers."
            )

    def __repr__(self) -> str:
        """Its name."""
        return f"HuggingFace({self.model.name!r})"

    async def complete(self, request: Request) -> Completion:
        """Answer one request, together with others that wait.

        Raises: ProviderError `context_length` if prompt and limit do not fit into the model's window, `bad_request` if
        its chat template cannot take the messages, `out_of_memory`; fatal `not_loaded` if it cannot be loaded.
        """
        answering, seconds = await self.engine.ask(lambda loaded: _prepared(request, loaded))
        return replace(_read(answering, request, reported=self._reported()), latency_s=seconds)

    def _reported(self) -> str:
        name = (
            self.weights.folder.resolve().name if is_folder(self.weights.name) else self.weights.name.partition("@")[0]
        )
        return f"{name}@{self.weights.version[:16]}"


def _prepared(request: Request, loaded: loading.LoadedModel) -> GenerationState:
    """The tokens of a request."""
    try:
        text = loaded.chat.text(request.prompt.messages)
    except ValueError as error:
        raise ProviderError("bad_request", str(error)) from error
    prompt = loaded.chat.token_ids(text)
    sizes = [size for size in (loaded.window, request.model.window) if size is not None]
    if not prompt:
        raise ProviderError("bad_request", "the prompt holds no token that the model knows")
    if sizes and len(prompt) + request.max_tokens > min(sizes):
        raise ProviderError(
            "context_length",
            f"the prompt has {len(prompt):,} tokens and its answer may have {request.max_tokens:,}; together the model "
            f"can hold {min(sizes):,}",
        )
    options: Mapping[str, Any] = request.model.parameters
    return GenerationState(
        prompt=prompt,
        thinking=text.rstrip().endswith(THINK),
        limit=request.max_tokens,
        stops=() if request.model.reasoning else request.stop,
        temperature=0.0 if request.model.reasoning else request.temperature,
        top_p=float(options.get("top_p", 1.0)),
        top_k=int(options.get("top_k", 0)),
        seed=_seed(request),
    )


def _seed(request: Request) -> int:
    """Of the random numbers of one answer: another for each prompt, sample and `seed`."""
    return int.from_bytes(hashlib.sha256(b"hf" + request.digest).digest()[:6], "big")


def _read(answering: GenerationState, request: Request, *, reported: str) -> Completion:
    """What an answer comes to, without what the model thought before it.

    Thoughts are counted by their share of the characters, the answer as a whole by its tokens.
    """
    text = f"{THINK}{answering.text}" if answering.thinking else answering.text
    visible = without_thinking(text, whole=request.schema is not None)
    thought = visible != text
    output = len(answering.written)
    hidden = round(output * (1 - len(visible) / len(text))) if thought else 0
    return completion_of(
        ParsedResponse(
            text=visible,
            finish_reason=answering.finish,
            usage=Usage(input=len(answering.prompt), output=output, reasoning=min(hidden, output - bool(visible))),
            reported_model=reported,
            thought=thought,
        ),
        reasons=request.model.reasoning,
    )
