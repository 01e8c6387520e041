"""Hugging Face models in this process: `hf/ORG/NAME` from the local cache, `hf/./folder` from a folder.

Nothing is sent or downloaded. Requests are processed in batches (`Engine`), at temperature 0 with the most likely
token. Of the model's own decoding settings only the end tokens are used, so that temperature and limits are the
benchmark's. JSON schemas are ignored: judges are read from plain text.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from medhelm.domain import Completion, FailureCode, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.extensions.local import loading
from medhelm.extensions.local.generation import GenerationState, generate
from medhelm.extensions.local.loading import (
    THINK,
    LoadedModel,
    find_weights,
    has_template,
    is_folder,
    is_short_of_memory,
    with_weights,
)
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


# --- engine -----------------------------------------------------------------------------------------------------------
# A model in this process: collects single requests and completes them in batches in one thread.
#
# A batch is padded to its longest prompt, and runs until its last completion ends. So requests are grouped by similar
# limits first, and then by similar length. The longest go first, so that lack of memory shows early.

MOST_ROWS = 128
"""Most requests in one batch; more are never in flight."""

QUIET_S, LONGEST_WAIT_S = 0.005, 0.1
"""A batch begins when no request has arrived for the first time, or at the latest after the second."""

CLOSED = "the model is closed"

JOIN_S = 60.0
"""Longest wait of `close` for the token that is being computed."""

MOST_PADDING = 1.5
"""Largest ratio of a batch's size with padding to the tokens that its prompts and completions may need."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Size of one request in tokens."""

    prompt: int
    """Tokens of its prompt."""
    limit: int
    """Most tokens of its completion."""


def next_batch(waiting: Sequence[RequestSize], *, tokens: int, rows: int) -> list[int]:
    """Return the positions in `waiting` (in order of arrival) of the next batch, longest prompt first.

    `tokens`: most tokens that the batch may hold at its end, with padding; `rows`: most requests. Padding stays within
    `MOST_PADDING`, and a batch has at least one request of any size. The oldest request determines the limits of the
    batch, so that none waits forever.

    >>> sizes = [RequestSize(10, 1), RequestSize(90, 400), RequestSize(80, 1), RequestSize(75, 1)]
    >>> next_batch(sizes, tokens=200, rows=8)
    [2, 3]
    """
    if not waiting:
        return []
    turn = waiting[0].limit.bit_length()
    alike = [position for position, size in enumerate(waiting) if size.limit.bit_length() == turn]
    alike.sort(key=lambda position: -waiting[position].prompt)
    width = waiting[alike[0]].prompt
    batch: list[int] = []
    limit = needed = 0
    for position in alike[:rows]:
        limit = max(limit, waiting[position].limit)
        needed += waiting[position].prompt + waiting[position].limit
        if batch and (len(batch) + 1) * (width + limit) > min(tokens, MOST_PADDING * needed):
            break
        batch.append(position)
    return batch


@dataclass(slots=True, eq=False)
class EngineRequest:
    """One request in the engine, and the future of its completion."""

    prepare: Callable[[LoadedModel], GenerationState]
    """Tokenizes the prompt in the engine's thread. Raises: ProviderError if the request cannot be completed."""
    future: asyncio.Future[tuple[GenerationState, float]]
    """The completion, and the seconds from the start of its batch to its end."""
    loop: asyncio.AbstractEventLoop
    """The event loop of the future."""
    state: GenerationState | None = None
    """State of the generation, once its prompt is tokenized."""
    began: float = 0.0
    """Start of its batch."""

    @property
    def wanted(self) -> bool:
        """Return True if a caller still waits for it."""
        return not self.future.done()

    def settle(self, result: GenerationState | BaseException) -> None:
        """Set the result of the future, in its event loop."""
        seconds = time.perf_counter() - self.began

        def deliver() -> None:
            if self.future.done():
                return
            if isinstance(result, BaseException):
                self.future.set_exception(result)
            else:
                self.future.set_result((result, seconds))

        try:
            self.loop.call_soon_threadsafe(deliver)
        except RuntimeError:
            return  # the loop is closed: no caller waits anymore


