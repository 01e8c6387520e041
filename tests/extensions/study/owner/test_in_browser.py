"""Pages of owners in a real browser: widths, light and dark, paper, no scripts, and numbers that renew themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm.extensions.study.app import PAGES
from medhelm.extensions.web.site import Site
from tests.support.made_once import made_once
from tests.support.planned_studies import rated_store
from tests.support.study_pages import NAME, StudySite, plan_fields, rate, start_study
from tests.support.web import wcag
from tests.support.web.browser import Watched, served
from tests.support.web.printing import faults_of, print_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

STUDY = f"/studies/{NAME}"


@pytest.fixture
def site(tmp_path: Path) -> StudySite:
    """A study in the middle: the second rater differs from the first one, and has rated half of the cases."""
    folder = tmp_path / "store"

    def make() -> None:
        made = StudySite(rated_store(folder, {"aci_bench": True}, n=12).folder)
        start_study(made, asks_harm="yes", purpose="Whether the judges can be relied on.")
        rate(made, "rater_1", 2)
        rate(made, "rater_2", 4, numbers=range(1, 7))

    made_once(folder, "in-the-middle", make)
    return StudySite(folder)


@pytest.fixture
def addresses(site: StudySite) -> Iterator[tuple[str, str]]:
    with served(Site(stores=[site.store.folder]), [PAGES]) as found:
        yield found


def signed_in(browser: Browser, addresses: tuple[str, str], **options: object) -> Watched:
    context = browser.new_context(reduced_motion="reduce", **options)  # type: ignore[arg-type]
    watched = Watched(context.new_page())
    watched.page.goto(addresses[1])
    watched.page.wait_for_url(f"{addresses[0]}/")
    return watched


def fill_plan(page: Page, root: str, **changes: str) -> None:
    """Send the form of a plan, and stay on its page."""
    page.goto(f"{root}/studies/new")
    for name, value in plan_fields(**{"title": "Second look", **changes}).items():
        if name in ("title", "n_cases", "rater_1.name", "rater_2.name"):
            page.locator(f"[id='{name}']").fill(value)
    page.get_by_label("ACI-Bench").check()
    page.get_by_role("button", name="Show the plan").click()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (320, "light"),
        *(pytest.param(*one, marks=pytest.mark.long) for one in ((360, "dark"), (1280, "light"), (1920, "dark"))),
    ],
)
def test_every_page_can_be_used_at_every_width(
    browser: Browser, addresses: tuple[str, str], site: StudySite, width: int, scheme: str
) -> None:
    watched = signed_in(browser, addresses, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, root = watched.page, addresses[0]
    found = {}

    def check(name: str) -> None:
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        found[name] = [*wcag.violations(page), *wcag.problems(page)]

    for path in ("/studies", "/studies/new", STUDY, f"{STUDY}/raters/rater_2", f"{STUDY}/close"):
        page.goto(root + path)
        check(path)
    page.goto(root + STUDY)
    page.locator("section[aria-labelledby='differences'] tbody a").first.click()
    check("case")
    fill_plan(page, root, n_cases="many")
    assert page.evaluate("document.activeElement.id") == "problems"
    check("problems")
    fill_plan(page, root, n_cases="4")
    page.get_by_role("heading", name="The plan").wait_for()
    check("preview")
    page.goto(f"{root}{STUDY}/raters/rater_2")
    page.get_by_role("button", name="Make a link").click()
    check("link")
    page.goto(f"{root}{STUDY}/close")
    page.get_by_label("Close it although ratings are missing").check()
    page.get_by_role("button", name="Close the study").click()
    page.get_by_role("heading", name="Results").wait_for()
    check("closed")
    assert {name: problems for name, problems in found.items() if problems} == {}
    assert watched.problems == []
    page.context.close()


def test_numbers_renew_themselves_and_the_focus_stays(
    browser: Browser, addresses: tuple[str, str], site: StudySite
) -> None:
    watched = signed_in(browser, addresses)
    page = watched.page
    page.clock.install()
    page.goto(addresses[0] + STUDY)
    button = page.get_by_role("button", name="Send to adjudication").first
    button.focus()
    assert "18 of 24" in page.locator(".tally").inner_text()
    changed = page.get_by_text("Something has changed.")
    for numbers, whole in ((range(7, 9), "20 of 24"), (range(9, 13), "24 of 24")):
        rate(site, "rater_2", 4, numbers=numbers)
        page.clock.fast_forward(11_000)
        page.get_by_text(whole).first.wait_for()
    assert page.locator("progress").first.evaluate("one => one.value") == 24
    assert button.evaluate("one => one === document.activeElement")
    changed.wait_for()  # further cases on which raters differ need the whole page
    page.get_by_role("link", name="Show it").click()
    assert page.get_by_role("button", name="Send to adjudication").count() == 12
    assert not changed.is_visible()
    assert watched.problems == []
    page.context.close()


@pytest.mark.long
def test_results_and_card_fit_on_paper(browser: Browser, addresses: tuple[str, str], site: StudySite) -> None:
    rate(site, "rater_2", 4)
    watched = signed_in(browser, addresses)
    page = watched.page
    page.goto(f"{addresses[0]}{STUDY}/close")
    page.get_by_role("button", name="Close the study").click()
    page.get_by_role("heading", name="Results").wait_for()
    sheets = print_page(page, "A4", landscape=False)
    assert faults_of(sheets, ("Results", "The study’s card")) == []
    text = " ".join(sheet.text for sheet in sheets)
    for wanted in ("Harm that raters expect", "The study’s card", "sha256 of the ratings", "Raters saw completions"):
        assert wanted in " ".join(text.split())
    assert list(wcag.problems_in_print(page)) == []
    page.context.close()
