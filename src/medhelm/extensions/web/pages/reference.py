"""The glossary and the method: pages of the documentation, for readers of results; and sections of extensions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from medhelm.errors import MissingError
from medhelm.extensions.web.page import PageRequest, missing_page
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Page
from medhelm.io.plugins import find_documents
from medhelm.results.formats.markdown import rendered, with_code
from medhelm.results.formats.sections import ResultSection, read_sections
from medhelm.results.options import BoardOptions

GLOSSARY, METHOD = "reference/glossary", "explanation/method"
"""Names of the documents."""


@cache
def glossary() -> Mapping[str, str]:
    """Return term -> its meaning in one or two sentences; empty if the documentation is not installed."""
    with suppress(MissingError):
        rows = re.findall(r"^\| (.+?) \| (.+) \|$", _text(GLOSSARY), flags=re.MULTILINE)
        return {term: meaning.replace("*", "") for term, meaning in rows[1:]}
    return {}


def explain(term: str) -> str:
    """Return the meaning of a term, whatever its capital letters; empty if it is not in the glossary.

    >>> explain("Win rate")[:39]
    'Share of the other models that a model '
    """
    return _by_lower_case().get(term.lower(), "")


@cache
def _by_lower_case() -> Mapping[str, str]:
    return {term.lower(): meaning for term, meaning in glossary().items()}


PHRASES: Mapping[str, str] = {
    "macro average": "macro average",
    "win rate": "win rate",
    "mean score": "mean score",
    "significant": "significant",
    "cannot be separated": "not separated",
    "giving the same answer": "constant answer",
    "judge": "judge",
    "jury": "jury",
    "ratings": "calibrated",
}
"""Words of verdicts -> the term that explains them."""


def terms_in(sentences: Sequence[str]) -> list[str]:
    """Return the terms that explain the words of a verdict.

    >>> terms_in(["No winner: x ranks first (macro average 0.700), but cannot be separated from z."])
    ['macro average', 'not separated']
    """
    text = " ".join(sentences)
    return [term for phrase, term in PHRASES.items() if phrase in text and explain(term)]


def anchor(term: str) -> str:
    """Return the anchor of a term or heading on its page.

    >>> anchor("Quasi-EM"), anchor("Head to head: all pairs")
    ('quasi-em', 'head-to-head-all-pairs')
    """
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def glossary_page(site: Site, request: PageRequest) -> Page:
    """Return the page with the meaning of every term."""
    del site, request
    terms = [(term, anchor(term), with_code(meaning)) for term, meaning in glossary().items()]
    return Page(template="glossary.html", title="Glossary", values={"terms": terms})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the method."""

    title: str
    """Its heading; empty for the introduction."""
    anchor: str
    """Its anchor on the page."""
    content: Markup
    """Its text."""


def method_page(site: Site, request: PageRequest) -> Page:
    """Return the page on how completions become scores, estimates and ranks."""
    del site, request
    return Page(template="method.html", title="Method", values={"sections": _sections()})


@cache
def _sections() -> Sequence[Section]:
    """Return the sections of the method, the introduction first; none if the documentation is not installed."""
    with suppress(MissingError):
        parts = re.split(r"^#{1,2} ", _text(METHOD), flags=re.MULTILINE)[1:]
        titled = [part.partition("\n") for part in parts]
        titles = ["", *(title for title, _, _ in titled[1:])]
        return [
            Section(title=title, anchor=anchor(title), content=rendered(body, below=2, keep_lines=False))
            for title, (_, _, body) in zip(titles, titled, strict=True)
        ]
    return []


def _text(name: str) -> str:
    """Return the text of a document. Raises: MissingError if the documentation is not installed."""
    return find_documents()[name].read_text(encoding="utf-8")


# --- sections of extensions -------------------------------------------------------------------------------------------
# The page of sections that extensions add, such as the one on robustness.


def sections_page(site: Site, request: PageRequest) -> Page:
    """Return the page; 404 if no extension has anything to show."""
    del request
    found = site.keep("sections", lambda: _read(site))
    if not found:
        return missing_page("Nothing was asked in other ways.")
    title = found[0].title if len(found) == 1 else "Further findings"
    return Page(template="sections.html", title=title, values={"sections": found})


def _read(site: Site) -> Sequence[ResultSection]:
    return read_sections(site.stores, BoardOptions(rule=site.rule, tier=site.tier, wanted=site.wanted))
