"""Write the files that `helm-summarize` needs besides run folders: the schema of the tables and the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medhelm.exchange.helm.writer import GENERAL_METRICS

ALL_BENCHMARKS = "medhelm_scenarios"
"""Group of all benchmarks, as in HELM's own schema: its table `accuracy` is the leaderboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMetric:
    """A metric that the tables show."""

    name: str
    """Its name in HELM's files."""
    title: str
    """Heading of its column."""
    description: str
    """Description of the metric."""
    lower_is_better: bool | None = None
    """True if lower values are better; None if neither direction is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaBenchmark:
    """A benchmark that the tables show."""

    scenario: str
    """Its name in HELM's files."""
    title: str
    """Its display name."""
    description: str
    """Task of the model, in words."""
    category: str
    """Id of its category."""
    task: str
    """The task in words; may be empty."""
    main_metric: str
    """Name, in HELM's files, of the metric of its column."""
    split: str
    """The split that is shown."""


def write_schema(path: Path, benchmarks: Sequence[SchemaBenchmark], metrics: Sequence[SchemaMetric]) -> None:
    """Write the schema file, for `helm-summarize --schema-path`."""
    categories: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        categories.setdefault(benchmark.category, []).append(benchmark.scenario)
    content = {
        "metrics": [*({"name": name} for name in GENERAL_METRICS), *map(_metric, metrics)],
        "perturbations": [],
        "metric_groups": [
            {"name": "accuracy", "display_name": "Accuracy", "metrics": [_matcher("${main_name}")]},
            {
                "name": "efficiency",
                "display_name": "Efficiency",
                "hide_win_rates": True,
                "metrics": [_matcher("inference_runtime")],
            },
            {
                "name": "general_information",
                "display_name": "General information",
                "hide_win_rates": True,
                "metrics": [_matcher(name) for name in ("num_instances", "num_prompt_tokens", "num_output_tokens")],
            },
        ],
        "run_groups": [
            {
                "name": ALL_BENCHMARKS,
                "display_name": "MedHELM",
                "description": "All benchmarks",
                "category": "All scenarios",
                "subgroups": [_category(name) for name in categories],
            },
            *(
                {
                    "name": _category(name),
                    "display_name": name.replace("_", " ").capitalize(),
                    "description": f"Benchmarks of {name.replace('_', ' ')}",
                    "category": "Healthcare Task Categories",
                    "subgroups": scenarios,
                }
                for name, scenarios in categories.items()
            ),
            *map(_benchmark, benchmarks),
        ],
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")


def write_models(path: Path, models: Sequence[str]) -> None:
    """Write the models' metadata, for `helm-summarize --local-path`."""
    content = {
        "models": [
            {
                "name": name,
                "display_name": name,
                "description": "",
                "creator_organization_name": name.partition("/")[0],
                "access": "limited",
                "tags": ["TEXT_MODEL_TAG"],
            }
            for name in models
        ]
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _category(name: str) -> str:
    """Return the name of a category's group, distinct from benchmark names."""
    return f"category_{name}"


def _matcher(name: str) -> dict[str, str]:
    return {"name": name, "split": "${main_split}"}


def _metric(metric: SchemaMetric) -> dict[str, Any]:
    direction = {} if metric.lower_is_better is None else {"lower_is_better": metric.lower_is_better}
    return {
        "name": metric.name,
        "display_name": metric.title,
        "short_display_name": metric.title,
        "description": metric.description,
        **direction,
    }


def _benchmark(benchmark: SchemaBenchmark) -> Mapping[str, Any]:
    return {
        "name": benchmark.scenario,
        "display_name": benchmark.title,
        "short_display_name": benchmark.title,
        "description": benchmark.description,
        "metric_groups": ["accuracy", "efficiency", "general_information"],
        "environment": {"main_name": benchmark.main_metric, "main_split": benchmark.split},
        "taxonomy": {"task": benchmark.task, "language": "English"} if benchmark.task else {},
    }
