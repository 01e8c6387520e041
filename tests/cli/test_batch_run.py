"""`medhelm run --batch` against servers that speak the batch APIs of OpenAI and Anthropic."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import pytest

from medhelm.domain.completion import REASONING_TOKENS
from medhelm.evaluation.batch import job, polling
from medhelm.models.batch.anthropic import AnthropicBatches
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.models.cache import Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.models.reasoning import LENGTH
from medhelm.storage.batches import Batches
from medhelm.storage.judgments import read_replies
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import Store
from tests.support.benchmarks.batched import (
    COST_USD,
    N,
    arguments,
    command,
    entry,
    killed,
    question,
    respond,
    write_models,
)
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import write_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Answer
from tests.support.servers.vendors import ANTHROPIC, KEYS, OPENAI, Body, Vendor

BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
ONE_IN_SHORT = pytest.mark.parametrize(
    "vendor", [OPENAI, pytest.param(ANTHROPIC, marks=pytest.mark.long)], ids=lambda vendor: vendor.provider
)
"""For tests that start a process: what they look at is not the vendor's."""


@pytest.fixture
def services() -> Iterator[BatchServer]:
    with BatchServer() as running:
        running.answer_with(respond)
        yield running


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "FIRST_POLL_S", 0.005)
    monkeypatch.setattr(polling, "FIRST_RETRY_S", 0.001)


