"""Small benchmarks, written into a temporary folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.support.benchmarks.definitions import Make, Put, make_benchmark, write_rows


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes definitions into `tmp_path/definitions`."""
    return partial(make_benchmark, tmp_path / "definitions")


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes rows into `tmp_path/data`."""

    def write(rows: Sequence[Mapping[str, object]], name: str = "tiny", file: str = "rows.jsonl") -> Path:
        write_rows(tmp_path / "data" / name / file, rows)
        return tmp_path / "data"

    return write
