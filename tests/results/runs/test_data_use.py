"""Where data went: audit logs with several hosts, without a log, and with a changed one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain.run import Origin
from medhelm.io.http.hosts import Subject
from medhelm.results.runs.data_use import DataUse, as_json, data_use, place_of, sentences
from medhelm.storage.audit import AuditLog
from medhelm.storage.store import Store, create
from tests.support.stores import jury_of, make_model, make_run, write_run

HERE, WARD, AWAY = "http://127.0.0.1:8000", "http://10.0.0.5:8000", "https://api.openai.com"

Sent = tuple[str, str, str, int]
"""Destination, model, benchmark and bytes of a request."""


def model_at(address: str, name: str = "openai/m") -> str:
    return f"{name}@{address}/v1"


def store_with(folder: Path, sent: Iterable[Sent], *runs: tuple[str, str], judge: str = "") -> Path:
    """Write a store with runs of models, each the address of its server and its benchmark, and an audit log."""
    create(folder)
    for address, benchmark in runs:
        model = make_model(model_at(address), base_url=f"{address}/v1")
        jury = jury_of("openai/judge") if judge else None
        if jury:
            judges = (replace(jury.jury.judges[0], base_url=f"{judge}/v1"),)
            jury = replace(jury, jury=replace(jury.jury, judges=judges, min_judges=1))
        write_run(folder, make_run(benchmark, model.name, resolved_model=model, jury_result=jury), [])
    log = AuditLog(Store(folder).audit_file)
    for destination, name, benchmark, size in sent:
        log.request_all("POST", destination, [(Subject(name, benchmark), size)])
    log.close()
    return folder


@pytest.mark.parametrize(
    ("sent", "runs", "claim", "words"),
    [
        ([], [], "nothing left", "the runs needed no server, and no request"),
        ([(HERE, model_at(HERE), "toy", 9)], [(HERE, "toy")], "nothing left", "all 1 request of this store went to"),
        ([("unix:gate.sock", model_at(HERE), "toy", 9)], [(HERE, "toy")], "nothing left", "Nothing left this machine"),
        ([(WARD, model_at(WARD), "toy", 9)], [(WARD, "toy")], "stayed inside", "Nothing left the private network"),
        ([(AWAY, model_at(AWAY), "toy", 9)], [(AWAY, "toy")], "left", "sent over the internet, to api.openai.com."),
        ([(AWAY, "", "", 0)], [], "nothing left", "fetched from api.openai.com; no data was sent"),
        ([], [(HERE, "toy")], "unknown", "1 run of Toy used a model server, and the log has no such request"),
        ([(HERE, model_at(HERE), "other", 9)], [(HERE, "toy")], "unknown", "It cannot be said"),
        # A gateway on this machine passes the request on.
        ([(HERE, model_at(AWAY), "toy", 9)], [(AWAY, "toy")], "left", "about Toy on to api.openai.com"),
    ],
)
def test_the_claim_is_no_more_than_log_and_runs_show(
    tmp_path: Path, sent: list[Sent], runs: list[tuple[str, str]], claim: str, words: str
) -> None:
    found = data_use([store_with(tmp_path / "store", sent, *runs)])
    assert found.claim == claim
    assert words in " ".join(sentences(found))


def test_requests_are_summed_by_host_and_benchmark_and_judges_get_completions(tmp_path: Path) -> None:
    sent = [(WARD, model_at(WARD), "toy", 100)] * 3 + [(AWAY, "openai/judge", "toy", 2000)] * 2
    sent += [(WARD, model_at(WARD), "other", 7), (AWAY, "", "", 0)]
    place = store_with(tmp_path / "store", sent, (WARD, "toy"), (WARD, "other"), judge=AWAY)
    found = data_use([place], with_names=True)
    rows = [(one.shown_host, one.place, one.benchmark, one.content, one.requests, one.bytes) for one in found.sent]
    assert rows == [
        ("api.openai.com", "internet", "toy", "judging", 2, 4000),
        ("10.0.0.5:8000", "private network", "other", "prompts", 1, 7),
        ("10.0.0.5:8000", "private network", "toy", "prompts", 3, 300),
        ("api.openai.com", "internet", "", "nothing", 1, 0),
    ]
    text = " ".join(sentences(found))
    assert "api.openai.com got prompts, completions and references of Toy: 2 requests, 3.9 KiB, on " in text
    assert found.unlogged == {"other": 1}  # its judge was never asked about it
    assert "1 run of Other used a model server" in text
    hidden = data_use([place])
    assert "10.0.0.5" not in f"{as_json(hidden)}"
    assert not any(one.users for one in hidden.sent)
    assert sum(one.bytes for one in hidden.sent) == sum(one.bytes for one in found.sent)


def test_consent_is_summed_by_host_and_names_no_one_where_names_are_hidden(tmp_path: Path) -> None:
    place = store_with(tmp_path / "store", [(AWAY, model_at(AWAY), "toy", 9)], (AWAY, "toy"))
    log = AuditLog(Store(place).audit_file)
    for _ in range(2):
        log.consent("api.openai.com", ["toy", "wards"], "option")
    log.consent("10.0.0.5", [], "administrator")
    log.close()
    found, hidden = data_use([place], with_names=True), data_use([place])
    rows = [(one.host, one.place, one.benchmark, one.source, one.commands) for one in found.consents]
    assert rows == [
        ("10.0.0.5", "private network", "", "administrator", 1),
        ("api.openai.com", "internet", "toy, wards", "option", 2),
    ]
    (user,) = found.consents[0].users
    text = " ".join(sentences(found))
    assert "Sending data of Toy and wards, which is not public, to api.openai.com was permitted by the option" in text
    assert f"Sending data that is not public to 10.0.0.5 was permitted by the administrator's file ({user}, 2" in text
    assert [one.covers(sent) for one in found.consents for sent in found.sent] == [False, True]
    assert "to the private network was permitted by the administrator's file (2" in " ".join(sentences(hidden))
    assert "10.0.0.5" not in f"{as_json(hidden)}"
    assert not any(one.users for one in hidden.consents)


def damage(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"bytes":9', b'"bytes":1'))


def shorten(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        (damage, "damaged", "The audit log of store was changed or is damaged: line"),
        (shorten, "damaged", "lacks entry 3"),
        (Path.unlink, "missing", "The store store has no audit log."),
    ],
)
def test_a_changed_or_lost_log_makes_no_claim(tmp_path: Path, change: object, state: str, words: str) -> None:
    place = store_with(tmp_path / "store", [(HERE, model_at(HERE), "toy", 9)] * 3, (HERE, "toy"))
    assert data_use([place]).claim == "nothing left"
    change(Store(place).audit_file)  # type: ignore[operator]
    found = data_use([place])
    assert (found.claim, found.logs[0].state) == ("unknown", state)
    assert words in " ".join(sentences(found))


def test_what_others_requested_is_named(tmp_path: Path) -> None:
    origin = Origin(harness="lm_eval", version="", run="r", sha256="0" * 64)
    write_run(create(tmp_path / "store").folder, make_run(origin=origin, resolved_model=None), [])
    found = data_use([tmp_path / "store"])
    assert (found.claim, found.imported) == ("nothing left", {"lm-eval": 1})
    assert "does not know where their prompts were sent" in " ".join(sentences(found))


def test_several_stores_have_a_log_each(tmp_path: Path) -> None:
    first = store_with(tmp_path / "a", [(HERE, model_at(HERE), "toy", 9)], (HERE, "toy"))
    second = store_with(tmp_path / "b", [(HERE, model_at(HERE), "toy", 5)], (HERE, "toy"))
    Store(second).audit_file.unlink()
    found: DataUse = data_use([first, second])
    assert [(log.store, log.state) for log in found.logs] == [("a", "intact"), ("b", "missing")]
    assert (found.claim, found.unlogged) == ("unknown", {"toy": 1})  # the log of one store says nothing of the other


PLACES = {
    "this machine": ("http://localhost:1", "http://[::1]:1"),
    "private network": ("http://ward:8000", "https://models.hospital.internal", "http://[fd00::1]:80",
                        "ray-actor://192.168.1.2"),
    "internet": ("https://example.com", "ray-actor://8.8.8.8"),
}  # fmt: skip


def test_places_of_hosts() -> None:
    assert {place: {place_of(one)[1] for one in own} for place, own in PLACES.items()} == {one: {one} for one in PLACES}
