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
from medhelm.extensions.web import security as security_module
from medhelm.extensions.web.api import OPERATIONS, openapi
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.page import ROUTES
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.storage.live_status import EvaluationStatus, JudgeProgress, RunProgress, StatusFile, new_id
from medhelm.storage.store import open_store
from tests.support.stores import make_store
from tests.support.web.sites import HOST, make_board_store, make_client

TOKEN = "a-token-of-tests"

REAL = {
    "benchmark": ["pubmed_qa", "head_qa", "medec", "mtsamples"],
    "case": ["i000", "i039"],
    "category": ["clinical_decision_support", "medical_research_assistance"],
    "subcategory": ["some_work"],
    "access": ["public"],
    "suite": ["paper35", "suite37"],
    "model": ["openai/model-1", "baseline/majority"],
    "got": ["openai/model-1"],
    "missed": ["openai/model-3"],
    "failure": [],
    "before": ["2026-10"],
    "now": ["current", "2026-10"],
    "group": [],
    "results": ["own"],
    "a": ["openai/model-1"],
    "b": ["openai/model-2", "baseline/majority"],
}
"""Parameter -> values that the invented store knows; a parameter without any is left out."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_board_store(tmp_path_factory.mktemp("api"))
    freeze(place, "2026-10", BoardOptions())
    changed = {"pubmed_qa": {"openai/model-3@http://127.0.0.1:9/v1": [1.0] * 40}}
    taxonomy = Taxonomy(category="medical_research_assistance", subcategory="some_work")
    make_store(place, changed, started="2026-02-01T00:00:00+00:00", taxonomy=taxonomy)
    add_evaluation(place)
    return place


def add_evaluation(store: Path) -> None:
    """Leave the status of an evaluation that was stopped."""
    judges = {"openai/judge": JudgeProgress(expected=30, failed=1)}
    failures = {"timeout": 2}
    runs = (
        RunProgress(
            model="openai/model-1", benchmark="mtsamples", state="ended", n=40, done=10, n_failed=2, failures=failures
        ),
        RunProgress(model="openai/model-2", benchmark="mtsamples", state="waiting", n=40, judges=judges),
    )
    started = "2026-02-01T00:00:00.000+00:00"
    file = StatusFile(open_store(store), new_id(started))
    file.write(
        EvaluationStatus(
            id=file.evaluation,
            pid=1,
            host="here",
            command=("run", "mtsamples"),
            folder="/work",
            started=started,
            updated=started,
            state="ended",
            reason="interrupt",
            runs=runs,
        )
    )
    file.close(keep_status=True)


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[TestClient]:
    with make_client(store) as made:
        yield made


def problems(store: Path, document: dict[str, Any], **settings: Any) -> str:
    """Run schemathesis with all of its checks for responses; return what it found, and what it could not run.

    The document is closed for it: a key of a result that has no schema is an error here.
    """
    off = {"enabled": False}
    config = SchemathesisConfig.from_dict(
        {
            "seed": 7,
            "headers": {"Authorization": f"Bearer {TOKEN}"},
            "generation": {"deterministic": True, "no-shrink": True, "database": "none", "max-examples": 3},
            "phases": {"stateful": off, "examples": off},
            **settings,
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
                case = event.recorder.cases[key].value
                found += [
                    f"{one.name}: {case.as_curl_command()}: {one.failure_info.failure.title}: "
                    f"{one.failure_info.failure.message}"
                    for one in checks
                    if one.failure_info
                ]
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


def test_every_response_is_as_documented(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_module, "MOST_FAILURES", 10**9)
    assert problems(store, openapi()) == ""


@pytest.mark.long
def test_documented_values_are_accepted(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_module, "MOST_FAILURES", 10**9)
    document = json.loads(json.dumps(openapi()))
    for path in document["paths"].values():
        path["get"]["parameters"] = [one for one in path["get"]["parameters"] if REAL.get(one["name"], [""])]
        for one in path["get"]["parameters"]:
            if one["name"] in REAL:
                one["schema"] = {"type": "string", "enum": REAL[one["name"]]}
    assert problems(store, document) == ""


def test_the_document_is_valid_and_complete(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    schemathesis.openapi.from_dict(document).validate()
    assert set(document["paths"]) == {route.path for route in ROUTES if route.path.startswith("/api/")}
    assert {route.name for route in ROUTES if route.path.startswith("/api/")} == OPERATIONS.keys()


def test_errors_are_json_and_pages_stay_pages(client: TestClient, store: Path) -> None:
    cases = "/api/benchmarks/mtsamples/cases"
    for path, status in (
        ("/api/nothing", 404),
        ("/api/benchmarks/x/cases", 404),
        ("/leaderboard.json?access=x", 400),
        ("/leaderboard.json?access=gated", 404),
        ("/leaderboard.json?results=x", 400),
        ("/leaderboard.json?results=all", 404),
        *((f"/api/leaderboard?{name}=x", 404) for name in ("suite", "category", "subcategory")),
        *((f"{cases}?{name}=x", 404) for name in ("group", "failure", "model", "got", "missed")),
        *((f"/api/releases/compare?{name}=x", 404) for name in ("before", "now")),
    ):
        found = client.get(path)
        assert (found.status_code, found.json()["error"]["status"]) == (status, status)
        assert found.headers["content-type"] == "application/json"
    refused = client.post("/api/leaderboard")
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert client.get("/nothing").headers["content-type"].startswith("text/html")
    stranger = make_client(store, signed_in=False)
    assert stranger.get("/api/leaderboard").json()["error"]["code"] == "unauthorized"
    assert stranger.get("/api/leaderboard", headers={"host": "evil.test"}).json()["error"]["status"] == 403
    assert stranger.get("/").headers["content-type"].startswith("text/html")


def test_a_misspelled_parameter_is_refused(client: TestClient) -> None:
    found = client.get("/api/leaderboard?catgory=medical_research_assistance")
    assert found.json()["error"]["message"].startswith("The parameter `catgory` is not known here. Known: access,")
    assert client.get("/api/compare?a=openai/model-1").json()["error"]["message"] == "The parameter `b` is missing."


def test_numbers_are_those_of_the_pages(client: TestClient) -> None:
    assert client.get("/api/leaderboard").json() == client.get("/leaderboard.json").json()
    entries = {one["id"]: one for one in client.get("/api/benchmarks").json()["benchmarks"]}
    assert (entries["pubmed_qa"]["n_models"], entries["mtsamples"]["n_models"]) == (4, 0)
    found = client.get("/api/benchmarks/pubmed_qa").json()
    assert [one["model"] for one in found["leaderboard"]["models"]][-1] == "baseline/majority"
    assert client.get("/api/benchmarks/mtsamples").json()["leaderboard"] is None
