"""Pages of cases: lists, one case, texts, JSON, hostile ids and texts, text that may not be shown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient

from medhelm.domain import RULES, Completion, Score
from medhelm.extensions.web.case_search import url_key
from medhelm.extensions.web.pages.cases import MOST_CHARACTERS, MOST_COLUMNS, MOST_COMPLETIONS
from tests.support.case_store import HOSTILE_IDS, XSS, add_judged_cases, make_case_store
from tests.support.stores import make_record, make_run, write_run
from tests.support.web.sites import make_client

ALLOWED_SCRIPTS = {"site.js", "cases.js"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_judged_cases(make_case_store(tmp_path_factory.mktemp("cases") / "store"))


@pytest.fixture(scope="module")
def client(folder: Path) -> TestClient:
    return make_client(folder)


class Scanner(HTMLParser):
    """Collects what a browser would run: elements, handlers and addresses; and the texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.elements: set[str] = set()
        self.suspicious: list[str] = []
        self.links: list[str] = []
        self.content = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        found = dict(attrs)
        if tag == "script":
            self.scripts.append((found.get("src") or "inline").rpartition("/")[2].partition("?")[0])
        if tag == "a":
            self.links.append(found.get("href") or "")
        self.suspicious += [f"{tag} {name}" for name in found if name.startswith("on") or name in ("style", "srcdoc")]
        addresses = [found.get(name) or "" for name in ("href", "src", "action")]
        self.suspicious += [one for one in addresses if one and not one.startswith(("/", "#"))]

    def handle_data(self, data: str) -> None:
        self.content += data


def scan(html: str) -> Scanner:
    """Scan a page and check that nothing in it would run."""
    found = Scanner(html)
    assert set(found.scripts) <= ALLOWED_SCRIPTS
    assert not found.elements & {"img", "iframe", "object", "svg", "embed", "base"}
    assert found.suspicious == []
    return found


PAGES = [
    "/benchmarks/toy/cases",
    "/benchmarks/toy/cases?text=" + quote(XSS),
    "/benchmarks/toy/cases?sort=id&show=wrong",
    "/benchmarks/toy/cases?got=lab/good&missed=lab/bad",
    "/benchmarks/notes/cases",
    "/benchmarks/notes/cases/i0",
    "/benchmarks/notes/cases/i2",
    "/benchmarks/toy/cases/plain?a=lab/bad&b=lab/good",
    *(f"/benchmarks/toy/cases/{url_key(one)}" for one in HOSTILE_IDS),
]


@pytest.mark.parametrize("address", PAGES)
def test_hostile_texts_are_text(client: TestClient, address: str) -> None:
    found = client.get(address)
    assert found.status_code == 200, found.text
    scan(found.text)
    assert found.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("instance_id", HOSTILE_IDS)
def test_hostile_ids_lead_from_the_list_to_the_case(client: TestClient, instance_id: str) -> None:
    links = scan(client.get("/benchmarks/toy/cases").text).links
    address = f"/benchmarks/toy/cases/{url_key(instance_id)}"
    assert address in links
    found = scan(client.get(address).text)
    assert " ".join(instance_id.split()) in " ".join(found.content.split())
    assert client.get(f"/api{address}").json()["instance_id"] == instance_id


def test_hostile_texts_are_shown_as_written(client: TestClient) -> None:
    found = scan(client.get("/benchmarks/toy/cases/plain").text)
    assert found.content.count(XSS) == 3, "prompt, completion, message of the failure"
    judged = scan(client.get("/benchmarks/notes/cases/i2").text)
    assert judged.content.count(XSS) == 3, "two explanations, and the reason of the missing judgment"


def test_a_case_shows_everything(client: TestClient) -> None:
    content = " ".join(scan(client.get("/benchmarks/toy/cases/plain").text).content.split())
    for text in ("Größe 0", "correct Aspirin", "incorrect Naloxone", "lab/slow timeout", "100 in, 20 out", "0.50 s"):
        assert text in content
    assert "cost unknown" in content


def test_two_completions_with_marked_words(client: TestClient) -> None:
    html = client.get(f"/benchmarks/toy/cases/{url_key('..')}?a=lab/bad&b=lab/good").text
    assert re.findall("<mark>(.*?)</mark>", html) == ["marked", "Naloxone.", "Aspirin."]
    assert "lab/slow</h3>" not in html


def test_next_and_previous_stay_within_the_search(client: TestClient) -> None:
    address = f"/benchmarks/toy/cases/{url_key('..')}?show=wrong&a=lab/bad&b=lab/good"
    html = client.get(address).text
    steps = dict(re.findall(r'rel="(prev|next)" data-key="\w+" href="([^"]+)"', html))
    assert steps["prev"].startswith("/benchmarks/toy/cases/plain?")
    assert "show=wrong" in steps["next"]
    assert "b=lab%2Fgood" in steps["next"]
    assert client.get(steps["next"].replace("&amp;", "&")).status_code == 200
    assert "2 of 5" in html


def test_two_models_are_compared_case_by_case(client: TestClient) -> None:
    content = " ".join(scan(client.get("/benchmarks/toy/cases?got=lab/good&missed=lab/bad").text).content.split())
    assert "Of 10 cases that both models have a score for, lab/good is right and lab/bad wrong in 5" in content
    assert "5 cases found" in content


