"""Cells about hosted providers: what each dialect costs beside the OpenAI-compatible one.

`provider_speed.py` does the work, in a process of its own that runs in the environment of our command and starts a
stand-in for the services.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.cells import Bench, Cell

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def command(cell: Cell, bench: Bench) -> list[str]:
    """The command line of a cell; its mode is the name of the provider."""
    return [str(bench.medhelm.parent / "python"), str(TOOLS / "provider_speed.py"), cell.mode]


def read(cell: Cell, bench: Bench) -> dict[str, float]:  # noqa: ARG001 - as for all harnesses
    """What the process just finished reports, by name."""
    report: Any = json.loads(bench.stdout.read_text(encoding="utf-8"))
    return dict(report)
