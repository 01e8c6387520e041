"""Pages: their routes, the request with checked parameters, links, and tables in the order that the reader chooses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from medhelm.io.http.pages import Download, Page, Parameters

PACKAGE = "medhelm.extensions.web"
"""This package, which holds templates and static files."""

MOST_PAGES = 1_000_000
"""Highest page number of a list."""

MOST_URL_CHARACTERS = 8_000
"""Most characters of a URL."""

Values: TypeAlias = str | int | float | Sequence[str] | None
"""Value of a parameter of a URL; None and the empty text leave it out, a sequence repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One kind of page, of the server and of the static site."""

    name: str
    """Name that links use."""
    path: str
    """Path with `{name}` for each part that varies, such as `/benchmarks/{benchmark}`."""
    handler: str
    """Function that makes the page, as `module:function` below `medhelm.extensions.web`."""
    menu: str = ""
    """Title in the navigation; empty for pages that other pages link to."""
    exported_with: tuple[str, ...] = ()
    """Parameters of the query that make a page of their own in the static site. Links with other parameters, such as
    the order of a table, lead to the page without them."""
    only_served: bool = False
    """True if the static site does not hold the page, such as a search."""
    needs_scores: bool = False
    """True for a page without an entry in the navigation that is made from the scores of many runs."""

    @property
    def can_take_long(self) -> bool:
        """True if browsers may get a page meanwhile that says that this one is being made."""
        return bool(self.menu) or self.needs_scores


class Links(Protocol):
    """Makes the URLs in a page; the static site has its own."""

    def to(self, route: str, parameters: Mapping[str, Values]) -> str:
        """Return the URL of a page."""

    def static(self, name: str) -> str:
        """Return the URL of a style sheet or script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLinks:
    """Links of the server: absolute paths with a query."""

    routes: Mapping[str, Route]
    """Name -> route."""
    version: str
    """Added to the URLs of static files, so that browsers fetch them again after an update."""

    def to(self, route: str, parameters: Mapping[str, Values]) -> str:
        """Return the path and query of a page.

        >>> links = ServerLinks(routes={"case": Route(name="case", path="/cases/{benchmark}", handler="")}, version="1")
        >>> links.to("case", {"benchmark": "pubmed_qa", "id": "a/../b", "page": None})
        '/cases/pubmed_qa?id=a%2F..%2Fb'
        """
        path, query = fill_path(self.routes[route].path, parameters)
        return f"{path}?{query}" if query else path

    def static(self, name: str) -> str:
        """Return the path of a style sheet or script."""
        return f"/static/{name}?v={self.version}"


def fill_path(template: str, parameters: Mapping[str, Values]) -> tuple[str, str]:
    """Return the path of a route with its values, and the query of all other parameters."""
    path, rest = template, []
    for name, value in parameters.items():
        if f"{{{name}}}" in template:
            path = path.replace(f"{{{name}}}", _quoted(str(value)))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            rest += [(name, one) for one in value]
        elif value is not None and value != "":
            rest.append((name, str(value)))
    return path, "&".join(f"{_quoted(name)}={_quoted(str(value))}" for name, value in rest)


