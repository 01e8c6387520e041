"""From stores to comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import rank_models
from medhelm.domain import RULES, Rule
from medhelm.results.comparison import compare_all_models, compare_cells
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import BoardOptions
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.choice import rows as toy_rows
from tests.support.cli import Medhelm
from tests.support.leaderboards import plain_columns, score_cells
from tests.support.values import present

MODELS = ("baseline/majority", "baseline/random", "baseline/lexical")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """Three baselines on two benchmarks of unequal size."""
    names = [make_benchmark(tmp_path, name=name, n=n) for name, n in (("toy", 40), ("toy_two", 25))]
    models = [part for model in MODELS for part in ("--model", model)]
    assert medhelm("run", *names, *models, "--store", tmp_path / "store").code == 0
    return tmp_path / "store"


@pytest.mark.parametrize("rule", RULES)
def test_every_pair_of_a_store_agrees_with_its_leaderboard(store: Path, rule: Rule) -> None:
    found = compare_all_models([store], options=BoardOptions(rule=rule))
    board = leaderboard([store], rule=rule)
    macro = {row.model: present(row.macro_average).value for row in board.rows}
    shares = {row.model: present(row.win_share).value for row in board.rows}
    assert found.all_pairs.models == tuple(macro)
    assert [column.benchmark for column in found.all_pairs.columns] == [c.benchmark for c in board.columns]
    for pair in found.all_pairs.pairs:
        average, share = present(pair.macro_average).difference, present(pair.win_share).difference
        assert average.value == pytest.approx(macro[pair.first] - macro[pair.second])
        assert share.value == pytest.approx(shares[pair.first] - shares[pair.second])
    for name, effects in found.effects.items():
        assert getattr(effects, rule).value == pytest.approx(board.mde[name])
    assert (found.suite, found.scoring, found.tier) == ("all", rule, "real")


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
    everybody = [*models, *MODELS[:2]]
    stores = ["--store", tmp_path / "store"]
    assert medhelm("run", *names, *(f"--model={model}" for model in everybody), *stores).code == 0
    p_of: dict[frozenset[str], tuple[float, float, bool]] = {}
    for flags in ((), ("--rank-baselines",)):
        for pair in medhelm("leaderboard", *stores, *flags, "--json").json["pairs"]:
            key = frozenset((pair["a"], pair["b"]))
            p_of.setdefault(key, (abs(pair["difference"]), pair["p_adjusted"], pair["separated"]))
    assert len(p_of) == 7 * 6 // 2
    a, b, c, d, e, majority, random = everybody
    for subset in ((a, e), (b, c), (d, majority), (majority, random), (a, c, e), (e, majority, random), everybody):
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
    pairs = medhelm("compare", *stores, "--json").json["pairs"]
    (among,) = [pair["benchmarks"] for pair in pairs if {pair["first"], pair["second"]} == {models[0], models[3]}]
    two = medhelm("compare", models[0], models[3], *stores, "--json").json["benchmarks"]
    assert {one["id"]: one["p_adjusted_all_pairs"] for one in two} == {name: t["p_holm"] for name, t in among.items()}
    assert all(one["p_adjusted"] <= one["p_adjusted_all_pairs"] for one in two)


def findings(chosen: list[int], *, n_models: int, n: int, benchmarks: int, boards: int, seed: int) -> float:
    """Share of boards of equal models on which a comparison of the models at these ranks finds a difference."""
    generator = np.random.default_rng(seed)
    columns, found = plain_columns(*(f"b{b}" for b in range(benchmarks))), 0
    for _ in range(boards):
        answers = (generator.random((benchmarks, n_models, n)) < 0.7).astype(float)
        cells = [cell for b, scores in enumerate(answers) for cell in score_cells(f"b{b}", scores)]
        ranks = rank_models(cells, columns, "corrected")
        shown = compare_cells(cells, columns, names=[ranks[i] for i in chosen])
        found += any(pair.direction("holm") for pair in shown.pairs)
    return found / boards


def test_naming_the_best_and_the_worst_of_equal_models_finds_no_difference_more_often() -> None:
    """Tested among themselves only, they differed on about a quarter of these boards."""
    assert findings([0, 4, 8], n_models=9, n=100, benchmarks=3, boards=30, seed=1) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize(("n_models", "n", "benchmarks"), [(20, 100, 3), (9, 50, 12)])
def test_naming_models_of_a_board_keeps_the_family_wise_error(n_models: int, n: int, benchmarks: int) -> None:
    chosen = [0, n_models // 2, n_models - 1]
    assert findings(chosen, n_models=n_models, n=n, benchmarks=benchmarks, boards=400, seed=2) <= 0.05 + 3 * 0.011
