"""Packages with plug-ins for tests: metadata as an installer writes it, on the path of this process only."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from medhelm.io import plugins

TEMPLATE = Path(__file__).parents[2] / "docs" / "how-to" / "plugin_template"
"""The package that users copy: a provider, a metric and a benchmark, all of which are named `ward`."""

Groups = Mapping[str, Mapping[str, str]]
"""Group of entry points -> name -> where it leads."""

_NUMBERS = count(1)


def write_metadata(site: Path, package: str, version: str, groups: Groups) -> None:
    """A `.dist-info` folder."""
    folder = site / f"{package.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), "")
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def install_template(site: Path, package: Path) -> Path:
    """Copy the template to `package`, and install it as `pip install --editable` does: its metadata in `site`."""
    shutil.copytree(TEMPLATE, package, ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    write_metadata(site, project["name"], project["version"], project["entry-points"])
    return package


def module_name() -> str:
    """One that no other test has."""
    return f"plugged_{next(_NUMBERS)}"


Install = Callable[..., str]
"""`install("package", "code", metrics={"name": "ATTRIBUTE"}, ...)`: writes a package of one module; gives its name."""


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, empty, first on the path."""
    folder = tmp_path_factory.mktemp("site")
    monkeypatch.syspath_prepend(folder)
    plugins.forget()
    yield folder
    plugins.forget()


@pytest.fixture
def install(site: Path) -> Install:
    """Installs small packages of one module each."""

    def put(package: str, code: str, *, version: str = "0.1", **groups: Mapping[str, str]) -> str:
        module = module_name()
        (site / f"{module}.py").write_text(code, encoding="utf-8")
        points = {
            f"medhelm.{group}": {
                name: f"{module}:{attribute}" if attribute else module for name, attribute in points.items()
            }
            for group, points in groups.items()
        }
        write_metadata(site, package, version, points)
        plugins.forget()
        return module

    return put


@pytest.fixture
def example(site: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a copy of the template, with one plug-in of each kind; its folder of code."""
    package = install_template(site, tmp_path_factory.mktemp("example") / "medhelm-ward")
    monkeypatch.syspath_prepend(package / "src")
    for name in [name for name in sys.modules if name.partition(".")[0] == "medhelm_ward"]:
        monkeypatch.delitem(sys.modules, name)
    plugins.forget()
    return package / "src" / "medhelm_ward"
