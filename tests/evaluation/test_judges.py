"""Judges whose window is too small for what they would have to read: a failure, and never half a completion."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import FailureCode, JudgeTally, Jury, Message, Model, Prompt, Run
from medhelm.evaluation import batches
from medhelm.evaluation.context import ContextFitter, RunHistory, TokenEstimator
from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.recorder import NullListener
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, JuryChange, Settings
from medhelm.extensions.paper.reference_filter.scores import filter_references
from medhelm.results.leaderboard import leaderboard
from medhelm.scoring.jury.panel import request_to_judge
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.judgments import read_explanations, read_replies
from medhelm.storage.runs import read_scores
from tests.support.benchmarks.batched import entry
from tests.support.benchmarks.judged import (
    JUDGES,
    court,
    grades_of,
    is_judge,
    jury,
    mock,
    number,
    open_benchmark,
    verdict,
    write_benchmark,
)
from tests.support.benchmarks.open_ended import make_open_benchmark, marks_as_outside, row
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Answer, Server
from tests.support.servers.small_context import OPENAI, SILENT
from tests.support.servers.vendors import KEYS
from tests.support.servers.vendors import OPENAI as OPENAI_FORM

N, REPLY = 9, 200
_PIECE = re.compile(r"\w{1,6}|[^\w\s]")


def small(judges: Jury, window: int | None, *places: int, max_tokens: int = REPLY) -> Jury:
    """The same jury, with a small window for the judges at these places (all, if none is named)."""
    chosen = set(places or range(len(judges.judges)))
    listed = (
        replace(judge, window=window, max_tokens=max_tokens) if place in chosen else judge
        for place, judge in enumerate(judges.judges)
    )
    return replace(judges, judges=tuple(listed))


def words(n: int) -> str:
    """The completion on question `n`; those on the last three questions are long."""
    return f"Answer {n}. " + "It is as plain as the day. " * (400 if n >= 6 else 2)


class Listening(NullListener):
    """Keeps what is said on the way."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def run(tmp_path: Path, server: Server, judges: Jury, listener: NullListener | None = None, n: int = N) -> Evaluation:
    return evaluate(
        [open_benchmark(tmp_path, n=n)],
        [mock(server)],
        store=tmp_path / "store",
        settings=Settings(attempts=2),
        jury=judges,
        listener=listener or NullListener(),
    )


def tally_of(run: Run, judge: Model) -> JudgeTally:
    assert run.jury_result is not None
    return run.jury_result.tallies[judge.name]


def asked(server: Server, judge: str) -> Counter[int]:
    return Counter(number(body) for body in server.bodies if body["model"] == judge)


def limited(window: int, text: str, *names: str) -> Callable[[str, int, Mapping[str, Any]], Answer | None]:
    """For `court`: what these judges say to a prompt that is too long for them; it counts, and does not guess."""

    def judging(judge: str, _: int, body: Mapping[str, Any]) -> Answer | None:
        prompt = sum(8 + len(_PIECE.findall(message["content"])) for message in body["messages"])
        answer = body["max_tokens"]
        if judge not in names or prompt + answer <= window:
            return None
        said = text.format(window=window, asked=prompt + answer, prompt=prompt, answer=answer)
        return Answer(status=400, body={"error": {"message": said, "code": "context_length_exceeded"}})

    return judging


def test_a_prompt_that_does_not_fit_is_not_sent_and_counted_for_that_judge_alone(
    tmp_path: Path, server: Server
) -> None:
    server.answer_with(court(answering=words))
    judges, listening = small(jury(server), 1600, 2), Listening()
    done = run(tmp_path, server, judges, listening)
    (found,) = done.runs
    assert asked(server, "judge-3") == dict.fromkeys(range(6), 1)
    assert asked(server, "judge-1") == asked(server, "judge-2") == dict.fromkeys(range(N), 1)
    tally = tally_of(found, judges.judges[2])
    assert (tally.expected, dict(tally.failures), tally.requests_sent) == (27, {FailureCode.DOES_NOT_FIT: 9}, 6)
    # The other two have read all of it, and are enough.
    whole = {n: words(n) for n in range(N)}
    for body in server.bodies:
        assert not is_judge(body) or whole[number(body)].strip() in body["messages"][0]["content"]
    expected = [fmean(fmean(grades_of(judge, n)) for judge in JUDGES[: 3 if n < 6 else 2]) for n in range(N)]
    assert list(read_scores(found, "jury", "corrected").values) == pytest.approx(expected)
    assert (done.exit_code, found.n_failed) == (1, 0)
    assert listening.notes == []
    said = read_explanations(found, "q7")
    assert [one["failure_code"] for one in said] == [None] * 6 + [FailureCode.DOES_NOT_FIT] * 3
    # Once it can read them, it is asked about the other three, and about nothing else.
    sent, large = server.count, small(jury(server), 9000)
    benchmark = open_benchmark(tmp_path, n=N)
    (again,) = rejudge([benchmark], JuryChange(judges=large.judges[2:]), EvaluationSetup(store=tmp_path / "store")).runs
    assert sorted(map(number, server.bodies[sent:])) == [6, 7, 8]
    assert again.jury_result is not None
    assert again.jury_result.coverage == 1.0


