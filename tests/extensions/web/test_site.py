"""Results in memory: pages that are made at once, and stores that change while pages are made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from medhelm.extensions.web import app
from medhelm.extensions.web import site as sites
from medhelm.extensions.web.app import LINKS, answer
from medhelm.extensions.web.page import BY_NAME, PageRequest
from medhelm.extensions.web.site import Site
from medhelm.results.leaderboard import leaderboard_from_inputs
from medhelm.results.runs.selection import load_labeled
from tests.support.stores import make_store
from tests.support.web.sites import make_board_store, make_client

WAIT_S = 60
"""Seconds after which a test that hangs fails."""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a site that notices a change of its store at once."""
    monkeypatch.setattr(sites, "SECONDS_BETWEEN_CHECKS", 0)
    return Site(stores=[make_board_store(tmp_path / "store")])


class Gate:
    """Holds up a function: `entered` is set when it begins, and it goes on when `opened` is set."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.entered, self.opened, self.n_calls, self._function = Event(), Event(), 0, function

    def __call__(self, *given: Any, **options: Any) -> Any:
        self.n_calls += 1
        self.entered.set()
        assert self.opened.wait(WAIT_S)
        return self._function(*given, **options)


def content_of(site: Site, route: str = "leaderboard", **parts: str) -> str:
    content, _, status, _ = answer(site, PageRequest(route=BY_NAME[route], parts=parts, links=LINKS))
    assert status == 200
    return content.decode()


def models_in(page: str) -> set[str]:
    return set(re.findall(r"openai/model-\d+", page))


def test_a_page_waits_only_for_the_result_that_it_needs(site: Site, pool: ThreadPoolExecutor) -> None:
    slow = Gate(lambda: "slow")
    first = pool.submit(site.keep, "slow", slow)
    assert slow.entered.wait(WAIT_S)
    same = pool.submit(site.keep, "slow", slow)
    assert pool.submit(site.keep, "fast", lambda: "fast").result(WAIT_S) == "fast"
    assert not (first.done() or same.done())
    slow.opened.set()
    assert [first.result(WAIT_S), same.result(WAIT_S), slow.n_calls] == ["slow", "slow", 1]


def test_after_an_error_the_next_page_tries_again(site: Site) -> None:
    with pytest.raises(ZeroDivisionError):
        site.keep("key", lambda: 1 // 0)
    assert site.keep("key", lambda: 1) == 1


def test_other_pages_are_made_while_a_leaderboard_is_computed(
    site: Site, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(leaderboard_from_inputs)
    monkeypatch.setattr(sites, "leaderboard_from_inputs", gate)
    tabs: list[Future[str]] = [pool.submit(content_of, site) for _ in range(2)]
    assert gate.entered.wait(WAIT_S)
    assert "Benchmarks" in pool.submit(content_of, site, "benchmarks").result(WAIT_S)
    assert "case" in pool.submit(content_of, site, "cases", benchmark="pubmed_qa").result(WAIT_S)
    assert not any(tab.done() for tab in tabs)
    gate.opened.set()
    one, other = (tab.result(WAIT_S) for tab in tabs)
    assert one == other
    assert gate.n_calls == 1


def test_a_browser_sees_at_once_that_a_large_store_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MANY_RUNS", 1)
    monkeypatch.setattr(app, "LONGEST_WAIT_S", 0.1)
    gate = Gate(leaderboard_from_inputs)
    monkeypatch.setattr(sites, "leaderboard_from_inputs", gate)
    as_browser, as_program = {"accept": "text/html,*/*;q=0.8"}, {"accept": "application/json"}
    with make_client(*site.stores) as client, ThreadPoolExecutor() as pool:
        for _ in range(2):  # the second request, or a second tab, starts nothing
            waiting = client.get("/", headers=as_browser)
            assert (waiting.status_code, waiting.headers["refresh"]) == (202, "0")
            assert "Reading 12 runs" in waiting.text
        assert "Reading" not in client.get("/static/site.css", headers=as_browser).text
        monkeypatch.setattr(app, "LONGEST_WAIT_S", WAIT_S)
        program = pool.submit(client.get, "/api/leaderboard", headers=as_program)
        reloaded = pool.submit(client.get, "/", headers=as_browser)
        gate.opened.set()
        assert program.result(WAIT_S).status_code == 200
        page = reloaded.result(WAIT_S)  # a visitor who has seen the page waits for the numbers
        assert page.status_code == 200
        assert models_in(page.text) == {f"openai/model-{n}" for n in (1, 2, 3)}
        assert gate.n_calls == 1


def test_a_page_that_is_done_before_the_browser_asks_again_is_not_made_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MANY_RUNS", 1)
    made, done = Gate(app.answer), Event()

    def answered(*given: Any) -> Any:
        try:
            return made(*given)
        finally:
            done.set()

    monkeypatch.setattr(app, "answer", answered)
    as_browser = {"accept": "text/html,*/*;q=0.8"}
    with make_client(*site.stores) as client:
        assert client.get("/", headers=as_browser).status_code == 202
        monkeypatch.setattr(app, "PATIENCE_S", WAIT_S)
        made.opened.set()
        assert done.wait(WAIT_S)
        assert client.get("/", headers=as_browser).status_code == 200
        assert made.n_calls == 1
        assert client.get("/", headers=as_browser).status_code == 200
        assert made.n_calls == 2, "the page was kept for one visit"


def test_a_run_that_finishes_while_a_page_is_made_is_on_the_next_page(
    site: Site, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content_of(site)
    site = Site(stores=site.stores)
    gate = Gate(leaderboard_from_inputs)
    monkeypatch.setattr(sites, "leaderboard_from_inputs", gate)
    page = pool.submit(content_of, site)
    assert gate.entered.wait(WAIT_S)
    make_store(site.stores[0], {"pubmed_qa": {"openai/model-9": [1.0] * 40}})
    gate.opened.set()
    assert page.result(WAIT_S) == before, "the page shows one moment: nothing of the new run"
    assert models_in(content_of(site)) == models_in(before) | {"openai/model-9"}
    models = json.loads(content_of(site, "leaderboard_json"))["models"]
    assert {one["model"] for one in models} >= {"openai/model-9"}


def test_a_damaged_run_leaves_pages_in_memory_alone_and_is_left_out_after_a_restart(site: Site) -> None:
    before = content_of(site)
    assert content_of(Site(stores=site.stores)) == before, "a restart shows the same page"
    path = next(site.stores[0].glob("runs/pubmed_qa/*model-2*/records.parquet"))
    path.write_bytes(path.read_bytes()[:-9])
    assert content_of(site) == before
    with pytest.warns(UserWarning, match=r"model-2.* on pubmed_qa is left out"):
        after = Site(stores=site.stores).inputs()
    assert ("openai/model-2", "pubmed_qa") not in after.runs
    assert ("openai/model-2", "head_qa") in after.runs


def test_the_page_that_asks_to_wait_waits_for_no_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MANY_RUNS", 1)
    gate = Gate(load_labeled)
    monkeypatch.setattr(sites, "load_labeled", gate)
    with make_client(*site.stores) as client:
        for path in ("/", "/benchmarks/pubmed_qa", "/benchmarks/pubmed_qa/cases"):
            assert client.get(path, headers={"accept": "text/html"}).status_code == 202
        gate.opened.set()
