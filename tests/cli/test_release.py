"""`medhelm release`, `diff` and `verify`: what they print and return."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Server
from tests.support.ssh_keys import make_key


@pytest.fixture
def place(tmp_path: Path, medhelm: Medhelm) -> Path:
    """A benchmark of our own with a finished run of a baseline."""
    place = make_benchmark(tmp_path, n=9)
    assert medhelm("run", place, "--model", "baseline/majority").code == 0
    return place


def test_a_release_is_made_listed_kept_and_compared(medhelm: Medhelm, place: Path) -> None:
    made = medhelm("release", "2026-11", "--note", "first look", "--json")
    assert (made.code, made.json["name"], made.json["n_runs"]) == (0, "2026-11", 1)
    assert "first look" in medhelm("release").out
    assert_refused(medhelm("release", "2026-11"), "releases never change")
    assert_refused(medhelm("release", "current"), "`current` means the current state of the store")
    assert [one["name"] for one in medhelm("release", "--json").json] == ["2026-11"]

    assert "are identical, and so are their inputs" in medhelm("diff", "2026-11").out
    medhelm("run", place, "--model", "baseline/random")
    told = medhelm("diff", "2026-11")
    assert "Added models: baseline/random." in told.out
    found = medhelm("diff", "2026-11", "--json").json
    assert (found["same"], found["models"]) == (False, [[], ["baseline/random"]])


def test_verify_says_what_it_did_and_returns_what_it_found(medhelm: Medhelm, place: Path) -> None:
    medhelm("release", "2026-11")
    own = ("--benchmarks", place.parent)
    told = medhelm("verify", "2026-11", *own)
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("The leaderboard of release 2026-11 was reproduced with every number: 1 of 1 runs were")
    rows = place / "rows.jsonl"
    rows.write_text(rows.read_text(encoding="utf-8").replace('"B"', '"A"', 1), encoding="utf-8")
    changed = medhelm("verify", *own)
    assert changed.code == 1
    assert "not recomputed: the data has changed" in changed.out
    rows.unlink()
    assert medhelm("verify", *own).code == 4


def test_a_release_keeps_its_panel(medhelm: Medhelm, place: Path) -> None:
    medhelm("run", place, "--model", "baseline/random")
    succeeded(medhelm("release", "2026-11", "--rank-baselines", "--panel", "baseline/majority"))
    (file,) = Path("medhelm-store").glob("releases/2026-11/release.json")
    assert json.loads(file.read_text(encoding="utf-8"))["options"]["panel"] == ["baseline/majority"]
    assert medhelm("verify", "2026-11", "--benchmarks", place.parent).code == 0
    assert_refused(medhelm("release", "2026-12", "--panel", "published"), "Name models that it shows")


def test_releases_are_compared_instance_by_instance(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    benchmark = make_benchmark(tmp_path, n=40)
    model = ("--model", f"openai/letter@{server.url}/v1")
    server.answer_with(answers_with(lambda _: "A"))
    medhelm("run", benchmark, *model)
    medhelm("release", "r1")
    server.answer_with(answers_with(perfect))
    medhelm("run", benchmark, *model, "--fresh")
    shown = medhelm("compare", "r1")
    assert (shown.code, shown.out) == (0, medhelm("diff", "r1").out)
    assert "Runs behind the changed scores, from r1 to current: later minus earlier on the same instances" in shown.out
    (case,) = medhelm("compare", "r1", "current", "--json").json["cases"]
    assert (case["n_gained"], case["n_lost"], case["separated"]) == (len(case["gained"]), 0, True)
    assert case["difference"] == pytest.approx(case["n_gained"] / 40)
    assert_refused(medhelm("compare", "r1", "letter"), "letter is not: compare models or releases")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A new SSH key without a password, and its public half."""
    make_key(tmp_path / "other")
    return make_key(tmp_path / "key")


def test_a_signed_release_names_its_signer_and_other_signatures_are_refused(
    medhelm: Medhelm, place: Path, key: Path, tmp_path: Path
) -> None:
    own, public, releases = ("--benchmarks", place.parent), key.with_suffix(".pub"), Path("medhelm-store", "releases")
    assert medhelm("release", "plain").code == medhelm("release", "r1", "--sign", key).code == 0
    checked = succeeded(medhelm("verify", "r1", *own, "--signed-by", public))
    assert checked.out.startswith("Signed by ED25519 key SHA256:")
    signers = tmp_path / "signers"
    signers.write_text(f"committee@example.org {public.read_text()}", encoding="utf-8")
    signer = medhelm("verify", "r1", *own, "--signed-by", signers, "--json").json["signer"]
    assert signer["name"] == "committee@example.org"
    other = medhelm("verify", "r1", *own, "--signed-by", tmp_path / "other.pub")
    assert_refused(other, "is not a signature by this key")
    assert_refused(medhelm("verify", "plain", *own, "--signed-by", public), "is not signed")
    # An old release cannot pass for a newer one.
    shutil.copytree(releases / "r1", releases / "r2")
    (releases / "r3").symlink_to(releases.absolute() / "r1")
    for command in (("verify", "r2", *own, "--signed-by", public), ("verify", "r3", *own), ("diff", "r3")):
        assert_refused(medhelm(*command), "is `r1`: its folder was renamed")
    manifest = releases / "r1" / "release.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace('"note": ""', '"note": "better"'), "utf-8")
    assert medhelm("verify", "r1", *own).code == 0
    changed = medhelm("verify", "r1", *own, "--signed-by", public)
    assert_refused(changed, "was changed or replaced after it was signed")


def test_what_cannot_sign_leaves_no_release(
    medhelm: Medhelm, place: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(medhelm("release", "2026-11", "--sign", place / "benchmark.yaml"), "this key cannot sign")
    monkeypatch.setenv("PATH", "")
    assert_refused(medhelm("release", "2026-11", "--sign", key), "ssh-keygen", code=4)
    assert medhelm("release", "--json").json == []
