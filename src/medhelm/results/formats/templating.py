"""Templates of the pages of an extension: everything is escaped, and every unknown name is an error."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from medhelm import __version__
from medhelm.domain.text import duration, listed, plural
from medhelm.results.formats.markdown import rendered
from medhelm.results.formats.tables import MISSING, decimal, percent, printable, significant, with_minus


@cache
def page_templates(package: str) -> Environment:
    """Return the templates in a package, with the filters that all pages share."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        decimal=lambda value, places=3: MISSING if value is None else with_minus(decimal(value, places) or MISSING),
        duration=lambda seconds: MISSING if seconds is None else duration(seconds),
        listed=listed,
        percent=percent,
        plural=plural,
        printable=printable,
        rendered=rendered,
        significant=significant,
    )
    made.globals.update(version=__version__, missing=MISSING)
    return made
