"""Floors of a rubric, from the definition through a server to the leaderboard: counts worked out by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.means import estimate
from medhelm.domain import RULES, Floor
from medhelm.results.leaderboard import leaderboard
from medhelm.results.leaderboard_view import as_json, to_table
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import DEFINITION, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
from tests.support.stores import add_judged_runs
from tests.support.values import present
from tests.support.web.sites import make_client

WITH_FLOOR = f"{DEFINITION}  floor: {{criterion: accuracy, at_least: 3}}\n"
GRADES = {0: (3, 3), 1: (2, 3), 2: (2, 4), 3: (1, 1), 7: (5, 5), 8: (5, 4)}
"""Question -> accuracy by both judges: 1 and 3 are below 3. Completion 4 is blank, 5 refused, 6 cannot be judged."""


def answer(body: Mapping[str, Any]) -> Answer:
    question = number(body)
    if is_judge(body):
        given = GRADES.get(question)
        return chat(verdict(given[body["model"] == "judge-2"], 5, 5) if given else "no idea")
    if question == 5:
        return Answer(status=400, body={"error": {"message": "content filter", "code": "content_filter"}})
    return chat("" if question == 4 else f"An answer to number {question}")


def test_a_floor_from_the_definition_to_the_site(medhelm: Medhelm, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Server() as server:
        server.answer_with(answer)
        words = ["--model", f"openai/m@{server.url}/v1", "--store", store, "--attempts", "1"]
        words += [word for name in ("judge-1", "judge-2") for word in ("--judge", f"openai/{name}@{server.url}/v1")]
        medhelm("run", write_benchmark(tmp_path), *words)
        (before,) = as_json(leaderboard([store]))["models"]
        assert "below_floor" not in before
        assert "Below floor" not in to_table(leaderboard([store]))
        n_sent = server.count
        medhelm("run", write_benchmark(tmp_path, definition=WITH_FLOOR), *words)
        sent = server.bodies[n_sent:]
    assert {number(body) for body in sent} <= {5, 6}, "failures are asked for again, as without a floor"
    board = leaderboard([store])
    (after,) = as_json(board)["models"]
    mean = present(estimate(np.array([0, 1, 0, 1, 1, 1, 0, 0.0]), low=0.0, high=1.0))
    expected = {"value": 0.5, "low": mean.low, "high": mean.high, "n": 8}
    assert after.pop("below_floor") == pytest.approx(expected, abs=1e-6)
    second = after["benchmarks"]["letters"].pop("with_floors")
    assert after["benchmarks"] == before["benchmarks"], "no score moves"
    # Questions 0, 2, 7 and 8 keep (accuracy + 5 + 5) / 3; the two below the floor, the blank one and the refusal are 1.
    assert (second["value"], second["n"], second["n_below"]) == (pytest.approx((13 + 13 + 15 + 14.5 + 12) / 24), 8, 4)
    assert after.pop("average_with_floors")["value"] == pytest.approx((second["value"] - 1) / 4, abs=1e-6)
    assert after.pop("rank_with_floors") == 1
    assert board.verdict[-1].startswith(f"Completions below a floor: {board.rows[0].model} 4 of 8.")
    assert f"50.0% [{100 * mean.low:.1f}, {100 * mean.high:.1f}]" in to_table(board, format="md")
    (row,) = csv.DictReader(io.StringIO(to_table(board, format="csv")))
    assert (row["below_floor"], row["below_floor_n"]) == ("0.5", "8")
    said = f"4 of 8 completions of {board.rows[0].model} are below the floor of Accuracy on Letters (at least 3)."
    assert said in texts(board.remarks)
    with make_client(store) as client:
        assert "Below floor" in client.get("/").text
    for rule in RULES:
        found = present(leaderboard([store], rule=rule, completers_only=rule == "corrected").rows[0].below_floor)
        assert (found.value, found.n) == pytest.approx((3 / 7, 7)), "the refusal is left out there"


def table(*accuracy: float) -> np.ndarray:
    """Grades of two judges on one model, shape (2, 1, n, 3): 4 on all criteria but accuracy."""
    found = np.full((2, 1, len(accuracy), 3), 4.0)
    found[..., 0] = accuracy
    return found


def test_lower_can_be_better_and_one_completion_counts_once(tmp_path: Path) -> None:
    """Judges give harm 6 minus these grades: at most 2 is at least 4 here."""
    known: dict[str, Any] = {"models": ["m"], "judges": ["a", "b"]}
    floors = [Floor(criterion="accuracy", at_most=2.0), Floor(criterion="clarity", at_least=4.5)]
    add_judged_runs(tmp_path, "one", table(5, 4, 3, 2), lower_is_better=["accuracy"], floors=floors[:1], **known)
    both = table(1, 1, 5)
    both[..., 1, 2], both[..., 2, 2] = 5.0, np.nan  # clarity: 4 is below 4.5, 5 is not, one is not known
    add_judged_runs(tmp_path, "two", both, floors=[Floor(criterion="accuracy", at_least=2.0), floors[1]], **known)
    add_judged_runs(tmp_path, "three", table(1, 1), **known)
    board = leaderboard([tmp_path])
    found = present(board.rows[0].below_floor)
    mean = present(estimate(np.array([0, 0, 1, 1, 1, 1.0]), low=0.0, high=1.0))
    assert (found.value, found.low, found.high, found.n) == pytest.approx((4 / 6, mean.low, mean.high, 6))
    said = [remark.text for remark in board.remarks if remark.code == "below_floor"]
    assert said == [
        "2 of 4 completions of m are below the floor of Accuracy on One (at most 2).",
        "2 of 3 completions of m are below the floor of Accuracy on Two (at least 2).",
        "1 of 2 completions of m is below the floor of Clarity on Two (at least 4.5).",
    ]


def test_equal_decimals_are_not_below_and_the_latest_floor_holds_for_all(tmp_path: Path) -> None:
    thirds = np.full((3, 1, 1, 3), 0.1) * np.array([1, 2, 3])[:, None, None, None]  # their mean is 0.2
    for model, at_least, day in (("m", 5.0, "01"), ("n", 0.2, "02")):
        floors = [Floor(criterion="accuracy", at_least=at_least)]
        started = f"2026-01-{day}T00:00:00+00:00"
        add_judged_runs(tmp_path, "one", thirds, models=[model], floors=floors, started=started)
    assert [row.below_floor and row.below_floor.value for row in leaderboard([tmp_path]).rows] == [0.0, 0.0]
