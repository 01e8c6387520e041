"""Find benchmarks by name, alias, group or path: built in, in other folders, or in installed packages.

A benchmark is a folder with a `benchmark.yaml`, named after the benchmark. Loading one by name reads only its file;
aliases, categories and groups need all files. Built-in benchmarks outside the suite are additional: groups omit them,
so that groups of built-in benchmarks match the published tables. Packages are imported only for groups and for names
that are not found elsewhere. A package lists its benchmarks by an entry point:

    [project.entry-points."medhelm.benchmarks"]
    ward = "medhelm_ward.benchmarks"

The target is a package that is a folder of benchmark folders, or a `pathlib.Path` or text in a module
(`medhelm_ward:FOLDER`). The name of the entry point is a group of all its benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

from medhelm.benchmarks.definition import FILE_NAME, LEFT_OUT_CODE, LIBRARY, find_checked, has_code, read_definition
from medhelm.benchmarks.prompts import check_name, slug
from medhelm.domain import Benchmark
from medhelm.errors import ConfigError, UserError, suggestion
from medhelm.io import plugins
from medhelm.io.plugins import Plugin, check_plugin_name, declared, name_taken, only_plugin
from medhelm.storage.own_benchmarks import RememberedBenchmark, is_copy, remember_folders, remembered_folders
from medhelm.storage.store import Store

GROUPS: Mapping[str, Callable[[Benchmark], bool]] = {
    "all": lambda _: True,
    "public": lambda benchmark: benchmark.access == "public",
    "gated": lambda benchmark: benchmark.access == "gated",
    "private": lambda benchmark: benchmark.access == "private",
    "closed": lambda benchmark: benchmark.rubric is None,
    "open": lambda benchmark: benchmark.rubric is not None,
}
"""Group -> condition for benchmarks of the suite and of the user; `open`: free text that judges read. Categories and
subcategories are groups too, by their ids."""

ADDITIONAL = "additional"
"""Group of the built-in benchmarks outside the suite. They belong to no other group."""

_GROUP_NAMES = (*GROUPS, ADDITIONAL)


def is_additional(benchmark: Benchmark) -> bool:
    """Return True if a benchmark is built in but not part of the suite."""
    from medhelm.benchmarks.suites import is_in_suite  # lazy: runs of named benchmarks need no suite

    built_in = LIBRARY in (benchmark.folder.parent, benchmark.folder.resolve().parent)
    return built_in and not is_in_suite(benchmark.name)


def all_names(extra: Sequence[Path] = ()) -> list[str]:
    """Return the sorted names of all benchmarks: built in, in the folders `extra`, and of packages. Reads no files."""
    own = _folders(extra)
    return sorted((*own, *find_packaged_benchmarks(own).folders))


def read_packaged_benchmarks(*, metrics: Collection[str], extra: Sequence[Path] = ()) -> PackagedBenchmarks:
    """Import all packages with benchmarks and read their definitions.

    Errors in their definitions are among the problems, under the benchmark's name. Errors in other definitions are
    raised as by `load_benchmarks`.
    """
    return _Catalog(extra, metrics).checked_packages()


def load_benchmarks(
    names: Sequence[str],
    *,
    metrics: Collection[str],
    extra: Sequence[Path] = (),
    note: Callable[[str], object] | None = None,
) -> list[Benchmark]:
    """Load benchmarks, each once, in the order of `names`; the benchmarks of a group in the order of their names.

    Parameters
    ----------
    names
        Benchmarks, aliases, groups, categories, subcategories, or paths of a folder or YAML file.
    metrics
        Names of all known metrics.
    extra
        Other folders of benchmarks, or of one benchmark.
    note
        Called with a message for each benchmark that a group omits because its package is defective.

    Raises
    ------
    UserError
        With all unknown names, or the errors of several definitions.
    ConfigError
        With all errors of one definition.
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
            errors.append(catalog.unknown_name(name))
        for benchmark in matching:
            known = found.setdefault(benchmark.name, benchmark)
            if known.folder.resolve() != benchmark.folder.resolve():
                errors.append(UserError(_same_name_message(benchmark.name, known.folder, benchmark.folder)))
    _raise_all(errors)
    if note:
        for text in catalog.left_out:
            note(text)
    return list(found.values())


def check_new_name(name: str, extra: Sequence[Path] = ()) -> None:
    """Check that a new benchmark can have this name. Raises: UserError if it is invalid or taken."""
    check_name(name)
    catalog = _Catalog(extra, ())
    if name in catalog.names():
        raise UserError(f"`{name}` is the name of another benchmark. Choose another one, such as `own_{name}`.")


