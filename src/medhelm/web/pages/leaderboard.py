"""The leaderboard page."""

from __future__ import annotations

from medhelm.results.leaderboard import leaderboard
from medhelm.web.page import Page, PageRequest
from medhelm.web.site import Site


def page(site: Site, request: PageRequest) -> Page:
    """Return the leaderboard of a site."""
    del request
    board = site.keep("leaderboard", lambda: leaderboard(site.stores, rule=site.rule, tier=site.tier))
    return Page(template="leaderboard.html", title="Leaderboard", values={"board": board})
