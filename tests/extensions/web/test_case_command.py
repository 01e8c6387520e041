"""`medhelm cases` lists what the records of a run say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark, question_number
from tests.support.cli import Medhelm, assert_refused
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server

N = 12
RIGHT = {n: "B" if n % 3 == 2 else "A" for n in range(N)}
OTHER = {"A": "B", "B": "A"}
WRONG = {"first": {1, 2, 5}, "second": {2, 5, 7}}
"""Model -> questions that it has wrong."""


def reply(body: Any) -> Answer:
    number = question_number(body)
    if number == 9 and body["model"] == "first":
        return chat("", finish_reason="content_filter")
    right = RIGHT[number]
    return chat(OTHER[right] if number in WRONG[body["model"]] else right)


@pytest.fixture
def listed(medhelm: Medhelm, tmp_path: Path) -> Any:
    def make() -> None:
        make_benchmark(tmp_path, n=N)
        with Server() as server:
            server.answer_with(reply)
            models = [word for name in WRONG for word in ("--model", f"{name}=openai/{name}@{server.url}/v1")]
            assert medhelm("run", "toy", *models, "--store", "store", "--attempts", "1").code in (0, 1, 3)

    made_once(tmp_path, __name__, make)

    def found(*arguments: str) -> set[int]:
        done = medhelm("cases", "toy", *arguments, "--store", "store", "--json")
        assert done.code == 0, done.err
        content = json.loads(done.out)
        assert content["total"] == len(content["cases"])
        return {int(one["id"][1:]) for one in content["cases"]}

    return found


def test_cases_between_a_release_and_the_store_are_those_that_changed(medhelm: Medhelm, tmp_path: Path) -> None:
    make_benchmark(tmp_path, n=N)
    runs = ("--model", "second", "--store", "store")
    with Server() as server:
        model = ("--model", f"second=openai/second@{server.url}/v1", "--store", "store")
        server.answer_with(reply)
        medhelm("run", "toy", *model)
        medhelm("release", "then", "--store", "store")
        server.answer_with(lambda body: chat("C" if (n := question_number(body)) == 2 else "A" if n < 9 else RIGHT[n]))
        medhelm("run", "toy", *model, "--fresh")

    def ids(became: str) -> list[str]:
        return [one["id"] for one in found(became)["cases"]]

    def found(became: str) -> Any:
        return medhelm("cases", "toy", "--between", "then", "current", "--became", became, *runs, "--json").json

    (change,) = medhelm("diff", "then", "--store", "store", "--json").json["cases"]
    assert (change["gained"], change["lost"], change["other"]) == (["q7"], ["q8"], ["q2"])
    assert [ids(became) for became in ("right", "wrong", "other")] == [["q7"], ["q8"], ["q2"]]
    assert found("right")["cases"][0]["answers"] == {"second [then]": "B", "second [current]": "A"}
    between = ("--between", "then", "current")
    assert_refused(
        medhelm("cases", "toy", *between, "--became", "wrong", "--model", "third", *runs[2:]), "name it with --model"
    )
    assert_refused(medhelm("cases", "toy", "--became", "wrong", *runs), "--became goes with --between")
    assert_refused(medhelm("cases", "toy", "--between", "then", "gone", *runs[2:]), "neither a release")
    assert_refused(medhelm("cases", "other", *between, *runs[2:]), "no model has other completions")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), set(range(N))),
        (("--wrong",), {2, 5}),
        (("--wrong", "--model", "second"), {2, 5, 7}),
        (("--flipped", "first", "second"), {1, 7, 9}),
        (("--flipped", "second", "first"), {1, 7, 9}),
        (("--failure", "refusal"), {9}),
        (("--below", "0.5", "--model", "second"), {2, 5, 7}),
        (("--text", "number 11"), {11}),
        (("--wrong", "--slice", "topic=1"), {5}),
    ],
)
def test_cases_meet_the_conditions(listed: Any, arguments: tuple[str, ...], expected: set[int]) -> None:
    assert listed(*arguments) == expected


def test_a_line_has_the_id_the_key_and_the_answers(listed: Any, medhelm: Medhelm) -> None:
    done = medhelm("cases", "toy", "--wrong", "--store", "store")
    lines = [line.split() for line in done.out.splitlines()[2:]]
    assert [line[:4] for line in lines] == [["q2", "B", "A", "A"], ["q5", "B", "A", "A"]]
    assert "2 cases of toy." in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--wrong", "--disagree"), "choose one of --wrong, --disagree and --show."),
        (("--failure", "anger"), "--failure anger: is not a failure code. Codes: "),
        (("--flipped", "first", "third"), "no selected run of `third` on toy."),
        (("--criterion", "safety"), "--criterion safety: judges did not grade it. Criteria: none."),
        (("--slice", "north"), "--slice north: toy has no such group. It has no groups."),
        (("--slice", "topic=x"), "--slice topic=x: no case has this value. "),
        (("--slice", "nothing=x"), "toy has no such column. Known: topic."),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(
    listed: Any, medhelm: Medhelm, arguments: tuple[str, ...], message: str
) -> None:
    done = medhelm("cases", "toy", *arguments, "--store", "store")
    assert done.code == 2
    assert message in done.err
