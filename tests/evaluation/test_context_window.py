"""Prompts that are too long for a model: what it reads of them, where they are cut, and what is never bought twice."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.cost import UNKNOWN
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import option_lines, render
from medhelm.domain import AnswerField, Benchmark, FailureCode, Instance, Message, Model, Request, Source, Taxonomy
from medhelm.errors import ProviderError
from medhelm.evaluation.context_window import (
    ENOUGH,
    ContextFitter,
    RunHistory,
    TokenEstimator,
    TruncatedPrompt,
    n_characters,
    n_truncated,
    sentence_starts,
    stated_window,
    truncate_to,
    truncated_field,
    word_starts,
)
from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.requests import Sampling, model_request
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.models.providers.errors import classify_error, parse_error
from medhelm.models.providers.openai import SERVICE
from medhelm.results.leaderboard import leaderboard
from medhelm.results.runs.answers import find_instance
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.definitions import write_rows
from tests.support.benchmarks.judged import mock
from tests.support.benchmarks.library import SHIPPED, sample_tier
from tests.support.benchmarks.library import benchmark as shipped
from tests.support.remarks import texts
from tests.support.servers.openai import Server
from tests.support.servers.small_context import OPENAI, SILENT, SmallWindow

LEFT_OUT = re.compile(r"\[([\d,]+) of ([\d,]+) characters, from the beginning, are left out here\.\]\n")


def benchmark_of(name: str | Path) -> Benchmark:
    (found,) = load_benchmarks([str(name)], metrics=METRIC_NAMES)
    return found


def model(server: Server, window: int | None, **changes: Any) -> Model:
    return replace(mock(server), window=window, **changes)


def run(tmp_path: Path, benchmark: Benchmark, *models: Model, data: Path | None = None, **choices: Any) -> Evaluation:
    settings = Settings(**{"attempts": 2, "limit": 40, **choices})
    return evaluate([benchmark], models, store=tmp_path / "store", data=data, settings=settings)


def instances(benchmark: Benchmark, data: Path | None = None) -> list[Instance]:
    return list(open_dataset(benchmark, data=data, tier="real", options=SampleOptions(limit=40)))


def long_toy(tmp_path: Path, *, extra: str = "", n: int = 12) -> Benchmark:
    """A short question about a long text."""
    folder = make_benchmark(tmp_path, n=n)
    text = (folder / "benchmark.yaml").read_text().replace("Question {question}", "Note: {note}\n  Question {question}")
    (folder / "benchmark.yaml").write_text(text.replace("max_tokens: 5", f"max_tokens: 5\n{extra}"))
    rows = [
        {
            **{"id": f"q{i}", "question": f"number {i}?", "answer": "A", "topic": "0"},
            "note": " ".join(f"Sentence {i} {k} is about nothing at all." for k in range(40)),
        }
        for i in range(n)
    ]
    write_rows(folder / "rows.jsonl", rows)
    return benchmark_of(folder)


# --- real rows, a window of 512 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field", "window"), [("pubmed_qa", "context", 512), ("aci_bench", "conversation", 1280)]
)
def test_with_a_small_window_the_question_stays_and_the_text_is_cut_at_sentences(
    tmp_path: Path, data_dir: Path, server: Server, name: str, field: str, window: int
) -> None:
    small = SmallWindow(window)
    server.answer_with(small)
    benchmark = benchmark_of(name)
    (done,) = run(tmp_path, benchmark, model(server, window), data=data_dir).runs
    assert (done.status, done.n, done.failures) == ("complete", 40, {})
    assert len(small.refused) < 16, "only while nothing is known of its tokens"
    columns = read_columns(done, ["instance_id", "left_out"])
    left_out = dict(zip(columns["instance_id"], columns["left_out"], strict=True))
    assert sum(map(bool, left_out.values())) == done.n_truncated > 5
    assert sum(left_out.values()) == done.truncated_characters
    expected = set()
    for instance in instances(benchmark, data_dir):
        text, whole = instance.fields[field], render(benchmark, instance).messages[-1].text
        if not (cut := left_out[instance.id]):
            expected.add(whole)
            continue
        # All that stands before and behind the field is there, and its end; it begins where a sentence does.
        before, _, behind = whole.partition(text)
        mark = f"[{cut:,} of {len(text):,} characters, from the beginning, are left out here.]\n"
        expected.add(before + mark + text[cut:] + behind)
        # A last turn that is too long is cut between words: some speak on and on without a full stop.
        assert cut in sentence_starts(text) or (cut in word_starts(text) and cut > max(sentence_starts(text)))
    assert set(small.passed) == expected


# --- nothing is bought twice ------------------------------------------------------------------------------------------


def test_the_same_again_sends_nothing_though_more_is_known_of_its_tokens(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(300))
    benchmark, asked = long_toy(tmp_path), model(server, 300)
    (first,) = run(tmp_path, benchmark, asked).runs
    sent = server.count
    assert first.n_truncated == 12
    assert len(set(read_columns(first, ["left_out"])["left_out"])) > 1, "the first were cut by the rule of thumb"
    (again,) = run(tmp_path, benchmark, asked).runs
    assert (server.count, again.requests_cached) == (sent, 12)
    (rescored,) = rejudge([benchmark], JuryChange(), EvaluationSetup(store=tmp_path / "store")).runs
    names = ["instance_id", "left_out", "request_digest", "completion"]
    for later in (again, rescored):
        assert read_columns(later, names) == read_columns(first, names)
        assert (later.n_truncated, later.truncated_characters) == (12, first.truncated_characters)
    assert rescored.snapshots == {"mock-1": 12}


def test_the_plan_knows_what_was_bought_and_what_will_be_shortened(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(300))
    benchmark, asked = long_toy(tmp_path), model(server, 300)
    setup = EvaluationSetup(store=tmp_path / "store")
    (row,) = make_plan([benchmark], [asked], setup).rows
    assert (row.requests, row.cached) == (12, 0)
    assert row.input_tokens is not None
    assert row.input_tokens <= 12 * 300
    run(tmp_path, benchmark, asked)
    plan = make_plan([benchmark], [asked], setup)
    assert [(row.requests, row.cached, row.input_tokens) for row in plan.rows] == [(12, 12, 0)]
    (told,) = [text for text in plan.warnings if "toy" in text]
    assert told == "toy with " + asked.name + ": 12 of 12 prompts are truncated to fit it, by estimate."
    unfit = make_plan([benchmark], [model(server, 24)], setup)
    assert unfit.rows[0].requests == 0
    assert any("12 of 12 instances do not fit it and are not sent" in text for text in unfit.warnings)


# --- what a server says -----------------------------------------------------------------------------------------------


def test_a_server_that_finds_it_too_long_gets_less_and_its_window_is_learnt(tmp_path: Path, server: Server) -> None:
    """Text with more tokens than is usual: every letter is one."""
    small = SmallWindow(300, pieces=r"\w|[^\w\s]", words=SILENT)
    server.answer_with(small)
    benchmark, asked = long_toy(tmp_path), model(server, 300)
    (done,) = run(tmp_path, benchmark, asked, concurrency=1).runs
    assert (done.status, done.n_failed, done.n_truncated) == ("complete", 0, 12)
    assert 0 < len(small.refused) < 2 * ENOUGH
    assert done.requests_sent == server.count == 12 + len(small.refused)
    # What was refused costs nothing, and what was left out counts for nothing in later estimates.
    assert done.usage.input == sum(3 + 4 + len(re.findall(r"\w|[^\w\s]", text)) for text in small.passed)
    history = RunHistory(open_store(tmp_path / "store")).ratio(asked, benchmark)
    assert history.tokens_per_character == pytest.approx(done.usage.input / sum(map(len, small.passed)), rel=2e-3)
    # A window that the server names is used instead of the known one; none is guessed.
    for number, (known, words, status) in enumerate(((4000, OPENAI, "complete"), (None, SILENT, "failed"))):
        server.answer_with(small := SmallWindow(300, words=words))
        (done,) = run(tmp_path / str(number), benchmark, model(server, known), concurrency=1).runs
        assert (done.status, len(small.refused) <= 3) == (status, known is not None)
        assert dict(done.failures) == ({} if known else {"context_length": 12})


WINDOWS = {
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.": 8192,
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000.": 272_000,
    "the prompt has 900 tokens and its answer may have 200; together the model can hold 1,024": 1024,
    "the request exceeds the available context size. try increasing the context size": None,
    "prompt is too long: 209412 tokens > 200000 maximum": 200_000,
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length": 200_000,
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": 1_048_576,
    "Prompt contains 40960 tokens, too large for model with 32768 maximum context length": 32768,
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200": 4096,
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.": 131_072,
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)": 262_144,
    "the input token count is 40000 but model only supports up to 32768. Reduce the input token count": 32768,
    "when context the overflows. However, the model is loaded with context length of only 1056 tokens": 1056,
    "The number of tokens to keep from the initial prompt is greater than the context length (n_ctx: 4096)": 4096,
    "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens": 131_072,
    "Range of input length should be [1, 30720]": 30720,
    "Request body too large for gpt-4o model. Max size: 8000 tokens.": 8000,
    "too many tokens: size limit exceeded by 17139 tokens. The limit for this model is 288000 tokens.": 288_000,
    "Please reduce the length of the messages or completion. Current length is 8213 while limit is 8192": 8192,
    "prompt too long; exceeded max context length by 4096 tokens": None,
    "maximum context length is 0 tokens": None,
}
"""What servers say of a prompt that is too long -> their window in tokens."""


def code_of(message: str) -> str:
    """The code of the error of a server that says this."""
    with pytest.raises(ProviderError) as told:
        classify_error(
            parse_error(400, {"error": {"message": message}}),
            Model(name="m", provider="openai", remote_name="m"),
            SERVICE,
        )
    return told.value.code


@pytest.mark.parametrize(("message", "window"), WINDOWS.items())
def test_windows_are_read_from_complaints(message: str, window: int | None) -> None:
    assert stated_window(message) == window
    if "together the model can hold" not in message:  # a model within this process, which says it with the code
        assert code_of(message) == FailureCode.CONTEXT_LENGTH


def test_other_complaints_are_not_about_the_window() -> None:
    completion = "max_tokens is too large: 200000. This model supports at most 16384 completion tokens"
    assert FailureCode.CONTEXT_LENGTH not in (code_of(completion), code_of("Rate limit reached for tokens per minute"))


# --- what may not be shortened ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("extra", "limit"), [("shorten: none", None), ("", 4000)], ids=["whole", "no room"])
def test_what_does_not_fit_is_not_sent(tmp_path: Path, server: Server, extra: str, limit: int | None) -> None:
    server.answer_with(SmallWindow(300))
    asked = model(server, 300, max_tokens=limit)
    done = run(tmp_path, long_toy(tmp_path, extra=extra), asked)
    (failed,) = done.runs
    assert (failed.failures, failed.n_failed, server.count) == ({FailureCode.DOES_NOT_FIT: 12}, 12, 0)
    assert done.exit_code == 1
    (message,) = [text for text in done.messages if "does not fit" in text]
    assert f"reads 300 tokens, the answer may have {limit or 5:,} of them, and nothing more may be left out" in message
    assert ("A lower `max_tokens` in models.yaml leaves more room" in message) is bool(limit)


# --- what readers are told --------------------------------------------------------------------------------------------


def test_readers_are_told(tmp_path: Path, server: Server) -> None:
    server.answer_with(SmallWindow(10_000))
    asked = model(server, 300)
    run(tmp_path, long_toy(tmp_path), asked, model(server, None, name="large/mock", remote_name="large"))
    board = leaderboard([tmp_path / "store"])
    (remark,) = [text for text in texts(board.remarks) if "truncated" in text]
    assert remark == f"{asked.name} got 12 prompts truncated to fit its context window: toy 12 of 12."
    case = find_instance([tmp_path / "store"], "toy", "q3")
    assert {one["model"]: one["left_out"] > 0 for one in case["completions"]} == {asked.name: True, "large/mock": False}
    assert not LEFT_OUT.search(case["messages"][-1]["content"]), "the whole prompt is stored for all models"


# --- the estimate -----------------------------------------------------------------------------------------------------


def fitter(*bought: Request, estimator: TokenEstimator | None = None) -> ContextFitter:
    known = {request.digest for request in bought}
    return ContextFitter(estimator or TokenEstimator(lambda: RunHistory(None)), lambda request: request.digest in known)


def request_of(benchmark: Benchmark, asked: Model) -> Request:
    """The request about the first instance."""
    instance = instances(benchmark)[0]
    return model_request(benchmark, asked, instance, render(benchmark, instance), Sampling(None))


def test_a_longer_prompt_is_sent_once_texts_are_known_to_have_few_tokens(tmp_path: Path, server: Server) -> None:
    asked, benchmark = model(server, 300), long_toy(tmp_path)
    request = request_of(benchmark, asked)
    estimator = TokenEstimator(lambda: RunHistory(None))
    first = fitter(estimator=estimator).fit(request, benchmark)
    for characters in range(1000, 1000 + ENOUGH):
        assert estimator.ratio(asked, benchmark) == UNKNOWN
        estimator.learn(asked, benchmark, characters, characters // 5)
        estimator.learn(asked, benchmark, characters, 0)  # not counted by the provider
    assert estimator.ratio(asked, benchmark).most == pytest.approx(0.2, rel=0.05)
    assert first.left_out > fitter(estimator=estimator).fit(request, benchmark).left_out > 0
    # What was bought at the first length is taken at any time, and so is the whole, wherever it was bought.
    assert fitter(first.request, estimator=estimator).fit(request, benchmark) == first
    assert fitter(request, estimator=estimator).fit(request, benchmark).left_out == 0


def test_a_server_that_cuts_in_silence_is_sent_less_while_little_is_known(tmp_path: Path, server: Server) -> None:
    benchmark = long_toy(tmp_path)
    left_out = []
    for changes in ({}, {"provider": "ollama"}, {"base_url": "http://127.0.0.1:11434/v1"}):
        fit = fitter().fit(request_of(benchmark, model(server, 400, **changes)), benchmark)
        left_out.append(fit.left_out)
        per_token = UNKNOWN.most if changes else UNKNOWN.tokens_per_character
        assert n_characters(fit.request.prompt) * per_token <= 400 - 5 - 24
    assert left_out[1] == left_out[2] > left_out[0] > 0


# --- what may be left out, where it is cut, and what never is left out ------------------------------------------------

NOTE = "On Monday she fell. On Tuesday she slept. On Wednesday she was well."


def benchmark(prompt: str = "Read.\n{note}\nQ: {question}", **settings: Any) -> Benchmark:
    usual = Benchmark(
        name="b",
        title="B",
        description="",
        taxonomy=Taxonomy(category="c", subcategory="s"),
        access="public",
        source=Source(kind="jsonl"),
        prompt=prompt,
        answer=AnswerField(column="a"),
        metrics=("exact_match",),
        max_tokens=5,
    )
    return replace(usual, **settings)


def instance(note: str = NOTE, question: str = "Did she fall?", **settings: Any) -> Instance:
    return Instance(id="1", fields={"note": note, "question": question}, references=(), **settings)


def truncated(of: Benchmark, one: Instance, most: int) -> TruncatedPrompt | None:
    return next(truncate_to(of, one, (most,)), None)


VIGNETTE = instance(choices=("yes", "no"), labels=("A", "B"))


FIELDS = {
    "the longest": (benchmark(), instance(), "note"),
    "none by name": (benchmark(shorten="none"), instance(), ""),
    "another by name": (benchmark(shorten="question"), instance(), "question"),
    "not there": (benchmark(shorten="elsewhere"), instance(), ""),
    "a vignette": (benchmark("{note}\n{options}"), VIGNETTE, ""),
    "a vignette by name": (benchmark("{note}\n{options}", shorten="note"), VIGNETTE, "note"),
    "a choice beside a text": (benchmark("{note}\n{question}\n{options}"), VIGNETTE, "note"),
    "less than half": (benchmark("Instruction. " * 10 + "{note}"), instance(), ""),
    "in the system message": (benchmark("{question}", system="You read {note}"), instance(), "note"),
    "a question alone": (benchmark("{question}"), instance(question=NOTE), ""),
    "a long question": (benchmark(), instance(question=NOTE * 9), ""),
    "no field": (benchmark("No field at all."), instance(), ""),
    "a conversation": (benchmark(""), instance(turns=(Message("user", NOTE),)), ""),
}


@pytest.mark.parametrize(("of", "one", "field"), FIELDS.values(), ids=FIELDS)
def test_which_field_may_lose_something(of: Benchmark, one: Instance, field: str) -> None:
    assert truncated_field(of, one) == field


def test_the_oldest_part_goes_and_a_mark_stays() -> None:
    note = NOTE * 4
    most = n_characters(render(benchmark(), instance())) + 80
    shorter = truncated(benchmark(), instance(note), most)
    assert shorter is not None
    mark = f"[{shorter.left_out:,} of {len(note):,} characters, from the beginning, are left out here.]\n"
    assert shorter.prompt.messages[0].text == f"Read.\n{mark}{note[shorter.left_out :]}\nQ: Did she fall?"
    assert note[: shorter.left_out].endswith(". ")
    assert n_characters(shorter.prompt) <= most
    # A stored run knows the whole prompt and what was left out of it, which tells the length that was sent.
    sent = n_characters(render(benchmark(), instance(note)))
    assert abs(sent - n_truncated(shorter.left_out, sent) - n_characters(shorter.prompt)) <= 2
    assert n_truncated(0, sent) == 0
    # A text without sentences is cut between words.
    shorter = truncated(benchmark(), instance("word " * 200 + "end"), 300)
    assert shorter is not None
    assert shorter.left_out % 5 == 0


@given(
    most=st.integers(0, 400),
    words=st.lists(st.sampled_from(["a", "bc.", "Def", "g.\n", "H?", "Long" * 25]), max_size=80),
)
def test_what_comes_out_is_short_enough_and_loses_as_little_as_it_can(most: int, words: list[str]) -> None:
    text = " ".join(words)
    one, of = instance(text, "Q?"), benchmark(shorten="note")
    shorter = truncated(of, one, most)
    if shorter is None:
        return
    assert n_characters(render(of, one)) > most >= n_characters(shorter.prompt)
    assert 0 < shorter.left_out < len(text)
    assert (
        shorter.prompt.messages[0].text.endswith(text[shorter.left_out :].rstrip() + "\nQ: Q?") or text[-1:].isspace()
    )
    starts = sentence_starts(text) if shorter.left_out in sentence_starts(text) else word_starts(text)
    for start in (start for start in starts if start < shorter.left_out):
        note = f"[{start:,} of {len(text):,} characters, from the beginning, are left out here.]\n{text[start:]}"
        assert n_characters(render(of, instance(note, "Q?"))) > most, "an earlier cut would have been enough"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_question_stands_at_any_length(name: str) -> None:
    """All that is asked, all options and the end of the text are there, whatever is left out of its beginning."""
    of = shipped(name)
    asked = {"question", "instructions", "criterion", "definition", "condition_words", "procedure", "diagnosis"}
    for one in sample_tier(name)[:4]:
        whole = render(of, one)
        field = truncated_field(of, one)
        assert field not in asked
        for shorter in truncate_to(of, one, range(n_characters(whole), 0, -60)):
            assert field
            said, text = shorter.prompt.messages[-1].text, one.fields[field]
            before, _, behind = whole.messages[-1].text.partition(text)
            assert said.startswith(before)
            assert said.endswith(text[shorter.left_out :] + behind)
            assert [m.role for m in shorter.prompt.messages] == [m.role for m in whole.messages]
            assert option_lines(of, one) in said


# --- where a text can be cut ------------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """The pieces between the starts."""
    starts = [0, *sentence_starts(text), len(text)]
    return [text[a:b] for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("One. Two.", ["One. ", "Two."]),
        ('He said "no." Then he left.', ['He said "no." ', "Then he left."]),
        # Not every full stop ends a sentence.
        ("Seen by Dr. Low and Mrs. Pine.", ["Seen by Dr. Low and Mrs. Pine."]),
        ("Took approx. 5 mg, i.e. half. Then slept.", ["Took approx. 5 mg, i.e. half. ", "Then slept."]),
        ("Na 3.5 mmol/l. K 4.1.", ["Na 3.5 mmol/l. ", "K 4.1."]),
        ("ended. in small letters", ["ended. in small letters"]),
        # Lines of a note, a list, a conversation.
        ("BP 120/80\n- no fever\n\n1. Aspirin", ["BP 120/80\n", "- no fever\n\n", "1. Aspirin"]),
        ("[doctor] hi , brian .\n[patient] hello .", ["[doctor] hi , brian .\n", "[patient] hello ."]),
        ("All well.\r\nHome.\r\n\r\nPLAN:\r\n* rest", ["All well.\r\n", "Home.\r\n\r\n", "PLAN:\r\n", "* rest"]),
        ("\u2022 rest\n\u2022 water", ["\u2022 rest\n", "\u2022 water"]),
        # Numbers of a list within a line, and numbers that end a sentence.
        ("PLAN: 1. Rest. 2. Water.", ["PLAN: 1. Rest. ", "2. Water."]),
        ("DIAGNOSES:1. Chylous ascites.2. Pain.", ["DIAGNOSES:1. Chylous ascites.2. Pain."]),
        ("Pulse 68. Respirations 12. Weight 70 kg.", ["Pulse 68. ", "Respirations 12. ", "Weight 70 kg."]),
        # Notes that lost their line ends.
        ("Intact.MOTOR EXAM: Normal.GAIT: Steady.", ["Intact.", "MOTOR EXAM: Normal.", "GAIT: Steady."]),
        ("Fell ill in the U.S. The food was bad.", ["Fell ill in the U.S. The food was bad."]),
    ],
)
def test_sentences_are_told_apart(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aB1.!? \n\"')", max_size=60))
def test_starts_lie_within_the_text_and_begin_something(text: str) -> None:
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert all(0 < start < len(text) and not text[start].isspace() for start in starts)
    assert "".join(sentences(text)) == text
    assert list(word_starts(text)) == [match.end() - 1 for match in re.finditer(r"(?<=\s)\S", text)]
