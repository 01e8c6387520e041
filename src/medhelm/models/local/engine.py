"""A model in this process: requests come in by one, are gathered, and answered in batches by one thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from medhelm.errors import ProviderError
from medhelm.models.local.batching import RequestSize, next_batch
from medhelm.models.local.generation import GenerationState, answer
from medhelm.models.local.loading import LoadedModel
from medhelm.models.local.memory import is_short_of_memory

MOST_ROWS = 128
"""Requests in one batch; more are never in flight."""

QUIET_S, LONGEST_WAIT_S = 0.005, 0.1
"""A batch begins when no request has come for so long, or after so long at the latest, once there is one."""

CLOSED = "the model has been closed"

JOIN_S = 60.0
"""How long the end waits for the token that is being computed."""


@dataclass(slots=True, eq=False)
class EngineRequest:
    """One request on its way through the engine."""

    prepare: Callable[[LoadedModel], GenerationState]
    """Makes the tokens; runs in the engine's thread. Raises: ProviderError if the request cannot be answered."""
    future: asyncio.Future[tuple[GenerationState, float]]
    """The answer, and the seconds that its batch took until it had ended."""
    loop: asyncio.AbstractEventLoop
    """Where the future belongs."""
    answering: GenerationState | None = None
    """Its tokens, once they are made."""
    began: float = field(default=0.0)
    """When its batch began."""

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return not self.future.done()

    def settle(self, result: GenerationState | BaseException) -> None:
        """Hand over what came of it."""
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
            return  # The loop is closed: nobody waits any more.


