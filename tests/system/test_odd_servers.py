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
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

SYSTEM = "system: You are a clinician.\n"


def refused(message: Any, status: int = 400, **more: Any) -> Answer:
    return Answer(status=status, body={"error": {"message": message, "code": status, **more}})


def upstream(message: str) -> Answer:
    """An error as OpenRouter wraps it."""
    return refused("Provider returned error", metadata={"raw": json.dumps({"error": {"message": message}})})


EXTRA = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 0}

ODD: dict[str, tuple[Any, Any, str]] = {
    "Mistral takes no seed": (
        lambda body: "seed" in body,
        Answer(status=422, body={"object": "error", "message": {"detail": [EXTRA]}, "type": "invalid_request_error"}),
        "seed",
    ),
    "a minimum behind OpenRouter": (
        lambda body: body["max_tokens"] < 16,
        upstream(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 5 instead."
        ),
        "small max_tokens",
    ),
    "no temperature behind OpenRouter": (
        lambda body: "temperature" in body,
        upstream("`temperature` is deprecated for this model."),
        "temperature",
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
    "MiniMax": (
        lambda body: "temperature" in body,
        Answer(body={"base_resp": {"status_code": 2013, "status_msg": "invalid params, temperature must be > 0"}}),
        "temperature",
    ),
}


@pytest.mark.parametrize(("is_refused", "answer", "left_out"), ODD.values(), ids=ODD)
def test_a_part_that_a_server_does_not_take_is_left_out_and_said(
    is_refused: Any, answer: Answer, left_out: str, medhelm: Medhelm, server: Server
) -> None:
    make_benchmark(Path(), extra=SYSTEM)
    server.answer_with(lambda body: answer if is_refused(body) else chat("A"))
    done = medhelm("run", "./toy", "--model", f"odd=openai/odd@{server.url}/v1", "--concurrency", "1")
    assert done.code == 0, done.err
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

MODELS = """\
judge: {{base_url: "{url}"}}
{models}
own: {{base_url: "{url}", reasoning_tags: [["<<plan>>", "<<done>>"]]}}
"""


def respond(body: Mapping[str, Any]) -> Answer:
    return chat(verdict(3, 4, 5) if is_judge(body) else REASONING[body["model"]])


def test_reasoning_is_neither_scored_nor_judged_nor_rated_nor_shown(medhelm: Medhelm, server: Server) -> None:
    write_benchmark(Path())
    server.answer_with(respond)
    url = f"{server.url}/v1"
    plain = "\n".join(f'{name}: {{base_url: "{url}"}}' for name in REASONING if name != "own")
    Path("models.yaml").write_text(MODELS.format(url=url, models=plain), encoding="utf-8")
    asked = [part for name in REASONING for part in ("--model", name)]
    done = medhelm("run", "./letters", *asked, "--judge", "judge", "--min-judges", "1", "--json")
    assert done.code == 0, done.err
    assert not [body for body in server.bodies if "5 g" in json.dumps(body["messages"])]
    metrics = [run["metrics"] for run in done.json["runs"]]
    assert metrics == metrics[:1] * len(REASONING)
    assert [bool(run["tokens"]["reasoning"]) for run in done.json["runs"]] == [name != "plain" for name in REASONING]
    assert "5 g" not in medhelm("show", "letters", "q1").out
    assert medhelm("agreement", "sample", "--size", "9", "--raters", "1", "ratings.csv").code == 0
    with Path("ratings.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["completion"] for row in csv.DictReader(file)} == {"Rest."}


def test_markers_that_are_set_later_apply_to_what_was_bought(medhelm: Medhelm, server: Server) -> None:
    make_benchmark(Path())
    server.answer_with(lambda body: chat("<<plan>>The answer is B.<<done>>The answer is A."))
    asked = ("run", "./toy", "--model", "own", "--json")
    Path("models.yaml").write_text(f'own: {{base_url: "{server.url}/v1"}}\n', encoding="utf-8")
    assert medhelm(*asked).json["runs"][0]["metrics"]["exact_match"]["value"] == 0
    tags = '[["<<plan>>", "<<done>>"]]'
    Path("models.yaml").write_text(f'own: {{base_url: "{server.url}/v1", reasoning_tags: {tags}}}\n', encoding="utf-8")
    again = medhelm(*asked).json
    assert again["requests_sent"] == 0
    assert again["runs"][0]["metrics"]["exact_match"]["value"] == pytest.approx(6 / 9)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ('[["<a>", "<a>"]]', "two different texts"),
        ('[["<a>"]]', "at least 2"),
        ('["<a>", "</a>"]', "list"),
        ('[["  ", "</a>"]]', "two different texts"),
    ],
)
def test_markers_are_checked(tags: str, words: str, medhelm: Medhelm) -> None:
    make_benchmark(Path())
    Path("models.yaml").write_text(f"own: {{base_url: 'http://127.0.0.1:9/v1', reasoning_tags: {tags}}}\n")
    done = medhelm("run", "./toy", "--model", "own")
    assert done.code == 2
    assert words in done.err


