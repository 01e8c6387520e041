"""HTML files that need nothing else, from templates that escape every value."""

from __future__ import annotations

from html import escape
from typing import Any


class _EscapedText(str):
    """A text that templates escape as `html.escape` does."""

    __slots__ = ()

    def __html__(self) -> str:
        return escape(self)


def render_html(template: str, **values: Any) -> str:
    """Return a file of `reports/templates` with these values.

    The filter `plain` makes control and direction characters spaces.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medhelm.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if hasattr(value, "__html__") else _EscapedText(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain"] = lambda text: "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return environment.get_template(template).render(**values)
