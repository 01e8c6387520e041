"""Releases: the page that compares two, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.diff import CellChange, ChangedCases, ReleaseComparison
from medhelm.domain.result import CellProvenance, Release
from medhelm.domain.text import listed, plural
from medhelm.extensions.web.board_charts import chart_file, chart_links
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.leaderboard import IMPORTED, Mark
from medhelm.extensions.web.pages.release_charts import is_comparable, trend_chart
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, PageNotFound, json_download, text_download, url_key
from medhelm.results.formats.fields import fields_json, select_fields
from medhelm.results.formats.tables import render
from medhelm.results.releases import (
    CASE_FIELDS,
    CURRENT,
    RELEASE_FIELDS,
    SHOWN,
    compare_releases,
    comparison_as_json,
    current_like,
    difference_rows,
    presence_sentences,
    rank_cause,
    rank_sentences,
    reasons,
)
from medhelm.results.runs.selection import with_names, without_address
from medhelm.storage.releases import RELEASE

MOST_IDS = 100
"""Most cases listed for one changed score; the JSON interface has all."""

MOST_PAIRS = 200
"""Most pairs of releases that a page of the static site links to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreChange:
    """One model on one benchmark in two releases."""

    change: CellChange
    """Both values and the changed inputs."""
    title: str
    """Name of the benchmark."""
    places: int
    """Decimals of the values."""
    inputs: str
    """Changed inputs, as text."""
    marks: Sequence[Mark]
    """Labels such as `imported`."""
    cases: ChangedCases | None
    """The runs behind both, instance by instance; None if it is the same run."""
    links: Mapping[str, str]
    """Instance id -> address of its case, for the cases of the store that are listed."""

    @property
    def has_other_value(self) -> bool:
        """Return True if the value differs."""
        return self.change.before != self.change.now

    @property
    def is_changed(self) -> bool:
        """Return True if the value differs, or other cases are right."""
        return self.has_other_value or bool(self.cases and (self.cases.n_gained or self.cases.n_lost))

    @property
    def is_separated(self) -> bool:
        """Return True if the difference is significant."""
        return bool(self.cases and self.cases.p_adjusted is not None and self.cases.p_adjusted <= LEVEL)


def page(site: Site, request: PageRequest) -> Page:
    """Return the comparison of two releases; without names that of the latest with the store as it is."""
    first, second = compared_releases(site, request)
    found = comparison_of(site, first, second)
    rows = _rows(site, request, found)
    changed = [row for row in rows if row.is_changed]
    known = [name for name, one in site.releases().items() if one.release]
    titles = _titles(found)
    trend = trend_chart(_trend_releases(site, found))
    values = {
        "first": first,
        "second": second,
        "releases": known,
        "choices": [*known, (CURRENT, THE_STORE)],
        "pairs": [(a, b) for at, a in enumerate(known) for b in [*known[at + 1 :], CURRENT]][:MOST_PAIRS],
        "names": {CURRENT: THE_STORE},
        "problems": [one.problem for one in site.releases().values() if one.problem],
        "facts": [
            {
                **fields_json(RELEASE_FIELDS, one),
                **({"sha256": ""} if name == CURRENT else {}),
                "signature": _signature(site, name),
            }
            for one, name in ((found.first, first), (found.second, second))
        ],
        "same": not found.diff.board and not found.diff.cells,
        "verdict": [*filter(None, (verdict(found, changed), rank_cause(found.diff)))],
        "trend": trend if trend.has_data else None,
        "trend_links": chart_links(request, "releases_chart", trend.name, {"before": first, "now": second}),
        "added": presence_sentences(found.diff),
        "ranks": rank_sentences(found.diff),
        "options": difference_rows(found.diff.options),
        "most_ids": MOST_IDS,
        "changed": changed,
        "unchanged": [row for row in rows if not row.is_changed],
        "only": [[(model, titles.get(name, name)) for model, name in side] for side in found.only],
        "board": difference_rows(found.diff.board[:SHOWN]),
        "n_board": len(found.diff.board),
        "site_tier": "sample" if "sample" in (_tier(found.first), _tier(found.second)) else site.known_tier,
    }
    return Page(template="releases.html", title="Compare two releases", values=values)


def chart(site: Site, request: PageRequest) -> Download:
    """Return the chart of the models over releases as a file."""
    found = comparison_of(site, *compared_releases(site, request))
    return chart_file(request.text("chart"), {"trend": lambda: trend_chart(_trend_releases(site, found))})


