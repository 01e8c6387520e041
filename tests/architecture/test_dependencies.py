"""Lower bounds of dependencies, and the wheels for machines without a network."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from tools import wheelhouse

ROOT = Path(__file__).parents[2]

FIXED: Mapping[str, str] = {
    "aiohttp": "3.14.3",  # CVE-2026-69243, CVE-2026-69244
    "cryptography": "50.0",  # CVE-2026-69247
    "filelock": "3.20.3",  # CVE-2026-22701
    "h11": "0.16",  # CVE-2025-43859
    "jinja2": "3.1.6",  # CVE-2025-27516
    "pyarrow": "23.0.1",  # CVE-2026-25087
    "pydantic": "2.4",  # CVE-2024-3772
    "pyyaml": "5.4",  # CVE-2020-14343
    "ray": "2.56",  # CVE-2026-57516
    "starlette": "1.3.1",  # CVE-2026-54283
    "torch": "2.10",  # CVE-2026-24747
}
"""Package -> the first version without the published faults that concern how it is used here, or could be."""


def requirements() -> list[Requirement]:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = content["project"]
    return [
        *map(Requirement, project["dependencies"]),
        *map(Requirement, chain.from_iterable(project["optional-dependencies"].values())),
        *map(Requirement, chain.from_iterable(content["dependency-groups"].values())),
    ]


def test_no_version_with_a_published_fault_can_be_installed() -> None:
    below = []
    for one in requirements():
        fixed = FIXED.get(one.name.lower())
        lowest = next((Version(part.version) for part in one.specifier if part.operator in (">=", "==")), Version("0"))
        if fixed and lowest < Version(fixed):
            below.append(f"{one}: {fixed} is the first without published faults")
    assert below == []
    assert {*FIXED} <= {one.name.lower() for one in requirements()}


def test_requirements_without_a_network_name_the_hash_of_every_wheel(tmp_path: Path) -> None:
    """pip refuses a wheel that was changed on the way."""
    wheel = tmp_path / "tiny_thing-1.2-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    expected = f"tiny-thing==1.2 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    assert expected in wheelhouse.requirements(tmp_path).splitlines()


NEED_EXTRAS = {
    *(f"medhelm.extensions.exchange.inspect.{name}" for name in ("instances", "jury", "scorer", "task", "tasks")),
    "medhelm.extensions.vault.duckdb_files",
}
"""Modules and packages that import an extra at their top, and are themselves imported where it is known to be there."""

IMPORT_ALL = """
import importlib, pkgutil, sys
from importlib.metadata import packages_distributions, requires
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

base, found = set(), ["medhelm-eval"]
while found:
    name = canonicalize_name(found.pop())
    if name not in base:
        base.add(name)
        needed = map(Requirement, requires(name) or ())
        found += [one.name for one in needed if not one.marker or one.marker.evaluate({"extra": ""})]
modules = packages_distributions()
hidden = {name for name, packages in modules.items() if base.isdisjoint(map(canonicalize_name, packages))}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
    del sys.modules[name]
sys.meta_path.insert(0, Hidden())
import medhelm
for module in pkgutil.walk_packages(medhelm.__path__, "medhelm.", onerror=lambda name: None):
    if not module.name.endswith(("__main__", "sandbox_worker", "watchdog")):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:
            print(module.name)
"""


def test_modules_need_no_extra_to_be_imported() -> None:
    """Functions import extras, so that a base installation can import every module but a few."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == NEED_EXTRAS
