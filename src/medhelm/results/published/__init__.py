"""The published results of nine models on 37 benchmarks, as data: what they were, what they cost, how to rank them."""

from __future__ import annotations

from medhelm.results.published.boards import leaderboard_with_published, published_leaderboard
from medhelm.results.published.cells import (
    PublishedCost,
    ceiling_of,
    cost_of_score,
    published_cells,
    published_costs,
    published_rows,
)
from medhelm.results.published.data import (
    PublishedBenchmark,
    PublishedModel,
    PublishedResults,
    PublishedScore,
    load_results,
)

__all__ = [
    "PublishedBenchmark",
    "PublishedCost",
    "PublishedModel",
    "PublishedResults",
    "PublishedScore",
    "ceiling_of",
    "cost_of_score",
    "leaderboard_with_published",
    "load_results",
    "published_cells",
    "published_costs",
    "published_leaderboard",
    "published_rows",
]
