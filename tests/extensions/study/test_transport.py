"""Blinding in transit: answers for two completions that differ in all but their visible text are the same bytes.

Every header is compared, not only those that could tell. Raters see the same text of two models: one answered at once,
for nothing and without reasoning, the other slowly, for money and after long reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from medhelm.domain import Completion, Usage
from medhelm.extensions.study import rate_pages
from medhelm.extensions.study.access import new_link
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.files import write_study
from medhelm.extensions.study.texts import completion_digest
from medhelm.extensions.study.types import Assignment, CaseKind, Item, Study
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.storage.store import Store
from tests.support.rated_studies import make_study
from tests.support.stores import make_record, make_run, write_run

ORIGIN = "http://testserver"
TEXT = "Take one tablet twice a day."
RATERS = {"mara": "quick/alpha", "ivo": "slow vendor/Omega 7b ünï"}
"""Rater -> model whose completion the rater gets."""

ANSWERS = {
    "quick/alpha": Completion(text=TEXT, usage=Usage(input=1, output=1), latency_s=0.01),
    "slow vendor/Omega 7b ünï": Completion(
        text=f"<think>{'Omega considers the dose. ' * 400}</think>{TEXT}",
        usage=Usage(input=90_000, output=9_000, reasoning=8_000),
        latency_s=240.0,
        reported_model="omega-7b-2026",
        fingerprint="fp_omega",
        finish_reason="length",
    ),
}
"""Model -> completion, as it is stored."""

REQUESTS: dict[str, Callable[[TestClient], Any]] = {
    "overview": lambda client: client.get("/rate/ward"),
    "list": lambda client: client.get("/rate/ward?list=1"),
    "instructions": lambda client: client.get("/rate/ward/instrument"),
    "case": lambda client: client.get("/rate/ward/cases/1"),
    "case again": lambda client: client.get("/rate/ward/cases/1", headers={"if-none-match": "*"}),
    "head": lambda client: client.head("/rate/ward/cases/1"),
    "part": lambda client: client.get("/rate/ward/cases/1", headers={"range": "bytes=0-99"}),
    "plain": lambda client: client.get("/rate/ward/cases/1", headers={"accept-encoding": "identity"}),
    "no case": lambda client: client.get("/rate/ward/cases/2"),
    "autosave": lambda client: save(client, accept="application/json"),
    "save": lambda client: save(client, accept="text/html"),
    "refused": lambda client: save(client, accept="application/json", revision="x" * 2_000_000),
    "rated case": lambda client: client.get("/rate/ward/cases/1"),
}


def save(client: TestClient, *, accept: str, **fields: str) -> Any:
    form = {"grade-1": "4", "comment": "As it should be.", "seconds": "3", "action": "save", **fields}
    return client.post("/rate/ward/cases/1", data=form, headers={"origin": ORIGIN, "accept": accept})


def make_blinded_store(folder: Path) -> Store:
    """Write a store in which each rater has one case: the same instance, of another model."""
    items, assignments = {}, {}
    for place, (rater, model) in enumerate(RATERS.items()):
        answer = ANSWERS[model]
        made = make_run("letters", model, n=1, cost_usd=float(place), seconds=answer.latency_s)
        run = write_run(folder, made, [make_record(0, instance_id="q1", completion=answer)])
        items[rater] = Item(
            id=f"{place + 1}" * 16,
            benchmark="letters",
            instance_id="q1",
            model=model,
            run=Path(str(run.folder)).relative_to(folder).as_posix(),
            completion_sha256=completion_digest(answer.text or ""),
            probability=0.5,
        )
        assignments[rater] = (Assignment(number=1, kind=CaseKind.SINGLE, items=(items[rater].id,)),)
    planned = make_study({"mara": ["0-1"], "ivo": ["1-1"]}, models=tuple(ANSWERS))
    fields = {name: getattr(planned, name) for name in Study.__dataclass_fields__}
    study = Study(**(fields | {"items": tuple(items.values()), "assignments": assignments}))
    store = Store(folder)
    write_study(store, study)
    return store


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[list[TestClient]]:
    """One browser for each rater, signed in."""
    store = make_blinded_store(tmp_path / "store")
    app = create_app(Site(stores=[store.folder]), Security(hosts=["testserver"]), [PAGES])
    found = []
    for rater in RATERS:
        client = TestClient(app, base_url=ORIGIN, follow_redirects=False)
        token = new_link(store, "ward", rater, by="owner").token
        assert client.post("/rate/ward/login", data={"token": token}).status_code == 303
        found.append(client)
    yield found


def answers(client: TestClient) -> dict[str, tuple[int, list[tuple[str, str]], bytes]]:
    """Return name of a request -> status, headers and body of its answer."""
    found = {name: send(client) for name, send in REQUESTS.items()}
    assert {name: response.status_code for name, response in found.items()} == {
        **dict.fromkeys(REQUESTS, 200),
        **{"no case": 404, "save": found["save"].status_code, "refused": 413},
    }
    assert TEXT in found["case"].text
    assert "As it should be." in found["rated case"].text
    return {name: (one.status_code, one.headers.multi_items(), one.content) for name, one in found.items()}


def differences(clients: list[TestClient]) -> list[str]:
    """Return the requests that the raters' browsers got different answers to."""
    first, second = (answers(client) for client in clients)
    return [name for name in REQUESTS if first[name] != second[name]]


def test_answers_for_the_same_text_of_two_models_are_the_same_bytes(clients: list[TestClient]) -> None:
    assert differences(clients) == []


def test_no_header_could_carry_more_than_all_answers_share(clients: list[TestClient]) -> None:
    for _, headers, _ in answers(clients[1]).values():
        names = {name for name, _ in headers}
        assert not names & {"etag", "last-modified", "server-timing", "server", "date", "content-disposition", "link"}
        assert not any(re.search("omega|alpha|fp_|x-.*(time|cost|model)", f"{name}: {one}") for name, one in headers)


def _header(name: str, value: Callable[[Item], object]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what makes pages of cases send a header that depends on the item."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = rate_pages._page

        def leaking(request: object, work: rate_pages.RaterWork, *args: object, **values: object) -> object:
            response = original(request, work, *args, **values)  # type: ignore[arg-type]
            item = work.study.item(work.study.assignments[work.rater][0].items[0])
            response.headers[name] = str(value(item))
            return response

        monkeypatch.setattr(rate_pages, "_page", leaking)

    return plant


def _body(monkeypatch: pytest.MonkeyPatch) -> None:
    original = rate_pages._saved_json

    def leaking(work: rate_pages.RaterWork, *args: object) -> dict[str, object]:
        item = work.study.assignments[work.rater][0].items[0]
        return {**original(work, *args), "item": item}  # type: ignore[arg-type]

    monkeypatch.setattr(rate_pages, "_saved_json", leaking)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_header("etag", lambda item: f'"{item.id[:8]}"'), "case"),
        (_header("server-timing", lambda item: f"read;dur={len(item.model)}"), "case"),
        (_header("x-item", lambda item: item.id), "case"),
        (_header("content-disposition", lambda item: f'inline; filename="{item.run.encode().hex()}.html"'), "case"),
        (_body, "autosave"),
    ],
    ids=["etag", "timing", "id", "file name", "JSON"],
)
def test_a_planted_leak_is_found(
    clients: list[TestClient], monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    plant(monkeypatch)
    assert found in differences(clients)
