"""The site as static files: the pages of the server, written by following its links from the leaderboard.

A page that no link of an exported page leads to is not written, and nothing is written that the server would not show.
The files open from disk: links are relative, scripts are classic ones, and nothing is fetched.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from pathlib import Path
from posixpath import dirname, relpath

from medhelm.extensions.web.app import answer, render
from medhelm.extensions.web.page import BY_NAME, PACKAGE, PageRequest, Route, Values, fill_path
from medhelm.extensions.web.pages.case_list import exported_cases, opened
from medhelm.extensions.web.site import Site
from medhelm.io.folders import new_export
from medhelm.io.http.mounted_pages import static_files
from medhelm.io.http.pages import Page, url_key
from medhelm.results.export import ExportResult
from medhelm.storage.privacy import record_export

KIND = "site"
"""Name of this kind of export in its manifest."""

FILE_SUFFIXES = (".csv", ".js", ".json", ".png", ".svg")
"""Ends of addresses that are files to save; all others are pages or texts."""

MOST_CASES = 100
"""Cases of each benchmark in an export unless another number is asked for."""

MOST_RESULTS = 100_000
"""Most results kept in memory: a page is followed by its files only after hundreds of other pages."""

NOT_EXPORTED = "not-exported.html"
"""Placeholder for all pages that only the server has."""


@dataclass(frozen=True, slots=True)
class Target:
    """A page of the static site."""

    route: str
    """Name of the route."""
    parameters: tuple[tuple[str, str], ...]
    """Parts of the path, and the parameters of the query that make a page of their own."""


@dataclass(kw_only=True)
class Crawl:
    """Pages found and still to write."""

    site: Site
    """The site."""
    most_cases: int
    """Most cases of each benchmark. Of all others, nothing is written: no text, no id, no line in a list."""
    static_names: Mapping[str, str]
    """Name of a style sheet or script -> its file, with a digest of the content in the name."""
    exported: dict[str, Collection[str]] = field(default_factory=dict)
    """Benchmark -> keys of the cases to write, as far as they were asked for."""
    files: dict[Target, str] = field(default_factory=dict)
    """Page -> its file."""
    waiting: deque[Target] = field(default_factory=deque)
    """Pages that are not written yet."""
    followed: set[Target] = field(default_factory=set)
    """Pages that are written, or will be."""
    n_cases: Counter[str] = field(default_factory=Counter)
    """Benchmark -> its cases so far."""

    def file_of(self, route: Route, parameters: Mapping[str, Values]) -> str:
        """Return the file of a page, which is written later; `NOT_EXPORTED` for a page that the export leaves out."""
        if route.only_served:
            return NOT_EXPORTED
        target = _target_of(route, parameters)
        if target not in self.files:
            if route.name == "case":
                benchmark = str(parameters["benchmark"])
                if benchmark not in self.exported:
                    self.exported[benchmark] = exported_keys(self.site, benchmark, self.most_cases)
                if parameters["case"] not in self.exported[benchmark]:
                    return NOT_EXPORTED
                self.n_cases[benchmark] += "before" not in parameters
            self.files[target] = _file_of(route, target)
        return self.files[target]

    def follow(self, links: Mapping[str, Target], content: bytes) -> None:
        """Write the pages that a page links to: a template may make a link and not use it."""
        for link, target in links.items():
            if target not in self.followed and escape(link).encode() in content:
                self.followed.add(target)
                self.waiting.append(target)

    def content_of(self, target: Target) -> tuple[bytes, int]:
        """Return the content of one page and its status."""
        route, links = BY_NAME[target.route], StaticLinks(crawl=self, file=self.files[target])
        parts = {name: value for name, value in target.parameters if f"{{{name}}}" in route.path}
        query = {name: (value,) for name, value in target.parameters if name not in parts}
        request = PageRequest(
            route=route, parts=parts, query=query, links=links, is_static=True, most_cases=self.most_cases
        )
        content, media_type, status, _ = answer(self.site, request)
        self.follow(links.found, content)
        return _without_addresses(content, media_type, self.site), status

    def not_exported(self) -> bytes:
        """Return the page that says where to find the pages that the export leaves out."""
        site = self.site
        request = PageRequest(route=NOTICE, links=StaticLinks(crawl=self, file=NOT_EXPORTED), is_static=True)
        closed = sorted({run.title for run in site.runs() if not site.shows_text_of(run.benchmark)})
        values = {"most_cases": self.most_cases, "closed": closed}
        page = Page(template="not_exported.html", title="Not in this export", values=values)
        return render(site, request, page).encode("utf-8", "replace")


def _target_of(route: Route, parameters: Mapping[str, Values]) -> Target:
    """Return the page of these parameters, those left out that make no page of their own."""
    kept = []
    for name, value in parameters.items():
        in_path = f"{{{name}}}" in route.path
        if (in_path or name in route.exported_with) and value not in (None, "") and (name, value) != ("page", 1):
            kept.append((name, str(value) if isinstance(value, str | int | float) else str(next(iter(value or ())))))
    return Target(route.name, tuple(sorted(kept)))


def _file_of(route: Route, target: Target) -> str:
    """Return the path of the file of a page, made of safe characters whatever the names are."""
    values = dict(target.parameters)
    segments = []
    for segment in route.path.strip("/").split("/"):
        name = segment[1:-1] if segment.startswith("{") else ""
        text = values.pop(name) if name else segment
        suffix = next((end for end in FILE_SUFFIXES if text.endswith(end)), "")
        segments.append(url_key(text.removesuffix(suffix)) + suffix if name or suffix else segment)
    path = "/".join(segments) or "index"
    suffix = next((end for end in FILE_SUFFIXES if path.endswith(end)), "")
    query = f"-{_digest(repr(sorted(values.items())).encode())}" if values else ""
    kind = suffix or (".json" if route.name.endswith("_json") else ".txt" if route.name.endswith("_text") else ".html")
    return f"{path.removesuffix(suffix)}{query}{kind}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticLinks:
    """Links between files, relative to the file of one page."""

    crawl: Crawl
    """Gets every page that is linked to."""
    file: str
    """File of the page."""
    found: dict[str, Target] = field(default_factory=dict)
    """Link -> page, for every link that was made."""

    def to(self, route: str, parameters: Mapping[str, Values]) -> str:
        """Return the relative path of a page."""
        file = self.crawl.file_of(BY_NAME[route], parameters)
        link = self._relative(file)
        if route == "cases":  # its script reads the query
            query = fill_path(BY_NAME[route].path, {**parameters, "page": None})[1]
            link += f"?{query}" if query else ""
        if file != NOT_EXPORTED:
            self.found[link] = _target_of(BY_NAME[route], parameters)
        return link

    def static(self, name: str) -> str:
        """Return the relative path of a style sheet or script."""
        return self._relative(self.crawl.static_names[name])

    def _relative(self, file: str) -> str:
        return _relative_path(file, dirname(self.file) or ".")


_relative_path = lru_cache(maxsize=10_000)(relpath)


def export_site(site: Site, folder: Path, *, most_cases: int = MOST_CASES) -> ExportResult:
    """Write the pages of a site to a folder.

    Parameters: folder, as `io.folders.new_export`; most_cases, of each benchmark whose text may be shown. All pages are
    of one moment, whatever happens in the store meanwhile.
    Raises: UserError if there is nothing to show, and for a folder with other content; StoreError.
    """
    site.most_results = MOST_RESULTS
    with site.unchanging():
        return _export(site, folder, most_cases)


def _export(site: Site, folder: Path, most_cases: int) -> ExportResult:
    site.inputs()
    static = static_files(PACKAGE)
    names = {name: f"static/{_with_digest(name, content)}" for name, content in static.items()}
    crawl = Crawl(site=site, most_cases=most_cases, static_names=names)
    first = _target_of(BY_NAME["leaderboard"], {})
    crawl.file_of(BY_NAME["leaderboard"], {})
    crawl.followed.add(first)
    crawl.waiting.append(first)
    left_out: list[str] = []
    size = 0
    with new_export(folder, KIND, {"scoring": site.rule, "with_text": site.with_text}) as new:
        for name, content in static.items():
            size += _write(new / names[name], content)
        size += _write(new / NOT_EXPORTED, crawl.not_exported())
        while crawl.waiting:
            target = crawl.waiting.popleft()
            content, status = crawl.content_of(target)
            if status >= 400:
                left_out.append(f"{crawl.files[target]}: it could not be made (status {status})")
            size += _write(new / crawl.files[target], content)
    for store in site.stores:
        record_export(store, folder, KIND, {run.benchmark for run in site.runs()}, has_text=_has_text(site))
    files = [crawl.files[target] for target in crawl.followed]
    counts = {"pages": sum(file.endswith(".html") for file in files), "cases": crawl.n_cases.total()}
    return ExportResult(
        kind=KIND,
        place=folder,
        files=len(files) + len(static) + 2,
        bytes=size,
        counts=counts,
        scoring=site.rule,
        remarks=tuple(_remarks(site, folder)),
        left_out=tuple(left_out),
    )


def exported_keys(site: Site, benchmark: str, most_cases: int) -> Collection[str]:
    """Return the keys of the cases of a benchmark to write."""
    if not site.shows_text_of(benchmark) or not most_cases:
        return ()
    return {url_key(name) for name in exported_cases(site, opened(site, benchmark), most_cases)}


def _has_text(site: Site) -> bool:
    return any(site.shows_text_of(run.benchmark) for run in site.runs())


NOTICE = Route(name="not_exported", path="/not-exported", handler="")
"""The page behind links that lead out of the export."""


def _without_addresses(content: bytes, media_type: str, site: Site) -> bytes:
    """Return the content with the names of the site for models, which hold no addresses of servers."""
    if not media_type.startswith(("text/", "application/json", "image/svg")):
        return content
    text = content.decode("utf-8")
    for name, short in sorted(site.names.items(), key=lambda pair: -len(pair[0])):
        if name != short:
            text = text.replace(escape(name), escape(short)).replace(name, short)
    return text.encode("utf-8")


def _with_digest(name: str, content: bytes) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{_digest(content)}.{suffix}"


def _write(path: Path, content: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return len(content)


def _remarks(site: Site, folder: Path) -> Iterable[str]:
    """Yield what the reader of the command's output needs to know."""
    yield f"Open {folder / 'index.html'} in a browser, or put the folder on any web server."
    names = sorted({run.benchmark for run in site.runs()})
    closed = [name for name in names if site.access_of(name) != "public"]
    if closed and site.with_text:
        yield f"Contains prompts and completions of benchmarks that are not public: {', '.join(closed)}."
    elif closed:
        yield (
            f"Only numbers of benchmarks that are not public: {', '.join(closed)}. "
            "To include their texts, add --with-text."
        )
