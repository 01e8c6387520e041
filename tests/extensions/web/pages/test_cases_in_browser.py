"""Cases in a real browser: hostile texts do not run, pages fit narrow windows and are accessible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medhelm.extensions.web.case_search import url_key
from medhelm.extensions.web.site import Site
from tests.support.case_store import HOSTILE_IDS, XSS, add_judged_cases, make_case_store
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
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_judged_cases(make_case_store(tmp_path_factory.mktemp("cases") / "store"))


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
        assert page.locator("pre", has_text=XSS).count() == 2
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
