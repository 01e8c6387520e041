"""Metrics of runs of another harness: those that only it computes, and ours where its files lack a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from medhelm.domain import Instance, Rule
from medhelm.errors import NotComputed
from medhelm.scoring.metric import Metric, not_computed

_Result = TypeVar("_Result")

_NEEDED = {
    "medcalc_accuracy": ("Calculator ID", "Category"),
    "sql_execution_accuracy": ("database", "database"),
    "sql_precision": ("database", "database"),
    "sql_recall": ("database", "database"),
    "sql_validity": ("database", "database"),
}
"""Metric -> the column it needs by the corrected rule, and by the published rule."""


def needed_columns(metric: str) -> tuple[str, ...]:
    """Return the columns a metric needs that the files of another harness may lack."""
    return _NEEDED.get(metric, ())


def imported_metric(name: str) -> Metric:
    """Return a metric that only the harness of a run can compute. Its imported values stay unchanged."""
    return Metric(
        name=name,
        title=name,
        description="A number of the harness that made the run, from its files.",
        source="The files of the run",
        corrected=not_computed(f"`{name}` can only be computed by the harness that made the run"),
    )


def on_imported_instances(metric: Metric) -> Metric:
    """Adapt a metric to instances from the files of another harness.

    Where these lack a column that the data has, no score is computed, and the reason says how to get the column.
    """
    if metric.name not in _NEEDED:
        return metric
    corrected, published = _NEEDED[metric.name]
    return replace(
        metric,
        corrected=_require_column(corrected, metric.corrected),
        published=_require_column(published, metric.function("published")),
        parts=_require_column(corrected, metric.parts) if metric.parts else None,
    )


def _require_column(column: str, function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Check that an instance has a column before calling the function with it."""

    def checked(completion: str, instance: Instance, *rule: Rule) -> _Result:
        if column not in instance.metadata:
            raise NotComputed(
                f"the files of the run lack the column `{column}`: rescore with --data and the folder of the data"
            )
        return function(completion, instance, *rule)

    return checked
