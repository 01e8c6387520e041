"""The main path of a new user through the command line, as the documentation describes it, one trial for each role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.benchmarks.judged import JUDGES, grades_of, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

MODELS = "--model big=openai/large@{url} --model small=openai/little@{url}"
EVALUATE = f"run ./toy ./letters {MODELS} --judge j1=openai/judge-1@{{url}} --judge j2=openai/judge-2@{{url}}"

TRIALS: dict[str, list[tuple[str, int, list[str]]]] = {
    "a data scientist compares two models of an own server": [
        ("models check big=openai/large@{url}", 0, ["big: responded with", "reports itself as mock-1"]),
        ("run ./toy --model bigg", 2, ["model `bigg`: unknown", "openai/bigg@http://HOST:PORT/v1"]),
        (f"run wards {MODELS}", 2, ["In this folder: ./letters, ./toy"]),
        (EVALUATE.replace("run", "plan", 1), 0, ["the price of big, small, j1, j2 is unknown"]),
        (EVALUATE, 0, ["big leads", "significantly better than the other model"]),
        (f"{EVALUATE} --json", 0, ['"requests_sent": 0,']),
        ("leaderboard --exclude small", 0, ["1 model, 2 benchmarks", "win rates need at least two"]),
    ],
    "a committee member reads a store": [
        (EVALUATE, 0, []),
        ("leaderboard", 0, ["big leads (macro average 0.771) and is significantly better", "small  b "]),
        ("compare big small", 0, ["big is significantly better than small"]),
        ("jury", 0, ["Judges, real data", "`medhelm agreement` compares them with clinicians"]),
        ("show letters q1", 0, ["=== big", "j1, accuracy: 3  it is 3"]),
        ("agreement sample --size 3 --raters 2 ratings.csv", 0, ["6 completions, 2 raters"]),
        ("agreement ratings.csv", 0, ["No completion has both", "grades were not given"]),
        ("report paper --formats md", 0, ["big leads"]),
    ],
    "a developer checks each night whether a model changed": [
        ("run ./toy --subset 60 --model big=openai/large@{url} --fresh", 0, []),
        ("gate --against previous", 2, ["only one run of each model", "medhelm run --fresh"]),
        ("release start", 0, ["start"]),
        ("run ./toy --subset 60 --model big=openai/large@{url} --fresh", 0, ["complete"]),
        ("gate --against previous --margin 0.1", 0, ["Pass: big is not worse than `previous`"]),
        ("gate --against start --margin 0.1", 0, ["Pass: big is not worse than `start`"]),
    ],
}
"""What a user does: commands, their exit codes, and what the user needs to see; `{url}` is the server's address."""


def respond(body: dict[str, Any]) -> Answer:
    """Answer as `large`, which is always right, as `little`, which always says A, or as a judge."""
    text = body["messages"][0]["content"]
    if is_judge(body):
        return chat(verdict(*grades_of(JUDGES[int(body["model"][-1]) - 1], number(body))))
    if "\nA. " in text:
        return chat(perfect(question_number(body)) if body["model"] == "large" else "A")
    return chat("A short answer.")


@pytest.mark.parametrize("name", TRIALS)
def test_a_new_user_reaches_the_goal(medhelm: Medhelm, tmp_path: Path, server: Server, name: str) -> None:
    server.answer_with(respond)
    make_benchmark(tmp_path, n=90)
    write_benchmark(tmp_path, n=12)
    for command, code, needed in TRIALS[name]:
        done = medhelm(*command.format(url=f"{server.url}/v1").split())
        assert done.code == code, f"{command}: {done.out}{done.err}"
        missing = [part for part in needed if part not in done.out + done.err]
        assert not missing, f"{command}: {missing} not in\n{done.out}{done.err}"
