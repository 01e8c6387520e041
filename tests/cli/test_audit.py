"""Consent, the audit log, proxies and certificates, through the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from medhelm.errors import ProviderError
from medhelm.models.providers.hosted import HttpProvider
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Server
from tests.support.servers.proxy import TlsServer, TunnelProxy, make_certificates

AWAY = "openai/m@https://llm.example/v1"


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requests that would be sent to other machines; none is."""
    sent: list[str] = []

    async def complete(self: HttpProvider, _request: object) -> None:
        sent.append(self.endpoint)
        raise ProviderError("no_access", "not sent by this test", fatal=True)

    monkeypatch.setattr(HttpProvider, "complete", complete)
    return sent


def consents(medhelm: Medhelm) -> list[tuple[str, str, str]]:
    """Return host, benchmarks and source of the consents in the audit log."""
    found = medhelm("audit", "show", "--json").json["consents"]
    return [(one["host"], one["benchmark"], one["source"]) for one in found]


@pytest.fixture
def clear(medhelm: Medhelm, tmp_path: Path) -> tuple[str, ...]:
    """Arguments that name the user's own data for a gated benchmark."""
    assert medhelm("data", "sample", "clear", "--out", tmp_path / "own").code == 0
    return ("clear", "--data", str(tmp_path / "own"), "--own-data", "--limit", "2")


# --- consent ----------------------------------------------------------------------------------------------------------


def test_private_data_needs_consent_for_each_host(
    medhelm: Medhelm, clear: tuple[str, ...], unreachable: list[str], tmp_path: Path
) -> None:
    models = ("--model", AWAY, "--model", "openai/n@http://gpu7.local:8000/v1")
    refused = medhelm("run", *clear, *models)
    assert refused.code == 2
    assert f"prompts to llm.example ({AWAY})" in refused.err
    assert "add --allow-host llm.example --allow-host gpu7.local" in refused.err
    assert medhelm("run", *clear, *models, "--allow-host", "llm.example").code == 2
    assert unreachable == []
    assert not (tmp_path / "medhelm-store" / "audit.jsonl").exists()
    planned = succeeded(medhelm("plan", *clear, *models))
    assert "a run would not start: data that is not public would leave this machine" in planned.out
    both = ("--allow-host", "LLM.example", "--allow-host", "gpu7.local")
    assert "would not start" not in medhelm("plan", *clear, *models, *both).out
    assert medhelm("run", *clear, *models, *both).code == 1
    assert unreachable
    assert consents(medhelm) == [("llm.example", "clear", "option"), ("gpu7.local", "clear", "option")]
    shown = medhelm("audit", "show", "--host", "gpu7.local").out
    assert ("gpu7.local" in shown, "llm.example" in shown, "the option --allow-host" in shown) == (True, False, True)
    assert medhelm("audit", "verify").code == 0


def test_sample_rows_need_no_consent(medhelm: Medhelm, unreachable: list[str], tmp_path: Path) -> None:
    medhelm("run", "clear", "--tier", "sample", "--limit", "1", "--model", AWAY, "--allow-host", "llm.example")
    assert unreachable
    assert not (tmp_path / "medhelm-store" / "audit.jsonl").exists()


def test_judges_need_consent_too(
    medhelm: Medhelm, clear: tuple[str, ...], unreachable: list[str], tmp_path: Path
) -> None:
    assert medhelm("data", "sample", "mental_health", "--out", tmp_path / "own").code == 0
    run = ("run", "mental_health", *clear[1:], "--model", "baseline/random")
    assert medhelm(*run).code == 0
    for command in (run, ("rejudge", "mental_health", "--data", tmp_path / "own")):
        told = medhelm(*command, "--judge", AWAY)
        assert_refused(told, "prompts, completions and references", f"to llm.example (judge {AWAY})")
    assert unreachable == []
    both = ("run", "clear", *run[1:])
    medhelm(*both, "--judge", AWAY, "--allow-host", "llm.example")
    assert consents(medhelm) == [("llm.example", "mental_health", "option")]  # judges get no data of `clear`