_quoted = lru_cache(maxsize=10_000)(partial(quote, safe=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest(Parameters):
    """A request for a page, from a browser or from the export of the static site."""

    route: Route
    """Kind of page."""
    links: Links
    """Makes URLs."""
    is_static: bool = False
    """True for the static site: no search, no forms that need a server."""
    most_cases: int | None = None
    """Most cases of a benchmark that are shown; None for all."""

    def here(self, **changes: Values) -> str:
        """Return the URL of this page with changed parameters; None leaves one out."""
        return self.links.to(self.route.name, {**self.parts, **self.query, **changes})


@dataclass(frozen=True, slots=True)
class Condition:
    """An active filter, or a condition of a search."""

    text: str
    """Its meaning."""
    without: str
    """Address of the page without it."""
    name: str = ""
    """Parameter of the URL, where it is one."""


def missing_page(message: str, known: Sequence[tuple[str, str]] = ()) -> Page:
    """Return the page of something that does not exist, with links to what does: titles and addresses."""
    return error_page(404, "Nothing to show", message, known)


def error_page(status: int, title: str, message: str, known: Sequence[tuple[str, str]] = ()) -> Page:
    """Return the page of an error. `known`: titles and addresses of pages to go on to."""
    values = {"message": message, "code": status, "known": known}
    return Page(template="error.html", title=title, values=values, status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The page that a browser goes to after an action."""

    route: str
    """Name of its route."""
    parameters: Mapping[str, Values] = field(default_factory=dict)
    """Parameters of its path and query."""
    fragment: str = ""
    """Id of the element to go to; empty for the top."""


Handler: TypeAlias = "Callable[..., Page | Download]"
"""Makes a page: called with the site and the request."""


# --- routes -----------------------------------------------------------------------------------------------------------
# The table of pages, which the server and the static site share.

BENCHMARK = "/benchmarks/{benchmark}"
CASES = f"{BENCHMARK}/cases"
_BOARD = ("suite", "category", "subcategory", "access", "results")
_PAIR = ("a", "b")
_RELEASES = ("before", "now")

# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(name="leaderboard", path="/", handler="pages.leaderboard:page", menu="Leaderboard", exported_with=_BOARD),
    Route(name="leaderboard_csv", path="/leaderboard.csv", handler="pages.leaderboard:csv",
          exported_with=(*_BOARD, "by")),
    Route(name="leaderboard_json", path="/leaderboard.json", handler="pages.leaderboard:json_", exported_with=_BOARD),
    Route(name="leaderboard_chart", path="/leaderboard/charts/{chart}", handler="pages.leaderboard:chart",
          exported_with=_BOARD),
    Route(name="benchmarks", path="/benchmarks", handler="pages.benchmarks:page", menu="Benchmarks"),
    Route(name="benchmark", path=BENCHMARK, handler="pages.benchmarks:benchmark_page", needs_scores=True),
    Route(name="benchmark_chart", path=f"{BENCHMARK}/charts/{{chart}}", handler="pages.benchmarks:chart"),
    Route(name="benchmark_card", path=f"{BENCHMARK}/card", handler="pages.benchmarks:card_page"),
    Route(name="benchmark_card_json", path=f"{BENCHMARK}/card.json", handler="pages.benchmarks:card_json"),
    Route(name="cases", path=CASES, handler="pages.case_list:page", exported_with=("page",), needs_scores=True),
    Route(name="case", path=f"{CASES}/{{case}}", handler="pages.cases:case_or_list",
          exported_with=(*_RELEASES, *_PAIR), needs_scores=True),
    Route(name="case_index", path=f"{BENCHMARK}/case-index/{{part}}", handler="pages.case_list:index_script"),
    Route(name="errors", path=f"{BENCHMARK}/errors", handler="pages.errors:page", exported_with=("model",),
          needs_scores=True),
    Route(name="errors_json", path=f"/api{BENCHMARK}/errors", handler="pages.errors:json_", only_served=True),
    Route(name="search", path="/search", handler="pages.search:page", menu="Search", only_served=True),
    Route(name="search_json", path="/api/search", handler="pages.search:json_", only_served=True),
    Route(name="prompt_text", path=f"{CASES}/{{case}}/prompt", handler="pages.cases:prompt_text"),
    Route(name="completion_text", path=f"{CASES}/{{case}}/completions/{{model}}",
          handler="pages.cases:completion_text", exported_with=_RELEASES),
    Route(name="model", path="/models/{model}", handler="pages.models:page", needs_scores=True),
    Route(name="compare", path="/compare", handler="pages.leaderboard:compare_page",
          menu="Compare", exported_with=_PAIR),
    Route(name="compare_csv", path="/compare.csv", handler="pages.leaderboard:compare_csv", exported_with=_PAIR),
    Route(name="compare_chart", path="/compare/charts/{chart}", handler="pages.leaderboard:compare_chart",
          exported_with=_PAIR),
    Route(name="judges", path="/judges", handler="pages.judges:page", menu="Judges"),
    Route(name="benchmark_judges", path=f"{BENCHMARK}/judges", handler="pages.judges:benchmark_page",
          needs_scores=True),
    Route(name="data", path="/data", handler="pages.data_use:page", menu="Where data went"),
    Route(name="sections", path="/sections", handler="pages.reference:sections_page", needs_scores=True),
    Route(name="running", path="/running", handler="pages.running:running_page", menu="Running", only_served=True),
    Route(name="running_live", path="/running/live", handler="pages.running:live", only_served=True),
    Route(name="stop", path="/running/{evaluation}", handler="pages.running:stop_page", only_served=True),
    Route(name="running_json", path="/api/running", handler="pages.running:running_json", only_served=True),
    Route(name="glossary", path="/glossary", handler="pages.reference:glossary_page"),
    Route(name="method", path="/method", handler="pages.reference:method_page"),
    Route(name="releases", path="/compare/releases", handler="pages.releases:page", exported_with=_RELEASES,
          needs_scores=True),
    Route(name="releases_csv", path="/compare/releases.csv", handler="pages.releases:csv", exported_with=_RELEASES),
    Route(name="releases_chart", path="/compare/releases/charts/{chart}", handler="pages.releases:chart",
          exported_with=_RELEASES),
    Route(name="api_leaderboard", path="/api/leaderboard", handler="pages.leaderboard:json_", only_served=True),
    Route(name="api_benchmarks", path="/api/benchmarks", handler="pages.benchmarks:json_list", only_served=True),
    Route(name="api_benchmark", path=f"/api{BENCHMARK}", handler="pages.benchmarks:json_", only_served=True),
    Route(name="api_compare", path="/api/compare", handler="pages.leaderboard:compare_json", only_served=True),
    Route(name="api_releases", path="/api/releases", handler="pages.releases:json_list", only_served=True),
    Route(name="api_release_comparison", path="/api/releases/compare", handler="pages.releases:json_",
          only_served=True),
    Route(name="api_judges", path="/api/judges", handler="pages.judges:json_", only_served=True),
    Route(name="api_data", path="/api/data", handler="pages.data_use:json_", only_served=True),
    Route(name="api_openapi", path="/api/openapi.json", handler="api:document", only_served=True),
    Route(name="cases_json", path=f"/api{CASES}", handler="pages.case_list:json_list", only_served=True),
    Route(name="case_json", path=f"/api{CASES}/{{case}}", handler="pages.cases:json_case", exported_with=_RELEASES),
)
# fmt: on
"""Every page, in the order of the navigation. A handler takes the `Site` and a `PageRequest`."""

ACTIONS: Mapping[str, str] = {
    "/running/{evaluation}/stop": "pages.running:stop",
    "/running/{evaluation}/remove": "pages.running:remove",
    f"{CASES}/{{case}}/annotations": "pages.cases:add_note",
    f"{CASES}/{{case}}/annotations/{{annotation}}/remove": "pages.cases:remove_note",
}
"""Path -> function called with the site, the names in the path and the fields of the form; it returns the `Destination`
to go to. These change something: only POST reaches them."""

BY_NAME: Mapping[str, Route] = {route.name: route for route in ROUTES}
"""Name -> route."""


def handler_of(route: Route) -> Handler:
    """Import and return the function that makes a page."""
    handler: Handler = function_of(route.handler)
    return handler


def function_of(name: str) -> Any:
    """Import and return a function, named as `module:function` below `medhelm.extensions.web`."""
    module, _, function = name.partition(":")
    return getattr(import_module(f"{PACKAGE}.{module}"), function)


# --- tables -----------------------------------------------------------------------------------------------------------
# Tables in the order that the reader chooses: links sort on the server, a script sorts the static files.
#
# Either way the order is in the address, and the first choice of a column shows its best values on top.


T = TypeVar("T")

ROWS_PER_PAGE = 200
"""Rows on one page of a table that has pages."""

Order = Literal["ascending", "descending"]
"""Direction in which values follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading(Generic[T]):
    """The heading of a column, and what its rows are sorted by."""

    key: str
    """Value of the parameter `sort`."""
    title: str
    """Heading."""
    note: str = ""
    """Second line of the heading."""
    explanation: str = ""
    """Meaning, shown on request; empty for none."""
    sort: Callable[[T], float | str | None] | None = None
    """Number or text to sort by; None if the table is not sorted by this column."""
    best_first: bool = True
    """True if the first click shows high values on top."""
    is_number: bool = True
    """True for numbers, which are aligned right."""

    @property
    def first_order(self) -> Order:
        """Order of the first click."""
        return "descending" if self.best_first else "ascending"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedTable(Generic[T]):
    """Rows in the order that a request asks for."""

    request: PageRequest
    """The request, for links to other orders."""
    headings: Sequence[Heading[T]]
    """The columns."""
    rows: Sequence[T]
    """The rows in order; those without a value last."""
    sort: str
    """Key of the column that they are sorted by."""
    order: Order
    """Direction."""

    @property
    def n_pages(self) -> int:
        """Number of pages; the static site shows all rows on one."""
        return 1 if self.request.is_static else max(1, math.ceil(len(self.rows) / ROWS_PER_PAGE))

    @property
    def page(self) -> int:
        """Number of the page that the request asks for. Raises: BadParameter."""
        return self.request.number("page", 1, low=1, high=self.n_pages)

    @property
    def shown(self) -> Sequence[T]:
        """The rows of this page. Raises: BadParameter."""
        start = (self.page - 1) * ROWS_PER_PAGE
        return self.rows if self.request.is_static else self.rows[start : start + ROWS_PER_PAGE]

    @property
    def by_key(self) -> Mapping[str, Heading[T]]:
        """The headings by their keys."""
        return {one.key: one for one in self.headings}

    def link(self, heading: Heading[T]) -> str:
        """Return the address of the table sorted by a column, turned around if it is sorted by it already."""
        turned: Order = "descending" if self.order == "ascending" else "ascending"
        return self.request.here(
            sort=heading.key, order=turned if heading.key == self.sort else heading.first_order, page=None
        )


def sorted_table(
    request: PageRequest, headings: Sequence[Heading[T]], rows: Sequence[T], *, default: str
) -> SortedTable[T]:
    """Sort rows by the parameters `sort` and `order` of a request. Equal values keep their order.

    Parameters: default, key of the column that they are sorted by without a parameter. Raises: BadParameter.
    """
    by_key = {one.key: one for one in headings if one.sort is not None}
    key = request.choice("sort", by_key, default)
    heading = by_key[key]
    orders: dict[str, Order] = {"ascending": "ascending", "descending": "descending"}
    order = orders[request.choice("order", orders, heading.first_order)]
    value = heading.sort or (lambda _: None)
    is_given = bool(request.text("sort") or request.text("order"))
    found = sort_rows(rows, value, order) if is_given or key != default else list(rows)
    return SortedTable(request=request, headings=headings, rows=found, sort=key, order=order)


def sort_rows(rows: Sequence[T], value: Callable[[T], float | str | None], order: Order) -> list[T]:
    """Return rows by a number or text, those without one last.

    >>> sort_rows([2, None, 3], lambda number: number, "descending")
    [3, 2, None]
    """
    with_value = [(found, row) for row in rows if (found := value(row)) is not None]
    with_value.sort(key=lambda pair: pair[0], reverse=order == "descending")
    return [row for _, row in with_value] + [row for row in rows if value(row) is None]
