"""Runs and releases in an object store, on a server that speaks S3: published once, read anywhere, never changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from medhelm.errors import MissingError, StoreError, UserError
from medhelm.extensions.exchange.object_store import ObjectStore, copy_of, publish
from medhelm.results.options import RunFilter
from medhelm.storage.audit import AuditLog, read_audit_log
from medhelm.storage.store import open_store
from tests.support.benchmarks.library import benchmark
from tests.support.cli import Medhelm, assert_refused
from tests.support.servers.s3 import make_only_bucket, s3_server, send

URL = "s3://board/results"


@pytest.fixture
def remote(variables: None) -> Iterator[ObjectStore]:
    """The published folder."""
    with ObjectStore(URL, offline=True) as opened:
        yield opened


PUBLIC = [benchmark("pubmed_qa"), benchmark("med_qa")]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Mapping[str, str]]:
    with s3_server() as variables:
        yield variables


@pytest.fixture
def variables(medhelm: Medhelm, bucket: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The way to an empty bucket; each test has a cache of its own. A proxy of the environment is never used.

    `medhelm` removes such variables, so it comes first.
    """
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    make_only_bucket(bucket, "board")


@pytest.fixture
def evaluated(variables: None, medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with two runs on invented rows and a release."""
    store = tmp_path / "store"
    words = ("--tier", "sample", "--model", "baseline/majority", "--store", store)
    assert medhelm("run", "pubmed_qa", "med_qa", *words).code == 0
    assert medhelm("release", "r1", "--store", store).code == 0
    return store


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for part in ("runs", "releases", "prompts")
        for path in folder.glob(f"{part}/**/*")
        if path.is_file()
    }


@pytest.mark.usefixtures("variables")
def test_a_published_store_is_read_by_others(medhelm: Medhelm, evaluated: Path) -> None:
    done = medhelm("export", "store", URL, "--store", evaluated, "--json")
    assert (done.code, done.json) == (0, {"url": URL, "runs": 2, "releases": 1, "known": 0, "remarks": []})
    assert medhelm("export", "store", URL, "--store", evaluated, "--json").json["known"] == 3
    there = medhelm("leaderboard", "--store", URL, "--json")
    assert there.out == medhelm("leaderboard", "--store", evaluated, "--json").out
    assert medhelm("release", "--store", URL).out == medhelm("release", "--store", evaluated).out
    copy = copy_of(URL, offline=True)
    assert files(copy) == files(evaluated)
    assert copy.stat().st_mode & 0o077 == 0
    read = [json.loads(line) for line in (copy / "audit.jsonl").read_text().splitlines()]
    assert {(line.get("action"), line.get("method", "GET")) for line in read} == {("request", "GET")}
    assert len(read) > len(files(evaluated)), "each object, and the list of them"
    methods = [json.loads(line).get("method") for line in (evaluated / "audit.jsonl").read_text().splitlines()]
    assert methods.count("PUT") == len(files(evaluated)) + 2, "two runs of the first publication share nothing"


@pytest.mark.usefixtures("variables")
def test_what_is_published_never_changes_and_an_interrupted_publication_is_finished(
    evaluated: Path, remote: ObjectStore
) -> None:
    store = open_store(evaluated)
    one = RunFilter(benchmarks=["pubmed_qa"])

    class Stopped(Exception):  # noqa: N818 - in place of a kill
        pass

    class Stopping(ObjectStore):
        def create(self, key: str, content: Path | bytes, *, benchmark: str = "") -> bool:
            if key.endswith("run.json"):
                raise Stopped
            return super().create(key, content, benchmark=benchmark)

    with Stopping(URL, offline=True) as stopping, pytest.raises(Stopped):
        publish(store, stopping, PUBLIC, wanted=one)
    assert list((copy_of(URL, offline=True) / "runs").iterdir()) == [], "a run without run.json is not there"
    assert publish(store, remote, PUBLIC, wanted=one).runs == 1
    (run,) = evaluated.glob("runs/pubmed_qa/*/run.json")
    run.write_text(run.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    before = remote.sizes()
    with pytest.raises(UserError, match=r"other content under the same name: pubmed_qa with baseline/majority.*sent"):
        publish(store, remote, PUBLIC)
    assert remote.sizes() == before


@pytest.mark.usefixtures("variables")
def test_a_copy_follows_removals_and_ignores_keys_that_are_not_of_a_store_or_leave_the_folder(
    bucket: Mapping[str, str], evaluated: Path, tmp_path: Path, remote: ObjectStore
) -> None:
    publish(open_store(evaluated), remote, PUBLIC)
    for key in ("runs/x/y/z/deep.txt", "cache.sqlite", "prompts/.hidden", "runs/a b/c/d", f"prompts/{'a' * 256}"):
        remote.create(key, b"hostile")
    for key in ("runs/x/%2E%2E/%2E%2E/escaped", "f//escaped", "prompts/%2E%2E/escaped", "prompts/a%20escaped"):
        send(bucket, "PUT", f"/board/results/{key}", b"hostile")
    copy = copy_of(URL, offline=True)
    assert files(copy) == files(evaluated)
    assert not list(tmp_path.rglob("*escaped"))
    shutil.rmtree(next(copy.glob("runs/med_qa/*")))
    (copy / "runs" / "gone" / "m-0123456789").mkdir(parents=True)
    assert files(copy_of(URL, offline=True)) == files(evaluated)


@pytest.mark.usefixtures("variables")
def test_private_data_needs_consent_to_leave_the_machine(
    medhelm: Medhelm, evaluated: Path, monkeypatch: pytest.MonkeyPatch, remote: ObjectStore
) -> None:
    for module in ("extensions.exchange.object_store", "models.addresses"):
        monkeypatch.setattr(f"medhelm.{module}.is_loopback", lambda host: False)
    remote.audit = AuditLog(evaluated / "audit.jsonl")
    for path in evaluated.glob("runs/pubmed_qa/*/run.json"):
        path.write_text(path.read_text(encoding="utf-8").replace('"tier": "sample"', '"tier": "real"'))

    def consented() -> list[tuple[str, str]]:
        entries = [entry.content for entry in read_audit_log(evaluated / "audit.jsonl")]
        return [(one["destination"], one["benchmark"]) for one in entries if one["action"] == "consent"]

    with pytest.raises(UserError, match=r"of pubmed_qa to 127\.0\.0\.1\.\n.*--allow-host 127\.0\.0\.1"):
        publish(open_store(evaluated), remote, [])
    assert remote.sizes() == {}
    assert publish(open_store(evaluated), remote, PUBLIC).runs == 2
    assert not (evaluated / "audit.jsonl").exists()
    publish(open_store(evaluated), remote, [], allowed=["127.0.0.1"])
    assert consented() == [("127.0.0.1", "pubmed_qa")]
    remote.audit.close()


@pytest.mark.usefixtures("variables")
def test_a_published_store_can_only_be_read(medhelm: Medhelm) -> None:
    assert_refused(medhelm("rescore", "pubmed_qa", "--store", URL), f"--store {URL} can only be read")
    missing = medhelm("leaderboard", "--store", "s3://board/none")
    assert_refused(missing, "no store at s3://board/none", code=StoreError.exit_code)
    assert_refused(medhelm("leaderboard", "--store", "s3://no-such-bucket/x"), code=MissingError.exit_code)
