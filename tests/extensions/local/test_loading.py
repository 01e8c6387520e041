"""Which packages a model needs, how much memory is free, what fits into it, and how servers share GPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import MissingError
from medhelm.extensions.local import loading
from medhelm.extensions.local.loading import (
    MOST_TOKENS_ON_CPU,
    free_bytes,
    free_of_machine,
    tokens_that_fit,
)
from medhelm.extensions.local.vllm import shares, visible_gpus

GIB = 2**30


def test_packages_that_are_missing_or_too_old_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: dict[str, str] = {}
    monkeypatch.setattr(loading, "find_spec", lambda name: object() if name in installed else None)
    monkeypatch.setattr(loading, "version", installed.__getitem__)
    with pytest.raises(MissingError, match="hf/ needs torch and transformers: pip"):
        loading.check_packages()
    installed |= {"torch": "2.13.0", "transformers": "5.9.0"}
    with pytest.raises(MissingError, match=r"transformers 5\.13 or newer \(this is 5\.9\.0\): pip"):
        loading.check_packages()
    installed["transformers"] = "5.13.0rc1"
    loading.check_packages()


def machine(folder: Path, available: str = "MemAvailable:   8388608 kB\n") -> Path:
    file = folder / "meminfo"
    file.write_text(f"MemTotal:       16777216 kB\nMemFree:  1 kB\n{available}", encoding="ascii")
    return file


def container(folder: Path, limit: str, current: int = 3 * GIB, files: int = GIB) -> Path:
    group = folder / "group"
    group.mkdir(exist_ok=True)
    (group / "memory.max").write_text(f"{limit}\n", encoding="ascii")
    (group / "memory.current").write_text(f"{current}\n", encoding="ascii")
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {files}\nactive_file 7\n", encoding="ascii")
    return group


def test_the_machine_says_what_is_available_and_a_lower_limit_of_a_container_counts(tmp_path: Path) -> None:
    assert free_of_machine(machine(tmp_path), tmp_path / "none") == 8 * GIB
    assert free_of_machine(machine(tmp_path), container(tmp_path, "max")) == 8 * GIB
    assert free_of_machine(machine(tmp_path), container(tmp_path, str(4 * GIB))) == 2 * GIB  # files are given back
    assert free_of_machine(machine(tmp_path), container(tmp_path, str(64 * GIB))) == 8 * GIB
    assert free_of_machine(machine(tmp_path), container(tmp_path, str(GIB))) == 0


def test_where_nobody_says_nothing_is_known(tmp_path: Path) -> None:
    assert free_of_machine(tmp_path / "none", tmp_path / "none") is None
    assert free_of_machine(machine(tmp_path, "MemAvailable: lots\n"), tmp_path / "none") is None
    assert free_bytes("mps") is None
    assert tokens_that_fit(None, 2**17) == tokens_that_fit(2 * GIB, 2**17)


def test_how_much_a_batch_may_hold() -> None:
    assert tokens_that_fit(0, 1000) == 4096  # long prompts are tried at all
    assert tokens_that_fit(20_000_000, 1000) == 10_000  # half of what is free
    assert tokens_that_fit(2**50, 1000) == 262_144
    assert tokens_that_fit(2**50, 1000, MOST_TOKENS_ON_CPU) == MOST_TOKENS_ON_CPU


@given(st.integers(0, 9), st.integers(1, 12))
def test_gpus_are_never_promised_twice(gpus: int, servers: int) -> None:
    names = [str(number) for number in range(gpus)]
    promised = shares(names, servers)
    assert len(promised) == servers
    taken: dict[str, float] = {}
    for own, memory in promised:
        assert bool(own) == bool(gpus)
        for name in own:
            taken[name] = taken.get(name, 0.0) + memory
    assert all(part <= 0.9 + 0.01 for part in taken.values())


def program(folder: Path, says: str, code: int = 0) -> dict[str, str]:
    """An environment with an `nvidia-smi` that says this."""
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{says}'\nexit {code}\n", encoding="utf-8")
    (folder / "nvidia-smi").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_the_driver_says_which_gpus_this_container_may_use(tmp_path: Path) -> None:
    """The driver's folder names those of the whole machine: it is believed only where its program is missing."""
    driver = tmp_path / "driver"
    for name in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (driver / name).mkdir(parents=True)
    listed = "GPU 0: NVIDIA H100 (UUID: GPU-1)\\nGPU 1: NVIDIA H100 (UUID: GPU-2)\\n  MIG 1g Device 0: (UUID: MIG-1)\\n"
    there = program(tmp_path, listed)
    assert visible_gpus(there, driver) == ["0", "1"]
    assert visible_gpus(program(tmp_path, "No devices were found\\n", 6), driver) == ["0", "1", "2"]
    assert visible_gpus({"PATH": str(tmp_path / "none")}, driver) == ["0", "1", "2"]
    assert visible_gpus({"PATH": str(tmp_path / "none")}, tmp_path / "none") == []
    assert visible_gpus({**there, "CUDA_VISIBLE_DEVICES": " 3, GPU-7 "}, driver) == ["3", "GPU-7"]
    for none in ("", "-1", "NoDevFiles"):
        assert visible_gpus({**there, "CUDA_VISIBLE_DEVICES": none}, driver) == []
