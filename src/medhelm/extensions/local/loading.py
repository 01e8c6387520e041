"""Find the files of a model on this machine, and load them: weights on a device, tokenizer, chat template."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medhelm.domain import Message, Model
from medhelm.domain.completion import is_marker
from medhelm.errors import MedHelmError, MissingError, ProviderError, UserError
from medhelm.extensions.local.generation import LoadedNetwork, remembers_by_attention
from medhelm.models.provider import fold_system

DEVICE = "MEDHELM_HF_DEVICE"
"""Environment variable with the device, such as `cpu` or `cuda:1`; default: a GPU if the machine has one."""

OLDEST_TRANSFORMERS = (5, 13)
"""Oldest version of transformers with which all kinds of models compute, token by token, what `generate` does."""

SHARE_OF_MEMORY = 0.5
"""Share of the memory free after loading the weights that a batch may take, by estimate."""

FEWEST_TOKENS, MOST_TOKENS = 4096, 262_144
"""Limits of the tokens of a batch. The lower one lets long prompts be tried at all."""

MOST_TOKENS_ON_CPU = 16_384
"""Most tokens of a batch on a CPU. Larger batches are not faster there, show less progress, and lose more at Ctrl-C."""

ASSUMED_FREE_BYTES = 2 * 2**30
"""Bytes that are assumed to be free if the amount is unknown."""

MEMORY, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
"""Linux files about free memory: of the machine, and of the container of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in memory."""

    network: LoadedNetwork
    """The network, with the facts that generation needs."""
    chat: ChatTemplate
    """Converts messages to tokens, and tokens to text."""
    window: int | None
    """Most tokens of prompt and completion together; None if unknown."""
    batch_tokens: int
    """Most tokens of a batch, with padding: an estimate from the free memory."""
    device: str
    """Its device, such as `cuda:0`."""


def check_packages() -> None:
    """Check that the packages for models in this process are installed. Raises: MissingError if not."""
    needed = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if "transformers" not in needed and _version("transformers") < OLDEST_TRANSFORMERS:
        oldest = ".".join(map(str, OLDEST_TRANSFORMERS))
        needed.append(f"transformers {oldest} or newer (this is {version('transformers')})")
    if needed:
        raise MissingError(
            f"hf/ needs {' and '.join(needed)}: pip install --constraint constraints.txt '.[hf]' "
            "(constraints.txt names the version of torch)."
        )


def _version(package: str) -> tuple[int, ...]:
    """Return the first two numbers of an installed version."""
    return tuple(map(int, re.findall(r"\d+", version(package))[:2]))


def load(
    weights: ModelFiles, *, device: str = "", dtype: str = "", template_options: Mapping[str, Any] | None = None
) -> LoadedModel:
    """Load a model. Blocks until it is loaded.

    `device`: "" means a GPU if the machine has one. `dtype`: `float32`, `bfloat16` or `float16`; "" means that of the
    files, or float32 on a CPU.
    Raises: ProviderError, fatal, with code `not_loaded` or `out_of_memory`.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read at the first import: no network access
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()  # it would write into the progress display
    transformers.utils.logging.disable_progress_bar()
    place = str(weights.folder)
    device = device or _default_device()
    number_format = dtype or ("auto" if device.startswith("cuda") else "float32")
    _check_memory(weights, device, number_format)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)
        model, loading_info = transformers.AutoModelForCausalLM.from_pretrained(
            place,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=number_format if number_format == "auto" else getattr(torch, number_format),
            output_loading_info=True,
        )
        if loading_info["missing_keys"]:
            names = ", ".join(sorted(loading_info["missing_keys"])[:3])
            raise ValueError(f"weights are missing in its files: {names}. It may not be a text generation model.")
        batches = remembers_by_attention(model)
        model = model.eval().to(device)
    except Exception as error:
        raise _loading_error(error, weights, device) from error
    ends = _end_tokens(model, tokenizer)
    chat = ChatTemplate(tokenizer, template_options or {})
    network = LoadedNetwork(
        model=model,
        decode=chat.decode,
        ends=frozenset(ends | chat.ends()),
        padding=tokenizer.pad_token_id or 0,
        batches=batches,
        matrix=mean(parameter.numel() for parameter in model.parameters() if parameter.dim() > 1),
    )
    each = bytes_per_token(weights.config, model.dtype.itemsize)
    most = MOST_TOKENS_ON_CPU if device == "cpu" else MOST_TOKENS
    return LoadedModel(
        network=network,
        chat=chat,
        window=weights.window,
        batch_tokens=tokens_that_fit(free_bytes(device), each, most),
        device=str(model.device),
    )


