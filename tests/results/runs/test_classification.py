"""`medhelm confusion`: what models answered, from a run to its measures; refusals and unreadable answers are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark, question_number
from tests.support.cli import Medhelm
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server

N = 30
"""Questions; every third one has the answer `bad`."""


def reply(body: Any) -> Answer:
    """Find 8 of the 10 bad ones and 17 of the 20 good ones; refuse one, name no option in one, and fail in one."""
    number = question_number(body)
    if number in (0, 1):
        return chat("I cannot say.") if number else chat("", finish_reason="content_filter")
    if number == 3:
        return Answer(status=400, body={"error": {"message": "no", "code": "invalid_request"}})
    is_bad = number % 3 == 2
    return chat("B" if (is_bad and number not in (2, 5)) or number == 4 else "A")


@pytest.fixture
def evaluated(medhelm: Medhelm, tmp_path: Path) -> Medhelm:
    def make() -> None:
        make_benchmark(tmp_path, n=N, extra="positive: bad\n")
        with Server() as server:
            server.answer_with(reply)
            medhelm("run", "toy", "--model", f"openai/m@{server.url}/v1", "--store", "store", "--attempts", "1")

    made_once(tmp_path, __name__, make)
    return medhelm


def test_measures_of_a_run(evaluated: Medhelm) -> None:
    done = evaluated("confusion", "toy", "--threshold", "0.5", "--store", "store", "--json")
    assert done.code == 0, done.err
    content = json.loads(done.out)
    (one,) = content["models"]
    (of_class,) = one["by_class"]
    # 20 good questions: 1 failed and is missing, 1 refused, 1 unreadable, 1 called bad.
    assert (content["positive"], one["n"], one["n_failed"]) == ("bad", 29, 1)
    assert of_class["counts"] == {"tp": 8, "fp": 1, "fn": 2, "tn": 16, "unreadable": 2}
    assert one["confusion"] == {"good": {"": 2, "good": 16, "bad": 1}, "bad": {"good": 2, "bad": 8}}
    assert of_class["sensitivity"]["value"] == pytest.approx(0.8)
    assert of_class["specificity"]["value"] == pytest.approx(16 / 19, abs=1e-6)
    assert of_class["ppv"]["value"] == pytest.approx(8 / 9, abs=1e-6)
    assert of_class["net_benefit"]["value"] == pytest.approx((8 - 1) / 29, abs=1e-6)
    assert one["balanced_accuracy"]["value"] == pytest.approx((0.8 + 16 / 19) / 2, abs=1e-6)
    assert "Failed requests are missing: openai/m" in content["remarks"][-1]


def test_another_class_can_be_positive(evaluated: Medhelm) -> None:
    table = evaluated("confusion", "toy", "--positive", "Good", "--format", "csv", "--store", "store")
    assert table.code == 0, table.err
    heads, values = (line.split(",") for line in table.out.splitlines())
    row = dict(zip(heads, values, strict=True))
    assert row["class"] == "good"
    assert float(row["sensitivity"]) == pytest.approx(16 / 19, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("toy", "--positive", "ill"), "--positive ill: is not an option. Options: good, bad."),
        (("toy", "--threshold", "1.5"), "--threshold 1.5: must be a probability between 0 and 1."),
        (("pubmed_qa",), "no run of `pubmed_qa`"),
    ],
)
def test_wrong_arguments_are_named(evaluated: Medhelm, arguments: tuple[str, ...], message: str) -> None:
    done = evaluated("confusion", *arguments, "--store", "store")
    assert done.code == 2
    assert message in done.err
