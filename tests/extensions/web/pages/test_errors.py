"""The page of errors: each number is the number of cases that its link finds, and equals the JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from medhelm.extensions.web.pages import errors
from medhelm.extensions.web.site import Site
from tests.support.case_store import add_judged_cases, make_case_store
from tests.support.html import HtmlPage
from tests.support.web.random_cases import answer, share, write_choices, write_grades
from tests.support.web.sites import make_client, static_page

LINK = re.compile(r'<a href="(/benchmarks/\w+/cases\?[^"]+)">([0-9,]+)</a>')


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors") / "store"
    write_choices(folder, 11, n=20)
    write_grades(folder, 12, n=12)
    return folder


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[TestClient]:
    with make_client(store) as client:
        yield client


@pytest.mark.parametrize("address", ["toy/errors?model=lab/b", "notes/errors"])
def test_every_number_is_the_number_of_cases_that_its_link_finds(client: TestClient, address: str) -> None:
    page = client.get(f"/benchmarks/{address}")
    assert page.status_code == 200
    found = {unescape(link): int(number.replace(",", "")) for link, number in LINK.findall(page.text)}
    assert len(found) > 8
    for link, number in found.items():
        assert client.get(f"/api{link}").json()["total"] == number, link


def test_the_counts_are_those_of_the_records(tmp_path: Path) -> None:
    stored = write_choices(tmp_path, 21, n=25)
    found: dict[str, Any] = make_client(tmp_path).get("/api/benchmarks/toy/errors").json()
    assert found["models"] == stored.contestants
    for letter in found["letters"]:
        assert letter["n_key"] == stored.keys.count(letter["label"])
        for model, n in letter["chosen"].items():
            assert n == sum(answer(record) == letter["label"] for record in stored.records[model])
    for one in found["confusions"]:
        for key, chosen in one["counts"].items():
            assert sum(chosen.values()) == stored.keys.count(key)
    worst = [[share(stored.records[model][int(case["id"][1:])]) for model in stored.contestants]
             for case in found["hardest"]]  # fmt: skip
    means = [sum(known) / len(known) for known in ([one for one in own if one is not None] for own in worst)]
    assert means == sorted(means)
    for one in found["suspects"]:
        assert one["said"] not in one["case"]["correct"]
        assert one["n_said"] == sum(one["case"]["answers"].get(model) == one["said"] for model in stored.contestants)


def test_errors_of_models_without_a_column_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = write_choices(tmp_path, 23, n=25)
    whole = make_client(tmp_path).get("/api/benchmarks/toy/errors").json()
    monkeypatch.setattr(errors, "MOST_MODELS", 2)
    monkeypatch.setattr(errors, "MOST_STATIC", 1)
    client = make_client(tmp_path)
    found = client.get("/api/benchmarks/toy/errors").json()
    assert found["models"] == whole["models"][:2]
    assert found["reasons"] == whole["reasons"]
    page, n = client.get("/benchmarks/toy/errors").text, len(stored.contestants)
    assert f"{n} models, of which the best 2 have a column" in page
    rows = re.findall(r'<code class="quiet small">(\w+)</code></th>\s*<td class="number">(\d+)</td>', page)
    assert {name: int(total) for name, total in rows} == {
        one["reason"]: sum(one["counts"].values()) for one in found["reasons"] if one["is_failure"]
    }
    assert re.search(r"by [12] of 2<", page)
    assert not re.search(r"by \d of [3-9]<", page)
    files = static_page(Site(stores=[tmp_path]), "errors", benchmark="toy")
    assert f"The best 1 of {n} models." in files


def test_hostile_texts_and_a_case_that_is_gone(tmp_path: Path) -> None:
    client = make_client(add_judged_cases(make_case_store(tmp_path)))
    for address in ("/benchmarks/toy/errors", "/benchmarks/notes/errors", "/search?text=alert", "/search?text=%00"):
        page = HtmlPage(client.get(address).text)
        assert not {"img", "iframe", "object", "embed", "base"} & set(page.tags())
    gone = client.get("/benchmarks/toy/cases/nothing")
    assert gone.status_code == 404
    assert 'href="/benchmarks/toy/cases"' in gone.text
    assert client.get("/benchmarks/none/errors").status_code == 404


def test_a_case_says_what_is_unusual_about_a_completion(client: TestClient) -> None:
    for show, words in (
        ("unreadable", "No answer can be read from it."),
        ("injection", "Signs of a prompt injection aimed at judges: verdict."),
    ):
        case = client.get(f"/api/benchmarks/toy/cases?show={show}").json()["cases"][0]
        assert words in client.get(f"/benchmarks/toy/cases/{case['key']}").text


def test_of_texts_that_are_not_shown_there_are_numbers_only(store: Path) -> None:
    client = make_client(store, with_text=False)
    page = client.get("/benchmarks/toy/errors").text
    assert "Numbers only" in page
    assert "refusal" in page
    assert not re.search(r"i\d\d\b|Heparin|first|/cases/", page)
    assert client.get("/api/benchmarks/toy/errors").status_code == 404


def test_a_search_over_all_benchmarks(client: TestClient, store: Path) -> None:
    found = client.get("/api/search?text=heparin").json()
    (hits,) = found["benchmarks"]
    assert hits["total"] == client.get("/api/benchmarks/toy/cases?text=heparin").json()["total"] > 0
    assert len(hits["cases"]) == min(5, hits["total"])
    assert all("Heparin" in case["excerpt"] for case in hits["cases"])
    page = client.get("/search?text=heparin").text
    assert page.count("<mark>Heparin</mark>") >= len(hits["cases"])
    assert client.get("/api/search?text=a+note").json()["benchmarks"][0]["benchmark"] == "notes"
    hidden = make_client(store, with_text=False).get("/search?text=heparin").text
    assert "Not searched" in hidden
    assert "<mark>" not in hidden


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("show=changed", "Choose two different models"),
        ("got=lab/a&missed=lab/a", "cannot be right and wrong"),
        ("better=lab/a&than=lab/a", "Choose two different models"),
        ("than=lab/a", "Choose two different models"),
        ("criterion=x", "There is no criterion `x` here"),
        ("show=judges", "No judge graded"),
        ("low=0.9&high=0.1", "above the highest"),
        ("low=0,5", "Use a number such as 0.5"),
        ("failure=timeout&show=blank", "has no completion"),
        ("group=nowhere", "There is no group `nowhere` here"),
        ("answer=Z", "There is no answer `Z` here"),
    ],
)
def test_conditions_that_cannot_be_met_keep_the_page_and_say_why(client: TestClient, query: str, reason: str) -> None:
    page = client.get(f"/benchmarks/toy/cases?{query}")
    assert reason in unescape(page.text)
    assert 'role="search"' in page.text
    assert 'href="/benchmarks/toy/cases"' in page.text


def test_a_search_without_results_offers_what_fewer_conditions_find(client: TestClient) -> None:
    page = client.get("/benchmarks/toy/cases?text=nowhere+at+all&show=wrong").text
    assert "No case meets these conditions" in page
    assert re.search(r"Without “text: nowhere at all”: <a [^>]+>\d+ cases", page)