class Engine:
    """Loads one model at the first request, and completes requests until it is closed."""

    def __init__(
        self,
        load: Callable[[], LoadedModel],
        turn: threading.Lock,
        *,
        engines: Callable[[], Sequence[Engine]] = lambda: (),
        note: Callable[[str], object] = str,
    ) -> None:
        """`load` is called in the engine's thread; `turn` is held while it computes, and by one engine at a time.

        `engines`: all engines of the session, which unload their models if memory is short; `note` shows a message
        about that, called in the event loop.
        """
        self._load = load
        self._turn = turn
        self._engines = engines
        self._note = note
        self._noted = False
        self._loaded: LoadedModel | None = None
        self._fits = (0, MOST_ROWS)
        """Most tokens and requests of a batch, from experience."""
        self._waiting: list[EngineRequest] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._unusable: ProviderError | None = None
        """Error of loading, kept so that other requests do not try again."""
        self.batch_sizes: list[int] = []
        """Number of requests of each batch so far."""

    async def ask(self, prepare: Callable[[LoadedModel], GenerationState]) -> tuple[GenerationState, float]:
        """Return the completion of one request, and the seconds it took.

        Raises: ProviderError; fatal if the model cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        request = EngineRequest(prepare, loop.create_future(), loop)
        with self._changed:
            if self._closed:
                raise ProviderError("closed", CLOSED)
            self._waiting.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hf", daemon=True)
                self._thread.start()
            self._changed.notify()
        return await request.future

    async def close(self) -> None:
        """Stop after the token that is being computed, and unload the model."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_S)

    # --- in the engine's thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._wait_for_requests():
            try:
                with self._turn:
                    if not self._closed:
                        self._complete_batch()
            except ProviderError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - every error must reach the callers
                self._fail(ProviderError("broken", f"{type(error).__name__}: {error}", fatal=True))
        self._fail(ProviderError("closed", CLOSED))
        self.unload()

    def unload(self) -> bool:
        """Unload the model until the next request; return True if it was loaded. Not for use while it computes."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return False
        device = loaded.device
        del loaded
        _release(device)
        return True

    def _complete_batch(self) -> None:
        """Complete one batch of the waiting requests; load the model if necessary."""
        if self._unusable is not None:
            raise self._unusable
        if self._loaded is None:
            self._loaded = self._load_with_room()
            self._fits = self._loaded.batch_tokens, self._fits[1]
        tokens, rows = self._fits
        batch = self._take_batch(self._loaded, tokens, rows)
        if batch and (fitting := self._complete(self._loaded, batch)) < len(batch):
            self._fits = max(tokens // 2, 1), max(fitting, 1)  # the batch was halved: the next one starts smaller

    def _load_with_room(self) -> LoadedModel:
        """Load the model; if memory is short, unload the other models and try again."""
        try:
            return self._load()
        except ProviderError as error:
            if error.code == "out_of_memory" and sum([engine.unload() for engine in self._engines()]):
                self._note_loading_in_turns()
                return self._load_with_room()
            self._unusable = error
            raise

    def _note_loading_in_turns(self) -> None:
        """Note once that models are loaded in turns, which slows the run."""
        with self._changed:
            loops = [request.loop for request in self._waiting]
        if loops and not self._noted:
            self._noted = True
            text = "The hf/ models of this run do not fit in memory together: they are loaded in turns. This is slow."
            with suppress(RuntimeError):  # the loop is closed: no caller waits anymore
                loops[0].call_soon_threadsafe(self._note, text)

    def _wait_for_requests(self) -> bool:
        """Wait for a request, and briefly for more; return False once the engine is closed."""
        with self._changed:
            while not (self._waiting or self._closed):
                self._changed.wait()
            until = time.monotonic() + LONGEST_WAIT_S
            while not self._closed and time.monotonic() < until and len(self._waiting) < MOST_ROWS:
                before = len(self._waiting)
                self._changed.wait(QUIET_S)
                if len(self._waiting) == before:
                    break
            return not self._closed

    def _take_batch(self, loaded: LoadedModel, tokens: int, rows: int) -> list[EngineRequest]:
        """Remove the requests of the next batch from the queue and return them."""
        with self._changed:
            self._waiting = [request for request in self._waiting if request.wanted]
            waiting = list(self._waiting)
        for request in waiting:
            if request.state is None:
                try:
                    request.state = request.prepare(loaded)
                except ProviderError as error:
                    request.settle(error)
                    self._drop([request])
        ready = [(request, request.state) for request in waiting if request.state is not None]
        sizes = [RequestSize(len(state.prompt), state.limit) for _, state in ready]
        batch = [ready[position][0] for position in next_batch(sizes, tokens=tokens, rows=rows)]
        self._drop(batch)
        return batch

    def _drop(self, removed: Sequence[EngineRequest]) -> None:
        with self._changed:
            self._waiting = [request for request in self._waiting if request not in removed]

    def _complete(self, loaded: LoadedModel, batch: Sequence[EngineRequest]) -> int:
        """Complete a batch, in halves if memory is short; return the number of requests that fit at once."""
        requests = {id(request.state): request for request in batch}
        for request in batch:
            request.began = time.perf_counter()
        self.batch_sizes.append(len(batch))

        def ended(state: GenerationState) -> None:
            requests[id(state)].settle(state)

        def wanted(state: GenerationState) -> bool:
            return not self._closed and requests[id(state)].wanted

        states = [request.state for request in batch if request.state is not None]
        try:
            generate(loaded.network, states, ended=ended, wanted=wanted)
        except Exception as error:  # noqa: BLE001 - every error must reach the callers
            if not is_short_of_memory(error):
                self._settle_all(batch, ProviderError("broken", f"{type(error).__name__}: {error}"))
                return len(batch)
        else:
            self._settle_all(batch, ProviderError("closed", CLOSED))  # requests left when the engine was closed
            return len(batch)
        _release(loaded.device)
        left = [request for request in batch if request.state is not None and not request.state.finish]
        for request in left:
            if request.state is not None:
                request.state.restart()
        if len(left) == 1:
            self._settle_all(left, _out_of_memory(left[0], loaded))
            return 1
        middle = (len(left) + 1) // 2
        return min(self._complete(loaded, part) for part in (left[:middle], left[middle:]) if part)

    def _fail(self, error: ProviderError) -> None:
        """Fail all waiting requests."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
        self._settle_all(waiting, error)

    def _settle_all(self, requests: Sequence[EngineRequest], error: ProviderError) -> None:
        """Fail those of some requests that are not finished."""
        for request in requests:
            if request.state is None or not request.state.finish:
                request.settle(error)


def _out_of_memory(request: EngineRequest, loaded: LoadedModel) -> ProviderError:
    tokens = len(request.state.prompt) if request.state else 0
    return ProviderError(
        "out_of_memory",
        f"a prompt of {tokens:,} tokens and its completion need more memory than {loaded.device} has. Free some, or "
        "serve the model with vllm/ on several GPUs",
    )


def _release(device: str) -> None:
    """Release unused memory of a GPU."""
    import gc

    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
