"""What prompts share with those before them, counted by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import prefixes


def test_what_neighbours_share() -> None:
    found = prefixes.shares(["abcX", "zzz", "abcY"])
    assert (found.n, found.characters) == (3, round(11 / 3))
    assert (found.in_order, found.at_best) == pytest.approx((0, 3 / 11))
    assert (found.kept_in_order, found.kept_at_best) == (0, 0)


def test_only_long_prefixes_are_kept_and_in_steps() -> None:
    head = "h" * (prefixes.LEAST + prefixes.STEP + 5)
    found = prefixes.shares([head + "a", head + "b", head[: prefixes.LEAST - 1] + "c"])
    whole = 2 * (len(head) + 1) + prefixes.LEAST
    assert found.kept_in_order == pytest.approx((prefixes.LEAST + prefixes.STEP) / whole)
    assert found.in_order == pytest.approx((len(head) + prefixes.LEAST - 1) / whole)


def test_one_prompt_shares_nothing() -> None:
    assert prefixes.shares(["alone"]).in_order == 0


def test_the_table_is_printed(data_dir: Path) -> None:
    script = Path(prefixes.__file__)
    command = [sys.executable, str(script), "--data", str(data_dir), "aci_bench"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "| aci_bench | 120 | " in done.stdout
    assert "| aci_bench, judges | 120 | " in done.stdout
