"""`medhelm gateway` as a process, with workers that have no keys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from medhelm.storage.audit import check_chain, read_audit_log
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support import programs
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.cli import Medhelm, Outcome, assert_refused
from tests.support.programs import finish, start
from tests.support.servers.openai import Server
from tests.support.servers.proxy import make_certificates

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and socket files")

KEY = "sk-secret-of-the-gateway"


@contextmanager
def gateway(folder: Path, *options: str) -> Iterator[dict[str, Any]]:
    """Run a gateway that has the key."""
    with programs.gateway(folder, *options, WARD_KEY=KEY) as found:
        yield found


Worker = Callable[..., Outcome]


@pytest.fixture
def worker(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Worker:
    """Run the benchmark through a gateway, in this process, in a folder without models.yaml and without keys."""
    elsewhere = tmp_path / "elsewhere"
    make_benchmark(elsewhere, n=6)

    def run(found: dict[str, Any], *options: str) -> Outcome:
        monkeypatch.chdir(elsewhere)
        monkeypatch.setenv("MEDHELM_GATEWAY_TOKEN_FILE", found["token_file"] or "")
        return medhelm("run", "./toy", "--model", "m", "--gateway", found["url"], "--json", *options)

    return run


def contents(store: Path) -> list[Any]:
    changing = {"latency_s", "received"}
    return [
        [run.id, run.resolved_model, run.usage, run.estimates]
        + [{key: value for key, value in row.items() if key not in changing} for row in read_records(run)]
        for run in load_runs(open_store(store))
    ]


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    server.answer_with(answers_with(perfect))
    make_benchmark(tmp_path, n=6)
    definition = f"{{base_url: '{server.url}/v1', model: m, key: WARD_KEY, price: {{input: 50000, output: 0}}}}"
    (tmp_path / "models.yaml").write_text(f"m: {definition}\n", encoding="utf-8")
    return tmp_path


def test_workers_share_cache_and_budget_and_their_runs_are_those_of_one_process(
    folder: Path, server: Server, worker: Worker, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway(folder, "--budget", "100") as found:
        one, two = worker(found, "--store", "one"), worker(found, "--store", "two")
        continued = worker(found, "--store", "one", "--limit", "3")
    assert (one.code, two.code) == (0, 0), one.err + two.err
    assert "cache.sqlite" not in continued.err, "the cache is the gateway's, and not lost"
    runs = [outcome.json["runs"][0] for outcome in (one, two)]
    assert [(run["requests_sent"], run["requests_cached"]) for run in runs] == [(6, 0), (0, 6)]
    assert [outcome.json["cost_usd"] for outcome in (one, two)] == [pytest.approx(6.0), 0.0]
    assert server.count == 6
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WARD_KEY", KEY)
    assert medhelm("run", "./toy", "--model", "m", "--store", "direct").code == 0
    assert contents(folder / "elsewhere/two") == contents(folder / "direct")
    log = folder / "gate" / "audit.jsonl"
    assert check_chain(log).problem == ""
    sent = [entry.content for entry in read_audit_log(log) if entry.content["action"] == "request"]
    assert [entry["benchmark"] for entry in sent] == ["toy"] * 6
    assert all("@" in entry["worker"] for entry in sent)


def test_the_budget_of_the_gateway_stops_workers_and_others_are_refused(
    folder: Path, server: Server, worker: Worker
) -> None:
    with gateway(folder, "--budget", "20") as found:
        outcome = worker(found, "--store", "one")
        assert (outcome.code, "stopped by the budget of the store" in outcome.err) == (3, True)
        assert server.count <= 20
        assert_refused(worker(found, "--model", "other"), "`other`: not served by this gateway. Served: m.")
        assert_refused(worker({**found, "token_file": None}), "needs a token", code=4)
        (folder / "wrong").touch(mode=0o600)
        (folder / "wrong").write_text("w" * 30, encoding="utf-8")
        refused = worker({**found, "token_file": str(folder / "wrong")})
        assert_refused(refused, "the token is missing or wrong")


def test_with_a_certificate_the_same_is_encrypted(folder: Path, server: Server) -> None:
    make_certificates(folder, "localhost")
    (folder / "tokens").touch(mode=0o600)
    (folder / "tokens").write_text(f"ward7 {'w' * 30}\n", encoding="utf-8")
    with gateway(folder, "--tls", "server.crt", "server.key", "--tokens", "tokens") as found:
        url = found["url"].replace("127.0.0.1", "localhost")
        assert url.startswith("https://")
        command = ("run", "./toy", "--model", "m", "--gateway", url, "--store", "one")
        variables = {"MEDHELM_GATEWAY_TOKEN": "w" * 30}
        code, _, err = finish(start(folder, *command, **variables))
        assert (code, "set the environment variable SSL_CERT_FILE" in " ".join(err.split())) == (4, True), err
        assert server.count == 0
        code, _, err = finish(start(folder, *command, **variables, SSL_CERT_FILE="ca.pem"))
        assert code == 0, err
    sent = [entry.content for entry in read_audit_log(folder / "gate" / "audit.jsonl")]
    assert {entry.get("worker") for entry in sent} == {"ward7"}


def test_offline_does_not_even_ask_a_gateway_on_another_machine_for_its_models(
    folder: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDHELM_GATEWAY_TOKEN", "t" * 40)
    command = ("run", folder / "toy", "--gateway", "https://gateway.example:8443", "--model", "m", "--offline")
    assert_refused(medhelm(*command), "Leave out --offline")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "Give a certificate with --tls"),
        (("--model", "baseline/majority"), "Leave it out"),
        (("--tls", "a.pem", "b.pem"), "the file does not exist"),
        (("--tls", "a.pem", "b.pem", "--socket", "s"), "cannot be combined"),
        (("--socket", "models.yaml"), "is not a socket"),
    ],
)
def test_wrong_options_of_a_gateway(
    options: tuple[str, ...], words: str, folder: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARD_KEY", KEY)
    outcome = medhelm("gateway", *options)
    assert (outcome.code, words in " ".join(outcome.err.split())) == (2, True), outcome.err


@pytest.mark.long
def test_kills_of_the_gateway_and_of_workers_lose_nothing(tmp_path: Path) -> None:
    from bench.studies import gateway_kills

    _, result = gateway_kills.study(10, 3, tmp_path)
    assert sum(result.killed.values()) >= 10
    assert result.is_good
