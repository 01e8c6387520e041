"""Addresses of model servers in failure messages: in the store, and in nothing that is published."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from medhelm.domain.text import SERVERS, without_servers
from medhelm.io.parquet import connect, sql_text
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

HOST = "gpu7.hospital.internal"


@pytest.mark.parametrize(
    "message",
    [
        f"http://{HOST}:8000 did not answer within 3 s",
        f"cannot connect to https://{HOST}:8000: no server listens there. See the log of the server on port 8000.",
        f"the host name {HOST} cannot be resolved. Check how {HOST} is spelled, and whether this machine can reach it",
        "the host name gpu7 cannot be resolved. Check how gpu7 is spelled.",
        "actors were lost, the last one on node gpu7 with 8000 tokens".replace("8000 ", ""),
        "ConnectError: 10.20.30.40:8000 refused, [fd00::7]:8000 too",
        f"upstream {HOST}:8000 is unavailable",
        f"the gateway unix:/srv/{HOST}/8000.sock: it closed the connection",
        f"sent a redirect (status 302) to http://{HOST}:8000/login. Redirects are not followed",
    ],
)
def test_messages_keep_their_reason_and_lose_the_address(message: str) -> None:
    found = without_servers(message)
    for part in (HOST, "gpu7", "8000", "10.20.30.40", "fd00"):
        assert part not in found
    assert "[server]" in found
    text = "?"
    for pattern, replacement in SERVERS:
        text = f"regexp_replace({text}, {sql_text(pattern)}, {sql_text(replacement)}, 'g')"
    assert connect().execute(f"SELECT {text}", [message]).fetchall() == [(found,)], "DuckDB agrees"


@pytest.mark.parametrize(
    "message",
    ["the response (status 500, 12 bytes) is not JSON", "gpt-4.1: 3.5 tokens; v1.2.3", "no verdict: 1 of 2 criteria"],
)
def test_other_messages_stay_as_they_are(message: str) -> None:
    assert without_servers(message) == message


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    make_benchmark(tmp_path, n=6)
    yield tmp_path


def contents(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file as text, Parquet and archives unpacked."""
    for path in (one for one in folder.rglob("*") if one.is_file()):
        if path.suffix == ".parquet":
            yield path, str(duckdb.read_parquet(str(path)).fetchall())
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as opened:
                for name in opened.namelist():
                    yield path / name, opened.read(name).decode("utf-8", "replace")
        else:
            yield path, path.read_bytes().decode("utf-8", "replace")


def test_nothing_that_is_published_names_a_server(place: Path, server: Server, medhelm: Medhelm) -> None:
    calls = 0

    def answer(body: object) -> Answer:
        nonlocal calls
        calls += 1
        said = {"error": {"message": f"upstream {HOST}:8123 rejected it", "type": "invalid_request_error"}}
        return chat("A") if calls % 2 else Answer(status=400, body=said)

    server.answer_with(answer)
    port = server.url.rpartition(":")[2]
    (place / "models.yaml").write_text(f"ours: {{base_url: '{server.url}/v1', model: m}}\n", encoding="utf-8")
    done = medhelm("run", "./toy", "--model", "ours", "--store", "st", "--concurrency", "1")
    assert done.code in (0, 1), done.err
    kept = {text for _, text in contents(place / "st") if HOST in text}
    assert kept, "the store keeps it, for whoever mends the server"
    own = ("--store", "st", "--benchmarks", ".")
    for command in (
        ("export", "site", "out/site", "--with-text", *own),
        ("export", "csv", "out/csv", "--with-text", *own),
        ("export", "parquet", "out/parquet", "--with-text", *own),
        ("export", "helm", "out/helm", *own),
        ("export", "card", "out/card.html", *own),
        ("report", "out/report", *own),
        ("release", "r1", *own),
    ):
        done = medhelm(*command)
        assert done.code in (0, 1), (command, done.err)
    found = [*contents(place / "out"), *contents(place / "st" / "releases")]
    assert any("[server]" in text for _, text in found)
    named = [str(path.relative_to(place)) for path, text in found if HOST in text or f"127.0.0.1:{port}" in text]
    assert named == []
