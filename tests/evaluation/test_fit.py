"""Prompts that are too long for a model: what it reads of them, what is said of it, and what is never bought twice."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from medhelm.analysis.cost import UNKNOWN, learn_token_ratio
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import option_lines, render
from medhelm.domain import Benchmark, FailureCode, Instance, Model, Prompt, Run
from medhelm.errors import ProviderError
from medhelm.evaluation.context import (
    ENOUGH,
    LENGTHS,
    ContextFitter,
    RunHistory,
    TokenEstimator,
    n_characters,
    sentence_starts,
    stated_window,
    word_starts,
)
from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.requests import model_request
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, JuryChange, Settings
from medhelm.models.catalog import find_models
from medhelm.models.providers.errors import classify_error, parse_error
from medhelm.models.providers.openai import SERVICE
from medhelm.results.cases import find_instance
from medhelm.results.leaderboard import leaderboard
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.runs import read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
from tests.support.servers.small_context import SILENT, SmallWindow
from tests.support.servers.vendors import KEYS, VENDORS, Vendor

LEFT_OUT = re.compile(r"\[([\d,]+) of ([\d,]+) characters, from the beginning, are left out here\.\]\n")


def benchmark_of(name: str | Path) -> Benchmark:
    (found,) = load_benchmarks([str(name)], metrics=METRIC_NAMES)
    return found


def model(server: Server, window: int | None, **changes: Any) -> Model:
    (found,) = find_models([f"openai/mock@{server.url}/v1"], file=None, environment={})
    return Model(**{**{name: getattr(found, name) for name in found.__slots__}, "window": window, **changes})


def run(
    tmp_path: Path, benchmarks: Sequence[Benchmark], models: Sequence[Model], data: Path | None, **choices: Any
) -> Evaluation:
    settings = Settings(**{"attempts": 2, "limit": 40, **choices})
    return evaluate(benchmarks, models, store=tmp_path / "store", data=data, settings=settings)


def instances(benchmark: Benchmark, data: Path | None, limit: int | None = 40) -> dict[str, Instance]:
    return {one.id: one for one in open_dataset(benchmark, data=data, tier="real", options=SampleOptions(limit=limit))}


def long_toy(tmp_path: Path, *, extra: str = "", sentences: int = 40, n: int = 12) -> Benchmark:
    """A question about a long text, and beside it the text's last sentence as the question."""
    folder = make_benchmark(tmp_path, n=n)
    text = (folder / "benchmark.yaml").read_text().replace("Question {question}", "Note: {note}\n  Question {question}")
    (folder / "benchmark.yaml").write_text(text.replace("max_tokens: 5", f"max_tokens: 5\n{extra}"))
    rows = [
        f'{{"id": "q{i}", "question": "number {i}?", "answer": "A", "topic": "0", "note": "'
        + " ".join(f"Sentence {i} {k} is about nothing at all." for k in range(sentences))
        + '"}\n'
        for i in range(n)
    ]
    (folder / "rows.jsonl").write_text("".join(rows))
    return benchmark_of(folder)


# --- real rows, a window of 512 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field", "room"),
    [("pubmed_qa", "context", 0), ("medcalc_bench", "note", 0), ("aci_bench", "conversation", 768)],
)
def test_with_a_small_window_the_question_stays_and_the_text_is_cut_at_sentences(
    tmp_path: Path, data_dir: Path, server: Server, name: str, field: str, room: int
) -> None:
    window = 512 + room
    small = SmallWindow(window)
    server.answer_with(small)
    benchmark = benchmark_of(name)
    (done,) = run(tmp_path, [benchmark], [model(server, window)], data_dir).runs
    known = instances(benchmark, data_dir)
    assert (done.status, done.n, done.failures) == ("complete", 40, {})
    assert len(small.refused) < 16, "only while nothing is known of its tokens"
    columns = read_columns(done, ["instance_id", "left_out"])
    left_out = dict(zip(columns["instance_id"], columns["left_out"], strict=True))
    assert sum(map(bool, left_out.values())) == done.n_truncated > 5
    assert sum(left_out.values()) == done.truncated_characters
    expected = set()
    for instance in known.values():
        text, whole = instance.fields[field], render(benchmark, instance).messages[-1].text
        if not (cut := left_out[instance.id]):
            expected.add(whole)
            continue
        # All that stands before and behind the field is there, and its end; it begins where a sentence does.
        before, _, behind = whole.partition(text)
        mark = f"[{cut:,} of {len(text):,} characters, from the beginning, are left out here.]\n"
        sent = before + mark + text[cut:] + behind
        assert LEFT_OUT.search(sent)
        # A last turn that is too long is cut between words: some speak on and on without a full stop.
        assert cut in sentence_starts(text) or (cut in word_starts(text) and cut > max(sentence_starts(text)))
        assert option_lines(benchmark, instance) in sent
        assert instance.fields.get("question", "") in sent
        expected.add(sent)
    assert set(small.passed) == expected


