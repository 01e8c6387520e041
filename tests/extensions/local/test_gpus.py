"""Which GPUs there are, and how servers and models share them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extensions.local.vllm import shares, tensor_parallel, visible_gpus


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


@given(st.integers(1, 16), st.integers(1, 128), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 300))
def test_a_model_is_split_as_vllm_can_split_it(gpus: int, groups: int, shared: int, blocks: int) -> None:
    """Its rules: heads divide; heads of keys divide or are copied evenly; so do widths and padded vocabularies."""
    heads, width = groups * shared, blocks * 64
    config = {"num_attention_heads": heads, "num_key_value_heads": shared, "intermediate_size": width}
    parts = tensor_parallel(gpus, config)
    assert 1 <= parts <= gpus
    assert heads % parts == 0
    assert shared % parts == 0 or parts % shared == 0
    assert width % parts == 0
    assert 64 % parts == 0  # vocabularies are padded to that
    if 2 * parts <= gpus:
        larger = 2 * parts
        assert heads % larger or width % larger or (shared % larger and larger % shared)


@pytest.mark.parametrize(
    ("gpus", "config", "parts"),
    [
        (8, {"num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944}, 4),  # Qwen2.5-7B
        (8, {"num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672}, 8),  # Llama-3.3-70B
        (6, {"num_attention_heads": 32, "num_key_value_heads": 8}, 4),
        (4, {"num_attention_heads": 12, "num_key_value_heads": 3}, 1),
        (4, {"num_attention_heads": "many"}, 4),
        (1, {}, 1),
    ],
)
def test_how_known_models_are_split(gpus: int, config: dict[str, Any], parts: int) -> None:
    assert tensor_parallel(gpus, config) == parts


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
