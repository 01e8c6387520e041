"""`medhelm release`, `diff` and `verify`: what they print and return."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from medhelm.results import verification
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Server


@pytest.fixture
def place(tmp_path: Path, medhelm: Medhelm) -> Path:
    """A benchmark of our own with a finished run of a baseline."""
    place = make_benchmark(tmp_path, n=9)
    assert medhelm("run", place, "--model", "baseline/majority").code == 0
    return place


def test_a_release_is_made_listed_and_kept(medhelm: Medhelm, place: Path) -> None:
    made = medhelm("release", "2026-11", "--note", "first look", "--json")
    assert (made.code, made.json["name"], made.json["n_runs"]) == (0, "2026-11", 1)
    assert made.json["models"] == ["baseline/majority"]
    second = medhelm("release", "second")
    verdict = medhelm("leaderboard", "--json").json["verdict"]
    assert second.out.splitlines()[0] == " ".join(verdict)
    listed = medhelm("release")
    assert "2026-11" in listed.out
    assert "first look" in listed.out
    assert [one["name"] for one in medhelm("release", "--json").json] == ["2026-11", "second"]
    assert_refused(medhelm("release", "2026-11"), "releases never change")


def test_the_store_as_it_is_cannot_be_a_name(medhelm: Medhelm, place: Path) -> None:
    assert_refused(medhelm("release", "current"), "`current` means the current state of the store")


def test_a_difference_is_told_for_people_and_for_programs(medhelm: Medhelm, place: Path) -> None:
    medhelm("release", "2026-11")
    same = medhelm("diff", "2026-11")
    assert same.out == "The leaderboards of 2026-11 and current are identical, and so are their inputs.\n"
    medhelm("run", place, "--model", "baseline/random")
    told = medhelm("diff", "2026-11")
    assert "Added models: baseline/random." in told.out
    found = medhelm("diff", "2026-11", "--json").json
    assert (found["same"], found["models"]) == (False, [[], ["baseline/random"]])
    assert medhelm("diff", "nothing").code == 2


def test_verify_says_what_it_did_and_returns_what_it_found(medhelm: Medhelm, place: Path) -> None:
    medhelm("release", "2026-11")
    own = ("--benchmarks", place.parent)
    told = medhelm("verify", "2026-11", *own)
    assert (told.code, told.err) == (0, "")
    expected = "The leaderboard of release 2026-11 was reproduced byte for byte: 1 of 1 runs were recomputed"
    assert told.out.startswith(expected)
    found = medhelm("verify", *own, "--json")
    assert (found.json["same"], found.json["release"], found.json["leaderboard"]) == (True, None, [])
    rows = place / "rows.jsonl"
    rows.write_text(rows.read_text(encoding="utf-8").replace('"B"', '"A"', 1), encoding="utf-8")
    changed = medhelm("verify", *own)
    assert changed.code == 1
    assert "toy        baseline/majority  data" in changed.out
    assert "not recomputed: the data is not what it was" in changed.out
    rows.unlink()
    assert medhelm("verify", *own).code == 4


def test_without_any_data_nothing_is_called_equal(medhelm: Medhelm, place: Path) -> None:
    other = make_benchmark(place.parent, name="other")
    assert medhelm("run", other, "--model", "baseline/majority").code == 0
    for folder in (place, other):
        (folder / "rows.jsonl").unlink()
    told = medhelm("verify", "--benchmarks", place.parent)
    assert told.code == 4
    assert told.out == (
        "Nothing in the store could be recomputed.\n\n- all 2 runs: not recomputed: the data was not found, because no "
        "data folder is set. Set --data DIR or MEDHELM_DATA to the folder that holds one folder per benchmark.\n"
    )


def test_a_verification_has_no_messages_about_its_temporary_store(
    medhelm: Medhelm, place: Path, server: Server
) -> None:
    server.answer_with(answers_with(perfect))
    model = f"openai/mock@{server.url}/v1"
    for folder, *more in ((place,), (make_benchmark(place.parent, name="other"), "--limit", "5")):
        assert medhelm("run", folder, "--model", model, *more).code == 0
    done = medhelm("verify", "--benchmarks", place.parent)
    assert (done.code, done.err) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("step", ["read_inputs", "leaderboard_json"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupted_verification_leaves_nothing_and_ends_with_130(
    medhelm: Medhelm, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str, number: int
) -> None:
    """Before the runs are scored again, and after that."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("this signal is ignored here, as under nohup, and by the command as well")
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def interrupt(*_: object, **__: object) -> None:
        signal.raise_signal(number)  # handled before this returns

    monkeypatch.setattr(verification, step, interrupt)
    done = medhelm("verify", "--benchmarks", place.parent)
    assert (done.code, done.out, list(scratch.iterdir())) == (130, "", [])
    assert "Traceback" not in done.err
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == handlers


