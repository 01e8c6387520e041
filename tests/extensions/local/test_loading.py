"""Which packages a model needs, how much memory is free, and what fits into it."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from medhelm.errors import MissingError
from medhelm.extensions.local import loading
from medhelm.extensions.local.loading import (
    MOST_TOKENS_ON_CPU,
    bytes_per_token,
    free_bytes,
    free_of_machine,
    tokens_that_fit,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({}, "hf/ needs torch and transformers: pip"),
        ({"torch": "2.13.0"}, "hf/ needs transformers: pip"),
        ({"torch": "2.13.0", "transformers": "5.9.0"}, "transformers 5.13 or newer (this is 5.9.0): pip"),
        ({"torch": "2.13.0", "transformers": "5.13.0rc1"}, ""),
        ({"torch": "2.13.0", "transformers": "6.0"}, ""),
    ],
)
def test_packages_that_are_missing_or_too_old_are_named(
    installed: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: object() if name in installed else None)
    monkeypatch.setattr(loading, "version", installed.__getitem__)
    with pytest.raises(MissingError, match=re.escape(message)) if message else nullcontext():
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


def test_the_machine_says_what_is_available(tmp_path: Path) -> None:
    assert free_of_machine(machine(tmp_path), tmp_path / "none") == 8 * GIB
    assert free_of_machine(machine(tmp_path), container(tmp_path, "max")) == 8 * GIB


def test_the_limit_of_a_container_counts_if_it_is_lower(tmp_path: Path) -> None:
    assert free_of_machine(machine(tmp_path), container(tmp_path, str(4 * GIB))) == 2 * GIB  # files are given back
    assert free_of_machine(machine(tmp_path), container(tmp_path, str(64 * GIB))) == 8 * GIB
    assert free_of_machine(machine(tmp_path), container(tmp_path, str(GIB))) == 0


def test_where_nobody_says_nothing_is_known(tmp_path: Path) -> None:
    assert free_of_machine(tmp_path / "none", tmp_path / "none") is None
    assert free_of_machine(machine(tmp_path, "MemAvailable: lots\n"), tmp_path / "none") is None
    assert free_bytes("mps") is None
    assert tokens_that_fit(None, 2**17) == tokens_that_fit(2 * GIB, 2**17)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="Linux says it there")
def test_this_machine_has_some() -> None:
    free = free_bytes("cpu")
    assert free is not None
    assert free > 0


def test_what_a_token_takes() -> None:
    """Two tensors a layer, of the heads of keys; and as much again for what else is needed."""
    config = {"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    assert bytes_per_token(config, 2) == 2 * (2 * 28 * 8 * 128 * 2)
    assert bytes_per_token({"n_layer": 12, "n_head": 12, "n_embd": 768}, 4) == 2 * (2 * 12 * 768 * 4)
    assert bytes_per_token({}, 4) > 0


def test_how_much_a_batch_may_hold() -> None:
    assert tokens_that_fit(0, 1000) == 4096  # long prompts are tried at all
    assert tokens_that_fit(20_000_000, 1000) == 10_000  # half of what is free
    assert tokens_that_fit(2**50, 1000) == 262_144
    assert tokens_that_fit(2**50, 1000, MOST_TOKENS_ON_CPU) == MOST_TOKENS_ON_CPU
