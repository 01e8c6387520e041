"""What benchmarks, metrics and models are called in HELM's files.

Facts of crfm-helm 0.5.16. A benchmark that it does not have goes by its own name there, as a metric does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from medhelm.benchmarks.suites import helm_classes
from medhelm.domain import JURY

_GROUP_ARGUMENTS = {"clear": "condition", "ehrshot": "subject", "n2c2_ct_matching": "subject", "med_dialog": "subset"}
"""Scenario whose groups are runs of their own there -> the argument that tells them apart."""

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
"""Metric here -> what it is called there, where that is another name."""

_METRIC_CLASSES: Mapping[str, str] = {
    "medcalc_accuracy": "medcalc_bench_metrics.MedCalcBenchMetric",
    "medec_flag_accuracy": "medec_metrics.MedecMetric",
    "icd_f1": "mimiciv_billing_code_metrics.MIMICIVBillingCodeMetric",
    "sql_execution_accuracy": "ehr_sql_metrics.EhrSqlMetric",
}
"""Metric here -> the class there that gives it, below `helm.benchmark.metrics`."""

_LONGEST_NAME = 200
"""Characters of a run's name, which is a folder's: file systems take 255 bytes."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\,*?#%\"<>|]")
"""What cannot be in the value of an argument, or not in the name of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSpec:
    """A class of HELM's by name, with its arguments, as its files have them."""

    class_name: str
    """Dotted name of the class."""
    args: Mapping[str, object]
    """Its arguments."""


def scenario_class(scenario: str) -> str:
    """Dotted name of the class of a scenario; for one that HELM does not have a name that no class has."""
    known = helm_classes().get(scenario)
    return f"helm.benchmark.scenarios.{known}" if known else f"medhelm.benchmarks.{scenario}"


def is_known(scenario: str) -> bool:
    """Whether HELM has this scenario."""
    return scenario in helm_classes()


def main_split(scenario: str) -> str:
    """The split that its tables show."""
    return "valid" if scenario == "med_mcqa" else "test"


def metric_name(metric: str, scenario: str) -> str:
    """What a metric of a benchmark is called there.

    >>> metric_name("jury", "aci_bench"), metric_name("jury", "our_own"), metric_name("rouge_l", "aci_bench")
    ('aci_bench_accuracy', 'jury_score', 'rouge_l')
    """
    if metric == JURY:
        return f"{scenario}_accuracy" if is_known(scenario) else "jury_score"
    return METRICS.get(metric, metric)


def metric_class(metric: str) -> ClassSpec:
    """The class there that gives a metric; for one that HELM does not have a name that no class has."""
    if metric in _METRIC_CLASSES:
        return ClassSpec(class_name=f"helm.benchmark.metrics.{_METRIC_CLASSES[metric]}", args={})
    if metric.endswith("exact_match"):
        return ClassSpec(
            class_name="helm.benchmark.metrics.basic_metrics.BasicGenerationMetric", args={"names": [metric]}
        )
    return ClassSpec(class_name=f"medhelm.scoring.metrics.{metric}", args={})


def group_argument(scenario: str) -> str:
    """The argument of a scenario that tells its groups apart."""
    return _GROUP_ARGUMENTS.get(scenario, "group")


def run_name(scenario: str, *, group: str = "", **modifiers: str | int | None) -> str:
    """Name of a run: scenario, group, and what else was chosen, in HELM's grammar.

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
    """Name of a model here -> what it is called there: without the address of its server, unless two need it.

    >>> model_names(["openai/gpt-4o", "openai/m@http://h:1/v1", "openai/m@http://u:secret@h:2/v1", "mine"])
    {'mine': 'medhelm/mine', 'openai/gpt-4o': 'openai/gpt-4o', 'openai/m@http://h:1/v1': 'openai/m@h:1', \
'openai/m@http://u:secret@h:2/v1': 'openai/m@h:2'}
    """
    plain = {name: _plain(name) for name in sorted(set(models))}
    found: dict[str, str] = {}
    for name, short in plain.items():
        if list(plain.values()).count(short) > 1 and "@" in name:
            short = f"{short}@{_host(name.partition('@')[2])}"
        found[name] = _unique(short, found.values())
    return found


def _plain(name: str) -> str:
    short = name.partition("@")[0]
    return short if "/" in short else f"medhelm/{short}"


def _host(address: str) -> str:
    """Host and port of an address, and nothing else of it: it may hold a password."""
    return address.rpartition("@")[2].partition("/")[0] if "://" not in address else _netloc(address)


def _netloc(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2]


def judge_names(judges: Iterable[str]) -> dict[str, str]:
    """Name of a judge here -> the short name of its annotations there.

    >>> judge_names(["openai/gpt-4o", "meta/llama@http://127.0.0.1:1/v1", "azure/gpt-4o"])
    {'openai/gpt-4o': 'gpt-4o', 'meta/llama@http://127.0.0.1:1/v1': 'llama', 'azure/gpt-4o': 'gpt-4o-2'}
    """
    found: dict[str, str] = {}
    for name in judges:
        found[name] = _unique(name.partition("@")[0].rpartition("/")[2], found.values())
    return found


def _unique(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
