"""What attention remembers of a batch, with room to grow. Imports torch: only whoever computes imports this module.

The cache of transformers puts each new token behind the others by copying all of them, at every step and in every
layer: for long prompts that is more to read and write than the weights are. Here the tensors are made larger than
needed, and a new token is written into its place.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

ROOM = 128
"""Places for further tokens whenever the tensors have to grow."""


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # of a package without types
    """Keys and values of one layer, of shape (answers, heads, tokens, width), within tensors with more places."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Without any place yet."""
        super().lazy_initialization(key_states, value_states)
        self._held = 0
        self._all_keys = key_states.new_empty((*key_states.shape[:-2], 0, key_states.shape[-1]))
        self._all_values = value_states.new_empty((*value_states.shape[:-2], 0, value_states.shape[-1]))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Remember some tokens more; keys and values of all."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        held, needed = self._held, self._held + key_states.shape[-2]
        if needed > self._all_keys.shape[-2]:
            self._all_keys = _larger(self._all_keys, held, needed + ROOM)
            self._all_values = _larger(self._all_values, held, needed + ROOM)
        self._all_keys[..., held:needed, :] = key_states
        self._all_values[..., held:needed, :] = value_states
        self._held = needed
        return self._seen()

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Forget all answers but these."""
        self._all_keys, self._all_values = self._all_keys[indices], self._all_values[indices]
        self._seen()

    def _seen(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys = self._all_keys[..., : self._held, :]
        self.values = self._all_values[..., : self._held, :]
        return self.keys, self.values


def _larger(tensor: torch.Tensor, held: int, places: int) -> torch.Tensor:
    """A copy with so many places, of which those that are `held` are filled."""
    grown = tensor.new_empty((*tensor.shape[:-2], places, tensor.shape[-1]))
    grown[..., :held, :] = tensor[..., :held, :]
    return grown


def empty_cache(model: Any) -> Any:
    """A cache for one batch of a loaded model; layers that remember otherwise have those of transformers."""
    cache = DynamicCache(config=model.config)
    cache.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def remembers_by_attention(model: Any) -> bool:
    """Whether all that a loaded model remembers of a text are the keys and values of attention."""
    from inspect import signature

    if getattr(model, "_is_stateful", False) or model.config.is_encoder_decoder:
        return False
    if "past_key_values" not in signature(model.forward).parameters:
        return False
    layers = DynamicCache(config=model.config).layers
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
