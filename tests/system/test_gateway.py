"""`medhelm gateway` as a process, with workers that have no keys."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medhelm.storage.audit import check_chain, read_audit_log
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support import programs
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm, Outcome
from tests.support.programs import finish, start
from tests.support.servers.openai import Answer, Server

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
    assert (one.code, two.code) == (0, 0), one.err + two.err
    runs = [outcome.json["runs"][0] for outcome in (one, two)]
    assert [(run["requests_sent"], run["requests_cached"]) for run in runs] == [(6, 0), (0, 6)]
    assert [outcome.json["cost_usd"] for outcome in (one, two)] == [pytest.approx(6.0), 0.0]
    assert server.count == 6
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WARD_KEY", KEY)
    assert medhelm("run", "./toy", "--model", "m", "--store", "direct").code == 0
    stores = [contents(store) for store in (folder / "elsewhere/one", folder / "elsewhere/two", folder / "direct")]
    assert stores[0] == stores[1] == stores[2]
    log = folder / "gate" / "audit.jsonl"
    assert check_chain(log).problem == ""
    sent = [entry.content for entry in read_audit_log(log) if entry.content["action"] == "request"]
    assert [entry["benchmark"] for entry in sent] == ["toy"] * 6
    assert all("@" in entry["worker"] for entry in sent)


def test_a_run_that_continues_does_not_report_a_lost_cache(folder: Path, worker: Worker) -> None:
    with gateway(folder) as found:
        begun, continued = worker(found, "--store", "one", "--limit", "3"), worker(found, "--store", "one")
    assert (begun.code, continued.code) == (0, 0), begun.err + continued.err
    assert continued.json["runs"][0]["requests_cached"] == 3
    assert "cache.sqlite" not in continued.err, "the cache is the gateway's"


def test_the_budget_of_the_gateway_stops_workers_and_others_are_refused(
    folder: Path, server: Server, worker: Worker
) -> None:
    with gateway(folder, "--budget", "20") as found:
        outcome = worker(found, "--store", "one")
        assert outcome.code == 3
        assert "stopped by the budget of the store" in outcome.err
        assert server.count <= 20
        outcome = worker(found, "--model", "other")
        assert (outcome.code, "`other`: not served by this gateway. Served: m." in outcome.err) == (2, True)
        outcome = worker({**found, "token_file": None})
        assert (outcome.code, "needs a token" in outcome.err) == (4, True)
        (folder / "wrong").touch(mode=0o600)
        (folder / "wrong").write_text("w" * 30, encoding="utf-8")
        outcome = worker({**found, "token_file": str(folder / "wrong")})
        assert (outcome.code, "the token is missing or wrong" in outcome.err) == (2, True)


def test_with_a_certificate_the_same_is_encrypted(folder: Path, server: Server) -> None:
    if not shutil.which("openssl"):
        pytest.skip("needs openssl, to make a certificate")
    certificate, key = folder / "gate.pem", folder / "gate.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    (folder / "tokens").touch(mode=0o600)
    (folder / "tokens").write_text(f"ward7 {'w' * 30}\n", encoding="utf-8")
    with gateway(folder, "--tls", str(certificate), str(key), "--tokens", "tokens") as found:
        url = found["url"].replace("127.0.0.1", "localhost")
        assert url.startswith("https://")
        command = ("run", "./toy", "--model", "m", "--gateway", url, "--store", "one")
        variables = {"MEDHELM_GATEWAY_TOKEN": "w" * 30}
        code, _, err = finish(start(folder, *command, **variables))
        assert (code, "set the environment variable SSL_CERT_FILE" in " ".join(err.split())) == (4, True), err
        assert "models.yaml" not in err, "no definition can change how a gateway is reached"
        assert server.count == 0
        code, _, err = finish(start(folder, *command, **variables, SSL_CERT_FILE=str(certificate)))
        assert code == 0, err
    sent = [entry.content for entry in read_audit_log(folder / "gate" / "audit.jsonl")]
    assert {entry.get("worker") for entry in sent} == {"ward7"}


def test_a_plan_needs_neither_keys_nor_definitions_and_says_what_it_cannot_know(
    folder: Path, worker: Worker, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway(folder) as found:
        assert worker(found, "--store", "one").code == 0
        monkeypatch.setenv("MEDHELM_GATEWAY", found["url"])
        plan = medhelm("plan", "./toy", "--model", "m")
        assert plan.code == 0, plan.err
        assert "the gateway's cache is not counted" in " ".join(f"{plan.out}{plan.err}".split())
    # Prices and keys of this machine's own models need no gateway: it is gone.
    assert medhelm("cost", "--store", "one").code == 0
    assert medhelm("models", "list", "baseline/majority").code == 0


def test_offline_does_not_even_ask_a_gateway_on_another_machine_for_its_models(
    folder: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDHELM_GATEWAY_TOKEN", "t" * 40)
    command = ("run", folder / "toy", "--gateway", "https://gateway.example:8443", "--model", "m")
    outcome = medhelm(*command, "--offline")
    assert (outcome.code, "Leave out --offline" in outcome.err) == (2, True), outcome.err
    monkeypatch.setenv("MEDHELM_OFFLINE", "1")
    assert "Leave out --offline" in medhelm(*command).err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "Give a certificate with --tls"),
        (("--model", "baseline/majority"), "Leave it out"),
        (("--model", "nothing"), "unknown"),
        (("--tls", "a.pem", "b.pem"), "the file does not exist"),
        (("--tls", "a.pem", "b.pem", "--socket", "s"), "cannot be combined"),
        (("--tokens", "nowhere"), "cannot be read"),
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
def test_two_shards_through_one_gateway_to_a_pool_of_which_one_server_dies(tmp_path: Path) -> None:
    """The merged run is the undivided one, and no completion is bought twice."""
    n, good = 40, Counter[int]()
    is_dead = threading.Event()

    def answer(body: dict[str, Any], *, dies: bool) -> Answer:
        if dies and is_dead.is_set():
            return Answer(ending="reset")
        if not body:  # the list of models
            return Answer(status=404)
        number = question_number(body)
        good[number] += 1
        if dies and number % 2:
            is_dead.set()  # with others in flight
        return chat(perfect(number))

    make_benchmark(tmp_path, n=n)
    with Server() as lives, Server() as dies:
        for one in (lives, dies):
            one.lists_models = True
            one.answer_with(partial(answer, dies=one is dies))
        addresses = f"['{lives.url}/v1', '{dies.url}/v1']"
        (tmp_path / "models.yaml").write_text(f"m: {{base_url: {addresses}, model: m}}\n", encoding="utf-8")
        with gateway(tmp_path, "--concurrency", "4") as found:
            run = ["run", "./toy", "--model", "m", "--gateway", found["url"]]
            token = {"MEDHELM_GATEWAY_TOKEN_FILE": found["token_file"]}
            workers = [
                start(tmp_path, *run, "--shard", f"{index}/2", "--store", f"shard-{index}", **token) for index in (1, 2)
            ]
            for code, _, err in map(finish, workers):
                assert code == 0, err
            assert is_dead.is_set()
            assert good == Counter(range(n))
            code, _, err = finish(start(tmp_path, "merge", "shard-1", "shard-2", "--store", "merged"))
            assert code == 0, err
            code, _, err = finish(start(tmp_path, *run, "--store", "whole", **token))
            assert code == 0, err
            assert good == Counter(range(n)), "the undivided run finds everything in the gateway's cache"
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")


INSPECT_TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@task
def toy():
    samples = [Sample(input=f"Question number {i}?", target="B" if i % 3 == 2 else "A") for i in range(6)]
    return Task(dataset=samples, solver=generate(), scorer=match())
"""