# --- nothing is bought twice ------------------------------------------------------------------------------------------


def test_the_same_again_sends_nothing_though_more_is_known_of_its_tokens(tmp_path: Path, server: Server) -> None:
    small = SmallWindow(300)
    server.answer_with(small)
    benchmark = long_toy(tmp_path)
    (first,) = run(tmp_path, [benchmark], [model(server, 300)], None).runs
    sent = server.count
    assert first.n_truncated == 12
    assert len(set(read_columns(first, ["left_out"])["left_out"])) > 1, "the first were cut by the rule of thumb"
    (again,) = run(tmp_path, [benchmark], [model(server, 300)], None).runs
    assert (server.count, again.requests_cached) == (sent, 12)
    names = ["instance_id", "left_out", "request_digest"]
    assert read_columns(first, names) == read_columns(again, names)
    assert (again.n_truncated, again.truncated_characters) == (first.n_truncated, first.truncated_characters)


def test_the_plan_knows_what_was_bought_and_what_will_be_shortened(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(300))
    benchmark, asked = long_toy(tmp_path), model(server, 300)
    (row,) = make_plan([benchmark], [asked], EvaluationSetup(store=tmp_path / "store")).rows
    assert (row.requests, row.cached) == (12, 0)
    assert row.input_tokens is not None
    assert row.input_tokens <= 12 * 300
    run(tmp_path, [benchmark], [asked], None)
    plan = make_plan([benchmark], [asked], EvaluationSetup(store=tmp_path / "store"))
    assert [(row.requests, row.cached, row.input_tokens) for row in plan.rows] == [(12, 12, 0)]
    (told,) = [text for text in plan.warnings if "toy" in text]
    assert told == "toy with " + asked.name + ": 12 of 12 prompts are truncated to fit it, by estimate."
    unfit = make_plan([benchmark], [model(server, 24)], EvaluationSetup(store=tmp_path / "store"))
    assert unfit.rows[0].requests == 0
    assert any("12 of 12 instances do not fit it and are not sent" in text for text in unfit.warnings)


def test_new_numbers_from_stored_runs_keep_what_was_left_out(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(300))
    benchmark = long_toy(tmp_path)
    (first,) = run(tmp_path, [benchmark], [model(server, 300)], None).runs
    names = ["instance_id", "left_out", "request_digest", "completion"]
    before = read_columns(first, names)
    (again,) = rejudge([benchmark], JuryChange(), EvaluationSetup(store=tmp_path / "store")).runs
    assert read_columns(again, names) == before
    assert (again.n_truncated, again.truncated_characters) == (12, first.truncated_characters)
    assert again.snapshots == {"mock-1": 12}


# --- what a server says -----------------------------------------------------------------------------------------------


def test_a_server_that_finds_it_too_long_gets_less(tmp_path: Path, server: Server) -> None:
    """Text with more tokens than is usual: every letter is one."""
    small = SmallWindow(300, pieces=r"\w|[^\w\s]", words=SILENT)
    server.answer_with(small)
    (done,) = run(tmp_path, [long_toy(tmp_path)], [model(server, 300)], None, concurrency=1).runs
    assert (done.status, done.n_failed, done.n_truncated) == ("complete", 0, 12)
    assert 0 < len(small.refused) < 2 * ENOUGH
    assert done.requests_sent == server.count == 12 + len(small.refused)
    assert done.usage.input == sum(3 + 4 + len(re.findall(r"\w|[^\w\s]", text)) for text in small.passed), (
        "what was refused costs nothing"
    )