def test_a_servers_own_refusal_is_counted_as_such(tmp_path: Path, server: Server) -> None:
    """Nobody knows the window, and the server does not name it."""
    server.answer_with(court(limited(1600, SILENT, "judge-2"), words))
    judges = small(jury(server), None)
    (found,) = run(tmp_path, server, judges).runs
    assert asked(server, "judge-2") == dict.fromkeys(range(N), 1), "asking again is of no use"
    assert dict(tally_of(found, judges.judges[1]).failures) == {FailureCode.CONTEXT_LENGTH: 9}
    assert tally_of(found, judges.judges[0]).failed == 0
    (remark,) = [text for text in texts(leaderboard([tmp_path / "store"]).remarks) if text.startswith("Judgments")]
    assert "(context_length 9)" in remark


def test_a_window_that_a_judges_server_names_is_kept_to(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(limited(1600, OPENAI, *JUDGES), lambda n: "It is as plain as the day. " * 400 + str(n)))
    judges, listening = small(jury(server), None), Listening()
    benchmark = open_benchmark(tmp_path, n=N)
    settings = Settings(attempts=2, concurrency=1)
    done = evaluate(
        [benchmark], [mock(server)], store=tmp_path / "store", settings=settings, jury=judges, listener=listening
    )
    (found,) = done.runs
    for judge in judges.judges:
        failures = tally_of(found, judge).failures
        assert sum(failures.values()) == 27
        assert failures[FailureCode.DOES_NOT_FIT] > 0
        assert sum(asked(server, judge.remote_name).values()) == failures[FailureCode.CONTEXT_LENGTH] // 3
        assert sum("reads 1,600 tokens, says its server" in text and judge.name in text for text in listening.notes)
    # Given a window that is large enough, they are asked; what the model said is not bought again.
    sent = server.count
    server.answer_with(court(answering=lambda n: "never"))
    (again,) = rejudge(
        [benchmark], JuryChange(judges=small(jury(server), 9000).judges), EvaluationSetup(store=tmp_path / "store")
    ).runs
    assert (server.count - sent, again.jury_result and again.jury_result.coverage) == (27, 1.0)


def test_a_second_try_that_does_not_fit_leaves_the_first_as_it_was(tmp_path: Path, server: Server) -> None:
    """It would hold the first reply as well."""
    long_winded = "I would rather tell you a story. " * 60
    server.answer_with(court(lambda *_: long_winded, lambda n: "Short."))
    judges = small(jury(server), 900)
    (found,) = run(tmp_path, server, judges, n=3).runs  # too few answers to learn from those of this server
    assert Counter(body["model"] for body in server.bodies) == {"mock": 3, **dict.fromkeys(JUDGES, 3)}
    for judge in judges.judges:
        assert dict(tally_of(found, judge).failures) == {"no_verdict": 9}
    codes = {
        (one.attempt, one.completion.failure.code if one.completion.failure else "")
        for said in read_replies(found).values()
        for one in said
    }
    assert codes == {(0, ""), (1, FailureCode.DOES_NOT_FIT)}


