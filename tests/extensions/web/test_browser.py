"""The site in a real browser: scripts, policy, and the static files opened from disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm.domain import Taxonomy
from medhelm.extensions.web.export import export_site
from medhelm.extensions.web.site import Site
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.storage.store import create
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.running import make_ended, running
from tests.support.servers.openai import Server
from tests.support.stores import make_store
from tests.support.web.browser import Watched, served, started_browser
from tests.support.web.sites import make_board_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    store = make_board_store(tmp_path_factory.mktemp("browser") / "store")
    freeze(store, "2026-10", BoardOptions())
    changed = {"pubmed_qa": {"openai/model-3@http://127.0.0.1:9/v1": [1.0] * 40}}
    taxonomy = Taxonomy(category="medical_research_assistance", subcategory="some_work")
    make_store(store, changed, started="2026-02-01T00:00:00+00:00", taxonomy=taxonomy)
    make_ended(store, id="gone")
    make_ended(store, id="stopped", state="ended", reason="budget", max_cost_usd=5.0)
    return Site(stores=[store])


@pytest.fixture(scope="module")
def addresses(site: Site) -> Iterator[tuple[str, str]]:
    with served(site) as found:
        yield found


@pytest.fixture
def watched(browser: Browser, addresses: tuple[str, str]) -> Iterator[Watched]:
    """A page that is signed in; nothing may go wrong in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Watched(context.new_page())
    found.page.goto(addresses[1])
    found.page.wait_for_selector("table.board")
    yield found
    context.close()
    assert found.problems == []


def test_the_token_leaves_the_address_and_sorting_and_filters_work(
    watched: Watched, addresses: tuple[str, str]
) -> None:
    page = watched.page
    assert page.url == f"{addresses[0]}/"
    assert [(one["httpOnly"], one["sameSite"]) for one in page.context.cookies()] == [(True, "Strict")]
    for order, first in (("descending", "openai/model-3"), ("ascending", "openai/model-1")):
        page.get_by_role("link", name="Failures").click()
        page.wait_for_url(f"**order={order}")
        assert page.locator("table.board tbody th .model").first.inner_text().startswith(first)
    category = page.get_by_label("Category")
    category.focus()
    address = page.url
    page.keyboard.press("ArrowDown")
    assert (page.url, category.evaluate("one => one === document.activeElement")) == (address, True), "nothing reloads"
    category.select_option("medical_research_assistance")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**category=medical_research_assistance**")
    assert "1 benchmark" in page.locator("h1").inner_text()
    assert page.get_by_text("Category: Medical research assistance").is_visible()
    page.get_by_label("Model name contains").fill("model-2")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**model=model-2**")
    assert page.locator("table.board tbody").first.locator("tr").count() == 1
    page.reload()
    assert page.get_by_role("searchbox").input_value() == "model-2"


MENU_LINES = "new Set([...document.querySelectorAll('.top li')].map(one => one.offsetTop)).size"
BELOW = """[...document.querySelectorAll('table.board .help')].filter(one => {
    const word = one.previousElementSibling.getBoundingClientRect(), help = one.getBoundingClientRect();
    return help.left < word.right - 1 || help.bottom < word.top || help.top > word.bottom; }).length"""
LEAST_TEXT = """Math.min(...[...document.querySelectorAll('figure svg')].filter(one => one.checkVisibility()).flatMap(
    one => [...one.querySelectorAll('text')].map(text => parseFloat(getComputedStyle(text).fontSize)
        * one.getBoundingClientRect().width / one.viewBox.baseVal.width)))"""


def test_menu_head_and_charts_use_the_width_of_the_window(watched: Watched, addresses: tuple[str, str]) -> None:
    page = watched.page
    for width, n_lines in ((360, 2), (640, 1), (700, 1), (900, 1), (1000, 1), (1280, 1), (1440, 1)):
        page.set_viewport_size({"width": width, "height": 900})
        for path in ("/", "/compare", "/compare/releases"):
            page.goto(f"{addresses[0]}{path}")
            assert page.evaluate(MENU_LINES) == n_lines, (width, path)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (width, path)
            assert page.evaluate(LEAST_TEXT) >= 11, (width, path)
            if width >= 1280:
                assert page.evaluate(BELOW) == 0, (width, path)
            if width >= 1280 and path != "/":
                box = page.locator("figure.broad svg:visible").bounding_box()
                assert box
                assert box["width"] > 0.85 * width


def test_without_scripts_everything_works(browser: Browser, addresses: tuple[str, str]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(addresses[1])
    page.get_by_label("Token").fill(addresses[1].partition("#t=")[2])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Category").select_option("medical_research_assistance")
    page.get_by_role("button", name="Apply").click()
    assert "1 benchmark" in page.locator("table.board caption").inner_text()
    context.close()


def test_the_export_opens_from_disk(browser: Browser, site: Site, tmp_path: Path) -> None:
    export_site(Site(stores=site.stores, with_text=False), tmp_path / "site", most_cases=2)
    context = browser.new_context()
    found = Watched(context.new_page())
    found.page.goto((tmp_path / "site" / "index.html").as_uri())
    assert found.page.evaluate("getComputedStyle(document.querySelector('.top')).display") == "flex"
    first = found.page.locator("table.board tbody th .model").first
    for heading, model in (("Macro average", "openai/model-1"), ("Failures", "openai/model-3")):
        found.page.get_by_role("button", name=heading, exact=True).click()
        assert first.inner_text().startswith(model), "the first click shows the best or the most"
    assert "sort=failures" in found.page.url
    found.page.reload()
    assert first.inner_text().startswith("openai/model-3"), "the order is in the address"
    found.page.get_by_role("link", name="Benchmarks", exact=True).click()
    found.page.get_by_role("link", name="Medec").click()
    assert found.page.locator("h1").inner_text() == "MEDEC"
    context.close()
    assert found.problems == []


if TYPE_CHECKING:
    from playwright.sync_api import Page


def shows(page: Page, text: str, place: str = "#live") -> None:
    """Wait until a part of the page shows a text."""
    page.locator(place, has_text=text).first.wait_for(timeout=600_000)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_progress_appears_without_reloading_and_the_button_stops_the_evaluation(tmp_path: Path, server: Server) -> None:
    store, benchmark = create(tmp_path / "store").folder, make_benchmark(tmp_path, n=60)
    server.answer_with(answers_with(perfect))
    server.hold_beyond(20)
    with started_browser() as browser, served(Site(stores=[store])) as (root, signing_in):
        watched = Watched(browser.new_context().new_page())
        page = watched.page
        page.goto(signing_in)
        page.wait_for_selector("nav")
        page.goto(f"{root}/running")
        shows(page, "No evaluation is running.", "#states")
        page.evaluate("window.loaded = 'once'")
        with running(store, benchmark, server) as process:
            shows(page, "20 of 60")
            page.get_by_role("link", name="Stop").focus()
            server.hold_beyond(40)
            server.release_held()
            shows(page, "40 of 60")
            assert page.evaluate("window.loaded + document.activeElement.textContent") == "onceStop…"
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Stop").click()
            shows(page, "Evaluations: 1 stopping.", "#states")
            assert process.stderr is not None
            assert "stopped from the site" in process.stderr.readline()
            server.release()
            shows(page, "Stopped from the site.")
            assert process.wait(600) == 130
        shows(page, "Evaluations: 1 stopped.", "#states")
        assert f"cd {Path.cwd()} && medhelm run {benchmark} --model" in page.locator(".command").inner_text()
        page.get_by_role("button", name="Remove").click()
        shows(page, "No evaluation is running.", "#states")
        assert watched.problems == []
