"""In which order questions are sent, and how many are thought about at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.domain import Benchmark, Instance
from medhelm.evaluation import requests
from medhelm.evaluation.requests import in_request_order
from medhelm.models.prompt_caching import CachePrices
from tests.support.benchmarks.definitions import make_benchmark

RATES = CachePrices(read=0.1, write=1.25)
HEAD = "The patient is well. " * 200


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    return make_benchmark(tmp_path, sample_rows=[{"question": "q", "answer": "a"}])


def instances(*questions: str) -> list[Instance]:
    return [Instance(id=str(n), fields={"question": text}, references=()) for n, text in enumerate(questions)]


def sent(benchmark: Benchmark, questions: list[str], rates: CachePrices | None = RATES) -> list[tuple[int, int]]:
    asked = instances(*questions)
    found = list(in_request_order(benchmark, iter(asked), rates))
    assert all(question.instance is asked[question.position] for question in found)
    return [(question.position, question.shared) for question in found]


QUESTIONS = ["x", HEAD + "1", "y", HEAD + "2"]


def test_without_a_cache_that_saves_nothing_is_looked_at(benchmark: Benchmark) -> None:
    assert sent(benchmark, QUESTIONS, None) == [(n, 0) for n in range(4)]


def test_what_begins_alike_is_sent_together(benchmark: Benchmark) -> None:
    assert sent(benchmark, QUESTIONS) == [(1, 4199), (0, 0), (3, 4199), (2, 0)]


def test_no_more_is_in_memory_than_is_thought_about(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "ORDERED_TOGETHER", 2)
    assert sent(benchmark, QUESTIONS) == [(n, 0) for n in range(4)]
    monkeypatch.setattr(requests, "ORDERED_TOGETHER", 3)
    taken: list[int] = []

    def reading() -> list[Instance]:
        return instances(*QUESTIONS, *QUESTIONS)

    watched = (taken.append(n) or one for n, one in enumerate(reading()))  # type: ignore[func-returns-value]
    next(in_request_order(benchmark, watched, RATES))
    assert taken == [0, 1, 2]


def test_long_questions_are_fewer_at_a_time(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "ORDERED_CHARACTERS", len(HEAD))
    assert sent(benchmark, QUESTIONS) == [(n, 0) for n in range(4)], "the first two are a portion of their own"
    assert sent(benchmark, [HEAD + "1", HEAD + "2"]) == [(0, 0), (1, 0)]
    assert sent(benchmark, []) == []
