"""Shaded tables: steps, missing and failed cells, marks of separated pairs."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.rows import HeadToHead, head_to_head
from medhelm.extensions.web.app import environment
from medhelm.extensions.web.board_charts import SCORE_EDGES, SHARE_EDGES, head_to_head_table, heat_map, step
from tests.support.leaderboards import HOSTILE, toy_board


@pytest.mark.parametrize("edges", [SCORE_EDGES, SHARE_EDGES])
def test_steps_cover_the_scale_and_are_as_many_as_the_style_sheet_has(edges: tuple[float, ...]) -> None:
    found = [step(value, edges) for value in np.linspace(0, 1, 101).tolist()]
    assert found == sorted(found)
    assert set(found) == set(range(1, 8))


def test_shares_are_shaded_alike_on_both_sides_of_one_half() -> None:
    assert all(step(0.5 + d, SHARE_EDGES) == 8 - step(0.5 - d, SHARE_EDGES) for d in (0.0, 0.04, 0.1, 0.2, 0.4, 0.5))


def test_every_cell_has_a_number_and_its_step() -> None:
    board = toy_board(3, 4)
    table = heat_map(board)
    for (name, cells), row in zip(table.rows, board.all_rows, strict=True):
        assert name.key == row.model
        for cell, column in zip(cells, board.columns, strict=True):
            value = row.cells[column.benchmark].value
            assert value is not None
            assert (cell.text, cell.css) == (f"{value:.2f}", f"step-{step(value)}")


def test_missing_and_failed_cells_differ() -> None:
    board = toy_board(3, 2, missing=[(0, 0)])
    row, failed = board.rows[0], board.columns[1].benchmark
    cells = {**row.cells, failed: replace(row.cells[failed], value=None)}
    table = heat_map(replace(board, rows=(replace(row, cells=cells), *board.rows[1:])))
    kinds = {cell.css: (cell.text, cell.tip.partition(": ")[2]) for _, cells in table.rows for cell in cells}
    assert kinds["missing"] == ("–", "not run")
    assert kinds["failed"] == ("failed", "no instance could be scored")
    assert [css for css, _ in table.legend][-2:] == ["missing", "failed"]


def test_low_scores_are_the_best_where_low_is_better() -> None:
    board = toy_board(2, 2)
    turned_columns = tuple(replace(column, higher_is_better=False) for column in board.columns)
    normal, turned = heat_map(board), heat_map(replace(board, columns=turned_columns))
    assert [float(cells[0].text) for _, cells in turned.rows] == pytest.approx(
        [1 - float(cells[0].text) for _, cells in normal.rows], abs=0.011
    )


def test_csv_of_the_heat_map_has_every_number() -> None:
    board = toy_board(4, 3, names=HOSTILE, missing=[(1, 1)])
    lines = list(csv.reader(io.StringIO(heat_map(board).csv)))
    assert lines[0] == ["model", *(column.benchmark for column in board.columns)]
    assert len(lines) == 1 + len(board.all_rows)
    assert sum(cell == "" for line in lines for cell in line) == 1


def test_separated_pairs_are_marked_on_both_sides() -> None:
    board = toy_board(4, 6, n=60)
    found = head_to_head(board)
    table = head_to_head_table(board, found)
    for i, (_, cells) in enumerate(table.rows):
        for j, cell in enumerate(cells):
            assert ("separated" in cell.css, cell.text.endswith("*")) == (found.separated[i, j],) * 2
    assert found.separated.any()


def test_pairs_without_a_common_benchmark_are_missing() -> None:
    board = toy_board(2, 2)
    nothing = HeadToHead(
        models=("a", "b"), unit="instances", win_share=np.full((2, 2), np.nan), n_benchmarks=np.zeros((2, 2), int),
        separated=np.zeros((2, 2), bool), circles=(),
    )  # fmt: skip
    table = head_to_head_table(board, nothing)
    assert [[cell.css for cell in cells] for _, cells in table.rows] == [["self", "missing"], ["missing", "self"]]


def test_templates_escape_names() -> None:
    board = toy_board(5, 2, names=HOSTILE)
    template = environment().from_string(
        "{% from 'charts/shaded.html' import shaded %}"
        "{% for table in tables %}{{ shaded(table, {'csv': '/x'}) }}{% endfor %}"
    )
    html = template.render(tables=[heat_map(board), head_to_head_table(board, head_to_head(board))])
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.count("<table") == html.count("</table>") == 2
