"""Statistical power of a suite as tables and as JSON, and the results of the power calculator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from medhelm.reports.formats.json_output import select
from medhelm.reports.formats.tables import Value, decimal, number, render, shows_all, tabulate

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import AdjacentModels, BenchmarkPower, Noise, PowerDesign, SuitePower

FEW_NEED = ("SD of differences", "Design effect", "Metric")
"""Columns of benchmarks that only `--wide` and CSV show."""

NEARLY = 1.05
"""Ratio of two detectable differences up to which they are shown as equal."""

BENCHMARK_JSON = (
    "id=column.benchmark title=column.title metric=column.metric n=observed.n n_pairs=observed.n_pairs "
    "sd=observed.noise.sd disagreement=observed.disagreement design_effect=observed.noise.design_effect detectable mde "
    "power_reached=power needed"
)
"""JSON of a benchmark: key and field."""

ADJACENT_JSON = (
    "first second n_benchmarks seen=observed_difference standard_error difference=power_estimate.difference "
    "detectable=power_estimate.detectable power_reached=power_estimate.power "
    "times_instances=power_estimate.times_instances benchmarks_needed=power_estimate.benchmarks_needed "
    "benchmarks_needed_low=power_estimate.benchmarks_needed_low"
)
"""JSON of two adjacent models: key and field."""


def as_json(found: SuitePower) -> dict[str, Any]:
    """Return the output of `medhelm power --json`; differences are on a scale of 0 to 1."""
    return {
        "models": list(found.models),
        **_design_json(found.design),
        "difference": number(found.difference),
        "benchmarks": [
            {
                **select(one, BENCHMARK_JSON, rounded=True),
                "more": _more_instances(one),
            }
            for one in found.benchmarks
        ],
        "neighbours": [select(one, ADJACENT_JSON, rounded=True) for one in found.adjacent_models],
    }


def to_tables(found: SuitePower, format: str = "table") -> list[str]:
    """Return the table of benchmarks, and that of adjacent models."""
    return [_benchmarks_table(found, format), _adjacent_table(found, format)]


def _benchmarks_table(found: SuitePower, format: str) -> str:
    columns: dict[str, Callable[[BenchmarkPower], Value]] = {
        "Benchmark": lambda one: one.column.title,
        "Metric": lambda one: one.column.metric_title or one.column.metric,
        "Instances": lambda one: one.observed.n,
        "SD of differences": lambda one: decimal(one.observed.noise.sd),
        "Design effect": lambda one: decimal(one.observed.noise.design_effect, 2),
        "Detectable now": lambda one: decimal(one.detectable),
    }
    if not shows_all(format):
        columns = {name: cell for name, cell in columns.items() if name not in FEW_NEED}
    if found.difference is not None:
        columns |= {
            "Power now": lambda one: decimal(one.power, 2),
            "Instances needed": lambda one: one.needed,
            "More": _more_instances,
        }
    rows, headers = tabulate(found.benchmarks, columns)
    whose = " and ".join(found.models) if len(found.models) == 2 else f"all pairs of {len(found.models)} models"
    goal = "" if found.difference is None else f"; a true difference of {found.difference:g}"
    if any(map(_exceeds_mde, found.benchmarks)):
        goal += "; with few instances, more than the leaderboard's mde is needed to be detected"
    drop = ("Design effect", "SD of differences", "Metric", "More")
    return render(rows, headers, format=format, caption=f"{whose}: {_design_text(found.design)}{goal}", drop=drop)


def _exceeds_mde(one: BenchmarkPower) -> bool:
    """Return whether instances are so few that the leaderboard's mde cannot be detected with them."""
    return bool(one.mde) and (one.detectable is None or one.detectable > NEARLY * (one.mde or 0.0))


def _more_instances(one: BenchmarkPower) -> int | None:
    """Return the instances that are needed in addition to the present ones; None if no number is enough."""
    return None if one.needed is None else max(0, one.needed - one.observed.n)


def _adjacent_table(found: SuitePower, format: str) -> str:
    columns: dict[str, Callable[[AdjacentModels], Value]] = {
        "Model": lambda one: one.first,
        "Compared with": lambda one: one.second,
        "Benchmarks": lambda one: one.n_benchmarks,
        "Observed difference": lambda one: decimal(one.observed_difference, 4),
        "Detectable now": lambda one: decimal(one.power_estimate.detectable, 4),
    }
    caption = "Averages of adjacent models over the benchmarks that both have"
    if found.difference is not None:
        columns |= {
            "Power now": lambda one: decimal(one.power_estimate.power, 2),
            "Multiply instances by": lambda one: decimal(one.power_estimate.times_instances, 1),
        }
        if shows_all(format):
            columns["Benchmarks needed"] = _benchmarks_needed if format != "csv" else _most_benchmarks
        caption += f", if the true difference is {found.difference:g}"
    else:
        caption += "; add --difference to see the power, and what is needed, to detect a difference that matters"
    drop = ("Benchmarks", "Multiply instances by", "Power now")
    return render(*tabulate(found.adjacent_models, columns), format=format, caption=caption, drop=drop)


def _benchmarks_needed(one: AdjacentModels) -> str | None:
    """Return the range of the benchmarks needed: if these differ as they seem to, and as much as they may."""
    low, high = one.power_estimate.benchmarks_needed_low, one.power_estimate.benchmarks_needed
    return None if low is None or high is None else f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _most_benchmarks(one: AdjacentModels) -> int | None:
    return one.power_estimate.benchmarks_needed


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
