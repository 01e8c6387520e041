"""`medhelm run --batch` at servers with the batch APIs of OpenAI and Anthropic, and what is left there afterwards."""

from __future__ import annotations

import json
import signal
import sys
from time import time

import pytest

from medhelm.domain.completion import REASONING_TOKENS
from medhelm.models.batch.anthropic import AnthropicBatches
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.models.cache import Cache
from medhelm.models.provider import LENGTH
from medhelm.storage.unfinished import Batches
from tests.support.benchmarks.batched import COST_USD, BatchRuns, N, entry, killed, question, respond
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import write_benchmark
from tests.support.servers.openai import Answer
from tests.support.servers.vendors import ANTHROPIC, KEYS, OPENAI, Body, Vendor

BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
ONE_IN_SHORT = pytest.mark.parametrize(
    "vendor", [OPENAI, pytest.param(ANTHROPIC, marks=pytest.mark.long)], ids=lambda vendor: vendor.provider
)
"""For tests that start a process: what they look at is not the vendor's."""

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
HALF_USD = pytest.approx(N * COST_USD / 2)
JUDGE = ("--judge", "openai-judge", "--min-judges", "1")


def limited(vendor: Vendor) -> Answer:
    return Answer(status=429, body=vendor.errors["rate limit"].body)


@BOTH
def test_a_batch_costs_half_and_gives_the_same_records_once(batches: BatchRuns, vendor: Vendor) -> None:
    alone = batches.run(vendor, options=("--store", "direct"), batch=False)
    assert (len(batches.services.direct), batches.sizes) == (N, [])
    store = ("--store", "batched")
    together = batches.run(vendor, options=store)
    assert (len(batches.services.direct), batches.sizes) == (N, [N])
    (direct,), (batched,) = alone.json["runs"], together.json["runs"]
    assert direct["cost_usd"] == pytest.approx(N * COST_USD)
    assert batched["cost_usd"] == together.json["cost_usd"] == HALF_USD
    assert (batched["metrics"], batched["tokens"]) == (direct["metrics"], direct["tokens"])
    for name, factor in (("direct", 1.0), ("batched", 0.5)):
        bill = batches.medhelm("cost", "--store", name, "--json").json
        assert bill["total"]["spent_usd"] == pytest.approx(factor * N * COST_USD), bill["total"]
    asked = len(batches.services.asked)
    for is_batch in (False, True):
        again = batches.run(vendor, options=store, batch=is_batch).json
        assert (again["cost_usd"], again["runs"][0]["cost_usd"]) == (0, HALF_USD)
    assert len(batches.services.asked) == asked
    entries = batches.medhelm("audit", "show", "--json", "--last", "1000", *store).json["entries"]
    (upload,) = [entry for entry in entries if entry["requests"]]
    assert (upload["requests"], upload["benchmark"], upload["method"]) == (N, "toy", "POST")


@BOTH
def test_requests_whose_limit_was_used_up_by_reasoning_go_into_a_second_batch(
    batches: BatchRuns, vendor: Vendor
) -> None:
    """They are bought at the price of a batch, with room; one that the first batch answered is not."""

    def think(body: Body) -> Answer:
        limit: int = body.get("max_tokens") or body["max_completion_tokens"]
        short = limit < REASONING_TOKENS and question(body) > 0
        return vendor.answer("<think>Which of them", finish=LENGTH) if short else respond(body)

    batches.services.answer_with(think)
    done = batches.run(vendor)
    assert batches.services.direct == []
    assert batches.sizes == [N, N - 1]
    assert done.err.count("reasons before it answers") == 1
    assert done.json["runs"][0]["metrics"]["exact_match"]["value"] == 1
    assert done.json["cost_usd"] == pytest.approx((2 * N - 1) * COST_USD / 2)
    batches.run(vendor)
    assert batches.sizes == [N, N - 1], "nothing is bought again"


