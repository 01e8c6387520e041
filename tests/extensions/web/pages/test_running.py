"""The page of running evaluations, its JSON, and the requests that stop or remove one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from medhelm.storage.live_status import JudgeProgress, ServerProgress, known_evaluations
from medhelm.storage.store import Store, create
from tests.support.running import make_ended, make_run, make_status, written
from tests.support.stores import make_store
from tests.support.web.sites import XSS, make_client

RUNNING = make_status(
    id="alive",
    command=("run", "pubmed_qa", "--model", "openai/m@http://127.0.0.1:9/v1"),
    max_cost_usd=5.0,
    spent_usd=1.25,
    runs=(make_run(), make_run(benchmark="medec", state="waiting", done=0, n_failed=0, failures={}, rate_per_s=None)),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = create(tmp_path / "store")
    with written(store, RUNNING):
        make_ended(store.folder, id="gone", command=("run", "head_qa"))
        yield store


@pytest.fixture
def client(store: Store) -> TestClient:
    return make_client(store.folder)


def test_the_page_shows_progress_failures_cost_and_how_to_resume(client: TestClient) -> None:
    text = client.get("/running").text
    for words in (
        "Evaluations: 1 running, 1 ended without a record.",
        "50 of 200",
        "2 refusal,",
        "1.25 of 5.00",
        "5.00/s",
        "30 s",
        "Waiting: Medec",
        "cd /work &amp;&amp; medhelm run pubmed_qa --model openai/m@http://127.0.0.1:9/v1",
        "The process no longer exists",
        "medhelm run head_qa",
    ):
        assert words in text, words
    live = client.get("/running/live").text.strip()
    assert re.sub(r"\d", "", live) in re.sub(r"\d", "", text)  # the second request may see a later second
    assert '<span class="model">openai/m</span>' in text


def test_the_json_has_the_same_numbers(client: TestClient) -> None:
    alive, gone = client.get("/api/running").json()["evaluations"]
    assert (alive["id"], alive["state"], alive["done"], alive["n"], alive["seconds_left"]) == (
        "alive",
        "running",
        50,
        200,
        30,
    )
    assert (alive["spent_usd"], alive["max_cost_usd"]) == (1.25, 5.0)
    assert [(run["model"], run["benchmark"], run["state"]) for run in alive["runs"]] == [
        ("openai/m", "pubmed_qa", "running"),
        ("openai/m", "medec", "waiting"),
    ]
    assert (gone["state"], gone["seconds_left"]) == ("lost", None)


def test_without_an_evaluation_the_page_says_how_one_appears(tmp_path: Path) -> None:
    stored = make_client(make_store(tmp_path / "a", {"pubmed_qa": {"openai/a": [1.0, 0.0]}})).get("/running").text
    empty = make_client(create(tmp_path / "b").folder).get("/running").text
    assert "No evaluation is running." in stored
    assert "Recently stored runs" in stored
    assert "Recently stored runs" not in empty
    assert make_client(tmp_path / "nowhere").get("/running").status_code == 503


def test_stop_leaves_a_request_and_leads_back_to_the_page(client: TestClient, store: Store) -> None:
    found = client.post("/running/alive/stop", follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (303, "/running")
    assert next(one for one in known_evaluations(store) if one.status.id == "alive").is_asked_to_stop
    text = client.get("/running").text
    assert "1 stopping" in text
    assert "/running/alive/stop" not in text


def test_only_what_ended_can_be_removed(client: TestClient, store: Store) -> None:
    assert client.post("/running/alive/remove", follow_redirects=False).status_code == 404
    assert client.post("/running/gone/remove", follow_redirects=False).status_code == 303
    assert [one.status.id for one in known_evaluations(store)] == ["alive"]


def is_untouched(store: Store) -> bool:
    return [(one.status.id, one.is_asked_to_stop) for one in known_evaluations(store)] == [
        ("gone", False),
        ("alive", False),
    ]


@pytest.mark.parametrize("action", ["alive/stop", "gone/remove"])
def test_reading_changes_nothing(client: TestClient, store: Store, action: str) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
        assert client.request(method, f"/running/{action}").status_code == 405
    assert is_untouched(store)


@pytest.mark.parametrize("action", ["alive/stop", "gone/remove"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
        {"host": "evil.test"},
    ],
)
def test_requests_of_other_sites_are_refused(
    client: TestClient, store: Store, action: str, headers: dict[str, str]
) -> None:
    assert client.post(f"/running/{action}", headers=headers).status_code == 403
    assert is_untouched(store)


def test_without_a_session_nothing_is_shown_or_stopped(store: Store) -> None:
    client = make_client(store.folder, signed_in=False)
    for path in ("/running", "/running/live", "/api/running"):
        assert client.get(path).status_code == 401
    for action in ("alive/stop", "gone/remove"):
        assert client.post(f"/running/{action}").status_code == 401
    assert is_untouched(store)


@pytest.mark.parametrize(
    "name", ["unknown", "..", "../alive", "alive/../alive", "%2e%2e", "alive.json", "a\nb", "*", "x" * 300]
)
def test_unknown_and_hostile_names_are_not_found(client: TestClient, store: Store, name: str) -> None:
    for action in ("stop", "remove"):
        assert client.post(f"/running/{quote(name, safe='')}/{action}").status_code == 404
    assert is_untouched(store)


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    runs = tuple(
        make_run(
            model=f"openai/{one}",
            benchmark=one,
            failures={one: 1},
            judges={one: JudgeProgress(expected=1, failed=1)},
        )
        for one in XSS
    )
    with written(
        store, make_status(id='"><script>alert(1)</script>'.replace("/", ""), runs=runs, command=XSS, host=XSS[0])
    ):
        text = make_client(store.folder).get("/running").text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert str(7919 * 7919) not in text


def test_very_many_runs_have_rows_only_where_something_happens(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    done = {"state": "ended", "done": 100, "rate_per_s": None}
    runs = [make_run(benchmark=f"b{n}", failures={}, n_failed=0, **done) for n in range(2000)]
    with written(store, make_status(runs=(*runs, make_run(), make_run(benchmark="medec", **done)))):
        text = make_client(store.folder).get("/running/live").text
    assert "1,852 more benchmarks started, not listed here" in text
    assert "50 of 100" in text
    assert text.count("<tr") < 160


def test_each_server_of_a_pool_has_a_row(tmp_path: Path) -> None:
    server = ServerProgress(
        model="openai/m@pool", address="http://a:8000/v1", state="lost", in_flight=2, limit=64, done=7, reason=XSS[0]
    )
    with written(create(tmp_path / "store"), make_status(servers=(server,))):
        client = make_client(tmp_path / "store")
        text = client.get("/running").text
        (found,) = client.get("/api/running").json()["evaluations"]
    assert '<th scope="row">http://a:8000/v1</th>' in text
    assert "lost" in text
    assert XSS[0] not in text
    assert found["servers"] == [
        {
            "model": "openai/m@pool",
            "address": "http://a:8000/v1",
            "state": "lost",
            "in_flight": 2,
            "limit": 64,
            "done": 7,
            "reason": XSS[0],
        }
    ]
