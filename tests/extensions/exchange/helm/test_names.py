"""Names in HELM's files."""

from __future__ import annotations

import pytest

from medhelm.benchmarks.suites import load_suite
from medhelm.extensions.exchange.helm.export import scenario_of
from medhelm.extensions.exchange.helm.reader import (
    is_known,
    judge_names,
    main_split,
    metric_name,
    metric_spec,
    model_names,
    run_name,
    scenario_class,
)


def test_helm_has_every_benchmark_of_the_suite() -> None:
    scenarios = [scenario_of(entry.name) for entry in load_suite()]
    assert len(set(scenarios)) == 37
    assert all(is_known(scenario) for scenario in scenarios)
    assert len({scenario_class(scenario) for scenario in scenarios}) == 37


@pytest.mark.parametrize(
    ("metric", "scenario", "name"),
    [
        ("exact_match", "pubmed_qa", "exact_match"),
        ("jury", "medi_qa", "medi_qa_accuracy"),
        ("jury", "chw_care_plan", "chw_care_plan_accuracy"),
        ("jury", "ours", "jury_score"),
        ("medcalc_accuracy", "medcalc_bench", "medcalc_bench_accuracy"),
        ("medec_flag_accuracy", "medec", "medec_error_flag_accuracy"),
        ("sql_execution_accuracy", "ehr_sql", "ehr_sql_execution_accuracy"),
        ("icd_f1", "mimiciv_billing_code", "mimiciv_billing_code_f1"),
        ("bertscore", "aci_bench", "BERTScore-F"),
        ("something_else", "ours", "something_else"),
    ],
)
def test_metrics_have_the_names_of_helms_schema(metric: str, scenario: str, name: str) -> None:
    assert metric_name(metric, scenario) == name


def test_unknown_classes_have_names_that_match_no_class() -> None:
    assert scenario_class("ours") == "medhelm.benchmarks.ours"
    assert metric_spec("numeric_tolerance")["class_name"] == "medhelm.scoring.metrics.numeric_tolerance"
    assert metric_spec("medcalc_accuracy")["class_name"].startswith("helm.benchmark.metrics.")


def test_only_medmcqa_reports_its_validation_split() -> None:
    assert {s for e in load_suite() if main_split(s := scenario_of(e.name)) != "test"} == {"med_mcqa"}


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"model": "openai/gpt-4o"}, "ehrshot:model=openai_gpt-4o"),
        ({"group": "guo_icu", "model": "m/x"}, "ehrshot:subject=guo_icu,model=m_x"),
        ({"max_eval_instances": 10, "model": "m/x"}, "ehrshot:max_eval_instances=10,model=m_x"),
        ({"model": 'a/../b:c,d*e?f#g%h"<>|\x00\n'}, "ehrshot:model=a_.._b:c_d_e_f_g_h______"),
    ],
)
def test_run_names(asked: dict[str, str], name: str) -> None:
    assert run_name("ehrshot", **asked) == name


def test_a_long_name_is_truncated_for_file_systems() -> None:
    assert len(run_name("x" * 150, model="m" * 150)) == 200


def test_models_lose_their_address_and_keep_unique_names() -> None:
    names = model_names(["openai/m@http://10.0.0.1:1/v1", "openai/m@http://10.0.0.1:1/v2", "qwen", "hf/a/b"])
    assert list(names.values()) == ["hf/a/b", "openai/m", "openai/m-2", "medhelm/qwen"]
    assert model_names(["openai/m@http://10.0.0.1:1/v1"]) == {"openai/m@http://10.0.0.1:1/v1": "openai/m"}


def test_judges_go_by_short_names_of_their_own() -> None:
    assert list(judge_names(["a/x", "b/x", "c/y@http://h/v1"]).values()) == ["x", "x-2", "y"]
