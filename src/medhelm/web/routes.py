"""The table of pages, which the server and the static site share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from medhelm.web.page import Handler, Route

ROUTES: tuple[Route, ...] = (Route(name="leaderboard", path="/", handler="pages.leaderboard:page", menu="Leaderboard"),)
"""Every page, in the order of the navigation. A handler takes the `Site` and a `PageRequest`."""

BY_NAME: Mapping[str, Route] = {route.name: route for route in ROUTES}
"""Name -> route."""


def handler_of(route: Route) -> Handler:
    """Import and return the function that makes a page."""
    module, _, name = route.handler.partition(":")
    handler: Handler = getattr(import_module(f"medhelm.web.{module}"), name)
    return handler
