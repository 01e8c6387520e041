"""Where models are looked for on this machine, and what is said of what lies there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import MissingError, UserError
from medhelm.extensions.local.loading import (
    bytes_in_memory,
    cache_folder,
    check_name,
    find_weights,
    fingerprint,
    has_mistral_tokenizer,
    has_template,
)
from medhelm.models.catalog import find_models

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


@pytest.mark.parametrize("name", ["org/name", "org/name@v9", "org/name@../../x", f"org/name@{OTHER}"])
def test_a_model_that_is_not_in_the_cache_has_a_command_that_fetches_it(name: str, tmp_path: Path) -> None:
    revision = name.partition("@")[2]
    command = "hf download org/name" + (f" --revision {revision}" if revision else "")
    with pytest.raises(MissingError) as raised:
        find_weights(name, at(tmp_path))
    assert command in str(raised.value)
    assert str(tmp_path) in str(raised.value)
    assert raised.value.exit_code == 4
    write_cached(tmp_path, reference="")
    with pytest.raises(MissingError, match=f"has only other versions of this model .{COMMIT}.") as raised:
        find_weights(name, at(tmp_path))
    assert command in str(raised.value)


def test_what_the_weights_take_in_memory(tmp_path: Path) -> None:
    """By the headers alone: files are not read, and their numbers may be converted."""
    folder = write(tmp_path / "a")
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [10, 20], "data_offsets": [0, 400]},
        "b": {"dtype": "F32", "shape": [], "data_offsets": [400, 404]},
        "packed": {"dtype": "U8", "shape": [100], "data_offsets": [404, 504]},  # stays as it is
    }
    text = json.dumps(header).encode()
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        (folder / name).write_bytes(len(text).to_bytes(8, "little") + text)
    (folder / "model.safetensors").unlink()
    assert bytes_in_memory(folder, None) == 2 * (400 + 4 + 100)
    assert bytes_in_memory(folder, 4) == 2 * (800 + 4 + 100)
    assert bytes_in_memory(folder, 2) == 2 * (400 + 2 + 100)
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"\xff" * 99)
    (folder / "model-00002-of-00002.safetensors").write_bytes((4).to_bytes(8, "little") + b"[{}]")
    assert bytes_in_memory(folder, 4) == 0


def test_whether_a_chat_template_comes_with_a_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    weights = find_weights(str(folder), {})
    assert not has_template(weights)
    for content in ('{"chat_template": "x"}', '{"chat_template": null}', "[", "[]"):
        (folder / "tokenizer_config.json").write_text(content, encoding="utf-8")
        assert has_template(weights) is ("x" in content)
    (folder / "chat_template.jinja").write_text("x", encoding="utf-8")
    assert has_template(weights)
    assert not has_mistral_tokenizer(folder)
    (folder / "tekken.json").touch()
    assert has_mistral_tokenizer(folder)


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder({}) == Path("/home/somebody/.cache/huggingface/hub")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/huggingface/hub")
    assert cache_folder({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}) == Path("/h/hub")
    assert cache_folder({"HF_HUB_CACHE": " /c\n", "HF_HOME": "/h"}) == Path("/c")


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


def test_the_fingerprint_of_a_file_that_is_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    for content in (b"", b"\xff" * 20, (4).to_bytes(8, "little") + b"[{}]", (9).to_bytes(8, "little") + b"x"):
        (folder / "model.safetensors").write_bytes(content)
        assert len(fingerprint(folder)) == 16


def test_models_for_pictures_have_their_text_part(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", vision_config={}, text_config={"max_position_embeddings": 99})
    assert find_weights(str(folder), {}).window == 99


def index_of(*files: str) -> str:
    return json.dumps({"weight_map": {f"t{number}": file for number, file in enumerate(files)}})


PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SPOILED: dict[str, tuple[dict[str, str | None], str]] = {
    "pickle": (
        {"model.safetensors": None, "pytorch_model.bin": ""},
        "its weights are pickles (pytorch_model.bin), which can run code",
    ),
    "gguf": ({"config.json": None, "m.gguf": ""}, "holds GGUF files: serve them with llama.cpp or Ollama"),
    "adapter": ({"config.json": None, "adapter_config.json": "{}"}, "holds an adapter (LoRA), not a model"),
    "no config": ({"config.json": None}, "config.json is missing"),
    "no weights": ({"model.safetensors": None}, "model.safetensors is missing"),
    "no tokenizer": ({"tokenizer.json": None}, "tokenizer.json is missing"),
    "half": (
        {"model.safetensors": None, PARTS[0]: "", "model.safetensors.index.json": index_of(*PARTS)},
        "1 of 2 weight files are missing, such as model-00002-of-00002.safetensors.",
    ),
    "outside": ({"model.safetensors.index.json": index_of("../../etc/passwd")}, "names files outside the folder"),
    "not json": ({"config.json": "{"}, "config.json cannot be read"),
    "deep": ({"config.json": "[" * 100_000}, "config.json cannot be read"),
    "list": ({"config.json": "[]"}, "config.json is not a JSON object"),
}


def spoil(folder: Path, kind: str) -> str:
    """Change files of a model, or delete them, and return what is said of that."""
    changes, said = SPOILED[kind]
    for name, content in changes.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content, encoding="utf-8")
    return said


@pytest.mark.parametrize("kind", SPOILED)
def test_what_cannot_be_used(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    said = spoil(folder, kind)
    with pytest.raises(UserError) as raised:
        find_weights(str(folder), {})
    assert said in str(raised.value)


def test_a_download_that_broke_off_says_how_to_resume_it(tmp_path: Path) -> None:
    spoil(write_cached(tmp_path), "half")
    with pytest.raises(UserError, match="Resume the download with: hf download org/name"):
        find_weights("org/name", at(tmp_path))


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    spoil(folder, "no weights")
    spoil(folder, "no tokenizer")
    with pytest.raises(UserError) as raised:
        find_weights(str(folder), {})
    assert len(str(raised.value).splitlines()) == 2


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="this folder does not exist"):
        find_weights(str(tmp_path / "none"), {})


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gpt2", "org/name", "org/name@main", "./x", "../x", "/x", "~/x", ".", "org/na.me-1_2"):
        check_name(name)
    for name in ("", "a/b/c", "a b", "org/", "-x", "org/name@", "a\\b"):
        with pytest.raises(ValueError, match="a name is an id of the hub"):
            check_name(name)


def test_the_catalog_knows_version_and_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_cached(tmp_path / "cache")
    folder = write(tmp_path / "mine", max_position_embeddings=64)
    names = ["hf/org/name", "hf/./mine", "vllm/./mine", "hf/org/absent"]
    cached, mine, served, absent = find_models(names, file=None, environment=at(tmp_path / "cache"))
    assert (cached.provider, cached.remote_name, cached.window) == ("hf", "org/name", 2048)
    assert cached.parameters == {"version": COMMIT}
    assert (mine.window, mine.parameters) == (64, {"version": fingerprint(folder)})
    assert (served.provider, served.parameters) == ("vllm", mine.parameters)
    assert (absent.window, absent.parameters, absent.key_variable) == (None, {}, "")
    with pytest.raises(UserError, match="model `hf/a b`: a name is an id of the hub"):
        find_models(["hf/a b"], file=None, environment={})


def test_models_yaml_adds_to_that(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", max_position_embeddings=64)
    file = tmp_path / "models.yaml"
    file.write_text(
        f"small: {{provider: hf, model: {folder}, window: 32, parameters: {{dtype: bfloat16}}}}\n"
        f"large: {{provider: vllm, model: {folder}, serve_arguments: [--max-model-len, 8192]}}\n",
        encoding="utf-8",
    )
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(f"wrong: {{provider: hf, model: {folder}, serve_arguments: [x]}}\n", encoding="utf-8")
    small, large = find_models(["small", "large"], file=file, environment={})
    version = fingerprint(folder)
    assert (small.window, small.parameters) == (32, {"dtype": "bfloat16", "version": version})
    assert large.parameters == {"serve_arguments": ["--max-model-len", 8192], "version": version}
    with pytest.raises(UserError, match="`serve_arguments` are for models that are served by vllm/NAME"):
        find_models(["wrong"], file=wrong, environment={})
