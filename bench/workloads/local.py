"""Cells about models on this machine: small ones in this process, and a stand-in for a server of our own.

They need torch and transformers in the environment of our command, and are left out where these are not; so is the one
that needs a GPU where there is none. `local_speed.py` does the work, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.cells import Bench, Cell

TOOLS = Path(__file__).resolve().parent.parent / "tools"

NEEDS = {
    "hf": "import torch, transformers",
    "hf-gpu": "import torch, transformers; assert torch.cuda.is_available()",
    "vllm": "",
}
"""Mode of a cell -> what must work in the environment of our command."""


def command(cell: Cell, bench: Bench) -> list[str]:
    """The command line of a cell."""
    return [_python(bench.medhelm), str(TOOLS / "local_speed.py"), cell.mode]


def read(cell: Cell, bench: Bench) -> dict[str, float]:  # noqa: ARG001 - as for all harnesses
    """What the process just finished reports, by name."""
    report: Any = json.loads(bench.stdout.read_text(encoding="utf-8"))
    return dict(report)


def can_run(mode: str, medhelm: Path) -> bool:
    """Whether a cell of this mode can be measured here."""
    if not NEEDS[mode]:
        return True
    words = [_python(medhelm), "-c", NEEDS[mode]]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _python(medhelm: Path) -> str:
    """The Python that our command belongs to."""
    return str(medhelm.parent / "python")
