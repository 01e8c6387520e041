"""Every metric, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from medhelm.domain import JURY, Benchmark
from medhelm.io import plugins
from medhelm.io.plugins import WithPlugins
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics.bertscore import BERTSCORE, BERTSCORE_PRECISION, BERTSCORE_RECALL
from medhelm.scoring.metrics.extractive_fragments import COMPRESSION, COVERAGE, DENSITY
from medhelm.scoring.metrics.icd_codes import ICD_F1, ICD_MICRO_F1, ICD_PRECISION, ICD_RECALL
from medhelm.scoring.metrics.imported import imported_metric, on_imported_instances
from medhelm.scoring.metrics.jury import jury_metric
from medhelm.scoring.metrics.labels import BALANCED_ACCURACY, LABEL_F1, LABEL_MACRO_F1, LABEL_MICRO_F1
from medhelm.scoring.metrics.matching import (
    CHOICE_EXTRACTED,
    EXACT_MATCH,
    PREFIX_EXACT_MATCH,
    QUASI_EXACT_MATCH,
    QUASI_PREFIX_EXACT_MATCH,
)
from medhelm.scoring.metrics.medcalc import MEDCALC_ACCURACY
from medhelm.scoring.metrics.medec import MEDEC_FLAG_ACCURACY, MEDEC_SENTENCE_ACCURACY
from medhelm.scoring.metrics.numeric import NUMERIC_TOLERANCE
from medhelm.scoring.metrics.plugin import accept_metric
from medhelm.scoring.metrics.rouge import ROUGE_1, ROUGE_2, ROUGE_L
from medhelm.scoring.metrics.sql import SQL_EXECUTION_ACCURACY, SQL_PRECISION, SQL_RECALL, SQL_VALIDITY

_BUILT_IN: dict[str, Metric] = {
    "exact_match": EXACT_MATCH,
    "quasi_exact_match": QUASI_EXACT_MATCH,
    "prefix_exact_match": PREFIX_EXACT_MATCH,
    "quasi_prefix_exact_match": QUASI_PREFIX_EXACT_MATCH,
    "choice_extracted": CHOICE_EXTRACTED,
    "rouge_l": ROUGE_L,
    "rouge_1": ROUGE_1,
    "rouge_2": ROUGE_2,
    "bertscore": BERTSCORE,
    "bertscore_precision": BERTSCORE_PRECISION,
    "bertscore_recall": BERTSCORE_RECALL,
    "coverage": COVERAGE,
    "density": DENSITY,
    "compression": COMPRESSION,
    "balanced_accuracy": BALANCED_ACCURACY,
    "label_f1": LABEL_F1,
    "label_micro_f1": LABEL_MICRO_F1,
    "label_macro_f1": LABEL_MACRO_F1,
    "numeric_tolerance": NUMERIC_TOLERANCE,
    "medcalc_accuracy": MEDCALC_ACCURACY,
    "medec_flag_accuracy": MEDEC_FLAG_ACCURACY,
    "medec_sentence_accuracy": MEDEC_SENTENCE_ACCURACY,
    "icd_f1": ICD_F1,
    "icd_precision": ICD_PRECISION,
    "icd_recall": ICD_RECALL,
    "icd_micro_f1": ICD_MICRO_F1,
    "sql_execution_accuracy": SQL_EXECUTION_ACCURACY,
    "sql_precision": SQL_PRECISION,
    "sql_recall": SQL_RECALL,
    "sql_validity": SQL_VALIDITY,
}

METRICS: WithPlugins[Metric] = WithPlugins(plugins.METRICS, _BUILT_IN, accept_metric, reserved=(JURY,))
"""Name -> metric, for all that need no judge: the built-in ones, and those of installed packages."""


class _Names(Collection[str]):
    """Names of the metrics, and the jury's. Imports no package, and looks at none for a name that is built in."""

    def __contains__(self, name: object) -> bool:
        return name == JURY or name in METRICS

    def __iter__(self) -> Iterator[str]:
        yield from METRICS
        yield JURY

    def __len__(self) -> int:
        return len(METRICS) + 1


METRIC_NAMES: Collection[str] = _Names()
"""What `metrics` of a benchmark may name."""


def metrics_of(benchmark: Benchmark, *, judged: bool, foreign: bool = False) -> list[Metric]:
    """The metrics of a benchmark, the main one first; without judges those that need none, of which there may be none.

    `judged`: whether there are judges; `foreign`: whether the instances were read from the files of another harness,
    whose metrics need not be known here.
    """
    found = []
    for name in benchmark.metrics:
        if name != JURY and foreign:
            found.append(on_imported_instances(METRICS[name]) if name in METRICS else imported_metric(name))
        elif name != JURY:
            found.append(METRICS[name])
        elif judged and benchmark.rubric:
            found.append(jury_metric(benchmark.rubric))
    return found
