"""The page of running evaluations, its JSON, and the requests that stop or remove one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from medhelm.storage.live_status import known_evaluations
from medhelm.storage.store import Store, create
from tests.support.html import HtmlPage
from tests.support.running import make_ended, make_run, make_status, written
from tests.support.stores import make_run as stored_run
from tests.support.stores import write_run
from tests.support.web.sites import make_board_store, make_client

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
        "Waiting: Medec",
        "cd /work &amp;&amp; medhelm run pubmed_qa --model openai/m@http://127.0.0.1:9/v1",
        "The process no longer exists",
        "medhelm run head_qa",
    ):
        assert words in text, words
    alive, gone = client.get("/api/running").json()["evaluations"]
    assert [alive[key] for key in ("id", "state", "done", "n", "seconds_left")] == ["alive", "running", 50, 200, 30]
    assert (alive["spent_usd"], alive["max_cost_usd"]) == (1.25, 5.0)
    assert (gone["state"], gone["seconds_left"]) == ("lost", None)
    live = client.get("/running/live").text.strip()
    assert re.sub(r"\d", "", live) in re.sub(r"\d", "", text)  # the second request may see a later second
    assert '<span class="model">openai/m</span>' in text


def test_stopping_asks_first_and_names_the_evaluation(client: TestClient, store: Store) -> None:
    assert 'href="/running/alive"' in client.get("/running").text
    question = client.get("/running/alive")
    page = HtmlPage(question.text)
    assert "Stop openai/m on 2 benchmarks" in page.text
    assert "50 of 200 instances done" in page.text
    assert [one["action"] for tag, one in page.elements if tag == "form"] == ["/logout", "/running/alive/stop"]
    assert not any(one.is_asked_to_stop for one in known_evaluations(store))
    for gone in ("gone", "unknown", "../alive"):
        assert client.get(f"/running/{quote(gone, safe='')}").status_code == 404


def test_the_first_page_of_an_empty_store_shows_what_goes_on(client: TestClient, tmp_path: Path) -> None:
    running = client.get("/")
    assert running.status_code == 200
    text = HtmlPage(running.text).text
    for words in ("No results yet", "50 of 200", "Evaluations: 1 running, 1 ended without a record."):
        assert words in text, words
    assert 'href="/running"' in running.text
    empty = make_client(create(tmp_path / "empty").folder).get("/")
    assert empty.status_code == 200
    assert "medhelm run pubmed_qa --data DIR --model MODEL --store empty" in HtmlPage(empty.text).text
    write_run(tmp_path / "empty", stored_run(status="partial", message="interrupt"), [])
    stopped = make_client(tmp_path / "empty")
    assert "1 run of this store was stopped before it was complete" in HtmlPage(stopped.get("/").text).text
    assert "incomplete" not in stopped.get("/running").text
    assert stopped.get("/api/leaderboard").status_code == 404
    invented = make_board_store(tmp_path / "invented", tier="sample")
    assert (
        "12 complete runs of this store do not match" in HtmlPage(make_client(invented, tier="real").get("/").text).text
    )


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


@pytest.mark.parametrize("action", ["alive/stop", "gone/remove"])
def test_reading_and_requests_of_strangers_and_other_sites_change_nothing(
    client: TestClient, store: Store, action: str
) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
        assert client.request(method, f"/running/{action}").status_code == 405
    for headers in (
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
        {"host": "evil.test"},
    ):
        assert client.post(f"/running/{action}", headers=headers).status_code == 403
    stranger = make_client(store.folder, signed_in=False)
    assert stranger.post(f"/running/{action}").status_code == 401
    for path in ("/running", "/running/live", "/api/running"):
        assert stranger.get(path).status_code == 401
    for name in ("unknown", "../alive", "alive/../alive", "%2e%2e", "alive.json", "a\nb", "*", "x" * 300):
        path = f"/running/{quote(name, safe='')}/{action.partition('/')[2]}"
        assert client.post(path).status_code == 404
    untouched = [("gone", False), ("alive", False)]
    assert [(one.status.id, one.is_asked_to_stop) for one in known_evaluations(store)] == untouched
