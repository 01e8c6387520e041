"""The harnesses: the command of each for a cell, what it leaves behind, and the accuracy it reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.workloads import exchange, jury, providers, suite
from bench.workloads import leaderboard as board
from bench.workloads import local as local_models
from bench.workloads.plain import W1_TEMPLATE

PEERS_FOLDER = Path(__file__).resolve().parent / "peers"
IN_FLIGHT = 64
"""Requests at once, where a cell says so."""

Mode = Literal[
    "help", "demo", "cold", "warm", "skip",
    "imports", "list", "sample-tier", "largest", "largest-again", "ehrshot-prompts", "ehrshot-run", "rouge",
    "intervals", "means", "benchmarks", "intervals-tenfold",
    "ranks", "export-helm", "export-parquet", "export-csv", "import", "summarize",
    "hf", "hf-gpu", "vllm",
    "openai", "azure", "anthropic", "google", "vertex", "bedrock",
]  # fmt: skip
"""Print the help; the demonstration; nothing kept from before; the same again from what was kept; the same again where
the finished run may be passed over. The second line: cells of the suite, see `suite.py`; the third: leaderboards, see
`board.py`; the fourth: exchange with others, see `exchange.py`; the fifth: models on this machine, see
`local_models.py`; the sixth: hosted providers, see `providers.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the table: one command, repeated."""

    harness: str
    """medhelm, suite, board, exchange, local, providers, helm, inspect or lmeval: a key of HARNESSES."""
    mode: Mode
    """What the command finds and does."""
    workload: str = "w1"
    """w1 (PubMedQA), invented, or jury (letters that judges grade)."""
    n: int = 0
    """Instances that the server is asked about; 0 where it is not asked."""
    latency_ms: int = 0
    """Time the server takes for each completion."""
    variant: str = ""
    """Options that differ from the harness's own defaults: c64 (64 at once), tuned; of the jury, see `jury.py`."""
    repetitions: int | None = None
    """Runs, where it is not what the command line asks for."""

    @property
    def name(self) -> str:
        """As tables and `--only` know it, such as `medhelm-c64/w1-1000/200ms/cold`."""
        harness = f"{self.harness}-{self.variant}" if self.variant else self.harness
        if self.n == 0:
            return f"{harness}/{self.mode}"
        return f"{harness}/{self.workload}-{self.n}/{self.latency_ms}ms/{self.mode}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where things are during one run of the script."""

    work: Path
    """Folder for everything written; the current folder of each process."""
    data: Path
    """Folder with one folder of data per benchmark."""
    medhelm: Path
    """Our command."""
    venvs: Path | None
    """Folder with one environment per peer."""
    addresses: Mapping[int, str]
    """Latency in ms -> base URL of the server with that latency."""

    @property
    def stdout(self) -> Path:
        """Where the standard output of the last process is; its standard error is beside it."""
        return self.work / "last.out"

    def program(self, peer: str, name: str) -> Path:
        """A command of a peer's environment."""
        return (self.venvs or Path("venvs")) / peer / "bin" / name


def environment(bench: Bench) -> dict[str, str]:
    """Environment of every measured process: no settings of ours, no proxies, no network of the peers' own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEDHELM_", "PYTHON"))}
    kept = {k: v for k, v in kept.items() if k.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
    return kept | {
        "OPENAI_API_KEY": "none",
        "MOCK_API_KEY": "none",
        "NO_PROXY": "127.0.0.1",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(bench.work / "hf"),
        "NLTK_DATA": str(bench.work / "nltk"),
        "INSPECT_CACHE_DIR": str(bench.work / "inspect-cache"),
    }


# --- ours -------------------------------------------------------------------------------------------------------------


def medhelm_command(cell: Cell, bench: Bench) -> list[str]:
    store = ["--store", str(bench.work / "medhelm-store")]
    if cell.mode == "help":
        return [str(bench.medhelm), "--help"]
    if cell.mode == "demo":
        return [str(bench.medhelm), "demo", *store]
    if cell.workload == jury.WORKLOAD:
        return jury.medhelm_command(cell, bench)
    invented = cell.workload == "invented"
    command = [str(bench.medhelm), "run", str(bench.work / f"invented_{cell.n}") if invented else "pubmed_qa"]
    command += ["--model", f"openai/mock@{bench.addresses[cell.latency_ms]}", *store, "--json"]
    if not invented:
        command += ["--data", str(bench.data), "--limit", str(cell.n)]
    if cell.variant == "c64":
        command += ["--concurrency", str(IN_FLIGHT)]
    return command


def read_medhelm(cell: Cell, bench: Bench) -> dict[str, float]:
    if cell.workload == jury.WORKLOAD:
        return jury.read_medhelm(cell, bench)
    report: dict[str, Any] = json.loads(bench.stdout.read_text(encoding="utf-8"))
    run = report["runs"][0]
    return {"accuracy": run["metrics"][run["main_metric"]]["value"], "seconds_inside": report["seconds"]}


# --- HELM -------------------------------------------------------------------------------------------------------------


def prepare_helm(bench: Bench) -> None:
    """Write W1 as a configurable benchmark, and one environment folder per server. JSON is YAML, so JSON it is."""
    (bench.work / "w1_prompt.txt").write_text(W1_TEMPLATE, encoding="utf-8")
    for size in (1, 1000):
        definition = {
            "name": f"W1-{size}",
            "description": "PubMedQA, one word",
            "prompt_file": "w1_prompt.txt",
            "dataset_file": f"w1_{size}.csv",
            "max_tokens": 8,
            "metrics": [{"name": "exact_match"}],
        }
        _write_json(bench.work / f"w1_{size}.yaml", definition)
    model = {
        "name": "mock/mock",
        "display_name": "mock",
        "description": "mock",
        "creator_organization_name": "mock",
        "access": "open",
        "tags": ["TEXT_MODEL_TAG", "INSTRUCTION_FOLLOWING_MODEL_TAG"],
    }
    tokenizer = {
        "name": "mock/words",
        "tokenizer_spec": {"class_name": "helm.tokenizers.simple_tokenizer.SimpleTokenizer"},
        "end_of_text_token": "",
        "prefix_token": "",
    }
    for latency_ms, address in bench.addresses.items():
        folder = bench.work / f"helm-env{latency_ms}"
        folder.mkdir(exist_ok=True)
        deployment = {
            "name": "mock/mock",
            "model_name": "mock/mock",
            "tokenizer_name": "mock/words",
            "max_sequence_length": 128000,
            "client_spec": {
                "class_name": "helm.clients.vllm_client.VLLMChatClient",
                "args": {"base_url": address, "vllm_model_name": "mock"},
            },
        }
        _write_json(folder / "model_metadata.yaml", {"models": [model]})
        _write_json(folder / "tokenizer_configs.yaml", {"tokenizer_configs": [tokenizer]})
        _write_json(folder / "model_deployments.yaml", {"model_deployments": [deployment]})
    # Its start looks for this folder and would download it; no metric here reads what belongs in it.
    (bench.work / "nltk" / "tokenizers" / "punkt_tab").mkdir(parents=True, exist_ok=True)


def helm_command(cell: Cell, bench: Bench) -> list[str]:
    if cell.mode == exchange.SUMMARIZE:
        return exchange.helm_command(bench)
    if cell.workload == jury.WORKLOAD:
        return jury.helm_command(cell, bench)
    entry = "medhelm_configurable_benchmark:model=mock/mock,model_deployment=mock/mock"
    command = [str(bench.program("helm", "helm-run")), "-r", f"{entry},config_path=w1_{cell.n}.yaml", "--suite", "s"]
    command += ["-o", str(bench.work / "helm-out"), "--local-path", str(bench.work / f"helm-env{cell.latency_ms}")]
    command += ["-m", "1000", "-n", str(IN_FLIGHT if cell.variant == "c64" else 4)]
    return [*command, "--skip-completed-runs"] if cell.mode == "skip" else command


def read_helm(cell: Cell, bench: Bench) -> dict[str, float]:
    if cell.mode == exchange.SUMMARIZE:
        return exchange.read_helm(bench)
    if cell.workload == jury.WORKLOAD:
        return jury.read_helm(cell, bench)
    (path,) = (bench.work / "helm-out").glob("runs/s/*/stats.json")
    stats = json.loads(path.read_text(encoding="utf-8"))
    return {"accuracy": next(s["mean"] for s in stats if s["name"]["name"] == "exact_match")}


# --- Inspect ----------------------------------------------------------------------------------------------------------


def prepare_inspect(bench: Bench) -> None:
    shutil.copyfile(PEERS_FOLDER / "inspect_w1.py.in", bench.work / "inspect_w1.py")


def inspect_command(cell: Cell, bench: Bench) -> list[str]:
    if cell.workload == jury.WORKLOAD:
        return jury.inspect_command(cell, bench)
    command = [str(bench.program("inspect", "inspect")), "eval", "inspect_w1.py", "-T", f"data=w1_{cell.n}.jsonl"]
    command += ["--model", "openai-api/mock/mock", "--model-base-url", bench.addresses[cell.latency_ms]]
    command += ["--max-connections", str(IN_FLIGHT), "--temperature", "0", "--max-tokens", "8"]
    command += ["--log-dir", str(bench.work / "inspect-out")]
    if cell.variant == "tuned":
        command += ["--display", "none", "--no-log-realtime", "--no-score-display"]
        command += ["--max-samples", str(2 * IN_FLIGHT), "--log-buffer", "1000"]
    else:
        command += ["--display", "plain"]
    return [*command, "-T", "cache=true"] if cell.mode == "warm" else command


def read_inspect(cell: Cell, bench: Bench) -> dict[str, float]:
    """Its log is compressed in a way that older Pythons cannot read, so its own command is asked."""
    if cell.workload == jury.WORKLOAD:
        return jury.read_inspect(cell, bench)
    newest = max((bench.work / "inspect-out").glob("*.eval"), key=lambda path: path.stat().st_mtime_ns)
    command = [str(bench.program("inspect", "inspect")), "log", "dump", "--header-only", str(newest)]
    header = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    metrics = header["results"]["scores"][0]["metrics"]
    return {"accuracy": metrics["mean"]["value"]}


# --- lm-eval ----------------------------------------------------------------------------------------------------------


def prepare_lmeval(bench: Bench) -> None:
    (bench.work / "lmeval-tasks").mkdir(exist_ok=True)
    for size in (1, 1000):
        definition = {
            "task": f"w1_{size}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(bench.work / f"w1_{size}.jsonl")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{input}}",
            "doc_to_target": "{{target}}",
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "temperature": 0},
            "metric_list": [
                {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}
            ],
        }
        _write_json(bench.work / "lmeval-tasks" / f"w1_{size}.yaml", definition)


def lmeval_command(cell: Cell, bench: Bench) -> list[str]:
    model = f"model=mock,base_url={bench.addresses[cell.latency_ms]}/chat/completions"
    command = [str(bench.program("lmeval", "lm_eval")), "run", "--model", "local-chat-completions", "--model_args"]
    command += [f"{model},num_concurrent={IN_FLIGHT},max_retries=1", "--tasks", f"w1_{cell.n}"]
    command += ["--include_path", str(bench.work / "lmeval-tasks"), "--apply_chat_template"]
    command += ["--output_path", str(bench.work / "lmeval-out"), "--log_samples"]
    return [*command, "--use_cache", str(bench.work / "lmeval-cache")] if cell.mode == "warm" else command


def read_lmeval(_: Cell, bench: Bench) -> dict[str, float]:
    newest = max((bench.work / "lmeval-out").rglob("results_*.json"), key=lambda path: path.stat().st_mtime_ns)
    results = json.loads(newest.read_text(encoding="utf-8"))["results"]
    return {"accuracy": next(iter(results.values()))["exact_match,none"]}


# --- all --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """How one harness is prepared, called and read."""

    command: Callable[[Cell, Bench], list[str]]
    """The command line for a cell."""
    leftovers: tuple[str, ...]
    """Patterns, in the work folder, of all that a run leaves: deleted before a cold one."""
    program: str = ""
    """Name of the command in its environment; empty for ours."""
    package: str = ""
    """Name of the distribution, for its version."""
    read: Callable[[Cell, Bench], dict[str, float]]
    """What the run just finished reports: `accuracy`, `seconds_inside` where it tells, and more by other names."""
    prepare: Callable[[Bench], None] | None = None
    """Write what it reads, where that is more than the questions."""


HARNESSES: Mapping[str, Harness] = {
    "medhelm": Harness(command=medhelm_command, leftovers=("medhelm-store",), package="medhelm", read=read_medhelm),
    "suite": Harness(command=suite.command, leftovers=(suite.STORE,), package="medhelm", read=suite.read),
    "board": Harness(command=board.command, leftovers=(), package="medhelm", read=board.read),
    "exchange": Harness(command=exchange.command, leftovers=exchange.LEFTOVERS, package="medhelm", read=exchange.read),
    "local": Harness(command=local_models.command, leftovers=(), package="medhelm", read=local_models.read),
    "providers": Harness(command=providers.command, leftovers=(), package="medhelm", read=providers.read),
    "helm": Harness(
        command=helm_command,
        leftovers=("helm-out", "helm-env*/cache"),
        program="helm-run",
        package="crfm-helm",
        prepare=prepare_helm,
        read=read_helm,
    ),
    "inspect": Harness(
        command=inspect_command,
        leftovers=("inspect-out", "inspect-cache"),
        program="inspect",
        package="inspect-ai",
        prepare=prepare_inspect,
        read=read_inspect,
    ),
    "lmeval": Harness(
        command=lmeval_command,
        leftovers=("lmeval-out", "lmeval-cache*"),
        program="lm_eval",
        package="lm-eval",
        prepare=prepare_lmeval,
        read=read_lmeval,
    ),
}


def wipe(harness: str, bench: Bench) -> None:
    """Delete all that runs of `harness` left."""
    for pattern in HARNESSES[harness].leftovers:
        for path in bench.work.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