@pytest.mark.parametrize("window", [None, 4000])
def test_a_window_that_the_server_names_is_kept_to(tmp_path: Path, server: Server, window: int | None) -> None:
    small = SmallWindow(300)
    server.answer_with(small)
    (done,) = run(tmp_path, [long_toy(tmp_path)], [model(server, window)], None, concurrency=1).runs
    assert (done.status, done.n_failed, done.n_truncated) == ("complete", 0, 12)
    assert 1 <= len(small.refused) <= 3
    assert all(LEFT_OUT.search(text) for text in small.passed)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_every_vendor_s_complaint_leads_to_shorter_prompts(tmp_path: Path, server: Server, vendor: Vendor) -> None:
    """In its own wire format and its own words. Bedrock names no number, so its window has to be given."""
    complaint = vendor.errors["context length"]
    said = re.sub(r"128000|200000|1048576", "300", json.dumps(complaint.body))
    states = stated_window(said) is not None
    passed: list[str] = []

    def decide(body: dict[str, Any]) -> Answer:
        prompt = vendor.prompt_of(body)
        if len(re.findall(r"\w{1,6}|[^\w\s]", prompt)) + 5 > 300:
            return replace(complaint, body=json.loads(said))
        passed.append(prompt)
        return vendor.answer("A")

    server.answer_with(decide)
    asked, benchmark = vendor.model(server.url, window=None if states else 600), long_toy(tmp_path, n=6)
    settings = Settings(attempts=2, concurrency=1)
    (done,) = evaluate([benchmark], [asked], store=tmp_path / "store", settings=settings, environment=KEYS).runs
    assert states == (vendor.provider != "bedrock")
    assert (done.status, done.failures, done.n_truncated) == ("complete", {}, 6)
    assert len(passed) == 6
    assert all(LEFT_OUT.search(text) and f"number {n}?" in text for n, text in enumerate(passed))


def test_a_window_that_nobody_names_is_not_guessed(tmp_path: Path, server: Server) -> None:
    small = SmallWindow(300, words=SILENT)
    server.answer_with(small)
    done = run(tmp_path, [long_toy(tmp_path)], [model(server, None)], None)
    assert (done.runs[0].status, done.runs[0].failures) == ("failed", {"context_length": 12})
    assert len(small.refused) == 12


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", 8192),
        ("'max_tokens' is too large: 4000. This model's maximum context length is 2048 tokens and your request", 2048),
        ("the request exceeds the available context size. try increasing the context size", None),
        ("prompt is too long: 209412 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length", 200_000),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("the prompt has 900 tokens and its answer may have 200; together the model can hold 1,024", 1024),
        ("Prompt contains 40960 tokens, too large for model with 32768 maximum context length", 32768),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 2048. Make sure that", 2048),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200", 4096),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
        ("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", 262_144),
        ("the input token count is 40000 but model only supports up to 32768. Reduce the input token count", 32768),
        ("when context the overflows. However, the model is loaded with context length of only 1056 tokens", 1056),
        ("The number of tokens to keep from the initial prompt is greater than the context length (n_ctx: 4096)", 4096),
        ("Prompt has 300,000 tokens, but the configured context size is 131,072 tokens", 131_072),
        ("Range of input length should be [1, 30720]", 30720),
        ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000),
        ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000.", 272_000),
        ("too many tokens: size limit exceeded by 17139 tokens. The limit for this model is 288000 tokens.", 288_000),
        ("Please reduce the length of the messages or completion. Current length is 8213 while limit is 8192", 8192),
        ("prompt too long; exceeded max context length by 4096 tokens", None),
        ("invalid params, context window exceeds limit (2013)", None),
        ("Input is too long for requested model.", None),
        ("maximum context length is 0 tokens", None),
        ("", None),
    ],
)
def test_windows_are_read_from_complaints(message: str, window: int | None) -> None:
    assert stated_window(message) == window
    ours = "together the model can hold" in message  # a model within this process, which says it with the code
    if len(message) > 40 and not ours:
        asked = Model(name="m", provider="openai", remote_name="m")
        with pytest.raises(ProviderError) as told:
            classify_error(parse_error(400, {"error": {"message": message}}), asked, SERVICE)
        assert told.value.code == FailureCode.CONTEXT_LENGTH


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 200000. This model supports at most 16384 completion tokens",
        "temperature must be <= 2",
        "Rate limit reached for tokens per minute",
        "stop: at most 4 sequences",
    ],
)
def test_other_complaints_are_not_about_the_window(message: str) -> None:
    asked = Model(name="m", provider="openai", remote_name="m")
    with pytest.raises(ProviderError) as told:
        classify_error(parse_error(400, {"error": {"message": message}}), asked, SERVICE)
    assert told.value.code != FailureCode.CONTEXT_LENGTH


