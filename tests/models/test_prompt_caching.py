"""Prompts that begin alike: in which order they are sent, and who goes first."""

from __future__ import annotations

import asyncio
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Message, Model, Price, Prompt, Request
from medhelm.models.prompt_caching import (
    MIN_CHARACTERS,
    CachePrices,
    OrderedPrompt,
    PrefixGate,
    cache_prices,
    order_by_shared_prefix,
    shared_prefix,
)
from tests.support.cases import table

CLAUDE = CachePrices(read=0.1, write=1.25)
"""Parts of the price of input that Anthropic charges."""

LONG = "The patient is well. " * 200
OTHER = "The record is thick. " * 200


@table(
    ("price", "rates"),
    [
        ({"input": 3.0, "cached_input": 0.3, "cache_write": 3.75}, (0.1, 1.25)),
        ({"input": 2.0, "cached_input": 1.0}, (0.5, 1.0)),
        ({"input": 2.0, "cached_input": 2.0}, None),
        ({"input": 0.0, "cached_input": 0.0}, None),
        ({}, None),
    ],
)
def test_a_cache_is_used_where_its_price_says_that_it_saves(price: Any, rates: tuple[float, float] | None) -> None:
    model = Model(name="a/m", provider="a", remote_name="m", price=Price(output=1.0, **price) if price else None)
    found = cache_prices(model)
    assert (found and (found.read, found.write)) == (rates and pytest.approx(rates))


def test_what_is_saved_by_hand() -> None:
    assert [CLAUDE.saved(n) for n in (0, 1, 2, 13)] == pytest.approx([-1.15, -0.25, 0.65, 10.55])


def test_the_order_of_sending() -> None:
    """Two patients in turn: each one's questions together, from where the first of them stands."""
    prompts = [LONG + "1", OTHER + "1", "alone", LONG + "2", OTHER + "2"]
    turns = [(0, 4199), (3, 4199), (1, 4199), (4, 4199), (2, 0)]
    assert order_by_shared_prefix(prompts, CLAUDE, lead=0) == [OrderedPrompt(*turn) for turn in turns]


def test_the_first_of_a_group_is_sent_earlier() -> None:
    prompts = [f"alone {n}" for n in range(6)] + [LONG + str(n) for n in range(3)]
    order = [turn.position for turn in order_by_shared_prefix(prompts, CLAUDE, lead=4)]
    assert order == [0, 1, 2, 6, 3, 4, 5, 7, 8]
    assert order_by_shared_prefix(prompts, CLAUDE, lead=100)[0].position == 6


def test_a_beginning_ends_with_a_line_or_before_a_blank() -> None:
    head = "word " * 600
    assert order_by_shared_prefix([head + "half-a", head + "half-b"], CLAUDE, 0)[0].shared == len(head) - 1
    assert order_by_shared_prefix([head + "\nhalf-a", head + "\nhalf-b"], CLAUDE, 0)[0].shared == len(head) + 1
    assert order_by_shared_prefix(["x" * 9000, "x" * 9001], CLAUDE, 0)[0].shared == 0, "no place to cut"
    costly = CachePrices(read=0.9, write=1.25)
    assert order_by_shared_prefix([LONG + "a", LONG + "b"], costly, 0)[0].shared == 0


WORDS = st.lists(st.sampled_from(["aa ", "bb\n", "c"]), max_size=4).map("".join)
PROMPTS = st.lists(st.tuples(st.integers(0, 3), WORDS), max_size=7).map(
    lambda found: [("head of all " * 250) * min(n, 2) + ("of some " * 400) * (n == 3) + tail for n, tail in found]
)
RATES = st.builds(CachePrices, read=st.floats(0.0, 0.9), write=st.sampled_from([1.0, 1.25, 2.0]))


def best_by_hand(prompts: list[str], rates: CachePrices) -> float:
    """The most that can be saved, by trying all ways of cutting the sorted prompts into groups."""
    texts, most = sorted(prompts), 0.0
    for cuts in (cut for k in range(len(texts)) for cut in combinations(range(1, len(texts)), k)):
        edges, saved = (0, *cuts, len(texts)), 0.0
        for start, end in pairwise(edges):
            length = shared_prefix(texts[start:end], rates)
            saved += max(0.0, rates.saved(end - start) * length) if length >= MIN_CHARACTERS else 0.0
        most = max(most, saved)
    return most


@settings(max_examples=60, deadline=None)
@given(PROMPTS, RATES, st.integers(0, 9))
def test_the_groups_are_the_best_there_are_and_nothing_is_lost(
    prompts: list[str], rates: CachePrices, lead: int
) -> None:
    turns = order_by_shared_prefix(prompts, rates, lead)
    assert sorted(turn.position for turn in turns) == list(range(len(prompts)))
    groups: dict[str, list[int]] = {}
    for turn in turns:
        if turn.shared:
            groups.setdefault(prompts[turn.position][: turn.shared], []).append(turn.position)
    saved = sum(rates.saved(len(members)) * len(opening) for opening, members in groups.items())
    assert saved == pytest.approx(best_by_hand(prompts, rates))
    assert all(len(members) > 1 for members in groups.values())


# --- whose turn it is -------------------------------------------------------------------------------------------------


def request(text: str, shared: int) -> Request:
    asked = Model(name="a/m", provider="a", remote_name="m")
    return Request(model=asked, prompt=Prompt((Message("user", text),)), max_tokens=1, shared_characters=shared)


async def test_who_waits_can_be_cancelled_and_once_a_first_has_ended_all_others_go() -> None:
    gate, sent_texts = PrefixGate(), list[str]()

    async def send(name: str) -> None:
        async with gate.turn(request("same", 4)):
            sent_texts.append(name)
            await asyncio.Event().wait()

    first, second, third = (asyncio.create_task(send(name)) for name in ("first", "second", "third"))
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
    await asyncio.wait((first, second))
    later = [asyncio.create_task(send(name)) for name in ("fourth", "fifth")]
    await asyncio.sleep(0)
    assert sent_texts == ["first", "third", "fourth", "fifth"]
    for task in (third, *later):
        task.cancel()
    await asyncio.wait((third, *later))
