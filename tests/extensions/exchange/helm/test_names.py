"""Names in HELM's files, the files for `helm-summarize`, and lists that are written piece by piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.benchmarks.suites import load_suite
from medhelm.extensions.exchange.helm.export import (
    ALL_BENCHMARKS,
    GENERAL_METRICS,
    benchmark_entry,
    metric_entry,
    scenario_of,
    write_models,
    write_schema,
)
from medhelm.extensions.exchange.helm.folders import json_list
from medhelm.extensions.exchange.helm.reader import (
    is_known,
    main_split,
    metric_name,
    model_names,
    run_name,
    scenario_class,
)


def test_helm_has_every_benchmark_of_the_suite() -> None:
    scenarios = [scenario_of(entry.name) for entry in load_suite()]
    assert len(set(scenarios)) == 37
    assert all(is_known(scenario) for scenario in scenarios)
    assert len({scenario_class(scenario) for scenario in scenarios}) == 37


def test_metrics_have_the_names_of_helms_schema() -> None:
    asked = {("jury", "medi_qa"), ("jury", "ours"), ("bertscore", "aci_bench"), ("something_else", "ours")}
    names = {"medi_qa_accuracy", "jury_score", "BERTScore-F", "something_else"}
    assert {metric_name(metric, scenario) for metric, scenario in asked} == names


def test_only_medmcqa_reports_its_validation_split() -> None:
    assert {s for e in load_suite() if main_split(s := scenario_of(e.name)) != "test"} == {"med_mcqa"}


def test_run_names_are_names_of_folders() -> None:
    assert run_name("ehrshot", group="guo_icu", model="m/x") == "ehrshot:subject=guo_icu,model=m_x"
    assert run_name("x", model='a/../b:c,d*e?f#g%h"<>|\x00\n') == "x:model=a_.._b:c_d_e_f_g_h______"
    assert len(run_name("x" * 150, model="m" * 150)) == 200


def test_models_lose_their_address_and_keep_unique_names() -> None:
    names = model_names(["openai/m@http://10.0.0.1:1/v1", "openai/m@http://10.0.0.1:1/v2", "qwen", "hf/a/b"])
    assert list(names.values()) == ["hf/a/b", "openai/m", "openai/m-2", "medhelm/qwen"]


METRICS = [
    metric_entry("exact_match", "EM", "Right or not.", lower_is_better=False),
    metric_entry("error", "Error", "Less is better.", lower_is_better=True),
    metric_entry("length", "Length", "Describes."),
]


def test_a_benchmark_can_have_the_name_of_its_category_and_a_metric_no_direction(tmp_path: Path) -> None:
    benchmarks = [
        (category, benchmark_entry(name, title="Toy", description="", task="", main_metric="exact_match", split="test"))
        for name, category in (("play", "play"), ("toy", "play"), ("work", "work"))
    ]
    write_schema(tmp_path / "schema.yaml", benchmarks, METRICS)
    schema = yaml.safe_load((tmp_path / "schema.yaml").read_text(encoding="utf-8"))
    names = [group["name"] for group in schema["run_groups"]]
    assert len(names) == len(set(names))
    below = {group["name"]: group["subgroups"] for group in schema["run_groups"] if "subgroups" in group}
    assert below[ALL_BENCHMARKS] == ["category_play", "category_work"]
    assert below["category_play"] == ["play", "toy"]
    directions = {metric["name"]: metric.get("lower_is_better") for metric in schema["metrics"]}
    assert [directions[name] for name in ("exact_match", "error", "length")] == [False, True, None]
    assert set(directions) == {*GENERAL_METRICS, "exact_match", "error", "length"}


@pytest.mark.parametrize("names", [[], ["openai/a: b", "no", "- dash/#x", "1/2"]])
def test_models_are_listed_by_name(tmp_path: Path, names: list[str]) -> None:
    write_models(tmp_path / "prod_env" / "model_metadata.yaml", names)
    found = yaml.safe_load((tmp_path / "prod_env" / "model_metadata.yaml").read_text(encoding="utf-8"))["models"]
    assert [model["name"] for model in found] == [model["display_name"] for model in found] == names
    assert all(model["tags"] == ["TEXT_MODEL_TAG"] for model in found)


TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("lists")


@settings(max_examples=40, deadline=None)
@given(
    entries=st.lists(VALUES, max_size=3),
    around=st.dictionaries(TEXTS.filter(lambda name: name != "states"), VALUES, max_size=2),
)
def test_a_list_inside_an_object_is_written_like_json_dumps(
    folder: Path, entries: list[Any], around: dict[str, Any]
) -> None:
    path = folder / "object.json"
    after = {f"after {name}": value for name, value in around.items()}
    with json_list(path, around, "states", after) as add:
        for entry in entries:
            add(json.dumps(entry, indent=2))
    whole = {**around, "states": entries, **after}
    assert json.loads(path.read_text(encoding="utf-8")) == whole
    assert not entries or path.read_text(encoding="utf-8") == json.dumps(whole, indent=2)