# --- what may not be shortened ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "limit"),
    [("shorten: none", None), ("shorten: question", None), ("", 4000)],
    ids=["whole", "another field", "no room beside the completion"],
)
def test_what_does_not_fit_is_not_sent(tmp_path: Path, server: Server, extra: str, limit: int | None) -> None:
    server.answer_with(SmallWindow(300))
    done = run(tmp_path, [long_toy(tmp_path, extra=extra)], [model(server, 300, max_tokens=limit)], None)
    assert server.count == 0
    (failed,) = done.runs
    assert (failed.failures, failed.n_failed, failed.requests_sent) == ({FailureCode.DOES_NOT_FIT: 12}, 12, 0)
    assert done.exit_code == 1


def test_some_fit_and_some_do_not(tmp_path: Path, server: Server, data_dir: Path) -> None:
    """A vignette holds its question: it is not cut, and the longest are not asked."""
    small = SmallWindow(330)
    server.answer_with(small)
    benchmark = benchmark_of("med_qa")
    (done,) = run(tmp_path, [benchmark], [model(server, 330)], data_dir, limit=100).runs
    whole = {render(benchmark, one).messages[-1].text for one in instances(benchmark, data_dir, 100).values()}
    assert done.status == "complete"
    assert 0 < done.failures[FailureCode.DOES_NOT_FIT] < 50
    assert set(small.passed) <= whole
    assert len(small.passed) == 100 - done.n_failed
    codes, words = read_columns(done, ["failure_code", "failure_message"]).values()
    said = {text for code, text in zip(codes, words, strict=True) if code == FailureCode.DOES_NOT_FIT}
    assert all("reads 330 tokens, the answer may have 1 of them, and nothing more may be left out" in s for s in said)


# --- what readers are told --------------------------------------------------------------------------------------------


def test_readers_are_told(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(10_000))
    benchmark, asked = long_toy(tmp_path), model(server, 300)
    run(tmp_path, [benchmark], [asked, model(server, None, name="large/mock", remote_name="large")], None)
    board = leaderboard([tmp_path / "store"])
    (remark,) = [text for text in texts(board.remarks) if "truncated" in text]
    assert remark == f"{asked.name} got 12 prompts truncated to fit its context window: toy 12 of 12."
    case = find_instance([tmp_path / "store"], "toy", "q3")
    assert {one["model"]: one["left_out"] > 0 for one in case["completions"]} == {asked.name: True, "large/mock": False}
    # What is stored for all models is the whole prompt.
    assert not LEFT_OUT.search(case["messages"][-1]["content"])


# --- the estimate -----------------------------------------------------------------------------------------------------


def fitter(bought: Sequence[bytes] = (), estimator: TokenEstimator | None = None) -> ContextFitter:
    return ContextFitter(
        estimator or TokenEstimator(lambda: RunHistory(None)), lambda request: request.digest in bought
    )


def test_answers_take_the_place_of_the_rule_of_thumb(tmp_path: Path, server: Server) -> None:
    asked, benchmark = model(server, 300), long_toy(tmp_path)
    estimator = TokenEstimator(lambda: RunHistory(None))
    assert estimator.ratio(asked, benchmark) == UNKNOWN
    for number in range(ENOUGH):
        assert estimator.ratio(asked, benchmark) == UNKNOWN
        estimator.learn(asked, benchmark, 1000 + number, 200)
        estimator.learn(asked, benchmark, 1000, 0)  # not counted by the provider
    found = estimator.ratio(asked, benchmark)
    assert found == learn_token_ratio([1000 + k for k in range(ENOUGH)], [200] * ENOUGH, "its answers in this run")
    assert found is not None
    assert found.most == pytest.approx(0.2, rel=0.05)


