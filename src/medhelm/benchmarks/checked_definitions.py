"""Definitions of the built-in benchmarks, checked in advance: reading them needs neither pydantic nor PyYAML.

`library/checked.json` holds each built-in benchmark with the digest of its files. After a change of these files the
definition is read and checked as any other. `make reference` writes the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any

from medhelm.benchmarks.definition import FILE_NAME, HOOKS, LIBRARY
from medhelm.domain import (
    AnswerField,
    Benchmark,
    Criterion,
    Floor,
    Rubric,
    RuleDescription,
    SampleRule,
    Source,
    Taxonomy,
)

CHECKED = LIBRARY / "checked.json"
"""Name of a built-in benchmark -> digest of its files, and its fields."""

_FROM_FILES = ("folder", "package")
"""Fields that depend on where the package is installed."""


@cache
def find_checked(name: str) -> Benchmark | None:
    """Return a built-in benchmark that was checked in advance; None for others, and if its files have changed."""
    entry = _entries().get(name)
    if entry is None or entry["files"] != files_digest(name):
        return None
    content = entry["benchmark"]
    rubrics = {key: _rubric(content[key]) for key in ("rubric", "extended_rubric") if key in content}
    return Benchmark(
        **_tuples(content)
        | rubrics
        | {
            "taxonomy": Taxonomy(**content["taxonomy"]),
            "source": Source(**content["source"]),
            "answer": AnswerField(**content["answer"]),
            "sample": SampleRule(**content.get("sample", {})),
            "samples": {key: SampleRule(**sample) for key, sample in content.get("samples", {}).items()},
            "rules": RuleDescription(**content.get("rules", {})),
        },
        folder=LIBRARY / name,
    )


def checked_entry(benchmark: Benchmark) -> dict[str, Any]:
    """Return the entry of a built-in benchmark in the file, without fields that have their default."""
    content = asdict(benchmark)
    defaults = {field.name: field.default for field in fields(Benchmark)}
    kept = {
        key: value
        for key, value in content.items()
        if key not in _FROM_FILES and getattr(benchmark, key) != defaults[key]
    }
    return {"files": files_digest(benchmark.name), "benchmark": kept}


def files_digest(name: str) -> str:
    """Return the sha256, in hex, of the definition and the hooks of a built-in benchmark."""
    digest = hashlib.sha256()
    for file in (LIBRARY / name / FILE_NAME, LIBRARY / name / HOOKS):
        content = file.read_bytes() if file.is_file() else b""
        digest.update(f"{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


@cache
def _entries() -> Mapping[str, Any]:
    entries: Mapping[str, Any] = json.loads(CHECKED.read_text(encoding="utf-8"))
    return entries


def _rubric(content: Mapping[str, Any]) -> Rubric:
    criteria = tuple(Criterion(**_tuples(one)) for one in content["criteria"])
    floors = tuple(Floor(**one) for one in content["floors"])
    return Rubric(**dict(content) | {"criteria": criteria, "floors": floors})


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object, lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
