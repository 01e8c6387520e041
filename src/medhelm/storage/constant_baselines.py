"""The floor of a benchmark on one selection of its data, stored once for all models."""

from __future__ import annotations

import json
from pathlib import Path

from medhelm.domain import ConstantBaseline
from medhelm.io.output_folder import write_file
from medhelm.storage.json_form import JsonForm

FLOOR = JsonForm(ConstantBaseline, {"answer": "answer", "share": "share", "values": "values", "metric": "metric"})


def write_baseline(path: Path, floor: ConstantBaseline | None) -> None:
    """Store a floor, or that there is none."""
    write_file(path, json.dumps(FLOOR.write(floor) if floor else None, ensure_ascii=True) + "\n")


def read_baseline(path: Path) -> ConstantBaseline | None:
    """The floor in a file; None if there is none, or no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return FLOOR.read(content) if content else None
