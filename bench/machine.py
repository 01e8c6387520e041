"""Describe the machine, the versions, and the size of an installation."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.table import Goal

TOOLING = frozenset({"pip", "setuptools"})
"""Packages of a fresh environment."""


def describe() -> dict[str, Any]:
    """Return processor, cores, memory, system and Python version."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version(python: Path, package: str) -> str:
    """Return the version of a package in the environment of an interpreter; "unknown" if either is missing."""
    code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    if not python.exists():
        return "unknown"
    done = subprocess.run([python, "-c", code, package], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def measure_installation(project: Path, folder: Path) -> dict[str, float]:
    """Install `project` into a fresh environment; return its MiB below site-packages and its packages, without pip."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", str(project)], check=True)
    listing = subprocess.run([python, "-m", "pip", "list", "--format=json"], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    return {
        "install_mib": round(size_of(site) / (1 << 20), 1),
        "packages": len([entry for entry in json.loads(listing.stdout) if entry["name"] not in TOOLING]),
    }


def size_of(site: Path) -> int:
    """Return the bytes of all files below `site`, without pip, setuptools and bytecode."""
    files = (path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files if path.relative_to(site).parts[0] not in TOOLING)


def installation_goals(measured: Mapping[str, float]) -> list[Goal]:
    """Check size and packages of an installation; both are unmeasured if `measured` is empty."""
    return [
        Goal(name="installation size", value=measured.get("install_mib"), limit=300, unit="MiB"),
        Goal(name="installed packages", value=measured.get("packages"), limit=60, unit=""),
    ]
