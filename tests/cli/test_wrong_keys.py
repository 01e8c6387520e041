"""Keys that are missing, broken or another's, for every provider and by every road: one sentence, nothing sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Medhelm
from tests.support.servers.openai import Server
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
