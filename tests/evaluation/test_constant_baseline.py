"""What the same answer to every question scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.evaluation.check import majority_baseline
from medhelm.scoring.metrics import METRICS
from medhelm.storage.runs import read_baseline, write_baseline
from tests.support.benchmarks import choice as toys
from tests.support.cli import Medhelm


def dataset(folder: Path, *, n: int = 9, extra: str = "") -> Dataset:
    place = toys.make_benchmark(folder, n=n, extra=extra)
    (benchmark,) = load_benchmarks([str(place)], metrics=METRICS)
    return open_dataset(benchmark, data=None, tier="real")


def test_the_floor_is_the_share_of_the_most_frequent_answer_with_equal_groups_by_the_published_rule(
    tmp_path: Path,
) -> None:
    """Topic 0: five questions, four of them A; topic 1: four questions, two of them A."""
    floor = majority_baseline(dataset(tmp_path, extra="group: topic\n"))
    answers: dict[str, list[bool]] = {}
    for row in toys.rows(9):
        answers.setdefault(row["topic"], []).append(row["answer"] == "A")
    means = [sum(group) / len(group) for group in answers.values()]
    assert floor is not None
    assert floor.values["published"] == pytest.approx(sum(means) / 2)
    assert floor.values["corrected"] == pytest.approx(6 / 9)
    assert floor.values["published"] != pytest.approx(6 / 9)
    assert floor.answer == "A"
    assert floor.share == pytest.approx(6 / 9)
    for name, one in (("one.json", floor), ("none.json", None)):
        write_baseline(tmp_path / name, one)
        assert read_baseline(tmp_path / name) == one
    assert read_baseline(tmp_path / "absent.json") is None
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert read_baseline(tmp_path / "broken.json") is None


def test_answers_that_never_repeat_have_no_floor(tmp_path: Path) -> None:
    place = toys.make_benchmark(tmp_path)
    definition = place / "benchmark.yaml"
    text = definition.read_text(encoding="utf-8").replace("choices: [good, bad]\n", "").replace("  {options}\n", "")
    text = text.replace("answer: {column: answer, form: letter}", "answer: question").replace(", choice_extracted", "")
    definition.write_text(text, encoding="utf-8")
    (benchmark,) = load_benchmarks([str(place)], metrics=METRICS)
    assert majority_baseline(open_dataset(benchmark, data=None, tier="real")) is None


def test_a_leaderboard_says_where_a_constant_answer_wins(medhelm: Medhelm, tmp_path: Path) -> None:
    place = toys.make_benchmark(tmp_path)
    replies = tmp_path / "weak.jsonl"
    lines = [{"benchmark": "toy", "instance_id": f"q{i}", "completion": "B"} for i in range(9)]
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert medhelm("run", place, "--model", f"replay/{replies}").code == 0
    board = medhelm("leaderboard", "--format", "json").json
    assert (board["benchmarks"][0]["floor"], board["benchmarks"][0]["floor_answer"]) == (
        pytest.approx(6 / 9, abs=1e-6),
        "A",
    )
    assert "On toy always answering `A` is right in 67%. No model is clearly better." in board["warnings"]
    by_benchmark = medhelm("leaderboard", "--by", "benchmark").out
    assert "constant" in by_benchmark
    assert "0.667" in by_benchmark
    assert medhelm("run", place, "--model", "baseline/majority").code == 0
    assert "On toy always answering `A` is right in 67%. No model is clearly better." in medhelm("leaderboard").out
