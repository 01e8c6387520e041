"""Blinding: nothing that a rater can reach tells which model wrote a text, or what other raters did.

Two checks read every page and JSON of a rater. One looks for secrets, in many disguises: names of models and judges,
paths, ids, digests, times, costs, tokens, other raters. The other compares two worlds that differ in all of this and in
no text that raters see: every answer must have the same bytes and headers. A planted leak of each kind must be found.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from medhelm.extensions.study import rate_pages
from medhelm.extensions.study.access import new_link
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.journal import rows_of
from medhelm.extensions.study.rate_pages import RaterWork
from medhelm.extensions.study.types import Study
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.storage.store import Store
from tests.support.blind_studies import (
    ADJUDICATED,
    INSTRUMENTS,
    RATER,
    STUDY,
    World,
    complete_fields,
    make_blind_study,
    secrets_of,
    told,
)

BASE = f"/rate/{STUDY}"
Answer = Any
"""An answer to a test client."""
LINK = re.compile(r'(?:href|src)="([^"#]+)')
RANDOM = re.compile(r"(medhelm-study\w*=)[^;]+|#t=\w+|[A-Z0-9]{5}-[A-Z0-9]{5}|until [^<]* UTC|(expires=)[^;]+")
"""Tokens and their times, which are random or the moment, and differ between any two answers."""


def crawl(store: Store, study: Study, rated: Sequence[int]) -> list[str]:
    """Read everything that a rater can reach, before, while and after rating; return each answer whole."""
    app = create_app(Site(stores=[store.folder]), Security(hosts=["testserver"]), [PAGES])
    headers = {"origin": "http://testserver", "accept-encoding": "identity"}  # random tokens compress differently
    client = TestClient(app, follow_redirects=False, headers=headers)
    found: list[str] = []

    def keep(what: str, answer: Answer) -> Answer:
        headers = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        found.append(RANDOM.sub(r"\1\2", f"{what}\n{answer.status_code}\n{headers}\n\n{answer.text}"))
        return answer

    keep("before signing in", client.get(f"{BASE}/cases/1"))
    token = new_link(store, STUDY, RATER, by="owner").token
    keep("sign in", client.post(f"{BASE}/login", data={"token": token}))
    _follow_links(client, keep, rated)
    fields, script = complete_fields(study, 2), {"accept": "application/json"}
    for number in rated:
        path = f"{BASE}/cases/{number}"
        keep("part", client.post(path, data={"comment": "So far.", "seconds": "0"}, headers=script))
        keep("old window", client.post(path, data={**fields, "revision": "0"}, headers=script))
        keep("old form", client.post(path, data={"comment": "Other.", "revision": "1", "action": "save"}))
        keep("wrong", client.post(path, data={"grade-1": "99", "mark": "5-900-error-0"}))
        marked = {**fields, "passage": "aspirin", "passage_kind": "error", "revision": "3"}
        keep("mark", client.post(path, data={**marked, "action": "mark"}))
        keep("next", client.post(path, data={**fields, "revision": "4", "action": "next"}))
    keep("too long", client.post(path, data={**fields, "revision": "x" * 2_000_000}, headers=script))
    keep("head", client.head(path))
    for name, value in (("if-none-match", "*"), ("range", "bytes=0-99"), ("accept-encoding", "gzip")):
        keep(name, client.get(path, headers={name: value}))
    _follow_links(client, keep, rated)
    keep("device", client.post(f"{BASE}/device"))
    for path in ("cases/99", "cases/x", "nothing", "cases/1/completion", f"../{STUDY}x"):
        keep(path, client.get(f"{BASE}/{path}"))
    keep("sign out", client.post(f"{BASE}/logout", data={"confirmed": "yes"}))
    return found


def _follow_links(client: TestClient, keep: Callable[[str, Answer], Answer], cases: Sequence[int]) -> None:
    """Read the rater's pages and all that they link to, of the cases those with these numbers."""
    seen, waiting = {BASE}, deque([BASE])
    while waiting:
        address = waiting.popleft()
        text = keep(address, client.get(address)).text if not address.endswith((".css", ".js")) else ""
        for link in LINK.findall(text):
            to = urljoin(address, link)
            number = re.search(r"/cases/(\d+)", to)
            is_wanted = number is None or int(number[1]) in cases
            if is_wanted and to not in seen and not urlsplit(to).scheme and "/static/" not in to:
                seen.add(to)
                waiting.append(to)


ALL, FEW = range(1, ADJUDICATED + 1), (1, 2, ADJUDICATED)
"""Numbers of the cases that are read and rated: all, or one of each model, and the one in adjudication."""


class Reading(NamedTuple):
    """All that a rater can read of a study."""

    world: World
    study: Study
    answers: list[str]


def reading(folder: Path, instrument: str, world: World, rated: Sequence[int] = ALL) -> Reading:
    store, study = make_blind_study(folder / f"store-{world.seed}", instrument, world)
    answers = crawl(store, study, rated)
    assert {row.number for row in rows_of(store, STUDY, RATER)} == {*rated}, "the form was accepted"
    return Reading(world, study, answers)


