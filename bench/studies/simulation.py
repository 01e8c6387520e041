"""Parts that simulations share: synthetic cells and columns, intervals that hold the truth, and the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bench.table import table
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Average
from medhelm.analysis.means import Clusters, Floats, estimate
from medhelm.domain import Estimate

Table = tuple[Sequence[str], Iterable[Sequence[object]]]
"""Headings and rows."""


def column(name: str, low: float = 0.0, high: float = 1.0) -> Column:
    """Return the column of a synthetic benchmark."""
    return Column(benchmark=name, title=name, category="c", subcategory="s", metric="m", low=low, high=high)


def scored_cell(model: str, column: Column, scores: Floats, clusters: Clusters = None) -> Cell:
    """Return the cell of a model from the scores of single instances, nan for those without one."""
    found = estimate(scores, clusters, low=column.low, high=column.high)
    assert found is not None, "some instance has a score"
    return Cell(
        model=model,
        benchmark=column.benchmark,
        value=found.value,
        estimate=found,
        n_failed=found.n_failed,
        ids=[str(i) for i in range(len(scores))],
        scores=scores,
        clusters=clusters,
    )


def holds(found: Estimate | Average | None, truth: float) -> bool:
    """Return whether an interval contains the truth, but for rounding errors."""
    return found is not None and (found.low or 0.0) - 1e-9 <= truth <= (found.high or 0.0) + 1e-9


def mean_of_each(found: Sequence[Sequence[float]]) -> list[float]:
    """Return the means of several numbers over simulations."""
    means: list[float] = np.mean(found, axis=0).tolist()
    return means


def percent(*shares: float) -> list[str]:
    """Format shares for a table."""
    return [f"{share:.1%}" for share in shares]


def print_tables(
    description: str | None, tables: Callable[[int], Iterable[Table]], option: str, default: int, meaning: str
) -> None:
    """Parse the number of simulations from the command line, and print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(option, dest="number", type=int, default=default, help=f"{meaning} ({default})")
    for headings, rows in tables(parser.parse_args().number):
        print(table(headings, [[str(cell) for cell in row] for row in rows]), end="\n\n", flush=True)
