"""The taxonomy of medical tasks with its benchmarks, and which of them have local data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medhelm.benchmarks.availability import availability
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Benchmark
from medhelm.domain.grouping import group_by
from medhelm.reports.benchmarks import (
    BenchmarkCoverage,
    CategoryCoverage,
    SubcategoryCoverage,
    evaluated,
    evaluated_in_words,
)


def coverage(benchmarks: Sequence[Benchmark], data: Path | None) -> list[CategoryCoverage]:
    """Return the taxonomy with its benchmarks; categories and subcategories of the user come last, by their ids.

    `data`: the folder with one folder per benchmark; None if there is none.
    """
    by_place = group_by(benchmarks, lambda one: (one.taxonomy.category, one.taxonomy.subcategory))
    places = {place: [_benchmark_coverage(one, data) for one in own] for place, own in by_place.items()}
    categories = []
    for category in load_taxonomy():
        subcategories = [
            SubcategoryCoverage(
                id=sub.id, title=sub.title, tasks=sub.tasks, benchmarks=places.pop((category.id, sub.id), [])
            )
            for sub in category.subcategories
        ]
        subcategories += _pop_other_subcategories(places, category.id)
        categories.append(
            CategoryCoverage(
                id=category.id,
                title=category.title,
                definition=category.definition,
                criterion=category.criterion,
                performers=category.performers,
                subcategories=subcategories,
            )
        )
    for own in sorted({category for category, _ in places}):
        categories.append(
            CategoryCoverage(id=own, title=_title(own), subcategories=_pop_other_subcategories(places, own))
        )
    return categories


def _pop_other_subcategories(
    places: dict[tuple[str, str], list[BenchmarkCoverage]], category: str
) -> list[SubcategoryCoverage]:
    """Remove the subcategories of a category that the taxonomy does not have from `places`, and return them."""
    found = sorted(sub for cat, sub in places if cat == category)
    return [SubcategoryCoverage(id=sub, title=_title(sub), benchmarks=places.pop((category, sub))) for sub in found]


def _benchmark_coverage(benchmark: Benchmark, data: Path | None) -> BenchmarkCoverage:
    found = availability(benchmark, data)
    who = {"gated": "; under an agreement", "private": "; its owner has it"}.get(benchmark.access, "")
    return BenchmarkCoverage(
        name=benchmark.name,
        task=benchmark.taxonomy.task,
        access=benchmark.access,
        instances=evaluated_in_words(benchmark),
        n=evaluated(benchmark),
        here=found.is_usable,
        why_not="" if found.is_usable else found.reason + (who if found.state == "absent" else ""),
    )


def _title(id_: str) -> str:
    """Return an id as a title."""
    return id_.replace("_", " ").capitalize()
