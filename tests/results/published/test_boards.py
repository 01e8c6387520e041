"""Leaderboards with the published results: alone they give the published tables, beside own runs they say more."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

import medhelm as face
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Origin, Tier
from medhelm.errors import UserError
from medhelm.extensions.paper.write import published_costs
from medhelm.results.leaderboard import read_inputs
from medhelm.results.options import BoardOptions
from medhelm.results.published.boards import (
    leaderboard_with_published,
    load_results,
    published_cells,
    published_leaderboard,
)
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.stores import add_judged_runs, grades, make_model

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


# --- alone ------------------------------------------------------------------------------------------------------------


def test_published_results_alone_give_the_published_tables() -> None:
    board = published_leaderboard(suite="paper35")
    assert (len(board.rows), len(board.columns), board.scoring, board.suite) == (9, 35, "published", "paper35")
    assert all(row.published and row.coverage == 1 for row in board.rows)
    costs = {row.model: row.cost_usd for row in board.rows}
    assert costs == {row.model: pytest.approx(row.ceiling_usd, abs=1e-9) for row in published_costs("paper35")}
    assert round(sum(cost or 0 for cost in costs.values()), 2) == 11739.07
    best = board.rows[0]
    assert best.win_rate
    assert best.win_rate.sd
    assert best.macro_average
    assert best.macro_average.sd
    assert (best.model, f"{best.win_rate.value:.2f}", f"{best.win_rate.sd:.2f}") == ("DeepSeek R1", "0.66", "0.10")
    assert (f"{best.macro_average.value:.2f}", f"{best.macro_average.sd:.2f}") == ("0.75", "0.22")


def test_all_37_cost_more() -> None:
    board = published_leaderboard()
    assert len(board.columns) == 37
    assert round(sum(row.cost_usd or 0 for row in board.rows), 2) == 11825.97


def test_dropping_a_rival_reverses_win_rates_of_others() -> None:
    """As docs/explanation/method.md says: a win rate depends on who else is on the board."""
    cells, columns = published_cells()

    def rate(dropped: str, model: str) -> float:
        board = build_leaderboard([cell for cell in cells if cell.model != dropped], columns, scoring="published")
        (found,) = [row.win_rate for row in board.rows if row.model == model]
        assert found is not None
        return found.value

    assert rate("", "DeepSeek R1") > rate("", "o3-mini")
    assert rate("GPT-4o", "DeepSeek R1") < rate("GPT-4o", "o3-mini")
    assert rate("GPT-4o mini", "Claude 3.5 Sonnet") < rate("GPT-4o mini", "Claude 3.7 Sonnet")


def test_significant_pairs_are_listed() -> None:
    board = published_leaderboard()
    assert len(board.separated) == 15
    assert sum(pair in board.separated for pair in pairwise(row.model for row in board.rows)) == 0
    assert told(board, "15 of 36 differences").startswith(
        "15 of 36 differences between models are larger than chance explains"
    )
    assert board.interval_method == "benchmarks"
    assert any("reflect the choice of benchmarks" in warning for warning in texts(board.remarks))


def test_the_verdict_names_the_number_that_ranks_and_calls_published_costs_ceilings() -> None:
    leads, *cost = published_leaderboard().verdict
    assert leads.startswith("DeepSeek R1 leads (win rate 0.662), but cannot be separated from o3-mini, ")
    assert cost == [
        "DeepSeek R1 has a cost ceiling of 1,849.85 US dollars.",
        "Of the models that may be as good, Gemini 2.0 Flash has the lowest ceiling (814.83).",
    ]


def test_known_errors_in_published_results_are_reported() -> None:
    board = published_leaderboard(suite="paper35")
    said = " ".join(texts(board.remarks))
    for words in (
        "ceilings, not bills",
        "`lab` and `dosage`",
        "427 instances, the other models on 78",
        "172 instances",
        "omit a third of the tokens",
        "the lowest grade, 1.0",
        "GPT-4o and Llama 3.3 70B, also judged their own completions",
        "1.35 and 5.40",
        "0.636, and is 0.63",
    ):
        assert words in said, words
    assert "0.636" not in " ".join(texts(published_leaderboard().remarks))


def test_a_small_suite_reports_only_its_own_known_errors(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("name: two\nbenchmarks: {pubmed_qa: 3, medec: 1}\n", encoding="utf-8")
    board = published_leaderboard(suite=str(file))
    assert [(c.benchmark, c.weight) for c in board.columns] == [("pubmed_qa", 3.0), ("medec", 1.0)]
    assert silent(board, "Known error")
    best = row_of(board, "o3-mini")
    assert best.macro_average
    assert best.macro_average.value == pytest.approx((3 * 0.743 + 0.687) / 4)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"rule": "corrected"}, r"--scoring corrected: .* by the published rule"),
        ({"tier": "sample"}, "--tier sample: published results are on real data"),
        ({"suite": "paper53"}, "paper53"),
    ],
)
def test_published_results_alone_refuse_other_rules_and_tiers(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        published_leaderboard(**choices)


def test_a_suite_without_any_published_benchmark_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ours.txt"
    file.write_text("healthbench\n", encoding="utf-8")
    with pytest.raises(UserError, match="none of its benchmarks is among the 37"):
        published_leaderboard(suite=str(file))


# --- beside own runs --------------------------------------------------------------------------------------------------


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
    return Path(copytree(made_once, tmp_path / "store"))


def change(store: Path, pattern: str, **content: Any) -> None:
    """Other content in the run files of some runs."""
    files = list(store.glob(f"runs/{pattern}/run.json"))
    assert files
    for file in files:
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | content), encoding="utf-8")


def test_beside_own_runs_only_common_benchmarks_count(store: Path) -> None:
    board = leaderboard_with_published([store])
    assert [column.benchmark for column in board.columns] == ["med_qa", "pubmed_qa"]
    assert {row.model for row in board.rows if row.published} == set(NAMES)
    assert {row.model for row in board.rows} == set(NAMES), "baselines do not compete"
    assert {row.model for row in board.baselines} == {"baseline/majority", "baseline/random"}
    assert (board.scoring, board.tier) == ("published", "real")
    assert "2 of 37 published benchmarks also have results of your own; 35 do not" in told(board, "Rows marked †")
    assert told(board, "Left out") == "Left out, because results are not published: toy."
    own = row_of(board, "baseline/majority").cells["pubmed_qa"]
    assert own.estimate
    assert own.scores is not None
    assert own.estimate.value == own.value == pytest.approx(20 / 30)
    theirs = row_of(board, "GPT-4o").cells["pubmed_qa"]
    assert (theirs.value, theirs.scores, theirs.n) == (0.701, None, 1000)
    assert board.interval_method == "benchmarks"


def test_own_values_follow_the_published_rule(store: Path) -> None:
    finished = read_inputs([store], BoardOptions(rule="published"))
    expected = {(c.model, c.benchmark): c.value for c in finished.cells if c.benchmark != "toy"}
    board = leaderboard_with_published([store])
    found = {(row.model, name): cell.value for row in board.baselines for name, cell in row.cells.items()}
    assert found == expected


def test_win_rates_are_those_of_all_eleven_models_together(store: Path) -> None:
    change(store, "*/*majority*", model="local/one")
    change(store, "*/*random*", model="local/two")
    board = leaderboard_with_published([store])
    assert len(board.rows) == 11
    row = row_of(board, "local/one")
    shares = []
    for name in ("pubmed_qa", "med_qa"):
        mine = row.cells[name].value
        rivals = [r.cells[name].value for r in board.rows if r.model != row.model]
        assert mine is not None
        shares.append(np.mean([0.5 if r == mine else float(mine > (r or 0)) for r in rivals]))
    assert row.win_rate
    assert row.win_rate.value == pytest.approx(float(np.mean(shares)))


def test_differences_from_published_runs_are_reported(store: Path) -> None:
    board = leaderboard_with_published([store])
    assert told(board, "Prompts differ").startswith("Prompts differ: your own runs word the same tasks differently")
    assert "MedQA" not in told(board, "Instances differ")  # the toys' titles are their names
    assert "med_qa 30 (published: 503) and pubmed_qa 30 (published: 1,000)" in told(board, "Instances differ")
    assert "med_qa and pubmed_qa" in told(board, "The benchmark definition is not the built-in one")
    assert "The limit on completions differs" in told(board, "The limit")
    assert "do not compare the two" in told(board, "Published costs are ceilings")


def test_equal_conditions_are_not_reported(store: Path) -> None:
    change(store, "pubmed_qa/*", n=1000, settings={"max_tokens": 1, "seed": 0, "sample": "default"})
    change(store, "med_qa/*", n=503, settings={"max_tokens": 4000})
    board = leaderboard_with_published([store])
    assert silent(board, "Instances differ")
    assert silent(board, "The limit")
    assert silent(board, "The selection of instances differs")
    assert silent(board, "ACI-Bench had another jury")


def test_another_selection_is_reported(store: Path) -> None:
    change(store, "pubmed_qa/*", settings={"seed": 7})
    change(store, "med_qa/*", settings={"sample": "all"})
    board = leaderboard_with_published([store])
    assert "published one: med_qa and pubmed_qa" in told(board, "The selection of instances differs")


def test_the_published_selection_is_offered_if_there_is_one(store: Path) -> None:
    (built_in,) = load_benchmarks(["med_qa"], metrics=METRIC_NAMES)
    change(store, "med_qa/*", benchmark_digest=built_in.digest)
    said = told(leaderboard_with_published([store]), "The selection of instances differs")
    assert "published one: med_qa. Use `medhelm run --sample published`" in said
    change(store, "med_qa/*", settings={"sample": "published"})
    assert silent(leaderboard_with_published([store]), "The selection of instances differs")


def test_runs_in_the_words_of_the_reference_compare_more_strictly(store: Path) -> None:
    origin = {"harness": "helm", "version": "0.5", "run": "med_qa:model=x", "sha256": "0" * 64, "asked_here": True}
    change(store, "med_qa/*majority*", origin=origin)
    board = leaderboard_with_published([store])
    assert not silent(board, "Prompts differ")
    said = told(board, "Prompts of the reference implementation")
    assert "med_qa with baseline/majority; these are more comparable than the rest" in said
    change(store, "*/*", origin=origin)
    board = leaderboard_with_published([store])
    assert silent(board, "Prompts differ")
    assert "more comparable" not in told(board, "Prompts of the reference implementation")


def test_the_words_of_another_harness_are_not_those_of_the_reference(store: Path) -> None:
    origin = {"harness": "inspect", "version": "0.3", "run": "r", "sha256": "0" * 64, "asked_here": False}
    change(store, "med_qa/*", origin=origin)
    board = leaderboard_with_published([store])
    assert silent(board, "Prompts of the reference")
    said = told(board, "Prompts of another harness")
    assert "med_qa with baseline/majority and med_qa with baseline/random" in said


def test_an_imported_run_is_not_held_to_our_data(store: Path) -> None:
    origin = {"harness": "helm", "version": "0.5", "run": "r", "sha256": "0" * 64, "asked_here": False}
    change(store, "*/*", origin=origin)
    assert silent(leaderboard_with_published([store]), "The benchmark definition")


def test_data_without_a_public_copy_cannot_be_known_to_be_the_same(store: Path) -> None:
    (built_in,) = load_benchmarks(["adhd_behavior"], metrics=METRIC_NAMES)
    for file in store.glob("runs/med_qa/*/run.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        changed = {"benchmark": "adhd_behavior", "title": "ADHD-Behavior", "benchmark_digest": built_in.digest}
        file.write_text(json.dumps(content | changed), encoding="utf-8")
    said = told(leaderboard_with_published([store]), "The published data has no public copy")
    assert said.endswith("compare with: ADHD-Behavior.")


def test_two_stores_keep_their_names(store: Path, tmp_path: Path) -> None:
    other = Path(copytree(store, tmp_path / "theirs"))
    change(other, "pubmed_qa/*", n=1000)
    board = leaderboard_with_published([store, other])
    assert {row.model for row in board.baselines} == {
        f"baseline/{name} [{place}]" for name in ("majority", "random") for place in ("store", "theirs")
    }
    assert "pubmed_qa 30 or 1,000 (published: 1,000)" in told(board, "Instances differ")


def test_a_benchmark_without_any_own_score_is_left_out(store: Path) -> None:
    change(store, "med_qa/*", estimates={"corrected": {}, "published": {}})
    board = leaderboard_with_published([store])
    assert [column.benchmark for column in board.columns] == ["pubmed_qa"]
    assert "1 of 37 published benchmarks also have results of your own; 36 do not" in told(board, "Rows marked †")


def test_without_drawing_anything_there_are_no_intervals(store: Path) -> None:
    board = leaderboard_with_published([store], BoardOptions(resample="none"))
    assert all(row.win_rate and row.win_rate.low is None for row in board.rows)
    assert all(row.win_rate and row.win_rate.low is None for row in published_leaderboard(resample="none").rows)


def test_failed_instances_are_reported(store: Path) -> None:
    change(store, "pubmed_qa/*majority*", n_failed=2)
    assert told(leaderboard_with_published([store]), "2 instances of your own runs have no completion")


def test_ones_own_run_of_a_published_model_is_a_row_of_its_own(store: Path) -> None:
    reached = {"name": "ward-gpt", "provider": "openai", "remote_name": "GPT-4o-2024-05-13", "price": None}
    file = next(store.glob("runs/pubmed_qa/*majority*/run.json"))
    content = json.loads(file.read_text(encoding="utf-8"))
    changed = {**content["reached"], **reached}
    for benchmark in ("pubmed_qa", "med_qa"):
        change(store, f"{benchmark}/*majority*", model="GPT-4o", reached=changed)
    board = leaderboard_with_published([store])
    assert not row_of(board, "GPT-4o").published
    assert row_of(board, "GPT-4o [published]").published
    assert len(board.rows) == 10
    said = told(board, "GPT-4o is the model published as GPT-4o")
    gap = np.mean([20 / 30 - 0.701, 20 / 30 - 0.877])
    assert f"On 2 benchmarks its own results differ from the published ones by {gap:+.3f} on average" in said


def test_a_benchmark_that_goes_by_another_metric_is_left_out(store: Path) -> None:
    for file in store.glob("runs/med_qa/*/run.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**content, "main_metric": "quasi_exact_match"}), encoding="utf-8")
    board = leaderboard_with_published([store])
    assert [column.benchmark for column in board.columns] == ["pubmed_qa"]
    assert "different metrics: MedQA (own: quasi_exact_match on 0 to 1, published: exact_match on 0 to 1)" in told(
        board, "Left out, because own"
    )
    assert "1 of 37 published benchmarks also have results of your own; 35 do not" in told(board, "Rows marked †")


def test_a_suite_narrows_the_common_benchmarks(store: Path) -> None:
    board = leaderboard_with_published([store], BoardOptions(suite="paper35"))
    assert [column.benchmark for column in board.columns] == ["pubmed_qa"]
    assert "1 of 35 published benchmarks" in told(board, "Rows marked †")


def test_own_and_published_results_without_a_common_benchmark_are_an_error(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path), "--model", "baseline/majority", "--store", tmp_path / "mine")
    with pytest.raises(UserError, match="no benchmark has both own and published results"):
        leaderboard_with_published([tmp_path / "mine"])


def test_sample_rows_are_not_compared_with_published_results(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path, name="pubmed_qa")
    medhelm("run", place, "--model", "baseline/majority", "--tier", "sample", "--store", tmp_path / "mine")
    choices: tuple[Tier | None, ...] = (None, "sample")
    for tier in choices:
        with pytest.raises(UserError, match="sample rows only, which are invented"):
            leaderboard_with_published([tmp_path / "mine"], BoardOptions(tier=tier))


def test_corrected_scores_are_not_compared_with_published_ones(store: Path) -> None:
    with pytest.raises(UserError, match="Leave out --scoring"):
        leaderboard_with_published([store], rule="corrected")


# --- juries -----------------------------------------------------------------------------------------------------------


def jury_store(folder: Path, judges: tuple[str, ...] = JURY, **changes: Any) -> Path:
    models = ("local/one", "local/two")
    table = grades(1, 12, models, judges)
    add_judged_runs(folder, "aci_bench", table, models=models, judges=judges, title="ACI-Bench", **changes)
    return folder


def test_another_jury_is_reported(tmp_path: Path) -> None:
    board = leaderboard_with_published([jury_store(tmp_path / "mine", ("local/a", "local/b", "local/c"))])
    said = told(board, "ACI-Bench had another jury")
    assert "local/a, local/b and local/c instead of Claude 3.7 Sonnet, GPT-4o and Llama 3.3 70B" in said
    (column,) = board.columns
    assert column.judges == ("local/a", "local/b", "local/c")
    assert row_of(board, "GPT-4o").cells["aci_bench"].value == 4.512


def test_the_published_jury_is_known_by_the_names_its_servers_give_it(tmp_path: Path) -> None:
    board = leaderboard_with_published([jury_store(tmp_path / "mine")])
    assert silent(board, "ACI-Bench had another jury")
    assert {make_model(name).remote_name.lower() for name in JURY} == {
        "gpt-4o-2024-05-13", "claude-3-7-sonnet-20250219", "llama-3.3-70b-instruct",
    }  # fmt: skip


def test_a_jury_on_another_scale_is_not_comparable(tmp_path: Path) -> None:
    folder = jury_store(tmp_path / "mine")
    for file in folder.glob("runs/*/*/run.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        content["sitting"]["high"] = 7
        file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        UserError, match=r"different metrics: ACI-Bench \(own: jury on 1 to 7, published: jury on 1 to 5\)"
    ):
        leaderboard_with_published([folder])


def test_origins_are_read_from_stores_as_they_were_written(tmp_path: Path) -> None:
    origin = Origin(harness="helm", version="", run="aci_bench:model=x", sha256="0" * 64)
    board = leaderboard_with_published([jury_store(tmp_path / "mine", origin=origin)])
    assert "ACI-Bench with local/one and ACI-Bench with local/two" in told(
        board, "Prompts of the reference implementation"
    )


# --- real data --------------------------------------------------------------------------------------------------------


def test_runs_on_pinned_data_have_no_remark_on_data(medhelm: Medhelm, data_dir: Path, tmp_path: Path) -> None:
    command = ["run", "medbullets", "--model", "baseline/majority", "--data", data_dir, "--store", tmp_path / "mine"]
    assert medhelm(*command).code == 0
    board = leaderboard_with_published([tmp_path / "mine"])
    for start in (
        "The benchmark definition",
        "Whether the data",
        "Instances differ",
        "The selection of instances differs",
        "The limit",
    ):
        assert silent(board, start), start
    assert row_of(board, "baseline/majority").cells["medbullets"].value == pytest.approx(0.240, abs=0.02)
