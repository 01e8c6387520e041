"""Plug-ins: providers, metrics, benchmark folders and commands that installed packages and extensions declare.

    [project.entry-points."medhelm.metrics"]
    ward_terms = "medhelm_ward.metric:WARD_TERMS"

Names are read from package metadata. A package is imported only when one of its names is used, or when all plug-ins are
listed. Built-in names cannot be replaced, and a name that two packages declare is refused. A broken package is reported
where its name is used and in lists, and does not affect anything else. A plug-in runs with all permissions of the user:
install only packages that you trust.

The folders of `medhelm.extensions` declare what they add in the same way, in a file `entry_points.txt`; see
`extension_targets`. Their names count as built in. Some groups are for extensions alone.

The end of the module holds other lazy values, and the documentation of the package.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from medhelm.errors import MedHelmError, MissingError, UserError, suggestion

if TYPE_CHECKING:
    from importlib.metadata import Distribution


PROVIDERS = "medhelm.providers"
"""Group of extensions alone: functions that open a provider."""

METRICS = "medhelm.metrics"
"""Entry point group of metrics."""

BENCHMARKS = "medhelm.benchmarks"
"""Entry point group of folders with benchmarks."""

COMMANDS = "medhelm.commands"
"""Entry point group of commands."""

GROUPS = (PROVIDERS, METRICS, BENCHMARKS, COMMANDS)
"""Groups of entry points that are read from installed packages."""

IMPORTERS = "medhelm.importers"
"""Group of extensions alone: what reads and writes other tools' files and other places' stores."""

CLIENTS = "medhelm.clients"
"""Group of extensions alone: functions that open a client which calls models elsewhere."""

FILES = "medhelm.files"
"""Group of extensions alone: what changes how the files of a store are read and written, such as encryption."""

PAGES = "medhelm.pages"
"""Group of extensions alone: pages of the site, see `io.http.mounted_pages`."""

PURGES = "medhelm.purges"
"""Group of extensions alone: functions that delete what an extension stores of instances, for `medhelm purge`.

Each is `function(store: Store, benchmark: str, instance_ids: Collection[str] | None) -> int`, with None for all
instances of the benchmark. It returns how many entries it deleted, and may be called again for the same instances.
"""

VARIANTS = "medhelm.variants"
"""Group of extensions alone: functions that ask the instances of a data set in other ways.

`expand(dataset: Dataset, settings: Settings) -> list[Dataset]` returns the data sets that a command evaluates, and
`judged(benchmarks: Sequence[Benchmark], change: JuryChange) -> list[tuple[Variant, frozenset[str]]]` the ways in which
judges grade stored completions again, each with the names of the benchmarks that it applies to.
"""

SECTIONS = "medhelm.sections"
"""Group of extensions alone: functions that add a section to reports, cards and the site.

Each is `function(stores: Sequence[Path], options: BoardOptions) -> ResultSection | None`, and returns None if there is
nothing to show.
"""

EXTENSIONS = Path(__file__).parent.parent / "extensions"
"""Folder with one folder for each extension."""

LONGEST_REASON = 300
"""Maximum number of characters of an exception's message that are shown."""

_KEBAB_CASE = re.compile(r"[a-z][a-z0-9_-]*")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*")

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One entry point of an installed package."""

    group: str
    """Entry point group: one of `GROUPS`."""
    name: str
    """Name of the provider, metric, benchmark folder or command."""
    package: str
    """Name of the package, as pip lists it."""
    version: str
    """Version of the package."""
    target: str
    """Object to import, as `module:attribute`."""

    @property
    def in_words(self) -> str:
        """Package, version and entry point, for messages."""
        return f"{self.package} {self.version} (entry point `{self.name}` of {self.group})"

    def refuse(self, what: str) -> UserError:
        """Return an error that says what is wrong with the plug-in."""
        return UserError(f"{self.in_words} {what.rstrip('.')}. Fix the package, or uninstall it.")

    def load(self) -> object:
        """Import the object. Raises: UserError with the last line of the exception's message."""
        from importlib.metadata import EntryPoint  # lazy: it takes longer to import than most commands need to start

        try:
            with redirect_stdout(sys.stderr):  # keep its output out of ours
                return EntryPoint(name=self.name, value=self.target, group=self.group).load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code may raise anything
            raise self.refuse(f"cannot be imported: {last_line(error)}") from None


