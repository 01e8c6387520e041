"""Leaderboards with the published results: alone they give the published tables, beside own runs they say more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medhelm as face
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.errors import UserError
from medhelm.extensions.paper.write import published_costs
from medhelm.results.leaderboard import read_inputs, suite_of
from medhelm.results.options import BoardOptions
from medhelm.results.published.boards import (
    common_benchmarks,
    leaderboard_with_published,
    load_results,
    published_leaderboard,
    same_model_remarks,
)
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.stores import add_judged_runs, grades

JURY = ("openai/gpt-4o-2024-05-13", "anthropic/claude-3-7-sonnet-20250219", "together/Llama-3.3-70B-Instruct")
NAMES = [model.name for model in load_results().models.values()]


def row_of(board: Leaderboard, name: str) -> Row:
    (found,) = [row for row in board.all_rows if row.model == name]
    return found


def told(board: Leaderboard, start: str) -> str:
    """The one warning that starts so."""
    (found,) = [warning for warning in texts(board.remarks) if warning.startswith(start)]
    return found


def silent(board: Leaderboard, start: str) -> bool:
    return not any(warning.startswith(start) for warning in texts(board.remarks))


def test_published_results_alone_give_the_published_tables() -> None:
    board = published_leaderboard(suite="paper35")
    assert (len(board.rows), len(board.columns), board.scoring, board.suite) == (9, 35, "published", "paper35")
    assert all(row.published and row.coverage == 1 for row in board.rows)
    costs = {row.model: row.cost_usd for row in board.rows}
    assert costs == {row.model: pytest.approx(row.ceiling_usd, abs=1e-9) for row in published_costs("paper35")}
    assert all(row.win_rate and row.win_rate.low is None for row in published_leaderboard(resample="none").rows)


def test_known_errors_in_published_results_are_reported() -> None:
    said = " ".join(texts(published_leaderboard(suite="paper35").remarks))
    for words in ("ceilings, not bills", "427 instances, the other models on 78", "0.636, and is 0.63"):
        assert words in said, words
    assert "0.636" not in " ".join(texts(published_leaderboard().remarks)), "only on the benchmarks of the paper"


def test_published_results_alone_refuse_other_rules_and_tiers() -> None:
    with pytest.raises(UserError, match=r"--scoring corrected: .* by the published rule"):
        published_leaderboard(rule="corrected")
    with pytest.raises(UserError, match="--tier sample: published results are on real data"):
        published_leaderboard(tier="sample")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two baselines on toys that go by the names of two published benchmarks, and on one that was never published."""
    folder = tmp_path_factory.mktemp("made")
    names = ("pubmed_qa", "med_qa", "toy")
    benchmarks = [face.load_benchmark(str(make_benchmark(folder, name=name, n=30))) for name in names]
    models = face.find_models(["baseline/majority", "baseline/random"])
    face.evaluate(benchmarks, models, store=folder / "store")
    return folder / "store"


@pytest.fixture
def store(made_once: Path, tmp_path: Path) -> Path:
    """A copy of that store, for a test to change."""
    return Path(shutil.copytree(made_once, tmp_path / "store"))


def change(store: Path, pattern: str, **content: Any) -> None:
    """Other content in the run files of some runs."""
    files = list(store.glob(f"runs/{pattern}/run.json"))
    assert files
    for file in files:
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | content), encoding="utf-8")


