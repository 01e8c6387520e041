"""Abstention: whether a completion declines to answer where the key says so, and is right where it does not.

The key says so by a correct reference such as "Cannot be answered", or by an option with such a text. A completion
declines by naming that option, or in words (`scoring.answers.confidence.abstains`). Where the key has an answer, to
decline is wrong. An empty completion scores 0 by both rules: it gives no reason to look again.

Published rule: the completion must be exactly the right label, or the right text.
"""

from __future__ import annotations

from medhelm.domain import Instance
from medhelm.domain.text import METRIC_TITLES
from medhelm.scoring.answers.confidence import abstains, is_abstention
from medhelm.scoring.metric import AnswerReader, Metric, correct_references
from medhelm.scoring.metrics.matching import EXACT_MATCH, QUASI_EXACT_MATCH, READS_OPTION


def _declines(completion: str, instance: Instance) -> bool:
    """Return True if a completion declines to answer, in words or by an option."""
    option = READS_OPTION.find(completion, instance) if instance.choices else None
    if isinstance(option, int):
        return is_abstention(instance.choices[option]) or abstains(completion, option)
    return abstains(completion)


def _corrected(completion: str, instance: Instance) -> float:
    must_decline = any(map(is_abstention, correct_references(instance)))
    if must_decline or _declines(completion, instance):
        return float(must_decline and _declines(completion, instance))
    return QUASI_EXACT_MATCH.corrected(completion, instance)


def _find(completion: str, instance: Instance) -> object:
    """Return the option that a completion names, or its words; None if it neither names one nor declines."""
    found = READS_OPTION.find(completion, instance)
    return "declines" if found is None and _declines(completion, instance) else found


ABSTENTION = Metric(
    name="abstention",
    title=METRIC_TITLES["abstention"],
    description=(
        "Share of completions that decline to answer where nothing else is right, and are right elsewhere. An empty "
        "completion scores 0."
    ),
    source="This project; questions with a false premise as in AdverseMed-500 (Vallamsetty, 2026)",
    published=EXACT_MATCH.published,
    corrected=_corrected,
    reads=AnswerReader("answer", _find),
)
