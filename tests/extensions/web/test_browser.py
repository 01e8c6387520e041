"""The site in a real browser: scripts, policy, accessibility, sizes, and the static files opened from disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from medhelm.domain import Taxonomy
from medhelm.extensions.web.export import export_site
from medhelm.extensions.web.site import Site
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from tests.support.stores import make_store
from tests.support.web.browser import Watched, served, started_browser
from tests.support.web.sites import XSS, make_board_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

PAGES = (
    "/",
    "/?category=clinical_decision_support&sort=failures",
    "/benchmarks",
    "/benchmarks/medec",
    "/compare",
    "/compare/releases?before=2026-10",
)


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


def test_the_token_leaves_the_address(watched: Watched, addresses: tuple[str, str]) -> None:
    assert watched.page.url == f"{addresses[0]}/"
    cookies = watched.page.context.cookies()
    assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]


def test_sorting_and_filters(watched: Watched) -> None:
    page = watched.page
    for order, first in (("descending", "openai/model-3"), ("ascending", "openai/model-1")):
        page.get_by_role("link", name="Failures").click()
        page.wait_for_url(f"**order={order}")
        assert page.locator("table.board tbody th .model").first.inner_text().startswith(first)
    with page.expect_navigation():
        page.get_by_label("Category").select_option("medical_research_assistance")
    assert "1 benchmark" in page.locator("table.board caption").inner_text()
    page.get_by_label("Model name contains").fill("model-2")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**model=model-2**")
    assert page.locator("table.board tbody").first.locator("tr").count() == 1
    page.reload()
    assert page.get_by_label("Model name contains").input_value() == "model-2"


@pytest.mark.long
def test_no_page_breaks_a_rule_of_accessibility(watched: Watched, addresses: tuple[str, str]) -> None:
    checker = axe.Axe()
    only_colors = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}  # nothing else differs in the dark
    schemes: tuple[tuple[Literal["light", "dark"], Any], ...] = (("light", None), ("dark", only_colors))
    for scheme, options in schemes:
        watched.page.emulate_media(color_scheme=scheme)
        for path in PAGES:
            watched.page.goto(addresses[0] + path)
            found = checker.run(watched.page, options=options)
            assert found.response["passes"], "axe looked at nothing"
            assert found.violations_count == 0, f"{scheme} {path}\n{found.generate_report()}"


def test_every_page_fits_320_pixels_and_its_targets_are_large(watched: Watched, addresses: tuple[str, str]) -> None:
    watched.page.set_viewport_size({"width": 320, "height": 640})
    for path in PAGES:
        watched.page.goto(addresses[0] + path)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert watched.page.evaluate(wide) == 0, path
        small = watched.page.evaluate(
            """() => [...document.querySelectorAll('button, select, input:not([type=hidden]), nav a, .actions a, th a')]
            .filter(e => { const r = e.getBoundingClientRect(); return r.width && (r.height < 24 || r.width < 24); })
            .map(e => e.outerHTML)"""
        )
        assert small == [], path


@pytest.mark.long
def test_the_focus_is_visible_and_not_hidden(watched: Watched) -> None:
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for _ in range(12):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => { const e = document.activeElement, r = e.getBoundingClientRect();
            const top = document.elementFromPoint(r.left + r.width / 2, r.top + Math.min(r.height, 20) / 2);
            return r.top >= 0 && r.bottom > 0 && (e.contains(top) || top.contains(e)); }"""
        )
        assert seen, page.evaluate("document.activeElement.outerHTML")


@pytest.mark.long
def test_forced_colors_and_reduced_motion_keep_the_page_usable(watched: Watched) -> None:
    watched.page.emulate_media(forced_colors="active", reduced_motion="reduce")
    moving = "[...document.querySelectorAll('*')].filter(e => getComputedStyle(e).transitionDuration !== '0s').length"
    assert watched.page.evaluate(moving) == 0
    assert watched.page.locator("table.board").is_visible()


@pytest.mark.long
def test_every_chart_has_a_table(watched: Watched, addresses: tuple[str, str]) -> None:
    watched.page.goto(f"{addresses[0]}/benchmarks/medec")
    charts = watched.page.locator("figure.chart-figure")
    assert charts.count() >= 3
    for i in range(charts.count()):
        assert charts.nth(i).locator("table").count() == 1


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    scores = {"pubmed_qa": {f"openai/{name}": [1.0, 0.0, 1.0] for name in XSS}}
    store = make_store(tmp_path / "store", scores, message=XSS[0])
    context = browser.new_context()
    with served(Site(stores=[store])) as (root, signing_in):
        found = Watched(context.new_page())
        found.page.goto(signing_in)
        found.page.wait_for_selector("table.board")
        for path in ("/", "/benchmarks/pubmed_qa", "/compare"):
            found.page.goto(root + path)
            found.page.mouse.move(200, 300)
    context.close()
    assert found.problems == []


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
    found.page.get_by_role("button", name="Failures").click()
    found.page.get_by_role("button", name="Failures").click()
    assert found.page.locator("table.board tbody th .model").first.inner_text().startswith("openai/model-3")
    found.page.get_by_role("link", name="Benchmarks", exact=True).click()
    found.page.get_by_role("link", name="Medec").click()
    assert found.page.locator("h1").inner_text() == "MEDEC"
    context.close()
    assert found.problems == []
