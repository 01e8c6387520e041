"""Tests of `medhelm.results.catalog`."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.analysis.leaderboard.cells import Column
from medhelm.benchmarks.suites import load_suite
from medhelm.errors import ConfigError
from medhelm.results.catalog import resolve_suite, suite_sort_key

OWN = Column(benchmark="own", title="Own", category="ours", subcategory="wards", metric="exact_match")


def test_benchmarks_with_results_belong_to_their_categories() -> None:
    assert resolve_suite("ours", [OWN]).weights == {"own": 1.0}


def test_a_file_may_name_benchmarks_with_and_without_results(tmp_path: Path) -> None:
    file = tmp_path / "suite.txt"
    file.write_text("own\nmed_qa\n", encoding="utf-8")
    assert resolve_suite(str(file), [OWN]).weights == {"own": 1.0, "med_qa": 1.0}
    with pytest.raises(ConfigError, match="unknown benchmark `own`"):
        resolve_suite(str(file))


def test_benchmarks_of_the_suite_come_first_in_its_order() -> None:
    first, second = (entry.name for entry in load_suite()[:2])
    assert sorted(["zz", "aa", second, first], key=suite_sort_key) == [first, second, "aa", "zz"]
