"""What is sent as a seed, to whom, and what becomes of it where it is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.client import Client, SendingLimits
from medhelm.models.providers import open_provider
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS, Vendor

SEEDED = ("openai", "azure", "google", "vertex")
"""Vendors whose API has a seed. Anthropic's and Bedrock's have none."""

PROMPT = Prompt((Message("user", "Is it Monday?"),))

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))


def ask(asked: Model, sample: int = 0) -> Completion:
    async def main() -> Completion:
        http = HttpClient(EgressPolicy(offline=True))
        try:
            provider = open_provider(asked, http, environment=KEYS)
            client = Client(cache=None, budget=Budget(None), limits=SendingLimits(attempts=1))
            request = Request(model=asked, prompt=PROMPT, max_tokens=5, sample=sample)
            return (await client.complete(provider, request)).completion
        finally:
            await http.close()

    return asyncio.run(main())


def seed_in(body: dict[str, Any]) -> int | None:
    """The seed of a request in any vendor's form."""
    found = [part["seed"] for part in (body, body.get("generationConfig", {})) if "seed" in part]
    assert json.dumps(body).count('"seed"') == len(found) <= 1
    return found[0] if found else None


@every_vendor
def test_a_seed_goes_to_those_who_have_one(vendor: Vendor, server: Server) -> None:
    server.script(vendor.answer("A"))
    completions = [
        ask(vendor.model(server.url)),
        ask(vendor.model(server.url), sample=3),
        ask(vendor.model(server.url, parameters={"seed": None})),
        *([ask(vendor.model(server.url, parameters={"seed": 7}), sample=2)] if vendor.provider in SEEDED else []),
    ]
    has_one = vendor.provider in SEEDED
    assert [seed_in(body) for body in server.bodies] == ([0, 3, None, 9] if has_one else [None] * 3)
    assert {completion.refused_parameters for completion in completions} == {()}


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize(
    "words", ["Unrecognized request argument supplied: seed", 'Invalid JSON payload received. Unknown name "seed"']
)
def test_a_refused_seed_is_left_out_at_once_and_said(name: str, words: str, server: Server) -> None:
    vendor = VENDORS[name]

    def decide(body: dict[str, Any]) -> Answer:
        if seed_in(body) is None:
            return vendor.answer("A")
        return Answer(status=400, body={"error": {"message": words, "code": 400, "status": "INVALID_ARGUMENT"}})

    server.answer_with(decide)
    completion = ask(vendor.model(server.url))  # which may try but once: a refused part is no attempt
    assert (completion.text, completion.refused_parameters) == ("A", ("seed",))
    assert [seed_in(body) for body in server.bodies] == [0, None]


def test_the_seed_of_a_selection_is_not_that_of_the_model(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    """`--seed` chooses questions; completions bought with one are those of any other."""
    make_benchmark(tmp_path, n=2)
    server.answer_with(lambda body: chat("A"))
    asked = ("run", "./toy", "--model", f"openai/m@{server.url}/v1", "--store", "store", "--json")
    medhelm(*asked)
    again = medhelm(*asked, "--seed", "5").json
    assert (again["requests_sent"], again["runs"][0]["requests_cached"]) == (0, 2)
    assert {seed_in(body) for body in server.bodies} == {0}
