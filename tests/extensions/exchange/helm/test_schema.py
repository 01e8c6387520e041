"""The files for `helm-summarize` in addition to run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.extensions.exchange.helm.export import (
    ALL_BENCHMARKS,
    GENERAL_METRICS,
    benchmark_entry,
    metric_entry,
    write_models,
    write_schema,
)

TITLE, DESCRIPTION = "Toy: a game", 'Say "yes" or no.\nNothing else.'
METRICS = [
    metric_entry("exact_match", "EM", "Right or not.", lower_is_better=False),
    metric_entry("error", "Error", "Less is better.", lower_is_better=True),
    metric_entry("length", "Length", "Describes."),
]


def benchmark(scenario: str, category: str = "play", task: str = "Play") -> tuple[str, dict[str, Any]]:
    entry = benchmark_entry(
        scenario, title=TITLE, description=DESCRIPTION, task=task, main_metric="exact_match", split="test"
    )
    return category, entry


TOY = benchmark("toy")


def written(folder: Path, *benchmarks: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    write_schema(folder / "schema.yaml", benchmarks, METRICS)
    content: dict[str, Any] = yaml.safe_load((folder / "schema.yaml").read_text(encoding="utf-8"))
    return content


def test_metrics_without_a_direction_have_no_lower_is_better(tmp_path: Path) -> None:
    found = {metric["name"]: metric for metric in written(tmp_path, TOY)["metrics"]}
    assert set(found) == {*GENERAL_METRICS, "exact_match", "error", "length"}
    assert found["exact_match"]["lower_is_better"] is False
    assert found["error"]["lower_is_better"] is True
    assert "lower_is_better" not in found["length"]


def test_titles_and_descriptions_are_unchanged(tmp_path: Path) -> None:
    found = {group["name"]: group for group in written(tmp_path, TOY)["run_groups"]}
    assert (found["toy"]["display_name"], found["toy"]["description"]) == (TITLE, DESCRIPTION)
    assert found["toy"]["taxonomy"] == {"task": "Play", "language": "English"}


def test_a_benchmark_can_have_the_name_of_its_category(tmp_path: Path) -> None:
    groups = written(tmp_path, benchmark("play"), TOY, benchmark("work", "work", task=""))["run_groups"]
    names = [group["name"] for group in groups]
    assert len(names) == len(set(names))
    below = {group["name"]: group["subgroups"] for group in groups if "subgroups" in group}
    assert below[ALL_BENCHMARKS] == ["category_play", "category_work"]
    assert below["category_play"] == ["play", "toy"]
    assert next(group for group in groups if group["name"] == "work")["taxonomy"] == {}


def test_only_accuracy_has_win_rates(tmp_path: Path) -> None:
    groups = {group["name"]: group for group in written(tmp_path, TOY)["metric_groups"]}
    assert "hide_win_rates" not in groups["accuracy"]
    assert groups["efficiency"]["hide_win_rates"] is groups["general_information"]["hide_win_rates"] is True
    assert groups["accuracy"]["metrics"] == [{"name": "${main_name}", "split": "${main_split}"}]


@pytest.mark.parametrize("names", [[], ["openai/a"], ["openai/a: b", "no", "- dash/#x", "1/2"]])
def test_models_are_listed_by_name(tmp_path: Path, names: list[str]) -> None:
    write_models(tmp_path / "prod_env" / "model_metadata.yaml", names)
    found = yaml.safe_load((tmp_path / "prod_env" / "model_metadata.yaml").read_text(encoding="utf-8"))["models"]
    assert [model["name"] for model in found] == [model["display_name"] for model in found] == names
    assert all(model["tags"] == ["TEXT_MODEL_TAG"] for model in found)
