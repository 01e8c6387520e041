"""The page of running evaluations in a real browser, with an evaluation in another process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm.extensions.web.site import Site
from medhelm.storage.store import create
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.running import make_ended, make_status, running, written
from tests.support.servers.openai import Server
from tests.support.web.browser import Watched, served, started_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


def open_page(browser: Browser, root: str, signing_in: str, *, width: int = 1280) -> Watched:
    """Sign in and open the page."""
    watched = Watched(browser.new_context(viewport={"width": width, "height": 900}).new_page())
    watched.page.goto(signing_in)
    watched.page.wait_for_selector("nav")
    watched.problems.clear()  # the leaderboard of an empty store has status 404
    watched.page.goto(f"{root}/running")
    return watched


def shows(page: Page, text: str, place: str = "#live") -> None:
    """Wait until a part of the page shows a text."""
    page.locator(place, has_text=text).first.wait_for(timeout=600_000)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_progress_appears_without_reloading_and_the_button_stops_the_evaluation(
    browser: Browser, tmp_path: Path, server: Server
) -> None:
    store, benchmark = create(tmp_path / "store").folder, make_benchmark(tmp_path, n=60)
    server.answer_with(answers_with(perfect))
    server.hold_beyond(20)
    with served(Site(stores=[store])) as (root, signing_in):
        watched = open_page(browser, root, signing_in)
        page = watched.page
        shows(page, "No evaluation is running.", "#states")
        page.evaluate("window.loaded = 'once'")
        with running(store, benchmark, server) as process:
            shows(page, "20 of 60")
            page.get_by_role("button", name="Stop").focus()
            server.hold_beyond(40)
            server.release_held()
            shows(page, "40 of 60")
            assert page.evaluate("window.loaded + document.activeElement.textContent") == "onceStop"
            page.keyboard.press("Enter")
            shows(page, "Evaluations: 1 stopping.", "#states")
            assert process.stderr is not None
            assert "stopped from the site" in process.stderr.readline()
            server.release()
            shows(page, "Stopped from the site.")
            assert process.wait(600) == 130
        shows(page, "Evaluations: 1 stopped early.", "#states")
        assert f"cd {Path.cwd()} && medhelm run {benchmark} --model" in page.locator(".command").inner_text()
        page.get_by_role("button", name="Remove").click()
        shows(page, "No evaluation is running.", "#states")
        assert watched.problems == []


@pytest.mark.long
def test_a_lost_server_is_reported_and_the_page_recovers(browser: Browser, tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    with served(Site(stores=[store.folder])) as (root, signing_in):
        watched = open_page(browser, root, signing_in)
        with written(store, make_status()):
            shows(watched.page, "50 of 100")
            watched.page.context.set_offline(True)
            shows(watched.page, "The server does not respond.", "#connection")
            assert "50 of 100" in watched.page.locator("#live").inner_text()
        watched.page.context.set_offline(False)
        shows(watched.page, "The process no longer exists")
        assert watched.page.locator("#connection").inner_text() == ""
    assert watched.problems
    assert all("ERR_INTERNET_DISCONNECTED" in problem for problem in watched.problems), watched.problems


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
@pytest.mark.long
def test_no_rule_of_accessibility_is_broken(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    store = create(tmp_path / "store")
    make_ended(store.folder, id="gone", pid=2)
    make_ended(store.folder, id="stopped", pid=3, state="ended", reason="budget", max_cost_usd=5.0)
    with written(store, make_status(id="alive")), served(Site(stores=[store.folder])) as (root, signing_in):
        watched = open_page(browser, root, signing_in, width=width)
        watched.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        shows(watched.page, "Copy the command")
        found = axe.Axe().run(watched.page)
        assert found.violations_count == 0, found.generate_report()
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert watched.page.evaluate(wide) == 0
        assert watched.problems == []


@pytest.mark.long
def test_without_scripts_a_link_reloads_and_the_button_stops(browser: Browser, tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    with written(store, make_status()) as file, served(Site(stores=[store.folder])) as (_, signing_in):
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(signing_in)
        page.get_by_label("Token").fill(signing_in.partition("#t=")[2])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Running").click()
        assert "50 of 100" in page.locator("#live").inner_text()
        file.write(make_status(state="stopping"))
        page.get_by_role("link", name="Reload").click()
        shows(page, "1 stopping")
        file.write(make_status())
        page.get_by_role("link", name="Reload").click()
        page.get_by_role("button", name="Stop").click()
        shows(page, "1 stopping")
        assert file.is_asked_to_stop
        assert page.get_by_role("button", name="Copy the command").count() == 0
