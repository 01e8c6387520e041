"""A search for a text over the cases of all benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.errors import UserError
from medhelm.extensions.web.cases.listing import first_hit
from medhelm.extensions.web.cases.search import CaseSearch, search_texts
from medhelm.extensions.web.cases.view import Piece
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.case_list import WITHIN, opened
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import MOST_CHARACTERS, BadParameter, Download, Page, json_download, url_key
from medhelm.results.formats.fields import Field, fields_json, list_field

SHOWN_CASES = 5
"""Cases of each benchmark on the page."""

FEWEST_CHARACTERS = 2
"""Fewest characters to search for: one is in almost every text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHit:
    """A case that holds a text."""

    instance_id: str
    """Id of the instance."""
    source: str
    """The text that the excerpt is from: `option`, `reference` or a model; empty for the prompt."""
    fragments: Sequence[Piece]
    """The excerpt; empty if only the id holds the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkHits:
    """The cases of one benchmark that hold a text."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name for people."""
    total: int
    """Cases that hold the text."""
    items: Sequence[CaseHit]
    """The first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of a search over all benchmarks."""

    text: str
    """The text."""
    within: str
    """Texts that were searched."""
    found: Sequence[BenchmarkHits]
    """Benchmarks with hits, those with most hits first."""
    n_searched: int
    """Benchmarks that were searched."""
    problem: str = ""
    """Reason why nothing was searched; empty if it was."""


def search_all(site: Site, request: PageRequest) -> Search:
    """Search the cases of all benchmarks whose texts may be shown. Raises: BadParameter; StoreError."""
    text = request.text("text").strip()
    within = request.choice("within", WITHIN, "all")
    names = sorted({run.benchmark for run in site.runs() if site.shows_text_of(run.benchmark)})
    problem = ""
    if 0 < len(text) < FEWEST_CHARACTERS:
        problem = f"Enter at least {FEWEST_CHARACTERS} characters."
    if not text or problem:
        return Search(text=text, within=within, found=(), n_searched=0, problem=problem)
    searched = [one for one in (_hits(site, name, text, within) for name in names) if one]
    found = sorted((one for one in searched if one.total), key=lambda one: (-one.total, one.title))
    return Search(text=text, within=within, found=found, n_searched=len(searched))


def _hits(site: Site, benchmark: str, text: str, within: str) -> BenchmarkHits | None:
    """Search one benchmark; None if it has no finished run."""
    try:
        cases = opened(site, benchmark)
    except UserError:
        return None
    search = CaseSearch(text=text, within=within)  # type: ignore[arg-type]
    total, texts = search_texts(cases.searched, search, SHOWN_CASES)
    hits = {name: first_hit(cases, search, own) or ("", ()) for name, own in texts.items()}
    items = [CaseHit(instance_id=name, source=source, fragments=own) for name, (source, own) in hits.items()]
    return BenchmarkHits(benchmark=benchmark, title=cases.title, total=total, items=items)


def page(site: Site, request: PageRequest) -> Page:
    """Return the page. A text that is too long keeps the form, which says why."""
    status = 200
    try:
        found = search_all(site, request)
    except BadParameter as error:
        status, text = 400, next(iter(request.query.get("text", ())), "")[:MOST_CHARACTERS]
        found = Search(text=text, within="all", found=(), n_searched=0, problem=str(error))
    return Page(
        template="search.html",
        title=f"Search: {found.text[:60]}" if found.text else "Search all cases",
        status=status,
        values={
            "found": found,
            "within": WITHIN,
            "total": sum(one.total for one in found.found),
            "parameters": {"text": found.text, "within": "" if found.within == "all" else found.within},
            "keys": {item.instance_id: url_key(item.instance_id) for one in found.found for item in one.items},
            "hidden": sorted({run.benchmark for run in site.runs() if not site.shows_text_of(run.benchmark)}),
        },
    )


def json_(site: Site, request: PageRequest) -> Download:
    """Return the same as JSON."""
    return json_download(fields_json(FIELDS, search_all(site, request)), "search")


CASE: list[Field[CaseHit]] = [
    Field("id", lambda one: one.instance_id, kind="text"),
    Field("key", lambda one: url_key(one.instance_id), kind="text"),
    Field("source", lambda one: one.source, kind="text"),
    Field("excerpt", lambda one: "".join(piece.text for piece in one.fragments), kind="text"),
]
"""A case with a hit."""

HITS: list[Field[BenchmarkHits]] = [
    Field("benchmark", lambda one: one.benchmark, kind="text"),
    Field("total", lambda one: one.total, kind="whole number"),
    list_field("cases", CASE, lambda one: one.items),
]
"""The hits of one benchmark."""

FIELDS: list[Field[Search]] = [
    Field("text", lambda found: found.text, kind="text"),
    Field("within", lambda found: found.within, kind="text"),
    Field("n_searched", lambda found: found.n_searched, kind="whole number"),
    list_field("benchmarks", HITS, lambda found: found.found),
]
"""The result of a search over all benchmarks."""