class Engine:
    """Loads one model at the first request, and answers until it is closed."""

    def __init__(
        self,
        load: Callable[[], LoadedModel],
        turn: threading.Lock,
        *,
        engines: Callable[[], Sequence[Engine]] = lambda: (),
        note: Callable[[str], object] = str,
    ) -> None:
        """`load` is called in the engine's thread; `turn` is held while it computes, and by one engine at a time.

        `engines`: all engines of the session, which make room where memory does not hold several models; `note` is
        told, in the event loop, when one has to.
        """
        self._load = load
        self._turn = turn
        self._engines = engines
        self._note = note
        self._told = False
        self._loaded: LoadedModel | None = None
        self._fits = (0, MOST_ROWS)
        """Tokens and requests that a batch may hold, by what has turned out."""
        self._waiting: list[EngineRequest] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._unusable: ProviderError | None = None
        """Why it cannot be loaded; it is not tried again for each request."""
        self.batch_sizes: list[int] = []
        """Requests of each batch so far."""

    async def ask(self, prepare: Callable[[LoadedModel], GenerationState]) -> tuple[GenerationState, float]:
        """The answer to one request, and the seconds it took.

        Raises: ProviderError; fatal if the model cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        asked = EngineRequest(prepare, loop.create_future(), loop)
        with self._changed:
            if self._closed:
                raise ProviderError("closed", CLOSED)
            self._waiting.append(asked)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hf", daemon=True)
                self._thread.start()
            self._changed.notify()
        return await asked.future

    async def close(self) -> None:
        """Stop after the token that is being computed, and let go of the model."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_S)

    # --- in the engine's thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._gather():
            try:
                with self._turn:
                    if not self._closed:
                        self._answer_some()
            except ProviderError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait have to hear of it
                self._fail(ProviderError("broken", f"{type(error).__name__}: {error}", fatal=True))
        self._fail(ProviderError("closed", CLOSED))
        self.let_go()

    def let_go(self) -> bool:
        """Give the memory back, until there is another request; whether there was any. Not while it computes."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return False
        device = loaded.device
        del loaded
        _release(device)
        return True

    def _answer_some(self) -> None:
        """Answer one batch of those that wait, with the model in memory."""
        if self._unusable is not None:
            raise self._unusable
        if self._loaded is None:
            self._loaded = self._with_room()
            self._fits = self._loaded.batch_tokens, self._fits[1]
        tokens, rows = self._fits
        chosen = self._next(self._loaded, tokens, rows)
        if chosen and (fitting := self._answer(self._loaded, chosen)) < len(chosen):
            self._fits = max(tokens // 2, 1), max(fitting, 1)  # it was cut in halves: the next one begins smaller

    def _with_room(self) -> LoadedModel:
        """The model, loaded; if memory is short, once the others have made room."""
        try:
            return self._load()
        except ProviderError as error:
            if error.code == "out_of_memory" and sum([engine.let_go() for engine in self._engines()]):
                self._tell_of_turns()
            else:
                self._unusable = error
                raise
        try:
            return self._load()
        except ProviderError as error:
            self._unusable = error
            raise

    def _tell_of_turns(self) -> None:
        """Once: it makes a run slow."""
        with self._changed:
            loops = [asked.loop for asked in self._waiting]
        if loops and not self._told:
            self._told = True
            text = (
                "The hf/ models of this run do not fit into memory together: they are loaded in turns. That takes time."
            )
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loops[0].call_soon_threadsafe(self._note, text)

    def _gather(self) -> bool:
        """Wait until there is something to do, and a little for more of it; False at the end."""
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

    def _next(self, loaded: LoadedModel, tokens: int, rows: int) -> list[EngineRequest]:
        """The requests of the next batch; they wait no longer."""
        with self._changed:
            self._waiting = [asked for asked in self._waiting if asked.wanted]
            waiting = list(self._waiting)
        for asked in waiting:
            if asked.answering is None:
                try:
                    asked.answering = asked.prepare(loaded)
                except ProviderError as error:
                    asked.settle(error)
                    self._drop([asked])
        ready = [(asked, asked.answering) for asked in waiting if asked.answering is not None]
        sizes = [RequestSize(len(answering.prompt), answering.limit) for _, answering in ready]
        chosen = [ready[position][0] for position in next_batch(sizes, tokens=tokens, rows=rows)]
        self._drop(chosen)
        return chosen

    def _drop(self, gone: Sequence[EngineRequest]) -> None:
        with self._changed:
            self._waiting = [asked for asked in self._waiting if asked not in gone]

    def _answer(self, loaded: LoadedModel, chosen: Sequence[EngineRequest]) -> int:
        """Answer a batch, in halves where memory is short; how many of it fitted at once."""
        of = {id(asked.answering): asked for asked in chosen}
        for asked in chosen:
            asked.began = time.perf_counter()
        self.batch_sizes.append(len(chosen))

        def ended(answering: GenerationState) -> None:
            of[id(answering)].settle(answering)

        def wanted(answering: GenerationState) -> bool:
            return not self._closed and of[id(answering)].wanted

        batch = [asked.answering for asked in chosen if asked.answering is not None]
        try:
            answer(loaded.network, batch, ended=ended, wanted=wanted)
        except Exception as error:  # noqa: BLE001 - who waits has to hear of it, whatever it is
            if not is_short_of_memory(error):
                self._settle_all(chosen, ProviderError("broken", f"{type(error).__name__}: {error}"))
                return len(chosen)
        else:
            self._settle_all(chosen, ProviderError("closed", CLOSED))  # those that were left at the end
            return len(chosen)
        _release(loaded.device)
        left = [asked for asked in chosen if asked.answering is not None and not asked.answering.finish]
        for asked in left:
            if asked.answering is not None:
                asked.answering.begin_again()
        if len(left) == 1:
            self._settle_all(left, _too_large(left[0], loaded))
            return 1
        middle = (len(left) + 1) // 2
        return min(self._answer(loaded, part) for part in (left[:middle], left[middle:]) if part)

    def _fail(self, error: ProviderError) -> None:
        """Nobody who waits will be answered."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
        self._settle_all(waiting, error)

    def _settle_all(self, several: Sequence[EngineRequest], error: ProviderError) -> None:
        for asked in several:
            if asked.answering is None or not asked.answering.finish:
                asked.settle(error)


def _too_large(asked: EngineRequest, loaded: LoadedModel) -> ProviderError:
    tokens = len(asked.answering.prompt) if asked.answering else 0
    return ProviderError(
        "out_of_memory",
        f"a prompt of {tokens:,} tokens, with its answer, needs more memory than {loaded.device} has. Free some, or "
        "serve the model with vllm/ on several GPUs",
    )


def _release(device: str) -> None:
    """Give memory back to the GPU that nobody uses."""
    import gc

    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