class WithPlugins(Mapping[str, _Kind], Generic[_Kind]):
    """Mapping from names to objects of one kind: built-in objects first, then those of plug-ins.

    Built-in names and `in` import nothing. `[name]`, `get` and iterating over values import the plug-ins they return.
    Raises: UserError if a plug-in cannot be used; KeyError for unknown names.
    """

    def __init__(
        self,
        group: str,
        built_in: Mapping[str, _Kind],
        accept: Callable[[Plugin, object], _Kind],
        *,
        reserved: Collection[str] = (),
    ) -> None:
        """`accept` converts an imported object, or raises UserError; `reserved`: further names plug-ins cannot use."""
        self.built_in = built_in
        self.group = group
        self._accept = accept
        self._taken = frozenset((*built_in, *reserved))
        self._accepted: dict[Plugin, _Kind] = {}

    def __getitem__(self, name: str) -> _Kind:
        if name in self.built_in:
            return self.built_in[name]
        plugin = self.plugin(name)
        if plugin is None:
            raise KeyError(name)
        if plugin not in self._accepted:
            self._accepted[plugin] = self._accept(plugin, plugin.load())
        return self._accepted[plugin]

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or (name not in self._taken and name in declared(self.group))

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in declared(self.group) if name not in self._taken)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def plugin(self, name: str) -> Plugin | None:
        """Return the plug-in with this name; None for built-in or unknown names. Raises: UserError if two have it."""
        if name in self._taken:
            return None
        return only_plugin(declared(self.group).get(name, ()))

    def why_not(self, name: str) -> str:
        """Return why the plug-in with this name cannot be used; "" if it can be used or does not exist."""
        try:
            self.get(name)
        except MedHelmError as error:
            return str(error)
        return ""

    def if_usable(self, name: str) -> _Kind | None:
        """Return the object with this name, to show stored results; None if it is missing or cannot be used."""
        return None if self.why_not(name) else self.get(name)

    def problems(self) -> dict[Plugin, str]:
        """Return the problem of each plug-in that cannot be used. Imports all plug-ins."""
        found = {}
        for name, plugins in declared(self.group).items():
            for plugin in plugins:
                why = str(name_taken(plugin)) if name in self._taken else self.why_not(name)
                if why:
                    found[plugin] = why
        return found


def name_taken(plugin: Plugin, name: str = "") -> UserError:
    """Return the error for a plug-in whose name, or other `name`, is already a built-in or a user's own name."""
    return UserError(
        f"{plugin.in_words} uses the name `{name or plugin.name}`, which is already taken. Rename it in the package."
    )


def only_plugin(plugins: Sequence[Plugin], name: str = "") -> Plugin | None:
    """Return the only one of these plug-ins; None if there are none. Raises: UserError if there are more."""
    if len(plugins) < 2:
        return plugins[0] if plugins else None
    both = " and ".join(plugin.in_words for plugin in plugins)
    raise UserError(f"`{name or plugins[0].name}` is the name of two plug-ins: {both}. Uninstall one of them.")


@cache
def extension_targets(group: str) -> Mapping[str, str]:
    """Return name -> `module:attribute` that the extensions of this installation declare. Imports nothing."""
    found: dict[str, str] = {}
    for path in sorted(EXTENSIONS.glob("*/entry_points.txt")):
        section = ""
        for line in filter(None, map(str.strip, path.read_text(encoding="utf-8").splitlines())):
            if line.startswith("["):
                section = line.strip("[]")
            elif section == group:
                name, _, target = line.partition("=")
                found[name.strip()] = target.strip()
    return found


def from_extension(group: str, name: str, *, extension: str, what: str) -> Any:
    """Import the object that an extension declares. Raises: MissingError saying that `what` needs this extension."""
    targets = extension_targets(group)
    if name not in targets:
        raise missing_extension(what, extension)
    return LazyMapping[Any](targets)[name]


def all_from_extensions(group: str) -> list[Any]:
    """Import the objects that extensions declare in a group, by name."""
    targets = extension_targets(group)
    return [LazyMapping[Any](targets)[name] for name in sorted(targets)]


def missing_extension(what: str, extension: str) -> MissingError:
    """Return the error for what needs an extension that this installation lacks."""
    return MissingError(
        f"{what} needs the extension `{extension}`, which this installation of MedHELM lacks. Install the package "
        "medhelm-eval again: it holds all extensions."
    )


def declared(group: str) -> Mapping[str, Sequence[Plugin]]:
    """Return name -> plug-ins that declare it, sorted by name; more than one is a conflict. Imports nothing."""
    return _declared(group, tuple(sys.path))


def packages_that_cannot_be_read() -> list[str]:
    """List problems of installed packages whose entry points cannot be read."""
    return list(_scan(tuple(sys.path))[1])


def forget() -> None:
    """Clear the cache, so that installed packages are searched again."""
    _scan.cache_clear()
    _declared.cache_clear()


@lru_cache(maxsize=16)
def _declared(group: str, path: tuple[str, ...]) -> Mapping[str, Sequence[Plugin]]:
    found: dict[str, list[Plugin]] = {}
    for plugin in sorted(_scan(path)[0], key=lambda plugin: (plugin.name, plugin.package)):
        if plugin.group == group:
            found.setdefault(plugin.name, []).append(plugin)
    return found


