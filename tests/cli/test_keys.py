"""Keys that are wrong and servers that are not what they say, for every provider and by every road: no key shows."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from medhelm.io.parquet import connect, sql_path
from medhelm.models import model_check
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.cli import Medhelm, Outcome, repeated
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS, Vendor

OWN = {
    "openai": "openai/gpt-4o",
    "azure": "azure/m@https://x.openai.azure.com",
    "anthropic": "anthropic/claude-haiku-4-5",
    "google": "google/gemini-2.5-flash",
    "vertex": "vertex/gemini-2.5-flash",
    "bedrock": "bedrock/amazon.nova-lite-v1:0",
}
"""Provider -> a model at its own hosts; none of them is ever reached here."""

PLACES = {"AWS_REGION": "us-east-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}

WRONG = {
    "missing": (None, "needs a key: set the environment variable "),
    "a line end": ("\n", "needs a key: set the environment variable "),
    "quoted": ("\N{LEFT DOUBLE QUOTATION MARK}{}\N{RIGHT DOUBLE QUOTATION MARK}", "has a quotation mark"),
    "another's": ("gsk_QwErTy0123456789", "is a key for Groq: it begins with `gsk_`. Use a key for "),
    "a placeholder": ("your-api-key", "is a placeholder. Set it again"),
}
"""Name -> what stands in the variable, and what is said."""

ROADS = {
    "check": ("models", "check"),
    "run": ("run", "pubmed_qa", "--tier", "sample", "--model"),
    "judge": ("run", "aci_bench", "--tier", "sample", "--model", "baseline/lexical", "--judge"),
    "plan of a judge": ("plan", "aci_bench", "--tier", "sample", "--model", "baseline/lexical", "--judge"),
}

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)


@every_vendor
@pytest.mark.parametrize(
    ("kind", "road"), [*((kind, "check") for kind in WRONG), *(("quoted", road) for road in ROADS if road != "check")]
)
def test_a_wrong_key_is_told_before_anything_is_sent(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vendor: Vendor, kind: str, road: str
) -> None:
    """Every kind of wrong key is found by one way in, and one kind by every way in."""
    value, said = WRONG[kind]
    for name, key in {**KEYS, **PLACES}.items():
        monkeypatch.setenv(name, key)
    secret = KEYS[vendor.variable]
    if value is None:
        monkeypatch.delenv(vendor.variable)
    else:
        monkeypatch.setenv(vendor.variable, value.replace("{}", secret))
    model = OWN[vendor.provider]
    outcome = medhelm(*ROADS[road], model)
    assert outcome.code == 4
    written = outcome.out if road == "check" else outcome.err
    (line,) = [line for line in written.splitlines() if said in line]
    assert model in line
    assert vendor.variable in line
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for shown in (*KEYS.values(), "QwErTy0123456789"):
        assert shown not in outcome.out + outcome.err
        assert not any(shown.encode() in content for content in files)


@every_vendor
def test_blanks_and_line_ends_around_a_key_are_cut_off(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, server: Server, vendor: Vendor
) -> None:
    for name, key in {**KEYS, **PLACES}.items():
        monkeypatch.setenv(name, f" {key}\r\n" if name in KEYS else key)
    server.script(vendor.answer("OK"))
    assert medhelm("models", "check", f"{vendor.provider}/m@{server.url}{vendor.base}").code == 0
    sent = server.headers[0]
    key = KEYS[vendor.variable]
    if vendor.provider == "bedrock":
        assert f"Credential={key}/" in sent["authorization"]
        assert sent["x-amz-security-token"] == KEYS["AWS_SESSION_TOKEN"]
    else:
        assert key in (sent.get("authorization", "").removeprefix("Bearer "), *sent.values())


# --- servers that are not what they say -------------------------------------------------------------------------------

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


# --- a server that repeats the key ------------------------------------------------------------------------------------

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
