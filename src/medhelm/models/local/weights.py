"""Where the files of a model are on this machine, and whether they can be used. Nothing is downloaded, ever.

A name is a folder (`./folder`, `../folder`, `~/folder`, `/folder`) or an id of the Hugging Face hub (`ORG/NAME`, with
`@REVISION` for another than `main`), which is looked up in the local cache, whose layout huggingface.co/docs describes
(huggingface_hub, "Understand caching"). Weights are read from safetensors only: the older files are pickles, which run
code when they are opened.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from medhelm.domain import Model
from medhelm.errors import MedHelmError, MissingError, UserError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@[\w./-]+)?", re.ASCII)
_FOLDER = re.compile(r"\.{0,2}/|~/|\.{1,2}$")
_COMMIT = re.compile(r"[0-9a-f]{40}")

INDEX = "model.safetensors.index.json"
_WINDOWS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
"""What configurations call the number of tokens that a model can read; the first that is there counts."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

_LONGEST_HEADER = 100 * 2**20
_LONGEST_JSON = 64 * 2**20
_LOOKED_AT = 2048
"""Bytes of each tensor, at its beginning and in its middle, by which one set of weights is told from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of one model."""

    name: str
    """As the user wrote it."""
    folder: Path
    """Where they are."""
    version: str
    """Which of all contents the files may have: the hub's commit, or a digest of the files of a folder."""
    config: Mapping[str, Any]
    """`config.json`, of models for pictures and text the part about text."""
    window: int | None
    """Tokens that prompt and completion may have together; None if the configuration names no limit."""


def is_folder(name: str) -> bool:
    """Whether a name means a folder, by its form."""
    return _FOLDER.match(name) is not None


def checked_name(name: str) -> str:
    """The name, if it is one. Raises: ValueError with the forms that there are."""
    if is_folder(name) or _HUB_ID.fullmatch(name):
        return name
    raise ValueError("a name is the hub's, such as hf/ORG/NAME, or a folder, as in hf/./folder.")


def find_weights(name: str, environment: Mapping[str, str]) -> ModelFiles:
    """The files of the model of this name.

    Raises: MissingError if they are not on this machine, with the command that fetches them; UserError if what is there
    cannot be used.
    """
    if is_folder(name):
        folder, version = Path(name).expanduser(), ""
        if not folder.is_dir():
            raise MissingError(f"{name}: there is no such folder: {folder.absolute()}.")
    else:
        folder, version = _cached(name, environment)
    config = _config(name, folder)
    check_files(name, folder)
    return ModelFiles(
        name=name, folder=folder, version=version or fingerprint(folder), config=config, window=window_in(config)
    )


def window_in(config: Mapping[str, Any]) -> int | None:
    """Tokens that a model can read, by its configuration.

    >>> window_in({"n_positions": 1024}), window_in({"model_type": "mamba"})
    (1024, None)
    """
    found = (config.get(key) for key in _WINDOWS)
    return next((size for size in found if isinstance(size, int) and not isinstance(size, bool) and size > 0), None)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The hub's local cache, where its own tools look for it."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if place := environment.get(variable, "").strip():
            return Path(place).expanduser()
    if home := environment.get("HF_HOME", "").strip():
        return Path(home).expanduser() / "hub"
    return Path(environment.get("XDG_CACHE_HOME", "").strip() or "~/.cache").expanduser() / "huggingface" / "hub"


def fetch_command(name: str) -> str:
    """The command that brings a model into the cache.

    >>> fetch_command("ORG/NAME@v2")
    'hf download ORG/NAME --revision v2'
    """
    model, _, revision = name.partition("@")
    return f"hf download {model}" + (f" --revision {revision}" if revision else "")


def _cached(name: str, environment: Mapping[str, str]) -> tuple[Path, str]:
    """Folder and commit of a model in the cache."""
    model, _, revision = name.partition("@")
    cache = cache_folder(environment)
    place = cache / f"models--{model.replace('/', '--')}"
    reference = place / "refs" / (revision or "main")
    commit = revision
    if reference.is_file() and ".." not in revision:
        commit = reference.read_text(encoding="utf-8", errors="replace").strip()
    if _COMMIT.fullmatch(commit) and (place / "snapshots" / commit).is_dir():
        return place / "snapshots" / commit, commit
    there = sorted(folder.name for folder in (place / "snapshots").glob("*") if folder.is_dir())
    if there:
        named = f"{model}@{there[0]}"
        raise MissingError(
            f"{name}: the cache at {cache} has other versions of this model only ({', '.join(there)}). "
            f"Name one of them, as in {named}, or run: {fetch_command(name)}"
        )
    raise MissingError(
        f"{name}: this model is not on this machine (looked in {cache}), and nothing is downloaded during a run. "
        f"Fetch it once with: {fetch_command(name)}   {_here(name)}"
    )


def _here(name: str) -> str:
    """How a folder of this name would be written."""
    if Path(name).is_dir():
        return f"There is a folder of this name here: write ./{name} for it."
    return "(A folder is written ./folder.)"


