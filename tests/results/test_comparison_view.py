"""Every pair of models in tables, JSON and words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.comparison.pairs import ComparedPairs, compare_two_models
from medhelm.analysis.comparison.significance import Adjustment
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.errors import UserError
from medhelm.results.comparison import compare_cells, in_words, pairs_as_json, pairs_to_table, pairs_verdict, verdict
from medhelm.results.formats.fields import probability
from medhelm.results.formats.tables import p_text


def column(name: str) -> Column:
    return Column(benchmark=name, title=name.upper(), category="c", subcategory="s", metric="m")


def compared(chances: list[float], n: int = 100, benchmarks: int = 2) -> ComparedPairs:
    """Models that are right this often, named by their place."""
    generator = np.random.default_rng(3)
    cells = []
    for b in range(benchmarks):
        for i, chance in enumerate(chances):
            scores = (generator.random(n) < chance).astype(float)
            ids = [f"i{j}" for j in range(n)]
            cells.append(Cell(model=f"m{i}", benchmark=f"b{b}", value=float(scores.mean()), ids=ids, scores=scores))
    return compare_cells(cells, [column(f"b{b}") for b in range(benchmarks)])


def cells_of(scores: dict[str, list[list[float]]]) -> tuple[list[Cell], list[Column]]:
    """Cells of models with these scores on each benchmark; nan is missing."""
    cells = []
    for model, rows in scores.items():
        for b, row in enumerate(rows):
            own, ids = np.array(row), [f"i{j}" for j in range(len(row))]
            cells.append(Cell(model=model, benchmark=f"b{b}", value=float(np.nanmean(own)), ids=ids, scores=own))
    return cells, [column(f"b{b}") for b in range(len(next(iter(scores.values()))))]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"m0": [[1.0] * 30], "m1": [[0.0] * 30]}, "m0 is significantly better than m1 (p <0.0001)."),
        ({"m0": [[0.0] * 30], "m1": [[1.0] * 30]}, "m1 is significantly better than m0 (p <0.0001)."),
        ({"m0": [[1.0, 0.0] * 15], "m1": [[0.0, 1.0] * 15]}, "m0 and m1 cannot be separated (p = 1.0000)."),
        # 15 answers of m1 are missing: had all been right, the models would be equal.
        (
            {"m0": [[1.0] * 28 + [0.0] * 2], "m1": [[0.0] * 10 + [1.0] * 5 + [np.nan] * 15]},
            "m0 may be better than m1, but not if the missing answers are counted against it (15 questions). Run again "
            "to get them.",
        ),
        # m0 is better by a little on most questions of both benchmarks, and far worse on a few.
        (
            {"m0": [[0.6] * 40 + [0.0] * 20] * 2, "m1": [[0.5] * 40 + [1.0] * 20] * 2},
            "m0 and m1 cannot be separated: m1 has the higher average, m0 the higher win share.",
        ),
    ],
)
def test_the_verdict_of_two_models_is_true(scores: dict[str, list[list[float]]], said: str) -> None:
    found = compare_two_models(*cells_of(scores), "m0", "m1")
    assert found is not None
    assert verdict(found)[0] == said


def published(values: dict[str, list[float]]) -> ComparedPairs:
    cells = [
        Cell(model=model, benchmark=f"b{b}", value=value)
        for model, row in values.items()
        for b, value in enumerate(row)
    ]
    return compare_cells(cells, [column(f"b{b}") for b in range(len(next(iter(values.values()))))])


@pytest.mark.parametrize(
    ("p", "text", "for_json"),
    [(0.04, "0.0400", 0.04), (1.0, "1.0000", 1.0), (0.0001, "0.0001", 0.0001), (3.21987e-9, "<0.0001", 3.22e-9)],
)
def test_p_values_are_never_written_as_zero(p: float, text: str, for_json: float) -> None:
    assert p_text(p) == text
    assert probability(p) == for_json
    assert p_text(None) is None
    assert probability(None) is None


def test_sentences_count_significant_differences() -> None:
    found = compared([0.3, 0.32, 0.95])
    # m2 is far from both, m0 and m1 are alike.
    single, meaning = in_words(found)
    assert single == "4 of 6 differences on single benchmarks are significant (Holm)."
    assert meaning == (
        "A difference counts if swapping the two models' answers at random would rarely produce one as large. It may "
        "still be small."
    )


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ([0.3, 0.32, 0.95], "2 of 3 pairs of models differ significantly (Holm). m2 ranks first and is significantly "
                            "better than every other model."),
        ([0.3, 0.93, 0.95], "2 of 3 pairs of models differ significantly (Holm). m2 ranks first and is significantly "
                            "better than m0, but cannot be separated from m1."),
        ([0.5, 0.5, 0.5], "No two of the 3 models differ significantly."),
    ],
)  # fmt: skip
def test_the_verdict_of_several_models_names_those_that_cannot_be_separated(means: list[float], said: str) -> None:
    assert " ".join(pairs_verdict(compared(means))) == said


def test_benchmarks_without_significant_differences_are_named() -> None:
    words = in_words(differing([0.5] * 14 + [0.95]))
    (named,) = [sentence for sentence in words if "without a significant difference" in sentence]
    assert named.startswith("Benchmarks without a significant difference: B0, B1, ")
    assert named.endswith("B11 and 2 more.")
    assert words[0] == "1 of 15 differences on single benchmarks is significant (Holm)."
    none = in_words(replace(compared([0.5, 0.5, 0.5], n=30, benchmarks=14), adjustment="bh"))
    assert none[0] == "No difference on a single benchmark is significant (Benjamini and Hochberg)."
    assert not any("without a significant difference" in sentence for sentence in none)


def differing(chances: list[float]) -> ComparedPairs:
    """Two models on one benchmark for each of these chances, which are those of one model; the other's are 0.5."""
    generator = np.random.default_rng(3)
    ids = [f"i{j}" for j in range(60)]
    cells = []
    for b, chance in enumerate(chances):
        other = (generator.random(60) < 0.5).astype(float)
        own = other if chance == 0.5 else (generator.random(60) < chance).astype(float)
        for model, scores in (("own", own), ("other", other)):
            cells.append(Cell(model=model, benchmark=f"b{b}", value=float(scores.mean()), ids=ids, scores=scores))
    return compare_cells(cells, [column(f"b{b}") for b in range(len(chances))])


