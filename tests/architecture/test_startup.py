"""The program as a process: how it starts and ends."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tools.code_size import code_lines


@pytest.mark.parametrize(
    ("code", "later"),
    [
        ("import medhelm.cli", {"pydantic", "aiohttp", "numpy", "duckdb", "yaml", "starlette", "uvicorn", "jinja2"}),
        (
            "import click; from medhelm.cli import cli; click.Context(cli).get_help()",
            {"medhelm.cli.run", "medhelm.cli.output", "asyncio"},
        ),
        (
            "import medhelm.results.leaderboard, medhelm.results.leaderboard_view, medhelm.cli.results",
            {"asyncio", "aiohttp", "pydantic", "yaml", "duckdb", "medhelm.models.client", "medhelm.benchmarks.data"},
        ),
        # What the end of a run needs is loaded while the first questions are on their way.
        (
            "import medhelm.evaluation.evaluate",
            {
                *("aiohttp", "numpy", "duckdb", "starlette", "cryptography", "fsspec", "pydantic", "yaml"),
                *("medhelm.extensions.vault", "medhelm.extensions"),
                *("medhelm.evaluation.batches", "medhelm.models.batch", "medhelm.analysis.planned_cost"),
            },
        ),
    ],
)
def test_what_is_needed_later_is_loaded_later(code: str, later: set[str]) -> None:
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "medhelm.errors" in done.stdout.split()
    assert later.isdisjoint(done.stdout.split())


CORE_LINES = 10_752
"""Most lines of code, without blank lines, comments and docstrings, that running an evaluation imports at first: whole
chapters, also where it needs a part of them. Lower this number when the core shrinks."""


def test_the_core_is_small() -> None:
    """A run loads what every run needs; providers, metrics, readers and batch APIs are loaded when they are used."""
    code = "import sys, medhelm.evaluation.evaluate; print(*(n for n in sys.modules if n.startswith('medhelm')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    files = {name: Path(str(import_module(name).__file__)) for name in done.stdout.split()}
    lines = {name: len(code_lines(file.read_text(encoding="utf-8"))) for name, file in files.items()}
    assert sum(lines.values()) <= CORE_LINES, sorted(lines.items(), key=lambda one: -one[1])[:30]
    later = ("extensions.web", "extensions.exchange", "extensions.local", "extensions.cluster.", "results", "reports")
    loaded = [name for name in lines if name.startswith((*(f"medhelm.{package}" for package in later), "medhelm.cli"))]
    loaded += [name for name in lines if name.startswith("medhelm.models.providers.")]
    assert set(loaded) <= {"medhelm.models.providers.errors"}
