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
from tests.support.cli import Medhelm, Outcome
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
    """What to do, by either command."""
    todo_in_check: str = ""
    """The same, where `models check` knows more."""
    fatal: bool = False
    """Whether the model is given up."""

    @property
    def timeout_s(self) -> float:
        """Short only for a server that never answers: another may take its time on a busy machine."""
        return 0.3 if self.code == "timeout" else 600.0


PAGE = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome</body></html>"
NOT_THE_API = "The server responds, but not in the format of this API: check the address and the provider."
CORRECT_IT = "correct the address, or name the provider whose API it has."
OTHER_SCHEME = "If the server uses HTTPS, write its address with https://."
LOG = "If it persists, check the service's status page, or the log of your own server."

TROUBLES = {
    "a web page": Trouble(
        Answer(body=PAGE), "malformed_reply", "is a web page, not JSON: a login page", NOT_THE_API, CORRECT_IT
    ),
    "a login redirect": Trouble(
        Answer(status=302, headers={"Location": "https://login.example/saml?token=QwErTy0123456789"}),
        "redirect",
        "sent a redirect (status 302) to https://login.example/saml. Redirects are not followed",
        "Check the address: it may lead to a login page",
        fatal=True,
    ),
    "a firewall": Trouble(
        Answer(status=403, body="<html><title>Access denied</title></html>"),
        "key",
        "the server answered 403: a web page, `Access denied`.",
        "APIs do not send web pages: a firewall, proxy or login page in between may block the request, or ",
        fatal=True,
    ),
    "a page that is not there": Trouble(
        Answer(status=404, body=PAGE),
        "unknown_model",
        "the server answered 404: a web page, `Sign in`.",
        "`m`",
        fatal=True,
    ),
    "an empty success": Trouble(
        Answer(body=""), "malformed_reply", "the response (status 200, 0 bytes) is empty", NOT_THE_API, CORRECT_IT
    ),
    "another JSON": Trouble(
        Answer(body={"status": "ok"}), "empty_choice", "the reply holds no completion", NOT_THE_API, CORRECT_IT
    ),
    "a list": Trouble(
        Answer(body="[1]"), "malformed_reply", "is JSON, but a list and not an object", NOT_THE_API, CORRECT_IT
    ),
    "a stream": Trouble(
        Answer(body='data: {"choices": []}\n\ndata: [DONE]\n\n'),
        "malformed_reply",
        "is an event stream, not JSON",
        NOT_THE_API,
        CORRECT_IT,
    ),
    "a proxy's error": Trouble(
        Answer(status=502, body="<html><title>502 Bad Gateway</title></html>"),
        "server_error",
        "the server answered 502: a web page, `502 Bad Gateway`.",
        LOG,
    ),
    "no answer in time": Trouble(Answer(ending="hang"), "timeout", "did not answer within", "still loading the model"),
    "a reset": Trouble(
        Answer(ending="reset"), "connection", "closed the connection without a response.", OTHER_SCHEME, fatal=True
    ),
    "half a reply": Trouble(
        Answer(body={"a": "b" * 100}, ending="truncated"),
        "connection",
        "ended early or could not be decompressed.",
        "See the log of the server on port",
        fatal=True,
    ),
    "a login to a proxy": Trouble(
        Answer(status=407, body="Proxy Authentication Required"),
        "no_access",
        "the server answered 407",
        "set MEDHELM_PROXY_LOGIN",
        fatal=True,
    ),
    "another status": Trouble(
        Answer(status=418, body={"error": "teapot"}),
        "bad_request",
        "the server answered 418: teapot.",
        "Check `parameters`",
    ),
    "legal reasons": Trouble(
        Answer(status=451),
        "no_access",
        "the server answered 451.",
        "not for this model, project or location",
        fatal=True,
    ),
    "no money": Trouble(
        Answer(status=402, body={"error": {"message": "Insufficient Balance"}}),
        "no_quota",
        "the server answered 402: Insufficient Balance.",
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
        assert told.count(name) == 1
        assert trouble.said in told
        assert (trouble.todo_in_check or trouble.todo) in told
    assert_no_key_shows(outcome, tmp_path)


@every_trouble
def test_runs(medhelm: Medhelm, models: list[str], server: Server, trouble: Trouble, tmp_path: Path) -> None:
    server.script(trouble.answer)
    asked = [word for name in models for word in ("--model", name)]
    how = ("--tier", "sample", "--limit", "1", "--attempts", "1", "--timeout", f"{trouble.timeout_s}")
    outcome = medhelm("run", "pubmed_qa", *asked, *how, "--json")
    assert outcome.code == 1
    told = [line for line in outcome.err.splitlines() if line.startswith("medhelm: ")]
    for name, run in zip(models, outcome.json["runs"], strict=True):
        assert (run["model"], run["status"], run["n_failed"]) == (name, "failed", 1)
        (line,) = [line for line in told if line.startswith(f"medhelm: {name}")]
        assert trouble.said in line
        assert trouble.todo in line
        if trouble.fatal:
            assert run["message"] == line.removeprefix("medhelm: ")
        else:
            assert run["failures"] == {trouble.code: 1}
            assert f": 1 request failed ({trouble.code}): " in line
    assert_no_key_shows(outcome, tmp_path)


@every_trouble
def test_judges(medhelm: Medhelm, models: list[str], server: Server, trouble: Trouble, tmp_path: Path) -> None:
    server.script(trouble.answer)
    asked = [word for name in models for word in ("--judge", name)]
    how = ("--tier", "sample", "--limit", "1", "--attempts", "1", "--timeout", f"{trouble.timeout_s}")
    outcome = medhelm("run", "aci_bench", "--model", "baseline/lexical", *asked, *how, "--json")
    assert outcome.code == 1
    (run,) = outcome.json["runs"]
    told = [line for line in outcome.err.splitlines() if line.startswith("medhelm: ")]
    for name in models:
        (line,) = [line for line in told if line.startswith(f"medhelm: {name}")]
        assert trouble.said in line
        assert trouble.todo in line
        code = "unusable" if trouble.fatal else trouble.code
        assert run["jury"]["judges"][name]["failures"] == {code: 3}
    assert_no_key_shows(outcome, tmp_path)
