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
        f"cannot connect to https://{HOST}:8000: no server listens there. See the log of the server on port 8000.",
        f"the host name {HOST} cannot be resolved. Check how {HOST} is spelled, and whether this machine can reach it",
        "actors were lost, the last one on node gpu7 with tokens",
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
    other = "gpt-4.1: 3.5 tokens; v1.2.3 (status 500, 12 bytes)"
    assert without_servers(other) == other
    text = "?"
    for pattern, replacement in SERVERS:
        text = f"regexp_replace({text}, {sql_text(pattern)}, {sql_text(replacement)}, 'g')"
    assert connect().execute(f"SELECT {text}", [message]).fetchall() == [(found,)], "DuckDB agrees"


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


def test_nothing_that_is_published_names_a_server(tmp_path: Path, server: Server, medhelm: Medhelm) -> None:
    make_benchmark(tmp_path, n=6)
    calls = 0

    def answer(body: object) -> Answer:
        nonlocal calls
        calls += 1
        said = {"error": {"message": f"upstream {HOST}:8123 rejected it", "type": "invalid_request_error"}}
        return chat("A") if calls % 2 else Answer(status=400, body=said)

    server.answer_with(answer)
    port = server.url.rpartition(":")[2]
    (tmp_path / "models.yaml").write_text(f"ours: {{base_url: '{server.url}/v1', model: m}}\n", encoding="utf-8")
    done = medhelm("run", "./toy", "--model", "ours", "--store", "st", "--concurrency", "1")
    assert done.code in (0, 1), done.err
    assert any(HOST in text for _, text in contents(tmp_path / "st")), "kept for whoever mends the server"
    exports = [f"export {kind} out/{kind} --with-text" for kind in ("site", "csv", "parquet")]
    for command in (*exports, "export helm out/helm", "export card out/card.html", "report out/report", "release r1"):
        done = medhelm(*command.split(), "--store", "st", "--benchmarks", ".")
        assert done.code in (0, 1), (command, done.err)
    found = [*contents(tmp_path / "out"), *contents(tmp_path / "st" / "releases")]
    assert any("[server]" in text for _, text in found)
    named = [str(path.relative_to(tmp_path)) for path, text in found if HOST in text or f"127.0.0.1:{port}" in text]
    assert named == []
