"""A metric of one's own: how many of the terms that count does an answer name?"""

from __future__ import annotations

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric


def _terms(instance: Instance) -> list[str]:
    terms = [term.strip() for answer in instance.correct for term in answer.split(";") if term.strip()]
    if not terms:
        raise DataError("has no terms to look for")
    return terms


def published(reply: str, instance: Instance) -> float:
    """Share of the terms that stand in the reply letter by letter."""
    terms = _terms(instance)
    return sum(term in reply for term in terms) / len(terms)


def corrected(reply: str, instance: Instance) -> float:
    """The same, whatever the case of its letters."""
    terms = _terms(instance)
    return sum(term.lower() in reply.lower() for term in terms) / len(terms)


WARD_RECALL = Metric(
    name="ward_recall",
    title="Term recall",
    description="Share of the terms in the reference, separated by semicolons, that the answer names. Silence is 0.",
    source="An example.",
    published=published,
    corrected=corrected,
)
"""The entry point `ward_recall` of medhelm.metrics."""
