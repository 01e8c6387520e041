"""Where the figures come from: machine, versions, and the weight of an installation."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

PIP_AND_KIN = frozenset({"pip", "setuptools"})
"""What a fresh environment holds before anything is installed."""


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system and Python."""
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
    """Version of a package in the environment of that Python; "unknown" if either is not there."""
    question = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    if not python.exists():
        return "unknown"
    done = subprocess.run([python, "-c", question, package], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def weigh_installation(project: Path, folder: Path) -> dict[str, float]:
    """Install `project` into a fresh environment: MiB below site-packages, and packages, without pip itself."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", str(project)], check=True)
    listing = subprocess.run([python, "-m", "pip", "list", "--format=json"], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    return {
        "install_mib": round(size_of(site) / (1 << 20), 1),
        "packages": len([entry for entry in json.loads(listing.stdout) if entry["name"] not in PIP_AND_KIN]),
    }


def size_of(site: Path) -> int:
    """Bytes of all files below `site`, without pip's own and without compiled bytecode."""
    files = (path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files if path.relative_to(site).parts[0] not in PIP_AND_KIN)
