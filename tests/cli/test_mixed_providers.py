"""A run of models and judges of every provider, through the command line and the one client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.judged import CRITERIA, verdict, write_benchmark
from tests.support.cli import Medhelm, repeated, succeeded
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
    prices = dict(zip(("input", "cached_input", "output"), price, strict=True)) | {"cache_write": 2 * price[0]}
    known = {"provider": vendor.provider, "model": model, "base_url": base, "key": vendor.variable}
    return json.dumps({**known, "price": prices})


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


def test_all_providers_and_three_judges_in_one_run_with_the_right_bill(
    medhelm: Medhelm, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        """Models answer, judges grade, each in its vendor's form; a judge's schema is where its vendor wants it."""
        vendor = vendor_at(server.paths[-1])
        if "Grade" not in vendor.prompt_of(body):
            return vendor.answer(f"It is so, says {vendor.provider}.")
        assert vendor.schema_of(body) is not None
        return vendor.answer(verdict(*(4 for _ in CRITERIA)))

    server.answer_with(answer)
    for name, key in {**KEYS, "AWS_REGION": "eu-central-1"}.items():
        monkeypatch.setenv(name, key)
    lines = [f"{name}-m: {entry(vendor, server, 'm', PRICES[name])}\n" for name, vendor in VENDORS.items()]
    lines += [f"{name}-judge: {entry(VENDORS[name], server, 'judge', JUDGE_PRICE)}\n" for name in JUDGES]
    (tmp_path / "models.yaml").write_text("".join(lines), encoding="utf-8")
    names = (*repeated("--model", (f"{v}-m" for v in VENDORS)), *repeated("--judge", (f"{v}-judge" for v in JUDGES)))
    run_all = ("run", write_benchmark(tmp_path, n=N), *names, "--models", "models.yaml", "--json")
    outcome = succeeded(medhelm(*run_all))
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

    again = medhelm(*run_all)
    assert (again.code, again.json["requests_sent"], again.json["cost_usd"]) == (0, 0, 0.0)
