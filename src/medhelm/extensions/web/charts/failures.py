"""Failures by reason: bars of counts, grouped by reason, or by model where there are more reasons than models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from medhelm.domain.text import listed, plural
from medhelm.reports.charts.chart import Chart, Drawing
from medhelm.reports.charts.rows import RowText, axis_below, lay_out, row_texts
from medhelm.reports.charts.svg import group, rect, short
from medhelm.reports.formats.tables import Value, number

MOST_ROWS = 60
"""Most bars; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Failed instances of one model for one reason."""

    model: str
    """Name, which can be any text."""
    reason: str
    """Failure code, such as `rate_limit`."""
    n: int
    """Failed instances, above 0."""
    n_instances: int
    """All instances of the run."""


def failures_chart(counts: Sequence[FailureCount], *, without: Sequence[str] = ()) -> Chart:
    """Return bars of failures, the most frequent first. `without`: models that have no failure."""
    known = [one for one in counts if one.n > 0]
    by_model, by_reason = _totals(known, "model"), _totals(known, "reason")
    is_by_reason = len(by_reason) <= len(by_model)
    if is_by_reason:
        ordered = sorted(known, key=lambda one: (-by_reason[one.reason], one.reason, -one.n, one.model))
    else:
        ordered = sorted(known, key=lambda one: (-by_model[one.model], one.model, -one.n, one.reason))
    table: list[list[Value]] = [
        [one.model, one.reason, one.n, one.n_instances, number(one.n / one.n_instances) if one.n_instances else None]
        for one in ordered
    ]
    notes = [f"No failures: {listed([short(model) for model in without], 10)}."] if without and ordered else []
    if len(ordered) > MOST_ROWS:
        notes.append(f"The picture has the first {MOST_ROWS} of {len(ordered)} bars; the table has all.")
    return Chart(
        name="failures", title="Failures by reason", description=_description(by_model, by_reason),
        draw=partial(_draw, ordered[:MOST_ROWS], is_by_reason),
        headers=("model", "reason", "failed", "instances", "share"), rows=table, notes=notes, has_data=bool(ordered),
    )  # fmt: skip


def _totals(counts: Sequence[FailureCount], field: Literal["model", "reason"]) -> dict[str, int]:
    """Return the failed instances by model or by reason."""
    found: dict[str, int] = {}
    for one in counts:
        name = getattr(one, field)
        found[name] = found.get(name, 0) + one.n
    return found


def _description(by_model: Mapping[str, int], by_reason: Mapping[str, int]) -> str:
    """Return the total and the most frequent reason."""
    if not by_model:
        return "No instance failed."
    reason = max(by_reason, key=lambda name: (by_reason[name], name))
    n = plural(sum(by_model.values()), "failed instance")
    most = f"{short(_reason_text(reason))}, {by_reason[reason]:,}"
    return f"{n} of {plural(len(by_model), 'model')}. Most frequent reason: {most}."


def _reason_text(reason: str) -> str:
    return reason.replace("_", " ")


def _draw(counts: Sequence[FailureCount], is_by_reason: bool, width: int) -> Drawing:
    """Draw one bar per model and reason, at least one."""
    words = [
        RowText(
            name=one.model if is_by_reason else _reason_text(one.reason),
            text=f"{one.n:,} of {one.n_instances:,} ({one.n / one.n_instances:.1%})"
            if one.n_instances
            else f"{one.n:,}",
            group=_reason_text(one.reason) if is_by_reason else one.model,
        )
        for one in counts
    ]
    layout = lay_out(words, width)
    most = max(one.n for one in counts)
    scale = layout.scale((0.0, float(most)))
    ticks = sorted({round(tick) for tick in scale.ticks(4 if layout.is_compact else 6)})
    bars = [
        rect(scale.start, top + 4, max(scale(one.n) - scale.start, 1.5), layout.mark_height - 8)
        for one, top in zip(counts, layout.tops, strict=True)
    ]
    axis = axis_below(layout, scale, "Failed instances", ticks=ticks)
    return layout.height, [axis, row_texts(words, layout), group("other", bars)]