def _default_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda:0"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _check_memory(weights: ModelFiles, device: str, number_format: str) -> None:
    """Check that the weights fit into memory; otherwise some kernels kill the process without a message.

    Raises: ProviderError, fatal, code `out_of_memory`, with the required and the free memory.
    """
    try:
        free = free_bytes(device)
    except (RuntimeError, AssertionError, ValueError):  # errors of torch for a missing device: loading reports them
        return
    needed = bytes_in_memory(weights.folder, {"float32": 4, "bfloat16": 2, "float16": 2}.get(number_format))
    if free is None or needed <= free:
        return
    halved = "halve that (models.yaml: `parameters: {dtype: bfloat16}`), " if number_format == "float32" else ""
    raise ProviderError(
        "out_of_memory",
        f"{weights.name} takes {needed / 1e9:,.1f} GB{'' if number_format == 'auto' else f' in {number_format}'}, "
        f"and {device} has {free / 1e9:,.1f} GB free: {halved}free memory of the device, or choose a smaller model",
        fatal=True,
    )


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Return the tokens that end a text, by the configuration and the tokenizer."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = set(named if isinstance(named, list) else [named]) | {tokenizer.eos_token_id}
    return {end for end in ends if isinstance(end, int)}


def _loading_error(error: BaseException, weights: ModelFiles, device: str) -> ProviderError:
    if is_short_of_memory(error):
        return ProviderError(
            "out_of_memory",
            f"{weights.name} does not fit into the memory of {device}. Free some memory, set {DEVICE} to "
            "another device, or choose a smaller model; vllm/ splits a model over several GPUs",
            fatal=True,
        )
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if "trust_remote_code" in reason or "custom code" in reason:
        reason = "it needs code from its own files, and such code is never executed"
    return ProviderError("not_loaded", f"{weights.folder} cannot be loaded: {reason}", fatal=True)


class _Options(BaseModel):
    """A model's `parameters` for hf/."""

    model_config = ConfigDict(strict=True, extra="forbid")

    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    seed: int = 0
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    version: str = ""  # set by `with_weights`


def check_options(name: str, parameters: Mapping[str, Any]) -> None:
    """Check a model's `parameters` for hf/. Raises: UserError with all that are unknown or have a wrong value."""
    try:
        _Options.model_validate(parameters)
    except ValidationError as error:
        known = ", ".join(sorted(_Options.model_fields.keys() - {"version"}))
        problems = [
            f"`{place}` is unknown. Known: {known}." if kind == "extra_forbidden" else f"`{place}`: {message}."
            for place, kind, message in ((".".join(map(str, e["loc"])), e["type"], e["msg"]) for e in error.errors())
        ]
        raise UserError("\n".join(f"{name}: parameters: {problem}" for problem in problems)) from None


# --- memory -----------------------------------------------------------------------------------------------------------


