"""The static list of cases in a browser finds what the server finds, and holds nothing of cases that are left out."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from medhelm.domain import Completion, Instance, Message, Prompt, Reference
from medhelm.extensions.web.cases.case import open_cases
from medhelm.extensions.web.cases.listing import find_cases, instructive_cases
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.extensions.web.export import export_site
from medhelm.extensions.web.pages.case_list import search_parameters
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import url_key
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.extensions.web.cases.test_search import searches
from tests.support.stores import make_record, scored_run, write_run
from tests.support.web.browser import Watched, started_browser
from tests.support.web.random_cases import write_choices, write_grades
from tests.support.web.sites import make_client

FOUND = "Array.from(document.querySelectorAll('tr.case-line > th'), one => one.textContent.trim())"


@pytest.mark.long
def test_the_list_opened_from_disk_finds_what_the_server_finds(tmp_path: Path) -> None:
    store = tmp_path / "store"
    found = {"toy": write_choices(store, 5), "notes": write_grades(store, 6)}
    export_site(Site(stores=[store]), tmp_path / "site", most_cases=99)
    with started_browser() as browser:
        watched = Watched(browser.new_context().new_page())
        for benchmark, stored in found.items():
            cases = open_cases([store], benchmark)
            page = (tmp_path / "site" / "benchmarks" / benchmark / "cases.html").as_uri()
            for search in [one for one in searches(stored) if not one.text][::3]:
                watched.page.goto(f"{page}?{urlencode(search_parameters(search))}")
                ids = [item.row.instance_id for item in find_cases(cases, search).items]
                assert watched.page.evaluate(FOUND) == ids, search
        watched.page.goto(page)
        watched.page.get_by_label("Order").select_option("worst")
        assert "?sort=worst" in watched.page.url, "the state is in the address"
        first = watched.page.evaluate(FOUND)
        watched.page.reload()
        assert watched.page.evaluate(FOUND) == first
        watched.page.locator("tr.case-line a").first.click()
        watched.page.wait_for_load_state()
        assert watched.page.url.endswith(f"/cases/{url_key(first[0])}.html")
        for query in ("show=zzz", "sort=zzz"):
            watched.page.goto(f"{page}?{query}")
            assert "“zzz” is not a choice of" in watched.page.locator(".count").inner_text()
        watched.page.goto(f"{page}?model=nobody&show=%3Cscript%3E")
        assert "No case to show" in watched.page.locator(".count").inner_text()
        assert watched.problems == []


def canary(place: int, what: str) -> str:
    return f"CANARY-{what}-{place:02d}"


def write_canaries(folder: Path, n: int) -> None:
    """Write cases whose ids, prompts, options, completions and references are canaries."""
    for model in ("lab/a", "lab/b", "lab/c"):
        said = [Completion(text=f"{canary(place, 'COMPLETION')} of {model}") for place in range(n)]
        run = scored_run("wards", model, [float(place % 3 == len(model) % 2) for place in range(n)])
        records = [
            make_record(place, instance_id=canary(place, "ID"), completion=said[place], scores=()) for place in range(n)
        ]
        stored = write_run(folder, run, records)
    path = Store(folder).prompts_file("wards", stored.benchmark_digest, stored.data_digest)
    references = [(Reference(canary(place, "REFERENCE")),) for place in range(n)]
    rows = (
        (
            Instance(id=canary(place, "ID"), fields={}, references=references[place]),
            Prompt((Message("user", f"Read. {canary(place, 'PROMPT')} Answer."),)),
        )
        for place in range(n)
    )
    write_prompts(path, rows)


@pytest.mark.parametrize(("most", "with_text"), [(0, True), (3, True), (9, False)])
def test_nothing_of_other_cases_is_in_any_file(tmp_path: Path, most: int, with_text: bool) -> None:
    store, site = tmp_path / "store", tmp_path / "site"
    write_canaries(store, 12)
    export_site(Site(stores=[store], with_text=with_text), site, most_cases=most)
    kept = set(instructive_cases(open_cases([store], "wards"), most)) if with_text else set()
    written = b"".join(str(path).encode() + path.read_bytes() for path in site.rglob("*") if path.is_file())
    for place in range(12):
        name = canary(place, "ID")
        names = [name.lower().encode(), *(canary(place, what).encode() for what in ("ID", "PROMPT", "COMPLETION"))]
        assert {one in written for one in names} == {name in kept}, name
    assert (b"CANARY" in written) == bool(kept)


def test_the_page_says_why_there_are_no_cases(tmp_path: Path) -> None:
    write_canaries(tmp_path / "store", 3)
    for most, with_text, reason in ((0, True, "--cases 0"), (3, False, "without <code>--with-text</code>")):
        site = tmp_path / f"site-{most}"
        export_site(Site(stores=[tmp_path / "store"], with_text=with_text), site, most_cases=most)
        assert reason in (site / "benchmarks" / "wards" / "cases.html").read_text(encoding="utf-8")
        assert reason in (site / "not-exported.html").read_text(encoding="utf-8")


def test_the_list_says_how_many_failed_cases_are_left_out(tmp_path: Path) -> None:
    write_choices(tmp_path / "store", 3, n=40)
    cases = open_cases([tmp_path / "store"], "toy")
    failed = {item.row.instance_id for item in find_cases(cases, CaseSearch(show="failed")).items}
    n = len(failed - set(instructive_cases(cases, 4)))
    assert n > 1
    export_site(Site(stores=[tmp_path / "store"]), tmp_path / "site", most_cases=4)
    page = (tmp_path / "site" / "benchmarks" / "toy" / "cases.html").read_text(encoding="utf-8")
    assert f"{n} cases with a failed request are left out." in page


def test_the_server_does_not_send_the_index(tmp_path: Path) -> None:
    write_choices(tmp_path, 1)
    client: TestClient = make_client(tmp_path)
    assert client.get("/benchmarks/toy/case-index/1.js").status_code == 404