@pytest.mark.long
def test_inspect_uses_it_as_a_model_server(folder: Path, server: Server) -> None:
    """The second evaluation finds the completions of the first one in the gateway's cache."""
    pytest.importorskip("inspect_ai")
    pytest.importorskip("openai", reason="Inspect's provider openai-api needs the package openai")
    (folder / "task.py").write_text(INSPECT_TASK, encoding="utf-8")
    inspect = [sys.executable, "-m", "inspect_ai", "eval", "task.py", "--model", "openai-api/ward/m"]
    options = ["--display", "plain", "--log-dir", "logs", "--log-format", "json"]
    with gateway(folder) as found:
        token = Path(found["token_file"]).read_text(encoding="utf-8").strip()
        variables = {"WARD_BASE_URL": f"{found['url']}/v1", "WARD_API_KEY": token}
        for _ in range(2):
            done = subprocess.run(
                [*inspect, *options], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert server.count == 6
    logs = [json.loads(file.read_text(encoding="utf-8")) for file in (folder / "logs").glob("*.json")]
    accuracies = [log["results"]["scores"][0]["metrics"]["accuracy"]["value"] for log in logs]
    assert accuracies == [1.0, 1.0]
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


@pytest.mark.long
def test_kills_of_the_gateway_and_of_workers_lose_nothing(tmp_path: Path) -> None:
    from bench.studies import gateway_kills

    _, result = gateway_kills.study(10, 3, tmp_path)
    assert sum(result.killed.values()) >= 10
    assert result.is_good