def leaks(*readings: Reading) -> list[str]:
    """Return what raters learn: secrets that an answer holds, and answers that differ between worlds."""
    found = [one for world, study, answers in readings for one in told(list(secrets_of(study, world)), answers)]
    if len({len(one.answers) for one in readings}) > 1:
        return [*found, "another number of pages"]
    together = zip(*(one.answers for one in readings), strict=True)
    return [*found, *(answers[0].splitlines()[0] for answers in together if len(set(answers)) > 1)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Reading]:
    """A study with grades in two worlds."""
    folder = tmp_path_factory.mktemp("blind")
    return [reading(folder, "quest", World(seed)) for seed in (11, 12)]


def test_a_rater_learns_nothing_in_a_study_with_grades(two: list[Reading]) -> None:
    assert leaks(*two) == []
    # Without this, pages that show nothing would pass.
    heads = [line for one in two[0].answers for line in one.partition("\n\n")[0].splitlines()[2:]]
    assert {line.partition(":")[0] for line in heads} == HEADERS
    answers = "\n".join(two[0].answers)
    for text in ("Rest for 2 days.", "Take 2 tablets of aspirin", "The visit went well.", "Opinion of another"):
        assert text in answers, text


@pytest.mark.long
@pytest.mark.parametrize("instrument", sorted({*INSTRUMENTS} - {"quest"}))
def test_a_rater_learns_nothing_whatever_the_instrument(tmp_path: Path, instrument: str) -> None:
    assert leaks(*(reading(tmp_path, instrument, World(seed)) for seed in (11, 12))) == []


HEADERS = {
    *("content-length", "content-type", "content-encoding", "vary", "cache-control", "content-security-policy"),
    *("cross-origin-opener-policy", "cross-origin-resource-policy", "permissions-policy", "referrer-policy"),
    *("x-content-type-options", "x-frame-options", "location", "set-cookie"),
}

NOT_LONG = ("records", "no prompts", "no folder")
DAMAGES = {
    "records": lambda store: [file.write_bytes(b"PAR1") for file in store.folder.glob("runs/*/*/records.parquet")],
    "run": lambda store: [file.write_text("{") for file in store.folder.glob("runs/*/*/run.json")],
    "prompts": lambda store: [file.write_bytes(b"") for file in store.folder.glob("prompts/*")],
    "no runs": lambda store: [file.unlink() for file in store.folder.glob("runs/*/*/*")],
    "no prompts": lambda store: [file.unlink() for file in store.folder.glob("prompts/*")],
    "no folder": lambda store: [(store.folder / "studies" / STUDY / "raters").rename(store.folder / "gone")],
}
"""Damage to a store -> what does it."""


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=() if name in NOT_LONG else pytest.mark.long) for name in DAMAGES]
)
@pytest.mark.parametrize("instrument", ["quest", pytest.param("healthbench", marks=pytest.mark.long)])
def test_errors_of_a_damaged_store_tell_a_rater_nothing(tmp_path: Path, instrument: str, damage: str) -> None:
    world = World(11)
    store, study = make_blind_study(tmp_path / "store", instrument, world)
    DAMAGES[damage](store)
    assert told([*secrets_of(study, world), str(tmp_path)], crawl(store, study, FEW)) == []


# --- planted leaks ----------------------------------------------------------------------------------------------------

LEAKS: dict[str, Callable[[World, Study], object]] = {
    "name of the model": lambda world, _: world.models[0],
    "part of the name": lambda world, _: world.models[0].split("/")[0].split()[-1].upper(),
    "length of the name": lambda world, _: [len(model) for model in world.models],
    "name in another alphabet": lambda world, _: world.models[0].encode().hex(),
    "place of the model among all": lambda _, study: sorted(study.models).index(study.item(study.items[0].id).model),
    "id of the item": lambda _, study: study.items[0].id,
    "digest": lambda _, study: study.items[0].completion_sha256,
    "run": lambda _, study: study.items[0].run,
    "instance": lambda _, study: study.items[0].instance_id,
    "probability": lambda _, study: study.items[0].probability,
    "other raters": lambda _, study: ", ".join(study.assignments),
    "comments of others": lambda world, _: f"Comment {world.number('1 0')}",
}
"""Kind of leak -> what tells it."""


def test_a_planted_leak_of_each_kind_is_found(two: list[Reading]) -> None:
    missed = []
    for kind, tell in LEAKS.items():
        planted = [one._replace(answers=[f"page\n{tell(one.world, one.study)}"]) for one in two]
        missed += [] if leaks(*planted) else [kind]
    assert missed == []


def test_a_leak_in_a_header_and_in_json_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_page, make_json = rate_pages._page, rate_pages._saved_json

    def leaking(request: Request, work: RaterWork, *given: Any, **values: Any) -> Response:
        response = make_page(request, work, *given, **values)
        response.headers["etag"] = work.study.items[0].completion_sha256
        return response

    monkeypatch.setattr(rate_pages, "_page", leaking)
    monkeypatch.setattr(
        rate_pages, "_saved_json", lambda work, *given: {**make_json(work, *given), "sum": work.study.items[1].id}
    )
    found = reading(tmp_path, "quest", World(11), FEW)
    assert {found.study.items[0].completion_sha256[:10], found.study.items[1].id} <= {*leaks(found)}
