"""Check all installed plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.benchmarks.catalog import read_packaged_benchmarks
from medhelm.io import plugins
from medhelm.io.plugins import Plugin, declared, packages_that_cannot_be_read
from medhelm.models.providers import SERVICES
from medhelm.scoring.metrics import METRIC_NAMES, METRICS


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """One entry point of a package, with its problems."""

    plugin: Plugin
    """The entry point."""
    gives: tuple[str, ...]
    """Names that it makes available; empty if it does not work."""
    problems: tuple[str, ...]
    """Its problems; empty if it works."""


def installed_plugins(extra: Sequence[Path] = ()) -> tuple[list[InstalledPlugin], list[str]]:
    """Import all entry points; return them by kind and name, and the problems of packages as a whole.

    `extra`: the user's own folders with benchmarks, whose names take precedence over those of packages.
    """
    found = []
    for things in (SERVICES, METRICS):
        wrong = things.problems()
        for plugin in _all(things.group):
            problem = wrong.get(plugin, "")
            found.append(
                InstalledPlugin(
                    plugin=plugin, gives=() if problem else (plugin.name,), problems=(problem,) if problem else ()
                )
            )
    packaged = read_packaged_benchmarks(metrics=METRIC_NAMES, extra=extra)
    for plugin in _all(plugins.BENCHMARKS):
        names = packaged.held.get(plugin, ())
        problems = [packaged.problems[name] for name in (plugin.name, *names) if name in packaged.problems]
        gives = tuple(name for name in names if name in packaged.folders and name not in packaged.problems)
        found.append(InstalledPlugin(plugin=plugin, gives=gives, problems=tuple(dict.fromkeys(problems))))
    return found, packages_that_cannot_be_read()


def _all(group: str) -> Iterable[Plugin]:
    return (plugin for entries in declared(group).values() for plugin in entries)