def _trend_releases(site: Site, found: ReleaseComparison) -> list[Release]:
    """Return the releases of the site that rank by the same number as the later one, in the order of time.

    The present state of the store is among them if it is compared and differs from the latest release.
    """
    known = [_shown(site, replace(one.release, name=name)) for name, one in site.releases().items() if one.release]
    if found.second.name == THE_STORE and known[-1].leaderboard["models"] != found.second.leaderboard["models"]:
        known.append(replace(found.second, name="now"))
    return [one for one in known if is_comparable(one, found.second)]


def _signature(site: Site, name: str) -> str:
    """Return whether a release is signed, and how to check it."""
    known = site.releases().get(name)
    if known is None or known.release is None:
        return ""
    if not known.is_signed:
        return "not signed"
    return f"signed; `medhelm verify {known.release.name} --signed-by KEY` checks it"


def csv(site: Site, request: PageRequest) -> Download:
    """Return the changed scores as CSV."""
    tested = select_fields(CASE_FIELDS, "difference low high n p_adjusted n_gained n_lost")
    headers = ["benchmark", "model", "before", "now", "changed_inputs", *(field.key for field in tested[:-2])]
    headers += ["only_later_right", "only_earlier_right"]
    rows: list[list[Any]] = []
    for row in _rows(site, request, comparison_of(site, *compared_releases(site, request))):
        cases, change = row.cases, row.change
        numbers = [field.get(cases) if cases and cases.difference else None for field in tested]
        rows.append([change.benchmark, change.model, change.before, change.now, row.inputs, *numbers])
    text = render(rows, headers, format="csv")
    return text_download(text, "releases", "csv")


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the releases as JSON."""
    del request
    known = [
        {**fields_json(RELEASE_FIELDS, one.release), "name": name}
        for name, one in site.releases().items()
        if one.release
    ]
    return json_download({"releases": known}, "releases")


def json_(site: Site, request: PageRequest) -> Download:
    """Return the comparison as JSON, with the keys of `medhelm diff --json`, and the cases."""
    found = comparison_of(site, *compared_releases(site, request))
    return json_download(comparison_as_json(found), "release-comparison")


def verdict(found: ReleaseComparison, changed: Sequence[ScoreChange]) -> str:
    """Return how many scores changed, and which changes are significant."""
    if not changed:
        return "No score changed."
    n = sum(row.has_other_value for row in changed)
    text = f"{n:,} of {plural(len(_shared_scores(found)), 'score')} changed."
    if same := len(changed) - n:
        text += f" {plural(same, 'score')} stayed the same, but other cases are right."
    tested = [row for row in changed if row.cases and row.cases.difference]
    if not tested:
        return f"{text} No change could be tested, because no cases of both releases are stored."
    significant = [
        f"{row.change.model} on {row.title} ({'better' if row.cases.difference.value > 0 else 'worse'})"
        for row in tested
        if row.is_separated and row.cases and row.cases.difference
    ]
    names = f": {listed(significant, 5)}" if significant else ""
    if len(tested) == 1:
        return f"{text} The one that could be tested is {'' if significant else 'not '}significant{names}."
    n_significant = f"{len(significant):,}" if significant else "none"
    are = "is" if len(significant) < 2 else "are"
    return f"{text} Of the {len(tested):,} that could be tested, {n_significant} {are} significant{names}."


def _shared_scores(found: ReleaseComparison) -> set[tuple[str, str]]:
    """Return model and benchmark of the scores that both releases have."""
    keys = [{(one.model, one.benchmark) for one in release.provenance} for release in (found.first, found.second)]
    return keys[0] & keys[1]


def _titles(found: ReleaseComparison) -> dict[str, str]:
    """Map ids of benchmarks to their titles."""
    entries = [*found.first.leaderboard["benchmarks"], *found.second.leaderboard["benchmarks"]]
    return {entry["id"]: str(entry.get("title", entry["id"])) for entry in entries}


def _rows(site: Site, request: PageRequest, found: ReleaseComparison) -> list[ScoreChange]:
    """Return the scores whose value or inputs changed, in the order of the leaderboard's benchmarks."""
    titles = _titles(found)
    wide = {entry["id"] for entry in found.second.leaderboard["benchmarks"] if entry.get("high") not in (None, 1, 1.0)}
    cases = {(one.model, one.benchmark): one for one in found.cases}
    imported = {(one.model, one.benchmark) for one in found.second.provenance if _is_imported(one)}
    order = list(titles)
    rows = [
        ScoreChange(
            change=change,
            title=titles.get(change.benchmark, change.benchmark),
            places=2 if change.benchmark in wide else 3,
            inputs=reasons(change.why),
            marks=[IMPORTED] if (change.model, change.benchmark) in imported else [],
            cases=cases.get((change.model, change.benchmark)),
            links=_case_links(site, request, cases.get((change.model, change.benchmark))),
        )
        for change in found.diff.cells
    ]
    return sorted(rows, key=lambda row: order.index(row.change.benchmark) if row.change.benchmark in titles else -1)


