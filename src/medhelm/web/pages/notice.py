"""Pages that only say something."""

from __future__ import annotations

from medhelm.web.page import Page, PageRequest
from medhelm.web.site import Site


def not_exported(site: Site, request: PageRequest) -> Page:
    """Return the page behind links to what a static site leaves out."""
    del site, request
    return Page(template="not_exported.html", title="Not in this export")
