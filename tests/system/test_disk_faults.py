"""Disk errors, kills and signals while commands write: no run is lost, and the same command then succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.studies.faults import disk


@pytest.mark.parametrize(
    ("trials", "commands", "kinds"),
    [
        pytest.param(len(disk.FAULTS), ["rescore"], [], id="errors, kills and signals"),
        pytest.param(len(disk.FAULTS) * len(disk.COMMANDS), [], [], id="every command", marks=pytest.mark.long),
        pytest.param(320, ["rescore"], ["EIO"], id="an error at any change", marks=pytest.mark.long),
    ],
)
def test_faults_while_commands_write_lose_nothing(
    tmp_path: Path, trials: int, commands: list[str], kinds: list[str]
) -> None:
    try:
        table, good = disk.study(trials, 1, tmp_path, commands, kinds)
    except disk.Unavailable as error:
        pytest.skip(f"faults cannot be injected: {error}")
    assert good, table
    assert table.splitlines()[-1].replace(" ", "").startswith(f"|all|{trials}|")
