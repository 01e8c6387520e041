"""Long beginnings that prompts share: marked, sent in the order that uses the provider's cache, and billed as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS

PRICE = {"input": 3.0, "cached_input": 0.3, "cache_write": 3.75, "output": 15.0}
RECORDS = {"ada": "Ada was admitted with a cough. " * 120, "bob": "Bob has had a rash since May. " * 120}
N = 4
"""Questions about each record."""

DEFINITION = """\
name: records
title: Records
description: Questions about records.
taxonomy: {category: clinical_decision_support, subcategory: planning_treatments}
access: public
license: CC0-1.0
source: {kind: jsonl, files: {rows.jsonl: ""}}
id: id
answer: answer
prompt: |
  Record: {record}

  Question: {question}
  Answer:
max_tokens: 5
metrics: [exact_match]
"""

MARKS = {"cache_control", "cachePoint", "prompt_cache_breakpoint"}
NEW, KEPT, WRITTEN = "new", "kept", "written"


class Caching:
    """A service that keeps what is marked, and counts characters for tokens. It speaks three dialects; in OpenAI's it
    keeps the whole prompt unless it is told to keep only what is marked.
    """

    def __init__(self) -> None:
        self.kept: list[str] = []
        """Beginnings, in the order in which they were written into the cache."""
        self.texts: list[str] = []
        """Whole prompts, in the order in which they came."""

    def answer(self, body: dict[str, Any]) -> Answer:
        blocks = body["messages"][0]["content"]
        blocks = [{"text": blocks}] if isinstance(blocks, str) else blocks
        marks = [place for place, block in enumerate(blocks) if not MARKS.isdisjoint(block)]
        if "seed" in body and body.get("prompt_cache_options") != {"mode": "explicit"}:
            marks = [len(blocks) - 1]
        texts = [block.get("text", "") for block in blocks]
        assert all(text.strip() for text, block in zip(texts, blocks, strict=True) if "cachePoint" not in block)
        opening = "".join(texts[: marks[0] + 1]) if marks else ""
        self.texts.append("".join(texts))
        counts = {NEW: len(self.texts[-1]) - len(opening), KEPT: 0, WRITTEN: 0}
        counts[KEPT if opening in self.kept else WRITTEN] += len(opening)
        if counts[WRITTEN]:
            self.kept.append(opening)
        dialect = self.converse if "inferenceConfig" in body else self.chat if "seed" in body else self.messages
        return Answer(body=dialect(counts))

    def chat(self, counts: dict[str, int]) -> dict[str, Any]:
        usage = {
            "prompt_tokens": sum(counts.values()),
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": counts[KEPT], "cache_write_tokens": counts[WRITTEN]},
        }
        return {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": usage, "model": "m"}

    def messages(self, counts: dict[str, int]) -> dict[str, Any]:
        usage = {
            "input_tokens": counts[NEW],
            "cache_read_input_tokens": counts[KEPT],
            "cache_creation_input_tokens": counts[WRITTEN],
            "output_tokens": 1,
        }
        return {"content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn", "usage": usage, "model": "m"}

    def converse(self, counts: dict[str, int]) -> dict[str, Any]:
        usage = {
            "inputTokens": counts[NEW],
            "cacheReadInputTokens": counts[KEPT],
            "cacheWriteInputTokens": counts[WRITTEN],
            "outputTokens": 1,
            "totalTokens": sum(counts.values()) + 1,
        }
        message = {"role": "assistant", "content": [{"text": "yes"}]}
        return {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}


@pytest.fixture
def caching(server: Server) -> Caching:
    service = Caching()
    server.answer_with(service.answer)
    return service


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Eight questions about two records, which the data has in turn."""
    place = tmp_path / "records"
    place.mkdir()
    (place / "benchmark.yaml").write_text(DEFINITION, encoding="utf-8")
    rows = [
        {"id": f"{name}-{n}", "record": record, "question": f"Is it {n}?", "answer": "yes"}
        for n in range(N)
        for name, record in RECORDS.items()
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    (place / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    (place / "sample.jsonl").write_text("".join(lines[:1]), encoding="utf-8")
    return place


Run = Callable[..., Any]
"""Runs the questions with a model of some provider, and gives its run as JSON."""


@pytest.fixture
def run(medhelm: Medhelm, benchmark: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, key in {**KEYS, "AWS_REGION": "eu-central-1"}.items():
        monkeypatch.setenv(name, key)

    def run(provider: str, store: str = "store", *, code: int = 0, **changes: Any) -> Any:
        vendor = VENDORS[provider]
        definition = {"provider": provider, "model": "m", "base_url": server.url + vendor.base, "key": vendor.variable}
        content = {"m": {**definition, "price": PRICE, **changes}}
        (tmp_path / "models.yaml").write_text(json.dumps(content), encoding="utf-8")
        found = medhelm(
            "run", benchmark, "--model", "m", "--models", tmp_path / "models.yaml", "--data", tmp_path,
            "--store", tmp_path / store, "--json",
        )  # fmt: skip
        assert found.code == code, found.err
        return found.json["runs"][0]

    return run


def dollars(new: float, kept: float, written: float) -> float:
    return (3.0 * new + 0.3 * kept + 3.75 * written + 15.0 * 2 * N) / 1e6


@pytest.mark.parametrize("provider", ["anthropic", "bedrock", "openai"])
def test_each_record_is_written_once_and_read_at_a_tenth(caching: Caching, run: Run, provider: str) -> None:
    found = run(provider)
    assert len(caching.kept) == len(RECORDS)
    assert all(RECORDS[name].strip() in opening for name, opening in zip(RECORDS, caching.kept, strict=True))
    heads = [len(opening) for opening in caching.kept]
    kept, written = (N - 1) * sum(heads), sum(heads)
    whole = sum(map(len, caching.texts))
    assert found["tokens"] == {
        "input": whole, "cached_input": kept, "output": 2 * N, "reasoning": 0, "cache_write": written,
    }  # fmt: skip
    assert found["cost_usd"] == pytest.approx(dollars(whole - kept - written, kept, written))
    assert found["cost_usd"] < 0.45 * dollars(whole, 0, 0)
    assert found["metrics"]["exact_match"]["value"] == 1.0


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
@pytest.mark.parametrize(
    "changes",
    [
        {"price": {"input": 3.0, "output": 15.0}},
        {"price": {"input": 3.0, "output": 15.0, "cached_input": 3.0}},
        {"parameters": {"cache_control": None, "cachePoint": None}},
    ],
    ids=["no price of its own", "nothing to save", "left out by its owner"],
)
def test_nothing_is_marked_where_that_saves_nothing(
    caching: Caching, run: Run, provider: str, changes: dict[str, Any]
) -> None:
    found = run(provider, **changes)
    assert (caching.kept, found["tokens"]["cache_write"]) == ([], 0)
    assert found["cost_usd"] == pytest.approx(dollars(sum(map(len, caching.texts)), 0, 0))


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({}, 0),
        ({"parameters": {"prompt_cache_options": None}}, 2),
        ({"parameters": {"prompt_cache_options": {"mode": "implicit"}}}, 2),
        ({"price": {**PRICE, "cache_write": 3.0}}, 2),
        ({"price": {"input": 3.0, "cached_input": 0.3, "output": 15.0}}, 2),
    ],
    ids=["writing costs", "left out by its owner", "set by its owner", "writing costs nothing", "older models"],
)
def test_openai_keeps_nothing_that_nobody_shares_where_that_costs(
    caching: Caching, run: Run, benchmark: Path, server: Server, changes: dict[str, Any], written: int
) -> None:
    """By itself it writes every prompt into its cache, at a quarter more than the price of input."""
    rows = (benchmark / "rows.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[: len(RECORDS)]
    (benchmark / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    found = run("openai", **changes)
    assert (len(caching.kept), found["tokens"]["cache_write"] > 0) == (written, written > 0)
    assert ("prompt_cache_options" in server.bodies[0]) == (not written or "implicit" in json.dumps(changes))
    assert all("prompt_cache_key" not in body for body in server.bodies)


def test_openai_is_told_which_requests_belong_together(caching: Caching, run: Run, server: Server) -> None:
    run("openai")
    keys = {body["prompt_cache_key"]: body["messages"][0]["content"][0]["text"] for body in server.bodies}
    assert len(keys) == len(set(keys.values())) == len(RECORDS)
    assert not any(word in key for key in keys for word in ("Ada", "Bob")), "a key says nothing about a patient"


def test_the_models_read_the_same_with_the_mark_and_the_records_stand_in_their_order(
    caching: Caching, run: Run, tmp_path: Path
) -> None:
    marked = run("anthropic")
    plain = run("anthropic", "other", parameters={"cache_control": None})
    half = len(caching.texts) // 2
    assert sorted(caching.texts[:half]) == sorted(caching.texts[half:])
    rows = []
    for one in (marked, plain):
        table = f"read_parquet('{Path(one['run_dir']) / 'records.parquet'}')"
        query = f"SELECT position, instance_id, refused_parts FROM {table}"
        with duckdb.connect() as connection:
            rows.append(connection.execute(query).fetchall())
    expected = [(2 * n + place, f"{name}-{n}", "") for n in range(N) for place, name in enumerate(RECORDS)]
    assert rows == [expected, expected]


def refusal(message: str, **more: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message, **more}}


UNSUPPORTED = {
    "bedrock": Answer(
        status=403,
        body={"message": "You invoked an unsupported model or your request did not allow prompt caching."},
        headers={"x-amzn-errortype": "AccessDeniedException"},
    ),
    "anthropic": Answer(
        status=400, body=refusal("messages.0.content.0.text.cache_control: Extra inputs are not permitted")
    ),
    "openai": Answer(
        status=400,
        body=refusal(
            "Unknown parameter: 'prompt_cache_options'.", param="prompt_cache_options", code="unknown_parameter"
        ),
    ),
}
"""Provider -> what it says of a mark that the model does not know."""


@pytest.mark.parametrize("provider", UNSUPPORTED)
def test_a_model_that_knows_no_cache_is_asked_without_the_mark(
    server: Server, caching: Caching, run: Run, provider: str
) -> None:
    def decide(asked: dict[str, Any]) -> Answer:
        if any(mark in json.dumps(asked) for mark in ("cache_control", "cachePoint", "prompt_cache")):
            return UNSUPPORTED[provider]
        caching.texts.append("")
        return VENDORS[provider].answer("yes")

    server.answer_with(decide)
    found = run(provider)
    assert (found["status"], found["n_failed"], len(caching.texts)) == ("complete", 0, 2 * N)
    assert found["requests_sent"] == 2 * N + len(RECORDS), "the first about each record is asked again"
    text = json.dumps(json.loads((Path(found["run_dir"]) / "run.json").read_text(encoding="utf-8")))
    assert "cache_refused" not in text
