"""Cases in a real browser: hostile texts do not run, pages fit narrow windows, are accessible and print whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import url_key
from tests.support.case_store import HOSTILE_IDS, XSS, add_judged_cases, add_points_cases, make_case_store
from tests.support.web.browser import Watched, served, started_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = [
    "/benchmarks/toy/cases",
    "/benchmarks/toy/cases?got=lab/good&missed=lab/bad&sort=worst",
    "/benchmarks/toy/cases/plain",
    "/benchmarks/toy/cases/plain?a=lab/bad&b=lab/good",
    "/benchmarks/toy/cases?show=changed&with_baselines=1",
    "/benchmarks/toy/errors",
    "/benchmarks/notes/errors",
    "/search?text=aspirin",
    "/benchmarks/notes/cases/i2",
    "/benchmarks/advice/cases/one?find=fever&author=Ada",
    "/benchmarks/advice/cases/one?a=lab/wide&b=reference",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_points_cases(add_judged_cases(make_case_store(tmp_path_factory.mktemp("cases") / "store")))


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[tuple[Browser, str, str]]:
    """A browser, the address of the site of a store, and the address that signs in."""
    with started_browser() as browser, served(Site(stores=[folder])) as (root, signing_in):
        yield browser, root, signing_in


@contextmanager
def signed_in(opened: tuple[Browser, str, str], **settings: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open a page that is signed in; yield it with the problems that it reports."""
    browser, root, signing_in = opened
    context = browser.new_context(base_url=root, **settings)
    watched = Watched(context.new_page())
    watched.page.goto(signing_in)
    watched.page.wait_for_url(f"{root}/")
    yield watched.page, watched.problems
    context.close()


def test_hostile_texts_and_ids_do_not_run(opened: tuple[Browser, str, str]) -> None:
    with signed_in(opened) as (page, problems):
        for address in (*PAGES, *(f"/benchmarks/toy/cases/{url_key(one)}" for one in HOSTILE_IDS)):
            page.goto(address)
            assert page.locator("h1").count() == 1
            assert page.locator("main img, main script, main iframe").count() == 0
        page.goto("/benchmarks/toy/cases/plain")
        assert page.locator("pre, .answer", has_text=XSS).count() == 3, "prompt, completion, message of the failure"
        assert problems == []


@pytest.mark.long
def test_pages_are_accessible_and_fit(opened: tuple[Browser, str, str]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    with signed_in(opened, viewport={"width": 320, "height": 900}) as (page, _):
        for address in PAGES:
            page.goto(address)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            found = axe.run(page)
            assert found.response["passes"], "axe looked at nothing"
            violations = found.response["violations"]
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in violations] == []


CUT = """[...document.querySelectorAll('.case :not(.hidden)')].filter(one => one.checkVisibility()
    && getComputedStyle(one).overflowY !== 'visible' && one.scrollHeight > one.clientHeight + 2).length"""
FOLDED = """[...document.querySelectorAll('.case details:not(.notes details) > :not(summary)')]
    .filter(one => !one.checkVisibility()).length"""


def test_pages_print_whole(opened: tuple[Browser, str, str]) -> None:
    with signed_in(opened, viewport={"width": 794, "height": 1123}) as (page, _):
        for address in PAGES[2:]:
            page.goto(address)
            page.emulate_media(media="print")
            assert page.evaluate(CUT) == 0, address
            assert page.evaluate(FOLDED) == 0, address
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address


def test_a_note_is_saved_without_scripts_and_its_author_is_remembered(opened: tuple[Browser, str, str]) -> None:
    browser, root, _ = opened
    with signed_in(opened) as (page, _):
        state = page.context.storage_state()
    context = browser.new_context(base_url=root, storage_state=state, java_script_enabled=False)
    page = context.new_page()
    page.goto("/benchmarks/toy/cases/plain?show=wrong")
    page.locator("summary", has_text="Add a note").click()
    page.get_by_label("About").select_option("the answer of lab/bad")
    page.get_by_label("unsafe").check()
    page.locator("#n-note").fill(XSS)
    page.get_by_label("Your name").fill("Ada")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(f"{root}/benchmarks/toy/cases/plain?show=wrong&author=Ada#notes")
    assert page.locator(".annotation", has_text=XSS).count() == 2, "in the list and at the answer"
    assert page.get_by_label("Your name").input_value() == "Ada"
    page.get_by_role("button", name="Remove the annotation").click()
    page.locator(".annotation").first.wait_for(state="detached")
    context.close()
