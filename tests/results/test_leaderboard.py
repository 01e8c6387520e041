"""From stores to a leaderboard: suites and weights, gaps, what is read and what is not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import medhelm as face
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import Taxonomy
from medhelm.domain.result import Remark
from medhelm.errors import ConfigError, StoreError, UserError
from medhelm.extensions.web.site import BoardSelection, Site, board_of
from medhelm.results.comparison import compare_all_models
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import suite_sort_key
from medhelm.results.runs.cells import UNKNOWN
from medhelm.storage.damage import DamagedRunWarning, no_damaged_runs
from tests.support.cli import Medhelm, assert_refused
from tests.support.remarks import texts
from tests.support.stores import make_store
from tests.support.values import present

GOOD, FAIR, BAD = [1.0] * 18 + [0.0] * 2, [1.0, 0.0] * 10, [0.0] * 18 + [1.0] * 2


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """x is best on the first two benchmarks and skipped the third; y is better than z nearly everywhere."""
    scores = {
        "pubmed_qa": {"x": GOOD, "y": FAIR, "z": BAD},
        "own_qa": {"x": GOOD, "y": FAIR, "z": BAD},
        "head_qa": {"y": GOOD, "z": FAIR},
    }
    return make_store(tmp_path / "store", scores)


def places(board: Leaderboard) -> dict[str, int | None]:
    return {row.model: row.rank for row in board.rows}


def rates(board: Leaderboard) -> dict[str, float]:
    return {row.model: row.win_rate.value for row in board.rows if row.win_rate}


def test_a_missing_benchmark_does_not_change_the_ranks(store: Path) -> None:
    board = leaderboard([store])
    assert rates(board) == pytest.approx({"x": 1.0, "y": (0.5 + 0.5 + 1) / 3, "z": 0.0})
    guarded = {row.model: row.guarded_win_rate for row in board.rows}
    assert guarded == pytest.approx({"x": 2 / 3, "y": 2 / 3, "z": 0.5 / 3})
    assert {row.model: row.coverage for row in board.rows} == pytest.approx({"x": 2 / 3, "y": 1, "z": 1})
    shared = leaderboard([store], shared=True)
    assert [column.benchmark for column in shared.columns] == ["pubmed_qa", "own_qa"]
    assert places(board) == places(shared) == {"x": 1, "y": 2, "z": 3}


def test_weights_of_a_suite_enter_every_average(store: Path, tmp_path: Path) -> None:
    suite = tmp_path / "ours.yaml"
    suite.write_text("name: ours\ndescription: Our wards.\nbenchmarks:\n  head_qa: 3\n  pubmed_qa: 1\n", "utf-8")
    board = leaderboard([store], suite=str(suite))
    assert (board.suite, board.suite_description) == ("ours", "Our wards.")
    assert [(column.benchmark, column.weight) for column in board.columns] == [("head_qa", 3.0), ("pubmed_qa", 1.0)]
    assert rates(board) == pytest.approx({"x": 1.0, "y": (3 * 1 + 0.5) / 4, "z": 0.0})
    assert places(board) == {"x": 1, "y": 2, "z": 3}, "also if what x skipped counts most"
    macros = {row.model: present(row.macro_average).value for row in board.rows}
    assert macros == pytest.approx({"x": 0.9, "y": (3 * 0.9 + 0.5) / 4, "z": (3 * 0.5 + 0.1) / 4})
    assert {row.model: row.categories["c"].value for row in board.rows} == pytest.approx(macros)


def test_remarks_are_those_on_the_benchmarks_and_models_shown(store: Path) -> None:
    make_store(store, {"long_qa": {"lab/x@https://a.example": GOOD, "z": BAD}}, n_truncated=3)

    def truncated(remarks: Iterable[Remark]) -> list[str]:
        return sorted(one.text.partition(" got ")[0] for one in remarks if one.code == "truncated_prompts")

    assert truncated(leaderboard([store]).remarks) == ["lab/x@https://a.example", "z"]
    assert truncated(leaderboard([store], short_names=True).remarks) == ["lab/x", "z"]
    assert truncated(leaderboard([store], suite="public").remarks) == []
    assert truncated(compare_all_models([store], ["y", "z"]).remarks) == ["z"]
    site = Site(stores=[store])
    for benchmark, expected in {"long_qa": ["lab/x", "z"], "pubmed_qa": []}.items():
        assert truncated(board_of(site, BoardSelection(benchmark=benchmark)).remarks) == expected


def test_suites_by_group_take_own_benchmarks_of_the_category(store: Path, tmp_path: Path) -> None:
    place = Taxonomy(category="clinical_decision_support", subcategory="s")
    make_store(tmp_path / "other", {"own_qa": {"x": GOOD, "y": BAD}, "medec": {"x": GOOD, "y": BAD}}, taxonomy=place)
    board = leaderboard([tmp_path / "other"], suite="clinical_decision_support")
    assert [column.benchmark for column in board.columns] == ["medec", "own_qa"]
    public = face.leaderboard([store], suite="public", resample="benchmarks", shared=True)
    assert ([column.benchmark for column in public.columns], public.interval_method) == (["pubmed_qa"], "benchmarks")
    with pytest.raises(UserError, match="neither `all`"):
        leaderboard([store], suite="publick")


def test_a_file_may_name_what_is_in_the_store_or_in_a_catalogue(store: Path, tmp_path: Path) -> None:
    suite = tmp_path / "ours.txt"
    suite.write_text("own_qa\nhealthbench\nmed_qa\n", "utf-8")
    board = leaderboard([store], suite=str(suite))
    assert [column.benchmark for column in board.columns] == ["own_qa"]
    assert "2 of 3 requested benchmarks have no result: healthbench and med_qa." in texts(board.remarks)
    suite.write_text("own_q\n", "utf-8")
    with pytest.raises(ConfigError, match=r"unknown benchmark `own_q`\. Did you mean `own_qa`"):
        leaderboard([store], suite=str(suite))


def test_benchmarks_of_the_suite_come_first_in_its_order() -> None:
    first, second = (entry.name for entry in load_suite()[:2])
    assert sorted(["zz", "aa", second, first], key=suite_sort_key) == [first, second, "aa", "zz"]


def test_without_resampling_no_records_are_read(store: Path) -> None:
    full = leaderboard([store])
    for file in store.glob("runs/*/*/records.parquet"):
        file.unlink()
    board = leaderboard([store], resample="none")
    assert (board.interval_method, rates(board)) == ("nothing", rates(full))
    assert (full.ranked_by, board.ranked_by) == ("macro average", "win rate")
    assert places(board) == {"x": 1, "y": 2, "z": 3}
    assert all(row.rank_low is None and row.tie_group is None for row in board.rows)
    with pytest.warns(DamagedRunWarning, match="missing or damaged"), pytest.raises(UserError, match="no finished run"):
        leaderboard([store])


@pytest.mark.parametrize("content", [b"PAR1 not really", None])
def test_run_with_damaged_records_is_left_out(store: Path, content: bytes | None) -> None:
    (file,) = store.glob("runs/own_qa/z-*/records.parquet")
    whole = file.read_bytes()
    file.write_bytes(content or whole[:4] + bytes(len(whole) - 12) + whole[-8:])
    with pytest.warns(DamagedRunWarning, match=r"the run of z on own_qa is left out: .*records\.parquet is"):
        board = leaderboard([store])
    assert {row.model: "own_qa" in row.cells for row in board.rows} == {"x": True, "y": True, "z": False}
    with no_damaged_runs(), pytest.raises(StoreError, match=r"records\.parquet is"):
        leaderboard([store])


def test_unknown_metrics_and_categories_are_reported(tmp_path: Path) -> None:
    unknown: dict[str, Any] = {"main_metric": "bleurt_9", "taxonomy": Taxonomy(category="", subcategory="")}
    make_store(tmp_path / "s", {"foreign": {"x": [0.5, 0.7], "y": [0.1, 0.4]}}, **unknown)
    board = leaderboard([tmp_path / "s"])
    assert (board.columns[0].category, set(board.rows[0].categories)) == (UNKNOWN, {UNKNOWN})
    assert any("bleurt_9 (FOREIGN)" in text for text in texts(board.remarks))
    assert not any("That is wrong" in text for text in texts(board.remarks))
    make_store(tmp_path / "t", {"foreign": {"x": [50, 70], "y": [10, 40]}}, **unknown)
    assert any("That is wrong for " in text for text in texts(leaderboard([tmp_path / "t"]).remarks))


def test_clusters_and_failures_reach_the_board(tmp_path: Path) -> None:
    scores = {"a": {"x": [1.0, None, 1.0, 0.0] * 5, "y": [0.0, 1.0, None, None, 1.0] * 4}}
    make_store(tmp_path / "alone", scores)
    make_store(tmp_path / "groups", scores, clusters=["p"] * 10 + ["q"] * 10)
    alone, groups = (leaderboard([tmp_path / name]) for name in ("alone", "groups"))
    assert {row.model: row.cells["a"].n_failed for row in alone.rows} == {"x": 5, "y": 8}
    assert (alone.mde["a"] or 0) != (groups.mde["a"] or 0)


def test_the_cost_of_a_replayed_model_is_unknown_and_not_zero(tmp_path: Path) -> None:
    """Baselines are free; completions from a file were bought elsewhere."""
    make_store(tmp_path, {"pubmed_qa": {"replay/ours.jsonl": GOOD}}, cost_usd=0.0)
    make_store(tmp_path, {"pubmed_qa": {"openai/y": FAIR, "openai/z": BAD}}, cost_usd=0.02)
    board = leaderboard([tmp_path])
    costs = {row.model: row.usd_per_1000 for row in board.rows}
    assert costs == {"replay/ours.jsonl": None, "openai/y": 1.0, "openai/z": 1.0}
    assert present(board.frontier).unknown_cost == ("replay/ours.jsonl",)


def test_a_store_in_which_everything_failed_says_so(tmp_path: Path) -> None:
    make_store(tmp_path / "s", {name: {"x": [None] * 3, "y": [None] * 3} for name in "ab"})
    board = leaderboard([tmp_path / "s"])
    assert {row.rank for row in board.rows} == {None}
    assert "No model has a corrected score on any benchmark." in texts(board.remarks)
    with pytest.raises(UserError, match="no benchmark has a value for all 2 models"):
        leaderboard([tmp_path / "s"], shared=True)


def test_a_broken_suite_ends_with_two_and_every_line(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("nam: x\nbenchmarks:\n  pubmed_qa: 0\n  own_q: 1\n", "utf-8")
    refused = medhelm("leaderboard", "--store", store, "--suite", "ours.yaml")
    said = ("ours.yaml has 4 problems", "line 1  nam: unknown key", "line 3", "Did you mean `own_qa`?")
    assert_refused(refused, *said)
