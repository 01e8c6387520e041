"""A cache of keys and values with preallocated space.

The cache of transformers appends each new token by copying all earlier ones, at every step and in every layer. For long
prompts that moves more memory than reading the weights does. Here the tensors are larger than needed, so that a new
token is written in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

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
