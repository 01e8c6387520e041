"""All metrics by name. A module is imported when one of its metrics is first used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from medhelm.domain import JURY, Benchmark, Harness
from medhelm.errors import UserError
from medhelm.io import plugins
from medhelm.io.plugins import LazyMapping, Plugin, WithPlugins
from medhelm.scoring.metric import Metric, not_computed

_BUILT_IN: Mapping[str, str] = {
    "exact_match": "matching:EXACT_MATCH",
    "quasi_exact_match": "matching:QUASI_EXACT_MATCH",
    "prefix_exact_match": "matching:PREFIX_EXACT_MATCH",
    "quasi_prefix_exact_match": "matching:QUASI_PREFIX_EXACT_MATCH",
    "choice_extracted": "matching:CHOICE_EXTRACTED",
    "abstention": "abstention:ABSTENTION",
    "rouge_l": "rouge:ROUGE_L",
    "rouge_1": "rouge:ROUGE_1",
    "rouge_2": "rouge:ROUGE_2",
    "bertscore": "bertscore:BERTSCORE",
    "bertscore_precision": "bertscore:BERTSCORE_PRECISION",
    "bertscore_recall": "bertscore:BERTSCORE_RECALL",
    "coverage": "extractive_fragments:COVERAGE",
    "density": "extractive_fragments:DENSITY",
    "compression": "extractive_fragments:COMPRESSION",
    "balanced_accuracy": "labels:BALANCED_ACCURACY",
    "label_f1": "labels:LABEL_F1",
    "label_micro_f1": "labels:LABEL_MICRO_F1",
    "label_macro_f1": "labels:LABEL_MACRO_F1",
    "numeric_tolerance": "labels:NUMERIC_TOLERANCE",
    "medcalc_accuracy": "medcalc:MEDCALC_ACCURACY",
    "medec_flag_accuracy": "medec:MEDEC_FLAG_ACCURACY",
    "medec_sentence_accuracy": "medec:MEDEC_SENTENCE_ACCURACY",
    "icd_f1": "labels:ICD_F1",
    "icd_precision": "labels:ICD_PRECISION",
    "icd_recall": "labels:ICD_RECALL",
    "icd_micro_f1": "labels:ICD_MICRO_F1",
    "sql_execution_accuracy": "sql:SQL_EXECUTION_ACCURACY",
    "sql_precision": "sql:SQL_PRECISION",
    "sql_recall": "sql:SQL_RECALL",
    "sql_validity": "sql:SQL_VALIDITY",
}
"""Metric -> the module in this folder that defines it, and its name there. The order is that of tables."""


def _accept(plugin: Plugin, found: object) -> Metric:
    """Check and wrap the metric of an installed package."""
    from medhelm.scoring.metric import accept_metric

    return accept_metric(plugin, found)


METRICS: WithPlugins[Metric] = WithPlugins(
    plugins.METRICS,
    LazyMapping[Metric]({name: f"{__name__}.{target}" for name, target in _BUILT_IN.items()}),
    _accept,
    reserved=(JURY,),
)
"""Name -> metric that needs no judge, built in or from an installed package."""


class _MetricNames(Collection[str]):
    """Names of all metrics, the jury's included. Imports no metric; reads package metadata only for unknown names."""

    def __contains__(self, name: object) -> bool:
        return name == JURY or name in METRICS

    def __iter__(self) -> Iterator[str]:
        yield from METRICS
        yield JURY

    def __len__(self) -> int:
        return len(METRICS) + 1


METRIC_NAMES: Collection[str] = _MetricNames()
"""Names that `metrics` of a benchmark may list."""


def metrics_of(benchmark: Benchmark, *, judged: bool, harness: Harness | None = None) -> list[Metric]:
    """Return the metrics of a benchmark in its own order, the main metric first.

    A plug-in that cannot be used does not affect other metrics: its scores are missing, with the reason.

    Parameters
    ----------
    benchmark
        Its metric names.
    judged
        True if the run has judges. Without judges the jury's metric is left out, and the list may be empty.
    harness
        Harness whose files the instances come from; None for ours. Its own metrics need not be known here.
    """
    found = []
    for name in benchmark.metrics:
        if name == JURY:
            if judged and benchmark.rubric:
                from medhelm.scoring.jury.panel import jury_metric

                found.append(jury_metric(benchmark.rubric))
        elif harness:
            from medhelm.scoring.metrics.imported import imported_metric, on_imported_instances

            known = name in METRICS
            found.append(on_imported_instances(METRICS[name], harness) if known else imported_metric(name, harness))
        else:
            found.append(_usable_or_missing(name))
    return found


def _usable_or_missing(name: str) -> Metric:
    """Return a metric; for a plug-in that cannot be used, one whose scores are missing for that reason."""
    try:
        return METRICS[name]
    except UserError as error:
        reason = str(error)
        return Metric(name=name, title=name, description=reason, source="A plug-in", corrected=not_computed(reason))


def unusable_metrics(benchmark: Benchmark) -> dict[str, str]:
    """Return metric -> reason for the metrics of a benchmark whose plug-in cannot be used."""
    theirs = [name for name in benchmark.metrics if name not in METRICS.built_in and name in METRICS]
    return {name: why for name in theirs if (why := METRICS.why_not(name))}
