"""The table of pages, which the server and the static site share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from medhelm.web.page import Handler, Route

CASES = "/benchmarks/{benchmark}/cases"

ROUTES: tuple[Route, ...] = (
    Route(name="leaderboard", path="/", handler="pages.leaderboard:page", menu="Leaderboard"),
    Route(name="cases", path=CASES, handler="pages.cases:page", exported_with=("page",)),
    Route(name="case", path=f"{CASES}/{{case}}", handler="pages.case:page"),
    Route(name="prompt_text", path=f"{CASES}/{{case}}/prompt", handler="pages.case:prompt_text"),
    Route(name="completion_text", path=f"{CASES}/{{case}}/completions/{{model}}", handler="pages.case:completion_text"),
    Route(name="cases_json", path=f"/api{CASES}", handler="pages.cases:json_list", only_served=True),
    Route(name="case_json", path=f"/api{CASES}/{{case}}", handler="pages.case:json_case"),
)
"""Every page, in the order of the navigation. A handler takes the `Site` and a `PageRequest`."""

BY_NAME: Mapping[str, Route] = {route.name: route for route in ROUTES}
"""Name -> route."""


def handler_of(route: Route) -> Handler:
    """Import and return the function that makes a page."""
    module, _, name = route.handler.partition(":")
    handler: Handler = getattr(import_module(f"medhelm.web.{module}"), name)
    return handler