def test_beside_own_runs_only_common_benchmarks_count(store: Path) -> None:
    board = leaderboard_with_published([store])
    assert [column.benchmark for column in board.columns] == ["med_qa", "pubmed_qa"]
    assert {row.model for row in board.rows} == set(NAMES), "baselines do not compete"
    assert {row.model for row in board.baselines} == {"baseline/majority", "baseline/random"}
    assert (board.scoring, board.tier, board.interval_method) == ("published", "real", "benchmarks")
    assert "2 of 37 published benchmarks also have results of your own; 35 do not" in told(board, "Published models")
    assert told(board, "Left out") == "Left out, because results are not published: toy."
    theirs = row_of(board, "GPT-4o").cells["pubmed_qa"]
    assert (theirs.value, theirs.scores, theirs.n) == (0.701, None, 1000)
    own = {(row.model, name): cell.value for row in board.baselines for name, cell in row.cells.items()}
    by_the_same_rule = read_inputs([store], BoardOptions(rule="published")).cells
    assert own == {(cell.model, cell.benchmark): cell.value for cell in by_the_same_rule if cell.benchmark != "toy"}
    assert own["baseline/majority", "pubmed_qa"] == pytest.approx(20 / 30)


def test_differences_from_published_runs_are_reported_and_equal_conditions_are_not(store: Path) -> None:
    board = leaderboard_with_published([store])
    assert told(board, "Prompts differ").startswith("Prompts differ: your own runs word the same tasks differently")
    assert "med_qa 30 (published: 503) and pubmed_qa 30 (published: 1,000)" in told(board, "Instances differ")
    assert "med_qa and pubmed_qa" in told(board, "The benchmark definition is not the built-in one")
    assert "The limit on completions differs" in told(board, "The limit")
    assert "the two are not compared" in told(board, "Published costs are ceilings")
    change(store, "pubmed_qa/*", settings={"seed": 7})
    change(store, "med_qa/*", settings={"sample": "all"})
    change(store, "pubmed_qa/*majority*", n_failed=2)
    board = leaderboard_with_published([store])
    assert "published one: med_qa and pubmed_qa" in told(board, "The selection of instances differs")
    assert told(board, "2 instances of your own runs have no completion")
    change(store, "pubmed_qa/*", n=1000, settings={"max_tokens": 1, "seed": 0, "sample": "default"})
    change(store, "med_qa/*", n=503, settings={"max_tokens": 4000})
    board = leaderboard_with_published([store])
    for start in ("Instances differ", "The limit", "The selection of instances differs"):
        assert silent(board, start), start


def test_prompts_of_the_reference_compare_more_strictly_than_those_of_others(store: Path) -> None:
    origin = {"harness": "helm", "version": "0.5", "run": "med_qa:model=x", "sha256": "0" * 64, "asked_here": True}
    change(store, "med_qa/*majority*", origin=origin)
    board = leaderboard_with_published([store])
    assert not silent(board, "Prompts differ")
    said = told(board, "Prompts of the reference implementation")
    assert "med_qa with baseline/majority; these are more comparable than the rest" in said
    change(store, "*/*", origin={**origin, "asked_here": False})
    board = leaderboard_with_published([store])
    assert silent(board, "Prompts differ")
    assert silent(board, "The benchmark definition"), "imported runs are not held to our data"
    assert "more comparable" not in told(board, "Prompts of the reference implementation")
    change(store, "*/*", origin={**origin, "harness": "inspect", "asked_here": False})
    board = leaderboard_with_published([store])
    assert silent(board, "Prompts of the reference")
    assert "med_qa with baseline/majority" in told(board, "Prompts of another harness")


def test_data_without_a_public_copy_cannot_be_known_to_be_the_same(store: Path) -> None:
    (built_in,) = load_benchmarks(["adhd_behavior"], metrics=METRIC_NAMES)
    change(store, "med_qa/*", benchmark="adhd_behavior", title="ADHD-Behavior", benchmark_digest=built_in.digest)
    said = told(leaderboard_with_published([store]), "The published data has no public copy")
    assert said.endswith("compare with: ADHD-Behavior.")


