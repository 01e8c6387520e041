"""A metric: the share of the terms of the reference, separated by semicolons, that a completion names."""

from __future__ import annotations

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric


def corrected(completion: str, instance: Instance) -> float:
    """Return the share of terms that the completion names, in any case; 0.0 for an empty completion.

    Raises: DataError if the reference has no terms: then no completion can be scored.
    """
    terms = [term.strip().lower() for reference in instance.correct for term in reference.split(";") if term.strip()]
    if not terms:
        raise DataError("the reference has no terms")
    return sum(term in completion.lower() for term in terms) / len(terms)


WARD = Metric(
    name="ward",
    title="Ward",
    description="Share of the terms of the reference that the completion names. An empty completion scores 0.",
    source="The rule is ours.",
    corrected=corrected,
    low=0.0,
    high=1.0,
)
