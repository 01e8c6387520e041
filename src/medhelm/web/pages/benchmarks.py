"""The benchmarks by the taxonomy of medical work, with what was run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.analysis.leaderboard.cells import Column
from medhelm.domain import Benchmark
from medhelm.errors import UserError
from medhelm.reports.benchmarks import BenchmarkCoverage, CategoryCoverage, evaluated
from medhelm.results.leaderboard import LeaderboardInputs
from medhelm.results.taxonomy import coverage
from medhelm.web.page import Download, Page, PageRequest
from medhelm.web.pages.cases import json_download
from medhelm.web.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredBenchmark:
    """A benchmark of a subcategory."""

    known: BenchmarkCoverage
    """Its task, access and data."""
    title: str
    """Name for people."""
    n_models: int
    """Models with a run that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryPart:
    """A category with its subcategories."""

    category: CategoryCoverage
    """The category."""
    rows: Sequence[tuple[str, Sequence[str], Sequence[CoveredBenchmark]]]
    """Title, tasks and benchmarks of each subcategory."""
    n_run: int
    """Benchmarks with a run."""
    n_benchmarks: int
    """All its benchmarks."""


def page(site: Site, request: PageRequest) -> Page:
    """Return all benchmarks, those of the store that have no definition included."""
    del request
    inputs = _inputs(site)
    models = _models(inputs)
    parts = []
    for category in coverage(list(site.definitions.values()), site.data):
        rows = [
            (one.title, one.tasks, [_covered(site, known, models) for known in one.benchmarks])
            for one in category.subcategories
        ]
        found = [benchmark for _, _, benchmarks in rows for benchmark in benchmarks]
        n_run = sum(benchmark.n_models > 0 for benchmark in found)
        parts.append(CategoryPart(category=category, rows=rows, n_run=n_run, n_benchmarks=len(found)))
    unknown = _undefined(site, inputs)
    values = {
        "parts": parts,
        "unknown": [(column, models[column.benchmark]) for column in unknown],
        "n_subcategories": sum(len(part.rows) for part in parts),
        "n_covered": sum(any(one.n_models for one in row[2]) for part in parts for row in part.rows),
        "n_benchmarks": sum(part.n_benchmarks for part in parts),
        "n_run": sum(part.n_run for part in parts),
    }
    return Page(template="benchmarks.html", title="Benchmarks", values=values)


def _covered(site: Site, known: BenchmarkCoverage, models: Counter[str]) -> CoveredBenchmark:
    return CoveredBenchmark(known=known, title=site.definitions[known.name].title, n_models=models[known.name])


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the same benchmarks as JSON."""
    del request
    inputs = _inputs(site)
    models = _models(inputs)
    known: list[Benchmark | Column] = [*site.definitions.values(), *_undefined(site, inputs)]
    return json_download({"benchmarks": [entry_json(site, one, models) for one in known]}, "benchmarks")


def entry_json(site: Site, known: Benchmark | Column, models: Counter[str]) -> dict[str, Any]:
    """Return a benchmark of the catalog, or one that is in the store only, as JSON."""
    definition = known if isinstance(known, Benchmark) else None
    place = known.taxonomy if isinstance(known, Benchmark) else known
    name = known.name if isinstance(known, Benchmark) else known.benchmark
    return {
        "id": name,
        "title": known.title,
        "category": place.category,
        "subcategory": place.subcategory,
        "task": definition.taxonomy.task if definition else "",
        "access": site.access_of(name),
        "instances": evaluated(definition) if definition else None,
        "n_models": models[name],
    }


def _inputs(site: Site) -> LeaderboardInputs | None:
    """Return the runs that count; None if nothing was run yet."""
    try:
        return site.inputs()
    except UserError:
        return None


def _models(inputs: LeaderboardInputs | None) -> Counter[str]:
    """Return the number of models on each benchmark."""
    return Counter(cell.benchmark for cell in inputs.cells) if inputs else Counter()


def _undefined(site: Site, inputs: LeaderboardInputs | None) -> list[Column]:
    """Return the benchmarks of the store that have no definition here."""
    return [column for column in inputs.columns if column.benchmark not in site.definitions] if inputs else []
