"""The program as a process: how it starts and ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def process(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "medhelm", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        (("--version",), 0, "medhelm, version", ""),
        (("benchmarks", "instances", "medbullets", "--tier", "sample"), 0, '"id"', ""),
        (("benchmarks", "show", "nothing"), 2, "", "unknown benchmark"),
        (("leaderboard", "--store", "nowhere"), 2, "", "no store at"),
        (("run", "pubmed_qa", "--model", "openai/gpt-4o", "--tier", "sample"), 4, "", "OPENAI_API_KEY"),
    ],
)
def test_everything_is_written_before_the_process_ends(
    command: tuple[str, ...], code: int, out: str, err: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running = process(*command)
    written = running.communicate(timeout=600)
    assert running.returncode == code
    assert out in written[0]
    assert err in written[1]
    assert "Traceback" not in written[1]


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    running = process("benchmarks", "instances", "medcalc_bench", "--tier", "sample")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert "Traceback" not in running.stderr.read()
    running.wait(600)
    running.stderr.close()


@pytest.mark.parametrize(
    ("code", "later"),
    [
        ("import medhelm.cli", {"pydantic", "aiohttp", "numpy", "duckdb", "yaml", "starlette", "uvicorn", "jinja2"}),
        (
            "import click; from medhelm.cli import cli; click.Context(cli).get_help()",
            {"medhelm.cli.run", "medhelm.cli.output", "asyncio"},
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


CORE_LINES = 10_550
"""Most lines of code, without blank lines, comments and docstrings, that running an evaluation imports at first: whole
chapters, also where it needs a part of them. Lower this number when the core shrinks."""

COUNT = """
import ast, io, sys, tokenize
import medhelm.evaluation.evaluate

def code_lines(text):
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for t in tokens if t.type not in layout for line in range(t.start[0], t.end[0] + 1)}
    return len(code - strings)

for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "medhelm":
        print(name, code_lines(open(module.__file__, encoding="utf-8").read()))
"""


def test_the_core_is_small() -> None:
    """A run loads what every run needs; providers, metrics, readers and batch APIs are loaded when they are used."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    lines = {name: int(n) for name, n in (line.split() for line in done.stdout.splitlines())}
    assert sum(lines.values()) <= CORE_LINES, sorted(lines.items(), key=lambda one: -one[1])[:30]
    elsewhere = (
        "medhelm.extensions.web",
        "medhelm.extensions.exchange",
        "medhelm.results",
        "medhelm.cli",
        *(
            "medhelm.extensions.local",
            "medhelm.extensions.cluster.gateway",
            "medhelm.extensions.cluster.ray",
            "medhelm.extensions.cluster.server_pool",
        ),
    )
    assert [name for name in lines if name.startswith(elsewhere)] == []
    loaded = {name for name in lines if name.startswith("medhelm.models.providers.")}
    assert loaded <= {"medhelm.models.providers.errors"}
