"""Every benchmark sends the requests it always sent: their digests are the keys under which completions are kept.

`golden/request_digests.json` has for each benchmark, on its invented rows, the number of requests and one sha256 over
their digests: to a chat model, to a reasoning model, and to a judge about a fixed completion, by each rubric. If a
digest changes, nothing that was bought before is found any more. After a change that is meant, write the file anew:

    MEDHELM_UPDATE_GOLDEN=1 pytest tests/architecture/test_request_digests.py
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

GOLDEN = Path(__file__).parents[1] / "golden" / "request_digests.json"
UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))

PORT = 9
"""Port in the models' address, which is part of a digest; connections to it are led to the server of the test."""

MODELS = """\
chat: {provider: openai, model: chat, base_url: "http://127.0.0.1:9/v1"}
thinker: {provider: openai, model: thinker, base_url: "http://127.0.0.1:9/v1", reasoning: true, reasoning_effort: low}
judge: {provider: openai, model: judge, base_url: "http://127.0.0.1:9/v1"}
"""

COMPLETION = "The patient is stable; follow up in two weeks."


def respond(body: Mapping[str, Any]) -> Answer:
    """Models give a fixed completion; the judge grades whatever criteria its schema names, so that it is asked once."""
    if body["model"] != "judge":
        return chat(COMPLETION)
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    cell = {"score": 3, "explanation": "as seen"}
    if "criteria_met" in properties:
        return chat(json.dumps({"criteria_met": True, "explanation": "as seen"}))
    return chat(json.dumps({name: cell for name in properties if name != "verification_code"}))


@pytest.fixture
def at_fixed_address(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The test's server, reached at a port that is always the same and that nothing has to be bound to."""
    connect = asyncio.selector_events.BaseSelectorEventLoop.sock_connect

    async def redirected(loop: Any, sock: Any, address: Any) -> None:
        await connect(loop, sock, (address[0], server.port, *address[2:]) if address[1] == PORT else address)

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", redirected)
    return server


def combined(file: Path, order: str) -> dict[str, Any]:
    """Number and sha256 of the digests in one of a run's tables."""
    query = f"SELECT request_digest FROM read_parquet('{file}') ORDER BY {order}"
    digests = [row[0] for row in duckdb.execute(query).fetchall()]
    assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)
    return {"requests": len(digests), "sha256": hashlib.sha256("\n".join(digests).encode()).hexdigest()}


def test_requests_of_every_benchmark_are_as_recorded(
    medhelm: Medhelm, at_fixed_address: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "invented")
    at_fixed_address.answer_with(respond)
    Path("models.yaml").write_text(MODELS, encoding="utf-8")
    asked = ["--model", "chat", "--model", "thinker", "--judge", "judge", "--min-judges", "1"]
    done = medhelm("run", "all", "healthbench", "--tier", "sample", *asked, "--offline", "--json")
    assert done.code == 0, done.err
    more = ["--rubric", "extended", "--model", "chat", "--judge", "judge", "--min-judges", "1"]
    assert medhelm("run", "open", "--tier", "sample", *more, "--offline", "--json").code == 0
    found: dict[str, dict[str, Any]] = {}
    for run in sorted(Path("medhelm-store").glob("runs/*/*/run.json")):
        model = run.parent.name.partition("-")[0]
        own = found.setdefault(run.parent.parent.name, {})
        own[model] = combined(run.with_name("records.parquet"), "position")
        if model == "chat" and (replies := run.with_name("replies.parquet")).exists():
            rubric = json.loads(run.read_text(encoding="utf-8"))["sitting"].get("rubric", "")
            judge = "judge, extended rubric" if rubric == "extended" else "judge"
            own[judge] = combined(replies, "position, part, attempt")
    assert len(found) == 38
    assert sum("judge" in own for own in found.values()) == 14
    assert sum("judge, extended rubric" in own for own in found.values()) == 13
    if UPDATE:
        GOLDEN.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8", newline="\n")
    assert json.loads(GOLDEN.read_text(encoding="utf-8")) == found
