"""The leaderboard of the runs that are exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Rule
from medhelm.results.export_selection import ExportRequest, ExportSelection
from medhelm.results.leaderboard import SEED, leaderboard, read_inputs


def export_leaderboard(store: Path, selection: ExportSelection, wanted: ExportRequest, rule: Rule) -> Leaderboard:
    """The leaderboard of a store, or of the benchmarks and models that are asked for: the numbers that
    `medhelm leaderboard` shows.
    """
    if not wanted.benchmarks and not wanted.models:
        return leaderboard([store], rule=rule, tier=selection.tier)
    finished = read_inputs([store], rule, selection.tier)
    cells = [cell for cell in finished.cells if (cell.model, cell.benchmark) in selection.counted]
    names = {cell.benchmark for cell in cells}
    board = build_leaderboard(
        cells,
        [column for column in finished.columns if column.benchmark in names],
        rng=np.random.default_rng(SEED),
        scoring=rule,
        tier=selection.tier,
    )
    return replace(board, warnings=(*board.warnings, *selection.remarks))
