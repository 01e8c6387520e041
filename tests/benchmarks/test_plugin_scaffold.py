"""A new package of plug-ins works from the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Medhelm
from tests.support.plugins import install_example


@pytest.mark.parametrize(
    "kinds",
    [
        *(pytest.param((kind,), marks=pytest.mark.long) for kind in ("provider", "metric", "benchmark")),
        ("provider", "metric", "benchmark"),
    ],
)
def test_its_own_tests_pass_once_it_is_installed(
    medhelm: Medhelm, site: Path, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    options = [option for kind in kinds for option in ("--kind", kind)]
    made = medhelm("plugins", "new", "triage_distance", *options, "--out", tmp_path, "--json")
    package = tmp_path / "medhelm-triage-distance"
    assert made.json == {"name": "triage_distance", "kinds": list(kinds), "folder": str(package)}
    files = [path for path in package.rglob("*") if path.is_file()]
    assert not [path for path in files if "ward" in path.read_text(encoding="utf-8").lower()]

    install_example(site, package)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(package / "src")])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_plug_ins_cannot_have_one_name(medhelm: Medhelm, tmp_path: Path) -> None:
    for name, kind in (("openai", "provider"), ("exact_match", "metric"), ("pubmed_qa", "benchmark")):
        refused = medhelm("plugins", "new", name, "--kind", kind, "--out", tmp_path)
        assert (refused.code, f"`{name}` is already the name of a {kind}" in refused.err) == (2, True)
    assert medhelm("plugins", "new", "mine", "--kind", "metric", "--out", tmp_path).code == 0
    again = medhelm("plugins", "new", "mine", "--kind", "metric", "--out", tmp_path)
    assert (again.code, "already exists" in again.err) == (2, True)
    assert medhelm("plugins", "new", "Mine-2", "--kind", "metric", "--out", tmp_path).code == 2
