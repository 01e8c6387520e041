"""Leaderboards of every size for tests of reports, and names that try to break out of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import Floats
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import Tier
from medhelm.extensions.paper.contents import ModelCost
from medhelm.results.published.boards import published_leaderboard

PUBLISHED_CSV = Path(__file__).parents[1] / "fixtures" / "published_leaderboard.csv"

TABLE_1 = {
    "DeepSeek R1": (0.66, 0.10, 0.75, 0.22),
    "o3-mini": (0.64, 0.16, 0.77, 0.18),
    "Claude 3.7 Sonnet": (0.64, 0.13, 0.73, 0.21),
    "Claude 3.5 Sonnet": (0.63, 0.14, 0.73, 0.21),
    "GPT-4o": (0.57, 0.17, 0.73, 0.18),
    "Gemini 2.0 Flash": (0.42, 0.17, 0.70, 0.21),
    "GPT-4o mini": (0.39, 0.18, 0.71, 0.20),
    "Llama 3.3 70B": (0.30, 0.13, 0.69, 0.22),
    "Gemini 1.5 Pro": (0.24, 0.08, 0.67, 0.21),
}
"""Win rate, its SD, macro average, its SD, as printed in table 1 of the paper."""

TABLE_3 = {
    "Claude 3.5 Sonnet": (245_958_343, 45_868_483, 778.67, 792.21, 1570.88),
    "Claude 3.7 Sonnet": (242_510_517, 42_326_449, 768.26, 768.38, 1536.64),
    "DeepSeek R1": (334_133_126, 68_364_208, 848.21, 957.96, 1806.17),
    "Gemini 1.5 Pro": (277_273_571, 42_864_352, 359.33, 771.73, 1131.06),
    "Gemini 2.0 Flash": (276_777_154, 42_864_352, 43.04, 771.73, 814.77),
    "GPT-4o": (248_731_118, 41_929_516, 647.28, 765.91, 1413.19),
    "GPT-4o mini": (248_731_118, 41_929_516, 38.83, 765.91, 804.74),
    "Llama 3.3 70B": (242_895_608, 42_121_933, 172.45, 767.13, 939.58),
    "o3-mini": (337_967_189, 68_617_978, 762.50, 959.54, 1722.04),
}
"""Benchmark tokens, jury tokens, benchmark cost, jury cost, total, as printed in table 3."""

HOSTILE = (
    "</text><script>alert(1)</script>",
    'datum.model["x"] \\u0041 ${signal}',
    "a.b[c]\\.d\n| md | \u202e & 50 % _x_ `code` #1 ~ ^ {z} --",
    "=cmd|' /C calc'!A0",
    "n" * 300,
)
"""Names of models that mean something to SVG, HTML, Markdown, LaTeX or a spreadsheet, or do not fit."""


@functools.cache
def published() -> Leaderboard:
    """The paper's own board."""
    return published_leaderboard(suite="paper35")


def toy_board(
    n_models: int,
    n_benchmarks: int,
    *,
    names: Sequence[str] = (),
    missing: Sequence[tuple[int, int]] = (),
    tied: bool = False,
    tier: Tier = "real",
    n: int = 12,
    costs: Sequence[float | None] = (),
) -> Leaderboard:
    """Models that are the better the higher their number.

    `missing`: pairs of model and benchmark without a run; `costs`: of each model on a benchmark, none for unknown.
    """
    rng = np.random.default_rng(n_models * 100 + n_benchmarks)
    columns = [
        Column(
            benchmark=entry.name, title=entry.title, category=entry.category, subcategory=entry.subcategory,
            metric="exact_match", metric_title="EM",
        )
        for entry in load_suite()[:n_benchmarks]
    ]  # fmt: skip
    shown = [*names, *(f"lab/model-{i}" for i in range(len(names), n_models))]
    cells = []
    for i, model in enumerate(shown):
        for j, column in enumerate(columns):
            if (i, j) in missing:
                continue
            scores = np.arange(n) % 2 if tied else rng.random(n) < (i + 1) / (n_models + 1)
            ids = [f"q{k}" for k in range(n)]
            values = scores.astype(float)
            cells.append(
                Cell(
                    model=model, benchmark=column.benchmark, value=float(values.mean()), ids=ids, scores=values, n=n,
                    cost_usd=costs[i] if costs else None,
                )
            )  # fmt: skip
    return build_leaderboard(cells, columns, tier=tier)


def toy_costs(board: Leaderboard, unknown: Sequence[int] = (), free: Sequence[int] = ()) -> list[ModelCost]:
    """Costs that rise by place on the board; those of some places unknown, or nothing."""
    costs = []
    for place, row in enumerate(board.rows):
        usd = None if place in unknown else 0.0 if place in free else 0.37 * 1.6**place
        costs.append(
            ModelCost(
                model=row.model, benchmark_tokens=1000 * place, jury_tokens=0, benchmark_usd=usd, jury_usd=0.0,
                ceiling_usd=None if usd is None else 2 * usd,
            )
        )  # fmt: skip
    return costs


def column(name: str, low: float = 0.0, high: float = 1.0, **changes: Any) -> Column:
    """Describe a benchmark, on a scale from 0 to 1 unless told otherwise."""
    fields = {"title": name, "category": "c", "subcategory": "s", "metric": "m", **changes}
    return Column(benchmark=name, low=low, high=high, **fields)


def plain_columns(*names: str) -> list[Column]:
    """Describe benchmarks on a scale from 0 to 1."""
    return [column(name) for name in names]


def score_cell(
    model: str, benchmark: str, scores: Sequence[float] | Floats, clusters: Sequence[str] | None = None, **changes: Any
) -> Cell:
    """Make the cell of a model with these scores."""
    values = np.array(scores, dtype=float)
    ids = [f"q{i}" for i in range(len(values))]
    value = None if np.isnan(values).all() else float(np.nanmean(values))
    cell = Cell(model=model, benchmark=benchmark, value=value, ids=ids, scores=values, clusters=clusters)
    return replace(cell, **changes)


def score_cells(benchmark: str, scores: Sequence[Floats] | Floats, clusters: Sequence[str] | None = None) -> list[Cell]:
    """Make a cell for each row of scores, of models m0, m1, ..."""
    return [score_cell(f"m{i}", benchmark, row, clusters) for i, row in enumerate(scores)]


UNEVEN = [
    score_cell("A", "x", [1, 0]), score_cell("B", "x", [1, 1]), score_cell("C", "x", [0, 0.5]),
    score_cell("A", "y", [1]), score_cell("C", "y", [1]),
    score_cell("C", "z", [1]),
]  # fmt: skip
"""Three models of which B lacks y, and only C has z."""
