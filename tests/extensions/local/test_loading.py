"""Finding the files of a model, and loading them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import MissingError, UserError
from medhelm.extensions.local import loading
from medhelm.extensions.local.loading import (
    MOST_TOKENS_ON_CPU,
    bytes_in_memory,
    check_name,
    find_weights,
    fingerprint,
    free_bytes,
    free_of_machine,
    tokens_that_fit,
)
from medhelm.extensions.local.vllm import shares, visible_gpus
from medhelm.models.catalog import find_models

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


# --- files of a model -------------------------------------------------------------------------------------------------

COMMIT, OTHER = "0" * 39 + "1", "a" * 40


def write_tensors(file: Path, *values: bytes) -> None:
    """A file of safetensors with tensors of bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for number, value in enumerate(values):
        header[f"t{number}"] = {"dtype": "U8", "shape": [len(value)], "data_offsets": [start, start + len(value)]}
        start += len(value)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values))


def write(folder: Path, **config: Any) -> Path:
    """What a model of the hub looks like."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_tensors(folder / "model.safetensors", b"a" * 10_000, b"b" * 9_000)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


def write_cached(cache: Path, name: str = "org/name", commit: str = COMMIT, reference: str = "main") -> Path:
    place = cache / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True, exist_ok=True)
    if reference:
        (place / "refs" / reference).write_text(commit, encoding="utf-8")
    return write(place / "snapshots" / commit, max_position_embeddings=2048)


def at(cache: Path) -> dict[str, str]:
    return {"HF_HUB_CACHE": str(cache)}


def test_a_model_in_the_cache(tmp_path: Path) -> None:
    folder = write_cached(tmp_path)
    found = find_weights("org/name", at(tmp_path))
    assert (found.folder, found.version, found.window) == (folder, COMMIT, 2048)
    assert find_weights(f"org/name@{COMMIT}", at(tmp_path)).folder == folder
    write_cached(tmp_path, commit=OTHER, reference="v2")
    assert find_weights("org/name@v2", at(tmp_path)).version == OTHER
    assert find_weights("org/name", at(tmp_path)).version == COMMIT


@pytest.mark.parametrize("name", ["org/name", "org/name@../../x", f"org/name@{OTHER}"])
def test_a_model_that_is_not_in_the_cache_has_a_command_that_fetches_it(name: str, tmp_path: Path) -> None:
    revision = name.partition("@")[2]
    command = "hf download org/name" + (f" --revision {revision}" if revision else "")
    with pytest.raises(MissingError) as absent:
        find_weights(name, at(tmp_path))
    write_cached(tmp_path, reference="")
    with pytest.raises(MissingError, match=f"has only other versions of this model .{COMMIT}.") as other:
        find_weights(name, at(tmp_path))
    assert all(command in str(raised.value) and raised.value.exit_code == 4 for raised in (absent, other))


def test_what_the_weights_take_in_memory(tmp_path: Path) -> None:
    """By the headers alone: files are not read, and their numbers may be converted."""
    folder = write(tmp_path / "a")
    header = {
        "a": {"dtype": "BF16", "shape": [10, 20], "data_offsets": [0, 400]},
        "b": {"dtype": "F32", "shape": [], "data_offsets": [400, 404]},
        "packed": {"dtype": "U8", "shape": [100], "data_offsets": [404, 504]},  # stays as it is
    }
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    assert [bytes_in_memory(folder, size) for size in (None, 4, 2)] == [504, 904, 502]
    (folder / "model.safetensors").write_bytes(b"\xff" * 99)
    assert bytes_in_memory(folder, 4) == 0


def test_a_folder_is_known_by_its_content(tmp_path: Path) -> None:
    first, copy = write(tmp_path / "a", n_positions=77), write(tmp_path / "b", n_positions=77)
    found = find_weights(str(first), {})
    assert (found.folder, found.window) == (first, 77)
    assert found.version == find_weights(str(copy), {}).version == fingerprint(first)
    versions = {found.version}
    write_tensors(copy / "model.safetensors", b"a" * 10_000, b"b" * 4_500 + b"c" + b"b" * 4_499)
    versions.add(fingerprint(copy))  # trained on: every tensor has changed, this one by a byte
    (first / "tokenizer.json").write_text('{"a": 1}', encoding="utf-8")
    versions.add(fingerprint(first))
    (first / "chat_template.jinja").write_text("x", encoding="utf-8")
    versions.add(fingerprint(first))
    (first / "README.md").write_text("x", encoding="utf-8")
    versions.add(fingerprint(first))  # no part of the model
    assert len(versions) == 4


def index_of(*files: str) -> str:
    return json.dumps({"weight_map": {f"t{number}": file for number, file in enumerate(files)}})


PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SPOILED: list[tuple[dict[str, str | None], str]] = [
    (
        {"model.safetensors": None, "pytorch_model.bin": ""},
        "its weights are pickles (pytorch_model.bin), which can run code",
    ),
    ({"config.json": None, "m.gguf": ""}, "holds GGUF files: serve them with llama.cpp or Ollama"),
    ({"config.json": None, "adapter_config.json": "{}"}, "holds an adapter (LoRA), not a model"),
    ({"model.safetensors": None, "tokenizer.json": None}, "model.safetensors is missing"),
    ({"tokenizer.json": None}, "tokenizer.json is missing"),
    (
        {"model.safetensors": None, PARTS[0]: "", "model.safetensors.index.json": index_of(*PARTS)},
        "1 of 2 weight files are missing, such as model-00002-of-00002.safetensors.",
    ),
    ({"model.safetensors.index.json": index_of("../../etc/passwd")}, "names files outside the folder"),
    ({"config.json": "[" * 100_000}, "config.json cannot be read"),
    ({"config.json": "[]"}, "config.json is not a JSON object"),
]


@pytest.mark.parametrize(("changes", "said"), SPOILED)
def test_what_cannot_be_used(changes: dict[str, str | None], said: str, tmp_path: Path) -> None:
    folder = write_cached(tmp_path)
    for name, content in changes.items():
        (folder / name).unlink(missing_ok=True)
        if content is not None:
            (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as raised:
        find_weights("org/name", at(tmp_path))
    assert said in str(raised.value)
    assert "weight files are missing" not in said or "Resume the download with: hf download" in str(raised.value)
    assert len(fingerprint(folder)) == 16


def test_names() -> None:
    for name in ("gpt2", "org/name@main", "./x", "/x", "~/x", ".", "org/na.me-1_2"):
        check_name(name)
    for name in ("", "a/b/c", "a b", "org/", "-x", "org/name@", "a\\b"):
        with pytest.raises(ValueError, match="a name is an id of the hub"):
            check_name(name)


def test_the_catalog_knows_version_and_window(tmp_path: Path) -> None:
    write_cached(tmp_path)
    names = ["hf/org/name", "vllm/org/name", "hf/org/absent"]
    cached, served, absent = find_models(names, file=None, environment=at(tmp_path))
    for model in (cached, served):
        assert (model.remote_name, model.window, model.parameters) == ("org/name", 2048, {"version": COMMIT})
    assert (absent.window, absent.parameters, absent.key_variable) == (None, {}, "")
    with pytest.raises(UserError, match="model `hf/a b`: a name is an id of the hub"):
        find_models(["hf/a b"], file=None, environment={})
