"""The head-to-head matrix in every format."""

from __future__ import annotations

import csv
import io

import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.results.leaderboard_view import MOST_HEAD_TO_HEAD, MOST_SHOWN, as_json, to_table
from tests.support.leaderboards import UNEVEN, plain_columns, published, toy_board


@pytest.mark.parametrize("format", ["table", "md", "latex"])
def test_published_models_are_marked(format: str) -> None:
    text = to_table(published(), "head-to-head", format)
    assert "Share of benchmarks" in text
    assert ("GPT-4o $\\dagger$" if format == "latex" else "GPT-4o †") in text


def test_csv_and_json_list_every_pair_once() -> None:
    board = build_leaderboard(UNEVEN, plain_columns("x", "y", "z"))
    rows = list(csv.DictReader(io.StringIO(to_table(board, "head-to-head", "csv"))))
    listed = as_json(board)["head_to_head"]
    assert len(rows) == len(listed) == 3
    (found,) = [one for one in listed if {one["a"], one["b"]} == {"A", "B"}]
    share = 0.25 if found["a"] == "A" else 0.75
    assert found | {"a": "", "b": ""} == {
        "a": "", "b": "", "win_share": share, "unit": "instances", "n_benchmarks": 1, "separated": False,
    }  # fmt: skip
    assert [float(row["win_share"]) for row in rows] == [one["win_share"] for one in listed]


def test_many_models_are_listed_on_request() -> None:
    board = toy_board(MOST_HEAD_TO_HEAD + 1, 2)
    assert as_json(board)["head_to_head"] == []
    n = len(board.rows)
    assert len(as_json(board, by="head-to-head")["head_to_head"]) == n * (n - 1) // 2
    text = to_table(board, "head-to-head")
    assert f"the first {MOST_SHOWN} of {n} models, CSV lists all pairs" in text
    assert len(text.splitlines()) == MOST_SHOWN + 4
