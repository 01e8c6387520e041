"""The benchmarks by the taxonomy of medical work, with what was run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from medhelm.analysis.leaderboard.cells import Column
from medhelm.domain import Access, Benchmark, Taxonomy
from medhelm.errors import UserError
from medhelm.extensions.web.page import Download, Page, PageRequest, json_download
from medhelm.extensions.web.site import Site
from medhelm.reports.benchmarks import BenchmarkCoverage, evaluated, evaluated_in_words
from medhelm.reports.formats.fields import Field, fields_json
from medhelm.reports.formats.json import schema_of
from medhelm.results.leaderboard import LeaderboardInputs
from medhelm.results.taxonomy import coverage


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
    fields = entry_fields(site.access_of, _count_models(inputs))
    known: list[Benchmark | Column] = [*site.definitions.values(), *_undefined(site, inputs)]
    return json_download({"benchmarks": [fields_json(fields, one) for one in known]}, "benchmarks")


def entry_fields(access_of: Callable[[str], str], models: Mapping[str, int]) -> list[Field[Benchmark | Column]]:
    """Return the fields of a benchmark of the catalog, or of one that is in the store only."""

    def name(known: Benchmark | Column) -> str:
        return known.name if isinstance(known, Benchmark) else known.benchmark

    def place(known: Benchmark | Column) -> Taxonomy | Column:
        return known.taxonomy if isinstance(known, Benchmark) else known

    return [
        Field("id", name, kind="text"),
        Field("title", lambda known: known.title, kind="text"),
        Field("category", lambda known: place(known).category, kind="text"),
        Field("subcategory", lambda known: place(known).subcategory, kind="text"),
        Field("task", lambda known: known.taxonomy.task if isinstance(known, Benchmark) else "", kind="text"),
        Field("access", lambda known: access_of(name(known)), kind="text", schema=schema_of(Access)),
        Field("instances", lambda known: evaluated(known) if isinstance(known, Benchmark) else None,
              kind="whole number", missing="unknown", meaning="number that is evaluated; null if unknown"),
        Field("n_models", lambda known: models[name(known)], kind="whole number",
              meaning="models with a run that counts"),
    ]  # fmt: skip


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
