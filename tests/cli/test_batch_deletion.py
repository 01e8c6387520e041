"""What lies at OpenAI and Anthropic after a run with `--batch`: nothing, unless the user wants it there."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain.batch import Batch, BatchState
from medhelm.evaluation.batch import job, polling
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.storage.batches import Batches
from medhelm.storage.store import Store
from tests.support.benchmarks.batched import COST_USD, N, arguments, command, question, respond, write_models
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import write_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Answer
from tests.support.servers.vendors import ANTHROPIC, KEYS, OPENAI, Vendor

BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
LIMITED = Answer(status=403, body={"error": {"message": "This key may not delete.", "type": "permission_error"}})


@pytest.fixture
def services() -> Iterator[BatchServer]:
    with BatchServer() as running:
        running.answer_with(respond)
        yield running


@pytest.fixture
def models(tmp_path: Path, services: BatchServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    monkeypatch.setattr(job, "FIRST_POLL_S", 0.005)
    monkeypatch.setattr(polling, "FIRST_RETRY_S", 0.001)
    return write_models(tmp_path / "models.yaml", services)


def lying(services: BatchServer) -> set[str]:
    """What a service still has of prompts and answers."""
    batches = {name for name, batch in services.batches.items() if "message_batch" in batch}
    return (batches | services.files.keys()) - set(services.deleted)


def kept(tmp_path: Path) -> list[Batch]:
    return Batches(Store(tmp_path / "medhelm-store")).all()


@BOTH
def test_nothing_is_left_at_the_service_or_in_the_store(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark = write_benchmark(tmp_path, n=4)
    words = arguments(benchmark, models, f"{vendor.provider}-m")
    done = medhelm(*words, "--judge", f"{vendor.provider}-judge", "--min-judges", "1", "--batch")
    assert done.code == 0, done.err
    assert len(services.taken) == 2
    assert lying(services) == set()
    assert kept(tmp_path) == []


@BOTH
def test_answers_and_errors_are_deleted_and_what_is_left_open_is_remembered(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.fate = lambda body: "expired" if question(body) == 0 else ""
    benchmark = make_benchmark(tmp_path, n=N)
    assert medhelm(*arguments(benchmark, models, f"{vendor.provider}-m"), "--batch").code == 0
    assert len(services.deleted) == (3 if vendor is OPENAI else 1)
    assert lying(services) == set()
    assert [(batch.state, len(batch.unanswered)) for batch in kept(tmp_path)] == [("deleted", 1)]
    assert medhelm("batches").out == "no batch is pending\n"
    asked = len(services.asked)
    assert medhelm(*arguments(benchmark, models, f"{vendor.provider}-m"), "--batch").code == 0
    assert len(services.asked) == asked  # and it is not looked for there again


@BOTH
def test_nothing_is_deleted_before_its_answers_are_in_the_cache(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    assert medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch").code == 0
    first = next(n for n, line in enumerate(services.asked) if line.startswith("DELETE"))
    last = max(n for n, line in enumerate(services.asked) if line.endswith(("/results", "/content")))
    assert last < first


@BOTH
def test_who_wants_it_keeps_batches_at_their_service(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    words = [*arguments(benchmark, models, f"{vendor.provider}-m"), "--batch"]
    assert medhelm(*words, "--keep-batches").code == 0
    assert medhelm(*words, "--keep-batches").code == 0
    assert services.deleted == []
    listed = medhelm("batches", "--json").json
    assert [(one["state"], one["requests"]) for one in listed] == [("collected", N)]
    assert "still holds" in medhelm("batches").err
    # Asked without that wish, the next run deletes them, though it has nothing to buy.
    done = medhelm(*words)
    assert (done.code, done.json["cost_usd"]) == (0, 0)
    assert lying(services) == set()
    assert kept(tmp_path) == []


@BOTH
@pytest.mark.parametrize("n", [1, 3])
def test_a_deletion_that_fails_is_a_note_and_tried_again(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor, n: int
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.deleting = [LIMITED] * n
    for _ in range(n if vendor is ANTHROPIC else 1):
        done = medhelm(*arguments(benchmark, models, f"{vendor.provider}-m"), "--batch")
        assert done.code == 0, done.err
        assert "could not be deleted at its service" in done.err
        assert KEYS[vendor.variable] not in done.err
        assert [batch.state for batch in kept(tmp_path)] == ["collected"]
    services.deleting = []
    done = medhelm(*arguments(benchmark, models, f"{vendor.provider}-m"), "--batch")
    assert (done.code, done.json["cost_usd"]) == (0, 0)
    assert "is deleted at its service" in done.err
    assert lying(services) == set()
    assert kept(tmp_path) == []


@BOTH
def test_an_overload_while_deleting_is_waited_out(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.deleting = [vendor.errors["overload"], Answer(status=429, body=vendor.errors["rate limit"].body)]
    assert medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch").code == 0
    assert lying(services) == set()


@BOTH
def test_a_server_that_cannot_delete_is_told(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.deleting = [Answer(status=405, body={"detail": "Method Not Allowed"})]
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 0
    assert "could not be deleted at its service" in done.err


@POSIX
@BOTH
def test_a_run_killed_between_the_cache_and_the_deletion_deletes_when_it_comes_back(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    die = "import os, signal\nasync def die(*_): os.kill(os.getpid(), signal.SIGKILL)\njob.BatchJob._delete = die"
    process = command(models, benchmark, f"{vendor.provider}-m", before=die)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert services.deleted == []
    assert [one["state"] for one in medhelm("batches", "--json").json] == ["collected"]
    done = medhelm(*arguments(benchmark, models, f"{vendor.provider}-m"), "--batch")
    assert (done.code, done.json["cost_usd"]) == (0, 0)
    assert done.json["runs"][0]["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert lying(services) == set()
    assert kept(tmp_path) == []
    assert set(services.handed_over.values()) == {1}


def test_requests_that_no_batch_was_made_of_are_deleted(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    """OpenAI takes the file, and refuses the batch: nobody needs the file any more."""
    services.failing = [("invalid_model", "The model is not there for batches.")]
    assert medhelm(*arguments(make_benchmark(tmp_path, n=N), models, "openai-m"), "--batch").code == 1
    assert (services.deleted, lying(services)) == (["file-0"], set())
    assert kept(tmp_path) == []


def test_a_file_is_uploaded_once_however_often_its_batch_is_tried(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, taken = OpenAIBatches._post, list[str]()

    async def post(self: OpenAIBatches, url: str, body: bytes) -> dict[str, object]:
        if len(taken) < 3:
            taken.append(url)
            services.refusals = [OPENAI.errors["overload"]]
        return await ours(self, url, body)

    monkeypatch.setattr(OpenAIBatches, "_post", post)
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, "openai-m"), "--batch", "--attempts", "3")
    assert done.code == 1
    assert (services.asked.count("POST /v1/files"), services.asked.count("POST /v1/batches")) == (1, 3)
    assert services.deleted == ["file-0"]  # it was given up
    done = medhelm(*arguments(tmp_path / "toy", models, "openai-m"), "--batch")
    assert done.code == 0, done.err
    assert lying(services) == set()


@POSIX
def test_a_file_uploaded_by_a_process_that_was_killed_is_deleted_by_the_next(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    """Between the file and the batch: the next process finds no batch, and the file by its name."""
    benchmark = make_benchmark(tmp_path, n=N)
    services.files["file-theirs"], services.file_names["file-theirs"] = b"theirs", "theirs.jsonl"
    die = (
        "import os, signal\nfrom medhelm.models.batch.openai import OpenAIBatches\n"
        "async def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "OpenAIBatches._post = die"
    )
    process = command(models, benchmark, "openai-m", before=die)
    process.communicate(timeout=600)
    assert [batch.state for batch in kept(tmp_path)] == ["intended"]
    assert lying(services) == {"file-theirs", "file-1"}
    done = medhelm(*arguments(benchmark, models, "openai-m"), "--batch")
    assert done.code == 0, done.err
    assert lying(services) == {"file-theirs"}
    assert set(services.handed_over.values()) == {1}
    assert kept(tmp_path) == []


def test_another_programs_batch_of_the_same_size_is_neither_used_nor_deleted(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    """It was found by time and size because our own submission was never confirmed."""
    benchmark = make_benchmark(tmp_path, n=N)
    words = arguments(benchmark, models, "anthropic-m")
    assert medhelm(*words, "--store", "theirs", "--batch", "--keep-batches").code == 0
    services.refusals = [Answer(ending="reset")]  # ours never arrives
    done = medhelm(*words, "--store", "ours", "--batch")
    assert done.code == 1
    assert "batch msgbatch_0 was found by its time and size, but holds no result of the" in done.err
    assert (services.deleted, services.direct) == ([], [])
    (batch,) = Batches(Store(tmp_path / "ours")).all()
    Batches(Store(tmp_path / "ours")).path(batch).unlink()
    assert medhelm(*words, "--store", "ours", "--batch").code == 0
    assert len(services.taken) == 2


def test_a_copy_of_the_store_is_told_when_the_other_has_collected_and_deleted(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    words = arguments(benchmark, models, "openai-m")
    assert medhelm(*words, "--batch", "--keep-batches").code == 0
    (collected,) = kept(tmp_path)
    digests = tuple(services.taken[0])
    other = Store(tmp_path / "other")
    assert medhelm(*arguments(benchmark, models, "baseline/majority"), "--store", "other").code == 0
    Batches(other).write(replace(collected, state=BatchState.SUBMITTED, digests=digests))
    assert medhelm(*words, "--batch").code == 0
    done = medhelm(*words, "--store", "other", "--batch")
    assert done.code == 1
    assert "no longer has batch" in done.err
    assert "until a copy of this store has collected them" in done.err
    assert len(services.taken) == 1
    assert services.direct == []