def test_a_longer_prompt_is_sent_once_texts_are_known_to_have_few_tokens(tmp_path: Path, server: Server) -> None:
    asked, benchmark = model(server, 300), long_toy(tmp_path)
    instance = next(iter(instances(benchmark, None).values()))
    request = model_request(benchmark, asked, instance, render(benchmark, instance), 0.0)
    estimator = TokenEstimator(lambda: RunHistory(None))
    fits = fitter(estimator=estimator)
    first = fits.fit(request, benchmark)
    for characters in range(1000, 1000 + ENOUGH):
        estimator.learn(asked, benchmark, characters, characters // 5)
    later = fits.fit(request, benchmark)
    assert first.left_out > later.left_out > 0
    # What was bought at the first length is taken at any time.
    assert fitter([first.request.digest], estimator).fit(request, benchmark) == first
    # And so is the whole, wherever it was bought.
    assert fitter([request.digest], estimator).fit(request, benchmark).left_out == 0


def test_a_server_that_cuts_in_silence_is_sent_less_while_little_is_known(tmp_path: Path, server: Server) -> None:
    benchmark = long_toy(tmp_path)
    instance = next(iter(instances(benchmark, None).values()))
    left_out = {}
    for name, changes in {
        "refuses": {},
        "ollama": {"provider": "ollama"},
        "ollama's port": {"base_url": "http://127.0.0.1:11434/v1"},
    }.items():
        asked = model(server, 400, **changes)
        request = model_request(benchmark, asked, instance, render(benchmark, instance), None)
        fit = fitter().fit(request, benchmark)
        left_out[name] = fit.left_out
        room = 400 - 5 - 24
        per_token = UNKNOWN.tokens_per_character if name == "refuses" else UNKNOWN.most
        assert n_characters(fit.request.prompt) * per_token <= room
    assert left_out["ollama"] == left_out["ollama's port"] > left_out["refuses"] > 0


def test_lengths_are_few_and_never_far_apart() -> None:
    assert list(LENGTHS) == sorted(LENGTHS, reverse=True)
    assert LENGTHS[0] == 6
    assert LENGTHS[-1] < 0.8
    assert all(1 < a / b < 1.16 for a, b in pairwise(LENGTHS))


def test_a_prompt_that_fits_whatever_its_tokens_needs_no_estimate(tmp_path: Path, server: Server) -> None:
    def never() -> RunHistory:
        raise AssertionError("nobody asked")

    asked, benchmark = model(server, 100_000), long_toy(tmp_path)
    instance = next(iter(instances(benchmark, None).values()))
    request = model_request(benchmark, asked, instance, render(benchmark, instance), None)
    assert fitter(estimator=TokenEstimator(never)).fit(request, benchmark).request is request
    unknown = fitter(estimator=TokenEstimator(never))
    huge = Prompt((render(benchmark, instance).messages[0],) * 1000)
    assert n_characters(huge) > 1_000_000
    assert unknown.fit(model_request(benchmark, model(server, None), instance, huge, None), benchmark).left_out == 0


def test_earlier_runs_are_learned_from_by_what_was_sent(tmp_path: Path, server: Server) -> None:
    """What was left out counts for nothing, and the mark in its place is read like everything else."""
    small = SmallWindow(300)
    server.answer_with(small)
    benchmark, asked = long_toy(tmp_path, n=20), model(server, 300)
    (done,) = run(tmp_path, [benchmark], [asked], None).runs
    factor = RunHistory(open_store(tmp_path / "store")).ratio(asked, benchmark)
    assert len(small.passed) == done.n_truncated == 20
    assert factor.tokens_per_character == pytest.approx(done.usage.input / sum(map(len, small.passed)), rel=2e-3)
    assert factor.basis == "its own run of this benchmark"


def test_a_damaged_run_beside_it_does_not_stop_an_evaluation(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(300))
    benchmark, asked = long_toy(tmp_path), model(server, 300)
    broken = tmp_path / "store" / "runs" / "other" / "model-1"
    run(tmp_path, [benchmark], [model(server, None, name="x/y", remote_name="y")], None, limit=1)
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{")
    with pytest.warns(DamagedRunWarning, match="the run of model on other is left out"):
        (done,) = run(tmp_path, [benchmark], [asked], None).runs
    assert isinstance(done, Run)
    assert done.n_truncated == 12
