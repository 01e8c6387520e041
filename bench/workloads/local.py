"""Local models: small ones in the medhelm process, and a fake vLLM server.

These cells need torch and transformers in medhelm's environment, and one needs a GPU; they are skipped without them.
`tools/local_speed.py` does the work, in a process of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.cells import TOOLS, Bench, Cell, Workload
from bench.table import Goal, Row, by_mode, table

HARNESS = "local"
CELLS = (
    Cell(harness=HARNESS, mode="hf", repetitions=1),
    Cell(harness=HARNESS, mode="hf-gpu", repetitions=1),
    Cell(harness=HARNESS, mode="vllm", repetitions=1),
)
NEEDS = {
    "hf": "import torch, transformers",
    "hf-gpu": "import torch, transformers; assert torch.cuda.is_available()",
    "vllm": "",
}
"""Mode of a cell -> Python code that must run in medhelm's environment."""


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Do nothing: the processes write what they need."""


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell."""
    return [bench.python, str(TOOLS / "local_speed.py"), cell.mode]


def read(_: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports."""
    return dict(bench.report())


def can_run(cell: Cell, medhelm: Path) -> bool:
    """Return whether medhelm's environment has what a cell needs."""
    if not NEEDS[cell.mode]:
        return True
    words = [str(medhelm.parent / "python"), "-c", NEEDS[cell.mode]]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check every goal of the workload against the rows."""
    good = {mode: row.reported for mode, row in by_mode(rows, HARNESS).items()}

    def ratio(mode: str, above: str, below: str) -> float | None:
        return good[mode][above] / good[mode][below] if mode in good else None

    return [
        Goal(
            name="hf/ on CPU, speedup over sequential `generate`",
            value=ratio("hf", "ours_tokens_per_s", "one_tokens_per_s"),
            limit=2,
            unit="x",
            at_least=True,
        ),
        Goal(
            name="hf/ on CPU, speedup over `generate` in batches by arrival",
            value=ratio("hf", "ours_tokens_per_s", "batched_tokens_per_s"),
            limit=2,
            unit="x",
            at_least=True,
        ),
        Goal(
            name="vllm/, time per request relative to openai/",
            value=ratio("vllm", "openai_per_s", "vllm_per_s"),
            limit=1.5,
            unit="x",
        ),
    ]


def local_table(rows: Sequence[Row]) -> str:
    """Format tokens and requests per second; empty if no such row counts."""
    good = {mode: row.reported for mode, row in by_mode(rows, HARNESS).items()}
    lines: list[tuple[str, str]] = []
    if hf := good.get("hf"):
        size = f"{hf['requests']:.0f} requests of mixed lengths, {hf['tokens']:,.0f} generated tokens"
        lines += [
            (f"hf/ on CPU: {size}", f"{hf['ours_tokens_per_s']:,.0f} tokens/s"),
            (
                "sequential `generate`, with one thread or all: the faster",
                f"{hf['one_tokens_per_s']:,.0f} tokens/s",
            ),
            (
                "`generate` in batches of 16 by arrival, likewise",
                f"{hf['batched_tokens_per_s']:,.0f} tokens/s",
            ),
            ("completions identical to those of `generate`", f"{hf['same_answers']:.0f}"),
        ]
    if gpu := good.get("hf-gpu"):
        lines += [
            (f"hf/ on a GPU, {gpu['weights_gib']:.0f} GiB of random weights", f"{gpu['tokens_per_s']:,.0f} tokens/s"),
            ("share of the memory bandwidth", f"{gpu['share_of_bandwidth']:.0%}"),
            ("`generate` with the same batches", f"{gpu['same_batches_tokens_per_s']:,.0f} tokens/s"),
            ("`generate` in batches of 16 by arrival", f"{gpu['batched_tokens_per_s']:,.0f} tokens/s"),
            ("completions of mixed lengths: hf/", f"{gpu['mixed_tokens_per_s']:,.0f} tokens/s"),
            ("`generate` with the same batches", f"{gpu['mixed_same_batches_tokens_per_s']:,.0f} tokens/s"),
            ("`generate` in batches of 16 by arrival", f"{gpu['mixed_batched_tokens_per_s']:,.0f} tokens/s"),
        ]
    if vllm := good.get("vllm"):
        lines += [
            ("vllm/, fake server", f"{vllm['vllm_per_s']:,.0f} requests/s"),
            ("the same server as openai/", f"{vllm['openai_per_s']:,.0f} requests/s"),
        ]
    return table(["local models", "measured"], lines) if lines else ""


WORKLOAD = Workload(
    cells=CELLS, prepare=prepare, command=command, read=read, goals=goals, table=local_table, can_run=can_run
)
