"""What attention remembers is what the cache of transformers would, and no tensor is copied for each token."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest

from medhelm.extensions.local.generation import ROOM, empty_cache, preallocated_layer, state_names

if is_installed := find_spec("torch") is not None and find_spec("transformers") is not None:
    import torch
    import transformers
    from transformers.cache_utils import DynamicLayer

needs_torch = pytest.mark.skipif(not is_installed, reason="torch and transformers come with the extra hf")


class Network:
    """A model with a method that is called for each step."""

    def __init__(self, forward: Any, *, is_stateful: bool = False) -> None:
        self.forward, self._is_stateful = forward, is_stateful


def test_the_state_of_earlier_steps_is_handed_over_by_its_name_or_the_model_is_refused() -> None:
    assert state_names(Network(lambda input_ids, cache: 0)) == ["cache"]
    assert state_names(Network(lambda input_ids, past_key_values: 0)) == ["past_key_values"]
    assert state_names(Network(lambda input_ids, state: 0, is_stateful=True)) == ["state"]
    assert state_names(Network(lambda input_ids: 0, is_stateful=True)) == []
    with pytest.raises(ValueError, match="through none of the parameters cache, past_key_values"):
        state_names(Network(lambda input_ids, memory: 0))


def same(ours: Any, theirs: Any) -> bool:
    counts = ours.get_seq_length() == theirs.get_seq_length()
    sizes = ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)
    return counts and sizes and all(map(torch.equal, (ours.keys, ours.values), (theirs.keys, theirs.values)))


@needs_torch
@pytest.mark.parametrize("steps", [(5, 1, 1, 1), (1,) * (ROOM + 3), (40, 40, 40, 40, 1, 1), (ROOM, 1)])
def test_it_remembers_the_same(steps: Sequence[int]) -> None:
    ours, theirs = preallocated_layer()(), DynamicLayer()
    generator = torch.Generator().manual_seed(3)
    for number, tokens in enumerate(steps):
        keys = torch.randn((4 if number < 2 else 2, 2, tokens, 8), generator=generator)
        values = torch.randn((*keys.shape[:-1], 6), generator=generator)  # of another width, as some models have it
        for layer in (ours, theirs):
            seen = layer.update(keys, values)
            assert torch.equal(seen[0], layer.keys)
            assert torch.equal(seen[1], layer.values)
        assert same(ours, theirs)
        if number == 1:
            for layer in (ours, theirs):
                layer.batch_select_indices(torch.tensor([0, 3]))
            assert same(ours, theirs)


@needs_torch
def test_a_token_is_written_into_its_place() -> None:
    layer = preallocated_layer()()
    layer.update(torch.zeros(1, 1, 10, 4), torch.zeros(1, 1, 10, 4))
    places = {layer.update(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))[0].data_ptr() for _ in range(ROOM)}
    assert len(places) == 1
    layer.update(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))
    assert layer.keys.data_ptr() not in places  # one more than there was room for
    assert layer.keys.sum() == 4 * (ROOM + 1)


@needs_torch
def test_layers_with_a_window_are_those_of_transformers() -> None:
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.Gemma2Config(**shape, num_key_value_heads=2, head_dim=8, sliding_window=16, vocab_size=99)
    model = transformers.AutoModelForCausalLM.from_config(config)
    kinds = [type(layer).__name__ for layer in empty_cache(model).layers]
    assert sorted(kinds) == ["DynamicSlidingWindowLayer", "PreallocatedDynamicLayer"]
