"""Disk errors, kills and signals while commands write: no run is lost, and the same command then succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.studies.faults import disk


def disturb(folder: Path, trials: int, commands: list[str], kinds: list[str]) -> None:
    try:
        table, good = disk.study(trials, 1, folder, commands, kinds)
    except disk.Unavailable as error:
        pytest.skip(f"faults cannot be injected: {error}")
    assert good, table
    assert table.splitlines()[-1].replace(" ", "").startswith(f"|all|{trials}|")


def test_errors_kills_and_signals_lose_nothing(tmp_path: Path) -> None:
    disturb(tmp_path, 22, ["rescore", "benchmarks new"], [])


@pytest.mark.long
def test_no_command_loses_anything_at_many_of_its_changes(tmp_path: Path) -> None:
    disturb(tmp_path, len(disk.FAULTS) * len(disk.COMMANDS), [], [])


@pytest.mark.long
def test_an_error_in_one_run_loses_no_other_at_any_change(tmp_path: Path) -> None:
    disturb(tmp_path, 320, ["rescore"], ["EIO"])
