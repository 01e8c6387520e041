"""What attention remembers is what the cache of transformers would, and no tensor is copied for each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch comes with the extra hf")
transformers = pytest.importorskip("transformers", reason="transformers comes with the extra hf")

from transformers.cache_utils import DynamicLayer  # noqa: E402 - only where it is installed

from medhelm.models.local.kv_cache import ROOM, empty_cache, preallocated_layer  # noqa: E402


def same(ours: Any, theirs: Any) -> bool:
    counts = ours.get_seq_length() == theirs.get_seq_length()
    sizes = ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)
    return counts and sizes and all(map(torch.equal, (ours.keys, ours.values), (theirs.keys, theirs.values)))


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


def test_a_token_is_written_into_its_place() -> None:
    layer = preallocated_layer()()
    layer.update(torch.zeros(1, 1, 10, 4), torch.zeros(1, 1, 10, 4))
    places = {layer.update(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))[0].data_ptr() for _ in range(ROOM)}
    assert len(places) == 1
    layer.update(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))
    assert layer.keys.data_ptr() not in places  # one more than there was room for
    assert layer.keys.sum() == 4 * (ROOM + 1)


def test_layers_with_a_window_are_those_of_transformers() -> None:
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.Gemma2Config(**shape, num_key_value_heads=2, head_dim=8, sliding_window=16, vocab_size=99)
    model = transformers.AutoModelForCausalLM.from_config(config)
    kinds = [type(layer).__name__ for layer in empty_cache(model).layers]
    assert sorted(kinds) == ["DynamicSlidingWindowLayer", "PreallocatedDynamicLayer"]
