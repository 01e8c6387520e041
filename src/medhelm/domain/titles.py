"""Titles of metrics and categories, in every table, chart and page. JSON and CSV hold names."""

from __future__ import annotations

from collections.abc import Mapping

from medhelm.domain.benchmark import JURY

METRIC_TITLES: Mapping[str, str] = {
    "exact_match": "EM",
    "quasi_exact_match": "Quasi-EM",
    "prefix_exact_match": "Prefix EM",
    "quasi_prefix_exact_match": "Prefix quasi-EM",
    "choice_extracted": "Readable",
    "rouge_l": "ROUGE-L",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "bertscore": "BERTScore",
    "bertscore_precision": "BERTScore P",
    "bertscore_recall": "BERTScore R",
    "coverage": "Coverage",
    "density": "Density",
    "compression": "Compression",
    "balanced_accuracy": "Balanced accuracy",
    "label_f1": "F1 per case",
    "label_micro_f1": "Micro F1",
    "label_macro_f1": "Macro F1",
    "numeric_tolerance": "Within tolerance",
    "medcalc_accuracy": "MedCalc accuracy",
    "medec_flag_accuracy": "Error flag",
    "medec_sentence_accuracy": "Error sentence",
    "icd_f1": "ICD F1",
    "icd_precision": "ICD precision",
    "icd_recall": "ICD recall",
    "icd_micro_f1": "ICD micro F1",
    "sql_execution_accuracy": "SQL accuracy",
    "sql_precision": "SQL precision",
    "sql_recall": "SQL recall",
    "sql_validity": "SQL validity",
    JURY: "Jury",
}
"""Name of a built-in metric -> its title."""


def metric_title(name: str) -> str:
    """Return the title of a metric; if it is not built in, its name in words.

    >>> metric_title("rouge_l"), metric_title("triage_distance")
    ('ROUGE-L', 'Triage distance')
    """
    return METRIC_TITLES.get(name) or name.replace("_", " ").capitalize()


def group_title(name: str) -> str:
    """Return a category or subcategory id as words.

    >>> group_title("clinical_decision_support")
    'Clinical decision support'
    """
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]
