"""The studies of faults: the server's faults, kills before a change to files, and damaged files."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bench.studies import faults
from bench.studies.faulty_inputs import FORMATS, OTHERS, read_chunk


def test_damaged_files_of_every_kind_are_counted() -> None:
    found = read_chunk(1, range(len(FORMATS) + len(OTHERS)))
    assert found.total() == len(FORMATS) + len(OTHERS)
    assert {outcome for _, outcome in found} <= {"rows", "an error with advice"}


def test_command_is_killed_before_a_change(tmp_path: Path) -> None:
    benchmark = faults.make_benchmark(tmp_path, faults.CHOICE, 5)
    with faults.chaos_server("--share", "0") as server:
        words = ("run", str(benchmark), "--model", server.model("m"), "--store", str(tmp_path / "store"))
        code, _ = faults.medhelm(tmp_path, *words, kill_before=10)
        assert code < 0
        code, said = faults.medhelm(tmp_path, *words, kill_before=0)
        assert (code, int(said.rpartition("changes ")[2]) > 10) == (0, True)
        assert server.stats()["prompts"] == 5
    assert faults._problem_reading(tmp_path / "store") == ""
    (run,) = faults.records_of(tmp_path / "store")
    assert run[:4] == ["toy", "complete", 5, 0]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
