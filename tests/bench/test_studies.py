"""Studies of the tables in the documentation run, on small stores and on two benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.studies import capacity, case_search, cold_start, leaderboard_size, prefixes, site_load, token_bounds
from bench.tools.leaderboard_store import Size, list_runs
from medhelm.extensions.exchange.inspect.logs import read_inspect_log
from medhelm.extensions.web.cases.case import open_cases
from medhelm.extensions.web.cases.listing import find_cases
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.storage.runs import read_records


def test_searches_for_cases_are_measured_on_a_store_with_prompts(tmp_path: Path) -> None:
    found = case_search.measured(Size(models=2, benchmarks=1, instances=60), tmp_path / "store")
    assert all(seconds > 0 for seconds in found.values())
    assert {f"search: {name}" for name in case_search.SEARCHES} < set(found)
    cases = open_cases([tmp_path / "store"], next((tmp_path / "store" / "runs").iterdir()).name)
    assert 0 < find_cases(cases, CaseSearch(text="chest tightness", within="prompt")).total <= 60


def test_leaderboards_of_each_size_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["leaderboard_size", "--most", "9"])
    monkeypatch.setattr(leaderboard_size, "SIZES", ((3, 20, "compare"), (9, 20, "leaderboard"), (10, 20, "compare")))
    leaderboard_size.main()
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [["| 3 x 37 x 20", "compare"], ["| 9 x 37 x 20", "leaderboard"]]


def test_capacity_is_measured_on_a_small_store_and_needs_are_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(capacity, "YOUNG_S", -0.5)  # no wait
    words = ["--store", str(tmp_path / "s"), "--models", "2", "--benchmarks", "2", "--instances", "20"]
    assert capacity.main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in ("first", "again", capacity.AFTER_RUN))
    costs = capacity.HarnessCosts(cpu_us=500.0, memory_bytes=100.0, record_bytes=90.0)
    needs = "\n".join(capacity.need_table(capacity.Evaluation(models=10, benchmarks=4, instances=900), costs))
    assert "| requests | 36,000 |" in needs
    assert "| time at 100 requests a second | 0.1 hours, 0.1 cores |" in needs
    assert "| 10 US dollars |" in needs  # 36 million input tokens at 0.15, 7.2 million output tokens at 0.60


def rows_of(script: str, data: Path, *benchmarks: str) -> dict[str, list[str]]:
    """Run a study of prompts; return name -> other cells of the rows of its table."""
    command = [sys.executable, script, "--data", str(data), *benchmarks]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines())
    return {name: cells for name, *cells in rows}


def test_prompts_of_real_data_are_measured(data_dir: Path) -> None:
    n, *shares = rows_of(token_bounds.__file__, data_dir, "aci_bench")["aci_bench"]
    assert (n, all(float(share.strip(" %")) < 5 for share in shares[:2])) == ("120", True)
    shared = rows_of(prefixes.__file__, data_dir, "aci_bench", "ehrsql")
    assert shared["aci_bench"][0] == shared["aci_bench, judges"][0] == "120"
    assert "100.0 %" in shared["ehrsql"], "all questions come with the same schema"


def test_the_log_for_the_viewer_has_every_completion_and_score_of_the_store(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    cases = site_load.prepare(Size(models=2, benchmarks=1, instances=500), "medcalc_bench", tmp_path)
    (path,) = cases.logs.iterdir()
    log = read_inspect_log(path)
    rows = {
        f"{row['instance_id']} {run.model}": row
        for run in list_runs(cases.store)
        if run.benchmark == cases.benchmark
        for row in read_records(run)
        if row["completion"] is not None
    }
    texts = {name: one.text for name, one in log.completions.items() if one.text is not None}
    assert texts == {name: row["completion"] for name, row in rows.items()}
    assert log.scores[cases.metric] == {name: row["exact_match_corrected"] for name, row in rows.items()}


def test_the_first_request_of_a_real_run_is_timed_and_its_modules_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_start, "LIMIT_S", 600)
    with cold_start.FirstRequest().running() as server:
        seconds = cold_start.first_request_s(sys.executable, server, "pubmed_qa", tmp_path)
        files, listing = cold_start.loaded_modules(sys.executable, server, "pubmed_qa", tmp_path)
    assert seconds > 0
    assert len(files) == len(set(files)) > 20
    assert all("medhelm" in path.parts and path.suffix == ".py" for path in files)
    assert {"aiohttp", "json"} <= set(json.loads(listing.read_text(encoding="utf-8"))[1])
    assert cold_start.libraries_s(sys.executable, listing, tmp_path) > 0
