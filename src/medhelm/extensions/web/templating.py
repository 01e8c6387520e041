"""Templates: HTML is written by Jinja2 alone, which escapes every value."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from medhelm import __version__
from medhelm.domain.text import duration, group_title, listed, plural, short_count
from medhelm.extensions.web.page import Page, PageRequest, Values
from medhelm.extensions.web.routes import ROUTES
from medhelm.extensions.web.site import Site
from medhelm.reports.formats.tables import MISSING, decimal, p_text, percent, printable, significant


@cache
def environment() -> Environment:
    """Return the templates of this package, with escaping of everything and an error for every unknown name."""
    made = Environment(
        loader=PackageLoader("medhelm.extensions.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        decimal=lambda value, places=3: MISSING if value is None else decimal(value, places),
        p_value=lambda p: p_text(p) or "",
        group_title=group_title,
        plural=plural,
        listed=listed,
        duration=lambda seconds: MISSING if seconds is None else duration(seconds),
        short_count=short_count,
        printable=printable,
        percent=percent,
        significant=significant,
    )
    made.globals.update(missing=MISSING, version=__version__)
    return made


def render(site: Site, request: PageRequest, page: Page) -> str:
    """Return the HTML of a page."""

    def url(route: str, **parameters: Values) -> str:
        return request.links.to(route, parameters)

    values = {
        "title": page.title,
        "site": site,
        "site_tier": site.known_tier,
        "scoring": site.rule,
        "request": request,
        "url": url,
        "static": request.links.static,
        "menu": [route for route in ROUTES if route.menu and not (request.is_static and route.only_served)],
    }
    return environment().get_template(page.template).render({**values, **page.values})
