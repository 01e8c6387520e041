"""Stores the constant baseline of a benchmark on a selection of its data, once for all models."""

from __future__ import annotations

import json
from pathlib import Path

from medhelm.domain import ConstantBaseline
from medhelm.io.files import read_confidential
from medhelm.io.output_folder import write_confidential
from medhelm.storage.json_form import JsonForm, key_map

BASELINE = JsonForm(ConstantBaseline, key_map("answer share values metric"))


def write_baseline(path: Path, baseline: ConstantBaseline | None) -> None:
    """Store a constant baseline, or the fact that there is none."""
    write_confidential(path, json.dumps(BASELINE.write(baseline) if baseline else None, ensure_ascii=True) + "\n")


def read_baseline(path: Path) -> ConstantBaseline | None:
    """Read a constant baseline; None if there is none, or no file."""
    try:
        content = json.loads(read_confidential(path))
    except (OSError, ValueError):
        return None
    return BASELINE.read(content) if content else None