def test_a_named_pair_is_not_said_to_rank_first_among_models_that_are_not_shown() -> None:
    right = {"best": 190, "good": 140, "fair": 136, "poor": 40}
    cells, columns = cells_of({model: [[1.0] * n + [0.0] * (200 - n)] for model, n in right.items()})
    found = compare_cells(cells, columns, names=["good", "fair", "poor"])
    assert found.models == ("good", "fair", "poor")
    assert " ".join(pairs_verdict(found)) == (
        "2 of 3 pairs of models differ significantly (Holm). good ranks highest of these and is significantly better "
        "than poor, but cannot be separated from fair."
    )
    assert "p adjusted for all pairs of 4 models (Holm)" in pairs_to_table(found)


def test_models_that_share_no_benchmark_are_not_called_inseparable() -> None:
    scores = {"good": [1.0] * 40, "poor": [0.0] * 40}
    ids = [f"i{j}" for j in range(40)]
    cells = [Cell(model=m, benchmark="b0", value=own[0], ids=ids, scores=np.array(own)) for m, own in scores.items()]
    alone = np.array([1.0, 0.0] * 20)
    cells.append(Cell(model="alone", benchmark="b1", value=0.5, ids=ids, scores=alone))
    said = " ".join(pairs_verdict(compare_cells(cells, [column("b0"), column("b1")])))
    assert "cannot be separated" not in said
    assert ("good ranks first and is significantly better than poor; it shares no benchmark with alone." in said) or (
        "alone ranks first" in said
    )


def test_without_scores_of_instances_the_resampled_unit_is_named() -> None:
    found = published({"a": [0.9, 0.8, 0.7], "b": [0.1, 0.3, 0.2], "c": [0.5, 0.5, 0.4]})
    (said,) = [sentence for sentence in in_words(found) if "benchmark means instead" in sentence]
    assert said.startswith("Scores of instances are unknown for all pairs")
    content = pairs_as_json(found)
    assert [pair["unit"] for pair in content["pairs"]] == ["benchmarks"] * 3
    assert content["told_apart"]["benchmarks"] == {"n_pairs": 0, "n_unadjusted": 0, "n_adjusted": 0}
    assert content["benchmarks"][0]["mde"] is None


def test_pairs_without_anything_in_common_are_named() -> None:
    scored = compared([0.2, 0.9], benchmarks=1)
    alone = Cell(model="lonely", benchmark="b9", value=0.4)
    cells = [Cell(model=m, benchmark="b0", value=v) for m, v in (("m0", 0.2), ("m1", 0.9))]
    found = compare_cells([*cells, alone], [column("b0"), column("b9")])
    (said,) = [sentence for sentence in in_words(found) if "No benchmark in common" in sentence]
    assert "lonely" in said
    assert "No benchmark in common" not in " ".join(in_words(scored))
    table = pairs_to_table(found)
    assert "–" in table


@pytest.mark.parametrize("adjustment", ["holm", "bh"])
def test_json_names_the_adjustment(adjustment: Adjustment) -> None:
    content = pairs_as_json(replace(compared([0.4, 0.55, 0.6, 0.8], n=60), adjustment=adjustment))
    json.dumps(content, allow_nan=False)
    tests = [test for pair in content["pairs"] for test in pair["benchmarks"].values()]
    assert [test["told_apart"] for test in tests] == [test[f"p_{adjustment}"] <= 0.05 for test in tests]
    assert content["told_apart"]["benchmarks"]["n_adjusted"] == sum(test["told_apart"] for test in tests)
    by_benchmark = sum(one["n_adjusted"] for one in content["benchmarks"])
    assert by_benchmark == content["told_apart"]["benchmarks"]["n_adjusted"]


def test_names_of_models_are_text_in_every_format() -> None:
    values = {"a_b & 50 %": [0.9, 0.8], "<b>|c": [0.1, 0.2]}
    assert r"a\_b \& 50 \%" in pairs_to_table(published(values), format="latex")
    assert r"\<b>\|c" in pairs_to_table(published(values), format="md")


def test_fewer_than_two_models_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="only a has a score"):
        compare_cells([Cell(model="a", benchmark="b0", value=0.3)], [column("b0")])
    with pytest.raises(UserError, match="no model has a score"):
        compare_cells([Cell(model="a", benchmark="b0", value=None)], [column("b0")])