def _config(name: str, folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        if (folder / "adapter_config.json").is_file():
            raise UserError(
                f"{name}: {folder} holds an adapter (LoRA), not a model. Merge it into its model and save that."
            )
        if any(folder.glob("*.gguf")):
            raise UserError(f"{name}: {folder} holds GGUF files: serve them with llama.cpp or Ollama.")
        raise UserError(f"{name}: {folder} holds no model: config.json is missing.")
    config = _json_object(name, file)
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def _json_object(name: str, file: Path) -> Mapping[str, Any]:
    try:
        if file.stat().st_size > _LONGEST_JSON:
            raise ValueError("it is too long")
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{name}: {file} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise UserError(f"{name}: {file} is not a JSON object.")
    return found


def check_files(name: str, folder: Path) -> None:
    """See that weights and tokenizer are there, whole and in a form that is read.

    Raises: UserError with everything that is wrong.
    """
    problems = [*_about_weights(name, folder)]
    if not any((folder / file).is_file() for file in _TOKENIZERS):
        problems.append("it holds no tokenizer: tokenizer.json is missing.")
    if problems:
        raise UserError("\n".join(f"{name}: {folder}: {problem}" for problem in problems))


def _about_weights(name: str, folder: Path) -> Iterator[str]:
    index = folder / INDEX
    if index.is_file():
        listed = _json_object(name, index).get("weight_map")
        files = sorted({str(file) for file in listed.values()}) if isinstance(listed, dict) else []
        if any(Path(file).name != file for file in files):
            yield f"{INDEX} names files outside the folder."
        elif missing := [file for file in files if not (folder / file).is_file()]:
            more = "" if is_folder(name) else f" Resume the download with: {fetch_command(name)}"
            yield f"{len(missing)} of {len(files)} files of weights are missing, such as {missing[0]}.{more}"
    elif not (folder / "model.safetensors").is_file():
        pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
        if pickles:
            yield (
                f"its weights are pickles ({pickles[0]}), which can run code when they are opened; only safetensors "
                "are read. Many models have a revision with them; else load and save it once where that is safe "
                "(`save_pretrained`)."
            )
        else:
            yield "it holds no weights: model.safetensors is missing."


def has_template(weights: ModelFiles) -> bool:
    """Whether a chat template comes with a model, as far as its files tell."""
    if any((weights.folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    with suppress(OSError, ValueError, RecursionError):
        held = json.loads((weights.folder / "tokenizer_config.json").read_bytes())
        return isinstance(held, dict) and bool(held.get("chat_template"))
    return False


def is_mistrals(folder: Path) -> bool:
    """Whether a model has Mistral's own tokenizer, which knows how messages are written without a template."""
    return (folder / "tekken.json").is_file() or any(folder.glob("tokenizer.model.v*"))


def fingerprint(folder: Path) -> str:
    """16 characters that tell the content of a folder from any other that training would leave there.

    Small files count whole; of the weights their names, forms and a sample of each tensor, so that it takes a fraction
    of a second for the largest model.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".jinja", ".model", ".txt") and file.stat().st_size <= _LONGEST_JSON:
            digest.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
        elif file.suffix == ".safetensors":
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                for block in _samples(stream):
                    digest.update(block)
    return digest.hexdigest()[:16]


def bytes_in_memory(folder: Path, itemsize: int | None) -> int:
    """Bytes that the weights in a folder take once they are loaded, by the headers of their files.

    `itemsize`: bytes of each number that is not whole; None: as the files have them. What cannot be read counts 0.
    """
    total = 0
    for file in folder.glob("*.safetensors"):
        with (
            suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError),
            file.open("rb") as stream,
        ):
            size = int.from_bytes(stream.read(8), "little")
            tensors = json.loads(stream.read(size)) if 0 < size <= _LONGEST_HEADER else {}
            for tensor in (told for name, told in tensors.items() if name != "__metadata__"):
                start, end = tensor["data_offsets"]
                converted = itemsize is not None and tensor["dtype"] in ("F64", "F32", "F16", "BF16")
                total += prod(tensor["shape"]) * itemsize if converted and itemsize else end - start
    return total


def _samples(stream: BinaryIO) -> Iterator[bytes]:
    """The header of a file of safetensors, and some bytes of each tensor."""
    size = int.from_bytes(stream.read(8), "little")
    if not 0 < size <= _LONGEST_HEADER:
        return  # It is no such file: loading it will say so.
    header = stream.read(size)
    yield header
    try:
        tensors = json.loads(header)
        spans = [tensors[name]["data_offsets"] for name in sorted(tensors) if name != "__metadata__"]
        for start, end in spans:
            for place in (start, (start + end) // 2):
                stream.seek(8 + size + place)
                yield stream.read(min(_LOOKED_AT, end - place))
    except (ValueError, LookupError, TypeError, AttributeError):
        return


def with_weights(model: Model, environment: Mapping[str, str]) -> Model:
    """Add what a model's files say: context window and version, so that other files make another model.

    Without files the model is returned as it is; they are required when it is opened.
    Raises: ValueError if its name is neither the hub's nor a folder.
    """
    checked_name(model.remote_name)
    try:
        weights = find_weights(model.remote_name, environment)
    except MedHelmError:
        return model
    window = weights.window if model.window is None else model.window
    return replace(model, window=window, parameters={**model.parameters, "version": weights.version})
