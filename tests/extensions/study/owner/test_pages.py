"""Pages of owners and readers: planning, watching, deciding and closing a study, without scripts."""

from __future__ import annotations

import re
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from xlsxwriter import Workbook

from medhelm.extensions.study.access import Role
from medhelm.extensions.study.formats.exchange import export_files
from medhelm.extensions.study.journal import EventKind, cases_of, events, ratings_of, studies
from medhelm.extensions.study.plans.planning import PlanOptions
from medhelm.extensions.study.types import CaseKind
from medhelm.storage.ratings import stored_ratings
from tests.support.made_once import made_once
from tests.support.planned_studies import MODELS, rated_store
from tests.support.study_pages import NAME, StudySite, plan_fields, rate, revision_in, start_study, text_of

STUDY = f"/studies/{NAME}"


@pytest.fixture
def site(tmp_path: Path) -> StudySite:
    folder, runs = tmp_path / "store", {"aci_bench": True, "medication_qa": True}
    made_once(folder, "rated-12", lambda: rated_store(folder, runs, n=12))
    return StudySite(folder)


@pytest.fixture
def started(site: StudySite) -> StudySite:
    made_once(site.store.folder, "started-12", lambda: start_study(site))
    return site


def post(site: StudySite, path: str, **fields: Any) -> Any:
    """Send a form as the owner, with the revision that the page of the study shows now."""
    client = site.owner()
    fields.setdefault("revision", revision_in(client.get(f"{STUDY}/close")))
    return client.post(f"{STUDY}{path}", data=fields)


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_the_form_offers_what_the_store_has(site: StudySite) -> None:
    page = site.owner().get("/studies/new").text
    for wanted in ("ACI-Bench", "3 models, 12 completions each, graded by 2 judges", "PDSQI-9", "baseline/majority"):
        assert wanted in page
    marked = re.findall(r'name="(\w+)" value="([^"]+)" checked', page)
    assert marked == [("instrument", "rubric"), ("asks_harm", "yes"), ("size", "cases")]


def test_all_problems_are_named_at_once_and_nothing_typed_is_lost(site: StudySite) -> None:
    wrong = {"benchmarks": [], "n_cases": "many", "shared": "140", "name": "Zwei Worte", "precision": "0,2"}
    answer = site.owner().post("/studies/new", data=plan_fields(**wrong, **{"rater_1.name": "", "rater_2.name": ""}))
    shown = text_of(answer)
    for problem in (
        "Choose at least one benchmark.",
        "This must be a whole number, not “many”.",
        "This must be at least 0 and at most 100, not 140.",
        "`Zwei Worte` must be snake case",
    ):
        assert problem in shown
    for value in ('value="many"', 'value="140"', 'value="Zwei Worte"', 'value="0,2"', 'value="nephrologist"'):
        assert value in answer.text
    assert studies(site.store) == []


def test_a_problem_of_the_plan_stands_beside_its_field(site: StudySite) -> None:
    no_names = {"rater_1.name": "", "rater_1.role": "", "rater_2.name": ""}
    for changes, problem in (
        ({"n_cases": "200"}, "200 of each model are wanted on aci_bench; acme/rocket-7b has 12 completions"),
        ({"name": "new"}, "new is taken by a page of this site"),
        ({"instrument": "healthbench"}, "Choose the instrument “The benchmark's own rubric”"),
        ({"raters_per_shared_case": "3"}, "A shared case needs 3, not 2. Add raters, or have no case rated by several"),
        ({"size": "precision", "precision": ""}, "Say how precise the mean of a model must be"),
        (no_names, "Name at least one person who rates."),
    ):
        answer = site.owner().post("/studies/new", data=plan_fields(**changes))
        ((place, words),) = re.findall(r'<ul class="wrong" id="wrong-(\w+)">(.*?)</ul>', answer.text)
        assert problem in words.replace("`", "").replace("&#39;", "'")
        assert f"wrong-{place}" in answer.text.partition('aria-describedby="')[2]
        assert "--" not in text_of(answer).partition("Nothing was saved")[2], "no options of the command line"


def test_a_preview_saves_nothing_and_the_same_form_starts_the_study(site: StudySite) -> None:
    shown = site.owner().post("/studies/new", data=plan_fields(action="preview", shared="50"))
    assert "4 cases of each model: 18 ratings, 9 per rater" in text_of(shown)
    assert studies(site.store) == []
    answer = site.owner().post("/studies/new", data=plan_fields(shared="50"))
    assert (studies(site.store), str(answer.url).partition("?")[0]) == ([NAME], f"http://testserver{STUDY}")
    found = site.study
    assert found.models == MODELS
    assert [one.name for one in found.raters] == ["Ada <b>Adams", "Bo Brown", "Cy Chen"]
    assert "Ada <b>" not in answer.text
    again = site.owner().post("/studies/new", data=plan_fields())
    assert "The store already has a study" in text_of(again)