@POSIX
@ONE_IN_SHORT
def test_a_run_killed_after_handing_over_comes_back_to_its_batch(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.looks = 10**9
    with killed(batches.start(vendor)):
        batches.services.wait_for_a_look()
    batches.services.looks = 0
    (kept,) = batches.kept
    assert (kept.state, kept.n, kept.remote_id) == ("submitted", N, next(iter(batches.services.batches)))
    text = Batches(batches.store).path(kept).read_text()
    assert not any(secret in text for secret in ("number", *KEYS.values()))
    listed = batches.medhelm("batches", "--json").json
    assert [(one["batch"], one["requests"], one["state"]) for one in listed] == [(kept.remote_id, N, "submitted")]
    done = batches.run(vendor)
    assert (set(batches.services.handed_over.values()), batches.services.direct) == ({1}, [])
    assert done.json["runs"][0]["cost_usd"] == HALF_USD


@POSIX
@ONE_IN_SHORT
def test_a_run_killed_before_it_heard_that_its_batch_was_taken_finds_it(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.hold_after = 1
    with killed(batches.start(vendor)):
        batches.services.wait_for_batches(1)
    batches.services.release()
    assert [(kept.state, kept.remote_id) for kept in batches.kept] == [("intended", "")]
    assert "continuing" in batches.run(vendor).err
    assert set(batches.services.handed_over.values()) == {1}
    assert batches.services.direct == []


def test_an_intention_that_never_reached_the_service_is_handed_over(batches: BatchRuns) -> None:
    batches.services.refusals = [Answer(ending="reset")]
    batches.services.now = 1e9
    batches.run("anthropic-m")
    assert batches.sizes == [N]


FATES = {0: "expired", 1: "expired", 2: "missing", 3: "garbled"}


@BOTH
def test_what_a_batch_leaves_open_is_asked_directly_at_the_full_price(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.fate = lambda body: FATES.get(question(body), "")
    overload = {4: vendor.errors["overload"]}
    batches.services.answer_with(lambda body: overload.pop(question(body), None) or respond(body))
    done = batches.run(vendor)
    assert sorted(map(question, batches.services.direct)) == [0, 1, 2, 3, 4]
    for words in ("4 of 9 completed; 5 to be sent directly, at the full price", "1 overloaded", "2 missing"):
        assert words in done.err
    spent = batches.medhelm("cost", "--json").json["total"]["spent_usd"]
    cost_usd = pytest.approx((5 + (N - 5) / 2) * COST_USD)
    assert (done.json["cost_usd"], done.json["runs"][0]["cost_usd"], spent) == (cost_usd, cost_usd, cost_usd)


@BOTH
def test_a_refusal_in_a_batch_is_an_answer_and_an_error_is_asked_about_directly(
    batches: BatchRuns, vendor: Vendor
) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "No such thing."}}
    odd = {1: next(iter(vendor.refusals.values())), 2: Answer(status=400, body=error)}
    batches.services.answer_with(lambda body: odd.get(question(body)) or respond(body))
    done = batches.run(vendor, code=1)
    assert done.json["runs"][0]["failures"] == {"refusal": 1, "bad_request": 1}
    assert [question(body) for body in batches.services.direct] == [2]


@BOTH
def test_a_temperature_that_is_refused_is_left_out_of_a_second_batch(batches: BatchRuns, vendor: Vendor) -> None:
    def answering(body: Body) -> Answer:
        return respond(body) if vendor.temperature_of(body) is None else vendor.errors["temperature"]

    batches.services.answer_with(answering)
    batches.services.refusals = [limited(vendor), vendor.errors["overload"]]  # of the submission, which is repeated
    done = batches.run(vendor)
    assert (batches.sizes, batches.services.direct) == ([N, N], [])
    assert "9 are submitted again without temperature" in done.err
    assert done.json["cost_usd"] == HALF_USD


@BOTH
def test_a_wrong_key_stops_the_model_before_anything_is_asked(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.key = "another"
    assert f"Check {vendor.variable}" in batches.run(vendor, code=1).err
    assert (batches.sizes, batches.services.direct, batches.kept) == ([], [], [])
    batches.services.key = ""
    batches.run(vendor)


def test_a_batch_that_is_refused_as_a_whole_is_told_and_nothing_is_asked_at_the_full_price(batches: BatchRuns) -> None:
    batches.services.failing = [("invalid_model", "The model is not there for batches.")]
    done = batches.run("openai-m", "anthropic-m", code=1)
    assert "rejected as a whole: The model is not there for batches." in done.err
    assert batches.services.direct == []
    assert [run["status"] for run in done.json["runs"]] == ["failed", "complete"]


def test_an_account_that_may_have_little_waiting_gets_no_more_at_once(batches: BatchRuns) -> None:
    services = batches.services
    services.room, services.looks = 5, 2
    batches.benchmark = make_benchmark(batches.benchmark.parent, n=40)
    assert "submitted again in smaller parts" in batches.run("openai-m").err
    assert (sum(batches.sizes), services.direct) == (40, [])
    assert set(services.handed_over.values()) == {1}
    assert len(services.batches) - len(services.taken) <= len(services.taken), "refused ones"
    assert set(services.files) == set(services.deleted)


def test_an_account_without_any_room_ends_the_asking(batches: BatchRuns) -> None:
    """Somebody else's batches fill it: what cannot be halved any more is told, and open for the next run."""
    batches.services.failing = [("token_limit_exceeded", "Enqueued token limit reached.")] * 4
    done = batches.run("openai-m", code=1)
    assert "rejected as a whole: Enqueued token limit reached." in done.err
    assert (len(batches.services.batches), batches.sizes, batches.services.direct) == (4, [], [])
    batches.run("openai-m")
    assert set(batches.services.handed_over.values()) == {1}


@BOTH
def test_a_batch_that_somebody_cancels_is_not_bought_at_the_full_price(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.fate = lambda body: "cancelled" if question(body) < 4 else ""
    done = batches.run(vendor, code=1)
    assert "was canceled at its service, and 4 of its requests have no completion" in done.err
    assert "at the full price (" not in done.err
    assert done.json["cost_usd"] == pytest.approx((N - 4) * COST_USD / 2)
    batches.services.fate = lambda body: ""
    done = batches.run(vendor)
    assert (batches.sizes, batches.services.direct) == ([N, 4], [])
    assert done.json["runs"][0]["cost_usd"] == HALF_USD


@BOTH
def test_a_clock_that_is_hours_off_hides_no_batch(batches: BatchRuns, vendor: Vendor) -> None:
    for hours in (-9, 9):
        batches.services.now, batches.services.lost = time() + hours * 3600, 1
        batches.run(vendor, options=("--store", f"s{hours}"))
    assert batches.sizes == [N, N]


def test_batches_are_split_by_the_service_s_limits(batches: BatchRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAIBatches, "max_requests", 4)
    monkeypatch.setattr(AnthropicBatches, "max_bytes", 1000)
    batches.run("openai-m", "anthropic-m")
    by_name = list(zip(batches.services.batches, batches.sizes, strict=True))
    assert [size for name, size in by_name if name[0] == "b"] == [4, 4, 1]
    assert sum(batches.sizes) == 2 * N
    assert 1 < len(by_name) - 3 < N


def test_a_server_without_batches_is_asked_directly(batches: BatchRuns) -> None:
    batches.services.refusals = [Answer(status=404, body={"detail": "Not Found"})]
    done = batches.run("openai-m")
    assert "has no batch API" in done.err
    assert len(batches.services.direct) == N
    assert done.json["cost_usd"] == pytest.approx(N * COST_USD)


def test_two_batch_apis_a_direct_provider_and_judges_of_all_three_in_one_run(batches: BatchRuns) -> None:
    batches.benchmark = write_benchmark(batches.benchmark.parent, n=4)
    judges = [word for name in ("openai", "anthropic", "google") for word in ("--judge", f"{name}-judge")]
    done = batches.run("openai-m", "anthropic-m", "google-m", "baseline/majority", options=judges)
    assert "google-m, google-judge: requests are sent directly, because its service has no batch API" in done.err
    runs = {run["model"]: run for run in done.json["runs"]}
    assert {run["metrics"]["jury"]["value"] for run in runs.values()} == {4.0}
    # Models, then judges: 4 completions that three models share, and 4 of the baseline's.
    assert batches.sizes[:2] == [4, 4]
    assert sorted(len(set(names)) for names in batches.services.taken[2:]) == [8, 8]
    for name, share in (("openai-m", 0.5), ("anthropic-m", 0.5), ("google-m", 1)):
        assert runs[name]["cost_usd"] == pytest.approx(4 * COST_USD * share)
    bill = batches.medhelm("cost", "--by", "judge", "--json").json
    assert done.json["cost_usd"] == pytest.approx(bill["total"]["spent_usd"])
    assert set(batches.services.handed_over.values()) == {1}


def test_a_smaller_run_collects_the_whole_of_an_earlier_batch(batches: BatchRuns) -> None:
    batches.leave_waiting("openai-m")
    batches.run("openai-m", options=("--limit", "3"))
    with Cache(batches.store.cache_file) as cache:
        assert all(cache.get(bytes.fromhex(name)) for name in batches.services.taken[0])
    assert batches.run("openai-m").json["cost_usd"] == 0
    assert set(batches.services.handed_over.values()) == {1}


def test_a_batch_that_the_service_has_forgotten_is_told_and_not_bought_again(batches: BatchRuns) -> None:
    batches.leave_waiting("openai-m")
    batches.services.batches.clear()
    assert "the service no longer has batch batch_0" in batches.run("openai-m", code=1).err
    assert (len(batches.sizes), batches.services.direct) == (1, [])


@POSIX
def test_two_processes_share_one_batch(batches: BatchRuns) -> None:
    batches.services.looks = 10**9
    first = batches.start("openai-m")
    batches.services.wait_for_a_look()
    second = batches.start("openai-m")
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    batches.services.looks = 0
    ends = [process.communicate(timeout=600)[0] for process in (first, second)]
    assert [json.loads(out)["runs"][0]["cost_usd"] for out in ends] == [HALF_USD] * 2
    assert (set(batches.services.handed_over.values()), batches.services.direct) == ({1}, [])


@pytest.mark.parametrize("shared", [True, False])
def test_one_model_under_two_names_is_bought_once_if_they_share_completions(batches: BatchRuns, shared: bool) -> None:
    written = entry(OPENAI, batches.services, "gpt-m")[:-1]
    with batches.models.open("a", encoding="utf-8") as file:
        for name in ("one", "two"):
            file.write(f"{name}: {written}, share_completions: {str(shared).lower()}}}\n")
    done = batches.run("one", "two")
    assert batches.sizes == [N] * (1 if shared else 2)
    assert done.json["cost_usd"] == pytest.approx(sum(batches.sizes) * COST_USD / 2)


def test_a_judge_s_second_try_is_asked_directly(batches: BatchRuns) -> None:
    seen: list[int] = []

    def answering(body: Body) -> Answer:
        if "judge" in body["model"] and question(body) == 1 and not seen:
            seen.append(1)
            return OPENAI.answer("hm")
        return respond(body)

    batches.services.answer_with(answering)
    batches.benchmark = write_benchmark(batches.benchmark.parent, n=4)
    done = batches.run("openai-m", options=JUDGE)
    assert batches.sizes == [4, 4]
    assert [body["model"] for body in batches.services.direct] == ["judge-o"]
    assert done.json["cost_usd"] == pytest.approx((8 / 2 + 1) * COST_USD)


def test_the_plan_shows_both_prices(batches: BatchRuns) -> None:
    batches.benchmark = write_benchmark(batches.benchmark.parent, n=4)
    judges = ["--judge", "openai-judge", "--judge", "google-judge"]
    words = ["plan", *batches.words("openai-m", "google-m", "baseline/majority")[1:], *judges]
    direct, both = batches.medhelm(*words).json, batches.medhelm(*words, "--batch").json
    assert both["cost_usd"] == direct["cost_usd"]
    rows = {(row["model"], row["role"]): row for row in both["rows"]}
    for key, share in ((("openai-m", "model"), 0.5), (("google-m", "model"), 1.0), (("google-judge", "judge"), 1.0)):
        row = rows[key]
        assert row["batch_cost_usd"] == pytest.approx({k: share * v for k, v in row["cost_usd"].items()})
    judge = rows["openai-judge", "judge"]
    assert 0.5 < judge["batch_cost_usd"]["max"] / judge["cost_usd"]["max"] < 0.8, "second tries cost the full price"
    assert batches.services.asked == []


def test_the_plan_knows_what_waits_in_a_batch(batches: BatchRuns) -> None:
    words = ["plan", *batches.words(OPENAI, "google-m")[1:]]
    before = batches.medhelm(*words, "--batch").json
    batches.leave_waiting(OPENAI)
    after = batches.medhelm(*words, "--batch").json
    assert [(row["waiting"], row["cached"]) for row in after["rows"]] == [(N, 0), (0, 0)]
    assert after["batch_cost_usd"] == before["batch_cost_usd"]  # handed over, and not charged yet
    warnings = " ".join(batches.medhelm(*words).json["warnings"])
    assert "9 of the requests are in batches (`medhelm batches`) and would be sent again" in warnings
    done = batches.run(OPENAI, batch=False)
    assert "9 requests are pending in batch" in done.err


@POSIX
def test_a_second_ctrl_c_does_not_wait_for_a_handing_over_that_hangs(batches: BatchRuns) -> None:
    batches.services.hold_after = 1
    process = batches.start("openai-m")
    batches.services.wait_for_batches(1)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "continue at their service" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    batches.services.release()
    batches.run("openai-m")
    assert set(batches.services.handed_over.values()) == {1}


@BOTH
def test_answers_that_break_off_on_their_way_are_fetched_again(batches: BatchRuns, vendor: Vendor) -> None:
    batches.services.broken = 2
    done = batches.run(vendor)
    assert (batches.services.broken, batches.services.direct) == (0, [])
    assert done.json["cost_usd"] == HALF_USD


def test_a_budget_that_batches_may_pass_stops_before_they_are_handed_over(batches: BatchRuns) -> None:
    batches.benchmark = write_benchmark(batches.benchmark.parent, n=4)
    rows = batches.medhelm("plan", *batches.words("openai-m")[1:], *JUDGE, "--batch").json["rows"]
    (most,) = (row["batch_cost_usd"]["max"] for row in rows if row["role"] == "model")
    done = batches.run("openai-m", options=(*JUDGE, "--max-cost", str(most * 0.99)), code=3)
    assert ("none was submitted" in done.err, batches.services.asked) == (True, [])
    batches.run("openai-m", options=(*JUDGE, "--max-cost", str(most * 1.01)), code=3)
    assert (batches.sizes, batches.services.direct) == ([4], [])
    batches.run("openai-m", options=(*JUDGE, "--max-cost", "1"))
    assert batches.sizes == [4, 4]


def test_prompts_are_cut_to_fit_in_a_batch_as_they_are_alone(batches: BatchRuns) -> None:
    batches.benchmark = make_benchmark(batches.benchmark.parent, n=4, extra="shorten: question\n")
    words = " ".join(f"The {n}th day was like the one before." for n in range(60))
    rows = [{"id": f"q{i}", "question": f"{words} This is number {i}?", "answer": "A", "topic": "0"} for i in range(4)]
    (batches.benchmark / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with batches.models.open("a", encoding="utf-8") as file:
        file.write(f"small: {entry(OPENAI, batches.services, 'small', window=200)}\n")
    batches.run("small", options=("--store", "direct"), batch=False)
    batches.run("small", options=("--store", "batched"))
    (batch,) = batches.services.batches.values()
    prompts = {OPENAI.prompt_of(body) for _, body in batch["requests"]}
    assert prompts == {OPENAI.prompt_of(body) for body in batches.services.direct}
    assert all(len(prompt) < len(words) for prompt in prompts)


# --- nothing stays at the service, unless the user wants it there -----------------------------------------------------

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
