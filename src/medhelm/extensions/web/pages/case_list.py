"""The list of the cases of a benchmark: a search and the instances that it finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from medhelm.domain import Rule, Tier
from medhelm.extensions.web.case_list import (
    PAGE,
    CaseList,
    CaseListItem,
    compare_outcomes,
    find_cases,
    list_choices,
)
from medhelm.extensions.web.case_search import CaseSearch
from medhelm.extensions.web.cases import BenchmarkCases, open_cases
from medhelm.extensions.web.page import (
    MOST_PAGES,
    BadParameter,
    Download,
    Page,
    PageNotFound,
    PageRequest,
    json_download,
)
from medhelm.extensions.web.site import Site
from medhelm.results.formats.fields import NUMBER, STRING, Field, fields_json, map_of, schema_of

SHOWN = {
    "all": "all cases",
    "wrong": "wrong",
    "right": "right",
    "different": "models differ",
    "judges": "judges differ",
    "failed": "no completion",
    "unscored": "no score",
    "truncated": "truncated",
    "injection": "signs of prompt injection",
}
"""Filter -> its name in the form."""

SORTED = {
    "position": "order of the data",
    "id": "id",
    "worst": "lowest score first",
    "best": "highest score first",
    "spread": "models differ most first",
    "judges": "judges differ most first",
}
"""Order -> its name in the form."""

WITHIN = {"all": "prompts, completions, ids", "prompt": "prompts", "completion": "completions"}
"""Texts that are searched -> their name in the form."""

MOST_COLUMNS = 24
"""Most models with a column in the list."""


def page(site: Site, request: PageRequest) -> Page:
    """Return a page of the list."""
    benchmark = request.text("benchmark")
    if not site.shows_text_of(benchmark) or request.most_cases == 0:
        values = {"benchmark": benchmark, "is_public": site.shows_text_of(benchmark)}
        return Page(template="cases_left_out.html", title=f"Cases of {benchmark}", values=values)
    cases = open_text(site, request)
    groups, failures = list_choices(cases)
    search = read_search(cases, request, (groups, failures))
    found = _find_page(cases, search, request)
    compared = compare_outcomes(cases, search.got, search.missed) if search.got and search.missed else None
    return Page(
        template="cases.html",
        title=f"Cases of {cases.title}",
        values={
            "cases": cases,
            "search": search,
            "found": found,
            "parameters": search_parameters(search),
            "compared": compared,
            "options": {"shown": SHOWN, "sorted": SORTED, "within": WITHIN, "groups": groups, "failures": failures},
            "binary": is_binary(cases),
            "columns": some_models(cases, [search.model, search.got, search.missed], MOST_COLUMNS),
        },
    )


def some_models(cases: BenchmarkCases, wanted: Sequence[str], most: int) -> list[str]:
    """Return at most so many models by name, with those that are wanted first."""
    chosen = dict.fromkeys(model for model in [*wanted, *cases.models] if model)
    return cases.models if len(cases.models) <= most else list(chosen)[:most]


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the same page of the list as JSON."""
    cases = open_text(site, request)
    search = read_search(cases, request)
    found = _find_page(cases, search, request)
    content = {
        **fields_json(CONDITIONS, cases),
        "search": search_parameters(search),
        "page": found.page,
        "pages": found.pages,
        "total": found.total,
        "cases": [fields_json(ITEM, item) for item in found.items],
    }
    return json_download(content, f"{request.text('benchmark')}-cases")


CONDITIONS: list[Field[BenchmarkCases]] = [
    Field("benchmark", lambda cases: cases.benchmark, kind="text"),
    Field("tier", lambda cases: cases.tier, kind="text", schema=schema_of(Tier)),
    Field("scoring", lambda cases: cases.rule, kind="text", schema=schema_of(Rule)),
    Field("metric", lambda cases: cases.column.metric, kind="text"),
]
"""The benchmark of cases, and the conditions under which they were measured."""

ITEM: list[Field[CaseListItem]] = [
    Field("id", lambda item: item.row.instance_id, kind="text"),
    Field("key", lambda item: item.key, kind="text"),
    Field("group", lambda item: item.row.group, kind="text"),
    Field("excerpt", lambda item: item.excerpt, kind="text"),
    Field("scores", lambda item: dict(item.row.scores), kind="object", schema=map_of(NUMBER)),
    Field("failures", lambda item: dict(item.row.failures), kind="object", schema=map_of(STRING)),
]
"""An instance in the list."""


def open_text(site: Site, request: PageRequest) -> BenchmarkCases:
    """Open the cases of a benchmark whose texts may be shown. Raises: PageNotFound if they may not."""
    benchmark = request.text("benchmark")
    if not site.shows_text_of(benchmark):
        raise PageNotFound(f"Texts of `{benchmark[:80]}` are left out, because its data is not public.")
    return open_cases(site.stores, benchmark, rule=site.rule, tier=site.tier, names=site.names)


def read_search(
    cases: BenchmarkCases, request: PageRequest, choices: tuple[list[str], list[str]] | None = None
) -> CaseSearch:
    """Read a search from the URL. Raises: BadParameter; PageNotFound for unknown names.

    `choices`: the groups and failure codes that occur; None reads them if the URL names one.
    """
    is_narrowed = request.text("group") or request.text("failure")
    groups, failures = choices or (list_choices(cases) if is_narrowed else ([], []))
    choices_of_form: dict[str, Any] = {
        "within": request.choice("within", WITHIN, "all"),
        "show": request.choice("show", SHOWN, "all"),
        "sort": request.choice("sort", SORTED, "position"),
    }
    return CaseSearch(
        **choices_of_form,
        text=request.text("text"),
        model=request.known_name("model", cases.runs),
        failure=request.known_name("failure", failures),
        group=request.known_name("group", groups) or None,
        low=_score(request, "low"),
        high=_score(request, "high"),
        got=request.known_name("got", cases.runs),
        missed=request.known_name("missed", cases.runs),
    )


def search_parameters(search: CaseSearch) -> dict[str, str]:
    """Return the parameters of the URL that make this search; those of the default are left out."""
    default = CaseSearch()
    found = {}
    for one in fields(search):
        value = getattr(search, one.name)
        if value != getattr(default, one.name):
            found[one.name] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def is_binary(cases: BenchmarkCases) -> bool:
    """Return True if the metric is right or wrong, which is written 0 or 1."""
    return cases.column.metric.endswith(("exact_match", "accuracy")) and (cases.column.low, cases.column.high) == (0, 1)


def _find_page(cases: BenchmarkCases, search: CaseSearch, request: PageRequest) -> CaseList:
    found = find_cases(cases, search, page=request.number("page", 1, low=1, high=MOST_PAGES))
    if request.most_cases is None or request.most_cases >= found.total:
        return found
    left = max(0, request.most_cases - (found.page - 1) * PAGE)
    return replace(found, items=found.items[:left], pages=-(-request.most_cases // PAGE))


def _score(request: PageRequest, name: str) -> float | None:
    """Read a bound of scores. Raises: BadParameter for anything but a finite number."""
    text = request.text(name).strip()
    if not text:
        return None
    try:
        found = float(text) if len(text) <= 30 else math.nan
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadParameter(f"The parameter `{name}` is `{text[:80]}`. Use a number such as 0.5.")
    return found