def free_bytes(device: str) -> int | None:
    """Return the free bytes of a device such as `cuda:0` or `cpu`; None if unknown."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return free_of_machine(MEMORY, GROUP) if device == "cpu" else None


def free_of_machine(memory: Path, group: Path) -> int | None:
    """Return the bytes available on the machine, or those left of the container's limit if that is less.

    The kernel kills a process that takes more, without a message. Source: proc(5), and the kernel's `cgroup-v2`.
    """
    free: list[int] = []
    with suppress(OSError, ValueError):
        for line in memory.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text(encoding="ascii"))  # `max`: unlimited
        rows = (line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        of_files = next(int(row[1]) for row in rows if row[0] == "inactive_file")  # reclaimed when needed
        free.append(limit - int((group / "memory.current").read_text(encoding="ascii")) + of_files)
    return max(min(free), 0) if free else None


def bytes_per_token(config: Mapping[str, Any], itemsize: int) -> int:
    """Estimate the bytes that a batch takes per token: keys and values, by the configuration, and as much again.

    Temporary memory is about as large as keys and values.

    >>> bytes_per_token({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...                  "hidden_size": 4096}, itemsize=2)
    262144
    """

    def number(*names: str) -> int:
        found = (config.get(name) for name in names)
        return next((value for value in found if isinstance(value, int) and value > 0), 0)

    heads = number("num_attention_heads", "n_head", "num_heads") or 1
    width = number("head_dim") or number("hidden_size", "n_embd", "d_model") // heads or 64
    layers = number("num_hidden_layers", "n_layer", "num_layers") or 1
    return 2 * 2 * layers * (number("num_key_value_heads") or heads) * width * itemsize


def tokens_that_fit(free: int | None, each: int, most: int = MOST_TOKENS) -> int:
    """Return the most tokens of a batch, from the free bytes (None if unknown) and the bytes per token.

    >>> tokens_that_fit(10 * 2**30, 262144), tokens_that_fit(0, 262144)
    (20480, 4096)
    """
    usable = int((ASSUMED_FREE_BYTES if free is None else free) * SHARE_OF_MEMORY)
    return max(FEWEST_TOKENS, min(most, usable // max(each, 1)))


def is_short_of_memory(error: BaseException) -> bool:
    """Return True if a computation failed because the GPU or the machine ran out of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error).lower()


# --- weights ----------------------------------------------------------------------------------------------------------
# Find and check the files of a model on this machine. Nothing is ever downloaded.
#
# A name is a folder (`./folder`, `../folder`, `~/folder`, `/folder`) or an id of the Hugging Face hub (`ORG/NAME`, with
# `@REVISION` for a revision other than `main`). Ids are looked up in the hub's local cache; huggingface.co/docs
# describes its layout (huggingface_hub, "Understand caching"). Weights are read from safetensors only: older files are
# pickles, which can run code when they are opened.

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@[\w./-]+)?", re.ASCII)
_FOLDER = re.compile(r"\.{0,2}/|~/|\.{1,2}$")
_COMMIT = re.compile(r"[0-9a-f]{40}")

INDEX = "model.safetensors.index.json"
_WINDOWS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
"""Keys of the context window in configurations; the first one present counts."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

_LONGEST_HEADER = 100 * 2**20
_LONGEST_JSON = 64 * 2**20
_INVALID_HEADER = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions from reading a malformed header."""
_SAMPLE_BYTES = 2048
"""Bytes of each tensor, at its beginning and in its middle, that go into the fingerprint of weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of one model."""

    name: str
    """The name that the user wrote."""
    folder: Path
    """The folder that holds them."""
    version: str
    """The version of their content: the hub's commit, or a digest of the files of a folder."""
    config: Mapping[str, Any]
    """`config.json`; for models of images and text, the part about text."""
    window: int | None
    """Most tokens of prompt and completion together; None if the configuration names no limit."""


def is_folder(name: str) -> bool:
    """Return True if a name has the form of a folder."""
    return _FOLDER.match(name) is not None


def check_name(name: str) -> None:
    """Check the form of a name. Raises: ValueError with the valid forms."""
    if not is_folder(name) and not _HUB_ID.fullmatch(name):
        raise ValueError("a name is an id of the hub, such as hf/ORG/NAME, or a folder, such as hf/./folder.")


def find_weights(name: str, environment: Mapping[str, str]) -> ModelFiles:
    """Return the files of the model of this name.

    Raises: MissingError if they are not on this machine, with the command that downloads them; UserError if they
    cannot be used.
    """
    if is_folder(name):
        folder, version = Path(name).expanduser(), ""
        if not folder.is_dir():
            raise MissingError(f"{name}: this folder does not exist: {folder.absolute()}.")
    else:
        folder, version = _find_in_cache(name, environment)
    config = _read_config(name, folder)
    check_files(name, folder)
    return ModelFiles(
        name=name, folder=folder, version=version or fingerprint(folder), config=config, window=window_in(config)
    )


