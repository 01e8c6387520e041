"""The JSON interface against its own OpenAPI document: schemathesis sends valid, invalid and hostile requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events
from starlette.testclient import TestClient

from medhelm.domain import Taxonomy
from medhelm.extensions.web.api import OPERATIONS, openapi
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.page import ROUTES
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.io.http import mounted_pages
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.storage.live_status import JudgeProgress
from tests.support.running import make_ended, make_run
from tests.support.stores import make_store
from tests.support.web.sites import HOST, make_board_store, make_client

TOKEN = "a-token-of-tests"

REAL = {
    "benchmark": ["pubmed_qa", "mtsamples"], "case": ["i000"], "category": ["clinical_decision_support"],
    "subcategory": ["some_work"], "access": ["public"], "suite": ["paper35"], "model": ["openai/model-1"],
    "got": ["openai/model-1"], "missed": ["openai/model-3"], "failure": [], "before": ["2026-10"],
    "now": ["current", "2026-10"], "group": [], "results": ["own"], "a": ["openai/model-1"], "b": ["openai/model-2"],
}  # fmt: skip
"""Parameter -> values that the invented store knows; a parameter without any is left out."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_board_store(tmp_path_factory.mktemp("api"))
    freeze(place, "2026-10", BoardOptions())
    changed = {"pubmed_qa": {"openai/model-3@http://127.0.0.1:9/v1": [1.0] * 40}}
    taxonomy = Taxonomy(category="medical_research_assistance", subcategory="some_work")
    make_store(place, changed, started="2026-02-01T00:00:00+00:00", taxonomy=taxonomy)
    runs = make_run(judges={"openai/judge": JudgeProgress(expected=30, failed=1)}), make_run(state="waiting", done=0)
    make_ended(place, state="ended", reason="interrupt", runs=runs)
    return place


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[TestClient]:
    with make_client(store) as made:
        yield made


def problems(store: Path, document: dict[str, Any], mode: str) -> str:
    """Run schemathesis with all of its checks for responses; return what it found, and what it could not run.

    The document is closed for it: a key of a result that has no schema is an error here.
    """
    off = {"enabled": False}
    config = SchemathesisConfig.from_dict(
        {
            "seed": 7,
            "headers": {"Authorization": f"Bearer {TOKEN}"},
            "generation": {
                "mode": mode,
                "deterministic": True,
                "no-shrink": True,
                "database": "none",
                "max-examples": 3,
            },
            "phases": {"stateful": off, "examples": off},
        }
    )
    schema = schemathesis.openapi.from_dict(closed(document), config=config)
    schema.app = create_app(Site(stores=[store]), Security(hosts=[HOST], token=TOKEN))
    found: list[str] = []
    n = 0
    for event in engine.from_schema(schema).execute():
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            found.append(repr(event))
        if isinstance(event, events.ScenarioFinished):
            for key, checks in event.recorder.checks.items():
                n += len(checks)
                case = event.recorder.cases[key].value.as_curl_command()
                found += [f"{one.name}: {case}: {one.failure_info.failure}" for one in checks if one.failure_info]
    assert n > 500, "schemathesis ran"
    return "\n".join(dict.fromkeys(found))


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no keys but those that it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(one) for key, one in schema.items()}
    is_record = isinstance(found.get("properties"), dict) and "object" in found.get("type", ())
    return {**found, "additionalProperties": False} if is_record else found


@pytest.mark.long
@pytest.mark.parametrize("values", [{}, REAL], ids=["any", "known"])
def test_every_response_is_as_documented(
    store: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, list[str]]
) -> None:
    monkeypatch.setattr(mounted_pages, "MOST_FAILURES", 10**9)
    document = json.loads(json.dumps(openapi()))
    for path in document["paths"].values():
        path["get"]["parameters"] = [one for one in path["get"]["parameters"] if values.get(one["name"], [""])]
        for one in path["get"]["parameters"]:
            if one["name"] in values:
                one["schema"] = {"type": "string", "enum": values[one["name"]]}
    assert problems(store, document, "positive" if values else "all") == ""


def test_the_document_is_valid_and_complete(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    schemathesis.openapi.from_dict(document).validate()
    assert set(document["paths"]) == {route.path for route in ROUTES if route.path.startswith("/api/")}
    assert {route.name for route in ROUTES if route.path.startswith("/api/")} == OPERATIONS.keys()


def test_errors_are_json_and_pages_stay_pages(client: TestClient, store: Path) -> None:
    stranger = make_client(store, signed_in=False)
    for browser, path, status, words in (
        (client, "/api/nothing", 404, ""),
        (client, "/leaderboard.json?access=x", 400, ""),
        (client, "/api/leaderboard?category=x", 404, ""),
        (client, "/api/leaderboard?catgory=x", 400, "The parameter `catgory` is not known here. Known: access,"),
        (client, "/api/compare?a=openai/model-1", 400, "The parameter `b` is missing."),
        (stranger, "/api/leaderboard", 401, ""),
    ):
        found = browser.get(path)
        error = found.json()["error"]
        assert (found.status_code, error["status"], words in error["message"]) == (status, status, True)
        assert found.headers["content-type"] == "application/json"
    refused = client.post("/api/leaderboard")
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    for page in (client.get("/nothing"), stranger.get("/")):
        assert page.headers["content-type"].startswith("text/html")
