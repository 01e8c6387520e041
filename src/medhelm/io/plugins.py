"""What installed packages add: providers, metrics and folders of benchmarks, each under a name, by entry points.

    [project.entry-points."medhelm.metrics"]
    ward_terms = "ward_plugin.metrics:WARD_TERMS"

Which names there are stands in the metadata of packages; a package itself is imported when one of its names is asked
for, or everything is listed. What is built in keeps its name, and a name that two packages want goes to neither. A
package that does not work is told of where its name is asked for, and in lists, and disturbs nothing else. A plug-in is
code that runs with all the rights of the user: installing one is trusting it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from medhelm.errors import MedHelmError, UserError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PROVIDERS = "medhelm.providers"
"""Group of functions that open a provider."""

METRICS = "medhelm.metrics"
"""Group of metrics."""

BENCHMARKS = "medhelm.benchmarks"
"""Group of folders that hold benchmarks."""

GROUPS = (PROVIDERS, METRICS, BENCHMARKS)
"""All groups of entry points that are read."""

LONGEST_REASON = 300
"""Characters of an exception's words that are shown."""

_NAMES = {PROVIDERS: re.compile(r"[a-z][a-z0-9_-]*"), METRICS: re.compile(r"[a-z][a-z0-9_]*")}
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*")

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One entry point of an installed package."""

    group: str
    """Which kind of thing it names: one of `GROUPS`."""
    name: str
    """The name it gives it."""
    package: str
    """Name of the package, as pip lists it."""
    version: str
    """Version of the package."""
    target: str
    """Where it is found, as `module:attribute`."""

    @property
    def in_words(self) -> str:
        """For messages: the package and its entry point."""
        return f"{self.package} {self.version} (entry point `{self.name}` of {self.group})"

    def refuse(self, what: str) -> UserError:
        """The error that says what is wrong with it."""
        return UserError(f"{self.in_words} {what.rstrip('.')}. Mend the package, or uninstall it.")

    def load(self) -> object:
        """Import what it names. Raises: UserError with the last line of what went wrong."""
        from importlib.metadata import EntryPoint  # late: it takes longer than most commands need to start

        try:
            with redirect_stdout(sys.stderr):  # what it prints is not what was asked for
                return EntryPoint(name=self.name, value=self.target, group=self.group).load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the code of somebody else
            raise self.refuse(f"cannot be imported: {last_line(error)}") from None


class WithPlugins(Mapping[str, _Kind], Generic[_Kind]):
    """Things of one kind by name: those that are built in, then those of installed packages.

    Looking for a name that is built in, and whether there is a name, imports nothing. `[name]`, `get` and walking over
    values import what they give. Raises: UserError where a package cannot be used as it is; KeyError for names that
    nobody has.
    """

    def __init__(
        self,
        group: str,
        built_in: Mapping[str, _Kind],
        accept: Callable[[Plugin, object], _Kind],
        *,
        reserved: Collection[str] = (),
    ) -> None:
        """`accept` makes of what was imported what is used, or raises UserError; `reserved`: more names not to take."""
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
        """The entry point behind a name; None for what is built in or unknown. Raises: UserError if two have it."""
        if name in self._taken:
            return None
        return only(declared(self.group).get(name, ()))

    def why_not(self, name: str) -> str:
        """Why the package behind a name cannot be used, in words; "" if it can, or if there is none."""
        try:
            self.get(name)
        except MedHelmError as error:
            return str(error)
        return ""

    def if_usable(self, name: str) -> _Kind | None:
        """The thing of this name for showing what is stored; None if there is none, or if it cannot be used."""
        return None if self.why_not(name) else self.get(name)

    def problems(self) -> dict[Plugin, str]:
        """Entry point -> what is wrong with it, for all that cannot be used. Imports all of them."""
        found = {}
        for name, plugins in declared(self.group).items():
            for plugin in plugins:
                why = str(taken(plugin)) if name in self._taken else self.why_not(name)
                if why:
                    found[plugin] = why
        return found


def taken(plugin: Plugin, name: str = "") -> UserError:
    """The error of a plug-in whose `name`, by default its own, is built in or the user's: that one stays."""
    return UserError(
        f"{plugin.in_words} takes the name `{name or plugin.name}`, which exists here and stays what it is. "
        "It has to be renamed in the package."
    )


def only(plugins: Sequence[Plugin], name: str = "") -> Plugin | None:
    """The one plug-in that has a name; None if nobody has. Raises: UserError that names all who have it."""
    if len(plugins) < 2:
        return plugins[0] if plugins else None
    both = " and ".join(plugin.in_words for plugin in plugins)
    raise UserError(f"`{name or plugins[0].name}` is the name of two plug-ins: {both}. Uninstall one of them.")


def declared(group: str) -> Mapping[str, Sequence[Plugin]]:
    """Name -> the entry points that give it, sorted by name: more than one where packages disagree. Imports nothing."""
    return _declared(group, tuple(sys.path))


def packages_that_cannot_be_read() -> list[str]:
    """What is wrong with packages whose list of entry points is no such list."""
    return list(_scan(tuple(sys.path))[1])


def forget() -> None:
    """Look again for what is installed: it is looked for once."""
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
    """All entry points of our groups, and what is wrong with packages. Of a package found twice, the first counts."""
    from importlib.metadata import distributions  # late: see `load`

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
        except Exception as error:  # noqa: BLE001 - metadata of others: any kind of wrong
            problems.append(f"the entry points of {_place(distribution)} cannot be read: {last_line(error)}.")
    return frozenset(found), tuple(problems)


def _plugins(distribution: Distribution) -> Iterator[Plugin]:
    package, version = distribution.metadata["Name"], distribution.version
    for point in distribution.entry_points:
        if point.group in GROUPS:
            yield Plugin(
                group=point.group, name=point.name, package=package, version=version, target=point.value.strip()
            )


def _place(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", "a package"))


def check_plugin_name(plugin: Plugin) -> None:
    """Names of plug-ins are written on command lines and become columns. Raises: UserError for one that cannot."""
    if not _NAMES.get(plugin.group, _SNAKE_CASE).fullmatch(plugin.name):
        raise plugin.refuse("has a name that is not in lower case letters, digits and underscores")


def last_line(error: BaseException) -> str:
    """What kind of exception it is, and the last line of what it says, cut to a readable length."""
    words = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {words[-1].strip()}" if words else type(error).__name__
    return said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]} [...]"
