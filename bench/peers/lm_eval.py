"""lm-eval: the harness of EleutherAI, on a task folder."""

from __future__ import annotations

import json

from bench.cells import CONCURRENCY, Bench, Peer

PEER = Peer(name="lmeval", program="lm_eval", package="lm-eval", leftovers=("lmeval-out", "lmeval-cache*"))


def run_command(bench: Bench, *, task: str, address: str) -> list[str]:
    """Return the `lm_eval run` command for a task of the folder `lmeval-tasks`."""
    model = f"model=mock,base_url={address}/chat/completions"
    command = [str(bench.program("lmeval", "lm_eval")), "run", "--model", "local-chat-completions", "--model_args"]
    command += [f"{model},num_concurrent={CONCURRENCY},max_retries=1", "--tasks", task]
    command += ["--include_path", str(bench.work / "lmeval-tasks"), "--apply_chat_template"]
    return [*command, "--output_path", str(bench.work / "lmeval-out"), "--log_samples"]


def read_exact_match(bench: Bench) -> float:
    """Read the exact match of the last run."""
    newest = max((bench.work / "lmeval-out").rglob("results_*.json"), key=lambda path: path.stat().st_mtime_ns)
    results = json.loads(newest.read_text(encoding="utf-8"))["results"]
    value: float = next(iter(results.values()))["exact_match,none"]
    return value
