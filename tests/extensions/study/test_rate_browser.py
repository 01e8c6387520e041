"""Signing in and rating in a real browser: by keyboard, with lost connections, in two windows, and by axe's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs

import pytest

from medhelm.extensions.study.access import Role, new_link, revoke
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.journal import ratings_of, read_study, rows_of
from medhelm.extensions.study.types import CaseRating, MarkedPassage, MarkKind
from medhelm.extensions.web.site import Site
from medhelm.storage.store import Store
from tests.support.blind_studies import RATER, STUDY, World, make_blind_study
from tests.support.web import wcag
from tests.support.web.browser import Watched, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SIZES = ((320, 256), (360, 780), (834, 1112), (1280, 800), (1920, 1080))
"""Windows: 400 % zoom, a phone, a tablet, a notebook, a wide screen."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_blind_study(tmp_path / "store", "quest", World(11))[0]


@pytest.fixture
def addresses(store: Store) -> Iterator[tuple[str, str]]:
    """The address of the site, and the one that signs its owner in."""
    with served(Site(stores=[store.folder]), [PAGES]) as found:
        yield found


@pytest.fixture
def address(addresses: tuple[str, str]) -> str:
    return addresses[0]


def opened(context: BrowserContext, address: str, store: Store, path: str = "") -> Page:
    """Return a page of a rater who has just signed in by a personal link."""
    page = context.new_page()
    page.goto(link(store, address))
    page.wait_for_url(f"{address}/rate/{STUDY}")
    if path:
        page.goto(f"{address}/rate/{STUDY}{path}")
    return page


def link(store: Store, address: str, person: str = RATER, role: Role = Role.RATER) -> str:
    return address + new_link(store, STUDY, person, role, by="owner").path


def saved(page: Page) -> None:
    """Wait until the page says that all is saved."""
    page.locator("#status:not(.pending)", has_text=re.compile(r"^Saved \d")).wait_for()


def given(store: Store, number: int) -> CaseRating:
    """Return the latest rating of a case."""
    return ratings_of(store, read_study(store, STUDY), RATER)[number].rating


def test_a_case_is_rated_by_keyboard_alone(browser: Browser, address: str, store: Store) -> None:
    context = browser.new_context()
    watched = Watched(opened(context, address, store))
    page = watched.page
    page.get_by_role("link", name="Start with case 1").press("Enter")
    page.get_by_role("heading", name="Case 1 of 9").wait_for()
    page.wait_for_load_state()  # keys need the script
    page.keyboard.press("3")
    assert page.locator("[type=radio]:checked").count() == 0, "no group has the focus"
    text = page.get_by_role("region", name="Text to rate")
    text.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.locator("#selected", has_text="“for 2”").wait_for()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Error"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "text-0"
    page.get_by_role("radio", name=re.compile("^1 *: Very poor")).first.focus()
    for number in range(1, 6):
        page.keyboard.press(str(number))
        page.keyboard.press("Tab")
    page.keyboard.press("3")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.type("5 days are too long")
    saved(page)
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="Case 2 of 9").wait_for()
    rating = given(store, 1)
    assert list(rating.grades.values()) == [1, 2, 3, 4, 5, 2, 2]
    assert rating.comment == "5 days are too long"
    assert [(one.kind, one.start, one.end) for one in rating.marks] == [(MarkKind.ERROR, 5, 10)], "for 2"
    assert "1 of 9 rated" in page.locator("#progress-text").inner_text()
    context.close()
    assert watched.problems == []


@pytest.mark.long
def test_digits_in_a_text_field_stay_text_and_cannot_judge_needs_a_reason(
    browser: Browser, address: str, store: Store
) -> None:
    context = browser.new_context()
    page = opened(context, address, store, "/cases/2")
    first = page.locator("#question-1")
    first.get_by_label("Cannot judge").check()
    page.get_by_role("button", name="Save and next").click()
    page.locator("#status", has_text="7 questions have no answer yet").wait_for()
    assert page.evaluate("document.activeElement.closest('fieldset').id") == "question-1"
    first.get_by_label("Why can you not judge this?").select_option("Another reason")
    first.get_by_label("In your words").press_sequentially("Page 3 is missing")
    page.get_by_label("Comment").press_sequentially("0.5 mg")
    saved(page)
    assert given(store, 2).not_judged == {"quality_of_information": "Page 3 is missing"}
    assert (given(store, 2).grades, given(store, 2).comment) == ({}, "0.5 mg")
    context.close()


