"""Benchmarks of installed packages: an entry point names a folder that holds benchmark folders.

    [project.entry-points."medhelm.benchmarks"]
    ward = "ward_plugin.benchmarks"

It is the folder of a package, or a `pathlib.Path` or a text in a module (`ward_plugin:FOLDER`). The name of the entry
point stands for all benchmarks in it, as the name of a group does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from medhelm.benchmarks.definition import FILE_NAME
from medhelm.errors import UserError
from medhelm.io import plugins
from medhelm.io.plugins import Plugin, check_plugin_name, declared, only, taken


@dataclass(slots=True, kw_only=True)
class PackagedBenchmarks:
    """What all packages have."""

    folders: dict[str, Path] = field(default_factory=dict)
    """Benchmark -> its folder."""
    packages: dict[str, str] = field(default_factory=dict)
    """Benchmark -> the package that it comes with."""
    held: dict[Plugin, tuple[str, ...]] = field(default_factory=dict)
    """Entry point -> the benchmarks in its folder, had or not."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of an entry point -> its benchmarks that can be had."""
    problems: dict[str, str] = field(default_factory=dict)
    """Name of an entry point or a benchmark that cannot be had -> why."""


def find_packaged_benchmarks(own: Collection[str]) -> PackagedBenchmarks:
    """Import every package that has benchmarks, and see which. Opens no definition. Never raises for what is wrong.

    `own`: the names that exist without packages, of benchmarks, their aliases and groups. They stay what they are.
    """
    found = PackagedBenchmarks()
    having: dict[str, list[tuple[Plugin, Path]]] = {}
    for name, entries in declared(plugins.BENCHMARKS).items():
        try:
            plugin = only(entries)
            if plugin is None or name in own:
                raise taken(entries[0])
            folders = list(_folders(plugin))
        except UserError as error:
            found.problems[name] = str(error)
            continue
        found.groups[name] = found.held[plugin] = tuple(folder.name for folder in folders)
        for folder in folders:
            having.setdefault(folder.name, []).append((plugin, folder))
    for name, places in having.items():
        try:
            plugin = only([plugin for plugin, _ in places], name)
            if plugin is None or name in own:
                raise taken(places[0][0], name)
        except UserError as error:
            found.problems[name] = str(error)
        else:
            found.folders[name], found.packages[name] = places[0][1], plugin.package
    found.groups = {
        group: tuple(name for name in names if name in found.folders) for group, names in found.groups.items()
    }
    return found


def _folders(plugin: Plugin) -> Iterator[Path]:
    """The benchmark folders that an entry point leads to. Raises: UserError if it leads to none."""
    check_plugin_name(plugin)
    place = _place(plugin, plugin.load())
    folders = [file.parent for file in sorted(place.glob(f"*/{FILE_NAME}"))] if place.is_dir() else []
    if not folders:
        raise plugin.refuse(f"leads to {place}, which is no folder that holds folders with a {FILE_NAME}")
    yield from folders


def _place(plugin: Plugin, found: object) -> Path:
    """The folder that was named: itself, or that of a package."""
    if isinstance(found, str | Path):
        return Path(found)
    if isinstance(found, ModuleType):
        paths = list(getattr(found, "__path__", ()))
        if len(paths) == 1:
            return Path(paths[0])
        raise plugin.refuse(f"names the module `{found.__name__}`, which is no folder, or more than one")
    raise plugin.refuse(f"is {type(found).__name__}, where a path or the folder of a package is needed")
