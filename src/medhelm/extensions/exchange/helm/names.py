"""Names of benchmarks, metrics and models in HELM's files.

Based on crfm-helm 0.5.16. Benchmarks and metrics that it does not have keep their own names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from medhelm.benchmarks.suites import helm_classes
from medhelm.domain import JURY

_GROUP_ARGUMENTS = {"clear": "condition", "ehrshot": "subject", "n2c2_ct_matching": "subject", "med_dialog": "subset"}
"""HELM scenario whose groups are separate runs -> the argument that distinguishes them."""

METRICS: Mapping[str, str] = {
    "medcalc_accuracy": "medcalc_bench_accuracy",
    "medec_flag_accuracy": "medec_error_flag_accuracy",
    "medec_sentence_accuracy": "medec_error_sentence_accuracy",
    "icd_f1": "mimiciv_billing_code_f1",
    "icd_precision": "mimiciv_billing_code_precision",
    "icd_recall": "mimiciv_billing_code_recall",
    "sql_execution_accuracy": "ehr_sql_execution_accuracy",
    "sql_validity": "ehr_sql_query_validity",
    "sql_precision": "ehr_sql_precision_answerable",
    "sql_recall": "ehr_sql_recall_answerable",
    "bertscore": "BERTScore-F",
    "bertscore_precision": "BERTScore-P",
    "bertscore_recall": "BERTScore-R",
    "coverage": "summarization_coverage",
    "density": "summarization_density",
    "compression": "summarization_compression",
}
"""Our metric -> its name in HELM, where the names differ."""

_METRIC_CLASSES: Mapping[str, str] = {
    "medcalc_accuracy": "medcalc_bench_metrics.MedCalcBenchMetric",
    "medec_flag_accuracy": "medec_metrics.MedecMetric",
    "icd_f1": "mimiciv_billing_code_metrics.MIMICIVBillingCodeMetric",
    "sql_execution_accuracy": "ehr_sql_metrics.EhrSqlMetric",
}
"""Our metric -> the HELM class that computes it, below `helm.benchmark.metrics`."""

_LONGEST_NAME = 200
"""Maximum characters of a run's name, which is also a folder's name: file systems allow 255 bytes."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\,*?#%\"<>|]")
"""Characters that are not allowed in the value of an argument or in the name of a folder."""


def scenario_class(scenario: str) -> str:
    """Return the dotted name of a scenario's class; for an unknown scenario, a name that matches no class."""
    known = helm_classes().get(scenario)
    return f"helm.benchmark.scenarios.{known}" if known else f"medhelm.benchmarks.{scenario}"


def is_known(scenario: str) -> bool:
    """Return True if HELM has this scenario."""
    return scenario in helm_classes()


def main_split(scenario: str) -> str:
    """Return the split that HELM's tables show."""
    return "valid" if scenario == "med_mcqa" else "test"


def metric_name(metric: str, scenario: str) -> str:
    """Return the name of a benchmark's metric in HELM.

    >>> metric_name("jury", "aci_bench"), metric_name("jury", "our_own"), metric_name("rouge_l", "aci_bench")
    ('aci_bench_accuracy', 'jury_score', 'rouge_l')
    """
    if metric == JURY:
        return f"{scenario}_accuracy" if is_known(scenario) else "jury_score"
    return METRICS.get(metric, metric)


def metric_spec(metric: str) -> dict[str, Any]:
    """Return the HELM class that computes a metric, with its arguments, as in HELM's files.

    For an unknown metric, the name matches no class.
    """
    if metric in _METRIC_CLASSES:
        return {"class_name": f"helm.benchmark.metrics.{_METRIC_CLASSES[metric]}", "args": {}}
    if metric.endswith("exact_match"):
        return {
            "class_name": "helm.benchmark.metrics.basic_metrics.BasicGenerationMetric",
            "args": {"names": [metric]},
        }
    return {"class_name": f"medhelm.scoring.metrics.{metric}", "args": {}}


def group_argument(scenario: str) -> str:
    """Return the argument of a scenario that distinguishes its groups."""
    return _GROUP_ARGUMENTS.get(scenario, "group")


def run_name(scenario: str, *, group: str = "", **modifiers: str | int | None) -> str:
    """Return the name of a run in HELM's grammar: scenario, group and further settings.

    >>> run_name("clear", group="homelessness", max_eval_instances=None, model="openai/gpt-4o")
    'clear:condition=homelessness,model=openai_gpt-4o'
    >>> run_name("med_dialog", group="icliniq", model="meta/llama")
    'med_dialog,subset=icliniq:model=meta_llama'
    """
    name = scenario
    if group:
        separator = "," if scenario == "med_dialog" else ":"
        name += f"{separator}{group_argument(scenario)}={_value(group)}"
    for key, value in modifiers.items():
        if value is not None:
            name += f"{',' if ':' in name else ':'}{key}={_value(str(value))}"
    return name[:_LONGEST_NAME]


def _value(text: str) -> str:
    return _UNSAFE.sub("_", text)


def model_names(models: Iterable[str]) -> dict[str, str]:
    """Map models to their names in HELM: without the server's address; equal ones are numbered.

    >>> model_names(["openai/gpt-4o", "openai/m@http://h:1/v1", "openai/m@http://u:secret@h:2/v1", "mine"])
    {'mine': 'medhelm/mine', 'openai/gpt-4o': 'openai/gpt-4o', 'openai/m@http://h:1/v1': 'openai/m', \
'openai/m@http://u:secret@h:2/v1': 'openai/m-2'}
    """

    def without_address(model: str) -> str:
        name = model.partition("@")[0]
        return name if "/" in name else f"medhelm/{name}"

    return _unique_names(sorted(set(models)), without_address)


def judge_names(judges: Iterable[str]) -> dict[str, str]:
    """Map judges to the short names of their annotations in HELM.

    >>> judge_names(["openai/gpt-4o", "meta/llama@http://127.0.0.1:1/v1", "azure/gpt-4o"])
    {'openai/gpt-4o': 'gpt-4o', 'meta/llama@http://127.0.0.1:1/v1': 'llama', 'azure/gpt-4o': 'gpt-4o-2'}
    """
    return _unique_names(judges, lambda judge: judge.partition("@")[0].rpartition("/")[2])


def _unique_names(models: Iterable[str], shorten: Callable[[str], str]) -> dict[str, str]:
    """Map models to their shortened names; equal ones are numbered from 2."""
    names: dict[str, str] = {}
    for model in models:
        name = short = shorten(model)
        number = 1
        while name in names.values():
            number += 1
            name = f"{short}-{number}"
        names[model] = name
    return names
