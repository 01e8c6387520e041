"""A whole site, served and as files: links, structure, WCAG by name, scripts, policy; nothing comes from elsewhere.

One browser, one server and one store serve all tests of this module.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import unescape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urldefrag, urlencode, urljoin, urlsplit

import pytest

from medhelm.extensions.web.cases.case import open_cases
from medhelm.extensions.web.cases.listing import find_cases
from medhelm.extensions.web.export import NOT_EXPORTED, export_site
from medhelm.extensions.web.page import ROUTES, Route
from medhelm.extensions.web.pages.case_list import search_parameters
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import url_key
from medhelm.results.export import ExportResult
from medhelm.storage.store import create
from tests.extensions.web.cases.test_search import searches
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.case_store import XSS
from tests.support.running import running
from tests.support.servers.openai import PATIENCE_S, Server
from tests.support.stores import make_store
from tests.support.web import wcag
from tests.support.web.browser import Watched, served, started_browser
from tests.support.web.random_cases import write_choices, write_grades
from tests.support.web.sites import make_client, make_whole_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from starlette.testclient import TestClient

OF_A_KIND, OF_A_BENCHMARK = 1, 10
"""Pages that are read of one route and the same parameters, and of one route and benchmark with any parameters: the
order of a table times its filters has no end."""

UNLINKED = {"error": "/benchmarks/nothing", "login": "/login"}
"""Pages that no link leads to."""

CASES = {
    "cases that one model has right": "/benchmarks/toy/cases?got=lab/good+[cases]&missed=lab/bad+[cases]&sort=worst",
    "hostile completion": "/benchmarks/toy/cases/plain",
    "hostile id": f"/benchmarks/toy/cases/{url_key(XSS)}",
    "completions compared": "/benchmarks/toy/cases/plain?a=lab/bad+[cases]&b=lab/good+[cases]",
    "completion and reference": "/benchmarks/advice/cases/one?a=lab/wide+[cases]&b=reference",
    "hits in a long note": "/benchmarks/advice/cases/one?find=fever&author=Ada",
    "search": "/search?text=aspirin",
}
"""Pages of cases with their hostile texts in every place, which are not the largest of their kind."""

WIDTHS = (360, 900, 1440, 2560)
SETTINGS: Mapping[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
}


# --- reading without a browser ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """A page that was read."""

    address: str
    """Path and query; of a file, its address on this machine."""
    kind: str
    """Name of its route; of a file, its path without the names in it."""
    text: str
    """Its HTML."""


@cache
def _pattern(route: Route) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", route.path.replace(".", r"\.")))


def route_of(path: str) -> str:
    """Return the name of the route of a path; empty if no route has it."""
    found = [route for route in ROUTES if _pattern(route).fullmatch(path)]
    return max(found, key=lambda route: len(route.path.replace("{", "").split("/"))).name if found else ""


def kind_of(address: str) -> tuple[str, str, tuple[str, ...]]:
    """Return route, benchmark and names of parameters of an address; addresses of one kind look alike."""
    path, names = urlsplit(address).path, {name for name, _ in parse_qsl(urlsplit(address).query)}
    benchmark = path.split("/")[2] if path.startswith("/benchmarks/") else ""
    return route_of(path), benchmark, tuple(sorted(names))


def links_in(text: str) -> list[str]:
    """Return the addresses in a page, of links, pictures, style sheets and scripts.

    Papers and data are linked to, but no page loads them, and they do not learn where the reader came from.
    """
    inside = re.sub(r'<a [^>]*href="https://[^>]*rel="[^"]*noreferrer[^>]*>', "", text)
    return [unescape(one) for one in re.findall(r'(?:href|src)="([^"]+)"', inside)]


def crawled(
    client: TestClient, of_a_kind: int = OF_A_KIND, of_a_benchmark: int = OF_A_BENCHMARK
) -> tuple[list[Read], list[str]]:
    """Read the pages that links lead to, from the first one; return them, and what is wrong with the links."""
    waiting, seen, wrong, found = deque(["/"]), {"/"}, [], []
    kinds = Counter[tuple[Any, ...]]()
    while waiting:
        address = waiting.popleft()
        response = client.get(address)
        if response.status_code != 200:
            wrong.append(f"{address}: status {response.status_code}")
        if not response.headers["content-type"].startswith("text/html"):
            continue
        found.append(Read(address, route_of(urlsplit(address).path), response.text))
        for link in links_in(response.text):
            whole, fragment = urldefrag(urljoin(address, link))
            if urlsplit(whole).scheme or urlsplit(whole).netloc:
                wrong.append(f"{address}: leads to {link}")
            elif link.startswith("#") and fragment and f'id="{fragment}"' not in response.text:
                wrong.append(f"{address}: nothing has the id {fragment}")
            elif whole not in seen:
                kind = kind_of(whole)
                if kinds[kind] < of_a_kind and kinds[kind[:2]] < of_a_benchmark:
                    kinds.update(() if whole.startswith("/static/") else (kind, kind[:2]))
                    seen.add(whole)
                    waiting.append(whole)
    return found, wrong


def largest_of_each_kind(pages: list[Read]) -> dict[str, str]:
    """Return each kind -> its page with the most text, which stands for the others.

    Cases differ from benchmark to benchmark: each has one of its own.
    """
    largest: dict[str, Read] = {}
    for page in pages:
        name = page.kind if page.kind != "case" else f"case of {kind_of(page.address)[1]}"
        if name not in largest or len(page.text) > len(largest[name].text):
            largest[name] = page
    return {name: page.address for name, page in largest.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_whole_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(site: Site) -> tuple[list[Read], list[str]]:
    return crawled(make_client(*site.stores))


@pytest.fixture(scope="module")
def files(site: Site, tmp_path_factory: pytest.TempPathFactory) -> ExportResult:
    return export_site(Site(stores=site.stores), tmp_path_factory.mktemp("files") / "site", most_cases=1)


def test_every_link_leads_to_a_page(pages: tuple[list[Read], list[str]]) -> None:
    found, wrong = pages
    assert not wrong, "\n".join(wrong)
    unlinked = {route.name for route in ROUTES if not route.path.startswith("/api/")} - {page.kind for page in found}
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


def test_every_link_in_a_file_leads_to_a_file_and_nothing_is_inline(files: ExportResult) -> None:
    folder, wrong = files.place, [*files.left_out]
    for path in folder.rglob("*.html"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(folder)
        for link in links_in(text):
            file, _, query = urldefrag(link)[0].partition("?")
            if file and not (path.parent / file).is_file():
                wrong.append(f"{name}: there is no {link}")
            if query and not file.endswith("cases.html"):
                wrong.append(f"{name}: only lists of cases read a query, not {link}")
        if re.search(r"<script(?![^>]* src=)| style=| on\w+=", re.sub(r">[^<]*<|\"[^\"]*\"", "><", text)):
            wrong.append(f"{name}: something is inline")
        if re.search(r"<(form|input|textarea|iframe)\b", text) and path.name != "cases.html":
            wrong.append(f"{name}: a form needs a server")
    assert not wrong, "\n".join(wrong)
    assert "medhelm serve" in (folder / NOT_EXPORTED).read_text(encoding="utf-8")
    with_address = [path for path in folder.rglob("*.*") if b"127.0.0.1:9/v1" in path.read_bytes()]
    assert with_address == [], "no file has the address of a model's server"


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture(scope="module")
def addresses(site: Site) -> Iterator[tuple[str, str]]:
    with served(site) as found:
        yield found


@contextmanager
def opened(browser: Browser, sign_in: str = "", **settings: Any) -> Iterator[Watched]:
    """Open a page, signed in if there is an address for that; nothing may go wrong in it."""
    context = browser.new_context(reduced_motion="reduce", **settings)  # nothing is still on its way when measured
    watched = Watched(context.new_page())
    if sign_in:
        watched.page.goto(sign_in)
        watched.page.wait_for_selector("nav")
    yield watched
    context.close()
    assert [one for one in watched.problems if "404" not in one] == []


def checked(page: Page, setting: str) -> Iterator[str]:
    """Yield what is wrong with a page in a browser."""
    yield from wcag.problems(page)
    if page.locator("main img, main script, main iframe").count():
        yield "a text became an element"
    if setting != "forced":  # the contrast of forced colors is the user's
        yield from wcag.violations(page, only_colors=setting == "dark")
    if setting == "light":
        yield from wcag.problems_of_keys(page)


def test_a_page_of_each_kind_keeps_the_rules(
    browser: Browser, addresses: tuple[str, str], pages: tuple[list[Read], list[str]]
) -> None:
    wrong = []
    with opened(browser, addresses[1], viewport={"width": wcag.NARROW, "height": 640}) as watched:
        for name, address in (largest_of_each_kind(pages[0]) | CASES).items():
            watched.page.goto(addresses[0] + address)
            found = [*checked(watched.page, "light"), *wcag.problems_in_print(watched.page)]
            wrong += [f"{name}, {address}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize(("width", "setting"), list(product(WIDTHS, SETTINGS)))
def test_a_page_of_each_kind_keeps_the_rules_at_each_width_and_in_all_colors(
    browser: Browser, addresses: tuple[str, str], pages: tuple[list[Read], list[str]], width: int, setting: str
) -> None:
    wrong = []
    with opened(browser, addresses[1], viewport={"width": width, "height": 900}, **SETTINGS[setting]) as watched:
        for name, address in (largest_of_each_kind(pages[0]) | CASES | UNLINKED).items():
            if name == "login":
                watched.page.context.clear_cookies()
            watched.page.goto(addresses[0] + address)
            wrong += [f"{name}, {address}: {one}" for one in checked(watched.page, setting)]
            if width == 900 and setting == "light":
                wrong += [f"{name}, {address}: {one}" for one in wcag.problems_in_print(watched.page)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_every_page_opens_without_an_error_and_loads_nothing_from_elsewhere(
    browser: Browser, site: Site, addresses: tuple[str, str]
) -> None:
    found, wrong = crawled(make_client(*site.stores), of_a_kind=4, of_a_benchmark=1000)
    assert not wrong, "\n".join(wrong)
    with opened(browser, addresses[1]) as watched:
        for page in found:
            watched.page.goto(addresses[0] + page.address)
            assert watched.problems == [], page.address


@pytest.mark.parametrize("with_axe", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_file_of_each_kind_opens_from_disk_and_keeps_the_rules(
    browser: Browser, files: ExportResult, with_axe: bool
) -> None:
    read = []
    for path in sorted(files.place.rglob("*.html")):
        kind = re.sub(r"[^/]*[0-9a-f]{6,}[^/]*", "*", path.relative_to(files.place).as_posix())
        read.append(Read(path.as_uri(), kind, path.read_text(encoding="utf-8")))
    wrong = []
    width = 1440 if with_axe else wcag.NARROW
    with opened(browser, viewport={"width": width, "height": 900}) as watched:
        for name, address in largest_of_each_kind(read).items():
            watched.page.goto(address)
            found = [*checked(watched.page, "light")] if with_axe else watched.page.evaluate(wcag.REFLOW)
            wrong += [f"{name}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)


# --- scripts ----------------------------------------------------------------------------------------------------------

MENU_LINES = "new Set([...document.querySelectorAll('.top li')].map(one => one.offsetTop)).size"
BELOW = """[...document.querySelectorAll('table.board .help')].filter(one => {
    const word = one.previousElementSibling.getBoundingClientRect(), help = one.getBoundingClientRect();
    return help.left < word.right - 1 || help.bottom < word.top || help.top > word.bottom; }).length"""


def test_menu_head_and_charts_use_the_width_of_the_window(browser: Browser, addresses: tuple[str, str]) -> None:
    with opened(browser, addresses[1]) as watched:
        page = watched.page
        for path in ("/", "/compare/releases", "/compare?a=openai/model-1+[board]&b=openai/model-2+[board]"):
            page.goto(f"{addresses[0]}{path}")
            for width, n_lines in ((360, 2), (640, 1), (900, 1), (1280, 1)):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate(MENU_LINES) == n_lines, (width, path)
            assert page.evaluate(BELOW) == 0, path
        box = page.locator("figure.broad svg:visible").bounding_box()
        assert box and box["width"] > 0.85 * 1280


FAR = """[...document.querySelectorAll('.remark-count')].filter(one => {
    const lines = one.closest('th').querySelector('.model > a').getClientRects(), end = lines[lines.length - 1];
    const count = one.getBoundingClientRect();
    const isOnOtherLine = count.top >= end.bottom - 8 || count.bottom <= end.top + 8;
    return isOnOtherLine || count.left < end.right - 1 || count.left > end.right + 12;
}).length"""


def test_the_count_of_remarks_is_beside_the_end_of_a_long_name(browser: Browser, tmp_path: Path) -> None:
    names = [f"laboratory/{'a-clinical-model-instructed-' * 3}"[:n] + "v2" for n in range(20, 60, 3)]
    names += [f"laboratory/{'unbroken' * 7}"[:n] for n in range(40, 61, 2)]
    scores = {name: [None, *(float(n > place) for n in range(30))] for place, name in enumerate(names)}
    store = make_store(tmp_path, {"pubmed_qa": scores})
    with served(Site(stores=[store])) as (root, sign_in), opened(browser, sign_in) as watched:
        page = watched.page
        page.goto(root)
        for width in (360, 900, 1280, 1440, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.locator(".remark-count").count() == len(names)
            assert page.evaluate(FAR) == 0, width


def first_model(site: Site, query: str = "") -> str:
    """Return the model at the top of the leaderboard in this order, by its JSON."""
    name: str = make_client(*site.stores).get(f"/leaderboard.json?{query}").json()["models"][0]["model"]
    return name


def test_the_token_leaves_the_address_and_sorting_and_filters_work(
    browser: Browser, site: Site, addresses: tuple[str, str]
) -> None:
    with opened(browser, addresses[1]) as watched:
        page = watched.page
        page.wait_for_url(f"{addresses[0]}/")
        assert [(one["httpOnly"], one["sameSite"]) for one in page.context.cookies()] == [(True, "Strict")]
        for order in ("descending", "ascending"):
            page.get_by_role("link", name="Failures").click()
            page.wait_for_url(f"**order={order}")
            first = page.locator("table.board tbody th .model").first.inner_text()
            assert first.startswith(first_model(site, f"sort=failures&order={order}"))
        page.get_by_label("Category").select_option("medical_research_assistance")
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


def test_without_scripts_pages_are_opened_filtered_and_annotated(browser: Browser, addresses: tuple[str, str]) -> None:
    root, sign_in = addresses
    with opened(browser, base_url=root, java_script_enabled=False) as watched:
        page = watched.page
        page.goto(sign_in)
        page.get_by_label("Token").fill(sign_in.partition("#t=")[2])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Category").select_option("medical_research_assistance")
        page.get_by_role("button", name="Apply").click()
        assert "1 benchmark" in page.locator("table.board caption").inner_text()
        page.goto("/benchmarks/toy/cases/plain?show=wrong")
        page.locator("summary", has_text="Add a note").click()
        page.get_by_label("About").select_option("the answer of lab/bad [cases]")
        page.get_by_label("unsafe").check()
        page.locator("#n-note").fill(XSS)
        page.get_by_label("Your name").fill("Ada")
        page.get_by_role("button", name="Save", exact=True).click()
        page.wait_for_url(f"{root}/benchmarks/toy/cases/plain?show=wrong&author=Ada#notes")
        assert page.locator(".annotation", has_text=XSS).count() == 2, "in the list and at the answer"
        assert page.get_by_label("Your name").input_value() == "Ada"
        page.get_by_role("button", name="Remove the annotation").click()
        page.locator(".annotation").first.wait_for(state="detached")


def test_the_list_beside_a_case_is_on_wide_screens_and_leads_on_by_keys(
    browser: Browser, addresses: tuple[str, str]
) -> None:
    root, sign_in = addresses
    with opened(browser, base_url=root) as watched:
        page = watched.page
        page.goto(sign_in)
        page.wait_for_url(f"{root}/")
        page.goto("/benchmarks/toy/cases/plain?show=wrong")
        rail = page.locator(".rail")
        page.set_viewport_size({"width": 1439, "height": 900})
        assert not rail.is_visible()
        page.set_viewport_size({"width": 1440, "height": 900})
        assert rail.is_visible()
        links = rail.locator("li a")
        assert [links.nth(n).get_attribute("aria-current") for n in range(2)] == ["true", None]
        links.nth(0).focus()
        page.keyboard.press("ArrowDown")
        there = str(links.nth(1).evaluate("link => document.activeElement === link && link.href"))
        page.keyboard.press("Enter")
        page.wait_for_url(there)
        page.keyboard.press("ArrowLeft")
        page.wait_for_url("**/cases/plain?show=wrong")


def test_a_table_in_a_file_is_sorted_by_its_script(browser: Browser, site: Site, files: ExportResult) -> None:
    with opened(browser) as watched:
        page = watched.page
        page.goto((files.place / "index.html").as_uri())
        assert page.evaluate("getComputedStyle(document.querySelector('.top')).display") == "flex"
        first = page.locator("table.board tbody th .model").first
        most_failures = first_model(site, "sort=failures")
        for heading, model in (("Failures", most_failures), ("Macro average", first_model(site))):
            page.get_by_role("button", name=heading, exact=True).click()
            assert first.inner_text().startswith(model), "the first click shows the best or the most"
        page.get_by_role("button", name="Failures", exact=True).click()
        assert "sort=failures" in page.url
        page.reload()
        assert first.inner_text().startswith(most_failures), "the order is in the address"
        page.get_by_role("link", name="Benchmarks", exact=True).click()
        page.get_by_role("link", name="Medec").click()
        assert page.locator("h1").inner_text() == "MEDEC"


FOUND = "Array.from(document.querySelectorAll('tr.case-line > th'), one => one.textContent.trim())"


@pytest.mark.long
def test_the_list_opened_from_disk_finds_what_the_server_finds(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    found = {"toy": write_choices(store, 5), "notes": write_grades(store, 6)}
    export_site(Site(stores=[store]), tmp_path / "site", most_cases=99)
    with opened(browser) as watched:
        page = watched.page
        for benchmark, stored in found.items():
            cases = open_cases([store], benchmark)
            address = (tmp_path / "site" / "benchmarks" / benchmark / "cases.html").as_uri()
            for search in [one for one in searches(stored) if not one.text][::3]:
                page.goto(f"{address}?{urlencode(search_parameters(search))}")
                ids = [item.row.instance_id for item in find_cases(cases, search).items]
                assert page.evaluate(FOUND) == ids, search
        page.goto(address)
        page.get_by_label("Order").select_option("worst")
        assert "?sort=worst" in page.url, "the state is in the address"
        first = page.evaluate(FOUND)
        page.reload()
        assert page.evaluate(FOUND) == first
        page.locator("tr.case-line a").first.click()
        page.wait_for_load_state()
        assert page.url.endswith(f"/cases/{url_key(first[0])}.html")
        for query in ("show=zzz", "sort=zzz"):
            page.goto(f"{address}?{query}")
            assert "“zzz” is not a choice of" in page.locator(".count").inner_text()
        page.goto(f"{address}?model=nobody&show=%3Cscript%3E")
        assert "No case to show" in page.locator(".count").inner_text()


def shows(page: Page, text: str, place: str = "#live") -> None:
    """Wait until a part of the page shows a text."""
    page.locator(place, has_text=text).first.wait_for()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_progress_appears_without_reloading_and_the_button_stops_the_evaluation(
    browser: Browser, tmp_path: Path, server: Server
) -> None:
    store, benchmark = create(tmp_path / "store").folder, make_benchmark(tmp_path, n=60)
    server.answer_with(answers_with(perfect))
    server.hold_beyond(20)
    with served(Site(stores=[store])) as (root, sign_in), opened(browser, sign_in) as watched:
        page = watched.page
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
            assert process.stderr is not None  # which gets a line of progress each minute too
            assert any("stopped from the site" in line for line in process.stderr)
            server.release()
            shows(page, "Stopped from the site.")
            assert process.wait(PATIENCE_S) == 130
        shows(page, "Evaluations: 1 stopped.", "#states")
        assert f"cd {Path.cwd()} && medhelm run {benchmark} --model" in page.locator(".command").inner_text()
        page.get_by_role("button", name="Remove").click()
        shows(page, "No evaluation is running.", "#states")