def test_an_administrator_can_consent_for_all(
    medhelm: Medhelm, clear: tuple[str, ...], unreachable: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "egress.yaml"
    file.write_text("allow: ['*.example']\nprivate_data: [llm.example]\n", encoding="utf-8")
    file.chmod(0o644)
    monkeypatch.setattr("medhelm.io.http.egress.ADMINISTRATOR_FILE", file)
    monkeypatch.setattr("medhelm.io.http.egress.ADMINISTRATOR_ID", os.getuid())
    assert medhelm("run", *clear, "--model", AWAY).code == 1
    assert unreachable
    assert consents(medhelm) == [("llm.example", "clear", "administrator")]
    forbidden = medhelm("run", *clear, "--model", "openai/m@https://a.org/v1", "--model", "openai/m@https://b.org/v1")
    assert forbidden.code == 2
    assert forbidden.err.count(f"{file} does not allow it") == 2


# --- the audit log ----------------------------------------------------------------------------------------------------


def test_every_request_has_an_entry_without_text(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.script(chat("yes"))
    assert medhelm("audit", "verify").code == 2
    model = server.model()
    medhelm("run", "medbullets", "--tier", "sample", "--model", model)
    medhelm("run", "aci_bench", "--tier", "sample", "--model", "baseline/lexical", "--judge", model)
    assert medhelm("models", "check", model).code == 0
    content = medhelm("audit", "show", "--json", "--last", "1000").json
    assert len(content["entries"]) == server.count
    assert sum(total["requests"] for total in content["totals"]) == server.count
    assert {total["benchmark"] for total in content["totals"]} == {"", "medbullets", "aci_bench"}
    sizes = sorted(int(headers["content-length"]) for headers in server.headers)
    assert sorted(entry["bytes"] for entry in content["entries"]) == sizes
    log = (tmp_path / "medhelm-store" / "audit.jsonl").read_text(encoding="utf-8")
    for body in server.bodies:
        assert not any(message["content"][:40] in log for message in body["messages"])
    shown = medhelm("audit", "show", "--benchmark", "medbullets", "--host", "127.0.0.1", "--since", "2026-01-01").out
    assert ("medbullets" in shown, "aci_bench" in shown) == (True, False)


def test_a_changed_log_is_reported(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.script(chat("yes"))
    medhelm("run", "medbullets", "--tier", "sample", "--model", server.model())
    head = succeeded(medhelm("audit", "verify")).out.split()[-1]
    assert "0 of them since" in succeeded(medhelm("audit", "verify", "--head", head[:16].upper())).out
    file = tmp_path / "medhelm-store" / "audit.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    assert_refused(medhelm("audit", "verify", "--head", head), "entries were removed or changed", code=1)
    (tmp_path / "medhelm-store" / "audit.head").unlink()
    assert medhelm("audit", "verify").code == 0
    assert_refused(medhelm("audit", "verify", "--head", head), "entries at the end were removed", code=1)
    for short in ("", "a" * 15, "g" * 16, "a" * 65):  # an empty one is that of a shell variable that is not set
        assert_refused(medhelm("audit", "verify", "--head", short), "must be 16 to 64 hexadecimal digits")
    file.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert_refused(medhelm("audit", "verify"), "line 2 does not follow", code=1)


def test_nothing_is_sent_that_cannot_be_logged(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    run = ("run", "medbullets", "--tier", "sample", "--model")
    assert medhelm(*run, "baseline/random").code == 0
    (tmp_path / "medhelm-store" / "audit.jsonl").mkdir()
    assert_refused(medhelm(*run, server.model()), "nothing is sent without it")
    assert server.count == 0


# --- proxies and certificates -----------------------------------------------------------------------------------------


def test_a_model_behind_a_proxy_with_the_hospitals_certificates(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: models.yaml names the authority and the client's certificate, the command names the proxy."""
    monkeypatch.setenv("MEDHELM_API_KEY", "sk-test-0123456789")
    made = make_certificates(tmp_path, "llm.example")
    file = tmp_path / "models.yaml"
    file.write_text(
        "mine: {base_url: 'https://llm.example/v1', ca_file: ca.pem, client_certificate: client.crt, "
        "client_key: client.key}\n",
        encoding="utf-8",
    )
    run = ("run", "medbullets", "--tier", "sample", "--model", "mine")
    with (
        TlsServer(made.server_context(ask_client=True), json.dumps(chat("yes").body).encode()) as served,
        TunnelProxy(served.port) as proxy,
    ):
        done = succeeded(medhelm(*run, "--proxy", proxy.url, "--models", file))
        assert f"go through the proxy {proxy.url}" in done.err
        assert served.bodies
        assert {head.split("\r\n")[0] for head in proxy.requests} == {"CONNECT llm.example:443 HTTP/1.1"}
    entries = medhelm("audit", "show", "--json").json["entries"]
    assert {entry["proxy"] for entry in entries} == {proxy.url}
    assert_refused(medhelm(*run), "name it with --models")  # a file that the user did not name


@pytest.mark.parametrize("proxy", ["http://me:secret@proxy:3128", "http://proxy:3128/path"])
def test_a_proxy_that_cannot_be_used_is_refused(medhelm: Medhelm, proxy: str) -> None:
    refused = medhelm("models", "check", AWAY, "--proxy", proxy)
    assert_refused(refused, "--proxy")
    assert "secret" not in refused.err
