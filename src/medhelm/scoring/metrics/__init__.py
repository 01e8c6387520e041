"""Every metric, by name."""

from __future__ import annotations

from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics.clinical import MEDCALC_ACCURACY
from medhelm.scoring.metrics.matching import (
    CHOICE_EXTRACTED,
    EXACT_MATCH,
    PREFIX_EXACT_MATCH,
    QUASI_EXACT_MATCH,
    QUASI_PREFIX_EXACT_MATCH,
)

METRICS: dict[str, Metric] = {
    "exact_match": EXACT_MATCH,
    "quasi_exact_match": QUASI_EXACT_MATCH,
    "prefix_exact_match": PREFIX_EXACT_MATCH,
    "quasi_prefix_exact_match": QUASI_PREFIX_EXACT_MATCH,
    "choice_extracted": CHOICE_EXTRACTED,
    "medcalc_accuracy": MEDCALC_ACCURACY,
}
"""Name -> metric; what `metrics` of a benchmark may name."""