def test_flagged_completions_are_shown_and_left_out_if_wanted(tmp_path: Path) -> None:
    def telling(_: str, model: str, number: int) -> str:
        named = "I am Rocket-7b. " if number % 3 == 0 and "rocket" in model else ""
        return f"{named}See the clinic on day {number}, model {len(model)}."

    site = StudySite(rated_store(tmp_path / "store", {"aci_bench": True}, telling, n=30).folder)
    page = site.owner().post("/studies/new", data=plan_fields(action="preview", n_cases="12"))
    assert "names its own model" in page.text
    assert '<q dir="auto">Rocket-7b</q>' in page.text
    page = site.owner().post("/studies/new", data=plan_fields(action="preview", n_cases="12", exclude_flagged="yes"))
    assert "names its own model" not in page.text
    assert re.search(r'name="exclude_flagged" value="yes" form="plan" checked', page.text), "the choice stays"


def test_the_form_has_a_field_for_every_option_of_a_plan(site: StudySite) -> None:
    page = site.owner().get("/studies/new").text
    asked = {name.partition(".")[0] for name in re.findall(r'name="([\w.]+)"', page)}
    rows = {"raters", "adjudicators", "n_raters"}  # of the table of raters
    later = {"include_baselines", "exclude_flagged"}  # by choosing one; beside the plan that has such completions
    assert {one.name for one in fields(PlanOptions)} - asked == rows | later
    assert "rater_1" in asked


# --- watching ---------------------------------------------------------------------------------------------------------


def test_progress_and_disagreements_appear_without_the_model(started: StudySite) -> None:
    rate(started, "rater_1", 2)
    rate(started, "rater_2", 4, numbers=range(1, 7))
    page = started.owner().get(STUDY)
    shown = text_of(page)
    assert "18 of 24" in shown
    assert "12 of 12" in shown and "6 of 12" in shown
    assert "Gave 2 to everything" in shown
    assert shown.count("Send to adjudication") == 6
    assert "Too few ratings yet: 6 cases rated by two or more" in shown
    differing = re.findall(rf"{STUDY}/adjudication/(\w{{16}})", page.text)
    case = started.owner().get(f"{STUDY}/adjudication/{differing[0]}")
    assert (case.status_code, case.text.count('<tr class="differs">')) == (200, 3)
    for secret in (*MODELS, "runs/aci_bench"):
        assert secret not in case.text


def test_a_link_is_shown_once_and_every_use_is_an_event(started: StudySite) -> None:
    made = post(started, "/raters/rater_1/link", days="7")
    (link,) = re.findall(r"http://testserver/rate/\w+/login#t=([\w-]{43})</textarea>", made.text)
    assert "mailto:?subject=" in made.text
    assert not any(model in made.text for model in MODELS)
    assert link not in started.owner().get(f"{STUDY}/raters/rater_1").text
    for status in (303, 403):
        used = started.stranger().post(f"/rate/{NAME}/login", data={"token": link}, follow_redirects=False)
        assert used.status_code == status
    shown = text_of(started.owner().get(STUDY))
    assert "A link of Ada &lt;b&gt;Adams was refused" in shown
    assert post(started, "/raters/rater_1/link", days="0").status_code == 400
    assert "Links and sessions of this person ended." in text_of(post(started, "/raters/rater_1/revoke"))


# --- files ------------------------------------------------------------------------------------------------------------


def test_each_file_of_a_rater_can_be_downloaded(started: StudySite) -> None:
    for kind, start in (("workbook", b"PK"), ("html", b"<!"), ("label-studio", b"PK"), ("redcap", b"PK")):
        found = started.owner().get(f"{STUDY}/raters/rater_2/files/{kind}")
        assert (found.status_code, found.content[:2].lower()) == (200, start.lower())
        assert not any(model.encode() in found.content for model in MODELS)
    assert started.owner().get(f"{STUDY}/raters/rater_2/files/pdf").status_code == 404
    assert [one.kind for one in events(started.store, NAME)] == [EventKind.EXPORTED] * 4


def test_a_file_that_comes_back_is_recorded_or_every_mistake_is_named(started: StudySite) -> None:
    (content,) = export_files(started.store, started.study, "rater_2", "workbook").values()
    path = f"{STUDY}/raters/rater_2/files"
    for name, sent, words in (
        ("notes.txt", b"hello", "notes.txt: "),
        ("empty.xlsx", b"", "Choose the file that the rater filled in."),
        ("../../x.xlsx", _workbook(), "x.xlsx"),
    ):
        answer = started.owner().post(path, files={"file": (name, sent)})
        assert (answer.status_code, words in text_of(answer)) == (400, True), text_of(answer)
        assert "/tmp/" not in answer.text
    assert ratings_of(started.store, started.study, "rater_2") == {}
    answer = started.owner().post(path, files={"file": ("back.xlsx", content)})
    assert "back.xlsx: no ratings." in text_of(answer)
    assert started.person("rater_1", Role.RATER).post(path, files={"file": ("a.xlsx", content)}).status_code == 401


