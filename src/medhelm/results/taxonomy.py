"""The taxonomy of medical tasks with its benchmarks, and which of them have local data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from medhelm.benchmarks.data.dataset import availability
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Benchmark
from medhelm.domain.benchmark import Category, Subcategory, group_by
from medhelm.reports.benchmarks import BenchmarkCoverage, TaxonomyCoverage


def coverage(benchmarks: Sequence[Benchmark], data: Path | None) -> TaxonomyCoverage:
    """Return the taxonomy with its benchmarks; categories and subcategories of the user come last, by their ids.

    `data`: the folder with one folder per benchmark; None if there is none.
    """
    by_place = group_by(benchmarks, lambda one: (one.taxonomy.category, one.taxonomy.subcategory))
    known = load_taxonomy()
    others = sorted({category for category, _ in by_place} - {category.id for category in known})
    named = [
        Category(id=one, title=_title(one), definition="", criterion="", performers="", subcategories=())
        for one in others
    ]
    return TaxonomyCoverage(
        categories=[_with_others(category, by_place) for category in (*known, *named)],
        benchmarks={place: [_benchmark_coverage(one, data) for one in own] for place, own in by_place.items()},
    )


def _with_others(category: Category, places: Iterable[tuple[str, str]]) -> Category:
    """Add the subcategories of the user to a category."""
    ids = {sub for own, sub in places if own == category.id} - {sub.id for sub in category.subcategories}
    others = (Subcategory(id=one, title=_title(one), tasks=(), points=0) for one in sorted(ids))
    return replace(category, subcategories=(*category.subcategories, *others))


def _benchmark_coverage(benchmark: Benchmark, data: Path | None) -> BenchmarkCoverage:
    found = availability(benchmark, data)
    who = {"gated": "; under an agreement", "private": "; its owner has it"}.get(benchmark.access, "")
    why_not = "" if found.is_usable else found.reason + (who if found.state == "absent" else "")
    return BenchmarkCoverage(benchmark=benchmark, why_not=why_not)


def _title(id_: str) -> str:
    """Return an id as a title."""
    return id_.replace("_", " ").capitalize()