class _Catalog:
    """All benchmark folders, and the definitions read so far."""

    def __init__(self, extra: Sequence[Path], metrics: Collection[str]) -> None:
        self.left_out: tuple[str, ...] = ()
        self._folders = _folders(extra)
        self._metrics = metrics
        self._read: dict[Path, Benchmark] = {}

    def find(self, name: str) -> list[Benchmark]:
        """Return the benchmarks of a name; none if it is unknown. Raises UserError for a defective package."""
        if name in self._folders:
            if (other := Path(name) / FILE_NAME).is_file() and other.resolve().parent != self._folders[name].resolve():
                raise UserError(
                    f"`{name}` is both a benchmark and the folder ./{name}, which holds another definition. Write "
                    f"`./{name}` for the folder, or rename it and its `name`."
                )
            return [self._benchmark(self._folders[name])]
        path = Path(name)
        if path.suffix in (".yaml", ".yml") or "/" in name or path.name != name:
            return [self._benchmark(path)]
        if name in self._aliases:
            return self._aliases[name]
        if name not in self._own_groups and name not in _GROUP_NAMES and (path / FILE_NAME).is_file():
            return [self._benchmark(path)]
        if name in self._packaged.folders:
            return [self._packaged_benchmark(name)]
        if name in self._packaged.groups:
            return [self._packaged_benchmark(one) for one in self._packaged.groups[name]]
        groups = self._all_groups
        if name in groups or name in _GROUP_NAMES:
            self.left_out = tuple(dict.fromkeys(self.checked_packages().problems.values()))
            return groups.get(name, [])
        if name in self._packaged.problems:
            raise UserError(self._packaged.problems[name])
        return []

    def names(self) -> set[str]:
        """Return all names and groups outside packages, which no other benchmark may have."""
        from medhelm.io.strict_yaml import load_yaml  # lazy: only new names need it

        files = (folder / FILE_NAME for folder in self._folders.values())
        aliases = {alias for file in files for alias in load_yaml(file).data.get("aliases") or ()}
        return {*self._folders, *aliases, *_GROUP_NAMES}

    def unknown_name(self, name: str) -> UserError:
        """Return the error for an unknown name."""
        if name in _GROUP_NAMES:
            return UserError(f"the group `{name}` has no benchmarks.")
        theirs = self._packaged
        known = {*self._folders, *self._aliases, *theirs.folders, *theirs.groups, *self._all_groups, *_GROUP_NAMES}
        lines = [f"unknown benchmark `{name}`. {self._hint(name, known)}".rstrip()]
        lines += [f"It may belong to a package that cannot be used: {text}" for text in theirs.problems.values()]
        return UserError("\n".join(dict.fromkeys(lines)))

    def _hint(self, name: str, known: Collection[str]) -> str:
        """Return what the user may have meant: a title, a list with commas, a data file, or a similar name."""
        from medhelm.benchmarks.new_benchmark import KINDS  # lazy: only errors need it

        path = Path(name)
        if "," in name:
            return f"Separate names with blanks: {' '.join(filter(None, (part.strip() for part in name.split(','))))}."
        if path.is_file() and path.suffix.lower() in KINDS:
            return f"It is a data file. `medhelm benchmarks new NAME --from {name}` makes a benchmark of it."
        if path.is_dir() and (files := sorted(path.glob("*.y*ml"))):
            return f"The folder holds no {FILE_NAME}. For another definition write its path, such as `{files[0]}`."
        titles = {slug(benchmark.title).replace("_", ""): benchmark.name for benchmark in self._own}
        title = titles.get(slug(name).replace("_", ""))
        if hint := f"Did you mean `{title}`?" if title else suggestion(name, known):
            return hint
        folders = {f"./{file.parent}" for file in Path().glob(f"*/{FILE_NAME}")}
        own = suggestion(f"./{name}", folders).replace("Known:", "In this folder:")
        return f"`medhelm benchmarks list` shows all; your own are named by the path of their folder. {own}".rstrip()

    def checked_packages(self) -> PackagedBenchmarks:
        """Return the benchmarks of packages, with errors in their definitions among the problems."""
        return replace(self._packaged, problems=self._packaged.problems | self._unreadable)

    def _benchmark(self, path: Path) -> Benchmark:
        if path not in self._read:
            checked = find_checked(path.name) if path.parent == LIBRARY else None
            self._read[path] = checked or read_definition(path, metrics=self._metrics)
        return self._read[path]

    def _packaged_benchmark(self, name: str) -> Benchmark:
        """Return a benchmark with the name of its package."""
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
        """Alias -> its benchmarks."""
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
        """The benchmarks of packages. Imports the packages."""
        return find_packaged_benchmarks({*self._folders, *self._aliases, *self._own_groups, *_GROUP_NAMES})

    @cached_property
    def _unreadable(self) -> dict[str, str]:
        """Benchmark of a package -> error in its definition."""
        found = {}
        for name in self._packaged.folders:
            try:
                self._packaged_benchmark(name)
            except UserError as error:
                found[name] = f"{self._packaged.packages[name]}: {error}"
        return found

    @cached_property
    def _all_groups(self) -> dict[str, list[Benchmark]]:
        """Group, category or subcategory -> its readable benchmarks, sorted by name."""
        theirs = [self._packaged_benchmark(name) for name in self._packaged.folders if name not in self._unreadable]
        return _groups(sorted((*self._own, *theirs), key=lambda benchmark: benchmark.name))


