"""The table of pages, which the server and the static site share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from medhelm.extensions.web.page import Handler, Route

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
    Route(name="benchmark", path=BENCHMARK, handler="pages.benchmark:page"),
    Route(name="benchmark_chart", path=f"{BENCHMARK}/charts/{{chart}}", handler="pages.benchmark:chart"),
    Route(name="cases", path=CASES, handler="pages.cases:page", exported_with=("page",)),
    Route(name="case", path=f"{CASES}/{{case}}", handler="pages.case:page"),
    Route(name="prompt_text", path=f"{CASES}/{{case}}/prompt", handler="pages.case:prompt_text"),
    Route(name="completion_text", path=f"{CASES}/{{case}}/completions/{{model}}", handler="pages.case:completion_text"),
    Route(name="compare", path="/compare", handler="pages.compare:page", menu="Compare", exported_with=_PAIR),
    Route(name="compare_csv", path="/compare.csv", handler="pages.compare:csv", exported_with=_PAIR),
    Route(name="compare_chart", path="/compare/charts/{chart}", handler="pages.compare:chart", exported_with=_PAIR),
    Route(name="running", path="/running", handler="pages.running:page", menu="Running", only_served=True),
    Route(name="running_live", path="/running/live", handler="pages.running:live", only_served=True),
    Route(name="running_json", path="/api/running", handler="pages.running:json_", only_served=True),
    Route(name="releases", path="/compare/releases", handler="pages.releases:page", exported_with=_RELEASES),
    Route(name="releases_csv", path="/compare/releases.csv", handler="pages.releases:csv", exported_with=_RELEASES),
    Route(name="api_leaderboard", path="/api/leaderboard", handler="pages.leaderboard:json_", only_served=True),
    Route(name="api_benchmarks", path="/api/benchmarks", handler="pages.benchmarks:json_list", only_served=True),
    Route(name="api_benchmark", path=f"/api{BENCHMARK}", handler="pages.benchmark:json_", only_served=True),
    Route(name="api_compare", path="/api/compare", handler="pages.compare:json_", only_served=True),
    Route(name="api_releases", path="/api/releases", handler="pages.releases:json_list", only_served=True),
    Route(name="api_release_comparison", path="/api/releases/compare", handler="pages.releases:json_",
          only_served=True),
    Route(name="api_openapi", path="/api/openapi.json", handler="api.document:document", only_served=True),
    Route(name="cases_json", path=f"/api{CASES}", handler="pages.cases:json_list", only_served=True),
    Route(name="case_json", path=f"/api{CASES}/{{case}}", handler="pages.case:json_case"),
)
# fmt: on
"""Every page, in the order of the navigation. A handler takes the `Site` and a `PageRequest`."""

ACTIONS: Mapping[str, str] = {
    "/running/{evaluation}/stop": "pages.running:stop",
    "/running/{evaluation}/remove": "pages.running:remove",
}
"""Path -> function called with the site and the name in the path. These change something: only POST reaches them."""

BY_NAME: Mapping[str, Route] = {route.name: route for route in ROUTES}
"""Name -> route."""


def handler_of(route: Route) -> Handler:
    """Import and return the function that makes a page."""
    handler: Handler = function_of(route.handler)
    return handler


def function_of(name: str) -> Any:
    """Import and return a function, named as `module:function` below `medhelm.extensions.web`."""
    module, _, function = name.partition(":")
    return getattr(import_module(f"medhelm.extensions.web.{module}"), function)