@pytest.mark.parametrize(
    "query",
    [
        {"show": "everything"},
        {"sort": "; DROP TABLE"},
        {"within": "x"},
        {"low": "nan"},
        {"high": "1e999"},
        {"low": "0x1"},
        {"page": "0"},
        {"page": "1.5"},
        {"text": "x" * 401},
    ],
)
def test_bad_parameters_are_refused(client: TestClient, query: dict[str, str]) -> None:
    for address in ("/benchmarks/toy/cases", "/api/benchmarks/toy/cases"):
        assert client.get(f"{address}?{urlencode(query)}").status_code == 400


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", "lab/unknown"), ("got", "../../etc/passwd"), ("failure", "x"), ("group", "' OR 1=1")],
)
def test_unknown_names_are_not_found(client: TestClient, name: str, value: str) -> None:
    for address in ("/benchmarks/toy/cases", "/api/benchmarks/toy/cases"):
        found = client.get(f"{address}?{urlencode({name: value})}")
        assert found.status_code == 404
        assert f"There is no {name} " in found.text


@pytest.mark.parametrize(
    "address",
    [
        "/benchmarks/nothing/cases",
        "/benchmarks/..%2fruns/cases",
        "/benchmarks/toy/cases/unknown",
        "/benchmarks/toy/cases/%2e%2e%2f%2e%2e%2fstore.json",
        "/benchmarks/toy/cases/plain/completions/unknown",
        f"/benchmarks/toy/cases/plain/completions/{url_key('lab/slow')}",
        "/benchmarks/notes/cases/i0/prompt",
        "/api/benchmarks/toy/cases/unknown",
    ],
)
def test_unknown_things_are_not_found(client: TestClient, address: str) -> None:
    assert client.get(address).status_code == 404


def test_lists_as_json(client: TestClient) -> None:
    found = client.get("/api/benchmarks/toy/cases?show=wrong").json()
    assert (found["total"], found["page"], found["pages"], found["search"]) == (5, 1, 1, {"show": "wrong"})
    assert found["cases"][0] == {
        "id": "plain",
        "key": "plain",
        "group": "first",
        "excerpt": f'0: which "drug"? Größe 0. {XSS}',
        "scores": {"lab/bad": 0.0, "lab/good": 1.0, "lab/slow": None},
        "failures": {"lab/slow": "timeout"},
    }
    assert "<script" not in client.get("/api/benchmarks/toy/cases").text


def test_texts_are_plain_text(client: TestClient) -> None:
    prompt = client.get("/benchmarks/toy/cases/plain/prompt")
    assert prompt.headers["content-type"].startswith("text/plain")
    assert prompt.headers["x-content-type-options"] == "nosniff"
    assert XSS in prompt.text
    assert "--- incorrect reference\nNaloxone" in prompt.text


def test_a_long_completion_is_cut_with_a_link_to_the_whole(tmp_path: Path) -> None:
    text = "word & <b> " * 100_000
    record = make_record(
        0,
        instance_id="long",
        completion=Completion(text=text),
        scores=tuple(Score(metric="exact_match", rule=rule, value=1.0) for rule in RULES),
    )
    for model in ("a", "b"):
        write_run(tmp_path, make_run("toy", model, n=1), [record])
    client = make_client(tmp_path)
    for query in ("", "?a=a&b=b"):
        page = client.get(f"/benchmarks/toy/cases/long{query}")
        assert len(page.text) < 8 * MOST_CHARACTERS
        assert "first 20,000 of 1,100,000 characters" in page.text
    links = [one for one in scan(page.text).links if "/completions/" in one]
    whole = client.get(links[0])
    assert whole.text == text
    assert whole.headers["content-type"].startswith("text/plain")


def test_many_models_have_columns_and_completions_up_to_a_limit(tmp_path: Path) -> None:
    record = make_record(0, scores=tuple(Score(metric="exact_match", rule=rule, value=1.0) for rule in RULES))
    for n in range(MOST_COMPLETIONS + 5):
        write_run(tmp_path, make_run("toy", f"m{n:03}", n=1), [record])
    client = make_client(tmp_path)
    listed = client.get("/benchmarks/toy/cases?model=m064").text
    assert listed.count('class="model-name"') == MOST_COLUMNS
    assert '<th scope="col" class="model-name">m064</th>' in listed
    assert "65 of 65" in listed
    page = client.get("/benchmarks/toy/cases/i0").text
    assert page.count("<article") == MOST_COMPLETIONS
    assert "5 models more" in page
    assert client.get("/benchmarks/toy/cases/i0?a=m063&b=m064").text.count("<article") == 2


def test_sample_rows_are_marked_beside_real_data(folder: Path, tmp_path: Path) -> None:
    make_case_store(tmp_path, tier="sample")
    add_judged_cases(tmp_path)
    client = make_client(tmp_path)
    for address in ("/benchmarks/toy/cases", "/benchmarks/toy/cases/plain"):
        assert client.get(address).text.count("Sample tier.") == 1
    assert "Sample tier." not in make_client(folder).get("/benchmarks/toy/cases").text


def test_texts_that_are_not_public_are_left_out_if_the_site_shows_none(folder: Path) -> None:
    client = make_client(folder, with_text=False)
    listed = client.get("/benchmarks/toy/cases")
    assert listed.status_code == 200
    assert "Texts left out" in listed.text
    for address in [*PAGES, "/benchmarks/toy/cases/plain/prompt", "/api/benchmarks/toy/cases"]:
        page = client.get(address).text
        assert not any(secret in page for secret in ("Naloxone", "Aspirin", "Größe", "line break", "alert"))
    assert client.get("/api/benchmarks/toy/cases/plain").status_code == 404


def test_texts_of_public_benchmarks_are_always_shown(tmp_path: Path) -> None:
    run = make_run("pubmed_qa", "a", n=1)
    write_run(tmp_path, run, [make_record(0, instance_id="x", completion=Completion(text="Aspirin"))])
    assert "Aspirin" in make_client(tmp_path, with_text=False).get("/benchmarks/pubmed_qa/cases/x").text
