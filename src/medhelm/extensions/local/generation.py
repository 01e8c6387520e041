"""Generate the completions of one batch, token by token.

This loop replaces `generate` of transformers for two reasons. A finished completion leaves the batch at once, instead
of being computed on until the last one ends. And each completion has its own limit, stop sequences and random numbers.

Prompts are padded on the left and the padding is masked out. So in exact arithmetic a completion does not depend on the
others of its batch. In floating-point arithmetic the order of additions depends on the shapes. That changes a greedy
completion only if two logits are closer than about 1e-5 in float32, or about 1e-2 in bfloat16. The latter happens now
and then in long completions, as with every server that batches.

Threads wait for each other after every operation. For a small operation that costs more than it saves, and on a busy
machine a hundred times more. So a step gets a further thread only for enough work. The choice depends on the size of
the work alone, so that the same batch is always computed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch


PREFILL_TOKENS = 4096
"""Tokens of prompts that are read in one step, over all requests of a batch."""

_EXTRA_TOKENS = 4
"""Tokens decoded beyond the longest stop sequence: a text that begins inside a word may lack a space."""

SECONDS_PER_THREAD = 1e-4
"""Work of one operation that justifies a further thread; waiting for a thread costs about a tenth of it."""

OPERATIONS_PER_S, BYTES_PER_S = 5e10, 1e10
"""Speed of one thread of current CPUs in computing and in reading memory; orders of magnitude."""

BYTES_PER_PARAMETER = 4
"""CPUs compute in float32."""


@dataclass(slots=True, kw_only=True, eq=False)
class GenerationState:
    """State of one request during generation."""

    prompt: Sequence[int]
    """Tokens of the prompt."""
    limit: int
    """Most tokens of the completion."""
    stops: tuple[str, ...] = ()
    """Texts that end the completion; it does not include them."""
    temperature: float = 0.0
    """0: always the likeliest token."""
    top_p: float = 1.0
    """Cumulative probability of the likeliest tokens to sample from."""
    top_k: int = 0
    """Number of the likeliest tokens to sample from; 0: all."""
    seed: int = 0
    """Seed of its own random numbers, which do not depend on the batch."""
    thinking: bool = False
    """True if the prompt already opens the model's reasoning."""
    written: list[int] = field(default_factory=list)
    """Tokens of the completion so far."""
    text: str = ""
    """The completion, once it is finished."""
    finish: Literal["", "stop", "length"] = ""
    """Finish reason; empty until it is finished."""

    def restart(self) -> None:
        """Discard the tokens generated so far."""
        self.written.clear()
        self.text, self.finish = "", ""


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A loaded model with the facts that generation needs."""

    model: Any
    """A causal language model of transformers."""
    decode: Callable[[Sequence[int]], str]
    """Converts tokens to text without special tokens."""
    ends: frozenset[int]
    """Tokens that end a completion."""
    padding: int
    """Token for padding, which is masked out."""
    batches: bool
    """True if attention is its only state. Other models would keep padding in their state, so they run one by one."""
    matrix: float
    """Mean number of parameters of its matrices."""


def generate(
    network: LoadedNetwork,
    batch: Sequence[GenerationState],
    *,
    ended: Callable[[GenerationState], object],
    wanted: Callable[[GenerationState], bool],
) -> None:
    """Generate the completions of a batch.

    `ended` is called for each as soon as it is finished; a request that is no longer `wanted` leaves the batch.
    Raises: any error of the computation, such as lack of memory; finished completions remain.
    """
    import torch

    with torch.inference_mode(), without_cudnn_attention(), restored_threads() as threads:
        for rows in [list(batch)] if network.batches else [[one] for one in batch]:
            _generate(_BatchState(network, threads), rows, ended, wanted)


class _BatchState:
    """A network with its state for one batch."""

    def __init__(self, network: LoadedNetwork, threads: int) -> None:
        """`threads`: most CPU threads to use."""
        self.network = network
        self._threads = threads if network.model.device.type == "cpu" else 0
        self._accepted = signature(network.model.forward).parameters.keys()
        self._state_names = state_names(network.model)
        self._cache_name = next((name for name in self._state_names if name in CACHE_NAMES), "")
        self._state: dict[str, Any] = {self._cache_name: empty_cache(network.model)} if self._cache_name else {}

    def read_prompts(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, wanted: Callable[[], bool]
    ) -> torch.Tensor | None:
        """Return the logits after the prompts; None if they stop being `wanted` before the end.

        Prompts are read in pieces, so that temporary memory does not grow with their length.
        """
        rows, width = ids.shape
        piece = max(1, PREFILL_TOKENS // rows) if self.network.batches else width
        logits = None
        for start in range(0, width, piece):
            if start and not wanted():
                return None
            end = min(start + piece, width)
            logits = self.step(ids[:, start:end], mask[:, :end], positions[:, start:end])
        return logits

    def step(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the logits after the last token, of shape (requests, vocabulary); `mask` covers all tokens so far."""
        import torch

        if self._threads:
            n_threads = threads_for(self.network.matrix, ids.numel(), most=self._threads)
            if torch.get_num_threads() != n_threads:
                torch.set_num_threads(n_threads)
        given = {"attention_mask": mask, "position_ids": positions, "use_cache": True, "logits_to_keep": 1}
        given |= self._state
        out = self.network.model(
            input_ids=ids, **{name: value for name, value in given.items() if name in self._accepted}
        )
        self._state |= {name: out[name] for name in self._state_names if out.get(name) is not None}
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def keep(self, rows: torch.Tensor) -> None:
        """Drop the state of all requests but these."""
        self._state[self._cache_name].batch_select_indices(rows)


