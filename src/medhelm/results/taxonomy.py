"""The taxonomy of medical tasks with its benchmarks, and which of them have local data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medhelm.benchmarks.availability import availability
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Benchmark
from medhelm.reports.benchmarks import (
    BenchmarkCoverage,
    CategoryCoverage,
    SubcategoryCoverage,
    evaluated,
    evaluated_in_words,
)


def coverage(benchmarks: Sequence[Benchmark], data: Path | None) -> list[CategoryCoverage]:
    """The taxonomy with its benchmarks; categories and subcategories of the user's own come last, by their ids.

    `data`: the folder with one folder per benchmark, None if there is none.
    """
    places: dict[tuple[str, str], list[BenchmarkCoverage]] = {}
    for benchmark in benchmarks:
        place = (benchmark.taxonomy.category, benchmark.taxonomy.subcategory)
        places.setdefault(place, []).append(_benchmark(benchmark, data))
    categories = []
    for category in load_taxonomy():
        subcategories = [
            SubcategoryCoverage(
                id=sub.id, title=sub.title, tasks=sub.tasks, benchmarks=places.pop((category.id, sub.id), [])
            )
            for sub in category.subcategories
        ]
        subcategories += _own(places, category.id)
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
        categories.append(CategoryCoverage(id=own, title=_words(own), subcategories=_own(places, own)))
    return categories


def _own(places: dict[tuple[str, str], list[BenchmarkCoverage]], category: str) -> list[SubcategoryCoverage]:
    """Subcategories of a category that the taxonomy does not know; they are taken out of `places`."""
    found = sorted(sub for cat, sub in places if cat == category)
    return [SubcategoryCoverage(id=sub, title=_words(sub), benchmarks=places.pop((category, sub))) for sub in found]


def _benchmark(benchmark: Benchmark, data: Path | None) -> BenchmarkCoverage:
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


def _words(id_: str) -> str:
    """An id as a title."""
    return id_.replace("_", " ").capitalize()
