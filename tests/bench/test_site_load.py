"""The study of load times: both sites show the same cases, and the tables have a row for each page."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.studies import site_load
from bench.studies.site_load import Loaded, best, prepare, ratio_table, site_table
from bench.tools.inspect_log import write_log
from bench.tools.leaderboard_store import Size, list_runs
from medhelm.extensions.exchange.inspect.logs import read_inspect_log
from medhelm.storage.runs import read_records

PAGES = {f"{name}, {turn}": Loaded(100.0, 2000) for name in site_load.pages_of("", "") for turn in ("first", "again")}
FACTS = {"start": 1.0, "MiB at start": 60.0, "MiB": 150.0}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> site_load.Cases:
    pytest.importorskip("inspect_ai")
    return prepare(Size(models=2, benchmarks=1, instances=500), "medcalc_bench", tmp_path_factory.mktemp("site_load"))


def test_the_log_has_every_completion_and_score_of_the_store(cases: site_load.Cases) -> None:
    (path,) = cases.logs.iterdir()
    log = read_inspect_log(path)
    rows = {
        f"{row['instance_id']} {run.model}": row
        for run in list_runs(cases.store)
        if run.benchmark == cases.benchmark
        for row in read_records(run)
    }
    assert {name: one.text for name, one in log.completions.items() if one.text is not None} == {
        name: row["completion"] for name, row in rows.items() if row["completion"] is not None
    }
    assert log.scores[cases.metric] == {
        name: row["exact_match_corrected"] for name, row in rows.items() if row["completion"] is not None
    }


def test_both_sites_are_asked_for_the_same_cases(cases: site_load.Cases) -> None:
    assert cases.records == 1000
    assert cases.with_text == 2 * 11
    assert 0 < cases.wrong < cases.records


def test_a_benchmark_without_runs_has_no_log(cases: site_load.Cases, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no run of nothing"):
        write_log(cases.store, "nothing", tmp_path)


def test_the_shortest_time_and_the_largest_memory_count() -> None:
    slow = ({"page": Loaded(5.0, 1)}, {"start": 2.0, "MiB": 7.0})
    fast = ({"page": Loaded(4.0, 2)}, {"start": 1.0, "MiB": 6.0})
    assert best([slow, fast]) == ({"page": Loaded(4.0, 2)}, {"start": 1.0, "MiB": 7.0})


def test_the_tables_have_a_row_for_each_page_and_step() -> None:
    new = {"cases, new browser": Loaded(500.0, 1_000_000)}
    steps = {name: Loaded(2000.0) for name in ("one case", "text in prompts", "wrong completions")}
    lines = site_table(PAGES).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == list(site_load.pages_of("", ""))
    assert "100 ms" in lines[2]
    text = ratio_table((PAGES | new, FACTS), (steps | new, FACTS))
    assert len(text.splitlines()) == 2 + 7
    assert "2.0 s" in text
