"""Long beginnings that prompts share: marked, sent in the order that uses the provider's cache, and billed as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS

PRICE = {"input": 3.0, "cached_input": 0.3, "cache_write": 3.75, "output": 15.0}
RECORDS = {"ada": "Ada was admitted with a cough. " * 120, "bob": "Bob has had a rash since May. " * 120}
N = 4
"""Questions about each record."""


MARKS = {"cache_control", "prompt_cache_breakpoint"}


class Caching:
    """A service that keeps what is marked, and counts characters for tokens. It speaks two dialects; in OpenAI's it
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
        texts = [block["text"] for block in blocks]
        assert all(text.strip() for text in texts)
        opening = "".join(texts[: marks[0] + 1]) if marks else ""
        self.texts.append("".join(texts))
        read = len(opening) if opening in self.kept else 0
        written = len(opening) - read
        if written:
            self.kept.append(opening)
        if "seed" not in body:
            usage = {"input_tokens": len(self.texts[-1]) - len(opening), "output_tokens": 1}
            usage |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
            reply = {"content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn", "model": "m"}
            return Answer(body={**reply, "usage": usage})
        details = {"cached_tokens": read, "cache_write_tokens": written}
        counts = {"prompt_tokens": len(self.texts[-1]), "completion_tokens": 1, "prompt_tokens_details": details}
        return Answer(body={**chat("yes").body, "usage": counts})  # type: ignore[dict-item]


@pytest.fixture
def caching(server: Server) -> Caching:
    service = Caching()
    server.answer_with(service.answer)
    return service


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Eight questions about two records, which the data has in turn."""
    place = make_benchmark(tmp_path, name="records")
    definition = (place / "benchmark.yaml").read_text(encoding="utf-8")
    prompt = "  Record: {record}\n\n  Question"
    (place / "benchmark.yaml").write_text(definition.replace("  Question", prompt), encoding="utf-8")
    rows = [
        {"id": f"{name}-{n}", "record": record, "question": f"Is it {n}?", "answer": "A", "topic": "0"}
        for n in range(N)
        for name, record in RECORDS.items()
    ]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return place


Run = Callable[..., Any]
"""Runs the questions with a model of some provider, and gives its run as JSON."""


@pytest.fixture
def run(medhelm: Medhelm, benchmark: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, key in {**KEYS, "AWS_REGION": "eu-central-1"}.items():
        monkeypatch.setenv(name, key)

    def run(provider: str, store: str = "store", **changes: Any) -> Any:
        vendor = VENDORS[provider]
        definition = {"provider": provider, "model": "m", "base_url": server.url + vendor.base, "key": vendor.variable}
        content = {"m": {**definition, "price": PRICE, **changes}}
        (tmp_path / "models.yaml").write_text(json.dumps(content), encoding="utf-8")
        found = medhelm(
            "run", benchmark, "--model", "m", "--models", tmp_path / "models.yaml", "--data", tmp_path,
            "--store", tmp_path / store, "--json",
        )  # fmt: skip
        assert found.code == 0, found.err
        return found.json["runs"][0]

    return run


def dollars(new: float, kept: float, written: float) -> float:
    return (3.0 * new + 0.3 * kept + 3.75 * written + 15.0 * 2 * N) / 1e6


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
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


@pytest.mark.parametrize(
    "changes",
    [{"price": {"input": 3.0, "output": 15.0}}, {"parameters": {"cache_control": None}}],
    ids=["no price of its own", "left out by its owner"],
)
def test_nothing_is_marked_where_that_saves_nothing(caching: Caching, run: Run, changes: dict[str, Any]) -> None:
    found = run("anthropic", **changes)
    assert (caching.kept, found["tokens"]["cache_write"]) == ([], 0)
    assert found["cost_usd"] == pytest.approx(dollars(sum(map(len, caching.texts)), 0, 0))


@pytest.mark.parametrize(("cache_write", "written"), [(3.75, 0), (3.0, 2)], ids=["writing costs", "writing is free"])
def test_openai_keeps_nothing_that_nobody_shares_where_that_costs(
    caching: Caching, run: Run, benchmark: Path, cache_write: float, written: int
) -> None:
    """By itself it writes every prompt into its cache, at a quarter more than the price of input."""
    rows = (benchmark / "rows.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[: len(RECORDS)]
    (benchmark / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    found = run("openai", price={**PRICE, "cache_write": cache_write})
    assert (len(caching.kept), found["tokens"]["cache_write"] > 0) == (written, written > 0)


def test_openai_is_told_which_requests_belong_together(caching: Caching, run: Run, server: Server) -> None:
    run("openai")
    keys = {body["prompt_cache_key"]: body["messages"][0]["content"][0]["text"] for body in server.bodies}
    assert len(keys) == len(set(keys.values())) == len(RECORDS)
    assert not any(word in key for key in keys for word in ("Ada", "Bob")), "a key says nothing about a patient"


def test_the_models_read_the_same_with_the_mark_and_the_records_stand_in_their_order(
    caching: Caching, run: Run
) -> None:
    folder = run("anthropic")["run_dir"]
    run("anthropic", "other", parameters={"cache_control": None})
    half = len(caching.texts) // 2
    assert sorted(caching.texts[:half]) == sorted(caching.texts[half:])
    rows = duckdb.read_parquet(f"{folder}/records.parquet").select("position", "instance_id").fetchall()
    assert rows == [(2 * n + place, f"{name}-{n}") for n in range(N) for place, name in enumerate(RECORDS)]


UNSUPPORTED = {
    "bedrock": Answer(
        status=403,
        body={"message": "You invoked an unsupported model or your request did not allow prompt caching."},
        headers={"x-amzn-errortype": "AccessDeniedException"},
    ),
    "anthropic": Answer(
        status=400,
        body={"error": {"message": "messages.0.content.0.text.cache_control: Extra inputs are not permitted"}},
    ),
    "openai": Answer(
        status=400,
        body={"error": {"message": "Unknown parameter: 'prompt_cache_options'.", "param": "prompt_cache_options"}},
    ),
}
"""Provider -> what it says of a mark that the model does not know."""


@pytest.mark.parametrize("provider", UNSUPPORTED)
def test_a_model_that_knows_no_cache_is_asked_without_the_mark(server: Server, run: Run, provider: str) -> None:
    def decide(asked: dict[str, Any]) -> Answer:
        is_marked = any(mark in json.dumps(asked) for mark in ("cache_control", "cachePoint", "prompt_cache"))
        return UNSUPPORTED[provider] if is_marked else VENDORS[provider].answer("yes")

    server.answer_with(decide)
    found = run(provider)
    assert (found["status"], found["n_failed"]) == ("complete", 0)
    assert found["requests_sent"] == 2 * N + len(RECORDS), "the first about each record is asked again"
