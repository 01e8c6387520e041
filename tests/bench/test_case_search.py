"""The study of searches for cases: prompts are stored, every request is measured, and the table has a row for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.studies import case_search
from bench.tools.leaderboard_store import Size
from medhelm.extensions.web.case_search import CaseSearch
from medhelm.extensions.web.cases import find_cases, open_cases

SMALL = Size(models=2, benchmarks=1, instances=60)


def test_every_request_is_measured_on_a_store_with_prompts(tmp_path: Path) -> None:
    found = case_search.measured(SMALL, tmp_path / "store")
    assert all(seconds > 0 for seconds in found.values())
    assert {f"search: {name}" for name in case_search.SEARCHES} < set(found)
    benchmark = next((tmp_path / "store" / "runs").iterdir()).name
    cases = open_cases([tmp_path / "store"], benchmark)
    assert 0 < find_cases(cases, CaseSearch(text="chest tightness", within="prompt")).total <= 60


def test_the_table_has_a_row_for_each_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["case_search", "--most", "1000"])
    monkeypatch.setattr(case_search, "SIZES", (SMALL, *case_search.SIZES))
    case_search.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "| request | 120 records, 60 instances of the benchmark |"
    assert len(rows) == len(case_search.SEARCHES) + 4