def _workbook() -> bytes:
    content = BytesIO()
    with Workbook(content, {"in_memory": True}) as workbook:
        workbook.add_worksheet("Cases").write(0, 0, "nothing")
    return content.getvalue()


# --- decisions --------------------------------------------------------------------------------------------------------


def test_of_two_owners_at_once_the_second_one_sees_what_the_first_one_did(started: StudySite) -> None:
    rate(started, "rater_1", 2)
    rate(started, "rater_2", 4)
    first, second = started.person("ana", Role.OWNER), started.owner()
    pages = [client.get(STUDY) for client in (first, second)]
    items = re.findall(r'name="item" value="(\w{16})"', pages[0].text)
    sent = [
        client.post(f"{STUDY}/adjudication", data={"revision": revision_in(page), "item": item})
        for client, page, item in zip((first, second), pages, items, strict=False)
    ]
    assert "The case was sent to adjudication." in text_of(sent[0])
    assert sent[1].status_code == 409
    assert "Nothing of yours was done." in text_of(sent[1])
    assert "ana: Sent case" in text_of(sent[1])
    third = [case.kind for case in cases_of(started.store, started.study, "rater_3")]
    assert third == [CaseKind.ADJUDICATION]
    assert "With Cy Chen" in text_of(started.owner().get(STUDY))


def test_a_form_without_the_present_revision_changes_nothing(started: StudySite) -> None:
    for revision in ("", "-1", "x", "٣", "7"):
        answer = post(started, "/close", revision=revision, incomplete="yes")
        assert answer.status_code in (400, 409)
    assert events(started.store, NAME) == []


def test_a_rater_who_leaves_can_be_replaced(started: StudySite) -> None:
    rate(started, "rater_1", 3, numbers=range(1, 6))
    signed_in = started.person("rater_1", Role.RATER)
    page = post(started, "/raters/rater_1/withdraw", reason="on leave")
    assert "7 cases of raters who left have no other rater" in text_of(page)
    assert signed_in.get(f"/rate/{NAME}").status_code == 401
    assert "given to the other raters" in text_of(post(started, "/reassign"))
    assert len(cases_of(started.store, started.study, "rater_3")) == 7
    shown = text_of(started.owner().get(STUDY))
    assert "rater_1 left the study" in shown
    assert "Withdrew Ada &lt;b&gt;Adams: on leave" in shown


def test_closing_names_what_is_missing_and_then_shows_the_models(site: StudySite) -> None:
    start_study(site, asks_harm="yes")
    started = site
    rate(started, "rater_1", 2)
    rate(started, "rater_2", 3, numbers=range(1, 12))
    asked = text_of(started.owner().get(f"{STUDY}/close"))
    assert "Bo Brown: 1 of 12 cases not rated" in asked
    assert post(started, "/close").status_code == 400
    assert "Results" not in text_of(started.owner().get(STUDY))
    shown = post(started, "/close", incomplete="yes")
    for wanted in ("The study is closed, and its ratings are frozen.", *MODELS, "Harm that raters expect"):
        assert wanted in shown.text
    (frozen,) = stored_ratings(started.store)
    assert frozen.card.digest in shown.text
    for path in ("/studies/other", f"{STUDY}/raters/nobody", f"{STUDY}/adjudication/0123456789abcdef"):
        assert started.owner().get(path).status_code == 404
    assert "closed while 1 rating was missing" in shown.text
    assert "Close the study" not in text_of(started.owner().get(STUDY))


# --- people -----------------------------------------------------------------------------------------------------------


def test_a_reader_sees_progress_then_results_and_changes_nothing(started: StudySite) -> None:
    reader = started.person("rex", Role.READER)
    page = reader.get(STUDY)
    assert page.status_code == 200
    assert "0 of 24" in text_of(page)
    assert "<form" not in page.text.partition("<main")[2]
    links = re.findall(r' href="([^"]*)"', page.text.partition("<body")[2])
    assert links and all(one.startswith(("#", STUDY)) for one in links)
    for hidden in ("Adams", "Bo Brown", "Close the study", 'href="/compare"'):
        assert hidden not in page.text
    closed = {
        path: reader.get(f"{STUDY}{path}").status_code for path in ("/close", "/raters/rater_1", "/adjudication/x")
    }
    assert set(closed.values()) == {403}
    for path in ("/close", "/raters/rater_1/link", "/people", "/reassign"):
        assert reader.post(f"{STUDY}{path}", data={"revision": "0"}).status_code == 403
    assert started.person("ana", Role.OWNER).get(f"{STUDY}/raters/rater_1").status_code == 200
    rate(started, "rater_1", 2)
    rate(started, "rater_2", 3)
    post(started, "/close")
    assert "has the highest mean, 2.50; there are too few ratings for intervals." in text_of(reader.get(STUDY))
