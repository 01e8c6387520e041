"""Dependence on other models: numbers against a panel do not move, and their intervals contain the truth."""

from __future__ import annotations

import numpy as np
import pytest

from bench.studies.rivals import COVERED, effects_of_each, panel_coverage, published_board, true_shares, win_rate


def test_published_win_rates_depend_on_gpt_4o() -> None:
    """Without GPT-4o or GPT-4o mini the order of two other models is reversed."""
    names, board = published_board()
    dropped, copied = effects_of_each(board, win_rate)
    assert {name for name, found in zip(names, dropped, strict=True) if found.reverses} == {"GPT-4o", "GPT-4o mini"}
    assert sum(found.reverses for found in copied) == 4
    rates = win_rate([np.delete(scores, names.index("GPT-4o"), axis=0) for scores in board], np.zeros(8, dtype=bool))
    left = dict(zip([name for name in names if name != "GPT-4o"], rates, strict=True))
    assert left["o3-mini"] > left["DeepSeek R1"]


@pytest.mark.parametrize("title", list(COVERED)[2:4])
def test_intervals_against_a_panel_contain_the_truth(title: str) -> None:
    """The level is 95%: of 60 leaderboards the mean over models is below 90% one time in 10,000."""
    found = panel_coverage(COVERED[title], true_shares(COVERED[title]), 60)
    assert found.mean >= 0.9
    assert found.lowest >= 0.83
    assert found.against_test == 0
