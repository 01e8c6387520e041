"""Results of a site: kept in memory until others were used more recently, and computed once."""

from __future__ import annotations

from pathlib import Path

from medhelm.extensions.web.site import MOST_RESULTS, Site
from medhelm.storage.store import create


def test_the_results_that_were_not_used_for_longest_make_room(tmp_path: Path) -> None:
    site = Site(stores=[create(tmp_path / "store").folder])
    computed: list[int] = []

    def use(key: int) -> int:
        def compute() -> int:
            computed.append(key)
            return 10 * key

        return site.keep(key, compute)

    for key in range(1, 2 * MOST_RESULTS):
        assert use(0) == 0
        assert use(key) == 10 * key
    assert computed == list(range(2 * MOST_RESULTS))
    assert use(1) == 10
    assert computed[-1] == 1
