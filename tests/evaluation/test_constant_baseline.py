"""What the same answer to every question scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.evaluation.check import majority_baseline
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks import choice as toys


def dataset(place: Path) -> Dataset:
    (benchmark,) = load_benchmarks([str(place)], metrics=METRICS)
    return open_dataset(benchmark, data=None, tier="real")


def test_the_floor_is_the_share_of_the_most_frequent_answer_with_equal_groups_by_the_published_rule(
    tmp_path: Path,
) -> None:
    """Topic 0: five questions, three of them A; topic 1: four questions, three of them A."""
    floor = majority_baseline(dataset(toys.make_benchmark(tmp_path, extra="group: topic\n")))
    assert floor is not None
    assert floor.values == pytest.approx({"published": (3 / 5 + 3 / 4) / 2, "corrected": 6 / 9})
    assert floor.answer == "A"
    assert floor.share == pytest.approx(6 / 9)


def test_answers_that_never_repeat_have_no_floor(tmp_path: Path) -> None:
    place = toys.make_benchmark(tmp_path)
    definition = place / "benchmark.yaml"
    text = definition.read_text(encoding="utf-8").replace("choices: [good, bad]\n", "").replace("  {options}\n", "")
    text = text.replace("answer: {column: answer, form: letter}", "answer: question").replace(", choice_extracted", "")
    definition.write_text(text, encoding="utf-8")
    assert majority_baseline(dataset(place)) is None
