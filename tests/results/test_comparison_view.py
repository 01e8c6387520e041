"""Verdicts on two and on several models in words."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.analysis.comparison.pairs import ComparedPairs, compare_two_models
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.results.comparison import compare_cells, in_words, pairs_to_table, pairs_verdict, verdict
from medhelm.results.formats.fields import probability
from medhelm.results.formats.tables import p_text
from tests.support.leaderboards import plain_columns, score_cell, score_cells


def compared(chances: list[float], n: int = 100, benchmarks: int = 2) -> ComparedPairs:
    """Models that are right this often, named by their place."""
    rights = np.random.default_rng(3).random((benchmarks, len(chances), n)) < np.array(chances)[:, None]
    cells = [cell for b, scores in enumerate(rights.astype(float)) for cell in score_cells(f"b{b}", scores)]
    return compare_cells(cells, plain_columns(*(f"b{b}" for b in range(benchmarks))))


def cells_of(scores: dict[str, list[list[float]]]) -> tuple[list[Cell], list[Column]]:
    """Cells of models with these scores on each benchmark; nan is missing."""
    cells = [score_cell(model, f"b{b}", row) for model, rows in scores.items() for b, row in enumerate(rows)]
    return cells, plain_columns(*(f"b{b}" for b in range(len(next(iter(scores.values()))))))


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"m0": [[1.0] * 30], "m1": [[0.0] * 30]}, "m0 is significantly better than m1 (p <0.0001)."),
        ({"m0": [[0.0] * 30], "m1": [[1.0] * 30]}, "m1 is significantly better than m0 (p <0.0001)."),
        ({"m0": [[1.0, 0.0] * 15], "m1": [[0.0, 1.0] * 15]}, "m0 and m1 cannot be separated (p >0.99)."),
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


@pytest.mark.parametrize(
    ("p", "text", "for_json"), [(0.04, "0.0400", 0.04), (3.21987e-9, "<0.0001", 3.22e-9), (None, None, None)]
)
def test_p_values_are_never_written_as_zero(p: float | None, text: str | None, for_json: float | None) -> None:
    assert (p_text(p), probability(p)) == (text, for_json)


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
    alike = [cell for b in range(14) for cell in score_cells(f"b{b}", [np.arange(60.0) % 2] * 2)]
    cells = [*alike, *score_cells("b14", [np.ones(60), np.zeros(60)])]
    words = in_words(compare_cells(cells, plain_columns(*(f"b{b}" for b in range(15)))))
    assert words[0] == "1 of 15 differences on single benchmarks is significant (Holm)."
    (named,) = [sentence for sentence in words if "without a significant difference" in sentence]
    assert named.startswith("Benchmarks without a significant difference: b0, b1, ")
    assert named.endswith("b11 and 2 more.")


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
