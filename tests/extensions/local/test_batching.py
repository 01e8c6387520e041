"""Which requests are answered together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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


def test_nobody_waits_no_batch() -> None:
    assert next_batch([], tokens=10, rows=2) == []
