"""What `helm-summarize` is given besides run folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.exchange.helm.schema import ALL_BENCHMARKS, SchemaBenchmark, SchemaMetric, write_models, write_schema
from medhelm.exchange.helm.writer import GENERAL_METRICS

TOY = SchemaBenchmark(
    scenario="toy", title="Toy: a game", description='Say "yes" or no.\nNothing else.', category="play", task="Play",
    main_metric="exact_match", split="test",
)  # fmt: skip
METRICS = [
    SchemaMetric(name="exact_match", title="EM", description="Right or not.", lower_is_better=False),
    SchemaMetric(name="error", title="Error", description="Less is better.", lower_is_better=True),
    SchemaMetric(name="length", title="Length", description="Describes."),
]


def written(folder: Path, *benchmarks: SchemaBenchmark) -> dict[str, Any]:
    write_schema(folder / "schema.yaml", benchmarks, METRICS)
    content: dict[str, Any] = yaml.safe_load((folder / "schema.yaml").read_text(encoding="utf-8"))
    return content


def test_directions_are_said_where_there_is_one(tmp_path: Path) -> None:
    found = {metric["name"]: metric for metric in written(tmp_path, TOY)["metrics"]}
    assert set(found) == {*GENERAL_METRICS, "exact_match", "error", "length"}
    assert found["exact_match"]["lower_is_better"] is False
    assert found["error"]["lower_is_better"] is True
    assert "lower_is_better" not in found["length"]


def test_texts_come_back_as_they_are(tmp_path: Path) -> None:
    found = {group["name"]: group for group in written(tmp_path, TOY)["run_groups"]}
    assert (found["toy"]["display_name"], found["toy"]["description"]) == (TOY.title, TOY.description)
    assert found["toy"]["taxonomy"] == {"task": "Play", "language": "English"}


def test_a_benchmark_may_be_called_as_its_category_is(tmp_path: Path) -> None:
    named = replace(TOY, scenario="play")
    groups = written(tmp_path, named, TOY, replace(TOY, scenario="work", category="work", task=""))["run_groups"]
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
def test_models_go_by_their_names(tmp_path: Path, names: list[str]) -> None:
    write_models(tmp_path / "prod_env" / "model_metadata.yaml", names)
    found = yaml.safe_load((tmp_path / "prod_env" / "model_metadata.yaml").read_text(encoding="utf-8"))["models"]
    assert [model["name"] for model in found] == [model["display_name"] for model in found] == names
    assert all(model["tags"] == ["TEXT_MODEL_TAG"] for model in found)
