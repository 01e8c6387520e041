"""A run of models and judges of every provider, through the command line and the one client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.judged import CRITERIA, verdict, write_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS, Vendor

N = 4
"""Questions."""

PRICES = {name: (1.0 + i, 0.25 * (1 + i), 10.0 + i) for i, name in enumerate(VENDORS)}
"""Provider -> US dollars per million input, cached input and output tokens."""

JUDGES = ("anthropic", "google", "openai")
"""Whose models judge; each has another price than those it judges."""

JUDGE_PRICE = (100.0, 50.0, 200.0)


def cost_usd(price: tuple[float, float, float], vendor: Vendor) -> float:
    """Of one reply: 16 new tokens, of which those that were put into the cache cost twice, 4 cached ones, 5 written."""
    fresh, cached, written = price
    return ((16 + vendor.cache_write) * fresh + 4 * cached + 5 * written) / 1e6


def entry(vendor: Vendor, server: Server, model: str, price: tuple[float, float, float]) -> str:
    base = (server.url + vendor.base).replace("/deployments/m", f"/deployments/{model}")
    fresh, cached, written = price
    return json.dumps(
        {
            "provider": vendor.provider,
            "model": model,
            "base_url": base,
            "key": vendor.variable,
            "price": {"input": fresh, "cached_input": cached, "cache_write": 2 * fresh, "output": written},
        }
    )


@pytest.fixture
def everybody(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models.yaml with a model of each provider and three judges, all at one server."""
    for name, key in {**KEYS, "AWS_REGION": "eu-central-1"}.items():
        monkeypatch.setenv(name, key)
    lines = [f"{name}-m: {entry(vendor, server, 'm', PRICES[name])}\n" for name, vendor in VENDORS.items()]
    lines += [f"{name}-judge: {entry(VENDORS[name], server, 'judge', JUDGE_PRICE)}\n" for name in JUDGES]
    file = tmp_path / "models.yaml"
    file.write_text("".join(lines), encoding="utf-8")
    return file


def vendor_at(path: str) -> Vendor:
    """Whose API a request was meant for, by where it arrived."""
    marks = {
        "/v1/messages": "anthropic",
        "/v1/chat/completions": "openai",
        "/openai/": "azure",
        "/v1beta/": "google",
        "/v1/projects/": "vertex",
        "/converse": "bedrock",
    }
    return VENDORS[next(name for mark, name in marks.items() if mark in path)]


def answer(server: Server, body: dict[str, Any]) -> Answer:
    """Models answer, judges grade, each in its vendor's form; a judge's schema is where its vendor wants it."""
    vendor = vendor_at(server.paths[-1])
    asked_of_judge = "Grade" in vendor.prompt_of(body) or vendor.schema_of(body) is not None
    if not asked_of_judge:
        return vendor.answer(f"It is so, says {vendor.provider}.")
    assert vendor.schema_of(body) is not None
    return vendor.answer(verdict(*(4 for _ in CRITERIA)))


def test_all_providers_and_three_judges_in_one_run_with_the_right_bill(
    medhelm: Medhelm, everybody: Path, server: Server, tmp_path: Path
) -> None:
    server.answer_with(lambda body: answer(server, body))
    benchmark = write_benchmark(tmp_path, n=N)
    models = [part for name in VENDORS for part in ("--model", f"{name}-m")]
    judges = [part for name in JUDGES for part in ("--judge", f"{name}-judge")]
    outcome = succeeded(
        medhelm("run", benchmark, *models, *judges, "--models", everybody, "--data", tmp_path, "--json")
    )
    runs = {run["model"]: run for run in outcome.json["runs"]}
    assert set(runs) == {f"{name}-m" for name in VENDORS}
    for name in VENDORS:
        run = runs[f"{name}-m"]
        assert (run["status"], run["n"], run["n_failed"], run["requests_sent"]) == ("complete", N, 0, N)
        tokens = {"input": 20, "cached_input": 4, "output": 5, "reasoning": 0, "cache_write": VENDORS[name].cache_write}
        assert run["tokens"] == {kind: N * count for kind, count in tokens.items()}
        assert run["cost_usd"] == pytest.approx(N * cost_usd(PRICES[name], VENDORS[name]))
        assert run["metrics"]["jury"]["value"] == 4.0
    judged = N * len(JUDGES) * len(VENDORS)
    assert server.count == N * len(VENDORS) + judged == outcome.json["requests_sent"]
    bill = sum(N * cost_usd(price, VENDORS[name]) for name, price in PRICES.items())
    bill += N * len(VENDORS) * sum(cost_usd(JUDGE_PRICE, VENDORS[name]) for name in JUDGES)
    assert outcome.json["cost_usd"] == pytest.approx(bill)

    store = tmp_path / "medhelm-store"
    kept = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert not any(key.encode() in kept for key in KEYS.values())
    assert not any(key in outcome.out + outcome.err for key in KEYS.values())

    again = medhelm("run", benchmark, *models, *judges, "--models", everybody, "--data", tmp_path, "--json")
    assert (again.code, again.json["requests_sent"], again.json["cost_usd"]) == (0, 0, 0.0)


def test_a_provider_that_fails_does_not_stop_the_others(
    medhelm: Medhelm, everybody: Path, server: Server, tmp_path: Path
) -> None:
    """One key is wrong, and one model's limit goes into thought; the other models are scored."""

    def decide(body: dict[str, Any]) -> Answer:
        vendor = vendor_at(server.paths[-1])
        if vendor.provider == "azure":
            return vendor.errors["wrong key"]
        if vendor.provider == "vertex":
            return vendor.answer(None, finish="length", thought=5)
        return answer(server, body)

    server.answer_with(decide)
    benchmark = write_benchmark(tmp_path, n=N)
    models = [part for name in ("openai", "azure", "vertex", "bedrock") for part in ("--model", f"{name}-m")]
    judges = [part for name in JUDGES for part in ("--judge", f"{name}-judge")]
    outcome = medhelm("run", benchmark, *models, *judges, "--models", everybody, "--data", tmp_path, "--json")
    assert outcome.code == 1, outcome.err
    runs = {run["model"]: run for run in outcome.json["runs"]}
    assert (runs["openai-m"]["n_failed"], runs["bedrock-m"]["n_failed"]) == (0, 0)
    thinker = runs["vertex-m"]
    assert (thinker["n"], thinker["n_failed"]) == (N, N)
    assert thinker["cost_usd"] == pytest.approx(N * cost_usd(PRICES["vertex"], VENDORS["vertex"]))
    assert thinker["metrics"] == {}
    assert "azure-m" in outcome.err
    assert "AZURE_OPENAI_API_KEY" in outcome.err
    server.answer_with(lambda body: answer(server, body))
    count = server.count
    medhelm("run", benchmark, "--model", "vertex-m", *judges, "--models", everybody, "--data", tmp_path)
    assert server.count == count
