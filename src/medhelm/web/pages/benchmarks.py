"""The benchmarks by the taxonomy of medical work, with what was run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from medhelm.analysis.leaderboard.cells import Column
from medhelm.domain import Benchmark
from medhelm.errors import UserError
from medhelm.reports.benchmarks import BenchmarkCoverage, evaluated, evaluated_in_words
from medhelm.results.leaderboard import LeaderboardInputs
from medhelm.results.taxonomy import coverage
from medhelm.web.page import Download, Page, PageRequest, json_download
from medhelm.web.site import Site


def page(site: Site, request: PageRequest) -> Page:
    """Return all benchmarks, those of the store that have no definition included."""
    del request
    inputs = _inputs(site)
    models = _count_models(inputs)
    taxonomy = coverage(list(site.definitions.values()), site.data)
    places = [benchmarks for _, benchmarks in taxonomy.places]
    unknown = _undefined(site, inputs)
    values = {
        "categories": [
            (category, own, _count_run([benchmarks for _, benchmarks in own], models))
            for category in taxonomy.categories
            for own in [taxonomy.places_of(category)]
        ],
        "instances": evaluated_in_words,
        "models": models,
        "unknown": [(column, models[column.benchmark]) for column in unknown],
        "n_subcategories": len(places),
        "n_covered": sum(any(models[one.benchmark.name] for one in place) for place in places),
        "total": _count_run(places, models),
    }
    return Page(template="benchmarks.html", title="Benchmarks", values=values)


def _count_run(places: Sequence[Sequence[BenchmarkCoverage]], models: Counter[str]) -> tuple[int, int]:
    """Return the number of benchmarks with a run in subcategories, and that of all their benchmarks."""
    names = [one.benchmark.name for place in places for one in place]
    return sum(models[name] > 0 for name in names), len(names)


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the same benchmarks as JSON."""
    del request
    inputs = _inputs(site)
    models = _count_models(inputs)
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


def _count_models(inputs: LeaderboardInputs | None) -> Counter[str]:
    """Return the number of models on each benchmark."""
    return Counter(cell.benchmark for cell in inputs.cells) if inputs else Counter()


def _undefined(site: Site, inputs: LeaderboardInputs | None) -> list[Column]:
    """Return the benchmarks of the store that have no definition here."""
    return [column for column in inputs.columns if column.benchmark not in site.definitions] if inputs else []
