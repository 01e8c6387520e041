"""The core works without extensions, and says which one a command lacks. `test_layers` checks imports."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from medhelm.cli import cli
from medhelm.cli.releases import export
from medhelm.io.plugins import (
    CLIENTS,
    COMMANDS,
    EXTENSIONS,
    FILES,
    IMPORTERS,
    PAGES,
    PROVIDERS,
    PURGES,
    extension_targets,
    from_extension,
)
from tests.architecture.test_layers import SOURCE


def test_each_extension_declares_the_commands_that_the_core_expects_of_it() -> None:
    declared: dict[str, str] = {}
    for path in EXTENSIONS.glob("*/entry_points.txt"):
        points = ConfigParser(delimiters="=")
        points.read(path, encoding="utf-8")
        declared |= dict.fromkeys(points.options(COMMANDS), path.parent.name) if COMMANDS in points else {}
    assert declared == {
        **cli.extensions,
        **{f"export {name}": extension for name, extension in export.extensions.items()},
    }


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, but without its extensions."""
    package = tmp_path_factory.mktemp("core") / "medhelm"
    package.mkdir()
    for path in SOURCE.iterdir():
        if path.name not in ("extensions", "__pycache__"):
            (package / path.name).symlink_to(path)
    return package.parent


def run(core: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the core alone."""
    environment = {**os.environ, "PYTHONPATH": str(core), "HOME": str(folder)}
    words = [sys.executable, "-m", "medhelm", *command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600)


def test_the_core_evaluates_and_shows_results_without_extensions(core: Path, tmp_path: Path) -> None:
    evaluate = ("run", "pubmed_qa", "medec", "--tier", "sample", *("--model", "baseline/majority"))
    for command in (
        (*evaluate, "--model", "baseline/lexical"),
        ("leaderboard",),
        ("compare",),
        ("export", "csv", "tables"),
        ("plugins",),
    ):
        done = run(core, tmp_path, *command)
        assert (done.returncode, bool(done.stdout)) == (0, True), (command, done.stderr)
    shown = run(core, tmp_path, "--help").stdout
    assert "leaderboard" in shown
    missing = [name for name in cli.extensions if f"\n  {name} " in shown]
    assert (missing, "Exchange with other tools" in shown) == ([], True)


@pytest.mark.parametrize(
    ("command", "what", "extension"),
    [
        (("serve",), "`medhelm serve`", "web"),
        (("export", "site", "site"), "`medhelm export site`", "web"),
        (("leaderboard", "--store", "s3://bucket/board"), "--store s3://bucket/board", "exchange"),
        (("run", "--like", "runs", "--model", "baseline/majority"), "--like", "exchange"),
    ],
)
def test_what_needs_a_missing_extension_says_so(
    core: Path, tmp_path: Path, command: tuple[str, ...], what: str, extension: str
) -> None:
    done = run(core, tmp_path, *command)
    assert done.returncode == 4
    problem = f"{what} needs the extension `{extension}`, which this installation of MedHELM lacks."
    assert problem in done.stderr.replace("python -m medhelm", "medhelm")


GROUPS = (COMMANDS, PROVIDERS, IMPORTERS, CLIENTS, FILES, PAGES, PURGES)


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in extension_targets(group)])
def test_everything_that_is_declared_exists(group: str, name: str) -> None:
    assert from_extension(group, name, extension="", what=name) is not None
