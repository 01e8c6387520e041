"""The page of sections that extensions add, such as the one on robustness."""

from __future__ import annotations

from collections.abc import Sequence

from medhelm.extensions.web.page import PageRequest, missing_page
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Page
from medhelm.results.formats.sections import ResultSection, read_sections
from medhelm.results.options import BoardOptions
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store


def page(site: Site, request: PageRequest) -> Page:
    """Return the page; 404 if no extension has anything to show."""
    del request
    found = site.keep("sections", lambda: _read(site))
    if not found:
        return missing_page("Nothing was asked in other ways.")
    title = found[0].title if len(found) == 1 else "Further findings"
    return Page(template="sections.html", title=title, values={"sections": found})


def _read(site: Site) -> Sequence[ResultSection]:
    return read_sections(site.stores, BoardOptions(rule=site.rule, tier=site.tier, wanted=site.wanted))


def has_sections(site: Site) -> bool:
    """Return whether a run of the stores asked other questions, which sections are about; cheaper than to make them."""
    return site.keep(
        "has sections",
        lambda: any(run.is_variant for store in site.stores for run in load_runs(open_store(store), variants=True)),
    )
