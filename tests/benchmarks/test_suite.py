"""The list of the suite: categories, subcategories and the 37 benchmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.io.strict_yaml import load_yaml
from tests.support.benchmarks.library import BENCHMARKS, SHIPPED


@cache
def suite() -> Mapping[str, list[dict[str, Any]]]:
    content: Mapping[str, list[dict[str, Any]]] = load_yaml(BENCHMARKS / "suite.yaml").data
    return content


def test_the_suite_is_complete() -> None:
    benchmarks = suite()["benchmarks"]
    assert (
        len(benchmarks) == len({entry["name"] for entry in benchmarks}) == len({e["title"] for e in benchmarks}) == 37
    )
    assert [entry["name"] for entry in benchmarks if not entry.get("paper", True)] == ["med_qa", "med_mcqa"]
    assert Counter(entry["access"] for entry in benchmarks if entry.get("paper", True)) == {
        "public": 14,
        "gated": 7,
        "private": 14,
    }
    in_paper = Counter(entry["category"] for entry in benchmarks if entry.get("paper", True))
    assert list(in_paper.values()) == [10, 6, 8, 6, 5]


def test_every_benchmark_of_the_suite_has_its_place_and_no_place_is_empty() -> None:
    places = {(category.id, sub.id) for category in load_taxonomy() for sub in category.subcategories}
    assert {(entry["category"], entry["subcategory"]) for entry in suite()["benchmarks"]} == places


def test_every_benchmark_of_the_suite_ships_and_two_more() -> None:
    assert set(SHIPPED) == {*(entry["name"] for entry in suite()["benchmarks"]), "adversemed_500", "healthbench"}
