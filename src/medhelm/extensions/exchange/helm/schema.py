"""Write the files that `helm-summarize` needs in addition to run folders: the schema of the tables, and the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from medhelm.extensions.exchange.helm.writer import GENERAL_METRICS

ALL_BENCHMARKS = "medhelm_scenarios"
"""Group of all benchmarks, as in HELM's own schema: its table `accuracy` is the leaderboard."""


def metric_entry(name: str, title: str, description: str, *, lower_is_better: bool | None = None) -> dict[str, Any]:
    """Return the schema's entry for a metric.

    Parameters: name, its name in HELM's files; title, the heading of its column; lower_is_better, None if neither
    direction is better.
    """
    direction = {} if lower_is_better is None else {"lower_is_better": lower_is_better}
    return {
        "name": name,
        "display_name": title,
        "short_display_name": title,
        "description": description,
        **direction,
    }


def benchmark_entry(
    scenario: str, *, title: str, description: str, task: str, main_metric: str, split: str
) -> dict[str, Any]:
    """Return the schema's entry for a benchmark: a group of runs.

    Parameters: scenario and main_metric, its name and the metric of its column in HELM's files; description, the
    model's task in a sentence; task, in a few words, may be empty; split, the one that the tables show.
    """
    return {
        "name": scenario,
        "display_name": title,
        "short_display_name": title,
        "description": description,
        "metric_groups": ["accuracy", "efficiency", "general_information"],
        "environment": {"main_name": main_metric, "main_split": split},
        "taxonomy": {"task": task, "language": "English"} if task else {},
    }


def write_schema(
    path: Path, benchmarks: Sequence[tuple[str, Mapping[str, Any]]], metrics: Iterable[Mapping[str, Any]]
) -> None:
    """Write the schema file, for `helm-summarize --schema-path`.

    Parameters: benchmarks, the category and the entry of each; metrics, their entries.
    """
    categories: dict[str, list[str]] = {}
    for category, entry in benchmarks:
        categories.setdefault(category, []).append(entry["name"])
    content = {
        "metrics": [*({"name": name} for name in GENERAL_METRICS), *metrics],
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
            *(entry for _, entry in benchmarks),
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
