"""The main path of a new user through the command line, as the documentation describes it, one trial for each role."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.benchmarks.judged import JUDGES, grades_of, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

DEAD = "http://127.0.0.1:9/v1"
"""An address where no server listens."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command, and what the user needs to see."""

    command: str
    """Arguments; `{url}` is the server's address."""
    code: int = 0
    """Exit code."""
    out: tuple[str, ...] = ()
    """Parts of standard output."""
    err: tuple[str, ...] = ()
    """Parts of standard error."""
    absent: tuple[str, ...] = ()
    """Parts of neither."""


MODELS = "--model big=openai/large@{url} --model small=openai/little@{url}"
EVALUATE = f"run ./toy ./letters {MODELS} --judge j1=openai/judge-1@{{url}} --judge j2=openai/judge-2@{{url}}"

TRIALS = {
    "a data scientist compares two models of an own server": [
        Step(command="models check big=openai/large@{url}", out=("big: responded with", "reports itself as mock-1")),
        Step(command=f"models check openai/large@{DEAD}", code=1, out=("no server listens there",)),
        Step(
            command="run ./toy --model bigg", code=2, err=("model `bigg`: unknown", "openai/bigg@http://HOST:PORT/v1")
        ),
        Step(command=f"run toyy {MODELS}", code=2, err=("Did you mean `./toy`?",)),
        Step(command=f"run wards {MODELS}", code=2, err=("In this folder: ./letters, ./toy",)),
        Step(command=EVALUATE.replace("run", "plan", 1), out=("the price of big, small, j1, j2 is unknown",)),
        Step(command=EVALUATE, out=("big leads", "significantly better than the other model"), absent=("missing",)),
        Step(command=f"{EVALUATE} --json", out=('"requests_sent": 0,',)),
        Step(command="leaderboard --exclude bigg", code=2, err=("Did you mean `big`?",)),
        Step(command="leaderboard --exclude small", out=("1 model, 2 benchmarks", "win rates need at least two")),
    ],
    "a committee member reads a store": [
        Step(command=EVALUATE),
        Step(command="leaderboard", out=("big leads", "1 (1-1)", "2 (2-2)")),
        Step(command="compare big small", out=("big is significantly better than small",)),
        Step(
            command="export card card.md",
            out=("card.md",),
        ),
        Step(command="jury", out=("Judges, real data", "`medhelm agreement` compares them with clinicians")),
        Step(command="show letters q1", out=("=== big", "j1, accuracy: 3  it is 3")),
        Step(command="agreement sample --size 3 --raters 2 ratings.csv", out=("6 completions, 2 raters",)),
        Step(command="agreement ratings.csv", out=("No completion has both", "grades were not given")),
        Step(command="report paper --formats md", out=("big leads",)),
    ],
    "a developer checks each night whether a model changed": [
        Step(command="run ./toy --subset 60 --model big=openai/large@{url} --fresh"),
        Step(command="gate --against previous", code=2, err=("only one run of each model", "medhelm run --fresh")),
        Step(command="release start", out=("start",)),
        Step(command="run ./toy --subset 60 --model big=openai/large@{url} --fresh", out=("complete",)),
        Step(command="gate --against previous --margin 0.1", out=("Pass: big is not worse than `previous`",)),
        Step(command="gate --against start --margin 0.1", out=("Pass: big is not worse than `start`",)),
        Step(command="gate --against startt", code=2, err=("Did you mean `start`?",)),
    ],
    "a researcher exchanges results": [
        Step(command="leaderboard --published-only --suite paper35", out=("9 models, 35 benchmarks", "o3-mini †")),
        Step(command=f"run ./toy {MODELS}"),
        Step(command="power big small --difference 0.1", out=("a true difference of 0.1",)),
        Step(command="export helm exported", out=("2 runs",)),
        Step(command="import helm exported --store back", out=("2 of 2 runs have no corrected score yet",)),
        Step(command="leaderboard --store back --scoring published", out=("medhelm/big leads",)),
        Step(command="compare --store back", code=2, err=("no model has a score", "`medhelm rescore`")),
        Step(command="power --store back", code=2, err=("with corrected scores", "`medhelm rescore`")),
        Step(command="import helm nowhere", code=2, err=("this folder does not exist",)),
    ],
    "an author makes a benchmark of a spreadsheet": [
        Step(
            command="benchmarks new ward --from notes.csv",
            out=("semicolons between cells", "No column looks like a question", "identified by `Fallnummer`"),
        ),
        Step(command="benchmarks new ward --from notes.csv", code=2, err=("ward already exists",)),
        Step(command="benchmarks check ./ward", out=("ward: valid. Scored 8 references",)),
        Step(command="run ward --model baseline/majority", out=("0.500", "complete")),
        Step(
            command="run pubmed_qa --data . --model baseline/majority", code=4, err=("`medhelm data fetch pubmed_qa",)
        ),
    ],
}


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
    notes = [f"{i};Befund {i}: 37,{i} °C, Müdigkeit seit gestern;{'ja' if i % 2 else 'nein'}\r\n" for i in range(8)]
    (tmp_path / "notes.csv").write_bytes(("Fallnummer;Notiz;Antwort\r\n" + "".join(notes)).encode("cp1252"))
    for step in TRIALS[name]:
        done = medhelm(*step.command.format(url=f"{server.url}/v1").split())
        assert done.code == step.code, f"{step.command}: {done.out}{done.err}"
        for words, text in ((step.out, done.out), (step.err, done.err)):
            missing = [part for part in words if part not in text]
            assert not missing, f"{step.command}: {missing} not in\n{text}"
        assert not [part for part in step.absent if part in done.out + done.err], done.out


def test_numbers_agree_among_commands_and_with_the_records(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(respond)
    make_benchmark(tmp_path, n=90)
    write_benchmark(tmp_path, n=12)
    assert medhelm(*EVALUATE.format(url=f"{server.url}/v1").split()).code == 0
    assert medhelm("export", "csv", "tables").code == 0
    with (tmp_path / "tables" / "records.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    board = {row["model"]: row for row in medhelm("leaderboard", "--json").json["models"]}
    card = {row["name"]: row for row in _card(medhelm, tmp_path)["models"]}
    compared = medhelm("compare", "big", "small").out
    for model, share in (("big", 1.0), ("small", 2 / 3)):
        jury = [float(r["jury_corrected"]) for r in records if r["jury_corrected"] and r["model"] == model]
        right = [
            float(r["exact_match_corrected"]) for r in records if r["exact_match_corrected"] and r["model"] == model
        ]
        assert sum(right) / len(right) == pytest.approx(share)
        by_hand = (share + (sum(jury) / len(jury) - 1) / 4) / 2
        assert board[model]["macro_average"]["value"] == pytest.approx(by_hand, abs=1e-6)
        assert card[model]["macro_average"]["value"] == pytest.approx(by_hand, abs=1e-6)
    difference = board["big"]["macro_average"]["value"] - board["small"]["macro_average"]["value"]
    assert f"{difference:.3f}" in compared


def _card(medhelm: Medhelm, folder: Path) -> Any:
    assert medhelm("export", "card", "card.json").code == 0
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert "big is openai/large, j1 is openai/judge-1, j2" in " ".join(card["settings"].values())
    return card
