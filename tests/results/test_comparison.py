"""From stores to comparisons."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from medhelm.analysis.comparison.power import PowerDesign, detectable_effects
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.errors import ConfigError, UserError
from medhelm.results.comparison import (
    compare_all_models,
    compare_cells,
    compare_models,
    compare_published_models,
    measure_power,
    pairs_as_json,
)
from medhelm.results.leaderboard import leaderboard, read_inputs
from medhelm.results.options import BoardOptions
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.choice import rows as toy_rows
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
    found = compare_all_models([store])
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


def board_cells(generator: np.random.Generator, chances: list[float], n: int, benchmarks: int) -> list[Cell]:
    """Right-or-wrong scores of models that are right this often, on some benchmarks of n questions."""
    ids = [f"i{i}" for i in range(n)]
    return [
        Cell(model=f"m{i}", benchmark=f"b{b}", value=float(scores.mean()), ids=ids, scores=scores)
        for b in range(benchmarks)
        for i, chance in enumerate(chances)
        for scores in [(generator.random(n) < chance).astype(float)]
    ]


def board_columns(n: int) -> list[Column]:
    return [Column(benchmark=f"b{b}", title=f"b{b}", category="c", subcategory="s", metric="m") for b in range(n)]


def write_models(folder: Path, benchmarks: dict[str, int]) -> list[str]:
    """Write replies of five models that get 40 to 80% right, and return the names of the models."""
    generator = np.random.default_rng(11)
    names = []
    for name, share in zip("abcde", (0.4, 0.55, 0.6, 0.65, 0.8), strict=True):
        lines = []
        for benchmark, n in benchmarks.items():
            for row in toy_rows(n):
                letter = row["answer"] if generator.random() < share else "AB"[row["answer"] == "A"]
                lines.append(json.dumps({"benchmark": benchmark, "instance_id": row["id"], "completion": letter}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        names.append(f"replay/{name}.jsonl")
    return names


def test_every_subset_of_names_has_the_p_values_of_the_leaderboard(medhelm: Medhelm, tmp_path: Path) -> None:
    """Who is named decides what is shown, not what is tested. Named baselines do not change the tests of models."""
    names = [make_benchmark(tmp_path, name=name, n=n) for name, n in (("toy", 40), ("toy_two", 30))]
    models = write_models(tmp_path, {"toy": 40, "toy_two": 30})
    options = [part for model in [*models, *MODELS[:2]] for part in ("--model", model)]
    assert medhelm("run", *names, *options, "--store", tmp_path / "store").code == 0
    stores = ["--store", tmp_path / "store"]
    p_of: dict[frozenset[str], tuple[float, float, bool]] = {}
    for flags in ((), ("--rank-baselines",)):
        for pair in medhelm("leaderboard", *stores, *flags, "--json").json["pairs"]:
            key = frozenset((pair["a"], pair["b"]))
            p_of.setdefault(key, (abs(pair["difference"]), pair["p_adjusted"], pair["separated"]))
    assert len(p_of) == 7 * 6 // 2
    subsets = [list(one) for size in (2, 3, 4, 7) for one in combinations([*models, *MODELS[:2]], size)]
    for subset in subsets:
        found = medhelm("compare", *subset, *stores, "--json").json
        pairs = found["pairs"] if len(subset) > 2 else [found]
        assert len(pairs) == len(subset) * (len(subset) - 1) // 2
        for pair in pairs:
            test = pair["win_share"]
            p = test["p_holm"] if len(subset) > 2 else test["p_adjusted"]
            is_separated = pair["separated"] if len(subset) > 2 else test["separated"]
            expected = p_of[frozenset((pair["first"], pair["second"]))]
            assert (abs(test["difference"]), p, is_separated) == expected, subset
    # On single benchmarks, too, two names have the numbers of all.
    every = {
        frozenset((one["first"], one["second"])): one for one in medhelm("compare", *stores, "--json").json["pairs"]
    }
    two = medhelm("compare", models[0], models[3], *stores, "--json").json
    among = every[frozenset(models[i] for i in (0, 3))]["benchmarks"]
    assert {one["id"]: one["p_adjusted_all_pairs"] for one in two["benchmarks"]} == {
        name: test["p_holm"] for name, test in among.items()
    }
    assert all(one["p_adjusted"] <= one["p_adjusted_all_pairs"] for one in two["benchmarks"])


def test_a_filter_compares_as_the_leaderboard_with_the_same_filter(medhelm: Medhelm, tmp_path: Path) -> None:
    name = make_benchmark(tmp_path, name="toy", n=40)
    models = write_models(tmp_path, {"toy": 40})
    run = medhelm(
        "run", name, *(part for model in models for part in ("--model", model)), "--store", tmp_path / "store"
    )
    assert run.code == 0
    chosen = ["--store", tmp_path / "store", "--exclude", models[1], "--json"]
    board = {(one["a"], one["b"]): one["p_adjusted"] for one in medhelm("leaderboard", *chosen).json["pairs"]}
    pairs = medhelm("compare", "--all", *chosen).json["pairs"]
    assert {(one["first"], one["second"]): one["win_share"]["p_holm"] for one in pairs} == board
    assert medhelm("compare", *models[2:], *chosen).json["n_models"] == 4


def findings(chosen: list[int], *, n_models: int, n: int, benchmarks: int, boards: int, seed: int) -> float:
    """Share of boards of equal models on which a comparison of the models at these ranks finds a difference."""
    generator = np.random.default_rng(seed)
    columns, found = board_columns(benchmarks), 0
    for _ in range(boards):
        cells = board_cells(generator, [0.7] * n_models, n, benchmarks)
        ranks = compare_cells(cells, columns).models
        shown = compare_cells(cells, columns, names=[ranks[i] for i in chosen])
        found += any(pair["separated"] for pair in pairs_as_json(shown)["pairs"])
    return found / boards


def test_naming_the_best_and_the_worst_of_equal_models_finds_no_difference_more_often() -> None:
    """Tested among themselves only, they differed on about a quarter of these boards."""
    assert findings([0, 4, 8], n_models=9, n=100, benchmarks=3, boards=60, seed=1) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize(("n_models", "n", "benchmarks"), [(9, 100, 3), (20, 100, 3), (9, 50, 12)])
def test_naming_models_of_a_board_keeps_the_family_wise_error(n_models: int, n: int, benchmarks: int) -> None:
    chosen = [0, n_models // 2, n_models - 1]
    assert findings(chosen, n_models=n_models, n=n, benchmarks=benchmarks, boards=400, seed=2) <= 0.05 + 3 * 0.011


def test_both_rules_can_be_compared(store: Path) -> None:
    assert compare_all_models([store], options=BoardOptions(rule="published")).scoring == "published"
    pair = compare_models([store], *MODELS[:2], options=BoardOptions(rule="published"), adjustment="bh")
    assert pair.adjustment == "bh"


def test_effects_are_those_of_the_cells(store: Path) -> None:
    finished = read_inputs([store])
    assert dict(compare_all_models([store]).effects) == detectable_effects(finished.cells, finished.columns)


def test_models_of_two_stores_are_different_models(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    medhelm("run", tmp_path / "toy", "--model", MODELS[0], "--store", tmp_path / "theirs")
    found = compare_models([store, tmp_path / "theirs"], f"{MODELS[0]} [store]", f"{MODELS[0]} [theirs]")
    assert (found.macro_average.difference.p_value, found.n_benchmarks) == (1, 1)
    assert abs(found.macro_average.difference.value) < 0.01, "equal on what both have; one has more benchmarks"
    assert len(compare_all_models([store, tmp_path / "theirs"]).all_pairs.pairs) == 6


def test_weights_of_a_suite_weigh_the_macro_average(store: Path, tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text("name: mine\nbenchmarks:\n  toy_two: 3\n  toy: 1\n", encoding="utf-8")
    pair = compare_models([store], *MODELS[:2], options=BoardOptions(suite=suite))
    by_name = {one.column.benchmark: one.difference.value for one in pair.benchmarks}
    assert list(by_name) == ["toy_two", "toy"]
    assert pair.macro_average.difference.value == pytest.approx(0.75 * by_name["toy_two"] + 0.25 * by_name["toy"])


def test_a_suite_that_names_nothing_known_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("tyo\n", encoding="utf-8")
    with pytest.raises((UserError, ConfigError)):
        compare_all_models([store], options=BoardOptions(suite=tmp_path / "mine.txt"))
    with pytest.raises(UserError, match=r"no model was run on its benchmarks\. Benchmarks with runs: toy, toy_two"):
        compare_all_models([store], options=BoardOptions(suite="paper35"))


def test_an_unfinished_run_is_named(medhelm: Medhelm, store: Path) -> None:
    for file in store.glob("runs/toy/*random*/run.json"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('"status": "complete"', '"status": "partial"'), encoding="utf-8")
    assert any("toy with baseline/random" in remark for remark in texts(compare_all_models([store]).remarks))


def test_published_models_are_known_by_name() -> None:
    found = compare_published_models(["GPT-4o", "o3-mini", "DeepSeek R1"], suite="paper35")
    assert (found.models, len(found.pairs)) == (("DeepSeek R1", "o3-mini", "GPT-4o"), 3)
    assert {pair.unit for pair in found.pairs} == {"benchmarks"}
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
    found = measure_power([store], design=PowerDesign(), difference=0.1)
    assert len(found.models) == 3
    assert [one.column.benchmark for one in found.benchmarks] == ["toy", "toy_two"]
    pair = measure_power([store], MODELS[:2], design=PowerDesign())
    assert set(pair.models) == set(MODELS[:2])
    with pytest.raises(UserError, match="named twice"):
        measure_power([store], [MODELS[0], MODELS[0]], design=PowerDesign())
    with pytest.raises(UserError, match="Did you mean `baseline/majority`"):
        measure_power([store], ["baseline/majorty", MODELS[0]], design=PowerDesign())