def window_in(config: Mapping[str, Any]) -> int | None:
    """Return the context window in a model's configuration, in tokens; None if it names none.

    >>> window_in({"n_positions": 1024}), window_in({"model_type": "mamba"})
    (1024, None)
    """
    found = (config.get(key) for key in _WINDOWS)
    return next((size for size in found if isinstance(size, int) and not isinstance(size, bool) and size > 0), None)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the hub's local cache, found as the hub's own tools do."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if place := environment.get(variable, "").strip():
            return Path(place).expanduser()
    if home := environment.get("HF_HOME", "").strip():
        return Path(home).expanduser() / "hub"
    return Path(environment.get("XDG_CACHE_HOME", "").strip() or "~/.cache").expanduser() / "huggingface" / "hub"


def fetch_command(name: str) -> str:
    """Return the command that downloads a model into the cache.

    >>> fetch_command("ORG/NAME@v2")
    'hf download ORG/NAME --revision v2'
    """
    model, _, revision = name.partition("@")
    return f"hf download {model}" + (f" --revision {revision}" if revision else "")


def _find_in_cache(name: str, environment: Mapping[str, str]) -> tuple[Path, str]:
    """Return folder and commit of a model in the cache. Raises: MissingError if it is not there."""
    model, _, revision = name.partition("@")
    cache = cache_folder(environment)
    place = cache / f"models--{model.replace('/', '--')}"
    reference = place / "refs" / (revision or "main")
    commit = revision
    if reference.is_file() and ".." not in revision:
        commit = reference.read_text(encoding="utf-8", errors="replace").strip()
    if _COMMIT.fullmatch(commit) and (place / "snapshots" / commit).is_dir():
        return place / "snapshots" / commit, commit
    others = sorted(folder.name for folder in (place / "snapshots").glob("*") if folder.is_dir())
    if others:
        named = f"{model}@{others[0]}"
        raise MissingError(
            f"{name}: the cache at {cache} has only other versions of this model ({', '.join(others)}). "
            f"Name one of them, as in {named}, or run: {fetch_command(name)}"
        )
    raise MissingError(
        f"{name}: this model is not on this machine (looked in {cache}), and nothing is downloaded during a run. "
        f"Download it once with: {fetch_command(name)}   (Write a folder as ./folder.)"
    )