def threads_for(parameters: float, tokens: int, *, most: int) -> int:
    """Return the threads, 1 to `most`, for a step over `tokens` with matrices of `parameters` on average.

    A model with a few thousand parameters gets one thread, except for a long prompt; one with billions gets all.

    >>> threads_for(23_000, 16, most=8), threads_for(23_000, 2000, most=8), threads_for(3e7, 1, most=64)
    (1, 8, 64)
    """
    seconds = max(2 * parameters * tokens / OPERATIONS_PER_S, BYTES_PER_PARAMETER * parameters / BYTES_PER_S)
    return max(1, min(most, int(seconds / SECONDS_PER_THREAD)))


@contextmanager
def restored_threads() -> Iterator[int]:
    """Yield the number of torch's threads, and restore it at the end."""
    import torch

    before = torch.get_num_threads()
    try:
        yield before
    finally:
        torch.set_num_threads(before)


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Compute attention by the other kernels of torch, and restore its setting at the end.

    cuDNN plans its kernel anew for each number of tokens, so for each token of a completion, which takes longer than
    the step itself.
    """
    import torch

    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def _generate(
    state: _BatchState,
    rows: list[GenerationState],
    ended: Callable[[GenerationState], object],
    wanted: Callable[[GenerationState], bool],
) -> None:
    import torch

    device = state.network.model.device
    ids, mask = _padded(rows, state.network.padding, device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    dice = [torch.Generator().manual_seed(row.seed) if row.temperature > 0 else None for row in rows]
    logits = state.read_prompts(ids, mask, positions, lambda: any(map(wanted, rows)))
    positions = positions[:, -1:]
    while logits is not None:
        chosen = _next_tokens(logits, rows, dice)
        staying = []
        for position, (row, token) in enumerate(zip(rows, chosen, strict=True)):
            if not wanted(row):
                continue
            _add_token(state.network, row, token)
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
            state.keep(kept)
        mask = torch.cat((mask, mask.new_ones((len(rows), 1))), dim=-1)
        positions = positions + 1
        logits = state.step(torch.tensor(chosen, device=device)[:, None], mask, positions)


def _padded(rows: Sequence[GenerationState], padding: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded prompts and their attention mask, both of shape (requests, longest prompt)."""
    import torch

    width = max(len(row.prompt) for row in rows)
    ids = torch.full((len(rows), width), padding, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for position, row in enumerate(rows):
        ids[position, width - len(row.prompt) :] = torch.tensor(row.prompt, dtype=torch.long)
        mask[position, width - len(row.prompt) :] = 1
    return ids.to(device), mask.to(device)


def _next_tokens(
    logits: torch.Tensor, rows: Sequence[GenerationState], dice: Sequence[torch.Generator | None]
) -> list[int]:
    """Return the next token of each completion; `logits` has the shape (requests, vocabulary)."""
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


def _add_token(network: LoadedNetwork, row: GenerationState, token: int) -> None:
    """Add a token to a completion, and finish the completion if the token ends it."""
    row.written.append(token)
    if token in network.ends:
        row.text, row.finish = network.decode(row.written[:-1]), "stop"
    elif row.stops and (text := _text_before_stop(network, row)) is not None:
        row.text, row.finish = text, "stop"
    elif len(row.written) >= row.limit:
        row.text, row.finish = network.decode(row.written), "length"


def _text_before_stop(network: LoadedNetwork, row: GenerationState) -> str | None:
    """Return the completion up to the first stop sequence; None without one."""
    reach = max(len(stop.encode()) for stop in row.stops) + _EXTRA_TOKENS  # a token may be a single byte
    tail = network.decode(row.written[-reach:])
    if not any(stop in tail for stop in row.stops):
        return None
    text = network.decode(row.written)
    places = [place for stop in row.stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None


# --- keys and values --------------------------------------------------------------------------------------------------
# A cache of keys and values with preallocated space.
#
# The cache of transformers appends each new token by copying all earlier ones, at every step and in every layer. For
# long prompts that moves more memory than reading the weights does. Here the tensors are larger than needed, so that a
# new token is written in place.

ROOM = 128
"""Additional tokens to allocate whenever the tensors have to grow."""

CACHE_NAMES = ("cache", "past_key_values")
"""Parameters of a model that take its cache, by their name in newer and in older versions of transformers."""

STATE_NAMES = (*CACHE_NAMES, "cache_params", "state")
"""Parameters of a model that take what an earlier step handed on."""


class PreallocatedLayer:
    """Keys and values of one layer, of shape (requests, heads, tokens, width), in larger tensors.

    A mixin that precedes `DynamicLayer` of transformers and overrides two of its methods.
    """

    is_initialized: bool
    lazy_initialization: Callable[..., None]
    _held = 0
    _all_keys: torch.Tensor | None = None
    _all_values: torch.Tensor | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the keys and values of new tokens; return those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        held, self._held = self._held, self._held + key_states.shape[-2]
        self._all_keys = _with_room(self._all_keys, key_states, held)
        self._all_values = _with_room(self._all_values, value_states, held)
        return self._set_views(self._all_keys, self._all_values)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Drop all requests but these."""
        if self._all_keys is not None and self._all_values is not None:
            self._all_keys, self._all_values = self._all_keys[indices], self._all_values[indices]
            self._set_views(self._all_keys, self._all_values)

    def _set_views(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Set and return `keys` and `values`, which `DynamicLayer` defines: the part of the tensors that is in use."""
        self.keys, self.values = keys[..., : self._held, :], values[..., : self._held, :]
        return self.keys, self.values


def _with_room(tensor: torch.Tensor | None, more: torch.Tensor, held: int) -> torch.Tensor:
    """Write `more` after the first `held` tokens of `tensor`; return it, or a larger copy if it was full."""
    needed = held + more.shape[-2]
    if tensor is None or needed > tensor.shape[-2]:
        grown = more.new_empty((*more.shape[:-2], needed + ROOM, more.shape[-1]))
        if tensor is not None:
            grown[..., :held, :] = tensor[..., :held, :]
        tensor = grown
    tensor[..., held:needed, :] = more
    return tensor


@cache
def preallocated_layer() -> Any:
    """Return the class of preallocated layers, made on first use because it needs transformers."""
    from transformers.cache_utils import DynamicLayer

    return type("PreallocatedDynamicLayer", (PreallocatedLayer, DynamicLayer), {})


def empty_cache(model: Any) -> Any:
    """Return a cache for one batch of a loaded model; other kinds of layers keep the classes of transformers."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    made = DynamicCache(config=model.config)
    made.layers = [preallocated_layer()() if type(layer) is DynamicLayer else layer for layer in made.layers]
    return made


def state_names(model: Any) -> list[str]:
    """Return the parameters by which a loaded model takes the state of an earlier step.

    Raises: ValueError if there are none, and the model does not keep its state itself: each token would be computed
    without those before it.
    """
    parameters = signature(model.forward).parameters
    found = [name for name in STATE_NAMES if name in parameters]
    if not found and not _keeps_state(model):
        raise ValueError(
            f"{type(model).__name__} accepts its state through none of the parameters {', '.join(STATE_NAMES)}: "
            "another version of transformers may be needed"
        )
    return found


def _keeps_state(model: Any) -> bool:
    """Return True if a model has a state that is not only the keys and values of attention."""
    return bool(getattr(model, "_is_stateful", False))


def remembers_by_attention(model: Any) -> bool:
    """Return True if keys and values of attention are the only state of a loaded model."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    if _keeps_state(model) or model.config.is_encoder_decoder or not set(CACHE_NAMES) & set(state_names(model)):
        return False
    layers = DynamicCache(config=model.config).layers
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