def test_a_reply_as_long_as_the_window_is_a_mistake_that_is_named(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    judges = small(jury(server), 4096, max_tokens=4096)
    (found,) = run(tmp_path, server, judges).runs
    assert not any(map(is_judge, server.bodies))
    assert [tally_of(found, judge).failures for judge in judges.judges] == [{FailureCode.DOES_NOT_FIT: 27}] * 3
    said = {one["failure_message"] for one in read_explanations(found, "q0")}
    assert all(text.endswith("A lower `max_tokens` in models.yaml leaves more room for the prompt") for text in said)


def test_what_was_bought_is_taken_whatever_the_window(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(answering=words))
    (before,) = run(tmp_path, server, small(jury(server), None)).runs
    sent = server.count
    (after,) = run(tmp_path, server, small(jury(server), 700)).runs
    assert server.count == sent
    assert after.jury_result is not None
    assert before.jury_result is not None
    assert (after.jury_result.coverage, before.jury_result.coverage) == (1.0, 1.0)


def test_the_plan_says_it_before(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(answering=words))
    benchmark, judges = open_benchmark(tmp_path, n=N), small(jury(server), 1600, 0)

    def planned(of: Jury) -> tuple[dict[str, tuple[int, int]], list[str]]:
        plan = make_plan([benchmark], [mock(server)], EvaluationSetup(store=tmp_path / "store"), jury=of)
        rows = {row.model: (row.requests, row.cached) for row in plan.rows if row.role == "judge"}
        return rows, [text for text in plan.warnings if "this judge" in text]

    first, second, third = (judge.name for judge in judges.judges)
    rows, told = planned(judges)
    assert (rows, told) == ({first: (9, 0), second: (9, 0), third: (9, 0)}, []), "nobody has answered yet"
    rows, told = planned(small(jury(server), 300, 0))
    assert rows == {first: (0, 0), second: (9, 0), third: (9, 0)}
    assert told == [f"letters with {first}: 9 of 9 prompts do not fit this judge and are not sent, by estimate."]
    run(tmp_path, server, judges)
    rows, told = planned(judges)
    assert rows == {first: (6, 6), second: (9, 9), third: (9, 9)}
    assert told == [f"letters with {first}: 3 of 9 prompts do not fit this judge and are not sent, by estimate."]


def test_a_server_that_cuts_in_silence_is_sent_nothing_that_may_be_too_long(tmp_path: Path, server: Server) -> None:
    """Nothing can be left out of the prompt, and what such a server makes of it is worth nothing."""
    benchmark = open_benchmark(tmp_path, n=1)
    fitter = ContextFitter(TokenEstimator(lambda: RunHistory(None)), lambda _: False)
    prompt = Prompt((Message("user", "word " * 1000),))  # 1,250 tokens by the rule of thumb, 1,667 at most
    (judge,) = small(jury(server, "judge-1"), 1600).judges
    sent = {
        provider: fitter.unfit(
            request_to_judge(replace(judge, provider=provider, name=provider), prompt, None), benchmark
        )
        for provider in ("openai", "ollama")
    }
    assert sent["openai"] is None
    assert sent["ollama"] is not None
    assert sent["ollama"].code == FailureCode.DOES_NOT_FIT


def test_batches_hold_only_what_the_judge_can_read(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST_POLL_S", 0.005)
    monkeypatch.setenv("OPENAI_API_KEY", KEYS["OPENAI_API_KEY"])
    asked: list[tuple[str, int]] = []

    def respond(body: dict[str, Any]) -> Answer:
        asked.append((body["model"], number(body)))
        text = verdict(4, 4, 4) if is_judge(body) else words(number(body))
        return OPENAI_FORM.answer(text)

    with BatchServer() as services:
        services.answer_with(respond)
        price = {"input": 1.0, "output": 10.0}
        judge = entry(OPENAI_FORM, services, "judge-1", window=1600, max_tokens=REPLY, price=price)
        (tmp_path / "models.yaml").write_text(f"m: {entry(OPENAI_FORM, services, 'gpt-m')}\nj: {judge}\n")
        benchmark = write_benchmark(tmp_path, n=N)
        command = ["run", str(benchmark), "--model", "m", "--judge", "j", "--min-judges", "1", "--json"]
        done = medhelm(*command, "--batch")
        assert done.code == 1
        assert [len(names) for names in services.taken] == [N, 6]
        assert services.direct == []
        assert sorted(asked) == [("gpt-m", n) for n in range(N)] + [("judge-1", n) for n in range(6)]
        judged = done.json["runs"][0]["jury"]
        assert judged["judges"]["j"]["failures"] == {FailureCode.DOES_NOT_FIT: 9}


def test_references_that_a_judge_cannot_read_whole_are_not_marked(tmp_path: Path, server: Server) -> None:
    """`medhelm filter` asks judges as well, by the same rule."""
    rows = [row(n, findings=f"finding number {n}. " * (900 if n == 2 else 1)) for n in range(4)]
    (benchmark,) = load_benchmarks([str(make_open_benchmark(tmp_path, rows=rows))], metrics=METRIC_NAMES)
    server.answer_with(marks_as_outside(1))
    judge = replace(mock(server, "judge-1"), window=1600, max_tokens=REPLY)
    setup = EvaluationSetup(store=tmp_path / "store", settings=Settings(attempts=2))
    done = filter_references([benchmark], [judge], setup, note=lambda _: None)
    marks = done.benchmarks[0].marks
    assert {name: mark.verdict for name, mark in marks.by_instance.items()} == {
        "r0": "kept", "r1": "set_aside", "r2": "unknown", "r3": "kept",
    }  # fmt: skip
    assert server.count == 3
    assert marks.failures == {judge.name: {FailureCode.DOES_NOT_FIT: 1}}
