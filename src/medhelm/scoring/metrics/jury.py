"""The metric that judges give: its scale is the rubric's, and its numbers come from `scoring.jury`."""

from __future__ import annotations

from medhelm.domain import JURY, Instance, Rubric
from medhelm.errors import NotComputed
from medhelm.scoring.metric import Metric


def jury_metric(rubric: Rubric) -> Metric:
    """The jury's score as a metric: what tables call it, and where its scale begins and ends."""
    return Metric(
        name=JURY,
        title="Jury",
        description=(
            "Mean over judges of each judge's mean over the criteria of the rubric; a completion without a word gets "
            "the worst grade, and one that too few judges graded has no score."
        ),
        source="MedHELM (Bedi et al., 2025), section on the LLM jury; points as in HealthBench (Arora et al., 2025)",
        published=_needs_judges,
        corrected=_needs_judges,
        low=rubric.low,
        high=rubric.high,
    )


def _needs_judges(reply: str, instance: Instance) -> float:  # noqa: ARG001 (the shape of rules)
    """A text alone has no jury score."""
    raise NotComputed("judges are needed: name some with --judge")
