"""`medhelm serve` as a process: it prints an address, answers to a browser with the token, and stops by Ctrl-C."""

from __future__ import annotations

import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.cli import Medhelm
from tests.support.web.sites import make_board_store


@contextmanager
def serving(store: Path, *options: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the server; yield the process and the address that it prints."""
    command = [sys.executable, "-m", "medhelm", "serve", "--store", store, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(list(map(str, command)), stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            address = next((line.strip() for line in process.stdout if "#t=" in line), "")
            yield process, address
        finally:
            process.kill()


def sign_in(client: httpx.Client, address: str) -> httpx.Response:
    base, _, token = address.partition("#t=")
    return client.post(base, data={"token": token}, headers={"origin": base.removesuffix("/login")})


def test_the_printed_address_opens_the_leaderboard(tmp_path: Path) -> None:
    with serving(make_board_store(tmp_path), "--port", "0") as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login#t=[\w-]{40,}", address)
        root = address.partition("/login")[0]
        with httpx.Client(follow_redirects=True) as browser:
            assert browser.get(root).status_code == 401
            assert browser.get(root, headers={"host": "evil.test"}).status_code == 403
            assert "openai/model-1 leads" in sign_in(browser, address).text
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_socket_file_serves_the_same(tmp_path: Path) -> None:
    store, path = make_board_store(tmp_path / "store"), tmp_path / "board.sock"
    with serving(store, "--socket", path) as (process, address):
        token = address.partition("#t=")[2]
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), follow_redirects=True) as browser:
            found = browser.post("http://localhost:1234/login", data={"token": token})
            assert "openai/model-1 leads" in found.text
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 0
    assert not path.exists()


def test_with_a_certificate_the_same_is_encrypted(tmp_path: Path) -> None:
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("needs openssl, to make a certificate")
    certificate, key = tmp_path / "board.pem", tmp_path / "board.key"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    options = ("--port", "0", "--tls", certificate, key, "--name", "localhost")
    with serving(make_board_store(tmp_path / "store"), *options) as (process, address):
        assert re.fullmatch(r"https://localhost:\d+/login#t=[\w-]{40,}", address)
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(follow_redirects=True, verify=trusted, trust_env=False) as browser:
            found = sign_in(browser, address)
            assert "openai/model-1 leads" in found.text
            (cookie,) = browser.cookies.jar
            assert cookie.secure
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 0


@pytest.mark.parametrize(
    ("content", "words"), [(None, "no store at"), ('{"medhelm_store": 99}', "layout version 99"), ("x", "damaged")]
)
def test_a_store_that_cannot_be_read_is_an_error_at_the_start(
    content: str | None, words: str, medhelm: Medhelm, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    if content is not None:
        store.mkdir()
        (store / "store.json").write_text(content, encoding="utf-8")
    done = medhelm("serve", "--store", store)
    assert done.code == 2
    assert words in done.err
