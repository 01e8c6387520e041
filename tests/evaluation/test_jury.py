"""Evaluations with judges, through a server on this machine that is model and jury at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from medhelm.domain import RULES, FailureCode, Jury, JuryResult, Model, Run
from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.storage.judgments import read_explanations, read_judgments, read_replies
from medhelm.storage.run_scores import read_scores
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import (
    CRITERIA,
    JUDGES,
    court,
    grades_of,
    is_judge,
    jury,
    mock,
    number,
    open_benchmark,
    verdict,
)
from tests.support.servers.openai import Answer, Server
from tests.support.servers.small_context import OPENAI

N = 9


def run(
    tmp_path: Path, server: Server, judges: Jury | None = None, *, n: int = N, **settings: Any
) -> tuple[Evaluation, Run, JuryResult]:
    done = evaluate(
        [open_benchmark(tmp_path, n=n)],
        [mock(server)],
        store=tmp_path / "store",
        settings=Settings(**{"attempts": 2, **settings}),
        jury=judges or jury(server),
    )
    (stored,) = done.runs
    assert stored.jury_result is not None
    return done, stored, stored.jury_result


def means(*judges: str) -> list[float]:
    """The mean grade of each completion by these judges."""
    return [fmean(fmean(grades_of(judge, n)) for judge in judges) for n in range(N)]


def test_the_score_is_the_mean_over_judges_of_the_mean_over_criteria(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    done, stored, result = run(tmp_path, server)
    expected = means(*JUDGES)
    assert (done.exit_code, stored.main_metric, stored.n_failed) == (0, "jury", 0)
    for rule in RULES:
        assert list(read_scores(stored, "jury", rule).values) == pytest.approx(expected)
        assert stored.estimates[rule]["jury"].value == pytest.approx(fmean(expected))
    assert stored.estimates["corrected"]["rouge_l"].value > 0
    assert (result.coverage, result.low, result.high) == (1.0, 1.0, 5.0)
    assert {name: estimate.value for name, estimate in result.subscores.items()} == pytest.approx(
        {
            criterion: fmean(grades_of(judge, n)[place] for n in range(N) for judge in JUDGES)
            for place, criterion in enumerate(CRITERIA)
        }
    )
    cells = read_judgments(stored)
    assert list(cells.scores) == [grade for n in range(N) for judge in JUDGES for grade in grades_of(judge, n)]
    assert [name.partition("@")[0] for name in cells.judges[:9:3]] == [f"openai/{judge}" for judge in JUDGES]
    assert (cells.criteria[:3], set(cells.failures)) == (list(CRITERIA), {""})
    assert load_runs(open_store(tmp_path / "store")) == [stored]
    assert (server.count, done.requests_sent) == (N * 4, N * 4)
    again, stored_again, _ = run(tmp_path, server)
    assert (server.count, again.requests_sent, again.cost_usd) == (N * 4, 0, 0.0)
    assert stored_again.estimates == stored.estimates


BAD: Mapping[str, tuple[str | Answer, str, int]] = {
    "off the scale": (verdict(7, 7, 7), "off_scale", 2),
    "not a number": (verdict(float("nan"), 3, 3), "", 2),
    "brackets": ("[" * 200_000, "", 2),
    "refusal": (chat(None, finish_reason="content_filter"), "refusal", 1),
    "server error": (Answer(status=500), "server_error", 2),
    "wrong key": (Answer(status=401), "unusable", 1),
}
"""What one judge says to everything -> the code of its failures, and requests for one completion."""


@pytest.mark.parametrize(("said", "code", "times"), BAD.values(), ids=BAD)
def test_a_judge_that_fails_is_missing_and_never_a_score(
    tmp_path: Path, server: Server, said: str | Answer, code: str, times: int
) -> None:
    server.answer_with(court(lambda judge, _, __: said if judge == "judge-3" else None))
    done, stored, result = run(tmp_path, server)
    assert list(read_scores(stored, "jury", "corrected").values) == pytest.approx(means("judge-1", "judge-2"))
    assert done.exit_code == 1
    failed = result.tallies[result.jury.judges[2].name]
    assert failed.expected == 27
    assert set(failed.failures) == {code} and failed.failed == 27 if code else failed.failed >= 9
    assert result.coverage == pytest.approx(2 / 3, abs=0.23)
    asked = Counter(body["model"] for body in server.bodies)
    assert asked["judge-1"] == asked["judge-2"] == N
    assert asked["judge-3"] <= N * times


def test_too_few_judges_give_no_score_and_the_published_default_stays_apart(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(lambda judge, n, _: "hm" if (judge != "judge-1" and n < 3) or n == 0 else None))
    done, stored, result = run(tmp_path, server)
    corrected, published = (read_scores(stored, "jury", rule).values for rule in ("corrected", "published"))
    assert [bool(value > 0) for value in corrected] == [False] * 3 + [True] * 6
    assert list(published[:3]) == [1.0, *means("judge-1")[1:3]]
    estimate = stored.estimates["corrected"]["jury"]
    assert (estimate.n, estimate.n_failed, done.exit_code, result.n_too_few_judges) == (6, 3, 1, 3)
    coverage = read_columns(stored, ["jury_coverage"])["jury_coverage"]
    assert coverage == pytest.approx([0.0, 1 / 3, 1 / 3, *([1.0] * 6)])


def test_one_bounded_second_try_is_told_what_was_wrong(tmp_path: Path, server: Server) -> None:
    def stumbling(judge: str, n: int, body: Mapping[str, Any]) -> str | None:
        return verdict(9, 3, 3) if judge == "judge-1" and len(body["messages"]) == 1 else None

    server.answer_with(court(stumbling))
    done, stored, _ = run(tmp_path, server)
    assert done.exit_code == 0
    seconds = [body["messages"] for body in server.bodies if is_judge(body) and len(body["messages"]) > 1]
    assert len(seconds) == N
    assert [message["role"] for message in seconds[0]] == ["user", "assistant", "user"]
    assert seconds[0][1]["content"].endswith(verdict(9, 3, 3)[1:])
    assert "`accuracy` has a score that is not on the scale" in seconds[0][2]["content"]
    replies = read_replies(stored)["q0", f"openai/judge-1@{server.url}/v1"]
    assert [reply.attempt for reply in replies] == [0, 1]
    first = [9, 3, 3, *grades_of("judge-2", 0), *grades_of("judge-3", 0)]
    assert read_scores(stored, "jury", "published").values[0] == pytest.approx(fmean(first))


def test_a_blank_completion_gets_the_worst_grade_and_a_failed_one_no_score_without_judges(
    tmp_path: Path, server: Server
) -> None:
    behaving = court(answering=lambda n: "  \n" if n == 4 else f"An answer to number {n}")
    server.answer_with(
        lambda body: Answer(status=400) if not is_judge(body) and "number 5?" in str(body) else behaving(body)
    )
    done, stored, result = run(tmp_path, server)
    assert (done.exit_code, sum(map(is_judge, server.bodies))) == (1, (N - 2) * 3)
    values = read_scores(stored, "jury", "corrected").values
    assert (values[4], values[5] > 0, stored.n_failed) == (1.0, False, 1)
    assert (result.n_blank, result.coverage) == (1, 1.0)


# --- judges whose window is too small for what they would have to read ------------------------------------------------

REPLY = 200
_PIECE = re.compile(r"\w{1,6}|[^\w\s]")


def small(judges: Jury, window: int | None, *places: int) -> Jury:
    """The same jury, with a small window for the judges at these places (all, if none is named)."""
    chosen = places or range(len(judges.judges))
    listed = (
        replace(judge, window=window, max_tokens=REPLY) if place in chosen else judge
        for place, judge in enumerate(judges.judges)
    )
    return replace(judges, judges=tuple(listed))


def words(n: int) -> str:
    """The completion on question `n`; those on the last three questions are long."""
    return f"Answer {n}. " + "It is as plain as the day. " * (400 if n >= 6 else 2)


def judged_again(tmp_path: Path, judges: tuple[Model, ...]) -> Run:
    setup = EvaluationSetup(store=tmp_path / "store")
    (run,) = rejudge([open_benchmark(tmp_path, n=N)], JuryChange(judges=judges), setup).runs
    return run


def failures_of(run: Run, judge: Model) -> Mapping[str, int]:
    return run.tallies[judge.name].failures


def asked(server: Server, judge: str) -> list[int]:
    """The questions that a judge was asked about."""
    return sorted(number(body) for body in server.bodies if body["model"] == judge)


def test_a_prompt_that_does_not_fit_is_not_sent_and_counted_for_that_judge_alone(
    tmp_path: Path, server: Server
) -> None:
    server.answer_with(court(answering=words))
    judges = small(jury(server), 1600, 2)
    _, found, _ = run(tmp_path, server, judges)
    assert [asked(server, judge) for judge in JUDGES] == [[*range(N)], [*range(N)], [*range(6)]]
    tally = found.tallies[judges.judges[2].name]
    assert (tally.expected, dict(tally.failures), tally.requests_sent) == (27, {FailureCode.DOES_NOT_FIT: 9}, 6)
    # The other two have read all of it, and are enough.
    for body in server.bodies:
        assert not is_judge(body) or words(number(body)).strip() in body["messages"][0]["content"]
    expected = [fmean(fmean(grades_of(judge, n)) for judge in JUDGES[: 3 if n < 6 else 2]) for n in range(N)]
    assert list(read_scores(found, "jury", "corrected").values) == pytest.approx(expected)
    assert found.n_failed == 0
    said = read_explanations(found, "q7")
    assert [one["failure_code"] for one in said] == [None] * 6 + [FailureCode.DOES_NOT_FIT] * 3
    # Once it can read them, it is asked about the other three; what was bought is taken whatever the window.
    sent = server.count
    again = judged_again(tmp_path, small(jury(server), 9000).judges[2:])
    assert sorted(map(number, server.bodies[sent:])) == [6, 7, 8]
    _, later, _ = run(tmp_path, server, small(jury(server), 700, 2))
    assert server.count == sent + 3
    for one in (again, later):
        assert one.jury_result is not None
        assert one.jury_result.coverage == 1.0


def test_a_window_that_a_judges_server_names_is_kept_to(tmp_path: Path, server: Server) -> None:
    def refuse(judge: str, _: int, body: Mapping[str, Any]) -> Answer | None:
        """The server counts, and does not guess."""
        prompt = sum(8 + len(_PIECE.findall(message["content"])) for message in body["messages"])
        answer = body["max_tokens"]
        if prompt + answer <= 1600:
            return None
        said = OPENAI.format(window=1600, asked=prompt + answer, prompt=prompt, answer=answer)
        return Answer(status=400, body={"error": {"message": said, "code": "context_length_exceeded"}})

    server.answer_with(court(refuse, lambda n: "It is as plain as the day. " * 400 + str(n)))
    judges = small(jury(server), None)
    _, found, _ = run(tmp_path, server, judges, concurrency=1)
    for judge in judges.judges:
        failures = failures_of(found, judge)
        assert sum(failures.values()) == 27
        assert failures[FailureCode.DOES_NOT_FIT] > 0
        assert len(asked(server, judge.remote_name)) == failures[FailureCode.CONTEXT_LENGTH] // 3, "once for each"
    # Given a window that is large enough, they are asked; what the model said is not bought again.
    sent = server.count
    server.answer_with(court(answering=lambda n: "never"))
    again = judged_again(tmp_path, small(jury(server), 9000).judges)
    assert (server.count - sent, again.jury_result and again.jury_result.coverage) == (27, 1.0)


def test_a_second_try_that_does_not_fit_leaves_the_first_as_it_was(tmp_path: Path, server: Server) -> None:
    """It would hold the first reply as well."""
    server.answer_with(court(lambda *_: "I would rather tell you a story. " * 60, lambda n: "Short."))
    judges = small(jury(server), 900)
    _, found, _ = run(tmp_path, server, judges, n=3)  # too few answers to learn from those of this server
    assert Counter(body["model"] for body in server.bodies) == {"mock": 3, **dict.fromkeys(JUDGES, 3)}
    assert [dict(failures_of(found, judge)) for judge in judges.judges] == [{"no_verdict": 9}] * 3
    codes = {
        (reply.attempt, reply.completion.failure and reply.completion.failure.code)
        for replies in read_replies(found).values()
        for reply in replies
    }
    assert codes == {(0, None), (1, FailureCode.DOES_NOT_FIT)}


def test_the_plan_says_it_before(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(answering=words))
    benchmark, judges = open_benchmark(tmp_path, n=N), small(jury(server), 1600, 0)

    def planned(of: Jury) -> tuple[list[tuple[int, int]], list[str]]:
        plan = make_plan([benchmark], [mock(server)], EvaluationSetup(store=tmp_path / "store"), jury=of)
        rows = [(row.requests, row.cached) for row in plan.rows if row.role == "judge"]
        return rows, [text for text in plan.warnings if "this judge" in text]

    told = (
        f"letters with {judges.judges[0].name}: {{}} of 9 prompts do not fit this judge and are not sent, by estimate."
    )
    assert planned(judges) == ([(9, 0)] * 3, []), "nobody has answered yet"
    assert planned(small(jury(server), 300, 0)) == ([(0, 0), (9, 0), (9, 0)], [told.format(9)])
    run(tmp_path, server, judges)
    assert planned(judges) == ([(6, 6), (9, 9), (9, 9)], [told.format(3)])
