"""Models over releases: the numbers of the chart are those of the releases, and its labels do not hide each other."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Taxonomy
from medhelm.domain.result import Release
from medhelm.extensions.web.pages.releases import MOST_MODELS, is_comparable, spread, trend_chart
from medhelm.results.options import BoardOptions
from medhelm.results.releases import find_releases, freeze
from tests.support.stores import make_store
from tests.support.web.sites import make_client

TAXONOMY = Taxonomy(category="medical_research_assistance", subcategory="some_work")
MODELS = [f"laboratory/a-model-with-a-long-name-{n:02}" for n in range(MOST_MODELS + 4)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three releases: in the second one, one model is better and another one new; the third has many more."""
    place = tmp_path_factory.mktemp("trend") / "store"
    for month, names in enumerate((MODELS[:3], MODELS[:4], MODELS)):
        right = {name: 36 if at > 3 else 30 - at - 5 * (at == 2 and month == 0) for at, name in enumerate(names)}
        scores = {name: [float(n < right[name]) for n in range(40)] for name in names}
        make_store(place, {"pubmed_qa": scores}, taxonomy=TAXONOMY, started=f"2026-0{month + 1}-01T00:00:00+00:00")
        freeze(place, f"2026-0{month + 1}", BoardOptions())
    return place


def releases_of(store: Path) -> list[Release]:
    return [one.release for one in find_releases([store]) if one.release]


def test_the_table_holds_the_numbers_of_the_releases(store: Path) -> None:
    releases = releases_of(store)
    chart = trend_chart(releases)
    expected = {
        (release.name, row["model"]): (row["rank"], row["ranking_value"], row["n_benchmarks"])
        for release in releases
        for row in release.leaderboard["models"]
    }
    assert {(row[0], row[2]): (row[3], row[4], row[7]) for row in chart.rows} == expected
    assert chart.headers[4] == releases[-1].leaderboard["ranked_by"].replace(" ", "_")
    assert f"{MODELS[2]} +0.125" in chart.description


@pytest.mark.parametrize("width", ["svg", "narrow"])
def test_labels_are_apart_readable_and_inside(store: Path, width: str) -> None:
    svg = str(getattr(trend_chart(releases_of(store)), width))
    height = float(re.findall(r'viewBox="0 0 \S+ (\S+)"', svg)[0])
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)]
    assert min(sizes) >= 11
    names = re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>(?:<title>[^<]*</title>)?(\d+ [^<]*)</text>', svg)
    places = sorted(float(y) for y, _ in names)
    assert len(places) == MOST_MODELS
    assert min(b - a for a, b in pairwise(places)) >= 12
    assert places[0] > 0 and places[-1] < height


def test_releases_that_score_otherwise_are_left_out_and_one_is_no_trend(store: Path, tmp_path: Path) -> None:
    releases = releases_of(store)
    freeze(store, "published", BoardOptions(rule="published"))
    other = next(one for one in releases_of(store) if one.name == "published")
    assert not is_comparable(other, releases[-1])
    assert not trend_chart(releases[:1]).has_data


def test_the_page_says_why_ranks_moved_and_offers_the_chart(store: Path) -> None:
    with make_client(store) as client:
        pair = "before=2026-02&now=2026-03"
        page = client.get(f"/compare/releases?{pair}").text
        assert f"Ranks moved because {len(MODELS) - 4} models were added." in page
        assert page.index("No score changed.") < page.index("Ranks moved") < page.index("Models over releases")
        assert client.get(f"/compare/releases/charts/trend.csv?{pair}").text.count("\n") > len(MODELS)
        assert client.get(f"/compare/releases/charts/trend.svg?{pair}").text.startswith("<svg")
        assert "not signed" in page


@given(st.lists(st.floats(0, 300), max_size=20))
def test_spread_keeps_order_and_distance(wanted: list[float]) -> None:
    places = spread(wanted, 15.0, (0.0, 300.0))
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    ordered = [places[at] for at in order]
    assert all(b - a >= 15 - 1e-9 for a, b in pairwise(ordered))
    assert all(place <= 300 for place in places)
