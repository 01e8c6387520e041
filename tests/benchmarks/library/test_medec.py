"""Medec: rows of another shape, and the baselines that are known on the real notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.library import hook, real

FLAG, SENTENCE = METRICS["medec_flag_accuracy"], METRICS["medec_sentence_accuracy"]


def test_a_row_with_another_flag_is_named() -> None:
    entry = {"Text ID": "t-9", "Sentences": "0 She coughs.", "Error Flag": "yes"}
    with pytest.raises(DataError, match="t-9: Error Flag must be 0 or 1, not 'yes'"):
        hook("medec", [entry])


@pytest.fixture(scope="module")
def notes(data_dir: Path) -> list[Instance]:
    """All real notes."""
    return list(real("medec", "default", data_dir))


def test_most_real_cases_occur_twice(notes: list[Instance]) -> None:
    sizes = Counter(Counter(note.cluster for note in notes).values())
    assert sizes == {2: 280, 1: 37}


@pytest.mark.parametrize(
    ("reply", "flag", "sentence", "flag_published", "sentence_published"),
    [
        (lambda note: note.expected, 597, 597, 597, 286),
        (lambda note: "error", 311, 0, 311, 0),
        pytest.param(lambda note: "", 0, 0, 311, 0, marks=pytest.mark.long),
        pytest.param(lambda note: "CORRECT", 286, 286, 286, 286, marks=pytest.mark.long),
        pytest.param(
            lambda note: f"<think>CORRECT?</think>\n{note.expected}", 597, 597, 311, 0, marks=pytest.mark.long
        ),
        pytest.param(lambda note: note.fields["note"], 0, 0, 311, 0, marks=pytest.mark.long),
    ],
    ids=["gold", "error", "blank", "correct", "reasoning", "echo"],
)
def test_completions_for_all_real_notes_have_the_known_scores(
    notes: list[Instance],
    reply: Callable[[Instance], str],
    flag: int,
    sentence: int,
    flag_published: int,
    sentence_published: int,
) -> None:
    """Always "error" is the published 0.521; the reference itself gets 286 of 597 sentences by the published rule."""
    rules = (FLAG.corrected, SENTENCE.corrected, FLAG.function("published"), SENTENCE.function("published"))
    found = [sum(rule(reply(note), note) for note in notes) for rule in rules]
    assert found == [flag, sentence, flag_published, sentence_published]


def test_another_sentence_than_the_wrong_one_is_not_right(notes: list[Instance]) -> None:
    for note in notes:
        if note.expected != "CORRECT":
            number, _, text = note.expected.partition(" ")
            reply = f"{int(number) + 1} {text}"
            assert (FLAG.corrected(reply, note), SENTENCE.corrected(reply, note)) == (1, 0)
            assert f"the error is in sentence {number}" in SENTENCE.explain(reply, note, "corrected")
