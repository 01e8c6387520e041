"""Metrics of runs that another harness made: those that it alone computes, and ours where its files lack a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from medhelm.domain import Instance, Parts, Rule
from medhelm.errors import NotComputed
from medhelm.scoring.metric import Metric, ScoreFunction

_NEEDED = {
    "medcalc_accuracy": ("Calculator ID", "Category"),
    "sql_execution_accuracy": ("database", "database"),
    "sql_precision": ("database", "database"),
    "sql_recall": ("database", "database"),
    "sql_validity": ("database", "database"),
}
"""Metric -> the column that it needs by the corrected rule, and by the published one."""


def needed_columns(metric: str) -> tuple[str, ...]:
    """Columns of the data that a metric needs and the files of another harness may lack."""
    return _NEEDED.get(metric, ())


def imported_metric(name: str, *, low: float = 0.0, high: float = 1.0) -> Metric:
    """A metric that only the harness knows which made a run; its numbers stay as they are."""

    def unknown(reply: str, instance: Instance) -> float:  # noqa: ARG001 (the shape of rules)
        raise NotComputed(f"`{name}` is computed by the harness that made the run, and not here")

    return Metric(
        name=name,
        title=name,
        description="A number of the harness that made the run, as its files give it.",
        source="The files of the run",
        published=unknown,
        corrected=unknown,
        low=low,
        high=high,
    )


def on_imported_instances(metric: Metric) -> Metric:
    """The metric for instances that were read from the files of another harness.

    These may lack a column that the data has: then nothing is computed, and the reason says how to come by it.
    """
    if metric.name not in _NEEDED:
        return metric
    corrected, published = _NEEDED[metric.name]
    parts = metric.parts
    return replace(
        metric,
        corrected=_asking_for(corrected, metric.corrected),
        published=_asking_for(published, metric.published),
        parts=None if parts is None else _asking_for_parts(corrected, parts),
    )


def _asking_for(column: str, rate: ScoreFunction) -> ScoreFunction:
    def rated(reply: str, instance: Instance) -> float:
        _need(column, instance)
        return rate(reply, instance)

    return rated


def _asking_for_parts(
    column: str, parts: Callable[[str, Instance, Rule], Parts]
) -> Callable[[str, Instance, Rule], Parts]:
    def counted(reply: str, instance: Instance, rule: Rule) -> Parts:
        _need(column, instance)
        return parts(reply, instance, rule)

    return counted


def _need(column: str, instance: Instance) -> None:
    if column not in instance.metadata:
        raise NotComputed(
            f"the files of the run do not hold `{column}`, and the data does: rescore with --data and the folder that "
            "holds it"
        )
