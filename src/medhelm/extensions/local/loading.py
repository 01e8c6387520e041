"""Load a model from its files: weights on a device, tokenizer, chat template."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medhelm.errors import MissingError, ProviderError, UserError
from medhelm.extensions.local.generation import LoadedNetwork, remembers_by_attention
from medhelm.extensions.local.weights import ChatTemplate, ModelFiles, bytes_in_memory

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
