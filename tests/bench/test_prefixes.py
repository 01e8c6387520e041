"""What prompts share with others, and what a cache saves on them, counted by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.studies import prefixes


@pytest.mark.parametrize(
    ("sent", "in_groups", "shared", "paid"),
    [
        ([("alone", 0)], 0.0, 0.0, 5.0),
        # 4 characters written into the cache and 2 beside it, then the 4 read there and 3 beside them
        ([("headab", 4), ("headabc", 4)], 1.0, 8 / 13, 1.25 * 4 + 2 + 0.1 * 4 + 3),
        ([("headab", 4), ("x", 0), ("tailab", 4)], 2 / 3, 8 / 13, 2 * (1.25 * 4 + 2) + 1),
    ],
)
def test_what_is_paid(sent: list[prefixes.Sent], in_groups: float, shared: float, paid: float) -> None:
    found = prefixes.shares(sent)
    whole = sum(len(text) for text, _ in sent)
    assert (found.n, found.characters) == (len(sent), round(whole / len(sent)))
    assert (found.in_groups, found.shared) == pytest.approx((in_groups, shared))
    assert found.saved == pytest.approx(1 - paid / whole)


def test_the_table_is_printed(data_dir: Path) -> None:
    script = Path(prefixes.__file__)
    command = [sys.executable, str(script), "--data", str(data_dir), "aci_bench", "ehrsql"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "| aci_bench | 120 | " in done.stdout
    assert "| aci_bench, judges | 120 | " in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("| ehrsql |"))
    assert "| 100.0 % |" in row, "all questions come with the same schema"