@lru_cache(maxsize=4)
def _scan(path: tuple[str, ...]) -> tuple[frozenset[Plugin], tuple[str, ...]]:  # noqa: ARG001 - the key of the cache
    """Find all plug-ins, and problems of packages. If a package is found twice, the first one counts."""
    from importlib.metadata import distributions  # lazy: see `load`

    found: set[Plugin] = set()
    problems: list[str] = []
    seen: set[str] = set()
    for distribution in distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
            if "medhelm." not in text or (name := distribution.metadata["Name"]).lower() in seen:
                continue
            seen.add(name.lower())
            found.update(_plugins(distribution))
        except Exception as error:  # noqa: BLE001 - third-party metadata may be malformed in any way
            place = getattr(distribution, "_path", "a package")
            problems.append(f"the entry points of {place} cannot be read: {last_line(error)}.")
    return frozenset(found), tuple(problems)


def _plugins(distribution: Distribution) -> Iterator[Plugin]:
    package, version = distribution.metadata["Name"], distribution.version
    for point in distribution.entry_points:
        if point.group in GROUPS:
            yield Plugin(
                group=point.group, name=point.name, package=package, version=version, target=point.value.strip()
            )


def check_plugin_name(plugin: Plugin) -> None:
    """Check the name of a plug-in, which command lines and columns contain. Raises: UserError if it is not valid."""
    pattern = _KEBAB_CASE if plugin.group in (PROVIDERS, COMMANDS) else _SNAKE_CASE
    if not pattern.fullmatch(plugin.name):
        raise plugin.refuse("has a name that is not in lower case letters, digits and underscores")


def last_line(error: BaseException) -> str:
    """Return the type of an exception and the last line of its message, shortened to a readable length."""
    words = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {words[-1].strip()}" if words else type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]} [...]"


# --- values made on first use -----------------------------------------------------------------------------------------
# A mapping whose objects are imported, and regular expressions that are compiled, when they are first used.

T = TypeVar("T")


class LazyMapping(Mapping[str, T], Generic[T]):
    """Imports a value on first access; its names, and whether a name exists, are known without any import.

    >>> functions = LazyMapping({"square_root": "math:sqrt"})
    >>> list(functions), functions["square_root"](9.0)
    (['square_root'], 3.0)
    """

    def __init__(self, targets: Mapping[str, str]) -> None:
        """`targets`: name -> `module:attribute`."""
        self._targets = targets
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            module, _, attribute = self._targets[name].partition(":")
            self._loaded[name] = cast("T", getattr(import_module(module), attribute))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


def lazy_regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled on first use.

    Parsers of completions need some fifty expressions. Compiling them all takes longer than loading a benchmark, and
    they are not needed before the first completion arrives.
    """
    return cast("re.Pattern[str]", _Late(pattern, flags))


class _Late:
    """A regular expression that is compiled on first use; methods are bound on first access."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Bind a method on first access; `re` caches the compiled expression."""
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


# --- documentation of the package -------------------------------------------------------------------------------------
# Finds its files, installed or in a checkout.

PACKAGE = Path(__file__).parent.parent
PLACES = (PACKAGE / "docs", PACKAGE.parent.parent / "docs")
"""Folder of the documentation in an installed package, and in a checkout."""

_SUFFIXES = (".md", ".yaml", ".json", ".txt")


def find_documents() -> dict[str, Path]:
    """Return name -> file; names are paths in the folder without `.md`. Raises: MissingError if there are none."""
    folder = next((place for place in PLACES if (place / "index.md").is_file()), None)
    if folder is None:
        raise MissingError("the documentation is not installed with this copy of medhelm.")
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    constraints = folder.parent / "constraints.txt"
    files += [constraints] if constraints.is_file() else []
    return {
        (path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name).removesuffix(".md"): path
        for path in files
    }


def find_document(name: str) -> Path:
    """Return the file of a document, named with or without folder and `.md`. Raises: UserError for an unknown name."""
    documents = find_documents()
    wanted = name.removeprefix("docs/").removesuffix(".md")
    found = [path for key, path in documents.items() if wanted in (key, key.rpartition("/")[2], Path(key).stem)]
    exact = [path for key, path in documents.items() if wanted in (key, key.rpartition("/")[2])]
    for matching in (exact, found):
        if len(matching) == 1:
            return matching[0]
    keys = [key for key in documents if documents[key] in found] or list(documents)
    hint = suggestion(wanted, [key.rpartition("/")[2] for key in keys]) if not found else f"Known: {', '.join(keys)}."
    raise UserError(f"no document is named `{name}`. {hint or '`medhelm docs` lists them.'}")


def title_of(document: Path) -> str:
    """Return the heading of a document, or its first comment; empty if it has neither."""
    for line in document.read_text(encoding="utf-8").splitlines()[:5]:
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return "Editor schema of benchmark.yaml" if document.suffix == ".json" else ""
