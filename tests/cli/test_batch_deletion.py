"""What lies at OpenAI and Anthropic after a run with `--batch`: nothing, unless the user wants it there."""

from __future__ import annotations

import signal
import sys

import pytest

from medhelm.storage.unfinished import Batches
from tests.support.benchmarks.batched import COST_USD, BatchRuns, N, question
from tests.support.benchmarks.judged import write_benchmark
from tests.support.servers.openai import Answer
from tests.support.servers.vendors import ANTHROPIC, OPENAI, Vendor

BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
ONE_IN_SHORT = pytest.mark.parametrize(
    "vendor", [OPENAI, pytest.param(ANTHROPIC, marks=pytest.mark.long)], ids=lambda vendor: vendor.provider
)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
LIMITED = Answer(status=403, body={"error": {"message": "This key may not delete.", "type": "permission_error"}})
DIE = "import os, signal\nasync def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"


def lying(batches: BatchRuns) -> set[str]:
    """What a service still has of prompts and answers."""
    services = batches.services
    of_anthropic = {name for name, batch in services.batches.items() if "message_batch" in batch}
    return (of_anthropic | services.files.keys()) - set(services.deleted)


@BOTH
def test_nothing_is_left_at_the_service_or_in_the_store(batches: BatchRuns, vendor: Vendor) -> None:
    batches.benchmark = write_benchmark(batches.benchmark.parent, n=4)
    batches.run(vendor, options=("--judge", f"{vendor.provider}-judge", "--min-judges", "1"))
    assert (len(batches.sizes), lying(batches), batches.kept) == (2, set(), [])


@BOTH
def test_answers_and_errors_are_deleted_and_what_is_left_open_is_remembered(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.fate = lambda body: "expired" if question(body) == 0 else ""
    batches.run(vendor)
    lines = list(enumerate(batches.services.asked))
    last = max(n for n, line in lines if line.endswith(("/results", "/content")))
    assert last < min(n for n, line in lines if line.startswith("DELETE")), "not before they are received"
    assert len(batches.services.deleted) == (3 if vendor is OPENAI else 1)
    assert lying(batches) == set()
    assert [(batch.state, len(batch.unanswered)) for batch in batches.kept] == [("deleted", 1)]
    assert batches.medhelm("batches").out == "no batch is pending\n"
    asked = len(batches.services.asked)
    batches.run(vendor)
    assert len(batches.services.asked) == asked  # and it is not looked for there again


@BOTH
def test_who_wants_it_keeps_batches_at_their_service(batches: BatchRuns, vendor: Vendor) -> None:
    for _ in range(2):
        batches.run(vendor, options=["--keep-batches"])
    assert batches.services.deleted == []
    listed = batches.medhelm("batches", "--json").json
    assert [(one["state"], one["requests"]) for one in listed] == [("collected", N)]
    assert "still holds" in batches.medhelm("batches").err
    assert batches.run(vendor).json["cost_usd"] == 0
    assert (lying(batches), batches.kept) == (set(), [])


@BOTH
def test_a_deletion_that_fails_is_a_note_and_tried_again(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.deleting = [LIMITED]
    done = batches.run(vendor)
    assert "could not be deleted at its service" in done.err
    assert [batch.state for batch in batches.kept] == ["collected"]
    batches.services.deleting = []
    done = batches.run(vendor)
    assert (done.json["cost_usd"], "is deleted at its service" in done.err) == (0, True)
    assert (lying(batches), batches.kept) == (set(), [])


@POSIX
@ONE_IN_SHORT
def test_a_run_killed_between_the_cache_and_the_deletion_deletes_when_it_comes_back(
    batches: BatchRuns, vendor: Vendor
) -> None:
    process = batches.start(vendor, before=f"{DIE}batches.BatchJob._delete = die")
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert batches.services.deleted == []
    assert [one["state"] for one in batches.medhelm("batches", "--json").json] == ["collected"]
    done = batches.run(vendor)
    assert (done.json["cost_usd"], done.json["runs"][0]["cost_usd"]) == (0, pytest.approx(N * COST_USD / 2))
    assert (lying(batches), batches.kept) == (set(), [])
    assert set(batches.services.handed_over.values()) == {1}


def test_requests_that_no_batch_was_made_of_are_deleted(batches: BatchRuns) -> None:
    """OpenAI takes the file, and refuses the batch: nobody needs the file any more."""
    batches.services.failing = [("invalid_model", "The model is not there for batches.")]
    batches.run("openai-m", code=1)
    assert (batches.services.deleted, lying(batches), batches.kept) == (["file-0"], set(), [])


@POSIX
def test_a_file_uploaded_by_a_process_that_was_killed_is_deleted_by_the_next(batches: BatchRuns) -> None:
    """Between the file and the batch: the next process finds no batch, and the file by its name."""
    services = batches.services
    services.files["file-theirs"], services.file_names["file-theirs"] = b"theirs", "theirs.jsonl"
    die = f"from medhelm.models.batch.openai import OpenAIBatches\n{DIE}OpenAIBatches._post = die"
    batches.start("openai-m", before=die).communicate(timeout=600)
    assert [batch.state for batch in batches.kept] == ["intended"]
    assert lying(batches) == {"file-theirs", "file-1"}
    batches.run("openai-m")
    assert (lying(batches), batches.kept) == ({"file-theirs"}, [])
    assert set(services.handed_over.values()) == {1}


def test_another_programs_batch_of_the_same_size_is_neither_used_nor_deleted(batches: BatchRuns) -> None:
    """It was found by time and size because our own submission was never confirmed."""
    batches.run("anthropic-m", options=("--store", "theirs", "--keep-batches"))
    batches.services.refusals = [Answer(ending="reset")]  # ours never arrives
    done = batches.run("anthropic-m", code=1)
    assert "batch msgbatch_0 was found by its time and size, but holds no result of the" in done.err
    assert (batches.services.deleted, batches.services.direct) == ([], [])
    (batch,) = batches.kept
    Batches(batches.store).path(batch).unlink()
    batches.run("anthropic-m")
    assert len(batches.sizes) == 2
