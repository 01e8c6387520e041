"""The efficient frontier by cost and macro average, as fields."""

from __future__ import annotations

from typing import Any

from medhelm.analysis.frontier import CostFrontier, FrontierStep
from medhelm.results.formats.fields import Field, fields_json, list_field
from medhelm.results.formats.tables import decimal, with_interval

NOT_SEPARATED = "not separated"
"""Cell for a cost per point where the leaderboard does not separate the two models."""


def _cost_per_point(step: FrontierStep) -> str | None:
    """Return the cost of a point with its interval, or that the two models are not separated."""
    if step.points_low is None:
        return decimal(step.usd_per_point, 4)
    if step.interval is None:
        return NOT_SEPARATED
    low, high = step.interval
    if high is None:
        return f"{decimal(step.usd_per_point, 4)} [{decimal(low, 4)} or more]"
    return with_interval(step.usd_per_point, low, high, 4)


STEP_FIELDS: list[Field[FrontierStep]] = [
    Field("from", lambda step: step.cheaper, kind="text", heading="from"),
    Field("to", lambda step: step.costlier, kind="text", heading="to"),
    Field("usd_per_1000", lambda step: step.usd_per_1000, heading="USD more per 1,000", places=4),
    Field("points", lambda step: step.points, heading="points more",
          text=lambda step: with_interval(step.points, step.points_low, step.points_high, 2)),
    Field("points_low", lambda step: step.points_low),
    Field("points_high", lambda step: step.points_high),
    Field("usd_per_point", lambda step: step.usd_per_point, heading="USD per point", text=_cost_per_point),
    Field("usd_per_point_low", lambda step: step.interval and step.interval[0]),
    Field("usd_per_point_high", lambda step: step.interval and step.interval[1]),
    Field("separated", lambda step: step.is_separated, kind="true or false"),
]  # fmt: skip
"""A step along the efficient frontier."""

FRONTIER_FIELDS: list[Field[CostFrontier]] = [
    Field("efficient", lambda frontier: [one.model for one in frontier.models if one.is_efficient], kind="texts"),
    list_field("steps", STEP_FIELDS, lambda frontier: frontier.steps),
    Field("unknown_cost", lambda frontier: frontier.unknown_cost, kind="texts"),
    Field("other_benchmarks", lambda frontier: frontier.other_benchmarks, kind="texts"),
]  # fmt: skip
"""The efficient frontier, and the models that were left out."""


def frontier_as_json(frontier: CostFrontier | None) -> dict[str, Any] | None:
    """Return the frontier as JSON."""
    return None if frontier is None else fields_json(FRONTIER_FIELDS, frontier)
