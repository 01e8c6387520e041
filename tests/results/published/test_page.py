"""The page on the published results says what the data says."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.extensions.paper.write import published_costs
from medhelm.results.formats.tables import Value, render
from medhelm.results.published.boards import load_results, published_leaderboard
from tests.support.leaderboards import TABLE_1

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "published_results.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))

PRINTED = {
    model: f"{win:.2f} ({win_sd:.2f}), {macro:.2f} ({macro_sd:.2f})"
    for model, (win, win_sd, macro, macro_sd) in TABLE_1.items()
}
"""Table 1: win rate and macro average, each with its SD."""


def four(board: Leaderboard, model: str) -> tuple[str, str]:
    """The same from a board, and the win rate to three decimals."""
    (row,) = [row for row in board.rows if row.model == model]
    assert row.win_rate
    assert row.macro_average
    numbers = (row.win_rate.value, row.win_rate.sd, row.macro_average.value, row.macro_average.sd)
    win, win_sd, macro, macro_sd = (f"{number:.2f}" for number in numbers)
    return f"{win} ({win_sd}), {macro} ({macro_sd})", f"{row.win_rate.value:.3f}"


def tables() -> str:
    """Tables 1 and 3 of the page."""
    paper, everything = published_leaderboard(suite="paper35"), published_leaderboard()
    first: list[list[Value]] = []
    for model in load_results().models.values():
        found, _ = four(paper, model.name)
        first.append([model.name, PRINTED[model.name], found, f"{model.win_rate:.3f}", four(everything, model.name)[1]])
    headers = ["Model", "Table 1, printed", "Computed", "Win rate over 37, published", "Computed "]
    second: list[list[Value]] = [
        [
            row.model,
            f"{row.benchmark_tokens:,}",
            f"{row.jury_tokens:,}",
            f"{row.benchmark_usd:,.2f}",
            f"{row.jury_usd:,.2f}",
            f"{row.total_usd:,.2f}",
            f"{other.total_usd:,.2f}",
        ]
        for row, other in zip(published_costs(), published_costs("all"), strict=True)
    ]
    sums = [sum(row.total_usd or 0 for row in published_costs(suite)) for suite in ("paper35", "all")]
    second.append(["all nine", "", "", "", "", f"{sums[0]:,.2f}", f"{sums[1]:,.2f}"])
    costs = ["Table 3", "Tokens", "Jury tokens", "USD", "Jury USD", "Total USD", "Total USD, all 37"]
    return f"{render(first, headers, format='md')}\n{render(second, costs, format='md')}"


def test_the_tables_on_the_page_are_those_of_the_data() -> None:
    """Written anew by `MEDHELM_UPDATE_GOLDEN=1 pytest tests/results/published/test_page.py`."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    shown, _, after = rest.partition(END)
    if UPDATE:
        PAGE.write_text(before + BEGIN + tables() + END + after, encoding="utf-8", newline="\n")
        shown = tables()
    assert shown == tables()


def test_the_page_names_every_file_and_counts_pairs_right() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for source in load_results().sources["files"]:
        assert f"`{source['file']}`" in text
        for path in source["taken_from"].split():
            assert not path.startswith("data/") or f"`{path}`" in text
    assert "give 0.636 if they count as half, 0.632 if they count as lost, and 0.639 if they count as won" in text
    board = published_leaderboard()
    adjacent = sum(pair in board.separated for pair in pairwise(row.model for row in board.rows))
    assert f"{len(board.separated)} of the 36 pairs of models differ significantly" in text
    assert f"{adjacent or 'none'} of the eight pairs that are adjacent in rank" in text
    assert " ".join(board.verdict) in text.replace(" > ", " ")
