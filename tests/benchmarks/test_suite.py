"""The list of the suite: categories, subcategories and the 37 benchmarks."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
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


def test_names_and_aliases_are_unambiguous() -> None:
    benchmarks = suite()["benchmarks"]
    names = [entry["name"] for entry in benchmarks] + [entry["alias"] for entry in benchmarks if "alias" in entry]
    assert len(set(names)) == len(names)
    categories = load_taxonomy()
    ids = {category.id for category in categories} | {
        sub.id for category in categories for sub in category.subcategories
    }
    assert not set(names) & ids


def test_ids_of_the_taxonomy_are_its_titles() -> None:
    titles = {category.id: category.title for category in load_taxonomy()}
    titles |= {sub.id: sub.title for category in load_taxonomy() for sub in category.subcategories}
    assert list(titles) == [re.sub(r"[^a-z]+", "_", title.lower()) for title in titles.values()]


def test_titles_are_those_of_the_published_tables() -> None:
    path = Path(__file__).parent.parent / "fixtures" / "published_leaderboard.csv"
    header = next(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    published = {column.split(" - ")[0].strip() for column in header if " - " in column}
    assert {entry["title"] for entry in suite()["benchmarks"]} == published


def test_every_benchmark_of_the_suite_ships_and_one_more() -> None:
    assert set(SHIPPED) == {*(entry["name"] for entry in suite()["benchmarks"]), "healthbench"}