def test_replayed_and_stored_completions_are_read_without_reasoning(medhelm: Medhelm) -> None:
    make_benchmark(Path(), n=2)
    texts = ("<unused94>thought\nB or A?<unused95>A", "analysisIs it B?assistantfinalA")
    lines = [
        json.dumps({"benchmark": "toy", "instance_id": f"q{n}", "completion": text}) for n, text in enumerate(texts)
    ]
    Path("old.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run = medhelm("run", "./toy", "--model", "replay/./old.jsonl", "--json").json["runs"][0]
    assert run["metrics"]["exact_match"]["value"] == 1
    assert "B or A" not in medhelm("show", "toy", "q0").out


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
    asked = ("run", "./toy", "--model", f"new=openai/new@{server.url}/v1", "--concurrency", "2")
    done = medhelm(*asked)
    assert done.code == 0, done.err
    assert done.err.count("reasons before it answers, and used up its limit of 5 tokens") == 1
    assert sum(body["max_tokens"] == 5 for body in server.bodies) < 9
    assert sum(body["max_tokens"] == 4000 for body in server.bodies) == 9
    assert {body["temperature"] for body in server.bodies} == {0.0}
    bought = server.count
    planned = medhelm("plan", *asked[1:], "--json").json["rows"][0]
    assert planned["cached"] == planned["requests"] == 9
    again = medhelm(*asked, "--json").json
    assert (again["requests_sent"], server.count) == (0, bought)
    assert again["runs"][0]["metrics"]["exact_match"]["value"] == pytest.approx(6 / 9)


def test_a_limit_of_the_user_is_kept(medhelm: Medhelm, server: Server) -> None:
    make_benchmark(Path())
    server.answer_with(reasons_first(400))
    Path("models.yaml").write_text(f'new: {{base_url: "{server.url}/v1", max_tokens: 7}}\n', encoding="utf-8")
    done = medhelm("run", "./toy", "--model", "new", "--json")
    assert {body["max_tokens"] for body in server.bodies} == {7}
    assert done.json["runs"][0]["n_failed"] == 9


def test_a_budget_holds_for_the_higher_limit(medhelm: Medhelm, server: Server) -> None:
    make_benchmark(Path())
    server.answer_with(reasons_first(400))
    price = "{input: 1, output: 1000}"
    Path("models.yaml").write_text(f'new: {{base_url: "{server.url}/v1", price: {price}}}\n', encoding="utf-8")
    done = medhelm("run", "./toy", "--model", "new", "--max-cost", "3")
    assert done.code == 3, "4,000 tokens cost up to 4 USD"
    assert {body["max_tokens"] for body in server.bodies} == {5}


def test_a_judge_may_be_a_model_that_the_command_defines(medhelm: Medhelm, server: Server) -> None:
    write_benchmark(Path())
    server.answer_with(lambda body: chat(verdict(3, 4, 5) if is_judge(body) else "Rest."))
    url = f"@{server.url}/v1"
    given = ("--model", f"m=openai/m{url}", "--model", f"j=openai/judge{url}", "--judge", "j", "--min-judges", "1")
    done = medhelm("run", "./letters", *given, "--json")
    assert [run["status"] for run in done.json["runs"]][:1] == ["complete"], done.err
    assert medhelm("plan", "./letters", *given, "--json").code == 0
    wrong = medhelm("run", "./letters", *given[:2], "--judge", "j")
    assert (wrong.code, "judge `j`: unknown" in wrong.err) == (2, True)


def test_a_prompt_that_a_server_cut_is_a_failure_and_no_wrong_answer(medhelm: Medhelm, server: Server) -> None:
    make_benchmark(Path(), n=2)
    note = "Allergy: penicillin. " + "The patient was seen in clinic and the wound was clean. " * 560
    rows = [{"id": f"q{n}", "question": text, "answer": "A", "topic": "0"} for n, text in enumerate(("Short?", note))]
    Path("toy/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def respond_to(body: Mapping[str, Any]) -> Answer:
        whole = chat("A")
        count = 2050 if len(json.dumps(body)) > 9000 else 150
        return Answer(body={**dict(whole.body), "usage": {"prompt_tokens": count, "completion_tokens": 1}})  # type: ignore[arg-type]

    server.answer_with(respond_to)
    done = medhelm("run", "./toy", "--model", f"half=openai/half@{server.url}/v1", "--json")
    run = done.json["runs"][0]
    assert (done.code, run["n"], run["n_failed"]) == (1, 2, 1)
    assert server.count == 2
    shown = medhelm("show", "toy", "q1").out
    assert "context_length" in shown
    assert "it read 2,050 tokens, and the prompt has at least 6,1" in shown
