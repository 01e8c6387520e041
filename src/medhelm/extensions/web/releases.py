"""Releases of a site compared, without addresses of servers and without texts that may not be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medhelm.analysis.leaderboard.diff import ReleaseComparison
from medhelm.domain.release import Release
from medhelm.extensions.web.page import PageNotFound, PageRequest
from medhelm.extensions.web.site import Site
from medhelm.results.release_comparison import compare_releases, current_like
from medhelm.results.releases import CURRENT
from medhelm.results.runs.names import without_address
from medhelm.storage.releases import RELEASE

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
        release = later or current_like(earlier, site.benchmark_folders)
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
    return RELEASE.read(_renamed(site, RELEASE.write(release)), leaderboard=_renamed(site, board))


def _renamed(site: Site, value: Any) -> Any:
    """Return JSON with the names of the site for models, and without any other address."""
    if isinstance(value, str):
        return without_address(site.shortened(value))
    if isinstance(value, Mapping):
        return {_renamed(site, key): _renamed(site, one) for key, one in value.items()}
    return [_renamed(site, one) for one in value] if isinstance(value, (list, tuple)) else value


def _without_texts(site: Site, found: ReleaseComparison) -> ReleaseComparison:
    """Return the comparison without ids of instances of benchmarks whose texts may not be shown."""
    cases = [one if site.shows_text_of(one.benchmark) else replace(one, gained=None, lost=None) for one in found.cases]
    return replace(found, cases=cases)
