"""Tables of a report agree with the printed paper, and names stay in their cells."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.comparison.power import detectable_effects
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.planned_cost import CompletionUse
from medhelm.benchmarks.suites import load_suite
from medhelm.extensions.paper import contents
from medhelm.extensions.paper.contents import PaperTable, write
from medhelm.extensions.paper.write import ReportRequest, gather_inputs
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import BoardOptions
from tests.support.leaderboards import HOSTILE, TABLE_1, TABLE_3, published, toy_board, toy_costs


def rows_of(table: PaperTable) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(write(table, "csv"))))


def number(text: str) -> float | None:
    return float(text) if text else None


def test_table_1_of_the_paper_comes_out_to_its_printed_digits() -> None:
    names = ("win_rate", "win_rate_sd", "macro_average", "macro_average_sd")
    found = {row["model"]: [float(row[name]) for name in names] for row in rows_of(contents.table_1(published()))}
    # Scores were published to three decimals, which makes ties: 0.6357 instead of 0.63.
    assert found["Claude 3.5 Sonnet"][0] == pytest.approx(0.6357, abs=5e-5)
    found["Claude 3.5 Sonnet"][0] = 0.63
    assert {model: [round(value, 2) for value in own] for model, own in found.items()} == {
        model: list(printed) for model, printed in TABLE_1.items()
    }


def test_table_3_of_the_paper_comes_out_to_its_printed_digits() -> None:
    found = gather_inputs(ReportRequest(published="only", options=BoardOptions(suite="paper35")))
    table = contents.table_3(found.costs, found.board)
    shown = {row["model"]: row for row in rows_of(table)}
    assert list(shown) == [row.model for row in found.board.rows]
    for model, (tokens, jury_tokens, usd, jury_usd, total) in TABLE_3.items():
        row = shown[model]
        assert (int(row["benchmark_tokens"]), int(row["jury_tokens"])) == (tokens, jury_tokens)
        assert [float(row[name]) for name in ("benchmark_usd", "jury_usd", "total_usd")] == [usd, jury_usd, total]
        assert row["basis"] == "ceiling"
    assert sum(float(row["total_usd"]) for row in shown.values()) == pytest.approx(11_739.07)
    assert "1,806.17" in write(table, "md")


def test_table_subcategories_holds_the_means_of_the_boards_subcategories() -> None:
    board = published()
    models = {model["model"]: model["subcategories"] for model in as_json(board)["models"]}
    rows = rows_of(contents.table_subcategories(board, contents.taxonomy_titles()))
    assert len(rows) == 22 * 9
    for row in rows:
        assert number(row["value"]) == models[row["model"]][row["subcategory"]]["value"]
    counts = {row["subcategory"]: int(row["n_benchmarks"]) for row in rows}
    assert sorted(counts.values()) == [1] * 15 + [2, 2, 2, 2, 3, 4, 5]


def test_table_c3_lists_the_35_benchmarks_with_access_source_and_instances() -> None:
    board = published()
    suite = [entry.name for entry in load_suite() if entry.in_paper]
    rows = rows_of(contents.table_c3(board, suite, contents.taxonomy_titles()))
    assert [row["benchmark"] for row in rows] == suite
    assert Counter(row["access"] for row in rows) == {"public": 14, "gated": 7, "private": 14}
    assert Counter(row["source"] for row in rows) == {"existing": 17, "reformulated": 5, "new": 13}


def test_table_e4_holds_both_rules() -> None:
    board = toy_board(3, 2, n=20)
    effects = detectable_effects([cell for row in board.rows for cell in row.cells.values()], board.columns)
    first = rows_of(contents.table_e4(effects, board))[0]
    # By hand: 2.8 standard errors of the paired difference, mean over the three pairs.
    scores = [row.cells[board.columns[0].benchmark].scores for row in board.rows]
    by_hand = [2.8 * np.std(a - b) / np.sqrt(20) for i, a in enumerate(scores) for b in scores[i + 1 :]]  # type: ignore[operator]
    for rule in ("published", "corrected"):
        assert float(first[f"{rule}_mde"]) == pytest.approx(np.mean(by_hand), abs=1e-6)
        assert float(first[f"{rule}_sd"]) == pytest.approx(np.std(by_hand), abs=1e-6)


def test_what_a_completion_takes_is_shown_if_it_is_known_and_an_unknown_cost_is_a_dash() -> None:
    board = toy_board(3, 2, n=40, costs=[0.1, 0.2, None])
    numbers = {"usd_per_1000": 2.5, "input_tokens": 900.0, "output_tokens": 99.6, "seconds": 1.234, "mean_seconds": 2.0}
    use = CompletionUse(completions=80, **numbers)
    timed = replace(board, rows=(replace(board.rows[0], use=use), *board.rows[1:]))
    table = contents.table_3(toy_costs(board), timed)
    assert table.headers[-3:] == ["Tokens per completion", "Seconds per completion", "On frontier"]
    by_model = {row[0]: list(row[-3:]) for row in table.rows}
    assert by_model[board.rows[0].model][:2] == ["1000", "1.2"]
    assert (by_model["lab/model-0"][2], by_model["lab/model-2"][2]) == ("1.00", None)
    assert "Not compared by cost, because their cost is unknown: lab/model-2." in table.notes
    unknown = contents.table_3(toy_costs(board, unknown=[1], free=[2]), board)
    assert [row[5] for row in unknown.rows] == ["0.37", None, "0.00"]


def all_tables(board: Leaderboard) -> list[PaperTable]:
    effects = detectable_effects([cell for row in board.rows for cell in row.cells.values()], board.columns)
    return [
        contents.table_1(board),
        contents.table_3(toy_costs(board), board),
        contents.table_c3(board, (), contents.taxonomy_titles()),
        contents.table_subcategories(board, contents.taxonomy_titles()),
        contents.table_e4(effects, board),
    ]


def test_hostile_names_stay_in_their_cells() -> None:
    board = toy_board(5, 2, names=HOSTILE)
    for table in all_tables(board):
        lines = write(table, "md").splitlines()
        cells = {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}
        assert len(cells) == 1, f"{table.key}: a name made or ended a cell"
    rows = [line for line in write(contents.table_1(board), "latex").splitlines() if line.endswith(r" \\")]
    assert (len(rows), len({len(re.findall(r"(?<!\\)&", row)) for row in rows})) == (1 + 5, 1)
    by_model = {row["model"] for row in rows_of(contents.table_1(board))}
    assert by_model == {f"'{name}" if name.startswith("=") else name for name in HOSTILE}, "a spreadsheet runs nothing"
