"""From names to benchmarks: built in, in further folders, of installed packages, or by path; one by one or in groups.

A benchmark is a folder with a `benchmark.yaml`, named after the benchmark. Asking for one by its name reads that one
file; aliases, categories and groups need all of them. Built-in benchmarks that are no part of the suite are additional:
groups leave them out, so that a group of built-in ones is what the published tables have. Packages are looked into for
names that nobody else has, and for groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

from medhelm.benchmarks.definition import FILE_NAME, read_definition
from medhelm.benchmarks.suites import LIBRARY, load_suite
from medhelm.domain import Benchmark
from medhelm.errors import ConfigError, UserError, suggestion
from medhelm.io import plugins
from medhelm.io.plugins import Plugin, check_plugin_name, declared, only, taken

GROUPS: Mapping[str, Callable[[Benchmark], bool]] = {
    "all": lambda _: True,
    "public": lambda benchmark: benchmark.access == "public",
    "gated": lambda benchmark: benchmark.access == "gated",
    "private": lambda benchmark: benchmark.access == "private",
    "closed": lambda benchmark: benchmark.rubric is None,
    "open": lambda benchmark: benchmark.rubric is not None,
}
"""Name of a group -> whether a benchmark of the suite or of the user's own belongs to it; `open`: judges read its
answers, which are free text. Categories and subcategories are groups too, by their ids."""

ADDITIONAL = "additional"
"""Group of the built-in benchmarks that are no part of the suite. They belong to no other but their own category."""

_GROUP_NAMES = (*GROUPS, ADDITIONAL)


def is_additional(benchmark: Benchmark) -> bool:
    """Whether a benchmark is built in, but no part of the suite."""
    built_in = benchmark.folder.resolve().parent == LIBRARY.resolve()
    return built_in and all(entry.name != benchmark.name for entry in load_suite())


def all_names(extra: Sequence[Path] = ()) -> list[str]:
    """Names of all benchmarks, built in, in the folders `extra` and of packages, sorted. Opens no file of theirs."""
    own = _folders(extra)
    return sorted((*own, *find_packaged_benchmarks(own).folders))


def read_packaged_benchmarks(*, metrics: Collection[str], extra: Sequence[Path] = ()) -> PackagedBenchmarks:
    """What installed packages have, beside what is built in and in the folders `extra`. Imports them.

    Every definition is read; what is wrong with one stands among the problems, under the benchmark's name.
    Raises: as `load_benchmarks`, for definitions that are no package's.
    """
    return _Catalog(extra, metrics).packaged_and_read()


def load_benchmarks(
    names: Sequence[str],
    *,
    metrics: Collection[str],
    extra: Sequence[Path] = (),
    note: Callable[[str], object] | None = None,
) -> list[Benchmark]:
    """The benchmarks that `names` stand for: each once, in the order asked for; groups in the order of names.

    Parameters: names, of benchmarks, their aliases, groups, categories or subcategories, or paths of a folder or YAML
    file; metrics, names of all metrics there are; extra, folders with further benchmarks, or of one benchmark; note,
    what is told what was left out of groups because a package is at fault.
    Raises: UserError with all names that are unknown; ConfigError, or a UserError with several of them, for definitions
    that are wrong.
    """
    catalog = _Catalog(extra, metrics)
    found: dict[str, Benchmark] = {}
    errors: list[UserError] = []
    for name in names:
        try:
            matching = catalog.find(name)
        except UserError as error:
            errors.append(error)
            continue
        if not matching:
            errors.append(catalog.unknown(name))
        for benchmark in matching:
            known = found.setdefault(benchmark.name, benchmark)
            if known.folder.resolve() != benchmark.folder.resolve():
                errors.append(UserError(_twice(benchmark.name, known.folder, benchmark.folder)))
    _raise_all(errors)
    if note:
        for text in catalog.left_out:
            note(text)
    return list(found.values())


class _Catalog:
    """All folders, and the definitions that were read so far."""

    def __init__(self, extra: Sequence[Path], metrics: Collection[str]) -> None:
        self.left_out: tuple[str, ...] = ()
        self._folders = _folders(extra)
        self._metrics = metrics
        self._read: dict[Path, Benchmark] = {}

    def find(self, name: str) -> list[Benchmark]:
        """Benchmarks a name stands for; none if it is unknown. Raises: UserError where a package is at fault."""
        if name in self._folders:
            return [self._benchmark(self._folders[name])]
        path = Path(name)
        if path.suffix in (".yaml", ".yml") or "/" in name or path.name != name:
            return [self._benchmark(path)]
        if name in self._aliases:
            return self._aliases[name]
        if name not in self._own_groups and name not in _GROUP_NAMES and (path / FILE_NAME).is_file():
            return [self._benchmark(path)]
        if name in self._packaged.folders:
            return [self._of_package(name)]
        if name in self._packaged.groups:
            return [self._of_package(one) for one in self._packaged.groups[name]]
        groups = self._all_groups
        if name in groups or name in _GROUP_NAMES:
            self.left_out = tuple(dict.fromkeys(self.packaged_and_read().problems.values()))
            return groups.get(name, [])
        if name in self._packaged.problems:
            raise UserError(self._packaged.problems[name])
        return []

    def unknown(self, name: str) -> UserError:
        """What to say of a name that stands for nothing."""
        if name in _GROUP_NAMES:
            return UserError(f"no benchmark belongs to the group `{name}`.")
        theirs = self._packaged
        known = {*self._folders, *self._aliases, *theirs.folders, *theirs.groups, *self._all_groups, *_GROUP_NAMES}
        lines = [f"unknown benchmark `{name}`. {suggestion(name, known)}".rstrip()]
        lines += [f"It may be one of a package: {text}" for text in theirs.problems.values()]
        return UserError("\n".join(dict.fromkeys(lines)))

    def packaged_and_read(self) -> PackagedBenchmarks:
        """What packages have, with what is wrong in their definitions among the problems."""
        return replace(self._packaged, problems=self._packaged.problems | self._unreadable)

    def _benchmark(self, path: Path) -> Benchmark:
        if path not in self._read:
            self._read[path] = read_definition(path, metrics=self._metrics)
        return self._read[path]

    def _of_package(self, name: str) -> Benchmark:
        """A package's benchmark, which says whose it is."""
        return replace(self._benchmark(self._packaged.folders[name]), package=self._packaged.packages[name])

    @cached_property
    def _own(self) -> list[Benchmark]:
        """All benchmarks that are built in or the user's, sorted by name."""
        errors: list[UserError] = []
        for name in sorted(self._folders):
            try:
                self._benchmark(self._folders[name])
            except ConfigError as error:
                errors.append(error)
        _raise_all(errors)
        return [self._benchmark(self._folders[name]) for name in sorted(self._folders)]

    @cached_property
    def _aliases(self) -> dict[str, list[Benchmark]]:
        """Other name -> benchmarks that go by it."""
        found: dict[str, list[Benchmark]] = {}
        for benchmark in self._own:
            for alias in benchmark.aliases:
                found.setdefault(alias, []).append(benchmark)
        return found

    @cached_property
    def _own_groups(self) -> dict[str, list[Benchmark]]:
        return _groups(self._own)

    @cached_property
    def _packaged(self) -> PackagedBenchmarks:
        """What the packages have; imports them."""
        return find_packaged_benchmarks({*self._folders, *self._aliases, *self._own_groups, *_GROUP_NAMES})

    @cached_property
    def _unreadable(self) -> dict[str, str]:
        """Benchmark of a package -> what is wrong with its definition."""
        found = {}
        for name in self._packaged.folders:
            try:
                self._of_package(name)
            except UserError as error:
                found[name] = f"{self._packaged.packages[name]}: {error}"
        return found

    @cached_property
    def _all_groups(self) -> dict[str, list[Benchmark]]:
        """Group, category or subcategory -> its benchmarks, sorted by name; of packages, those that can be read."""
        theirs = [self._of_package(name) for name in self._packaged.folders if name not in self._unreadable]
        return _groups(sorted((*self._own, *theirs), key=lambda benchmark: benchmark.name))