def _read_config(name: str, folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        if (folder / "adapter_config.json").is_file():
            raise UserError(
                f"{name}: {folder} holds an adapter (LoRA), not a model. Merge it into its base model first."
            )
        if any(folder.glob("*.gguf")):
            raise UserError(f"{name}: {folder} holds GGUF files: serve them with llama.cpp or Ollama.")
        raise UserError(f"{name}: {folder} does not hold a model: config.json is missing.")
    config = _read_json_object(name, file)
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def _read_json_object(name: str, file: Path) -> Mapping[str, Any]:
    try:
        if file.stat().st_size > _LONGEST_JSON:
            raise ValueError(f"it is larger than {_LONGEST_JSON:,} bytes")
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{name}: {file} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise UserError(f"{name}: {file} is not a JSON object.")
    return found


def check_files(name: str, folder: Path) -> None:
    """Check that weights and tokenizer are present, complete and in a supported format.

    Raises: UserError with every problem.
    """
    problems = [*_weight_problems(name, folder)]
    if not any((folder / file).is_file() for file in _TOKENIZERS):
        problems.append("it holds no tokenizer: tokenizer.json is missing.")
    if problems:
        raise UserError("\n".join(f"{name}: {folder}: {problem}" for problem in problems))


def _weight_problems(name: str, folder: Path) -> Iterator[str]:
    index = folder / INDEX
    if index.is_file():
        listed = _read_json_object(name, index).get("weight_map")
        files = sorted({str(file) for file in listed.values()}) if isinstance(listed, dict) else []
        if any(Path(file).name != file for file in files):
            yield f"{INDEX} names files outside the folder."
        elif missing := [file for file in files if not (folder / file).is_file()]:
            more = "" if is_folder(name) else f" Resume the download with: {fetch_command(name)}"
            yield f"{len(missing)} of {len(files)} weight files are missing, such as {missing[0]}.{more}"
    elif not (folder / "model.safetensors").is_file():
        pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
        if pickles:
            yield (
                f"its weights are pickles ({pickles[0]}), which can run code when they are opened; only safetensors "
                "are read. Many models have a revision with safetensors. Otherwise, convert the model in a safe "
                "environment: load it and save it with `save_pretrained`."
            )
        else:
            yield "it holds no weights: model.safetensors is missing."


def has_template(weights: ModelFiles) -> bool:
    """Return True if a model's files contain a chat template."""
    if any((weights.folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    with suppress(OSError, ValueError, RecursionError):
        held = json.loads((weights.folder / "tokenizer_config.json").read_bytes())
        return isinstance(held, dict) and bool(held.get("chat_template"))
    return False


def has_mistral_tokenizer(folder: Path) -> bool:
    """Return True if a model has Mistral's own tokenizer, which formats messages without a template."""
    return (folder / "tekken.json").is_file() or any(folder.glob("tokenizer.model.v*"))


def fingerprint(folder: Path) -> str:
    """Return a digest of 16 characters that differs between the models that may be saved in a folder.

    It covers small files completely. Of the weights it covers names, sizes and a sample of each tensor, so that even
    the largest model takes a fraction of a second.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".jinja", ".model", ".txt") and file.stat().st_size <= _LONGEST_JSON:
            digest.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
        elif file.suffix == ".safetensors":
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                for block in _header_and_samples(stream):
                    digest.update(block)
    return digest.hexdigest()[:16]


def bytes_in_memory(folder: Path, itemsize: int | None) -> int:
    """Return the bytes that the weights in a folder take in memory, by the headers of their files.

    `itemsize`: bytes of each floating-point number; None: as in the files. Unreadable files count 0.
    """
    total = 0
    for file in folder.glob("*.safetensors"):
        with suppress(OSError, *_INVALID_HEADER), file.open("rb") as stream:
            for tensor in _tensors(_header(stream)).values():
                start, end = tensor["data_offsets"]
                converted = itemsize is not None and tensor["dtype"] in ("F64", "F32", "F16", "BF16")
                total += prod(tensor["shape"]) * itemsize if converted and itemsize else end - start
    return total


def _header_and_samples(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the header of a safetensors file, and some bytes of each tensor."""
    header = _header(stream)
    yield header
    with suppress(*_INVALID_HEADER):
        for _, tensor in sorted(_tensors(header).items()):
            start, end = tensor["data_offsets"]
            for place in (start, (start + end) // 2):
                stream.seek(8 + len(header) + place)
                yield stream.read(min(_SAMPLE_BYTES, end - place))


def _header(stream: BinaryIO) -> bytes:
    """Return the header of a safetensors file; empty for any other file, which fails when it is loaded."""
    size = int.from_bytes(stream.read(8), "little")
    return stream.read(size) if 0 < size <= _LONGEST_HEADER else b""


def _tensors(header: bytes) -> dict[str, Any]:
    """Return name -> description of the tensors in a header. Raises: one of `_INVALID_HEADER`."""
    tensors: dict[str, Any] = json.loads(header or b"{}")
    return {name: tensor for name, tensor in tensors.items() if name != "__metadata__"}


def with_weights(model: Model, environment: Mapping[str, str]) -> Model:
    """Return a model with the context window and version of its files: other files make another model.

    Without files the model is returned unchanged; they are required when it is opened.
    Raises: ValueError if its name is neither an id of the hub nor a folder.
    """
    check_name(model.remote_name)
    try:
        weights = find_weights(model.remote_name, environment)
    except MedHelmError:
        return model
    window = weights.window if model.window is None else model.window
    return replace(model, window=window, parameters={**model.parameters, "version": weights.version})


# --- chat template ----------------------------------------------------------------------------------------------------
# Convert messages to the text of a prompt with the model's chat template.
#
# A template is code from the publisher of the model; `transformers` runs it in Jinja's sandbox.

THINK = "<think>"
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|endoftext|>")
"""Tokens with which chat models end a turn; some configurations omit theirs."""
_CHANNEL, _MESSAGE, _FINAL = "<|channel|>", "<|message|>", "final"
"""Tokens of models that write reasoning and answer into channels, such as gpt-oss; there `<|end|>` ends a channel only.
Source: OpenAI's "harmony" response format (developers.openai.com/cookbook)."""
_MARK = re.compile(r"<\|[a-z_]+\|>")


class ChatTemplate:
    """The chat template of one tokenizer."""

    def __init__(self, tokenizer: Any, options: Mapping[str, Any]) -> None:
        """`options`: arguments of the template, such as `enable_thinking`."""
        self._tokenizer = tokenizer
        self._options = dict(options)
        self.has_template = bool(tokenizer.chat_template)
        self._has_channels = self.has_template and _CHANNEL in str(tokenizer.chat_template)
        added_tokens = getattr(tokenizer, "added_tokens_decoder", {})
        special = {token: str(added) for token, added in added_tokens.items() if added.special}
        self._marks = {token for token, text in special.items() if is_marker(text)}
        self._hidden = special.keys() - self._marks
        self._supports_system: bool | None = None

    def text(self, messages: Sequence[Message]) -> str:
        """Return the prompt as text; without a template, the texts of the messages separated by blank lines.

        If the template does not support system messages, theirs go before the user's first message.
        Raises: ValueError with the template's error.
        """
        if not self.has_template:
            return "\n\n".join(message.text for message in messages)
        if any(message.role == "system" for message in messages):
            if self._supports_system is None:
                self._supports_system = self._renders_system(messages)
            messages = messages if self._supports_system else fold_system(messages)
        return self._render(messages)

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text from `text`; the template has already added special tokens."""
        readable = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = self._tokenizer(readable, add_special_tokens=not self.has_template)["input_ids"]
        return ids

    def ends(self) -> set[int]:
        """Return the tokens that end a turn, in addition to those in the model's configuration."""
        if not self.has_template:
            return set()
        known = self._tokenizer.get_added_vocab()
        marks = [mark for mark in _ENDS if not (self._has_channels and mark == "<|end|>")]
        return {known[mark] for mark in marks if mark in known and mark in self._tokenizer.chat_template}

    def decode(self, tokens: Sequence[int]) -> str:
        """Return tokens as text without special tokens; reasoning in its own channel is put between tags."""
        if self._marks:  # markers of reasoning that are special tokens, such as Magistral's: they must stay
            tokens = [token for token in tokens if token not in self._hidden]
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=not (self._has_channels or self._marks))
        return without_channels(text) if self._has_channels else text

    def _renders_system(self, messages: Sequence[Message]) -> bool:
        """Return True if the rendered text contains the system message; templates may reject or silently omit it."""
        system = next(message.text for message in messages if message.role == "system").strip()
        try:
            return system in self._render(messages)
        except ValueError:
            return False

    def _render(self, messages: Sequence[Message]) -> str:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **self._options
            )
        except Exception as error:  # foreign code may raise anything
            raise ValueError(f"the model's chat template rejects these messages: {error}") from error
        return text


def without_channels(text: str) -> str:
    """Join the channels of a text: reasoning between `<think>` tags, then the answer.

    >>> without_channels("<|channel|>analysis<|message|>A or B?<|end|><|start|>assistant<|channel|>final<|message|>B")
    '<think>A or B?</think>B'
    >>> without_channels("<|channel|>analysis<|message|>A or")
    '<think>A or'
    """
    before, *parts = text.split(_CHANNEL)
    thoughts, answer, answered = "", _MARK.sub("", before), not parts
    for part in parts:
        name, _, rest = part.partition(_MESSAGE)
        content = _MARK.split(rest, maxsplit=1)[0]
        if name.strip() == _FINAL:
            answer, answered = answer + content, True
        else:
            thoughts += content
    if not thoughts and answered:
        return answer
    return f"{THINK}{thoughts}</think>{answer}" if answered else f"{THINK}{thoughts}"
