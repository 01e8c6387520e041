"""Names in HELM's files, the files for `helm-summarize`, and lists that are written piece by piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.benchmarks.suites import load_suite
from medhelm.extensions.exchange.helm.export import (
    ALL_BENCHMARKS,
    metric_entry,
    scenario_of,
    write_models,
    write_schema,
)
from medhelm.extensions.exchange.helm.folders import json_list
from medhelm.extensions.exchange.helm.reader import (
    GENERAL_METRICS,
    is_known,
    main_split,
    run_name,
    scenario_class,
)


def test_helm_has_every_benchmark_of_the_suite() -> None:
    scenarios = [scenario_of(entry.name) for entry in load_suite()]
    assert len(set(scenarios)) == 37
    assert all(is_known(scenario) for scenario in scenarios)
    assert len({scenario_class(scenario) for scenario in scenarios}) == 37


def test_only_medmcqa_reports_its_validation_split() -> None:
    assert {s for e in load_suite() if main_split(s := scenario_of(e.name)) != "test"} == {"med_mcqa"}


def test_run_names_are_names_of_folders() -> None:
    assert run_name("ehrshot", group="guo_icu", model="m/x") == "ehrshot:subject=guo_icu,model=m_x"
    assert run_name("x", model='a/../b:c,d*e?f#g%h"<>|\x00\n') == "x:model=a_.._b:c_d_e_f_g_h______"
    assert len(run_name("x" * 150, model="m" * 150)) == 200


def test_a_benchmark_can_have_the_name_of_its_category_and_a_metric_no_direction(tmp_path: Path) -> None:
    benchmarks = [
        (category, {"name": name}) for name, category in (("play", "play"), ("toy", "play"), ("work", "work"))
    ]
    metrics = [metric_entry(name, name) for name in ("exact_match", "compression", "theirs")]
    write_schema(tmp_path / "schema.yaml", benchmarks, metrics)
    schema = yaml.safe_load((tmp_path / "schema.yaml").read_text(encoding="utf-8"))
    names = [group["name"] for group in schema["run_groups"]]
    assert len(names) == len(set(names))
    below = {group["name"]: group["subgroups"] for group in schema["run_groups"] if "subgroups" in group}
    assert below[ALL_BENCHMARKS] == ["category_play", "category_work"]
    assert below["category_play"] == ["play", "toy"]
    directions = {metric["name"]: metric.get("lower_is_better") for metric in schema["metrics"]}
    assert directions == {**dict.fromkeys(GENERAL_METRICS), "exact_match": False, "compression": None, "theirs": False}


@pytest.mark.parametrize("names", [[], ["openai/a: b", "no", "- dash/#x", "1/2"]])
def test_models_are_listed_by_name(tmp_path: Path, names: list[str]) -> None:
    write_models(tmp_path / "prod_env" / "model_metadata.yaml", names)
    found = yaml.safe_load((tmp_path / "prod_env" / "model_metadata.yaml").read_text(encoding="utf-8"))["models"]
    assert [model["name"] for model in found] == [model["display_name"] for model in found] == names
    assert all(model["tags"] == ["TEXT_MODEL_TAG"] for model in found)


VALUES: list[Any] = [
    None,
    True,
    -3,
    0.5,
    "",
    'a "b"\n\u2028\U0001f600',
    [],
    {},
    [[], {"a": [1, {}]}],
    {"": {"b": [None]}},
]


@pytest.mark.parametrize("around", [{}, {"adapter": {"a": [1, {"b": "\n"}]}, "n": [1, 2]}])
def test_a_list_inside_an_object_is_written_like_json_dumps(tmp_path: Path, around: dict[str, Any]) -> None:
    after = {f"after {name}": value for name, value in around.items()}
    for entries in ([], VALUES[:1], VALUES):
        with json_list(tmp_path / "object.json", around, "states", after) as add:
            for entry in entries:
                add(json.dumps(entry, indent=2))
        whole = {**around, "states": entries, **after}
        text = (tmp_path / "object.json").read_text(encoding="utf-8")
        assert json.loads(text) == whole
        assert not entries or text == json.dumps(whole, indent=2)