def test_what_is_given_without_a_connection_is_saved_when_it_is_back(
    browser: Browser, address: str, store: Store
) -> None:
    context = browser.new_context()
    page = opened(context, address, store, "/cases/1")
    page.route("**/cases/1", lambda route: route.abort())
    page.locator("#question-1").get_by_role("radio", name="4").check()
    page.locator("#status", has_text="Not saved yet").wait_for()
    page.get_by_label("Comment").fill("Written on the ward.")
    page.locator("#question-2").get_by_role("radio", name="2").check()
    with page.expect_event("dialog") as asked:
        page.close(run_before_unload=True)
    asked.value.dismiss()
    assert asked.value.type == "beforeunload"
    assert 1 not in ratings_of(store, read_study(store, STUDY), RATER)
    page.unroute("**/cases/1")
    page.evaluate("dispatchEvent(new Event('online'))")
    saved(page)
    assert list(given(store, 1).grades.values()) == [4, 2]
    assert given(store, 1).comment == "Written on the ward."
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
    context.close()


def test_a_session_that_ended_loses_nothing(browser: Browser, address: str, store: Store) -> None:
    context = browser.new_context()
    page = opened(context, address, store, "/cases/1")
    revoke(store, STUDY, RATER, by="owner")
    page.get_by_label("Comment").fill("Kept.")
    page.locator("#status", has_text="Open a new personal link in another tab").wait_for()
    other = context.new_page()
    other.goto(link(store, address))
    other.wait_for_url(f"{address}/rate/{STUDY}")
    page.evaluate("dispatchEvent(new Event('online'))")
    saved(page)
    assert given(store, 1).comment == "Kept."
    context.close()


def test_two_windows_of_a_case_are_joined(browser: Browser, address: str, store: Store) -> None:
    context = browser.new_context()
    first = opened(context, address, store, "/cases/1")
    second = context.new_page()
    second.goto(first.url)
    first.locator("#question-1").get_by_role("radio", name="1").check()
    first.locator("#question-2").get_by_role("radio", name="1").check()
    saved(first)
    second.get_by_label("Comment").fill("From the second window")
    second.locator("#question-2").get_by_role("radio", name="5").check()
    second.locator("#status", has_text="changed in another window").wait_for()
    assert second.locator("#question-1").get_by_role("radio", name="1").is_checked()
    second.locator("#question-3").get_by_role("radio", name="3").check()
    saved(second)
    assert (list(given(store, 1).grades.values()), given(store, 1).comment) == ([1, 5, 3], "From the second window")
    context.close()


def test_work_goes_on_in_another_browser_with_its_marks(browser: Browser, address: str, store: Store) -> None:
    one, other = browser.new_context(), browser.new_context(has_touch=True, viewport={"width": 834, "height": 1112})
    page = opened(one, address, store, "/cases/2")
    page.locator("#question-5").get_by_role("radio", name="5").check()
    page.locator("#text-0").evaluate("""box => {
        const range = document.createRange(), text = box.firstChild, at = text.data.indexOf('𠮷');
        range.setStart(text, at); range.setEnd(text, at + 8);
        getSelection().removeAllRanges(); getSelection().addRange(range); }""")
    page.get_by_role("button", name="Invented").click()
    page.get_by_label("Comment").fill("In haste.")
    page.get_by_role("link", name="All cases").click()
    page.get_by_role("link", name="Case 2 started").wait_for()
    page.get_by_role("link", name="Use another device").click()
    page.get_by_role("button", name="Make a link for another device").click()
    link = page.get_by_label("Address").input_value()
    tablet = other.new_page()
    tablet.goto(link)
    tablet.get_by_role("link", name="Case 2 started").tap()
    assert tablet.locator("#question-5").get_by_role("radio", name="5").is_checked()
    assert tablet.get_by_label("Comment").input_value() == "In haste."
    assert tablet.locator("mark.invented").inner_text() == "𠮷 Größe"
    text = tablet.locator("#text-0").text_content() or ""
    mark = given(store, 2).marks[0]
    assert mark == MarkedPassage(start=text.index("𠮷"), end=text.index("Größe") + 5, kind=MarkKind.INVENTED)
    tablet.get_by_role("button", name="Remove").tap()
    saved(tablet)
    assert given(store, 2).marks == ()
    one.close()
    other.close()


@pytest.mark.long
def test_time_without_the_rater_is_not_counted(browser: Browser, address: str, store: Store) -> None:
    context = browser.new_context()
    page = opened(context, address, store)
    page.clock.install()
    page.goto(f"{address}/rate/{STUDY}/cases/1")
    seconds = []
    for number, pause_s in ((1, 600), (2, 30)):
        page.clock.run_for(1000 * pause_s)
        with page.expect_response("**/cases/1") as answer:
            page.locator(f"#question-{number}").get_by_role("radio", name="4").check()
            page.clock.run_for(2000)
        sent = parse_qs(answer.value.request.post_data or "")
        seconds.append(float(sent["seconds"][0]))
    assert 119 < seconds[0] < 140, "two minutes of ten, in which nothing was touched"
    assert 29 < seconds[1] < 50
    context.close()


