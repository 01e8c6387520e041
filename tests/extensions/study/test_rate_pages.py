"""Raters' pages without a script: progress, saving, two windows, adjudication, closed studies, hostile texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from medhelm.extensions.study.access import new_link
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.journal import (
    Event,
    EventKind,
    append_event,
    append_row,
    ratings_of,
    read_study,
    replace_plan,
    rows_of,
)
from medhelm.extensions.study.rate_pages import RaterWork, time_words
from medhelm.extensions.study.types import CaseKind, CaseRating, RatingRow
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.storage.store import Store
from tests.support.blind_studies import ADJUDICATED, RATER, STUDY, World, complete_fields, make_blind_study
from tests.support.html import HtmlPage
from tests.support.rated_studies import make_study, new_store

BASE = f"/rate/{STUDY}"
XSS = "<script>alert(1)</script>\"'{{7*7}}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_blind_study(tmp_path / "store", "quest", World(11))[0]


@pytest.fixture
def fields(store: Store) -> dict[str, str]:
    return complete_fields(read_study(store, STUDY), 0)


@pytest.fixture
def client(store: Store) -> TestClient:
    return signed_in(store, RATER)


def signed_in(store: Store, rater: str) -> TestClient:
    app = create_app(Site(stores=[store.folder]), Security(hosts=["testserver"]), [PAGES])
    found = TestClient(app, follow_redirects=False, headers={"origin": "http://testserver"})
    found.post(f"{BASE}/login", data={"token": new_link(store, STUDY, rater, by="owner").token})
    return found


def save(client: TestClient, number: int, fields: dict[str, str], *, script: bool = False, **more: str) -> Any:
    headers = {"accept": "application/json"} if script else {}
    return client.post(f"{BASE}/cases/{number}", data={**fields, **more}, headers=headers)


def happens(store: Store, kind: EventKind, **fields: str) -> None:
    append_event(store, STUDY, Event(time="2026-02-01T00:00:00+00:00", by="owner", kind=kind, **fields))


def test_the_list_tells_states_and_calibration_and_not_which_cases_are_shared_or_come_again(
    store: Store, client: TestClient, fields: dict[str, str]
) -> None:
    assert "Start with case 1" in client.get(BASE).text
    save(client, 1, fields)
    save(client, 3, {"comment": "Later."})
    page = client.get(BASE).text
    assert ("1 of 9 rated" in page, "Continue with case 2" in page, "Calibration" in page) == (True, True, True)
    states = [one.split(">")[0].split('"')[-2] for one in page.split(f'href="{BASE}/cases/')[2:]]
    assert states == ["done", "open", "started", *["open"] * 6]
    study = read_study(store, STUDY)
    first, *others = study.assignments[RATER]
    alike = (first, *(replace(one, kind=CaseKind.SINGLE) for one in others))
    replace_plan(store, replace(study, assignments={**study.assignments, RATER: alike}))
    assert client.get(BASE).text == page


def test_each_button_saves_and_leads_on(store: Store, client: TestClient, fields: dict[str, str]) -> None:
    for action, number, to in (
        ("next", 2, "/cases/3"),
        ("later", 2, "/cases/3"),
        ("back", 2, "/cases/1"),
        ("back", 1, "/cases/1"),
        ("pause", 2, "?list=1"),
        ("next", ADJUDICATED, f"/cases/{ADJUDICATED}#others"),
        ("later", ADJUDICATED, "/cases/3"),
    ):
        found = save(client, number, fields, action=action)
        assert (found.status_code, found.headers["location"]) == (303, BASE + to)
        assert ratings_of(store, read_study(store, STUDY), RATER)[number].rating.grades
        answer = save(client, number, fields, action=action, script=True, revision="1", seconds="1").json()
        assert (answer["unanswered"], answer["values"]) == ([], None)


def test_after_the_last_case_there_are_thanks_and_the_list_stays(client: TestClient, fields: dict[str, str]) -> None:
    for number in range(1, ADJUDICATED + 1):
        save(client, number, fields)
    last = save(client, ADJUDICATED, fields, action="next", revision="1", compared="1")
    assert last.headers["location"] == BASE
    page = client.get(BASE).text
    assert "All 9 cases are rated" in page
    assert "Case 9" in client.get(f"{BASE}?list=1").text


def test_an_adjudicator_without_cases_is_not_thanked_for_them(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store", make_study({"mara": ["0-1"], "ana": []}, adjudicator="ana"))
    client = signed_in(store, "ana")
    for query in ("", "?list=1"):
        page = client.get(f"{BASE}{query}").text
        assert ("Nothing to rate yet" in page, "Thank you" in page) == (True, False)


def test_an_incomplete_case_stays_and_names_what_is_open(client: TestClient, fields: dict[str, str]) -> None:
    found = save(client, 1, {name: value for name, value in fields.items() if name != "grade-2"}, action="next")
    assert found.status_code == 422
    assert "1 question has no answer yet" in found.text
    assert found.text.count("Not answered yet.") - found.text.count("hidden>Not answered yet.") == 1
    assert '<a href="#question-2">' in found.text


def test_a_form_of_an_older_window_joins_the_newest_answers(
    store: Store, client: TestClient, fields: dict[str, str]
) -> None:
    save(client, 1, {"grade-1": "1", "comment": "First."}, revision="0")
    save(client, 1, {"grade-1": "2", "grade-2": "2", "comment": "First."}, revision="1")
    late = save(client, 1, {"grade-1": "1", "comment": "Second."}, revision="1", action="next")
    assert (late.status_code, "changed in another window" in late.text) == (409, True)
    rating = ratings_of(store, read_study(store, STUDY), RATER)[1].rating
    assert (list(rating.grades.values()), rating.comment) == ([2, 2], "Second.")
    answer = save(client, 1, {"grade-3": "3"}, revision="0", script=True).json()
    assert [answer["values"][f"grade-{number}"] for number in (1, 2, 3)] == ["2", "2", "3"]
    assert answer["values"]["comment"] == "Second."


def test_an_adjudicator_sees_what_others_gave_after_rating(client: TestClient, fields: dict[str, str]) -> None:
    path = f"{BASE}/cases/{ADJUDICATED}"
    before = client.get(path).text
    assert ("Save and compare" in before, "Opinion of another" in before) == (True, False)
    save(client, ADJUDICATED, {**fields, "grade-1": ""})
    assert "Opinion of another" not in client.get(path).text
    save(client, ADJUDICATED, fields, revision="1")
    after = client.get(path).text
    assert ("Confirm and next" in after, after.count("Opinion of another")) == (True, 2)
    first, second = (save(client, ADJUDICATED, fields, revision="2", action="next", compared=one) for one in ("", "1"))
    assert (first.headers["location"], second.headers["location"]) == (f"{path}#others", f"{BASE}/cases/1")


@pytest.mark.parametrize("kind", [EventKind.CLOSED, EventKind.WITHDRAWN])
def test_nothing_is_saved_once_the_study_is_closed_or_the_rater_has_left(
    store: Store, client: TestClient, fields: dict[str, str], kind: EventKind
) -> None:
    save(client, 1, fields)
    happens(store, kind, rater=RATER)
    answer = save(client, 2, fields, script=True)
    assert (answer.status_code, answer.json()["is_final"], "Nothing was saved" in answer.json()["error"]) == (
        *(409, True, True),
    )
    assert save(client, 2, fields).headers["location"] == BASE
    assert client.get(f"{BASE}/cases/1").headers["location"] == BASE
    assert "Nothing can be changed" in client.get(BASE).text
    assert len(rows_of(store, STUDY, RATER)) == 1


def test_a_case_whose_text_was_deleted_is_passed_over(store: Store, client: TestClient) -> None:
    item = read_study(store, STUDY).assignments[RATER][0].items[0]
    happens(store, EventKind.PURGED, item=item)
    page = client.get(BASE).text
    assert ("0 of 8 rated" in page, "Start with case 2" in page, "text was deleted" in page) == (True, True, True)
    for file in store.folder.glob("runs/*/*/records.parquet"):
        file.unlink()
    found = client.get(f"{BASE}/cases/1")
    assert (found.status_code, "Next case" in found.text) == (410, True)


def test_other_numbers_are_no_cases(client: TestClient) -> None:
    for number in ("0", "10", "-1", "1.0", "٣", "1" * 400, "x"):
        for found in (client.get(f"{BASE}/cases/{number}"), client.post(f"{BASE}/cases/{number}", data={})):
            assert found.status_code == 404


def test_texts_of_people_and_models_are_shown_as_text(store: Store, client: TestClient) -> None:
    study = read_study(store, STUDY)
    quest = study.instruments["letters"]
    criteria = tuple(replace(one, question=XSS, anchors={"1": XSS, "3": XSS, "5": XSS}) for one in quest.criteria)
    hostile = replace(quest, title=XSS, instructions=XSS, source=XSS, license=XSS, criteria=criteria)
    replace_plan(store, replace(study, title=XSS, purpose=XSS, instruments={"letters": hostile}))
    answers = {"grade-1": "none", "reason-1": "other", "words-1": XSS, "comment": XSS}
    save(client, 1, answers, action="mark", passage=XSS, passage_kind="error")
    for path in ("", "?list=1", "/cases/1", "/cases/2", "/instrument", "/device"):
        page = HtmlPage(client.get(BASE + path).text)
        assert "'{{7*7}}" in page.text
        assert [attributes["src"][:6] for tag, attributes in page.elements if tag == "script"] == [
            "/rate/"
        ] * page.tags().count("script")


def test_the_time_left_is_the_rater_s_own_once_three_cases_are_rated(store: Store) -> None:
    study = read_study(store, STUDY)
    work = RaterWork(store=store, study=study, rater=RATER)
    n_words = len(("The visit went well. " * 60 + "Write letter 0. Rest for 2 days").split())
    typical = n_words / (230 / 60) + 7 * 20
    low, high = time_words(9 * typical * 0.75, 9 * typical * 1.5).split(" ")[1:4:2]
    found = work.time_left().split(" ")[1:4:2]
    assert [abs(float(one) - float(wanted)) <= 5 for one, wanted in zip(found, (low, high), strict=True)] == [True] * 2
    criteria = study.instruments["letters"].criteria
    grades = {**{one.name: 3 for one in criteria}, "harm_severity": 0}
    for number, seconds in enumerate((60.0, 120.0, 120.0, 600.0), start=1):
        rating = CaseRating(grades=grades, seconds=seconds)
        row = RatingRow(
            time=study.created, rater=RATER, number=number, items=(), revision=1, instrument="", rating=rating
        )
        append_row(store, STUDY, row)
    again = RaterWork(store=store, study=study, rater=RATER)
    assert again.n_complete == 4
    assert again.time_left() == "about 8 to 20 minutes left", "5 cases of 105 to 240 seconds"
