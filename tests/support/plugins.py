"""Packages with plug-ins for tests: metadata as an installer writes it, on the path of this process only."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from medhelm.io import plugins

EXAMPLE = Path(__file__).parents[1] / "example_plugin"
"""The example package of the documentation."""

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


def install_example(site: Path) -> None:
    """The example, as `pip install --editable` would put it there: its metadata in `site`, its code where it is."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    write_metadata(site, project["name"], project["version"], project["entry-points"])
    (site / "ward_example.pth").write_text(f"{EXAMPLE / 'src'}\n", encoding="utf-8")


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
def example(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example package, installed; gives its folder of code."""
    install_example(site)
    monkeypatch.syspath_prepend(EXAMPLE / "src")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ward_plugin"]:
        monkeypatch.delitem(sys.modules, name)
    plugins.forget()
    return EXAMPLE / "src" / "ward_plugin"
