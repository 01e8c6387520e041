"""From stores to comparisons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medhelm.analysis.comparison.minimum_detectable_effect import detectable_effects
from medhelm.analysis.comparison.power import PowerDesign
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.errors import ConfigError, UserError
from medhelm.results.comparison import (
    compare_all_models,
    compare_cells,
    compare_models,
    compare_published_models,
    measure_power,
)
from medhelm.results.leaderboard import leaderboard, read_inputs
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.remarks import texts

MODELS = ("baseline/majority", "baseline/random", "baseline/lexical")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """Three baselines on two benchmarks of unequal size."""
    names = [make_benchmark(tmp_path, name=name, n=n) for name, n in (("toy", 40), ("toy_two", 25))]
    models = [part for model in MODELS for part in ("--model", model)]
    assert medhelm("run", *names, *models, "--store", tmp_path / "store").code == 0
    return tmp_path / "store"


def test_every_pair_of_a_store_agrees_with_its_leaderboard(store: Path) -> None:
    found = compare_all_models([store], rule="corrected")
    board = leaderboard([store], rule="corrected")
    macro = {row.model: row.macro_average.value for row in board.rows if row.macro_average}
    shares = {row.model: row.win_share.value for row in board.rows if row.win_share}
    assert found.all_pairs.models == tuple(row.model for row in board.rows)
    assert [column.benchmark for column in found.all_pairs.columns] == [c.benchmark for c in board.columns]
    for pair in found.all_pairs.pairs:
        assert pair.macro_average is not None
        assert pair.win_share is not None
        assert pair.macro_average.difference.value == pytest.approx(macro[pair.first] - macro[pair.second])
        assert pair.win_share.difference.value == pytest.approx(shares[pair.first] - shares[pair.second])
    for name, effects in found.effects.items():
        assert effects.corrected is not None
        assert effects.corrected.value == pytest.approx(board.mde[name])
    assert (found.suite, found.scoring, found.tier) == ("all", "corrected", "real")


def test_both_rules_can_be_compared(store: Path) -> None:
    assert compare_all_models([store], rule="published").scoring == "published"
    pair = compare_models([store], *MODELS[:2], rule="published", adjustment="bh")
    assert pair.adjustment == "bh"


def test_effects_are_those_of_the_cells(store: Path) -> None:
    finished = read_inputs([store], "corrected", None)
    assert dict(compare_all_models([store], rule="corrected").effects) == detectable_effects(
        finished.cells, finished.columns
    )


def test_models_of_two_stores_are_different_models(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    medhelm("run", tmp_path / "toy", "--model", MODELS[0], "--store", tmp_path / "theirs")
    found = compare_models(
        [store, tmp_path / "theirs"], f"{MODELS[0]} [store]", f"{MODELS[0]} [theirs]", rule="corrected"
    )
    assert (found.macro_average.difference.p_value, found.n_benchmarks) == (1, 1)
    assert abs(found.macro_average.difference.value) < 0.01, "equal on what both have; one has more benchmarks"
    assert len(compare_all_models([store, tmp_path / "theirs"], rule="corrected").all_pairs.pairs) == 6


def test_weights_of_a_suite_weigh_the_macro_average(store: Path, tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text("name: mine\nbenchmarks:\n  toy_two: 3\n  toy: 1\n", encoding="utf-8")
    pair = compare_models([store], *MODELS[:2], rule="corrected", suite=str(suite))
    by_name = {one.column.benchmark: one.difference.value for one in pair.benchmarks}
    assert list(by_name) == ["toy_two", "toy"]
    assert pair.macro_average.difference.value == pytest.approx(0.75 * by_name["toy_two"] + 0.25 * by_name["toy"])


def test_a_suite_that_names_nothing_known_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("tyo\n", encoding="utf-8")
    with pytest.raises((UserError, ConfigError)):
        compare_all_models([store], rule="corrected", suite=str(tmp_path / "mine.txt"))
    with pytest.raises(UserError, match=r"no model was run on its benchmarks\. Benchmarks with runs: toy, toy_two"):
        compare_all_models([store], rule="corrected", suite="paper35")


def test_an_unfinished_run_is_named(medhelm: Medhelm, store: Path) -> None:
    for file in store.glob("runs/toy/*random*/run.json"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('"status": "complete"', '"status": "partial"'), encoding="utf-8")
    assert any(
        "toy with baseline/random" in remark for remark in texts(compare_all_models([store], rule="corrected").remarks)
    )


def test_published_models_are_known_by_name() -> None:
    found = compare_published_models(["GPT-4o", "o3-mini", "DeepSeek R1"], suite="paper35")
    assert len(found.all_pairs.pairs) == 3
    assert {pair.unit for pair in found.all_pairs.pairs} == {"benchmarks"}
    assert found.effects == {}
    with pytest.raises(UserError, match="no published results of `GPT-9`"):
        compare_published_models(["GPT-4o", "GPT-9"])


def test_cells_of_any_origin_can_be_compared() -> None:
    generator = np.random.default_rng(1)
    ids = [f"i{i}" for i in range(50)]
    columns = [Column(benchmark="x", title="x", category="c", subcategory="s", metric="m")]
    cells = [
        Cell(model=model, benchmark="x", value=float(scores.mean()), ids=ids, scores=scores)
        for model, scores in zip("ab", generator.random((2, 50)), strict=True)
    ]
    first, again = compare_cells(cells, columns), compare_cells(cells, columns)
    assert first.all_pairs.pairs == again.all_pairs.pairs


def test_power_of_a_store_has_its_benchmarks_and_models(store: Path) -> None:
    found = measure_power([store], rule="corrected", design=PowerDesign(), difference=0.1)
    assert len(found.models) == 3
    assert [one.column.benchmark for one in found.benchmarks] == ["toy", "toy_two"]
    pair = measure_power([store], MODELS[:2], rule="corrected", design=PowerDesign())
    assert set(pair.models) == set(MODELS[:2])
    with pytest.raises(UserError, match="named twice"):
        measure_power([store], [MODELS[0], MODELS[0]], rule="corrected", design=PowerDesign())
    with pytest.raises(UserError, match="Did you mean `baseline/majority`"):
        measure_power([store], ["baseline/majorty", MODELS[0]], rule="corrected", design=PowerDesign())