def _groups(benchmarks: Sequence[Benchmark]) -> dict[str, list[Benchmark]]:
    """Map each group, category and subcategory to its benchmarks, in their order."""
    groups: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        names = [group for group, condition in GROUPS.items() if condition(benchmark)]
        if is_additional(benchmark):
            names = [ADDITIONAL]
        taxonomy = benchmark.taxonomy
        for group in (*names, taxonomy.category, taxonomy.subcategory):
            groups.setdefault(group, []).append(benchmark)
    return groups


def _folders(extra: Sequence[Path]) -> dict[str, Path]:
    """Map each benchmark to its folder. Raises UserError for missing folders and repeated names."""
    folders: dict[str, Path] = {}
    problems: list[str] = []
    for place in (LIBRARY, *extra):
        if place is not LIBRARY and not place.is_dir():
            problems.append(f"{place}: this folder of benchmarks does not exist.")
            continue
        for file in (place / FILE_NAME, *sorted(place.glob(f"*/{FILE_NAME}"))):
            if not file.is_file():
                continue
            folder = file.parent
            name = folder.name if place is LIBRARY else folder.resolve().name
            if name in folders and folders[name].resolve() != folder.resolve():
                problems.append(_same_name_message(name, folders[name], folder))
            folders.setdefault(name, folder)
    if problems:
        raise UserError("\n".join(problems))
    return folders


# --- folders that stores remember -------------------------------------------------------------------------------------


def own_folders(benchmarks: Iterable[Benchmark]) -> dict[str, Path]:
    """Return benchmark -> folder, of those that are neither built in nor of a package and are named as their folder."""
    return {
        one.name: one.folder
        for one in benchmarks
        if not one.package
        and one.folder.resolve().parent != LIBRARY.resolve()
        and one.folder.resolve().name == one.name
        and (one.folder / FILE_NAME).is_file()
    }


