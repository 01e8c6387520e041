"""A server that repeats the key: it is in no message, no file of the store and no export."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from medhelm.io.parquet import connect, sql_path
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

KEY = "gw-Q7/zP4vLs9Xk2TnB8mD"
REDIRECTS = {
    "user name": f"http://user:{KEY}@elsewhere.example/login",
    "lower case": f"http://elsewhere.example/{KEY.lower()}",
    "base64": f"http://elsewhere.example/{b64encode(b'Bearer ' + KEY.encode()).decode()}",
    "relative": f"/login/{KEY}",
}


def is_free_of_the_key(text: str) -> bool:
    forms = (KEY, KEY.lower(), KEY.upper(), b64encode(b"Bearer " + KEY.encode()).decode()[12:36])
    return not any(form in text for form in forms) and KEY[3:12].lower() not in text.lower()


@pytest.fixture
def benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, medhelm: Medhelm) -> Path:
    monkeypatch.setenv("MEDHELM_API_KEY", KEY)
    return make_benchmark(tmp_path, n=2)


@pytest.mark.parametrize("location", REDIRECTS.values(), ids=REDIRECTS)
def test_in_a_redirect(benchmark: Path, medhelm: Medhelm, server: Server, location: str) -> None:
    server.answer_with(lambda _: Answer(status=302, headers={"Location": location}))
    done = medhelm("run", benchmark, "--model", f"openai/m@{server.url}/v1")
    assert "sent a redirect" in done.out + done.err
    assert is_free_of_the_key(done.out + done.err)


def test_in_a_completion(benchmark: Path, medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(lambda _: chat(f"My key is {KEY.upper()}, good.", finish_reason=f"stop {KEY}"))
    assert medhelm("run", benchmark, "--model", f"openai/m@{server.url}/v1").code == 0
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert medhelm("export", "csv", "tables", "--with-text").code == 0
    assert "My key is [key removed], good." in (tmp_path / "tables" / "records.csv").read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    with connect() as connection:
        tables = [path for path in files if path.suffix == ".parquet"]
        rows = [connection.execute(f"SELECT * FROM read_parquet({sql_path(path)})").fetchall() for path in tables]
    assert is_free_of_the_key(repr(rows))
    assert all(is_free_of_the_key(path.read_bytes().decode("latin-1")) for path in files)