@pytest.mark.long
def test_hits_of_a_search_are_marked_one_after_the_other(browser: Browser, address: str, store: Store) -> None:
    context = browser.new_context()
    page = opened(context, address, store, "/cases/1")
    page.get_by_role("searchbox", name="Find").fill("visit  WENT")
    page.get_by_role("searchbox", name="Find").press("Enter")
    found = page.locator("#found").inner_text()
    assert re.fullmatch(r"2 of \d+", found)
    assert page.locator("mark.now").inner_text() == "visit went"
    assert page.locator("mark.hit").count() == int(found.split()[-1])
    assert len(rows_of(store, STUDY, RATER)) == 0, "a search is no answer"
    context.close()


@pytest.mark.long
def test_without_scripts_a_case_is_rated_by_its_form(browser: Browser, address: str, store: Store) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    link = new_link(store, STUDY, RATER, by="owner")
    page.goto(address + link.path)
    page.get_by_label("Code").fill(link.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Start with case 1").click()
    for number in range(1, 6):
        page.locator(f"#question-{number}").get_by_role("radio", name="4").check()
    page.get_by_text("Mark a passage").click()
    page.get_by_label("Type or paste the passage").fill("take  1 tablets\n of")
    page.get_by_role("button", name="Mark", exact=True).click()
    assert "Take 1 tablets of" in page.locator("#marks").inner_text()
    page.get_by_role("button", name="Save and next").click()
    assert page.get_by_role("alert").get_by_role("listitem").count() == 2, "the questions on harm"
    page.locator("#question-6").get_by_label("None").check()
    assert not page.locator("#question-7").is_visible()
    page.get_by_role("button", name="Save and next").click()
    assert page.locator("h1").inner_text() == "Case 2 of 9"
    assert (len(given(store, 1).grades), len(given(store, 1).marks)) == (6, 1)
    context.close()


@pytest.mark.parametrize(
    ("scheme", "sizes"),
    [
        ("light", SIZES[:1]),
        pytest.param("light", SIZES[1:], marks=pytest.mark.long),
        pytest.param("dark", SIZES, marks=pytest.mark.long),
    ],
)
def test_pages_keep_the_rules_at_every_width(
    browser: Browser, address: str, store: Store, scheme: Literal["light", "dark"], sizes: Sequence[tuple[int, int]]
) -> None:
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    page = opened(context, address, store, "/cases/1")
    page.locator("#question-1").get_by_label("Cannot judge").check()
    page.locator("#text-0").focus()
    for key in ("ArrowRight", "Enter", "Enter"):
        page.keyboard.press(key)
    saved(page)
    wrong = []
    for path in ("", "/cases/1", "/instrument", "/device", "/login"):
        page.goto(f"{address}/rate/{STUDY}{path}")
        for width, height in sizes:
            page.set_viewport_size({"width": width, "height": height})
            found = [*wcag.problems(page), *wcag.violations(page, only_colors=scheme == "dark")]
            found += wcag.problems_of_keys(page) if scheme == "light" else ()
            wrong += [f"{path or 'overview'} at {width}: {one}" for one in found]
    context.close()
    assert not wrong, "\n".join(wrong)


# --- signing in -------------------------------------------------------------------------------------------------------


def test_a_link_signs_in_one_browser_and_tells_the_second_one(browser: Browser, address: str, store: Store) -> None:
    first, second, given = Watched(browser.new_page()), browser.new_page(), link(store, address)
    first.page.goto(given)
    first.page.wait_for_url(f"{address}/rate/ward")
    second.goto(given)
    second.get_by_role("alert").get_by_text("already used").wait_for()
    assert "#" not in second.url
    first.page.goto(given)
    first.page.wait_for_url(f"{address}/rate/ward")
    assert first.problems == []


@pytest.mark.long
def test_a_link_that_is_opened_where_a_page_for_signing_in_is_shown(
    browser: Browser, addresses: tuple[str, str], store: Store
) -> None:
    """The address then changes in its fragment alone, and no page is loaded."""
    (address, owner), page = addresses, browser.new_page()
    page.goto(f"{address}/rate/ward/login")
    page.goto(link(store, address))
    page.wait_for_url(f"{address}/rate/ward")
    page.goto(f"{address}/login")
    page.goto(owner)
    page.wait_for_url(f"{address}/")
    page.get_by_role("link", name="Studies").click()
    page.wait_for_url(f"{address}/studies")
    assert page.get_by_role("heading", level=1).inner_text() == "Studies"
