"""Signing in to a study in real browsers: one link in two of them, another device, and no script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from medhelm.extensions.study.access import Role, new_link
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.files import EventKind, events
from medhelm.extensions.web.site import Site
from medhelm.storage.store import Store
from tests.support.rated_studies import make_study, new_store
from tests.support.web.browser import Watched, served, started_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("sign-in") / "store"
    return new_store(folder, make_study({"mara": ["0-1"], "ivo": ["0-1"]}))


@pytest.fixture(scope="module")
def addresses(store: Store) -> Iterator[tuple[str, str]]:
    """The address of the site, and the one that signs its owner in."""
    with served(Site(stores=[store.folder]), [PAGES]) as found:
        yield found


def link(store: Store, address: str, person: str = "mara", role: Role = Role.RATER) -> str:
    return address + new_link(store, "ward", person, role, by="owner").path


def new_page(browser: Browser, **settings: bool) -> Page:
    return browser.new_context(**settings).new_page()  # type: ignore[arg-type]


def test_a_link_signs_in_one_browser_and_tells_the_second_one(
    browser: Browser, addresses: tuple[str, str], store: Store
) -> None:
    address = addresses[0]
    first, second, given = Watched(new_page(browser)), new_page(browser), link(store, address)
    first.page.goto(given)
    first.page.wait_for_url(f"{address}/rate/ward")
    cookie = first.page.context.cookies()[0]
    assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == ("/rate/ward", True, "Strict")
    second.goto(given)
    second.get_by_role("alert").get_by_text("already used").wait_for()
    assert "#" not in second.url
    assert events(store, "ward")[-1].kind is EventKind.LINK_REFUSED
    first.page.goto(given)
    first.page.wait_for_url(f"{address}/rate/ward")
    assert first.problems == []


def test_another_device_without_scripts_is_signed_in_by_a_code(
    browser: Browser, addresses: tuple[str, str], store: Store
) -> None:
    address = addresses[0]
    desk, tablet = new_page(browser), new_page(browser, java_script_enabled=False)
    desk.goto(link(store, address))
    desk.get_by_role("link", name="Use another device").click()
    desk.get_by_role("button", name="Make a link").click()
    code = desk.locator(".code").inner_text()
    tablet.goto(f"{address}/rate/ward")
    tablet.get_by_label("Link or code").fill(code.lower())
    tablet.get_by_role("button", name="Sign in").click()
    assert tablet.url == f"{address}/rate/ward"
    desk.goto(f"{address}/rate/ward")
    desk.get_by_role("button", name="Sign out").click()
    desk.get_by_role("button", name="Sign out").click()
    desk.get_by_role("heading", name="Signed out").wait_for()
    assert tablet.reload().status == 200  # type: ignore[union-attr]


def test_a_link_that_is_opened_where_a_page_for_signing_in_is_shown(
    browser: Browser, addresses: tuple[str, str], store: Store
) -> None:
    """The address then changes in its fragment alone, and no page is loaded."""
    (address, owner), page = addresses, new_page(browser)
    page.goto(f"{address}/rate/ward/login")
    page.goto(link(store, address, "ivo"))
    page.wait_for_url(f"{address}/rate/ward")
    page.goto(f"{address}/login")
    page.goto(owner)
    page.wait_for_url(f"{address}/")
    page.get_by_role("link", name="Studies").click()
    page.wait_for_url(f"{address}/studies")


def test_a_reader_sees_the_study_and_nothing_else_of_the_site(
    browser: Browser, addresses: tuple[str, str], store: Store
) -> None:
    address, page = addresses[0], new_page(browser)
    page.goto(link(store, address, "chief", Role.READER))
    page.wait_for_url(f"{address}/studies/ward")
    assert page.get_by_role("button").all_inner_texts() == ["Sign out"]
    links = {one.get_attribute("href") for one in page.get_by_role("link").all()}
    wrong = [one for one in links if one and not one.startswith(("#", "/studies/ward"))]
    assert wrong == []
    page.goto(f"{address}/studies/ward/close")
    assert page.get_by_role("button").all_inner_texts() == ["Sign out"]
