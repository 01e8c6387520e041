"""HELM: its configurable MedHELM benchmark, with models behind an OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.cells import Bench, Peer, write_json

PEER = Peer(
    name="helm",
    program="helm-run",
    package="crfm-helm",
    leftovers=("helm-out", "helm-env*/cache"),
    # At its start HELM looks for this folder and would download it; no metric here reads its content.
    folders=("nltk/tokenizers/punkt_tab",),
)


def run_command(
    bench: Bench, *, model: str, definition: str, environment: str, instances: int, concurrency: int
) -> list[str]:
    """Return the `helm-run` command for one definition.

    `environment` is a folder that `write_environment` wrote, and `definition` a YAML file, both in the work folder.
    """
    entry = f"medhelm_configurable_benchmark:model=mock/{model},model_deployment=mock/{model},config_path={definition}"
    command = [str(bench.program("helm", "helm-run")), "-r", entry, "--suite", "s"]
    command += ["-o", str(bench.work / "helm-out"), "--local-path", str(bench.work / environment)]
    return [*command, "-m", str(instances), "-n", str(concurrency)]


def read_mean(bench: Bench, metric: str) -> float:
    """Read the mean of a metric from the one run in the output folder."""
    (path,) = (bench.work / "helm-out").glob("runs/s/*/stats.json")
    stats = json.loads(path.read_text(encoding="utf-8"))
    mean: float = next(stat["mean"] for stat in stats if stat["name"]["name"] == metric)
    return mean


def write_environment(folder: Path, address: str, models: Sequence[str]) -> None:
    """Write HELM's model configuration: each model is `mock/NAME`, served at `address`."""
    folder.mkdir(exist_ok=True)
    tokenizer = {
        "name": "mock/words",
        "tokenizer_spec": {"class_name": "helm.tokenizers.simple_tokenizer.SimpleTokenizer"},
        "end_of_text_token": "",
        "prefix_token": "",
    }
    metadata = [
        {
            "name": f"mock/{name}",
            "display_name": name,
            "description": name,
            "creator_organization_name": "mock",
            "access": "open",
            "tags": ["TEXT_MODEL_TAG", "INSTRUCTION_FOLLOWING_MODEL_TAG"],
        }
        for name in models
    ]
    deployments = [
        {
            "name": f"mock/{name}",
            "model_name": f"mock/{name}",
            "tokenizer_name": "mock/words",
            "max_sequence_length": 128000,
            "client_spec": {
                "class_name": "helm.clients.vllm_client.VLLMChatClient",
                "args": {"base_url": address, "vllm_model_name": name},
            },
        }
        for name in models
    ]
    write_json(folder / "model_metadata.yaml", {"models": metadata})
    write_json(folder / "tokenizer_configs.yaml", {"tokenizer_configs": [tokenizer]})
    write_json(folder / "model_deployments.yaml", {"model_deployments": deployments})
