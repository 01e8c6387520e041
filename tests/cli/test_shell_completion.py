"""Shell completion of names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from medhelm.benchmarks.catalog import GROUPS, load_benchmarks
from medhelm.cli import cli, shell_completion
from medhelm.models.providers import SERVICES
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.cli import Medhelm, succeeded


def complete(*words: str) -> list[str]:
    """What the shell would offer for the last word."""
    *before, incomplete = words
    found = BashComplete(cli, {}, "medhelm", "_MEDHELM_COMPLETE").get_completions(list(before), incomplete)
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in found]


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    succeeded(
        medhelm("run", "pubmed_qa", "--tier", "sample", "--model", "baseline/majority", "--model", "baseline/random")
    )
    return tmp_path / "medhelm-store"


def test_commands_options_and_choices_are_completed() -> None:
    assert complete("lea") == ["leaderboard"]
    assert complete("run", "--max-c") == ["--max-cost"]
    assert complete("leaderboard", "--suite", "pa") == ["paper35", *complete("compare", "--suite", "pat")]
    assert complete("leaderboard", "--by", "cat") == ["category"]
    assert complete("export", "card", "") == ["<file>"]


def test_benchmarks_groups_and_categories_are_completed() -> None:
    known = {benchmark.name for benchmark in load_benchmarks(["all", "additional"], metrics=METRIC_NAMES)}
    offered = set(complete("run", ""))
    assert known <= offered
    assert complete("show", "pub") == ["public", "pubmed_qa"]
    assert complete("run", "./my") == ["<file>"]


def test_the_names_written_here_are_those_of_the_program() -> None:
    assert {*GROUPS, "additional"} == set(shell_completion.GROUPS)
    built_in = {f"{name}/" for name in SERVICES.built_in} - {"baseline/"}
    assert built_in == set(shell_completion.PROVIDERS)


def test_models_come_from_models_yaml_and_the_store(store: Path) -> None:
    Path("models.yaml").write_text(
        "# mine\nward-qwen: {base_url: 'http://127.0.0.1:1/v1'}\n'openai/o3 x':\n  model: nested-key\n",
        encoding="utf-8",
    )
    assert complete("run", "--model", "ward") == ["ward-qwen"]
    assert complete("run", "--judge", "openai/") == ["openai/", "openai/o3 x"]
    assert complete("run", "--model", "nested") == []
    assert complete("compare", "") == ["baseline/majority", "baseline/random"]
    assert complete("--store", str(store), "power", "baseline/r") == ["baseline/random"]


def test_runs_removals_and_releases_are_completed(store: Path, medhelm: Medhelm) -> None:
    (folder,) = store.glob("runs/pubmed_qa/baseline_random-*")
    run = folder.name[-10:]
    assert run in complete("runs", "show", "")
    assert complete("runs", "remove", run[:6]) == [run]
    assert complete("runs", "list", "--benchmark", "pub") == ["pubmed_qa"]
    assert medhelm("runs", "remove", run, "--yes").code == 0
    (removal,) = (path.name for path in (store / "removed").iterdir())
    assert complete("runs", "restore", "") == complete("runs", "purge", removal[:4]) == [removal]
    assert medhelm("release", "first", "--tier", "sample").code == 0
    assert complete("verify", "") == complete("diff", "first", "f") == ["first"]


def test_nothing_fails_where_files_are_missing_or_damaged(store: Path, tmp_path: Path) -> None:
    for path in store.glob("runs/*/*/run.json"):
        path.write_bytes(b'{\n  "model": "a\\x",\n\xff')
    (tmp_path / "models.yaml").mkdir()
    assert complete("compare", "") == []
    assert "baseline/random" in complete("run", "--model", "")
    assert complete("--store", "no-such-folder", "compare", "") == []


def test_a_shell_gets_an_answer_without_large_imports(tmp_path: Path) -> None:
    words = {"_MEDHELM_COMPLETE": "bash_complete", "COMP_WORDS": "medhelm run pubmed", "COMP_CWORD": "2"}
    start = "import sys; sys.argv = ['medhelm']; from medhelm.__main__ import start; start()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", start],
        env={**os.environ, **words}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "plain,pubmed_qa\n"
    lines = [line.split("|") for line in done.stderr.splitlines()]
    assert all(len(cells) == 3 for cells in lines)  # nothing else is written
    imported = {cells[2].strip() for cells in lines}
    assert "medhelm.cli" in imported
    assert imported.isdisjoint({"aiohttp", "cryptography", "duckdb", "fsspec", "numpy", "starlette", "uvicorn"})
