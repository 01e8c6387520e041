"""Which medical work is covered by which benchmarks: the taxonomy, with what is on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medhelm.benchmarks.availability import availability
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Benchmark
from medhelm.reports.catalog_report import evaluated, evaluated_in_words
from medhelm.reports.taxonomy_report import Bough, Branch, Leaf


def coverage(benchmarks: Sequence[Benchmark], data: Path | None) -> list[Bough]:
    """The taxonomy with its benchmarks; categories and subcategories of the user's own come last, by their ids.

    `data`: the folder with one folder per benchmark, None if there is none.
    """
    places: dict[tuple[str, str], list[Leaf]] = {}
    for benchmark in benchmarks:
        place = (benchmark.taxonomy.category, benchmark.taxonomy.subcategory)
        places.setdefault(place, []).append(_leaf(benchmark, data))
    boughs = []
    for category in load_taxonomy():
        branches = [
            Branch(id=sub.id, title=sub.title, tasks=sub.tasks, leaves=places.pop((category.id, sub.id), []))
            for sub in category.subcategories
        ]
        branches += _own(places, category.id)
        boughs.append(
            Bough(
                id=category.id,
                title=category.title,
                definition=category.definition,
                criterion=category.criterion,
                performers=category.performers,
                branches=branches,
            )
        )
    for category_id in sorted({category for category, _ in places}):
        branches = _own(places, category_id)
        boughs.append(
            Bough(
                id=category_id,
                title=_words(category_id),
                definition="",
                criterion="",
                performers="",
                branches=branches,
            )
        )
    return boughs


def _own(places: dict[tuple[str, str], list[Leaf]], category: str) -> list[Branch]:
    """Subcategories of a category that the taxonomy does not know; they are taken out of `places`."""
    found = sorted(sub for cat, sub in places if cat == category)
    return [Branch(id=sub, title=_words(sub), tasks=(), leaves=places.pop((category, sub))) for sub in found]


def _leaf(benchmark: Benchmark, data: Path | None) -> Leaf:
    found = availability(benchmark, data)
    who = {"gated": "; under an agreement", "private": "; its owner has it"}.get(benchmark.access, "")
    return Leaf(
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
