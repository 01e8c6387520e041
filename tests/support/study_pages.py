"""Browsers without scripts on the pages of studies, and studies planned through them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from medhelm.extensions.study.access import Role, new_link
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.journal import cases_of, read_study, record
from medhelm.extensions.study.texts import case_texts
from medhelm.extensions.study.types import CaseRating, Study
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.storage.store import Store, open_store

HOST = "testserver"
"""Name of the server in tests without a network."""

NAME = "first_look"
"""Name of the study that `plan_fields` describe."""


class StudySite:
    """The site of a store with its pages of studies, and people who open it."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = open_store(folder)
        self.security = Security(hosts=[HOST])
        self.app = create_app(Site(stores=[folder]), self.security, [PAGES])

    def stranger(self) -> TestClient:
        """Return a browser that is not signed in."""
        return TestClient(self.app, raise_server_exceptions=False)

    def owner(self) -> TestClient:
        """Return a browser with the session of the site."""
        client = self.stranger()
        client.cookies.set(self.security.cookie, self.security.new_session())
        return client

    def person(self, person: str, role: Role) -> TestClient:
        """Return a browser that signed in with a personal link."""
        client = self.stranger()
        token = new_link(self.store, NAME, person, role, by="owner").token
        answer = client.post(f"/rate/{NAME}/login", data={"token": token}, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        return client

    @property
    def study(self) -> Study:
        """The study of `plan_fields`."""
        return read_study(self.store, NAME)


def plan_fields(**changes: Any) -> dict[str, Any]:
    """Return the form of a plan: two raters who share all cases, and a third one who decides differences."""
    fields = {
        "title": "First look",
        "benchmarks": ["aci_bench"],
        "instrument": "rubric",
        "size": "cases",
        "n_cases": "4",
        "shared": "100",
        "raters_per_shared_case": "2",
        "repeated": "0",
        "n_calibration": "0",
        "seed": "1",
        "rater_1.name": "Ada <b>Adams",
        "rater_1.role": "nephrologist",
        "rater_2.name": "Bo Brown",
        "rater_3.name": "Cy Chen",
        "rater_3.adjudicates": "yes",
        "action": "start",
    }
    return {**fields, **changes}


def start_study(site: StudySite, **changes: Any) -> Study:
    """Plan a study by the form, and return it."""
    answer = site.owner().post("/studies/new", data=plan_fields(**changes), follow_redirects=False)
    assert answer.status_code == 303, text_of(answer)
    return site.study


def rate(site: StudySite, rater: str, grade: int, *, numbers: range | None = None) -> None:
    """Let a rater give one grade to every criterion of the cases with these numbers, by default of all."""
    study = site.study
    for case in cases_of(site.store, study, rater):
        if numbers is None or case.number in numbers:
            asked = case_texts(site.store, study, case).criteria
            grades = {one.name: min(max(grade, one.low), one.high) for one in asked}
            record(site.store, study, rater, case.number, CaseRating(grades=grades, seconds=5.0))


def revision_in(answer: Any) -> str:
    """Return the revision that a page's forms carry."""
    found = re.search(r'name="revision" value="(\d+)"', answer.text)
    assert found, answer.text
    return found[1]


def text_of(answer: Any) -> str:
    """Return the words of a page."""
    main = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())
