"""Suites of a store: their benchmarks and weights, and the order in which benchmarks are listed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.benchmarks.suites import find_suite, load_suite
from medhelm.domain.benchmark import Suite, SuiteEntry

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Column


def resolve_suite(suite: str, columns: Iterable[Column] = (), folders: Sequence[Path] = ()) -> Suite:
    """Return a suite by name or file.

    Parameters: columns, benchmarks with results, which belong to their categories; folders, folders with further
    benchmarks. A file may name these and all known benchmarks, with or without results.
    Raises: UserError and ConfigError as `find_suite`.
    """
    others = [
        SuiteEntry(name=c.benchmark, title=c.title, category=c.category, subcategory=c.subcategory) for c in columns
    ]
    if Path(suite).is_file():
        from medhelm.benchmarks.catalog import all_names  # lazy: few suites are files

        others += [SuiteEntry(name=name, title=name, category="", subcategory="") for name in all_names(folders)]
    return find_suite(suite, others)


def suite_sort_key(benchmark: str) -> tuple[int, str]:
    """Return a sort key: benchmarks of the suite in its order, then all others by name."""
    places = _places_in_suite()
    return places.get(benchmark, len(places)), benchmark


@cache
def _places_in_suite() -> dict[str, int]:
    return {entry.name: place for place, entry in enumerate(load_suite())}
