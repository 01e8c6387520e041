"""Servers that are not what they say, for every provider and by every road: each trouble has a code and one sentence
that says what to do, and no key shows anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from medhelm.models import model_check
from tests.support.cli import Medhelm, Outcome, repeated
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS

SECRETS = (*KEYS.values(), "QwErTy0123456789")
"""What must show nowhere."""


@dataclass(frozen=True)
class Trouble:
    """What a server does, and what users are to read."""

    answer: Answer
    code: str
    """Of the failure."""
    said: str
    """What went wrong."""
    todo: str
    """What to do."""
    fatal: bool = False
    """Whether the model is given up."""
    timeout_s: float = 600.0
    """Short only for a server that never answers: another may take its time on a busy machine."""


PAGE = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome</body></html>"

TROUBLES = {
    "a web page": Trouble(Answer(body=PAGE), "malformed_reply", "is a web page, not JSON: a login page", "the address"),
    "a login redirect": Trouble(
        Answer(status=302, headers={"Location": "https://login.example/saml?token=QwErTy0123456789"}),
        "redirect",
        "sent a redirect (status 302) to https://login.example/saml.",
        "it may lead to a login page",
        fatal=True,
    ),
    "a firewall": Trouble(
        Answer(status=403, body="<html><title>Access denied</title></html>"),
        "key",
        "answered 403: a web page, `Access denied`.",
        "a firewall, proxy or login page in between",
        fatal=True,
    ),
    "another JSON": Trouble(
        Answer(body={"status": "ok"}), "empty_choice", "the reply holds no completion", "the address"
    ),
    "a proxy's error": Trouble(
        Answer(status=502, body="<html><title>502 Bad Gateway</title></html>"),
        "server_error",
        "answered 502: a web page, `502 Bad Gateway`.",
        "check the service's status page",
    ),
    "no answer in time": Trouble(
        Answer(ending="hang"), "timeout", "did not answer within", "still loading the model", timeout_s=0.3
    ),
    "a reset": Trouble(Answer(ending="reset"), "connection", "closed the connection", "https://", fatal=True),
    "a login to a proxy": Trouble(
        Answer(status=407, body="Proxy Authentication Required"),
        "no_access",
        "answered 407",
        "set MEDHELM_PROXY_LOGIN",
        fatal=True,
    ),
    "no money": Trouble(
        Answer(status=402, body={"error": {"message": "Insufficient Balance"}}),
        "no_quota",
        "answered 402: Insufficient Balance.",
        "repeat the command, which continues from here.",
        fatal=True,
    ),
}
"""Name -> what a server does, whichever API it should speak."""

every_trouble = pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)


@pytest.fixture
def models(server: Server, monkeypatch: pytest.MonkeyPatch, medhelm: Medhelm) -> list[str]:
    """One model of each provider, all at one server; keys of all of them."""
    for name, key in {**KEYS, "AWS_REGION": "eu-central-1"}.items():
        monkeypatch.setenv(name, key)
    return [f"{vendor.provider}/m@{server.url}{vendor.base}" for vendor in VENDORS.values()]


def assert_no_key_shows(outcome: Outcome, folder: Path) -> None:
    """Neither in what was written nor in any file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    written = [path.read_bytes() for path in files]
    written += [str(duckdb.read_parquet(str(path)).fetchall()).encode() for path in files if path.suffix == ".parquet"]
    for secret in SECRETS:
        assert secret not in outcome.out + outcome.err
        assert not any(secret.encode() in content for content in written)


@every_trouble
def test_checks(
    medhelm: Medhelm,
    models: list[str],
    server: Server,
    trouble: Trouble,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(model_check, "TIMEOUT_S", trouble.timeout_s)
    server.script(trouble.answer)
    outcome = medhelm("models", "check", *models)
    assert (outcome.code, outcome.err) == (1, "")
    for name in models:
        (told,) = [part for part in re.split(r"\n(?! )", outcome.out) if part.startswith(f"{name}: ")]
        assert told.startswith(f"{name}: {trouble.code}: ")
        assert trouble.said in told
        assert trouble.todo in told
    assert_no_key_shows(outcome, Path())


@every_trouble
def test_runs(medhelm: Medhelm, models: list[str], server: Server, trouble: Trouble, tmp_path: Path) -> None:
    server.script(trouble.answer)
    how = ("--tier", "sample", "--limit", "1", "--attempts", "1", "--timeout", f"{trouble.timeout_s}", "--json")
    outcome = medhelm("run", "pubmed_qa", *repeated("--model", models), *how)
    assert outcome.code == 1
    for name, run in zip(models, outcome.json["runs"], strict=True):
        assert (run["model"], run["status"], run["n_failed"]) == (name, "failed", 1)
        (line,) = [line for line in outcome.err.splitlines() if line.startswith(f"medhelm: {name}")]
        assert trouble.said in line
        assert trouble.todo in line
        if trouble.fatal:
            assert run["message"] == line.removeprefix("medhelm: ")
        else:
            assert run["failures"] == {trouble.code: 1}
            assert f": 1 request failed ({trouble.code}): " in line
    assert_no_key_shows(outcome, tmp_path)
