"""Stores and releases that a site compares: their names, the columns, what differs between two, and their cases.

No address of a server is shown, and no text of data that is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from medhelm.analysis.leaderboard.diff import ReleaseComparison
from medhelm.domain.result import Release
from medhelm.extensions.web.cases.case import BenchmarkCases, cases_of_runs
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import PageNotFound, Parameters
from medhelm.results.comparable import store_names
from medhelm.results.options import BoardOptions
from medhelm.results.releases import (
    CURRENT,
    StoredRuns,
    compare_releases,
    current_release,
    released_options,
    scoring_of,
)
from medhelm.results.runs.side_by_side import Side, SideBySide, changed_runs, compare_sides, name_in

THE_STORE = "the store now"
"""Name for people of the present state of the only store."""

MOST_AT_FIRST = 6
"""Most columns of a page that names none."""


# --- names ------------------------------------------------------------------------------------------------------------


def current_stores(site: Site) -> dict[str, Path]:
    """Return the name of each store as it is now: `current` for a single one, else that of its folder."""
    if len(site.stores) == 1:
        return {CURRENT: site.stores[0]}
    releases = site.releases()
    labels = {path: f"{name} (store)" if name in releases else name for path, name in store_names(site.stores).items()}
    return {name: path for path, name in labels.items()}


def side_titles(site: Site) -> dict[str, str]:
    """Return the names that can be compared, in the order of time, with those for people."""
    releases = {name: name for name, one in site.releases().items() if one.release}
    stores = current_stores(site)
    return {**releases, **{name: THE_STORE if name == CURRENT else name for name in stores}}


def compared_names(site: Site, request: Parameters) -> list[str]:
    """Return the names of the columns that a URL selects, the first two of which are compared in detail.

    Without names: the latest release and the store as it is now, or several stores; then the other releases.
    Raises: PageNotFound for an unknown name, and if there is nothing to compare.
    """
    titles, stores = side_titles(site), current_stores(site)
    releases = [name for name in titles if name not in stores]
    if len(titles) < 2:
        raise PageNotFound("The store has no release yet. `medhelm release NAME` freezes the leaderboard under a name.")
    latest = site.releases()[releases[-1]].store if releases else None
    usual = next((name for name, path in stores.items() if path == latest), list(stores)[-1])
    if not any(map(request.texts, ("before", "now", "also"))):
        later = [*stores] if len(stores) > 1 else [releases[-1], usual]
        return list(dict.fromkeys([*later, *reversed(releases)]))[:MOST_AT_FIRST]
    second = request.known_name("now", [*titles, CURRENT], usual)
    second = second if second in titles else usual
    earlier = [name for name in releases or titles if name != second]
    first_name = request.known_name("before", titles, earlier[-1] if earlier else (releases or list(titles))[-1])
    further = request.texts("also")
    if unknown := next((name for name in further if name not in titles), ""):
        raise PageNotFound(f"`{unknown[:80]}` is not a store or release of this site. Known: {', '.join(titles)}.")
    return [first_name, second, *(one for one in dict.fromkeys(further) if one not in (first_name, second))]


# --- columns ----------------------------------------------------------------------------------------------------------


def side_of(site: Site, name: str, first: str) -> Side:
    """Return a release or store as a column, from memory where it was made before.

    A store has the options of the release that it is compared with, else those of the site. Raises: MedHelmError.
    """
    known = site.releases()
    if (found := known.get(name)) and found.release:
        return Side(name=name, release=found.release, is_store=False, is_signed=found.is_signed)
    like = known[first].release if first in known else None
    store, title = current_stores(site)[name], side_titles(site)[name]

    def make() -> Side:
        options = BoardOptions(rule=site.rule, tier=site.tier, benchmark_folders=site.folders, wanted=site.wanted)
        with TemporaryDirectory() as scratch:
            options = released_options(like, Path(scratch), site.folders) if like else options
            return Side(name=title, release=current_release(store, options), is_store=True)

    return site.keep(("side", name, first if like else ""), make)


def stored_runs(site: Site) -> StoredRuns:
    """Return the runs in which those behind scores are looked up: of the stores, and of those of further releases."""
    return site.keep("stored runs", lambda: StoredRuns([*site.runs(), *site.runs_of_releases()]))


def side_by_side(site: Site, names: Sequence[str]) -> SideBySide:
    """Return stores and releases side by side, from memory where they were compared before."""

    def compare() -> SideBySide:
        return compare_sides([side_of(site, name, names[0]) for name in names], stored_runs(site))

    return site.keep(("side by side", *names), compare)


def comparison_of(site: Site, first: str, second: str) -> ReleaseComparison:
    """Return every difference of two columns, from memory where they were compared before. Raises: MedHelmError."""

    def compare() -> ReleaseComparison:
        pair = [shown_release(site, side_of(site, name, first)) for name in (first, second)]
        return _without_texts(site, compare_releases(pair[0], pair[1], stored_runs(site)))

    return site.keep(("releases", first, second), compare)


def shown_release(site: Site, side: Side) -> Release:
    """Return a release without addresses of servers, and without texts of data that is not shown."""
    board = side.named_release.leaderboard
    benchmarks = [
        one if site.shows_text_of(one["id"]) else {key: one[key] for key in one.keys() - {"floor_answer"}}
        for one in board["benchmarks"]
    ]
    return replace(side.named_release, leaderboard={**board, "benchmarks": benchmarks})


def _without_texts(site: Site, found: ReleaseComparison) -> ReleaseComparison:
    """Return the comparison without ids of instances of benchmarks whose texts may not be shown."""
    cases = [
        one if site.shows_text_of(one.benchmark) else replace(one, gained=None, lost=None, other=None)
        for one in found.cases
    ]
    return replace(found, cases=cases)


# --- cases ------------------------------------------------------------------------------------------------------------


def compared_cases(site: Site, request: Parameters) -> BenchmarkCases:
    """Open the cases of a benchmark with the completions of two stores or releases, of models whose runs differ.

    Raises: PageNotFound for an unknown name, and without such a model.
    """
    benchmark, (first, second) = request.text("benchmark"), compared_names(site, request)[:2]

    def open_() -> BenchmarkCases:
        earlier, later = (side_of(site, name, first) for name in (first, second))
        runs = changed_runs(earlier, later, benchmark, stored_runs(site))
        if not runs:
            raise PageNotFound(
                f"No model has other completions of `{benchmark[:80]}` in {earlier.name} and {later.name} whose runs "
                "are stored. A release holds numbers: the texts are in the store that it was made of."
            )
        rule = scoring_of(later.release).scoring
        known = site.definitions.get(benchmark)
        return cases_of_runs(runs, rule=rule, definition=known, sides=(first, second))

    return site.keep(("compared cases", benchmark, first, second), open_)


def model_names(site: Site, model: str, first: str, second: str) -> tuple[str, str]:
    """Return the names of a model among the cases of two stores or releases."""
    earlier, later = (name_in(model, side_of(site, name, first)) for name in (first, second))
    return earlier, later


def conditions_in_words(site: Site, cases: BenchmarkCases) -> list[str]:
    """Return in which way the later runs of compared cases were measured otherwise, in sentences."""
    if cases.sides is None:
        return []
    found = [one for one in comparison_of(site, *cases.sides).cases if one.benchmark == cases.benchmark]
    return [f"{one.model}: {one.reason}." for one in found if one.reason]
