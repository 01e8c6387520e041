"""Lower bounds of dependencies, and the wheels for machines without a network."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import pytest
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


def test_every_test_that_needs_torch_or_a_real_model_is_one_of_make_test_models() -> None:
    listed = re.search(
        r"^MODEL_TESTS := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed
    places = [ROOT / name for name in listed[1].replace("\\", " ").split()]
    assert all(place.exists() for place in places)
    needing = re.compile(r"(?:importorskip|find_spec)\([\"]torch\"|random_weight[s]|(?:SERVER|BERTSCORE)_PACKAGE[S]")
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if needing.search(path.read_text(encoding="utf-8"))]
    assert len(tests) >= 7
    places.append(Path(__file__).parent)  # it only looks whether torch is there
    assert [path for path in tests if not any(path.is_relative_to(place) for place in places)] == []


def make_wheel(folder: Path, content: str = "X = 1\n") -> Path:
    """Write a wheel with one module."""
    info = "tiny_thing-1.2.dist-info"
    wheel = folder / "tiny_thing-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny_thing.py", content)
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.2\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", f"tiny_thing.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return wheel


def install(folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    options = (
        "--no-index",
        "--find-links",
        folder,
        "--require-hashes",
        "--target",
        target,
        "--quiet",
        "--no-cache-dir",
    )
    command = [sys.executable, "-m", "pip", "install", *map(str, options), "-r", str(folder / "requirements.txt")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_wheel_that_was_changed_on_the_way_is_not_installed(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder)
    (folder / "requirements.txt").write_text(wheelhouse.requirements(folder), encoding="utf-8")
    assert "tiny-thing==1.2 --hash=sha256:" in (folder / "requirements.txt").read_text(encoding="utf-8")
    done = install(folder, tmp_path / "installed")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed" / "tiny_thing.py").is_file()
    make_wheel(folder, "X = 2\n")
    done = install(folder, tmp_path / "other")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "other").exists()


def test_wheels_go_into_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wheelhouse.main([str(tmp_path)]) == 2
    assert "name a new folder" in capsys.readouterr().err
    assert wheelhouse.main([]) == 2


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