def remember_benchmarks(store: Store, benchmarks: Iterable[Benchmark], *, metrics: Collection[str]) -> None:
    """Let commands that read a store find the user's own benchmarks, and keep their definitions there.

    `metrics`: names of all known metrics.
    """
    found = {}
    for name, folder in own_folders(benchmarks).items():
        if is_copy(store, folder):
            continue
        with suppress(OSError, UserError):  # the file was changed a moment ago
            files = {FILE_NAME: (folder / FILE_NAME).read_text(encoding="utf-8")}
            files |= {LEFT_OUT_CODE: ""} if has_code(folder) else {}
            digest = read_definition(folder, metrics=metrics).digest
            found[name] = RememberedBenchmark(folder=folder, digest=digest, files=files)
    remember_folders(store, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedBenchmarks:
    """The user's own benchmarks that stores remember, without those that are known anyway."""

    folders: Sequence[Path] = ()
    """Their folders; of some, the copy of the definition in a store."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Benchmark that cannot be read -> the problem, and what to do."""
    copied: Mapping[str, str] = field(default_factory=dict)
    """Benchmark whose definition is read from a store -> the reason, and what to do."""


def remembered_benchmarks(
    stores: Iterable[Path], known: Sequence[Path], *, metrics: Collection[str], as_run: bool = True
) -> RememberedBenchmarks:
    """Return the benchmarks that stores remember. Reads their definitions; runs no code.

    Results are shown with the definition that they were made by: it is read from the store if its folder is gone,
    cannot be read, or changed since. New results are made by folders only.

    Parameters: known, folders that the user names: their benchmarks and the built-in ones win; metrics, names of all
    known metrics; as_run, False to read no definition from a store.
    Raises: UserError for a folder in `known` that does not exist.
    """
    taken, folders, problems, copied = set(_folders(known)), {}, {}, {}
    for store in stores:
        for name, one in remembered_folders(store).items():
            if name in taken or name in folders:
                continue
            try:
                folders[name], reason = _folder_of(name, one, metrics, as_run=as_run)
            except UserError as error:
                problems[name] = str(error)
                continue
            if reason:
                copied[name] = reason
    left = {name: text for name, text in problems.items() if name not in folders}
    return RememberedBenchmarks(folders=list(folders.values()), problems=left, copied=copied)


def _folder_of(name: str, one: RememberedBenchmark, metrics: Collection[str], *, as_run: bool) -> tuple[Path, str]:
    """Return the folder to read a definition from, and the reason if it is its copy. Raises: UserError."""
    copy = one.copy if as_run else None
    problem = f"benchmark folder of {name} not found: {one.folder}."
    if (one.folder / FILE_NAME).is_file():
        try:
            found = read_definition(one.folder, metrics=metrics)
        except UserError as error:
            if copy is None:
                raise
            problem = str(error)
        else:
            if found.name == name and (copy is None or found.digest == one.digest):
                return one.folder, ""
            problem = f"{one.folder / FILE_NAME} changed since {name} was last run."
    if copy is None:
        raise UserError(f"{problem} Add --benchmarks DIR.")
    if read_definition(copy, metrics=metrics).name != name:
        raise UserError(f"{copy / FILE_NAME} is the definition of another benchmark than {name}.")
    return copy, f"{problem} Its definition as last run is read from the store; --benchmarks DIR names another one."


def _raise_all(errors: Sequence[UserError]) -> None:
    """Raise a single error unchanged, or several as one UserError."""
    different = list({str(error): error for error in errors}.values())
    if len(different) == 1:
        raise different[0]
    if different:
        raise UserError("\n\n".join(map(str, different)))


def _same_name_message(name: str, first: Path, second: Path) -> str:
    return f"two benchmarks are named `{name}`: {first} and {second}. Rename the folder and `name` of one of them."


@dataclass(slots=True, kw_only=True)
class PackagedBenchmarks:
    """The benchmarks of all installed packages."""

    folders: dict[str, Path] = field(default_factory=dict)
    """Benchmark -> its folder."""
    packages: dict[str, str] = field(default_factory=dict)
    """Benchmark -> its package."""
    held: dict[Plugin, tuple[str, ...]] = field(default_factory=dict)
    """Entry point -> the benchmarks in its folder, usable or not."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of an entry point -> its usable benchmarks."""
    problems: dict[str, str] = field(default_factory=dict)
    """Name of an unusable entry point or benchmark -> reason."""


def find_packaged_benchmarks(own: Collection[str]) -> PackagedBenchmarks:
    """Import every package with benchmarks and list its folders. Reads no definition; reports errors as problems.

    `own`: names of benchmarks, aliases and groups outside packages, which packages cannot take.
    """
    found = PackagedBenchmarks()
    places: dict[str, list[tuple[Plugin, Path]]] = {}
    for name, entries in declared(plugins.BENCHMARKS).items():
        try:
            plugin = only_plugin(entries)
            if plugin is None or name in own:
                raise name_taken(entries[0])
            folders = list(_plugin_folders(plugin))
        except UserError as error:
            found.problems[name] = str(error)
            continue
        found.groups[name] = found.held[plugin] = tuple(folder.name for folder in folders)
        for folder in folders:
            places.setdefault(folder.name, []).append((plugin, folder))
    for name, found_in in places.items():
        try:
            plugin = only_plugin([plugin for plugin, _ in found_in], name)
            if plugin is None or name in own:
                raise name_taken(found_in[0][0], name)
        except UserError as error:
            found.problems[name] = str(error)
        else:
            found.folders[name], found.packages[name] = found_in[0][1], plugin.package
    found.groups = {
        group: tuple(name for name in names if name in found.folders) for group, names in found.groups.items()
    }
    return found


def _plugin_folders(plugin: Plugin) -> Iterator[Path]:
    """Return the benchmark folders of an entry point. Raises UserError if there are none."""
    check_plugin_name(plugin)
    place = _plugin_path(plugin, plugin.load())
    folders = [file.parent for file in sorted(place.glob(f"*/{FILE_NAME}"))] if place.is_dir() else []
    if not folders:
        raise plugin.refuse(f"names {place}, which is not a folder of folders with a {FILE_NAME}")
    yield from folders


def _plugin_path(plugin: Plugin, found: object) -> Path:
    """Return the folder that an entry point names: a path, or the folder of a package."""
    if isinstance(found, str | Path):
        return Path(found)
    if isinstance(found, ModuleType):
        paths = list(getattr(found, "__path__", ()))
        if len(paths) == 1:
            return Path(paths[0])
        raise plugin.refuse(f"names the module `{found.__name__}`, which is not exactly one folder")
    raise plugin.refuse(f"is {type(found).__name__}; it must be a path or the folder of a package")
