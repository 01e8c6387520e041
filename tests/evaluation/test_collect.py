"""Collecting a batch: from its results to the cache and the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import Completion, Price
from medhelm.domain.completion import Batch, BatchState
from medhelm.errors import StoreError
from medhelm.evaluation.batches import MAX_CONCURRENT_WRITES, BatchResult, collect
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.batch.api import RequestResult
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import HttpProvider
from tests.support.servers.vendors import KEYS, OPENAI

PRICE = Price(input=1.0, cached_input=0.25, output=10.0)
HALF_USD = (16 * 1.0 + 4 * 0.25 + 5 * 10.0) / 2e6
DIGESTS = tuple(f"{n:064x}" for n in range(4))
BATCH = Batch(
    id="medhelm-1",
    provider="openai",
    base_url="",
    model="openai/m",
    remote_name="m",
    model_digest="",
    role="model",
    state=BatchState.SUBMITTED,
    created=0.0,
    n=4,
    digests=DIGESTS,
    remote_id="batch_1",
)


def provider(price: Price | None = PRICE) -> HttpProvider:
    model = OPENAI.model("http://127.0.0.1:1", price=price)
    opened = open_provider(model, HttpClient(EgressPolicy(offline=True)), environment=KEYS)
    assert isinstance(opened, HttpProvider)
    return opened


def answer(digest: str, text: str = "yes") -> RequestResult:
    return RequestResult(digest=digest, document=OPENAI.said(text))


def collected(
    path: Path, lines: Sequence[RequestResult], *, batch: Batch = BATCH, by: HttpProvider | None = None
) -> tuple[BatchResult, list[Completion | None], float]:
    """Return the outcome, the completions in the cache, and the amount charged."""
    budget = Budget()
    with Cache(path / "cache.sqlite") as cache:
        found = asyncio.run(collect(batch, iter(lines), by or provider(), cache, budget))
        return found, [cache.get(bytes.fromhex(digest)) for digest in batch.digests], budget.spent_usd


def test_answers_come_in_any_order_and_each_counts_once(tmp_path: Path) -> None:
    lines = [answer(DIGESTS[2], "c"), answer(DIGESTS[0], "a"), answer(DIGESTS[2], "again"), answer("f" * 64, "stray")]
    found, kept, spent_usd = collected(tmp_path, lines)
    assert [one and one.text for one in kept] == ["a", None, "c", None]
    assert found.missing == {DIGESTS[1], DIGESTS[3]}
    assert found.missing_by_reason == {"missing": 2}
    assert found.is_ours
    assert all(one is None or one.batched for one in kept)
    assert spent_usd == pytest.approx(2 * HALF_USD)


def test_what_was_there_before_stays_and_is_not_charged(tmp_path: Path) -> None:
    collected(tmp_path, [answer(DIGESTS[0], "first")])
    found, kept, spent_usd = collected(tmp_path, [answer(DIGESTS[0], "second"), answer(DIGESTS[1])])
    assert [one and one.text for one in kept[:2]] == ["first", "yes"]
    assert found.missing == set(DIGESTS[2:])
    assert spent_usd == pytest.approx(HALF_USD)


def test_reasons_are_counted_and_refusals_are_answers(tmp_path: Path) -> None:
    lines = [
        RequestResult(digest=DIGESTS[0], reason="expired"),
        RequestResult(digest=DIGESTS[1], status=500, error={"error": {"message": "oops"}}),
        RequestResult(digest=DIGESTS[2], document={"choices": []}),
        RequestResult(digest=DIGESTS[3], document=OPENAI.said("part", finish="content_filter")),
    ]
    found, kept, spent_usd = collected(tmp_path, lines)
    assert found.missing_by_reason == {"expired": 1, "server_error": 1, "empty_choice": 1}
    assert found.missing == set(DIGESTS[:3])
    assert kept[3] is not None
    assert kept[3].failure is not None
    assert kept[3].failure.code == "refusal"
    assert spent_usd == pytest.approx(HALF_USD)


def refused(digest: str) -> RequestResult:
    body = OPENAI.errors["temperature"].body
    assert isinstance(body, dict)
    return RequestResult(digest=digest, status=400, error=body)


def test_a_refused_part_is_learnt_and_its_requests_are_to_be_handed_over_again(tmp_path: Path) -> None:
    asked = provider()
    found, _, _ = collected(tmp_path, [refused(digest) for digest in DIGESTS[:3]] + [answer(DIGESTS[3])], by=asked)
    assert found.resubmit == set(DIGESTS[:3])
    assert found.missing == set()
    assert set(asked.unsupported) == {"temperature"}
    # Without that part the same complaint is no help any more.
    again = replace(BATCH, refused_parameters={str(name): text for name, text in asked.unsupported.items()})
    found, kept, _ = collected(tmp_path, [refused(DIGESTS[0]), answer(DIGESTS[1])], batch=again, by=asked)
    assert (found.resubmit, found.missing_by_reason) == (set(), {"parameter": 1, "missing": 2})
    assert kept[1] is not None
    assert kept[1].refused_parameters == ("temperature",)


def test_of_two_lines_about_one_request_the_answer_counts(tmp_path: Path) -> None:
    first, second, third = DIGESTS[:3]
    lines = [RequestResult(digest=first, reason="expired"), answer(first, "a"), answer(second, "b")]
    lines += [RequestResult(digest=second, reason="expired"), refused(third), answer(third, "c")]
    found, kept, spent_usd = collected(tmp_path, lines)
    assert [one and one.text for one in kept] == ["a", "b", "c", None]
    assert (found.missing, found.resubmit, found.missing_by_reason) == ({DIGESTS[3]}, set(), {"missing": 1})
    assert spent_usd == pytest.approx(3 * HALF_USD)


def test_somebody_else_s_answers_are_none_of_ours(tmp_path: Path) -> None:
    found, kept, spent_usd = collected(tmp_path, [answer("f" * 64)])
    assert not found.is_ours
    assert (kept, spent_usd) == ([None] * 4, 0.0)


def test_a_model_without_a_price_is_collected_as_well(tmp_path: Path) -> None:
    found, kept, spent_usd = collected(tmp_path, [answer(digest) for digest in DIGESTS], by=provider(None))
    assert (found.missing, spent_usd) == (set(), 0.0)
    assert None not in kept


def test_more_answers_than_are_written_at_once(tmp_path: Path) -> None:
    digests = tuple(f"{n:064x}" for n in range(2 * MAX_CONCURRENT_WRITES + 7))
    batch = replace(BATCH, digests=digests, n=len(digests))
    found, kept, spent_usd = collected(tmp_path, [answer(digest, digest) for digest in digests], batch=batch)
    assert [one and one.text for one in kept] == list(digests)
    assert spent_usd == pytest.approx(len(digests) * HALF_USD)
    assert found.missing == set()


def test_the_cache_keeps_a_reply_as_it_was_received(tmp_path: Path) -> None:
    """Reasoning is taken out when a completion is handed out; how much depends on whether it is a judge's."""
    text = '{"score": 1, "explanation": "it says </think> 5"}'
    for role in ("judge", "model"):
        _, kept, _ = collected(tmp_path / role, [answer(DIGESTS[0], text)], batch=replace(BATCH, role=role))
        assert kept[0] is not None
        assert kept[0].text == text


def test_a_cache_that_cannot_be_written_stops_the_collecting(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.sqlite")
    cache.close()
    budget = Budget()
    with pytest.raises(StoreError, match="closed"):
        asyncio.run(collect(BATCH, iter([answer(digest) for digest in DIGESTS]), provider(), cache, budget))
    assert budget.spent_usd == 0
