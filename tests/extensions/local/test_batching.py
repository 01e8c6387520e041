"""Which requests are answered together, and what goes from one step to the next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extensions.local.generation import restored_threads, state_names, without_cudnn_attention
from medhelm.extensions.local.huggingface import RequestSize, next_batch

SIZES = st.lists(st.builds(RequestSize, st.integers(1, 3000), st.integers(1, 1000)), min_size=1, max_size=40)


@given(SIZES, st.integers(1, 20_000), st.integers(1, 50))
def test_a_batch_fits_or_is_one_request(waiting: list[RequestSize], tokens: int, rows: int) -> None:
    chosen = next_batch(waiting, tokens=tokens, rows=rows)
    assert 1 <= len(chosen) <= rows
    assert len(set(chosen)) == len(chosen)
    width = max(waiting[position].prompt for position in chosen)
    limit = max(waiting[position].limit for position in chosen)
    assert len(chosen) == 1 or len(chosen) * (width + limit) <= tokens
    lengths = [waiting[position].prompt for position in chosen]
    assert lengths == sorted(lengths, reverse=True)
    assert {waiting[position].limit.bit_length() for position in chosen} == {waiting[0].limit.bit_length()}


@given(SIZES, st.integers(1, 20_000), st.integers(1, 50))
def test_everybody_has_a_turn(waiting: list[RequestSize], tokens: int, rows: int) -> None:
    left, batches = list(waiting), 0
    while left:
        chosen = set(next_batch(left, tokens=tokens, rows=rows))
        left = [size for position, size in enumerate(left) if position not in chosen]
        batches += 1
    assert batches <= len(waiting)


def test_the_number_comes_back_whatever_happens() -> None:
    torch = pytest.importorskip("torch", reason="torch comes with the extra hf")
    before = torch.get_num_threads()

    def changed() -> None:
        with restored_threads() as most:
            assert most == before
            torch.set_num_threads(before + 1)
            raise MemoryError

    with pytest.raises(MemoryError):
        changed()
    assert torch.get_num_threads() == before


def test_the_setting_of_attention_comes_back_whatever_happens() -> None:
    torch = pytest.importorskip("torch", reason="torch comes with the extra hf")
    before = torch.backends.cuda.cudnn_sdp_enabled()

    def changed() -> None:
        with without_cudnn_attention():
            assert not torch.backends.cuda.cudnn_sdp_enabled()
            raise MemoryError

    with pytest.raises(MemoryError):
        changed()
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


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
