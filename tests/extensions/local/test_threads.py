"""How many threads a step is worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extensions.local.generation import restored_threads, threads_for


@given(st.floats(1, 1e9), st.integers(1, 100_000), st.integers(1, 256))
def test_more_work_never_takes_fewer_threads(parameters: float, tokens: int, most: int) -> None:
    number = threads_for(parameters, tokens, most=most)
    assert 1 <= number <= most
    assert number <= threads_for(2 * parameters, tokens, most=most)
    assert number <= threads_for(parameters, 2 * tokens, most=most)
    assert threads_for(parameters, tokens, most=1) == 1


def test_by_the_size_of_a_step() -> None:
    small, large = 20_000, 3_000_000  # matrices of a model of 600 thousand and of 600 million parameters
    assert threads_for(small, 32, most=16) == 1
    assert threads_for(small, 4096, most=16) == 16  # a prompt
    assert 1 < threads_for(large, 1, most=64) < 64  # more would wait for each other, not for memory
    assert threads_for(large, 64, most=64) == 64


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