def _case_links(site: Site, request: PageRequest, cases: ChangedCases | None) -> dict[str, str]:
    """Return the addresses of the cases that are listed and that the store shows."""
    listed_ids = [*(cases.gained or ())[:MOST_IDS], *(cases.lost or ())[:MOST_IDS]] if cases else []
    if not cases or not listed_ids:
        return {}
    known = _instance_ids(site, cases.benchmark)
    return {
        one: request.links.to("case", {"benchmark": cases.benchmark, "case": url_key(one)})
        for one in listed_ids
        if one in known
    }


def _instance_ids(site: Site, benchmark: str) -> frozenset[str]:
    """Return the ids of the instances of the runs that count on a benchmark."""
    cells = [cell for cell in site.inputs().cells if cell.benchmark == benchmark]
    return frozenset(one for cell in cells for one in cell.ids)


def _is_imported(basis: CellProvenance) -> bool:
    """Return True if the prompts of a run come from another harness."""
    return bool(basis.origin) and not basis.origin.get("our_task")


def _tier(release: Release) -> str:
    return str(release.leaderboard.get("tier", "real"))


# --- compared releases ------------------------------------------------------------------------------------------------
# Releases of a site compared, without addresses of servers and without texts that may not be shown.

THE_STORE = "the store now"
"""Name for people of the present state of the store."""


def compared_releases(site: Site, request: PageRequest) -> tuple[str, str]:
    """Return the names of the two releases that a URL selects; without names the latest and the store as it is.

    Raises: PageNotFound for an unknown name, and without a release.
    """
    known = [name for name, one in site.releases().items() if one.release]
    if not known:
        raise PageNotFound("The store has no release yet. `medhelm release NAME` freezes the leaderboard under a name.")
    second = request.known_name("now", [*known, CURRENT], CURRENT)
    earlier = [name for name in known if name != second]
    return request.known_name("before", known, earlier[-1] if earlier else known[-1]), second


def comparison_of(site: Site, first: str, second: str) -> ReleaseComparison:
    """Return the comparison of two releases, from memory where it was made before. Raises: MedHelmError."""

    def compare() -> ReleaseComparison:
        earlier = site.releases()[first]
        later = None if second == CURRENT else site.releases()[second].release
        release = later or current_like(earlier, site.folders)
        assert earlier.release is not None, "the name was checked"
        pair = [_shown(site, one) for one in (earlier.release, release)]
        found = compare_releases(
            replace(pair[0], name=first), replace(pair[1], name=THE_STORE if later is None else second), site.runs()
        )
        return _without_texts(site, found)

    return site.keep(("releases", first, second), compare)


def _shown(site: Site, release: Release) -> Release:
    """Return a release with the names of the site for models, and without texts of data that is not shown."""
    board = {
        **release.leaderboard,
        "benchmarks": [
            one if site.shows_text_of(one["id"]) else {key: one[key] for key in one.keys() - {"floor_answer"}}
            for one in release.leaderboard["benchmarks"]
        ],
    }
    names = site.names
    return RELEASE.read(_renamed(names, RELEASE.write(release)), leaderboard=_renamed(names, board))


def _renamed(names: Mapping[str, str], value: Any) -> Any:
    """Return JSON with the names of the site for models, and without any other address."""
    if isinstance(value, str):
        return without_address(with_names(names, value))
    if isinstance(value, Mapping):
        return {_renamed(names, key): _renamed(names, one) for key, one in value.items()}
    return [_renamed(names, one) for one in value] if isinstance(value, (list, tuple)) else value


def _without_texts(site: Site, found: ReleaseComparison) -> ReleaseComparison:
    """Return the comparison without ids of instances of benchmarks whose texts may not be shown."""
    cases = [one if site.shows_text_of(one.benchmark) else replace(one, gained=None, lost=None) for one in found.cases]
    return replace(found, cases=cases)
