"""HealthBench: repeated criteria, the canary, and the real conversations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.support.benchmarks.library import LIBRARY, hook, prompt_text, real, sample_tier

NAME = "healthbench"
ROWS = [json.loads(line) for line in (LIBRARY / NAME / "sample.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_canary_is_removed() -> None:
    assert all("canary" in row for row in ROWS)
    assert not any("canary" in repr(instance).lower() for instance in sample_tier(NAME))


def test_a_repeated_criterion_is_judged_once_for_the_sum_of_its_points() -> None:
    row = ROWS[0]
    first = row["rubrics"][0]
    (found,) = hook(NAME, [{**row, "rubrics": [first, row["rubrics"][1], {**first, "points": 2}]}])
    criteria = found["criteria"]
    assert isinstance(criteria, list)
    assert [criterion["points"] for criterion in criteria] == [10, 5]


def test_the_real_conversations(data_dir: Path) -> None:
    dataset = real(NAME, "default", data_dir)
    instances = list(dataset)
    assert (dataset.n, dataset.n_skipped) == (104, 0)
    assert Counter(instance.metadata["theme"] for instance in instances) == {"context_seeking": 104}
    assert Counter(bool(instance.references) for instance in instances) == {True: 101, False: 3}
    criteria = [criterion for instance in instances for criterion in instance.criteria]
    tags = Counter(tag for criterion in criteria for tag in criterion.tags)
    assert (tags["axis:accuracy"], tags["axis:context_awareness"], tags["theme:context_seeking"]) == (104, 104, 208)
    for instance in instances:
        assert not any(ideal in prompt_text(NAME, instance) for ideal in instance.correct)
