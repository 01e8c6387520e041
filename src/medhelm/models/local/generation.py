"""From prompts to answers: one batch, token by token.

Our own loop and not `generate` of transformers, because an answer that has ended leaves the batch here instead of being
computed on until the last one ends, and because each answer has its own limit, stop sequences and random numbers.

Prompts are padded on the left and the padding is masked out, so that in exact arithmetic an answer does not depend on
the other answers of its batch. Computers add in another order where shapes differ: in float32 two logits have to be
nearer than about 1e-5 for that to change a greedy answer; in bfloat16 nearer than about 1e-2, which happens now and
then in long answers, as it does with every server that batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from medhelm.models.local.kv_cache import empty_cache
from medhelm.models.local.threads import restored_threads, threads_for

if TYPE_CHECKING:
    import torch

PIECE = 4096
"""Tokens of prompts that are read at once, over all answers of a batch."""

_FEW = 4
"""Tokens looked at beyond the longest stop sequence, since a text that begins within a word may lack a blank."""


@dataclass(slots=True, kw_only=True, eq=False)
class GenerationState:
    """One request while it is answered."""

    prompt: Sequence[int]
    """Tokens of the prompt."""
    limit: int
    """Most tokens of the answer."""
    stops: tuple[str, ...] = ()
    """Texts that end the answer; they are no part of it."""
    temperature: float = 0.0
    """0: the likeliest token, always."""
    top_p: float = 1.0
    """Of the likeliest tokens, as many as have this probability together."""
    top_k: int = 0
    """Of the likeliest tokens this many; 0: all."""
    seed: int = 0
    """Of its random numbers: they are its own, so that they do not depend on the batch."""
    thinking: bool = False
    """Whether the prompt has begun the model's thoughts already."""
    written: list[int] = field(default_factory=list)
    """Tokens of the answer so far."""
    text: str = ""
    """The answer, once it has ended."""
    finish: Literal["", "stop", "length"] = ""
    """How it ended."""

    def begin_again(self) -> None:
        """Forget what was written."""
        self.written.clear()
        self.text, self.finish = "", ""


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A loaded model, with what its loop has to know of it."""

    model: Any
    """A causal language model of transformers."""
    decode: Callable[[Sequence[int]], str]
    """From tokens to text, without special tokens."""
    ends: frozenset[int]
    """Tokens that end an answer."""
    padding: int
    """A token to fill up with; it is never seen."""
    batches: bool
    """Whether it remembers by attention only. Others would remember the padding too, and are asked one by one."""
    matrix: float
    """Parameters of its matrices, on average."""


def answer(
    network: LoadedNetwork,
    batch: Sequence[GenerationState],
    *,
    ended: Callable[[GenerationState], object],
    wanted: Callable[[GenerationState], bool],
) -> None:
    """Answer all of a batch; `ended` is called for each as soon as it has ended, and who is no longer `wanted` leaves.

    Raises: whatever the computation raises, above all when memory is short; answers that have ended stay.
    """
    import torch

    with torch.inference_mode(), restored_threads() as threads:
        for rows in [list(batch)] if network.batches else [[one] for one in batch]:
            _together(_Reading(network, threads), rows, ended, wanted)


class _Reading:
    """A network while it reads one batch, and what it remembers of it."""

    def __init__(self, network: LoadedNetwork, threads: int) -> None:
        """`threads`: how many of the processor's it may use at most."""
        self.network = network
        self._threads = threads if network.model.device.type == "cpu" else 0
        self._accepted = signature(network.model.forward).parameters.keys()
        cached = "past_key_values" in self._accepted
        self._state: dict[str, Any] = {"past_key_values": empty_cache(network.model)} if cached else {}

    def prompts(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, wanted: Callable[[], bool]
    ) -> torch.Tensor | None:
        """Logits behind the prompts; None if nobody has `wanted` them before the end.

        They are read in pieces: what is needed beside what is remembered does not grow with them then.
        """
        rows, width = ids.shape
        piece = max(1, PIECE // rows) if self.network.batches else width
        logits = None
        for start in range(0, width, piece):
            if start and not wanted():
                return None
            end = min(start + piece, width)
            logits = self.more(ids[:, start:end], mask[:, :end], positions[:, start:end])
        return logits

    def more(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits behind the last of these tokens, of shape (answers, vocabulary); `mask` covers all tokens so far."""
        if self._threads:
            _use_threads(threads_for(self.network.matrix, ids.numel(), most=self._threads))
        given = {"attention_mask": mask, "position_ids": positions, "use_cache": True, "logits_to_keep": 1}
        given |= self._state
        out = self.network.model(
            input_ids=ids, **{name: value for name, value in given.items() if name in self._accepted}
        )
        names = ("past_key_values", "cache_params", "state")
        self._state |= {name: out[name] for name in names if out.get(name) is not None}
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def keep(self, rows: torch.Tensor) -> None:
        """Forget all answers but these."""
        self._state["past_key_values"].batch_select_indices(rows)


def _use_threads(number: int) -> None:
    import torch

    if torch.get_num_threads() != number:
        torch.set_num_threads(number)


def _together(
    reading: _Reading,
    rows: list[GenerationState],
    ended: Callable[[GenerationState], object],
    wanted: Callable[[GenerationState], bool],
) -> None:
    import torch

    device = reading.network.model.device
    ids, mask = _padded(rows, reading.network.padding, device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    dice = [torch.Generator().manual_seed(row.seed) if row.temperature > 0 else None for row in rows]
    logits = reading.prompts(ids, mask, positions, lambda: any(map(wanted, rows)))
    positions = positions[:, -1:]
    while logits is not None:
        chosen = _choose(logits, rows, dice)
        staying = []
        for position, (row, token) in enumerate(zip(rows, chosen, strict=True)):
            if not wanted(row):
                continue
            _take(reading.network, row, token)
            if row.finish:
                ended(row)
            else:
                staying.append(position)
        if not staying:
            return
        if len(staying) < len(rows):
            kept = torch.tensor(staying, device=device)
            rows, dice = [rows[position] for position in staying], [dice[position] for position in staying]
            chosen = [chosen[position] for position in staying]
            mask, positions = mask[kept], positions[kept]
            reading.keep(kept)
        mask = torch.cat((mask, mask.new_ones((len(rows), 1))), dim=-1)
        positions = positions + 1
        logits = reading.more(torch.tensor(chosen, device=device)[:, None], mask, positions)


def _padded(rows: Sequence[GenerationState], padding: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts as one table, and which of its places hold one; both of shape (requests, longest prompt)."""
    import torch

    width = max(len(row.prompt) for row in rows)
    ids = torch.full((len(rows), width), padding, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for position, row in enumerate(rows):
        ids[position, width - len(row.prompt) :] = torch.tensor(row.prompt, dtype=torch.long)
        mask[position, width - len(row.prompt) :] = 1
    return ids.to(device), mask.to(device)


def _choose(logits: torch.Tensor, rows: Sequence[GenerationState], dice: Sequence[torch.Generator | None]) -> list[int]:
    """The next token of each answer; `logits` has the shape (answers, vocabulary)."""
    import torch

    chosen: list[int] = logits.argmax(dim=-1).tolist()
    for position, (row, die) in enumerate(zip(rows, dice, strict=True)):
        if die is None:
            continue
        likely, order = torch.softmax(logits[position].float().cpu() / row.temperature, dim=-1).sort(descending=True)
        likely[likely.cumsum(-1) - likely >= row.top_p] = 0.0
        if row.top_k:
            likely[row.top_k :] = 0.0
        chosen[position] = int(order[torch.multinomial(likely, 1, generator=die)])
    return chosen


def _take(network: LoadedNetwork, row: GenerationState, token: int) -> None:
    """Add a token to an answer, and see whether that ends it."""
    row.written.append(token)
    if token in network.ends:
        row.text, row.finish = network.decode(row.written[:-1]), "stop"
    elif row.stops and (text := _stopped(network, row)) is not None:
        row.text, row.finish = text, "stop"
    elif len(row.written) >= row.limit:
        row.text, row.finish = network.decode(row.written), "length"


def _stopped(network: LoadedNetwork, row: GenerationState) -> str | None:
    """The answer up to the first stop sequence; None if there is none yet."""
    reach = max(len(stop.encode()) for stop in row.stops) + _FEW  # a token may be a single byte
    tail = network.decode(row.written[-reach:])
    if not any(stop in tail for stop in row.stops):
        return None
    text = network.decode(row.written)
    places = [place for stop in row.stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None
