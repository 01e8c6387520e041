"""Every page of a site, served and as files: links, structure, WCAG by name, and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import unescape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

import pytest

from medhelm.extensions.web.export import export_site
from medhelm.extensions.web.page import ROUTES, Route
from medhelm.extensions.web.site import Site
from medhelm.results.export import ExportResult
from tests.support.web import wcag
from tests.support.web.browser import Watched, served, started_browser
from tests.support.web.sites import make_client, make_whole_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page
    from starlette.testclient import TestClient

MOST_OF_A_KIND = 4
"""Pages of one route and the same parameters that are read: the order of a table times its filters has no end."""

LINKS = "[...document.querySelectorAll('a[href]:not([rel~=noreferrer])')].map(one => one.href)"
"""The links of a page that lead to other pages of the site."""

ERRORS = {"error": "/benchmarks/nothing", "login": "/login"}
"""Pages that no link leads to."""

WIDTHS = (360, 900, 1440, 2560)
SETTINGS: Mapping[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
}


@dataclass(frozen=True, slots=True)
class Read:
    """A page that was read."""

    address: str
    """Path and query; of a file, its path below the site."""
    route: str
    """Name of its route."""
    text: str
    """Its HTML."""


@cache
def _pattern(route: Route) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", route.path.replace(".", r"\.")))


def route_of(path: str) -> Route | None:
    """Return the route of a path; None if no route has it."""
    found = [route for route in ROUTES if _pattern(route).fullmatch(path)]
    return max(found, key=lambda route: len(route.path.replace("{", "").split("/"))) if found else None


def kind_of(address: str) -> tuple[str, str, tuple[str, ...]]:
    """Return route, benchmark and names of parameters of an address; addresses of one kind look alike."""
    path, names = urlsplit(address).path, {name for name, _ in parse_qsl(urlsplit(address).query)}
    route = route_of(path)
    benchmark = path.split("/")[2] if path.startswith("/benchmarks/") else ""
    return route.name if route else "", benchmark, tuple(sorted(names))


def links_in(text: str) -> list[str]:
    """Return the addresses in a page, of links, pictures, style sheets and scripts.

    Papers and data are linked to, but no page loads them, and they do not learn where the reader came from.
    """
    inside = re.sub(r'<a [^>]*href="https://[^>]*rel="[^"]*noreferrer[^>]*>', "", text)
    return [unescape(one) for one in re.findall(r'(?:href|src)="([^"]+)"', inside)]


def crawled(client: TestClient) -> tuple[list[Read], list[str]]:
    """Read the pages that links lead to, from the first one; return them, and what is wrong with the links."""
    waiting, seen, wrong, found = deque(["/"]), {"/"}, [], []
    kinds: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    while waiting:
        address = waiting.popleft()
        response = client.get(address)
        if response.status_code != 200:
            wrong.append(f"{address}: status {response.status_code}")
        if not response.headers["content-type"].startswith("text/html"):
            continue
        route = route_of(urlsplit(address).path)
        found.append(Read(address, route.name if route else "", response.text))
        for link in links_in(response.text):
            whole, fragment = urldefrag(urljoin(address, link))
            if urlsplit(whole).scheme or urlsplit(whole).netloc:
                wrong.append(f"{address}: leads to {link}")
            elif link.startswith("#") and fragment and f'id="{fragment}"' not in response.text:
                wrong.append(f"{address}: nothing has the id {fragment}")
            elif whole not in seen and kinds[kind_of(whole)] < MOST_OF_A_KIND:
                seen.add(whole)
                kinds[kind_of(whole)] += not whole.startswith("/static/")
                waiting.append(whole)
    return found, wrong


def largest_of_each_kind(pages: list[Read]) -> dict[str, str]:
    """Return the name of each route -> its page with the most text, which stands for the others.

    Cases differ from benchmark to benchmark: each has one of its own.
    """
    largest: dict[str, Read] = {}
    for page in pages:
        name = page.route if page.route != "case" else f"case of {kind_of(page.address)[1]}"
        if name not in largest or len(page.text) > len(largest[name].text):
            largest[name] = page
    return {name: page.address for name, page in largest.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_whole_site(tmp_path_factory.mktemp("every-page"))


@pytest.fixture(scope="module")
def pages(site: Site) -> tuple[list[Read], list[str]]:
    return crawled(make_client(*site.stores))


@pytest.fixture(scope="module")
def files(site: Site, tmp_path_factory: pytest.TempPathFactory) -> ExportResult:
    return export_site(Site(stores=site.stores), tmp_path_factory.mktemp("files") / "site", most_cases=1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture(scope="module")
def addresses(site: Site) -> Iterator[tuple[str, str]]:
    with served(site) as found:
        yield found


def signed_in(browser: Browser, addresses: tuple[str, str], **settings: Any) -> tuple[BrowserContext, Watched]:
    """Open a page that is signed in."""
    context = browser.new_context(
        reduced_motion="reduce", **settings
    )  # nothing is still on its way when it is measured
    watched = Watched(context.new_page())
    watched.page.goto(addresses[1])
    watched.page.wait_for_url(f"{addresses[0]}/")
    return context, watched


def test_every_link_leads_to_a_page(pages: tuple[list[Read], list[str]]) -> None:
    found, wrong = pages
    assert not wrong, "\n".join(wrong)
    read = {page.route for page in found}
    unlinked = {route.name for route in ROUTES if not route.path.startswith("/api/")} - read
    files_ = {name for name in unlinked if name.endswith(("_csv", "_json", "_chart", "_text", "_live", "_index"))}
    # An evaluation can be stopped only while it runs; sections are linked to where there are variant runs.
    assert unlinked - files_ - {"stop", "sections"} == set()


def test_pages_are_titled_and_their_ids_are_unique(pages: tuple[list[Read], list[str]]) -> None:
    titles: dict[str, str] = {}
    wrong = []
    for page in pages[0]:
        if len(re.findall(r"<h1[ >]", page.text)) != 1:
            wrong.append(f"{page.address}: not one h1")
        twice = [name for name, count in Counter(re.findall(r'\sid="([^"]+)"', page.text)).items() if count > 1]
        wrong += [f"{page.address}: two elements have the id {name}" for name in twice]
        title = page.text.partition("<title>")[2].partition("</title>")[0]
        path = urlsplit(page.address).path
        if titles.setdefault(title, path) != path:
            wrong.append(f"{page.address}: has the title of {titles[title]}, {title}")
    assert not wrong, "\n".join(wrong)


def checked(page: Page, setting: str, *, with_axe: bool) -> list[str]:
    """Return what is wrong with a page in a browser."""
    found = [*wcag.problems(page)]
    if with_axe and setting != "forced":  # the contrast of forced colors is the user's
        found += wcag.violations(page, only_colors=setting == "dark")
    return [*found, *wcag.problems_of_keys(page)] if setting == "light" else found


def test_a_page_of_each_kind_keeps_the_rules(
    browser: Browser, addresses: tuple[str, str], pages: tuple[list[Read], list[str]]
) -> None:
    context, watched = signed_in(browser, addresses, viewport={"width": wcag.NARROW, "height": 640})
    wrong = []
    for name, address in largest_of_each_kind(pages[0]).items():
        watched.page.goto(addresses[0] + address)
        wrong += [f"{name}, {address}: {one}" for one in checked(watched.page, "light", with_axe=True)]
    context.close()
    assert not wrong, "\n".join(wrong)
    assert watched.problems == []


@pytest.mark.long
@pytest.mark.parametrize(("width", "setting"), list(product(WIDTHS, SETTINGS)))
def test_a_page_of_each_kind_keeps_the_rules_at_each_width_and_in_all_colors(
    browser: Browser, addresses: tuple[str, str], pages: tuple[list[Read], list[str]], width: int, setting: str
) -> None:
    context, watched = signed_in(browser, addresses, viewport={"width": width, "height": 900}, **SETTINGS[setting])
    wrong = []
    for name, address in (largest_of_each_kind(pages[0]) | ERRORS).items():
        if name == "login":
            context.clear_cookies()
        watched.page.goto(addresses[0] + address)
        found = checked(watched.page, setting, with_axe=True)
        if width == 900 and setting == "light":
            found += wcag.problems_in_print(watched.page)
        wrong += [f"{name}, {address}: {one}" for one in found]
    context.close()
    assert not wrong, "\n".join(wrong)
    assert [one for one in watched.problems if "404" not in one] == []


@pytest.mark.long
def test_every_page_opens_without_an_error_and_loads_nothing_from_elsewhere(
    browser: Browser, addresses: tuple[str, str], pages: tuple[list[Read], list[str]]
) -> None:
    context, watched = signed_in(browser, addresses)
    for page in pages[0]:
        watched.page.goto(addresses[0] + page.address)
        assert watched.problems == [], page.address
    context.close()


def test_every_file_opens_from_disk_without_an_error_and_links_to_files(browser: Browser, files: ExportResult) -> None:
    context = browser.new_context(viewport={"width": wcag.NARROW, "height": 640})
    watched = Watched(context.new_page())
    folder, wrong = files.place, [*files.left_out]
    for path in sorted(folder.rglob("*.html")):
        watched.page.goto(path.as_uri())
        links = watched.page.evaluate(LINKS)
        for link in {urldefrag(one)[0].partition("?")[0] for one in links}:
            assert link.startswith("file://"), f"{path}: {link}"
            if not Path(url2pathname(urlsplit(link).path)).is_file():
                wrong.append(f"{path.relative_to(folder)}: there is no {link}")
        wrong += [f"{path.relative_to(folder)}: {one}" for one in watched.page.evaluate(wcag.REFLOW)]
        wrong += [f"{path.relative_to(folder)}: {one}" for one in watched.problems]
        watched.problems.clear()
    context.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_a_file_of_each_kind_keeps_the_rules(browser: Browser, files: ExportResult) -> None:
    read = []
    for path in sorted(files.place.rglob("*.html")):
        kind = re.sub(r"[^/]*[0-9a-f]{6,}[^/]*", "*", path.relative_to(files.place).as_posix())
        read.append(Read(path.as_uri(), kind, path.read_text(encoding="utf-8")))
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1440, "height": 900})
    watched = Watched(context.new_page())
    wrong = []
    for name, address in largest_of_each_kind(read).items():
        watched.page.goto(address)
        wrong += [f"{name}: {one}" for one in checked(watched.page, "light", with_axe=True)]
    context.close()
    assert not wrong, "\n".join(wrong)
    assert watched.problems == []
