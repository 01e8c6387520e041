"""Whole runs against servers that do not take a part of the request, or that leave reasoning in the text."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.judged import is_judge, verdict, write_benchmark
from tests.support.cli import Medhelm, repeated, succeeded
from tests.support.servers.openai import Answer, Server

SYSTEM = "system: You are a clinician.\n"


def refused(message: str) -> Answer:
    return Answer(status=400, body={"error": {"message": message, "code": 400}})


EXTRA = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 0}

ODD: dict[str, tuple[Any, Any, str]] = {
    "Mistral takes no seed": (
        lambda body: "seed" in body,
        Answer(status=422, body={"object": "error", "message": {"detail": [EXTRA]}, "type": "invalid_request_error"}),
        "seed",
    ),
    "Kimi": (
        lambda body: body.get("temperature", 1) != 1,
        refused("invalid temperature: only 1 is allowed for this model"),
        "temperature",
    ),
    "no system role": (
        lambda body: body["messages"][0]["role"] == "system",
        refused("System role not supported"),
        "system message",
    ),
}


@pytest.mark.parametrize(("is_refused", "answer", "left_out"), ODD.values(), ids=ODD)
def test_a_part_that_a_server_does_not_take_is_left_out_and_said(
    is_refused: Any, answer: Answer, left_out: str, medhelm: Medhelm, server: Server
) -> None:
    make_benchmark(Path(), extra=SYSTEM)
    server.answer_with(lambda body: answer if is_refused(body) else chat("A"))
    done = succeeded(medhelm("run", "./toy", "--model", f"odd={server.model()}", "--concurrency", "1"))
    assert f"not supported by the server of odd: {left_out} (9)" in done.out + done.err
    assert server.count == 10, "one request was refused, and the others knew"
    last = server.bodies[-1]
    assert "You are a clinician." in json.dumps(last["messages"])
    assert not is_refused(last)


REASONING = {
    "plain": "Rest.",
    "medgemma": "<unused94>thought\nGive 5 g.\n<unused95>Rest.",
    "gptoss": "analysisGive 5 g.assistantfinalRest.",
    "magistral": "[THINK]Give 5 g.[/THINK]Rest.",
    "own": "<<plan>>Give 5 g.<<done>>Rest.",
}

TAGS = '[["<<plan>>", "<<done>>"]]'


def respond(body: Mapping[str, Any]) -> Answer:
    return chat(verdict(3, 4, 5) if is_judge(body) else REASONING[body["model"]])


def test_reasoning_is_neither_scored_nor_judged_nor_rated_nor_shown(medhelm: Medhelm, server: Server) -> None:
    write_benchmark(Path())
    server.answer_with(respond)
    server.write_models(Path("models.yaml"), dict.fromkeys([*REASONING, "judge"]))
    text = Path("models.yaml").read_text(encoding="utf-8")
    Path("models.yaml").write_text(text.replace("model: own", f"model: own, reasoning_tags: {TAGS}"), encoding="utf-8")
    judged = ("--judge", "judge", "--min-judges", "1")
    done = succeeded(medhelm("run", "./letters", *repeated("--model", REASONING), *judged, "--json"))
    assert not [body for body in server.bodies if "5 g" in json.dumps(body["messages"])]
    metrics = [run["metrics"] for run in done.json["runs"]]
    assert metrics == metrics[:1] * len(REASONING)
    assert [bool(run["tokens"]["reasoning"]) for run in done.json["runs"]] == [name != "plain" for name in REASONING]
    assert "5 g" not in medhelm("show", "letters", "q1").out
    assert medhelm("agreement", "sample", "--size", "9", "--raters", "1", "ratings.csv").code == 0
    with Path("ratings.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["completion"] for row in csv.DictReader(file)} == {"Rest."}


def reasons_first(tokens: int, marker: str = "") -> Any:
    """A model that reasons for so many tokens, in a field of its own or behind a marker, then answers A."""

    def decide(body: Mapping[str, Any]) -> Answer:
        if body["max_tokens"] < tokens:
            thought = {"content": marker} if marker else {"content": None, "reasoning_content": "Hm"}
            return chat(None, message={"role": "assistant", **thought}, finish_reason="length")
        return chat(f"{marker}Hm.</think>A" if marker else "A")

    return decide


@pytest.mark.parametrize("marker", ["", "<think>"])
def test_a_model_that_reasons_by_default_gets_room_and_nothing_is_bought_twice(
    marker: str, medhelm: Medhelm, server: Server
) -> None:
    make_benchmark(Path())
    server.answer_with(reasons_first(400, marker))
    asked = ("run", "./toy", "--model", f"new={server.model()}", "--concurrency", "2")
    done = succeeded(medhelm(*asked))
    assert done.err.count("reasons before it answers, and used up its limit of 5 tokens") == 1
    assert sum(body["max_tokens"] == 5 for body in server.bodies) < 9
    assert sum(body["max_tokens"] == 4000 for body in server.bodies) == 9
    bought = server.count
    again = medhelm(*asked, "--json").json
    assert (again["requests_sent"], server.count) == (0, bought)
    assert again["runs"][0]["metrics"]["exact_match"]["value"] == pytest.approx(6 / 9)


def test_a_budget_holds_for_the_higher_limit(medhelm: Medhelm, server: Server) -> None:
    make_benchmark(Path())
    server.answer_with(reasons_first(400))
    price = "{input: 1, output: 1000}"
    Path("models.yaml").write_text(f'new: {{base_url: "{server.url}/v1", price: {price}}}\n', encoding="utf-8")
    done = medhelm("run", "./toy", "--model", "new", "--max-cost", "3")
    assert done.code == 3, "4,000 tokens cost up to 4 USD"
    assert {body["max_tokens"] for body in server.bodies} == {5}
