"""Statistical power of a suite as tables and as JSON, and the results of the power calculator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medhelm.reports.formats.fields import Field, fields_json, fields_table
from medhelm.reports.formats.json import select
from medhelm.reports.formats.tables import number

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import AdjacentModels, BenchmarkPower, Noise, PowerDesign, SuitePower

NEARLY = 1.05
"""Ratio of two detectable differences up to which they are shown as equal."""


def as_json(found: SuitePower) -> dict[str, Any]:
    """Return the output of `medhelm power --json`; differences are on a scale of 0 to 1."""
    return {
        "models": list(found.models),
        **_design_json(found.design),
        "difference": number(found.difference),
        "benchmarks": [fields_json(_benchmark_fields(found), one) for one in found.benchmarks],
        "neighbours": [fields_json(_adjacent_fields(found), one) for one in found.adjacent_models],
    }


def to_tables(found: SuitePower, format: str = "table") -> list[str]:
    """Return the table of benchmarks, and that of adjacent models."""
    return [_benchmarks_table(found, format), _adjacent_table(found, format)]


def _benchmark_fields(found: SuitePower) -> list[Field[BenchmarkPower]]:
    """Return the fields of a benchmark; tables show what a difference needs only if one is given."""
    asked = found.difference is not None
    return [
        Field("id", lambda one: one.column.benchmark, kind="text"),
        Field("title", lambda one: one.column.title, kind="text", heading="Benchmark"),
        Field("metric", lambda one: one.column.metric, kind="text",
              heading="Metric", text=lambda one: one.column.metric_title or one.column.metric, is_wide=True),
        Field("n", lambda one: one.observed.n, kind="whole number", heading="Instances"),
        Field("n_pairs", lambda one: one.observed.n_pairs, kind="whole number"),
        Field("sd", lambda one: one.observed.noise.sd, heading="SD of differences", is_wide=True),
        Field("disagreement", lambda one: one.observed.disagreement),
        Field("design_effect", lambda one: one.observed.noise.design_effect,
              heading="Design effect", places=2, is_wide=True),
        Field("detectable", lambda one: one.detectable, heading="Detectable now"),
        Field("mde", lambda one: one.mde),
        Field("power_reached", lambda one: one.power, heading="Power now" if asked else "", places=2),
        Field("needed", lambda one: one.needed, kind="whole number", heading="Instances needed" if asked else ""),
        Field("more", _more_instances, kind="whole number", heading="More" if asked else "", drop=1),
    ]  # fmt: skip


def _benchmarks_table(found: SuitePower, format: str) -> str:
    whose = " and ".join(found.models) if len(found.models) == 2 else f"all pairs of {len(found.models)} models"
    goal = "" if found.difference is None else f"; a true difference of {found.difference:g}"
    if any(map(_exceeds_mde, found.benchmarks)):
        goal += "; with few instances, more than the leaderboard's mde is needed to be detected"
    caption = f"{whose}: {_design_text(found.design)}{goal}"
    return fields_table(_benchmark_fields(found), found.benchmarks, format=format, caption=caption)


def _exceeds_mde(one: BenchmarkPower) -> bool:
    """Return whether instances are so few that the leaderboard's mde cannot be detected with them."""
    return bool(one.mde) and (one.detectable is None or one.detectable > NEARLY * (one.mde or 0.0))


def _more_instances(one: BenchmarkPower) -> int | None:
    """Return the instances that are needed in addition to the present ones; None if no number is enough."""
    return None if one.needed is None else max(0, one.needed - one.observed.n)


def _adjacent_fields(found: SuitePower, format: str = "table") -> list[Field[AdjacentModels]]:
    """Return the fields of two adjacent models; tables show what a difference needs only if one is given."""
    asked = found.difference is not None
    return [
        Field("first", lambda one: one.first, kind="text", heading="Model"),
        Field("second", lambda one: one.second, kind="text", heading="Compared with"),
        Field("n_benchmarks", lambda one: one.n_benchmarks, kind="whole number", heading="Benchmarks", drop=1),
        Field("seen", lambda one: one.observed_difference, heading="Observed difference", places=4),
        Field("standard_error", lambda one: one.standard_error),
        Field("difference", lambda one: one.power_estimate.difference),
        Field("detectable", lambda one: one.power_estimate.detectable, heading="Detectable now", places=4),
        Field("power_reached", lambda one: one.power_estimate.power,
              heading="Power now" if asked else "", places=2, drop=3),
        Field("times_instances", lambda one: one.power_estimate.times_instances,
              heading="Multiply instances by" if asked else "", places=1, drop=2),
        Field("benchmarks_needed", lambda one: one.power_estimate.benchmarks_needed, kind="whole number",
              heading="Benchmarks needed" if asked else "", text=None if format == "csv" else _benchmarks_needed,
              is_wide=True),
        Field("benchmarks_needed_low", lambda one: one.power_estimate.benchmarks_needed_low, kind="whole number"),
    ]  # fmt: skip


def _adjacent_table(found: SuitePower, format: str) -> str:
    caption = "Averages of adjacent models over the benchmarks that both have"
    if found.difference is not None:
        caption += f", if the true difference is {found.difference:g}"
    else:
        caption += "; add --difference to see the power, and what is needed, to detect a difference that matters"
    return fields_table(_adjacent_fields(found, format), found.adjacent_models, format=format, caption=caption)


def _benchmarks_needed(one: AdjacentModels) -> str | None:
    """Return the range of the benchmarks needed: if these differ as they seem to, and as much as they may."""
    low, high = one.power_estimate.benchmarks_needed_low, one.power_estimate.benchmarks_needed
    return None if low is None or high is None else f"{low:,}" if low == high else f"{low:,} to {high:,}"


def calculated(
    noise: Noise, design: PowerDesign, *, difference: float | None, instances: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the result of the power calculator, as JSON and in sentences."""
    from medhelm.analysis.comparison.power import MOST, detectable_difference, needed_instances, power_at

    needed = None if difference is None else needed_instances(noise, difference, design)
    smallest = None if instances is None else detectable_difference(noise, instances, design)
    reached = None if difference is None or instances is None else power_at(noise, instances, difference, design)
    content = {
        **_design_json(design),
        **select(noise, "sd disagreement design_effect", rounded=True),
        "difference": number(difference),
        "instances": instances,
        "needed": needed,
        "detectable": number(smallest),
        "power_reached": number(reached),
    }
    sentences = []
    if difference is not None and reached is not None:
        sentences.append(
            f"{instances:,} instances detect a true difference of {difference:g} with a power of {reached:.0%}."
        )
    if needed is not None:
        sentences.append(f"A true difference of {difference:g} needs {needed:,} instances ({_design_text(design)}).")
    elif difference is not None:
        sentences.append(f"A true difference of {difference:g} needs more than {MOST:,} instances.")
    if smallest is not None:
        sentences.append(
            f"{instances:,} instances detect true differences of {smallest:.4f} or more ({_design_text(design)})."
        )
    elif instances is not None:
        sentences.append(f"{instances:,} instances are too few to detect any difference ({_design_text(design)}).")
    return content, sentences


def _design_json(design: PowerDesign) -> dict[str, Any]:
    return select(design, "power alpha comparisons")


def _design_text(design: PowerDesign) -> str:
    shared = "" if design.comparisons == 1 else f" shared by {design.comparisons} comparisons"
    return f"power {design.power:g}, level {design.alpha:g}{shared}"