def test_ones_own_run_of_a_published_model_is_a_row_of_its_own(store: Path) -> None:
    (file,) = store.glob("runs/pubmed_qa/*majority*/run.json")
    reached = json.loads(file.read_text(encoding="utf-8"))["reached"]
    reached |= {"name": "ward-gpt", "provider": "openai", "remote_name": "GPT-4o-2024-05-13", "price": None}
    for benchmark in ("pubmed_qa", "med_qa"):
        change(store, f"{benchmark}/*majority*", model="GPT-4o", reached=reached)
    board = leaderboard_with_published([store])
    assert not row_of(board, "GPT-4o").published
    assert row_of(board, "GPT-4o [published]").published
    said = told(board, "GPT-4o is the model published as GPT-4o")
    gap = np.mean([20 / 30 - 0.701, 20 / 30 - 0.877])
    assert f"On 2 benchmarks its own results differ from the published ones by {gap:+.3f} on average" in said
    finished = read_inputs([store], BoardOptions(rule="published"))
    common = common_benchmarks(finished, suite_of(BoardOptions(), finished.columns))
    lacking = [cell for cell in common.published if cell.benchmark != "med_qa"]
    (remark,) = same_model_remarks(common.own, lacking, common.columns, finished.runs)
    assert f"On 1 benchmark its own results differ from the published ones by {20 / 30 - 0.701:+.3f}" in remark.text


def test_a_benchmark_that_goes_by_another_metric_is_left_out(store: Path) -> None:
    change(store, "med_qa/*", main_metric="quasi_exact_match")
    board = leaderboard_with_published([store])
    assert [column.benchmark for column in board.columns] == ["pubmed_qa"]
    said = told(board, "Left out, because own")
    assert "MedQA (own: quasi_exact_match on 0 to 1, published: exact_match on 0 to 1)" in said
    assert "1 of 37 published benchmarks also have results of your own; 35 do not" in told(board, "Published models")


def test_what_cannot_be_compared_with_published_ones_is_refused(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Leave out --scoring"):
        leaderboard_with_published([store], rule="corrected")
    sample = ("--model", "baseline/majority", "--tier", "sample", "--store", tmp_path / "sample")
    medhelm("run", make_benchmark(tmp_path, name="pubmed_qa"), *sample)
    with pytest.raises(UserError, match="sample rows only, which are invented"):
        leaderboard_with_published([tmp_path / "sample"])
    shutil.rmtree(store / "runs" / "med_qa")
    shutil.rmtree(store / "runs" / "pubmed_qa")
    with pytest.raises(UserError, match="no benchmark has both own and published results"):
        leaderboard_with_published([store])


def jury_store(folder: Path, judges: tuple[str, ...] = JURY, **changes: Any) -> Path:
    models = ("local/one", "local/two")
    table = grades(1, 12, models, judges)
    add_judged_runs(folder, "aci_bench", table, models=models, judges=judges, title="ACI-Bench", **changes)
    return folder


def test_another_jury_is_reported(tmp_path: Path) -> None:
    board = leaderboard_with_published([jury_store(tmp_path / "mine", ("local/a", "local/b", "local/c"))])
    said = told(board, "ACI-Bench had another jury")
    assert "local/a, local/b and local/c instead of Claude 3.7 Sonnet, GPT-4o and Llama 3.3 70B" in said
    assert board.columns[0].judges == ("local/a", "local/b", "local/c")
    assert row_of(board, "GPT-4o").cells["aci_bench"].value == 4.512
    # The published jury is known by the names that its servers give it.
    assert silent(leaderboard_with_published([jury_store(tmp_path / "theirs")]), "ACI-Bench had another jury")


def test_runs_on_pinned_data_have_no_remark_on_data(medhelm: Medhelm, data_dir: Path, tmp_path: Path) -> None:
    command = ["run", "medbullets", "--model", "baseline/majority", "--data", data_dir, "--store", tmp_path / "mine"]
    assert medhelm(*command).code == 0
    board = leaderboard_with_published([tmp_path / "mine"])
    for start in ("The benchmark definition", "Whether the data", "Instances differ", "The selection", "The limit"):
        assert silent(board, start), start
    assert row_of(board, "baseline/majority").cells["medbullets"].value == pytest.approx(0.240, abs=0.02)
