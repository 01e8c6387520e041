"""`medhelm serve` as a process: it prints an address, answers to a browser with the token, and stops by Ctrl-C."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.servers.proxy import make_certificates
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


def test_the_printed_address_opens_the_leaderboard_with_a_certificate(tmp_path: Path) -> None:
    authority = make_certificates(tmp_path, "localhost").ca
    options = ("--port", "0", "--tls", tmp_path / "server.crt", tmp_path / "server.key", "--name", "localhost")
    with serving(make_board_store(tmp_path / "store"), *options) as (process, address):
        assert re.fullmatch(r"https://localhost:\d+/login#t=[\w-]{40,}", address)
        trusted = ssl.create_default_context(cafile=authority)
        base, _, token = address.partition("#t=")
        root = base.removesuffix("/login")
        with httpx.Client(follow_redirects=True, verify=trusted, trust_env=False) as browser:
            assert browser.get(root).status_code == 401
            assert browser.get(root, headers={"host": "evil.test"}).status_code == 403
            shown = browser.post(base, data={"token": token}, headers={"origin": root}).text
            assert "openai/model-1 leads" in shown
            (cookie,) = browser.cookies.jar
            assert cookie.secure
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