def test_a_release_keeps_its_panel(medhelm: Medhelm, place: Path) -> None:
    medhelm("run", place, "--model", "baseline/random")
    succeeded(medhelm("release", "2026-11", "--rank-baselines", "--panel", "baseline/majority"))
    (file,) = Path("medhelm-store").glob("releases/2026-11/release.json")
    assert json.loads(file.read_text(encoding="utf-8"))["options"]["panel"] == ["baseline/majority"]
    assert medhelm("verify", "2026-11", "--benchmarks", place.parent).code == 0
    assert_refused(medhelm("release", "2026-12", "--panel", "published"), "Name models that it shows")
    assert [one["name"] for one in medhelm("release", "--json").json] == ["2026-11"]


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
    assert "Replaced runs, from r1 to current: later minus earlier on the same instances" in shown.out
    (case,) = medhelm("compare", "r1", "current", "--json").json["cases"]
    assert (case["n_gained"], case["n_lost"], case["separated"]) == (len(case["gained"]), 0, True)
    assert case["difference"] == pytest.approx(case["n_gained"] / 40)
    for wrong, message in ((("r1", "letter"), "letter is not: compare models or releases"),
                           (("r1", "current", "r1"), "two releases can be compared at a time")):  # fmt: skip
        assert_refused(medhelm("compare", *wrong), message)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A new SSH key without a password, and its public half."""
    program = shutil.which("ssh-keygen")
    if program is None:
        pytest.skip("OpenSSH's ssh-keygen is not installed")
    for name in ("key", "other"):
        subprocess.run([program, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", tmp_path / name], check=True)
    return tmp_path / "key"


def test_a_signed_release_names_its_signer(medhelm: Medhelm, place: Path, key: Path, tmp_path: Path) -> None:
    own = ("--benchmarks", place.parent)
    assert medhelm("release", "2026-11", "--sign", key).code == 0
    public = key.with_suffix(".pub")
    checked = medhelm("verify", "2026-11", *own, "--signed-by", public)
    assert (checked.code, checked.out.startswith("Signed by ED25519 key SHA256:")) == (0, True)
    signers = tmp_path / "signers"
    signers.write_text(f"committee@example.org {public.read_text()}", encoding="utf-8")
    signer = medhelm("verify", "2026-11", *own, "--signed-by", signers, "--json").json["signer"]
    assert (signer["name"], signer["key"].startswith("ED25519 key SHA256:")) == ("committee@example.org", True)
    assert medhelm("verify", "2026-11", *own, "--json").json["signer"] is None


def test_other_signatures_are_refused(medhelm: Medhelm, place: Path, key: Path, tmp_path: Path) -> None:
    own, public = ("--benchmarks", place.parent), key.with_suffix(".pub")
    medhelm("release", "plain")
    medhelm("release", "signed", "--sign", key)
    assert_refused(
        medhelm("verify", "signed", *own, "--signed-by", tmp_path / "other.pub"), "is not a signature by this key"
    )
    assert_refused(medhelm("verify", "plain", *own, "--signed-by", public), "is not signed")
    (manifest,) = Path("medhelm-store").glob("releases/signed/release.json")
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace('"note": ""', '"note": "better"'), encoding="utf-8"
    )
    assert medhelm("verify", "signed", *own).code == 0
    assert_refused(
        medhelm("verify", "signed", *own, "--signed-by", public), "was changed or replaced after it was signed"
    )


def test_a_signed_release_under_another_name_is_refused(
    medhelm: Medhelm, place: Path, key: Path, tmp_path: Path
) -> None:
    """An old release cannot pass for a newer one."""
    own, public = ("--benchmarks", str(place.parent)), key.with_suffix(".pub")
    assert medhelm("release", "r1", "--sign", key).code == 0
    releases = Path("medhelm-store", "releases")
    shutil.copytree(releases / "r1", releases / "r2")
    shutil.copytree(releases / "r1", tmp_path / "elsewhere" / "r2")
    (releases / "r3").symlink_to(releases.absolute() / "r1")
    copied = str(tmp_path / "elsewhere" / "r2")
    assert_refused(medhelm("verify", copied, *own, "--signed-by", public), "is `r1`: its folder was renamed")
    for name in ("r2", "r3"):
        for command in (("verify", name, *own, "--signed-by", public), ("verify", name, *own), ("diff", name)):
            assert_refused(medhelm(*command), "is `r1`: its folder was renamed")
    shutil.copytree(releases / "r1", tmp_path / "elsewhere" / "r1")
    succeeded(medhelm("verify", tmp_path / "elsewhere" / "r1", *own, "--signed-by", public))


def test_what_cannot_sign_leaves_no_release(
    medhelm: Medhelm, place: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(medhelm("release", "2026-11", "--sign", place / "benchmark.yaml"), "this key cannot sign")
    assert (medhelm("release", "x", "--sign", "nowhere").code, medhelm("release", "--sign", key).code) == (2, 2)
    monkeypatch.setenv("PATH", "")
    assert_refused(medhelm("release", "2026-11", "--sign", key), "ssh-keygen", code=4)
    assert medhelm("release", "--json").json == []
