"""Runs of Inspect on our tasks, made in a process of its own as a user makes them; for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import medhelm

ROOT = Path(medhelm.__file__).parent.parent.parent
"""The project."""

SIDE = Path(__file__).with_name("inspect_program.py")
"""The program."""


def installed(folder: Path) -> Path:
    """A folder to put before all others where modules are found: it says that this package is installed as it is now.

    Its entry points are those of `pyproject.toml`, whatever was there when the environment was made.
    """
    place = folder / f"medhelm-{medhelm.__version__}.dist-info"
    place.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
              for group, named in project["entry-points"].items()]  # fmt: skip
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: medhelm\nVersion: {medhelm.__version__}\n")
    (place / "entry_points.txt").write_text("\n".join(points))
    origin = {"dir_info": {"editable": True}, "url": f"file://{ROOT}"}
    (place / "direct_url.json").write_text(json.dumps(origin))
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Environment of Inspect's process: no settings of the user, and no network."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEDHELM_", "INSPECT_"))}
    where = [str(installed(folder / "site")), str(ROOT / "src"), str(ROOT)]
    return kept | {
        "PYTHONPATH": os.pathsep.join(where),
        "INSPECT_CACHE_DIR": str(folder / "cache"),
        "INSPECT_DATA_DIR": str(folder / "data"),
        "HOME": str(folder),
    }


def evaluated(
    folder: Path,
    tasks: Sequence[str],
    parameters: dict[str, Any],
    mistakes: Mapping[str, tuple[str, dict[str, Any]]] | None = None,
    **options: int,
) -> dict[str, Any]:
    """Ask tasks with the scripted model; logs go to FOLDER/logs. Returns: what the program saw.

    `mistakes`: name -> task that cannot be made, and its parameters.
    """
    asked = json.dumps([tasks, parameters, options, mistakes or {}])
    process(folder, sys.executable, str(SIDE), str(folder / "logs"), asked)
    seen: dict[str, Any] = json.loads((folder / "logs" / "seen.json").read_text(encoding="utf-8"))
    return seen


def process(folder: Path, *command: str, fails: bool = False) -> str:
    """Run a program in Inspect's environment, and return what it wrote."""
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr
