"""Pages of cases: lists, one case, texts, JSON, hostile ids and texts, text that may not be shown."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient

from medhelm.domain import RULES, Completion, Score
from medhelm.extensions.web.case_search import url_key
from medhelm.extensions.web.case_view import MOST_CHARACTERS
from tests.support.case_store import HOSTILE_IDS, XSS, add_judged_cases, make_case_store
from tests.support.html import HtmlPage
from tests.support.stores import make_record, make_run, write_run
from tests.support.web.sites import make_client

RIGHT = tuple(Score(metric="exact_match", rule=rule, value=1.0) for rule in RULES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_judged_cases(make_case_store(tmp_path_factory.mktemp("cases") / "store"))


@pytest.fixture(scope="module")
def client(folder: Path) -> TestClient:
    return make_client(folder)


def scan(html: str) -> HtmlPage:
    """Read a page and check that nothing in it would run."""
    page = HtmlPage(html)
    assert not {"img", "iframe", "object", "svg", "embed", "base"} & set(page.tags())
    assert page.values("style", "srcdoc") == []
    assert all(one.startswith(("/", "#")) for one in page.values("href", "src", "action") if one)
    scripts = [attributes.get("src", "inline") for tag, attributes in page.elements if tag == "script"]
    assert {one.rpartition("/")[2].partition("?")[0] for one in scripts} <= {"site.js", "cases.js"}
    return page


PAGES = [
    "/benchmarks/toy/cases?text=" + quote(XSS),
    "/benchmarks/toy/cases?got=lab/good&missed=lab/bad",
    "/benchmarks/notes/cases",
    "/benchmarks/notes/cases/i2",
    "/benchmarks/toy/cases/plain?a=lab/bad&b=lab/good",
]


def test_hostile_texts_are_text(client: TestClient) -> None:
    links = scan(client.get("/benchmarks/toy/cases").text).values("href")
    addresses = [f"/benchmarks/toy/cases/{url_key(one)}" for one in HOSTILE_IDS]
    assert set(addresses) <= set(links)
    for address in (*PAGES, *addresses):
        found = client.get(address)
        assert found.status_code == 200, found.text
        scan(found.text)
        assert found.headers["cache-control"] == "no-store"
    shown = scan(client.get("/benchmarks/toy/cases/plain").text).text
    assert shown.count(XSS) == 3, "prompt, completion, message of the failure"
    judged = scan(client.get("/benchmarks/notes/cases/i2").text).text
    assert judged.count(XSS) == 3, "two explanations, and the reason of the missing judgment"
    prompt = client.get("/benchmarks/toy/cases/plain/prompt")
    assert prompt.headers["content-type"].startswith("text/plain")
    assert XSS in prompt.text
    assert "--- incorrect reference\nNaloxone" in prompt.text


def test_a_case_shows_everything(client: TestClient) -> None:
    content = " ".join(scan(client.get("/benchmarks/toy/cases/plain").text).text.split())
    for text in (
        "Größe 0",
        "Aspirin ✓ correct lab/good",
        "Naloxone no one",
        "lab/slow timeout",
        "100 → 20 tokens",
        "0.50 s",
    ):
        assert text in content
    assert "cost unknown" in content
    both = " ".join(scan(client.get("/benchmarks/toy/cases?got=lab/good&missed=lab/bad").text).text.split())
    assert "Of 10 cases that both models have a score for, lab/good is right and lab/bad wrong in 5" in both


def test_two_completions_with_marked_words(client: TestClient) -> None:
    html = client.get(f"/benchmarks/toy/cases/{url_key('..')}?a=lab/bad&b=lab/good").text
    assert re.findall("<mark>(.*?)</mark>", html) == ["marked", "Naloxone.", "Aspirin."]
    assert "lab/slow</h3>" not in html


@pytest.mark.parametrize(
    "query",
    [{"sort": "; DROP TABLE"}, {"low": "nan"}, {"high": "1e999"}, {"page": "0"}, {"page": "1.5"}, {"text": "x" * 401}],
)
def test_bad_parameters_are_refused(client: TestClient, query: dict[str, str]) -> None:
    for address in ("/benchmarks/toy/cases", "/api/benchmarks/toy/cases"):
        assert client.get(f"{address}?{urlencode(query)}").status_code == 400


@pytest.mark.parametrize(
    "address",
    [
        "/benchmarks/..%2fruns/cases",
        "/benchmarks/toy/cases?got=../../etc/passwd",
        "/benchmarks/toy/cases?group=%27+OR+1=1",
        "/benchmarks/toy/cases/unknown",
        "/benchmarks/toy/cases/%2e%2e%2f%2e%2e%2fstore.json",
        f"/benchmarks/toy/cases/plain/completions/{url_key('lab/slow')}",
        "/benchmarks/notes/cases/i0/prompt",
        "/api/benchmarks/toy/cases/unknown",
    ],
)
def test_unknown_things_are_not_found(client: TestClient, address: str) -> None:
    assert client.get(address).status_code == 404


def test_a_long_completion_is_cut_with_a_link_to_the_whole(tmp_path: Path) -> None:
    text = "word & <b> " * 100_000
    for model in ("a", "b"):
        record = make_record(0, instance_id="long", completion=Completion(text=text), scores=RIGHT)
        write_run(tmp_path, make_run("toy", model, n=1), [record])
    client = make_client(tmp_path)
    for query in ("", "?a=a&b=b"):
        page = client.get(f"/benchmarks/toy/cases/long{query}")
        assert len(page.text) < 8 * MOST_CHARACTERS
        assert "first 20,000 of 1,100,000 characters" in page.text
    whole = client.get(next(one for one in scan(page.text).values("href") if "/completions/" in one))
    assert whole.text == text
    assert whole.headers["content-type"].startswith("text/plain")


def test_texts_that_are_not_public_are_left_out_if_the_site_shows_none(folder: Path) -> None:
    client = make_client(folder, with_text=False)
    listed = client.get("/benchmarks/toy/cases")
    assert listed.status_code == 200
    assert "Texts left out" in listed.text
    for address in [*PAGES, "/benchmarks/toy/cases/plain/prompt", "/api/benchmarks/toy/cases"]:
        page = client.get(address).text
        assert not any(secret in page for secret in ("Naloxone", "Aspirin", "Größe", "line break", "alert"))
    assert client.get("/api/benchmarks/toy/cases/plain").status_code == 404