def _groups(benchmarks: Sequence[Benchmark]) -> dict[str, list[Benchmark]]:
    """Group, category or subcategory -> its benchmarks, in their order."""
    groups: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        belongs = [group for group, condition in GROUPS.items() if condition(benchmark)]
        if is_additional(benchmark):
            belongs = [ADDITIONAL]
        taxonomy = benchmark.taxonomy
        for group in (*belongs, taxonomy.category, taxonomy.subcategory):
            groups.setdefault(group, []).append(benchmark)
    return groups


def _folders(extra: Sequence[Path]) -> dict[str, Path]:
    """Name of each benchmark -> its folder. Raises: UserError for folders that are not there, and names used twice."""
    folders: dict[str, Path] = {}
    problems: list[str] = []
    for place in (LIBRARY, *extra):
        if place is not LIBRARY and not place.is_dir():
            problems.append(f"{place}: there is no such folder of benchmarks.")
            continue
        for file in (place / FILE_NAME, *sorted(place.glob(f"*/{FILE_NAME}"))):
            if not file.is_file():
                continue
            folder = file.parent
            name = folder.resolve().name
            if name in folders and folders[name].resolve() != folder.resolve():
                problems.append(_twice(name, folders[name], folder))
            folders.setdefault(name, folder)
    if problems:
        raise UserError("\n".join(problems))
    return folders


def _raise_all(errors: Sequence[UserError]) -> None:
    """Raise the error itself if it is one, or one that says what all of them say."""
    different = list({str(error): error for error in errors}.values())
    if len(different) == 1:
        raise different[0]
    if different:
        raise UserError("\n\n".join(map(str, different)))


def _twice(name: str, first: Path, second: Path) -> str:
    return f"there are two benchmarks `{name}`: {first} and {second}. Rename one of them, folder and `name`."


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
            folders = list(_plugin_folders(plugin))
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


def _plugin_folders(plugin: Plugin) -> Iterator[Path]:
    """The benchmark folders that an entry point leads to. Raises: UserError if it leads to none."""
    check_plugin_name(plugin)
    place = _plugin_path(plugin, plugin.load())
    folders = [file.parent for file in sorted(place.glob(f"*/{FILE_NAME}"))] if place.is_dir() else []
    if not folders:
        raise plugin.refuse(f"leads to {place}, which is no folder that holds folders with a {FILE_NAME}")
    yield from folders


def _plugin_path(plugin: Plugin, found: object) -> Path:
    """The folder that was named: itself, or that of a package."""
    if isinstance(found, str | Path):
        return Path(found)
    if isinstance(found, ModuleType):
        paths = list(getattr(found, "__path__", ()))
        if len(paths) == 1:
            return Path(paths[0])
        raise plugin.refuse(f"names the module `{found.__name__}`, which is no folder, or more than one")
    raise plugin.refuse(f"is {type(found).__name__}, where a path or the folder of a package is needed")
