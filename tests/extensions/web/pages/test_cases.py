"""Pages of cases: lists, one case, texts, JSON, hostile ids and texts, text that may not be shown."""

from __future__ import annotations

import re
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient

from medhelm.domain import RULES, Completion, Score
from medhelm.extensions.web.cases.view import MOST_CHARACTERS
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import url_key
from medhelm.storage.annotations import add_annotation, new_annotation, read_annotations
from medhelm.storage.store import Store
from tests.support.case_store import (
    ASKED,
    HARM,
    HELP,
    HOSTILE_IDS,
    NOTE,
    XSS,
    add_judged_cases,
    add_points_cases,
    make_case_store,
)
from tests.support.html import HtmlPage
from tests.support.stores import make_record, make_run, write_run
from tests.support.web.sites import make_client, static_page

RIGHT = tuple(Score(metric="exact_match", rule=rule, value=1.0) for rule in RULES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_points_cases(add_judged_cases(make_case_store(tmp_path_factory.mktemp("cases") / "store")))


@pytest.fixture(scope="module")
def client(folder: Path) -> TestClient:
    return make_client(folder)


def scan(html: str) -> HtmlPage:
    """Read a page and check that nothing in it would run."""
    page = HtmlPage(html)
    assert not {"img", "iframe", "object", "embed", "base"} & set(page.tags())
    assert {attributes.get("class") for tag, attributes in page.elements if tag == "svg"} <= {"chart-mark"}
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
    "/benchmarks/advice/cases/one?find=" + quote(XSS[:20]),
    "/benchmarks/advice/cases/one?view=source&text=" + quote(XSS),
    "/benchmarks/advice/cases/one?a=lab/wide&b=reference",
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


# --- one case: what it shows ------------------------------------------------------------------------------------------


def shown(client: TestClient, address: str) -> str:
    """The text of a page, with single spaces."""
    return " ".join(scan(client.get(address).text).text.split())


def test_options_say_who_chose_them_as_the_json_does(client: TestClient) -> None:
    for instance_id in HOSTILE_IDS:
        address = f"/benchmarks/toy/cases/{url_key(instance_id)}"
        case = client.get(f"/api{address}").json()
        assert [one["model"] for one in case["completions"]] == ["lab/good", "lab/slow", "lab/bad"]
        table = shown(client, address).partition("Chosen by")[2].partition(" Answers ")[0]
        for label, text in zip(case["labels"], case["choices"], strict=True):
            chosen = [one["model"] for one in case["completions"] if one["option"] == label]
            key = "✓ correct " if {"text": text, "correct": True} in case["references"] else ""
            assert f"{text} {key}{', '.join(chosen) or 'no one'}" in table
        for one in case["completions"]:
            right = one["option"] == case["labels"][0]
            assert one["option"] is None if one["completion"]["text"] is None else right is (one["score"] == 1.0)


def table(html: str, kind: str) -> list[list[str]]:
    """The cells of a table of this class."""
    found = html.partition(f'<table class="{kind}">')[2].partition("</table>")[0]
    return [
        [" ".join(HtmlPage(cell).text.split()) for cell in re.split("<t[hd]", row)[1:]]
        for row in found.replace("<t", " <t").split("<tr")[1:]
    ]


def test_criteria_have_their_sentences_points_and_harms(client: TestClient) -> None:
    html = client.get("/benchmarks/advice/cases/one").text
    case = client.get("/api/benchmarks/advice/cases/one").json()
    judged = [one for one in case["completions"] if one["judgments"]]
    head, *rows = [[cell.rpartition(">")[2].strip() for cell in row] for row in table(html, "matrix")]
    cells = {"lab/wide": ["2/2", "1/2↕", "3.5"], "lab/cut": ["0/2", "0/2", "0"]}
    assert head[2:] == [one["model"] for one in judged]
    assert [row[2:] for row in rows] == [[cells[name][place] for name in head[2:]] for place in range(3)]
    assert [row[1] for row in rows] == ["+5", "−3 harm", "5"]
    text = " ".join(scan(html).text.split())
    assert f"{HELP}+5" in text
    assert f"{HARM}−3 harm" in text
    assert "Judges: 3.5 of 5 points differ" in text
    assert "1 baseline baseline/lexical" in text
    for one in judged:
        for judgment in one["judgments"]:
            said = f"{judgment['judge']}, {'✓met' if judgment['score'] else '✗not met'}{judgment['explanation']}"
            assert said in text


def test_grades_have_no_words_right_and_wrong(client: TestClient) -> None:
    html = client.get("/benchmarks/notes/cases/i1").text
    assert re.findall('class="outcome ([^"]*)"', html) == ["grade fifth-3"] * 2
    assert "1 Accuracy" not in html
    assert "judges differ by 2 or more" in html
    assert '3.0<span class="differ"' in html


def test_a_long_prompt_shows_its_question_both_ends_hits_and_where_it_was_cut(client: TestClient) -> None:
    text = shown(client, "/benchmarks/advice/cases/one?find=FEVER")
    assert text.index(ASKED) < text.index("First line of the note.")
    assert f"Text {len(NOTE.strip()):,} characters" in text
    assert "lab/cut did not see the first 25 characters" in text
    assert "✂ lab/cut read the text from here" in text
    at = NOTE.index("Fever") + 1
    assert f"1 hit {at:,} " in text
    assert "Fever on day 9" in text
    assert "No hit of “zebra”" in shown(client, "/benchmarks/advice/cases/one?find=zebra")
    assert NOTE in client.get("/benchmarks/advice/cases/one/prompt").text


def test_the_ruler_leads_to_hits_and_sections_of_a_long_text(tmp_path: Path) -> None:
    folder = make_case_store(tmp_path / "store", is_long=True)
    client = make_client(folder)
    html = client.get("/benchmarks/toy/cases/plain?show=wrong&find=needle").text
    sections, hits = (re.findall(rf'<a{kind} href="([^"]*box=1[^"]*)"', html) for kind in ("", ' class="number"'))
    assert (len(sections), len(hits)) == (12, 1)
    assert "show=wrong" in sections[0]
    assert "find=needle" in sections[0]
    assert "needle" not in part_of(html)
    there = client.get(unescape(hits[0].partition("#")[0])).text
    assert "needle" in part_of(there)[:400], "the place is at the start of the part"
    assert "before are not shown here" in there
    assert client.get("/benchmarks/toy/cases/plain?from=0").status_code == 400
    assert 'class="ruler"' not in client.get(f"/benchmarks/toy/cases/{url_key(HOSTILE_IDS[1])}").text


def part_of(html: str) -> str:
    """Return the text of the part that is shown of the first text."""
    found = re.search(r'<pre class="box text" id="text-1".*?</pre>', html, re.DOTALL)
    assert found
    return re.sub("<[^>]*>", "", found[0])


def test_the_rail_lists_the_cases_of_the_search_and_keeps_its_filters(client: TestClient) -> None:
    html = client.get("/benchmarks/toy/cases/plain?show=wrong").text
    rail = html.partition('<nav class="rail"')[2].partition("</nav>")[0]
    links = re.findall(r'<a href="([^"]*)"( aria-current="true")?', rail)
    assert [bool(current) for _, current in links] == [True, False, False, False, False]
    assert all(link.endswith("?show=wrong") for link, _ in links)
    assert [client.get(link).status_code for link, _ in links] == [200] * 5
    assert "1 of 2 right" in rail, "the first one has no score of one model"
    assert (
        'aria-current="true"'
        not in client.get(f"/benchmarks/toy/cases/{url_key('..')}?text=nothing")
        .text.partition('<nav class="rail"')[2]
        .partition("</nav>")[0]
    )


def test_the_rail_of_a_file_holds_the_exported_cases_only(folder: Path) -> None:
    html = static_page(Site(stores=[folder]), "case", most_cases=3, benchmark="toy", case="plain")
    rail = html.partition('<nav class="rail"')[2].partition("</nav>")[0]
    assert rail.count("<li>") == 3
    assert '<h2 id="rail">All cases in these files</h2>' in rail
    assert "Filters of the list of cases do not apply here." in rail
    assert rail.count('aria-current="true"') <= 1


def test_reasoning_is_folded_and_not_part_of_the_answer(client: TestClient) -> None:
    html = client.get("/benchmarks/advice/cases/one").text
    folded = html.partition('<details class="reasoning">')[2].partition("</details>")[0]
    assert "Which dose?" in folded
    assert html.count("Which dose?") == 1
    (wide,) = [
        one
        for one in client.get("/api/benchmarks/advice/cases/one").json()["completions"]
        if one["model"] == "lab/wide"
    ]
    assert wide["completion"]["reasoning"].startswith("Which dose?")
    assert "Which dose?" not in client.get(f"/benchmarks/advice/cases/one/completions/{url_key('lab/wide')}").text


def test_reasoning_in_the_text_of_older_records_is_folded_too(tmp_path: Path) -> None:
    record = make_record(0, instance_id="old", completion=Completion(text="<think>A or B?</think>B"), scores=RIGHT)
    write_run(tmp_path, make_run("toy", "a", n=1), [record])
    case = make_client(tmp_path).get("/api/benchmarks/toy/cases/old").json()
    completion = case["completions"][0]["completion"]
    assert (completion["text"], completion["reasoning"]) == ("B", "A or B?")


def test_texts_are_rendered_or_shown_as_their_source(client: TestClient) -> None:
    address = "/benchmarks/advice/cases/one"
    rendered, source = client.get(address).text, client.get(f"{address}?view=source").text
    assert "<strong>Call</strong>" in rendered
    assert "**Call**" not in rendered
    assert "**Call**" in source
    assert "<strong>Call</strong>" not in source
    hits = client.get(f"{address}?text=call").text
    assert '<strong><mark class="hit">Call</mark></strong>' in hits
    assert client.get(f"{address}?view=other").status_code == 400


def test_an_answer_is_compared_with_the_reference_and_one_text_alone_says_what_is_missing(client: TestClient) -> None:
    address = "/benchmarks/advice/cases/one"
    both = client.get(f"{address}?a=lab/wide&b=reference").text
    assert re.findall("<h3>(.*?)</h3>", both)[-2:] == ["lab/wide", "Reference"]
    assert "<mark>" in both
    for query in ("a=lab/wide", "b=reference", "a=lab/wide&b=lab/wide"):
        page = client.get(f"{address}?{query}").text
        assert "choose two different texts" in page
        assert re.search("<h3><a [^>]*>lab/cut</a></h3>", page)
    first = re.findall("<h3><a [^>]*>(lab/.*?)</a></h3>", client.get(f"{address}?model=lab/wide").text)[0]
    assert first == "lab/wide", "the model of the search comes first"


# --- notes ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def noted(tmp_path: Path) -> TestClient:
    return make_client(make_case_store(tmp_path / "store"))


NOTED = "/benchmarks/toy/cases/plain"


def test_notes_tags_and_stars_are_added_shown_and_removed(noted: TestClient, tmp_path: Path) -> None:
    note: dict[str, Any] = {
        "note": f"Wrong key? {XSS}",
        "tag": ["wrong key", "unsafe"],
        "tags": "dose, unsafe",
        "author": f"Ada {XSS}",
    }
    added = noted.post(f"{NOTED}/annotations", data={**note, "query": "show=wrong&case=other&view=source"})
    assert added.status_code == 200
    assert (added.url.path, added.url.fragment) == (NOTED, "notes")
    assert dict(added.url.params) == {"show": "wrong", "view": "source", "author": note["author"]}
    text = " ".join(scan(added.text).text.split())
    assert text.count(note["note"]) == 1
    assert noted.post(f"{NOTED}/annotations", data={"model": url_key("lab/bad"), "starred": "1"}).status_code == 200
    shown = noted.get(f"/api{NOTED}").json()["annotations"]
    assert [(one["model"], one["tags"], one["is_starred"]) for one in shown] == [
        ("", ["wrong key", "unsafe", "dose"], False),
        ("lab/bad", [], True),
    ]
    assert shown == [
        {**fields, "tags": list(fields["tags"])}
        for one in read_annotations(Store(tmp_path / "store"))
        for fields in [asdict(one)]
    ]
    assert noted.get(NOTED).text.count("★") == 2, "at the answer and in the list"
    removed = noted.post(f"{NOTED}/annotations/{shown[0]['id']}/remove", data={"query": ""})
    assert removed.status_code == 200
    assert XSS not in scan(removed.text).text.partition("Notes")[2]
    assert noted.post(f"{NOTED}/annotations/{shown[0]['id']}/remove").status_code == 404
    assert [one.id for one in read_annotations(Store(tmp_path / "store"))] == [shown[1]["id"]]


def test_the_list_finds_tags_stars_and_notes(noted: TestClient) -> None:
    address = "/benchmarks/toy/cases"
    assert "starred" not in noted.get(address).text, "no fields without an annotation"
    noted.post(f"{NOTED}/annotations", data={"note": "Look again.", "tag": "wrong key"})
    noted.post(f"{NOTED}/annotations", data={"model": url_key("lab/bad"), "starred": "1"})
    shown = noted.get(address).text
    assert 'name="starred"' in shown
    assert '<option value="wrong key">' in shown
    for query, found in {
        "starred=1": ["plain"], "noted=1": ["plain"], "tag=wrong+key&starred=1": ["plain"], "tag=other": [],
        "noted=1&show=injection": [],
    }.items():  # fmt: skip
        cases = noted.get(f"/api{address}?{query}").json()["cases"]
        assert [one["id"] for one in cases] == found, query
        assert 'name="noted"' in noted.get(f"{address}?{query}").text


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        (f"{NOTED}/annotations", {}, 400),
        (f"{NOTED}/annotations", {"note": " "}, 400),
        (f"{NOTED}/annotations", {"note": "x" * 4_001}, 400),
        (f"{NOTED}/annotations", {"note": "x" * 200_000}, 413),
        (f"{NOTED}/annotations", {"note": "x", "model": "unknown"}, 404),
        (f"{NOTED}/annotations", {"note": "x", "query": "a=" + "x" * 500}, 400),
        ("/benchmarks/toy/cases/unknown/annotations", {"note": "x"}, 404),
        ("/benchmarks/..%2fruns/cases/plain/annotations", {"note": "x"}, 404),
        (f"{NOTED}/annotations/nothing/remove", {}, 404),
    ],
)
def test_bad_notes_are_refused_and_nothing_is_kept(
    noted: TestClient, tmp_path: Path, path: str, form: dict[str, str], status: int
) -> None:
    assert noted.post(path, data=form).status_code == status
    kept = read_annotations(Store(tmp_path / "store"))
    assert kept == []


def test_strangers_and_other_sites_add_no_notes(noted: TestClient, tmp_path: Path) -> None:
    stranger = make_client(tmp_path / "store", signed_in=False)
    assert stranger.post(f"{NOTED}/annotations", data={"note": "x"}).status_code == 401
    for headers in ({"origin": "http://other.example"}, {"sec-fetch-site": "cross-site"}):
        assert noted.post(f"{NOTED}/annotations", data={"note": "x"}, headers=headers).status_code == 403
    assert noted.get(f"{NOTED}/annotations").status_code in (404, 405)
    hidden = make_client(tmp_path / "store", with_text=False)
    assert hidden.post(f"{NOTED}/annotations", data={"note": "x"}).status_code == 404
    assert read_annotations(Store(tmp_path / "store")) == []


def test_the_static_site_shows_notes_and_has_no_forms(tmp_path: Path) -> None:
    store = make_case_store(tmp_path / "store")
    add_annotation(Store(store), new_annotation("toy", "plain", model="lab/bad", note="Dose error", author="Ada"))
    html = static_page(Site(stores=[store]), "case", benchmark="toy", case="plain")
    assert html.count("Dose error") == 2
    assert not {"form", "input", "select", "textarea"} & set(HtmlPage(html).tags())
