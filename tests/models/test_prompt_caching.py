"""Prompts that begin alike: in which order they are sent, and who goes first."""

from __future__ import annotations

import asyncio
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Message, Model, Price, Prompt, Request
from medhelm.models import prompt_caching as openings
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


def model(**price: Any) -> Model:
    return Model(name="a/m", provider="a", remote_name="m", price=Price(output=1.0, **price) if price else None)


@pytest.mark.parametrize(
    ("asked", "rates"),
    [
        (model(input=3.0, cached_input=0.3, cache_write=3.75), CachePrices(0.1, 1.25)),
        (model(input=2.0, cached_input=1.0), CachePrices(0.5, 1.0)),
        (model(input=2.0, cached_input=0.0), CachePrices(0.0, 1.0)),
        (model(input=2.0), None),
        (model(input=2.0, cached_input=2.0), None),
        (model(input=0.0, cached_input=0.0), None),
        (model(), None),
    ],
)
def test_a_cache_is_used_where_its_price_says_that_it_saves(asked: Model, rates: CachePrices | None) -> None:
    found = cache_prices(asked)
    assert (found is None) == (rates is None)
    if found and rates:
        assert (found.read, found.write) == pytest.approx((rates.read, rates.write))


@pytest.mark.parametrize(
    ("rates", "n", "saved"),
    [(CLAUDE, 1, -0.25), (CLAUDE, 2, 0.65), (CLAUDE, 13, 10.55), (CachePrices(0.5, 1.0), 1, 0.0), (CLAUDE, 0, -1.15)],
)
def test_what_is_saved_by_hand(rates: CachePrices, n: int, saved: float) -> None:
    assert rates.saved(n) == pytest.approx(saved)


@table(
    ("prompts", "turns"),
    [
        ([], []),
        (["a", "b", "a"], [(0, 0), (1, 0), (2, 0)]),
        # one head for all
        ([LONG + "1", LONG + "2", LONG + "3"], [(0, 4199), (1, 4199), (2, 4199)]),
        # two patients in turn: each one's questions together, from where the first of them stands
        (
            [LONG + "1", OTHER + "1", "alone", LONG + "2", OTHER + "2"],
            [(0, 4199), (3, 4199), (1, 4199), (4, 4199), (2, 0)],
        ),
        # a head that is too short for any cache
        (["So. " * 600 + "1", "So. " * 600 + "2"], [(0, 0), (1, 0)]),
        # a head for all and one more for some: what saves the most, which is the head of all here
        ([LONG + "x", LONG + "y", LONG + "so " * 9 + "z", LONG + "so " * 9 + "w"], [(n, 4199) for n in range(4)]),
        # and the patients' own here
        (
            [LONG + OTHER + "1", LONG + OTHER + "2", LONG + LONG + "1", LONG + LONG + "2"],
            [(0, 8399), (1, 8399), (2, 8399), (3, 8399)],
        ),
        # one that is the beginning of another
        ([LONG, LONG + "\nMore."], [(0, 4199), (1, 4199)]),
    ],
)
def test_the_order_of_sending(prompts: list[str], turns: list[tuple[int, int]]) -> None:
    assert order_by_shared_prefix(prompts, CLAUDE, lead=0) == [OrderedPrompt(*one) for one in turns]


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
    assert [shared_prefix(texts, CLAUDE) for texts in ([], [LONG], [LONG + "a", LONG + "b"])] == [0, 0, 4199]
    costly = CachePrices(read=0.9, write=1.25)
    assert shared_prefix([LONG + "a", LONG + "b"], costly) == 0
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


@settings(max_examples=150, deadline=None)
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


def request(text: str, shared: int, name: str = "a/m") -> Request:
    asked = Model(name=name, provider="a", remote_name="m")
    return Request(model=asked, prompt=Prompt((Message("user", text),)), max_tokens=1, shared_characters=shared)


async def sent(requests: list[Request], *, fails: bool = False) -> list[list[int]]:
    """Which requests are on their way at the same time, round by round: each round ends them all."""
    openings, under_way, rounds = PrefixGate(), [], []

    async def send(number: int, one: Request, over: asyncio.Event) -> None:
        async with openings.turn(one):
            under_way.append((number, over))
            await over.wait()
            if fails and number == 0:
                raise ConnectionError

    tasks = [asyncio.create_task(send(number, one, asyncio.Event())) for number, one in enumerate(requests)]
    while not all(task.done() for task in tasks):
        for _ in range(5):
            await asyncio.sleep(0)
        rounds.append(sorted(number for number, _ in under_way))
        for _, over in under_way:
            over.set()
        under_way.clear()
        for _ in range(5):
            await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    return rounds


@pytest.mark.parametrize("fails", [False, True])
async def test_the_first_with_a_beginning_goes_alone_and_the_others_after_it(fails: bool) -> None:
    asked = [request("same a", 5), request("same b", 5), request("other", 5), request("same c", 5)]
    asked.append(request("same d", 5, name="a/another"))
    assert asked[0].digest == request("same a", 0).digest
    assert await sent(asked, fails=fails) == [[0, 2, 4], [1, 3]]


async def test_who_waits_can_be_cancelled_and_a_first_that_is_cancelled_lets_the_others_go() -> None:
    gate, said = PrefixGate(), list[str]()

    async def send(name: str) -> None:
        async with gate.turn(request("same", 4)):
            said.append(name)
            await asyncio.Event().wait()

    first, second, third = (asyncio.create_task(send(name)) for name in ("first", "second", "third"))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.wait((first, second))
    await asyncio.sleep(0)
    third.cancel()
    await asyncio.wait((third,))
    assert said == ["first", "third"]


async def test_old_beginnings_are_forgotten_and_then_lead_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "MAX_KNOWN", 2)

    known = PrefixGate()
    for n in range(5):
        async with known.turn(request(f"same {n}", 6)):
            pass
    assert len(known._known) <= 2
    asked = [request("same a", 5), request("same b", 5)]
    assert await sent(asked) == [[0], [1]]
