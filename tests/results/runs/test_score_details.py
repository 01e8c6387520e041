"""Scores in detail: failures count in subgroups as they do on the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from medhelm.domain import RULES, Completion, Failure, Record, Rule, Score
from medhelm.results.leaderboard import read_inputs
from medhelm.results.options import BoardOptions
from medhelm.results.runs.cells import ScoreDetails, score_details
from tests.support.stores import TIMEOUT, make_record, scored_run, write_run

REFUSAL = Failure("provider", "refusal", "content filter")
"""A failure that the model caused."""

SCORES: Sequence[tuple[str, float | Failure]] = [
    ("young", 1.0), ("young", 1.0), ("young", REFUSAL), ("young", TIMEOUT),
    ("old", 0.0), ("old", 1.0), ("", 1.0),
]  # fmt: skip
"""Subgroup and score of each instance."""


def record(position: int, group: str, score: float | Failure) -> Record:
    failure = score if isinstance(score, Failure) else None
    value = None if isinstance(score, Failure) else score
    return make_record(
        position,
        instance_id=f"i{position}",
        group=group,
        completion=Completion(text=None if failure else "text", failure=failure),
        scores=tuple(Score(metric="exact_match", rule=rule, value=value, failure=failure) for rule in RULES),
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    run = scored_run("toy", "openai/m", [None if isinstance(s, Failure) else s for _, s in SCORES], groups={"old": {}})
    write_run(tmp_path, run, [record(place, *one) for place, one in enumerate(SCORES)])
    return tmp_path


def details(store: Path, rule: Rule = "corrected", *, with_subgroups: bool = True) -> ScoreDetails:
    inputs = read_inputs([store], BoardOptions(rule=rule))
    ((_, found),) = score_details(list(inputs.runs.values()), inputs.columns[0], rule, with_subgroups=with_subgroups)
    return found


def test_single_scores_are_in_order_with_nan_for_failures(store: Path) -> None:
    np.testing.assert_array_equal(details(store).values, [1, 1, np.nan, np.nan, 0, 1, 1])


@pytest.mark.parametrize(("rule", "young", "n"), [("corrected", 2 / 3, 3), ("published", 1.0, 2)])
def test_a_refusal_is_the_worst_answer_by_the_corrected_rule(store: Path, rule: Rule, young: float, n: int) -> None:
    found = details(store, rule).subgroups["young"]
    assert found is not None
    assert found.value == pytest.approx(young)
    assert found.n == n
    assert found.low < found.value <= found.high


def test_instances_without_a_subgroup_are_in_none(store: Path) -> None:
    assert list(details(store).subgroups) == ["old", "young"]


def test_subgroups_are_not_read_where_they_are_not_wanted(store: Path) -> None:
    assert details(store, with_subgroups=False).subgroups == {}
