"""The table of pages, which the server and the static site share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from medhelm.web.page import Handler, Route

ROUTES: tuple[Route, ...] = (
    Route(
        name="leaderboard",
        path="/",
        handler="pages.leaderboard:page",
        menu="Leaderboard",
        exported_with=("category",),
    ),
    Route(
        name="leaderboard_csv",
        path="/leaderboard.csv",
        handler="pages.leaderboard:csv",
        exported_with=("category", "by"),
    ),
    Route(
        name="leaderboard_json",
        path="/leaderboard.json",
        handler="pages.leaderboard:json_",
        exported_with=("category",),
    ),
    Route(
        name="leaderboard_chart",
        path="/leaderboard/charts/{chart}",
        handler="pages.leaderboard:chart",
        exported_with=("category",),
    ),
    Route(name="compare", path="/compare", handler="pages.compare:page", menu="Compare", exported_with=("a", "b")),
    Route(name="compare_csv", path="/compare.csv", handler="pages.compare:csv", exported_with=("a", "b")),
)
"""Every page, in the order of the navigation. A handler takes the `Site` and a `PageRequest`."""

BY_NAME: Mapping[str, Route] = {route.name: route for route in ROUTES}
"""Name -> route."""


def handler_of(route: Route) -> Handler:
    """Import and return the function that makes a page."""
    module, _, name = route.handler.partition(":")
    handler: Handler = getattr(import_module(f"medhelm.web.{module}"), name)
    return handler
