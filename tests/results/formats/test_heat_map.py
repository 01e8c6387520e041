"""Shaded tables: steps, missing and failed cells, marks of separated pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.rows import head_to_head
from medhelm.extensions.web.app import environment
from medhelm.extensions.web.board_charts import SCORE_EDGES, SHARE_EDGES, head_to_head_table, heat_map, step
from tests.support.leaderboards import HOSTILE, toy_board
from tests.support.values import present


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
        values = [present(row.cells[column.benchmark].value) for column in board.columns]
        assert [(cell.text, cell.css) for cell in cells] == [(f"{v:.2f}", f"step-{step(v)}") for v in values]


def test_missing_and_failed_cells_differ() -> None:
    board = toy_board(3, 2, missing=[(0, 0)])
    row, failed = board.rows[0], board.columns[1].benchmark
    cells = {**row.cells, failed: replace(row.cells[failed], value=None)}
    table = heat_map(replace(board, rows=(replace(row, cells=cells), *board.rows[1:])))
    kinds = {cell.css: (cell.text, cell.tip.partition(": ")[2]) for _, cells in table.rows for cell in cells}
    assert kinds["missing"] == ("–", "not run")
    assert kinds["failed"] == ("failed", "no instance could be scored")
    assert [css for css, _ in table.legend][-2:] == ["missing", "failed"]


def test_separated_pairs_are_marked_and_pairs_without_a_common_benchmark_are_missing() -> None:
    board = toy_board(4, 6, n=60)
    found = head_to_head(board)
    assert found.separated.any()
    for i, (_, cells) in enumerate(head_to_head_table(board, found).rows):
        for j, cell in enumerate(cells):
            assert ("separated" in cell.css, cell.text.endswith("*")) == (found.separated[i, j],) * 2
    nothing = replace(found, win_share=np.full((4, 4), np.nan), separated=np.zeros((4, 4), bool))
    styles = {cell.css for _, cells in head_to_head_table(board, nothing).rows for cell in cells}
    assert styles == {"self", "missing"}


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
