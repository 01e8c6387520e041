"""Small benchmarks for tests: one definition that others are changes of, and their data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from medhelm.benchmarks.definition import read_definition
from medhelm.benchmarks.hooks import trust
from medhelm.domain import Benchmark

METRICS = ("exact_match", "quasi_exact_match", "jury")
"""Metrics the definitions may name."""

TINY: Mapping[str, Any] = {
    "name": "tiny",
    "title": "Tiny",
    "description": "Three questions.",
    "taxonomy": {"category": "clinical_decision_support", "subcategory": "planning_treatments"},
    "access": "public",
    "source": {"kind": "jsonl", "files": {"rows.jsonl": ""}},
    "answer": "answer",
    "prompt": "{question}",
    "max_tokens": 5,
    "metrics": ["exact_match"],
}
"""A definition with the keys that must be there."""

Make = Callable[..., Benchmark]
"""`make_benchmark` with its folder filled in."""

Put = Callable[..., Path]
"""Writes rows as the real data of a benchmark, and gives the folder that holds all data."""


def make_benchmark(
    definitions: Path,
    *,
    hooks: str | None = None,
    sample_rows: Sequence[Mapping[str, object]] | None = None,
    source: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Benchmark:
    """Write a definition with changes to `TINY` (None takes a key out) into its folder below `definitions`; read it."""
    content = {**TINY, **changes, "source": {**TINY["source"], **(source or {})}}
    folder = definitions / content["name"]
    folder.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in content.items() if value is not None}
    (folder / "benchmark.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    if hooks is not None:
        (folder / "hooks.py").write_text(hooks, encoding="utf-8")
        trust(folder)
    if sample_rows is not None:
        write_rows(folder / "sample.jsonl", sample_rows)
    return read_definition(folder, metrics=METRICS)


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_folder(place: Path, definition: str, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write a definition, its data beside it and three of the rows as its sample; return the folder."""
    write_rows(place / "rows.jsonl", rows)
    write_rows(place / "sample.jsonl", rows[:3])
    (place / "benchmark.yaml").write_text(definition, encoding="utf-8")
    return place
