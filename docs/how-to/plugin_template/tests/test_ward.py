"""MedHELM finds the plug-ins, and each of them works. Install the package first: `pip install -e .`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from medhelm_ward.metric import WARD
from medhelm_ward.provider import Ward

from medhelm.domain import Instance, Message, Model, Prompt, Reference, Request
from medhelm.errors import DataError


def medhelm(*words: str) -> str:
    command = [sys.executable, "-m", "medhelm", *words]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_medhelm_finds_every_plug_in() -> None:
    ours = [one for one in json.loads(medhelm("plugins", "--json"))["plugins"] if one["package"] == "medhelm-ward"]
    assert [one["problems"] for one in ours] == [[], [], []]


def test_the_references_of_the_benchmark_get_the_best_score() -> None:
    medhelm("benchmarks", "check", "ward", "--tier", "sample")


class Http:
    """Takes the place of the HTTP client, and keeps what was sent."""

    async def post_json(self, url: str, *, headers: Any, payload: Any) -> Any:
        """Return a response as the server gives it."""
        self.sent = (url, payload)
        return SimpleNamespace(status=200, body=b'{"answer": "swollen", "tokens": [9, 1]}', latency_s=0.1)


def test_a_request_becomes_a_completion() -> None:
    http: Any = Http()
    model = Model(name="ward/m1", provider="ward", remote_name="m1", base_url="http://127.0.0.1:1")
    request = Request(model=model, prompt=Prompt((Message("user", "Name the findings."),)), max_tokens=5)
    completion = asyncio.run(Ward(model, http, "").complete(request))
    assert (completion.text, completion.usage.output) == ("swollen", 1)
    assert http.sent == ("http://127.0.0.1:1/answer", {"model": "m1", "question": "Name the findings.", "limit": 5})


def score(completion: str, reference: str) -> float:
    return WARD.corrected(completion, Instance(id="1", fields={}, references=(Reference(reference),)))


def test_terms_are_counted_in_any_case() -> None:
    assert score("Swollen and red", "swollen; warm") == 0.5
    assert score("", "swollen; warm") == 0.0
    with pytest.raises(DataError):  # a reference without terms
        score("swollen", " ; ")