@pytest.fixture
def models(tmp_path: Path, services: BatchServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    return write_models(tmp_path / "models.yaml", services)


@BOTH
def test_the_file_of_a_batch_is_one_entry_of_the_audit_log(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    assert medhelm(*arguments(benchmark, models, f"{vendor.provider}-m"), "--store", "batched", "--batch").code == 0
    entries = medhelm("audit", "show", "--store", "batched", "--json", "--last", "1000").json["entries"]
    (upload,) = [entry for entry in entries if entry["requests"]]
    assert (upload["requests"], upload["benchmark"], upload["method"]) == (N, "toy", "POST")
    assert upload["bytes"] > N * 100
    assert len(upload["digest"]) == 64
    assert not any(other["benchmark"] for other in entries if other["method"] == "GET")


@BOTH
def test_a_batch_costs_half_and_gives_the_same_records(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark, name = make_benchmark(tmp_path, n=N), f"{vendor.provider}-m"
    alone = medhelm(*arguments(benchmark, models, name), "--store", "direct")
    assert (alone.code, len(services.direct), services.taken) == (0, N, [])
    together = medhelm(*arguments(benchmark, models, name), "--store", "batched", "--batch")
    assert together.code == 0, together.err
    assert len(services.direct) == N
    assert [len(names) for names in services.taken] == [N]
    (direct,), (batched,) = alone.json["runs"], together.json["runs"]
    assert direct["cost_usd"] == pytest.approx(N * COST_USD)
    assert batched["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert together.json["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert batched["metrics"] == direct["metrics"]
    assert batched["tokens"] == direct["tokens"]
    for store, factor in (("direct", 1.0), ("batched", 0.5)):
        bill = medhelm("cost", "--store", store, "--json").json
        assert bill["total"]["spent_usd"] == pytest.approx(factor * N * COST_USD), bill["total"]


def test_what_a_batch_bought_is_not_bought_again(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").code == 0
    asked = len(services.asked)
    again = medhelm(*arguments(benchmark, models, "openai-m"))
    assert again.json["cost_usd"] == 0
    assert again.json["runs"][0]["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").code == 0
    assert len(services.asked) == asked


@BOTH
def test_requests_whose_limit_was_used_up_by_reasoning_go_into_a_second_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    """They are bought at the price of a batch, with room; one that the first batch answered is not."""

    def think(body: Body) -> Answer:
        limit: int = body.get("max_tokens") or body["max_completion_tokens"]
        short = limit < REASONING_TOKENS and question(body) > 0
        return vendor.answer("<think>Which of them", finish=LENGTH) if short else respond(body)

    services.answer_with(think)
    benchmark, name = make_benchmark(tmp_path, n=N), f"{vendor.provider}-m"
    done = medhelm(*arguments(benchmark, models, name), "--batch")
    assert done.code == 0, done.err
    assert services.direct == []
    assert [len(names) for names in services.taken] == [N, N - 1]
    assert done.err.count("reasons before it answers") == 1
    assert done.json["runs"][0]["metrics"]["exact_match"]["value"] == 1
    assert done.json["cost_usd"] == pytest.approx((2 * N - 1) * COST_USD / 2)
    assert medhelm(*arguments(benchmark, models, name), "--batch").code == 0
    assert [len(names) for names in services.taken] == [N, N - 1], "nothing is bought again"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@ONE_IN_SHORT
def test_a_run_killed_after_handing_over_comes_back_to_its_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark, name = make_benchmark(tmp_path, n=N), f"{vendor.provider}-m"
    services.looks = 10**9
    with killed(command(models, benchmark, name)):
        services.wait_for_a_look()
    (kept,) = Batches(Store(tmp_path / "medhelm-store")).all()
    assert (kept.state, kept.n, kept.remote_id) == ("submitted", N, next(iter(services.batches)))
    text = Batches(Store(tmp_path / "medhelm-store")).path(kept).read_text()
    assert "number" not in text
    assert not any(key in text for key in KEYS.values())
    listed = medhelm("batches", "--json")
    assert [(one["batch"], one["requests"], one["state"]) for one in listed.json] == [(kept.remote_id, N, "submitted")]
    services.looks = 0
    done = medhelm(*arguments(benchmark, models, name), "--batch")
    assert done.code == 0, done.err
    assert set(services.handed_over.values()) == {1}
    assert services.direct == []
    assert done.json["runs"][0]["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert medhelm("batches", "--json").json == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@ONE_IN_SHORT
def test_a_run_killed_before_it_heard_that_its_batch_was_taken_finds_it(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    benchmark, name = make_benchmark(tmp_path, n=N), f"{vendor.provider}-m"
    services.hold_after = 1
    with killed(command(models, benchmark, name)):
        services.wait_for_batches(1)
    services.release()
    (kept,) = Batches(Store(tmp_path / "medhelm-store")).all()
    assert (kept.state, kept.remote_id) == ("intended", "")
    done = medhelm(*arguments(benchmark, models, name), "--batch")
    assert done.code == 0, done.err
    assert "continuing" in done.err
    assert set(services.handed_over.values()) == {1}
    assert services.direct == []


@BOTH
def test_a_batch_whose_acknowledgement_got_lost_is_not_handed_over_twice(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.lost = 1
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [N]
    assert services.direct == []


def test_an_intention_that_never_reached_the_service_is_handed_over(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.refusals = [Answer(ending="reset")]
    services.now = 1e9
    assert medhelm(*arguments(benchmark, models, "anthropic-m"), "--batch").code == 0
    assert [len(names) for names in services.taken] == [N]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_leaves_the_batch_at_its_service(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.looks = 10**9
    process = command(models, benchmark, "openai-m")
    services.wait_for_a_look()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "continue at their service" in err
    assert "Traceback" not in err
    assert json.loads(out)["runs"] == []
    services.looks = 0
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").code == 0
    assert set(services.handed_over.values()) == {1}


FATES = {0: "expired", 1: "expired", 2: "missing", 3: "garbled"}


@BOTH
def test_what_a_batch_leaves_open_is_asked_directly_at_the_full_price(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.fate = lambda body: FATES.get(question(body), "")
    overload = {4: vendor.errors["overload"]}
    services.answer_with(lambda body: overload.pop(question(body), None) or respond(body))
    benchmark, name = make_benchmark(tmp_path, n=N), f"{vendor.provider}-m"
    done = medhelm(*arguments(benchmark, models, name), "--batch")
    assert done.code == 0, done.err
    assert sorted(map(question, services.direct)) == [0, 1, 2, 3, 4]
    assert "4 of 9 completed; 5 to be sent directly, at the full price" in done.err
    assert "1 overloaded" in done.err
    assert "2 missing" in done.err
    cost_usd = (5 + (N - 5) / 2) * COST_USD
    assert done.json["cost_usd"] == pytest.approx(cost_usd)
    assert done.json["runs"][0]["cost_usd"] == pytest.approx(cost_usd)
    assert medhelm("cost", "--json").json["total"]["spent_usd"] == pytest.approx(cost_usd)


def test_what_was_left_open_is_not_handed_over_again_after_a_restart(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.fate = lambda body: "expired" if question(body) == 0 else ""
    seen: list[int] = []

    def failing_at_first(body: Body) -> Answer:
        alone = bool(services.direct and services.direct[-1] is body)
        seen.append(alone)
        return OPENAI.errors["overload"] if alone and sum(seen) == 1 else respond(body)

    services.answer_with(failing_at_first)
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch", "--attempts", "1").code == 1
    again = medhelm(*arguments(benchmark, models, "openai-m"), "--batch")
    assert again.code == 0, again.err
    assert len(services.taken) == 1
    assert [question(body) for body in services.direct] == [0, 0]


@BOTH
def test_a_failure_that_no_asking_mends_is_told(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    error = {"type": "invalid_request_error", "message": "No such thing."}
    wrong = Answer(status=400, body={"type": "error", "error": error})
    services.answer_with(lambda body: wrong if question(body) == 2 else respond(body))
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 1
    assert done.json["runs"][0]["failures"] == {"bad_request": 1}
    assert [question(body) for body in services.direct] == [2]


@BOTH
def test_a_refusal_in_a_batch_is_an_answer(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    refusal = next(iter(vendor.refusals.values()))
    services.answer_with(lambda body: refusal if question(body) == 1 else respond(body))
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.json["runs"][0]["failures"] == {"refusal": 1}
    assert services.direct == []


@BOTH
def test_a_temperature_that_is_refused_is_left_out_of_a_second_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    def answering(body: Body) -> Answer:
        return respond(body) if vendor.temperature_of(body) is None else vendor.errors["temperature"]

    services.answer_with(answering)
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [N, N]
    assert services.direct == []
    assert "9 are submitted again without temperature" in done.err
    assert done.json["cost_usd"] == pytest.approx(N * COST_USD / 2)


@BOTH
def test_a_rate_limit_on_handing_over_is_waited_for(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    limited = Answer(status=429, body=vendor.errors["rate limit"].body)
    services.refusals = [limited, vendor.errors["overload"]]
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [N]


@BOTH
def test_a_queue_that_is_full_is_emptied_before_more_is_handed_over(
    medhelm: Medhelm,
    models: Path,
    services: BatchServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
) -> None:
    kind = OpenAIBatches if vendor is OPENAI else AnthropicBatches
    upload, asked = kind._upload, list[int]()

    async def uploaded(self: Any, *words: Any) -> Any:
        asked.append(len(services.taken))
        if len(asked) in (2, 3):
            services.refusals = [Answer(status=429, body=vendor.errors["rate limit"].body)]
        return await upload(self, *words)

    monkeypatch.setattr(kind, "_upload", uploaded)
    monkeypatch.setattr(kind, "max_requests", 4)
    words = arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m")
    done = medhelm(*words, "--batch", "--attempts", "2")
    assert done.code == 0, done.err
    assert "the rest is submitted once the other batches are done" in done.err
    assert asked == [0, 1, 1, 1, 2]
    assert [len(names) for names in services.taken] == [4, 4, 1]
    assert services.direct == []
    assert set(services.handed_over.values()) == {1}


@BOTH
def test_a_wrong_key_stops_the_model_before_anything_is_asked(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.key = "another"
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 1
    assert f"Check {vendor.variable}" in done.err
    assert (services.taken, services.direct) == ([], [])
    assert Batches(Store(tmp_path / "medhelm-store")).all() == []
    services.key = ""
    assert medhelm(*arguments(tmp_path / "toy", models, f"{vendor.provider}-m"), "--batch").code == 0


def test_a_batch_that_is_refused_as_a_whole_is_told_and_nothing_is_asked_at_the_full_price(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    services.failing = [("invalid_model", "The model is not there for batches.")]
    benchmark = make_benchmark(tmp_path, n=N)
    done = medhelm(*arguments(benchmark, models, "openai-m", "anthropic-m"), "--batch")
    assert done.code == 1
    assert "rejected as a whole: The model is not there for batches." in done.err
    assert services.direct == []
    runs = {run["model"]: run for run in done.json["runs"]}
    assert (runs["openai-m"]["status"], runs["anthropic-m"]["status"]) == ("failed", "complete")


def test_a_batch_that_is_too_much_for_the_account_is_handed_over_in_parts(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    services.failing = [("token_limit_exceeded", "Enqueued token limit reached.")]
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, "openai-m"), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [4, 4, 1]
    assert "submitted again in smaller parts" in done.err
    # One at a time at first, and more as they are taken.
    order = [line for line in services.asked if line == "POST /v1/batches" or line.startswith("GET /v1/batches/")]
    made = [n for n, line in enumerate(order) if line == "POST /v1/batches"]
    assert len(made) == 4
    assert made[3] == made[2] + 1 > made[1] + 2


def test_an_account_that_may_have_little_waiting_gets_no_more_at_once(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    services.room = 5
    services.looks = 2
    done = medhelm(*arguments(make_benchmark(tmp_path, n=40), models, "openai-m"), "--batch")
    assert done.code == 0, done.err
    assert sum(map(len, services.taken)) == 40
    assert set(services.handed_over.values()) == {1}
    assert services.direct == []
    refused = len(services.batches) - len(services.taken)
    assert refused <= len(services.taken)
    assert set(services.files) == set(services.deleted)


def test_an_account_without_any_room_ends_the_asking(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    """Somebody else's batches fill it: what cannot be halved any more is told, and open for the next run."""
    services.failing = [("token_limit_exceeded", "Enqueued token limit reached.")] * 4
    benchmark = make_benchmark(tmp_path, n=N)
    done = medhelm(*arguments(benchmark, models, "openai-m"), "--batch")
    assert done.code == 1
    assert "rejected as a whole: Enqueued token limit reached." in done.err
    assert (len(services.batches), services.taken, services.direct) == (4, [], [])
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").code == 0
    assert set(services.handed_over.values()) == {1}


@BOTH
def test_a_batch_that_somebody_cancels_is_not_bought_at_the_full_price(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.fate = lambda body: "cancelled" if question(body) < 4 else ""
    benchmark, name = make_benchmark(tmp_path, n=N), f"{vendor.provider}-m"
    done = medhelm(*arguments(benchmark, models, name), "--batch")
    assert done.code == 1
    assert "was canceled at its service, and 4 of its requests have no completion" in done.err
    assert "at the full price (" not in done.err
    assert services.direct == []
    assert done.json["cost_usd"] == pytest.approx((N - 4) * COST_USD / 2)
    services.fate = lambda body: ""
    done = medhelm(*arguments(benchmark, models, name), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [N, 4]
    assert services.direct == []
    assert done.json["runs"][0]["cost_usd"] == pytest.approx(N * COST_USD / 2)


@BOTH
def test_a_clock_that_is_hours_off_hides_no_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    for hours in (-9, 9):
        services.now, services.lost = time() + hours * 3600, 1
        words = [*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--store", f"s{hours}"]
        assert medhelm(*words, "--batch").code == 0
    assert [len(names) for names in services.taken] == [N, N]


@BOTH
def test_lines_about_other_requests_and_second_lines_change_nothing(
    medhelm: Medhelm,
    models: Path,
    services: BatchServer,
    tmp_path: Path,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = services._results if vendor is ANTHROPIC else None

    def noisy(content: bytes) -> bytes:
        lines = content.strip().split(b"\n")
        stray = [line.replace(b'"custom_id": "', b'"custom_id": "ff') for line in lines]
        return b"\n".join([*stray, *lines, *reversed(lines), b"", b"[]", b"null", b"\xff"])

    if ours:
        monkeypatch.setattr(services, "_results", lambda batch: noisy(ours(batch)))
    else:
        state = services._state

        def changed(batch: dict[str, Any]) -> Body:
            document = state(batch)
            if document["status"] == "completed":
                services.files["file-1"] = noisy(services.files["file-1"])
            return document

        monkeypatch.setattr(services, "_state", changed)
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 0, done.err
    assert services.direct == []
    assert done.json["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert done.json["runs"][0]["metrics"]["exact_match"]["value"] == 1.0


def test_batches_are_split_by_the_service_s_limits(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (OpenAIBatches.max_requests, AnthropicBatches.max_requests) == (50_000, 100_000)
    assert OpenAIBatches.max_bytes <= 200 * 10**6 < AnthropicBatches.max_bytes <= 256 * 10**6
    monkeypatch.setattr(OpenAIBatches, "max_requests", 4)
    monkeypatch.setattr(AnthropicBatches, "max_bytes", 1000)
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, "openai-m", "anthropic-m"), "--batch")
    assert done.code == 0, done.err
    sizes = [len(names) for name, names in zip(services.batches, services.taken, strict=True) if name[0] == "b"]
    assert sizes == [4, 4, 1]
    assert sum(map(len, services.taken)) == 2 * N
    assert 1 < len(services.taken) - 3 < N


def test_a_server_without_batches_is_asked_directly(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    services.refusals = [Answer(status=404, body={"detail": "Not Found"})]
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, "openai-m"), "--batch")
    assert done.code == 0, done.err
    assert "has no batch API" in done.err
    assert len(services.direct) == N
    assert done.json["cost_usd"] == pytest.approx(N * COST_USD)


def test_two_batch_apis_a_direct_provider_and_judges_of_all_three_in_one_run(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = write_benchmark(tmp_path, n=4)
    judges = [word for name in ("openai", "anthropic", "google") for word in ("--judge", f"{name}-judge")]
    names = ("openai-m", "anthropic-m", "google-m", "baseline/majority")
    done = medhelm(*arguments(benchmark, models, *names), *judges, "--batch")
    assert done.code == 0, done.err
    assert "google-m, google-judge: requests are sent directly, because its service has no batch API" in done.err
    runs = {run["model"]: run for run in done.json["runs"]}
    assert {run["metrics"]["jury"]["value"] for run in runs.values()} == {4.0}
    # Models, then judges: 4 completions that three models share, and 4 of the baseline's.
    assert [len(names) for names in services.taken[:2]] == [4, 4]
    assert sorted(len(set(names)) for names in services.taken[2:]) == [8, 8]
    costs = {name: run["cost_usd"] for name, run in runs.items()}
    halves = pytest.approx(4 * COST_USD / 2)
    assert (costs["openai-m"], costs["anthropic-m"]) == (halves, halves)
    assert costs["google-m"] == pytest.approx(4 * COST_USD)
    bill = medhelm("cost", "--by", "judge", "--json").json
    assert done.json["cost_usd"] == pytest.approx(bill["total"]["spent_usd"])
    assert set(services.handed_over.values()) == {1}


def test_a_budget_that_the_batches_may_pass_is_told_before_anything_is_handed_over(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    most = medhelm("plan", *arguments(benchmark, models, "openai-m")[1:], "--batch").json["batch_cost_usd"]["max"]
    done = medhelm(*arguments(benchmark, models, "openai-m"), "--batch", "--max-cost", str(most * 0.99))
    assert done.code == 3
    assert "none was submitted" in done.err
    assert services.asked == []
    done = medhelm(*arguments(benchmark, models, "openai-m"), "--batch", "--max-cost", str(most * 1.01))
    assert done.code == 0, done.err


def test_a_smaller_run_collects_the_whole_of_an_earlier_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.looks = 10**9
    with killed(command(models, benchmark, "openai-m")):
        services.wait_for_a_look()
    services.looks = 0
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch", "--limit", "3").code == 0
    with Cache(tmp_path / "medhelm-store" / "cache.sqlite") as cache:
        assert all(cache.get(bytes.fromhex(name)) for name in services.taken[0])
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").json["cost_usd"] == 0
    assert set(services.handed_over.values()) == {1}


def test_a_damaged_file_of_a_batch_stops_before_anything_is_sent(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").code == 0
    folder = tmp_path / "medhelm-store" / "batches"
    (folder / "medhelm-x.json").write_text("{", encoding="utf-8")
    asked = len(services.asked)
    done = medhelm(*arguments(benchmark, models, "anthropic-m"), "--batch")
    assert done.code == 2
    assert "medhelm-x.json is damaged" in done.err
    assert len(services.asked) == asked


def test_a_batch_that_the_service_has_forgotten_is_told_and_not_bought_again(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.looks = 10**9
    with killed(command(models, benchmark, "openai-m")):
        services.wait_for_a_look()
    services.batches.clear()
    done = medhelm(*arguments(benchmark, models, "openai-m"), "--batch")
    assert done.code == 1
    assert "the service no longer has batch batch_0" in done.err
    assert len(services.taken) == 1
    assert services.direct == []


def test_nobody_s_batch_is_there_at_first(medhelm: Medhelm, tmp_path: Path, models: Path) -> None:
    assert medhelm("batches").code == 2
    assert medhelm(*arguments(make_benchmark(tmp_path, n=N), models, "baseline/majority"), "--batch").code == 0
    listed = medhelm("batches")
    assert (listed.code, listed.out) == (0, "no batch is pending\n")


def test_a_run_without_batches_says_what_waits_in_one(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.looks = 10**9
    with killed(command(models, benchmark, "openai-m")):
        services.wait_for_a_look()
    other = medhelm(*arguments(benchmark, models, "anthropic-m"))
    assert "are in batch" not in other.err
    done = medhelm(*arguments(benchmark, models, "openai-m"))
    assert done.code == 0
    assert "openai-m: 9 requests are pending in batch batch_0 and are sent again now" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_two_processes_share_one_batch(medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.looks = 10**9
    first = command(models, benchmark, "openai-m")
    services.wait_for_a_look()
    second = command(models, benchmark, "openai-m")
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    services.looks = 0
    ends = [process.communicate(timeout=600)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert [json.loads(out)["runs"][0]["cost_usd"] for out in ends] == pytest.approx([N * COST_USD / 2] * 2)
    assert set(services.handed_over.values()) == {1}
    assert services.direct == []


@pytest.mark.parametrize("shared", [True, False])
def test_one_model_under_two_names_is_bought_once_if_they_share_completions(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, shared: bool
) -> None:
    for name in ("one", "two"):
        written = entry(OPENAI, services, "gpt-m")
        with models.open("a", encoding="utf-8") as file:
            file.write(f"{name}: {written[:-1]}, share_completions: {str(shared).lower()}}}\n")
    benchmark = make_benchmark(tmp_path, n=N)
    done = medhelm(*arguments(benchmark, models, "one", "two"), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [N] * (1 if shared else 2)
    assert done.json["cost_usd"] == pytest.approx(len(services.taken) * N * COST_USD / 2)


def test_questions_that_two_benchmarks_share_are_handed_over_once(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    one, two = make_benchmark(tmp_path, n=N), make_benchmark(tmp_path, name="twin", n=N)
    done = medhelm(*arguments(one, models, "anthropic-m"), str(two), "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [N]


def test_a_judge_s_second_try_is_asked_directly(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    seen: list[int] = []

    def answering(body: Body) -> Answer:
        if "judge" in body["model"] and question(body) == 1 and not seen:
            seen.append(1)
            return OPENAI.answer("hm")
        return respond(body)

    services.answer_with(answering)
    benchmark = write_benchmark(tmp_path, n=4)
    words = arguments(benchmark, models, "openai-m")
    done = medhelm(*words, "--judge", "openai-judge", "--min-judges", "1", "--batch")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [4, 4]
    assert [body["model"] for body in services.direct] == ["judge-o"]
    assert done.json["cost_usd"] == pytest.approx((8 / 2 + 1) * COST_USD)
    (run,) = load_runs(Store(tmp_path / "medhelm-store"))
    assert run.jury_result is not None
    assert run.jury_result.tallies["openai-judge"].cost_usd == pytest.approx((4 / 2 + 1) * COST_USD)


def test_the_plan_shows_both_prices(medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path) -> None:
    benchmark = write_benchmark(tmp_path, n=4)
    judges = ["--judge", "openai-judge", "--judge", "google-judge"]
    words = ["plan", *arguments(benchmark, models, "openai-m", "google-m", "baseline/majority")[1:], *judges]
    direct, both = medhelm(*words).json, medhelm(*words, "--batch").json
    assert "batch_cost_usd" not in direct
    assert both["cost_usd"] == direct["cost_usd"]
    rows = {(row["model"], row["role"]): row for row in both["rows"]}
    for key, share in ((("openai-m", "model"), 0.5), (("google-m", "model"), 1.0), (("google-judge", "judge"), 1.0)):
        row = rows[key]
        assert row["batch_cost_usd"] == pytest.approx({k: share * v for k, v in row["cost_usd"].items()})
    # First tries cost half, second tries do not: at most there is one of each.
    judge = rows["openai-judge", "judge"]
    assert 0.5 < judge["batch_cost_usd"]["max"] / judge["cost_usd"]["max"] < 0.8
    assert 0.5 <= judge["batch_cost_usd"]["expected"] / judge["cost_usd"]["expected"] < 0.6
    sums = {part: sum(row["batch_cost_usd"][part] for row in both["rows"]) for part in ("expected", "max")}
    assert both["batch_cost_usd"] == pytest.approx(sums)
    table = medhelm(*[word for word in words if word != "--json"], "--batch")
    assert "batch prices are half the full prices" in table.out
    assert services.asked == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@ONE_IN_SHORT
def test_the_plan_knows_what_waits_in_a_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    name = f"{vendor.provider}-m"
    benchmark = make_benchmark(tmp_path, n=N)
    words = ["plan", *arguments(benchmark, models, name, "google-m")[1:]]
    before = medhelm(*words, "--batch").json
    assert {row["waiting"] for row in before["rows"]} == {0}
    services.looks = 10**9
    with killed(command(models, benchmark, name)):
        services.wait_for_a_look()
    after = medhelm(*words, "--batch").json
    rows = {row["model"]: row for row in after["rows"]}
    assert {name: row["waiting"] for name, row in rows.items()} == {name: N, "google-m": 0}
    assert {row["cached"] for row in after["rows"]} == {0}
    assert after["batch_cost_usd"] == before["batch_cost_usd"]  # handed over, and not charged yet
    table = medhelm(*(word for word in words if word != "--json"), "--batch")
    assert "cached  waiting" in table.out
    assert "9 requests `waiting` in submitted batches will be collected, not sent again" in table.out
    alone = medhelm(*words)
    assert "9 of the requests are in batches (`medhelm batches`) and would be sent again" in " ".join(
        alone.json["warnings"]
    )
    services.looks = 0
    assert medhelm(*arguments(benchmark, models, name), "--batch").code == 0
    assert {row["waiting"] for row in medhelm(*words, "--batch").json["rows"]} == {0}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_the_plan_knows_which_judgments_wait(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = write_benchmark(tmp_path, n=4)
    words = arguments(benchmark, models, "openai-m")
    assert medhelm(*words, "--batch").code == 0
    judge = ["--judge", "openai-judge", "--min-judges", "1"]
    services.looks = 10**9
    with killed(command(models, benchmark, "openai-m", more=judge)):
        services.wait_for_batches(2)
    planned = medhelm("plan", *words[1:], *judge, "--batch").json
    assert [(row["role"], row["cached"], row["waiting"]) for row in planned["rows"]] == [
        ("model", 4, 0),
        ("judge", 0, 4),
    ]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_exports_say_what_was_bought_in_a_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, format: str
) -> None:
    import duckdb

    benchmark = make_benchmark(tmp_path, n=3)
    services.fate = lambda body: "expired" if question(body) == 0 else ""
    assert medhelm(*arguments(benchmark, models, "openai-m", "google-m"), "--batch").code == 0
    assert medhelm("export", format, str(tmp_path / "out")).code == 0
    file = tmp_path / "out" / f"records.{format}"
    query = f"SELECT model, position, batched FROM '{file}' ORDER BY ALL"
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    assert rows == [*(("google-m", i, False) for i in range(3)), *(("openai-m", i, i > 0) for i in range(3))]
    described = (tmp_path / "out" / "dictionary.md").read_text(encoding="utf-8")
    assert "| batched | true or false |" in described


def test_what_is_kept_of_a_reply_says_that_it_came_from_a_batch(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = write_benchmark(tmp_path, n=4)
    words = [*arguments(benchmark, models, "openai-m", "google-m"), "--judge", "openai-judge", "--min-judges", "1"]
    assert medhelm(*words, "--batch").code == 0
    runs = {run.model: run for run in load_runs(Store(tmp_path / "medhelm-store"))}
    assert read_columns(runs["openai-m"], ["batched"])["batched"] == [True] * 4
    assert read_columns(runs["google-m"], ["batched"])["batched"] == [False] * 4
    assert {reply.completion.batched for said in read_replies(runs["google-m"]).values() for reply in said} == {True}
    with CacheReader(tmp_path / "medhelm-store" / "cache.sqlite") as journal:
        assert sorted((one.model, one.batched) for one in journal.purchases()) == sorted(
            [("openai-m", True)] * 4 + [("google-m", False)] * 4 + [("openai-judge", True)] * 4
        )


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_second_ctrl_c_does_not_wait_for_a_handing_over_that_hangs(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=N)
    services.hold_after = 1
    process = command(models, benchmark, "openai-m")
    services.wait_for_batches(1)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "continue at their service" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    services.release()
    assert [batch.state for batch in Batches(Store(tmp_path / "medhelm-store")).all()] == ["intended"]
    listed = medhelm("batches", "--json").json
    assert [(one["state"], one["batch"], one["requests"]) for one in listed] == [("intended", None, N)]
    assert "intended" in medhelm("batches").out
    assert medhelm(*arguments(benchmark, models, "openai-m"), "--batch").code == 0
    assert set(services.handed_over.values()) == {1}


@BOTH
def test_answers_that_break_off_on_their_way_are_fetched_again(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path, vendor: Vendor
) -> None:
    services.broken = 2
    done = medhelm(*arguments(make_benchmark(tmp_path, n=N), models, f"{vendor.provider}-m"), "--batch")
    assert done.code == 0, done.err
    assert services.broken == 0
    assert done.json["cost_usd"] == pytest.approx(N * COST_USD / 2)
    assert services.direct == []


def test_prompts_are_cut_to_fit_in_a_batch_as_they_are_alone(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, n=4, extra="shorten: question\n")
    words = " ".join(f"The {n}th day was like the one before." for n in range(60))
    rows = [{"id": f"q{i}", "question": f"{words} This is number {i}?", "answer": "A", "topic": "0"} for i in range(4)]
    (benchmark / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with models.open("a", encoding="utf-8") as file:
        file.write(f"small: {entry(OPENAI, services, 'small', window=200)}\n")
    alone = medhelm(*arguments(benchmark, models, "small"), "--store", "direct")
    assert (alone.code, len(services.direct)) == (0, 4), alone.err
    together = medhelm(*arguments(benchmark, models, "small"), "--store", "batched", "--batch")
    assert together.code == 0, together.err
    assert len(services.direct) == 4
    (batch,) = services.batches.values()
    prompts = {OPENAI.prompt_of(body) for _, body in batch["requests"]}
    assert prompts == {OPENAI.prompt_of(body) for body in services.direct}
    assert all(len(prompt) < len(words) for prompt in prompts)
    (run,) = load_runs(Store(tmp_path / "batched"))
    assert run.n_truncated == 4


def test_a_budget_that_the_judges_may_pass_stops_before_they_are_asked_and_keeps_the_rest(
    medhelm: Medhelm, models: Path, services: BatchServer, tmp_path: Path
) -> None:
    benchmark = write_benchmark(tmp_path, n=4)
    words = [*arguments(benchmark, models, "openai-m"), "--judge", "openai-judge", "--min-judges", "1", "--batch"]
    rows = medhelm("plan", *words[1:]).json["rows"]
    (most,) = (row["batch_cost_usd"]["max"] for row in rows if row["role"] == "model")
    done = medhelm(*words, "--max-cost", str(most * 1.01))
    assert done.code == 3
    assert [len(names) for names in services.taken] == [4]
    assert services.direct == []
    done = medhelm(*words, "--max-cost", "1")
    assert done.code == 0, done.err
    assert [len(names) for names in services.taken] == [4, 4]
