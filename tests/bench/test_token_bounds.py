"""How many prompts have more tokens than they are taken to have at most."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.studies import token_bounds


@pytest.mark.parametrize(
    ("tokens", "share"),
    [([25] * 20, 0.0), ([25] * 10 + [1000] * 10, 1.0)],
    ids=["all alike", "those that were not seen are of another kind"],
)
def test_what_is_beyond(tokens: list[int], share: float) -> None:
    class First(random.Random):
        """Draws the first ones."""

        def sample(self, population: range, k: int) -> list[int]:  # type: ignore[override]
            return list(population)[:k]

    assert token_bounds.beyond([100] * 20, tokens, 10, First()) == share


def test_the_table_is_printed(data_dir: Path) -> None:
    command = [sys.executable, str(token_bounds.__file__), "--data", str(data_dir), "aci_bench"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = next(line for line in done.stdout.splitlines() if line.startswith("| aci_bench | 120 |"))
    assert all(float(cell.strip(" %")) < 5 for cell in row.split("|")[3:5])
