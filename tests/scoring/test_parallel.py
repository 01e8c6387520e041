"""Scoring on several processes."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import pytest

from medhelm.domain import Completion, Failure, Instance, Reference, Score
from medhelm.scoring import parallel
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.parallel import CHUNK, score_many

NAMES = ["rouge_l", "coverage", "choice_extracted", "bertscore"]


def questions(n: int) -> tuple[list[Instance], list[Completion]]:
    """Instances and completions, all different; one completion in ten failed, one in ten says nothing."""
    instances, completions = [], []
    for number in range(n):
        text = f"Patient {number} denies fever; {number} mg of aspirin were given."
        instances.append(Instance(id=str(number), fields={"note": text}, references=(Reference(text),)))
        completions.append(Completion(text=f"No fever. Patient {number} was given {number} mg." * (number % 7)))
        if number % 10 == 0:
            completions[-1] = Completion(failure=Failure("provider", "timeout", f"no answer within {number} s"))
        if number % 10 == 1:
            completions[-1] = Completion(text="")
    return instances, completions


def one_by_one(instances: list[Instance], completions: list[Completion]) -> list[tuple[Score, ...]]:
    metrics = [METRICS[name] for name in NAMES]
    return [apply(metrics, *pair) for pair in zip(instances, completions, strict=True)]


def test_several_processes_give_what_one_gives_in_the_same_order() -> None:
    instances, completions = questions(2 * CHUNK + 3)
    scores = score_many(NAMES, instances, completions, processes=2)
    assert scores == one_by_one(instances, completions)
    assert len({score[0].value for score in scores}) > 5


class Pool:
    """Stands for the pool of processes: does the work itself, and remembers how many there would be."""

    sizes: ClassVar[list[int]] = []

    def __init__(self, workers: int, **settings: Any) -> None:
        self.sizes.append(workers)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    map = staticmethod(map)


@pytest.mark.parametrize(
    ("n", "processes", "expected"),
    [
        (0, 4, []),
        (1, 4, []),
        (CHUNK, 4, []),
        (CHUNK + 1, 4, [2]),
        (CHUNK * 3, 2, [2]),
        (CHUNK * 3, 1, []),
        (CHUNK * 3, None, [3]),
    ],
)
def test_no_more_processes_than_there_is_work_for(
    n: int, processes: int | None, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(Pool, "sizes", [])
    instances, completions = questions(n)
    assert score_many(NAMES, instances, completions, processes=processes) == one_by_one(instances, completions)
    assert Pool.sizes == expected


def test_without_a_count_of_cores_one_process_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", None)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    instances, completions = questions(CHUNK + 1)
    assert len(score_many(NAMES, instances, completions)) == CHUNK + 1


def test_what_is_asked_must_fit_together() -> None:
    instances, completions = questions(3)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        score_many(NAMES, instances, completions[:2])
    with pytest.raises(KeyError, match="rouge_x"):
        score_many(["rouge_x"], instances, completions)
