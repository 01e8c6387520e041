"""Check all installed plug-ins, and name the versions of those that a run uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medhelm.benchmarks.catalog import read_packaged_benchmarks
from medhelm.io import plugins
from medhelm.io.plugins import Plugin, WithPlugins, declared, packages_that_cannot_be_read
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


def installed_plugins(
    extra: Sequence[Path] = (), *, commands: Sequence[WithPlugins[Any]] = ()
) -> tuple[list[InstalledPlugin], list[str]]:
    """Import all entry points; return them by kind and name, and the problems of packages as a whole.

    Parameters: extra, the user's own folders with benchmarks, whose names take precedence over those of packages;
    commands, those of the command line.
    """
    found = []
    kinds: tuple[WithPlugins[Any], ...] = (SERVICES, METRICS, *commands)
    for things in kinds:
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


# --- versions of runs -------------------------------------------------------------------------------------------------


def versions_in_use(package: str, providers: Collection[str], metrics: Collection[str]) -> dict[str, str]:
    """Return package -> version for the plug-ins of a run: its benchmark, providers and metrics."""
    found = {}
    for things, names in ((SERVICES, providers), (METRICS, metrics)):
        for name in names:
            if name not in things.built_in and name in things and (plugin := things.plugin(name)):
                found[plugin.package] = plugin.version
    if package and package not in found:
        found[package] = version_of(package)
    return found


def changed_since(versions: Mapping[str, str]) -> list[str]:
    """Return a remark for each package of a run that is installed in another version now, or not at all.

    `versions`: the versions stored with a run.
    """
    remarks = []
    for package, before in versions.items():
        now = version_of(package) if package not in ("medhelm", "python") else before
        if now != before:
            here = f"this is {now}" if now else "it is not here"
            remarks.append(f"made with {package} {before or 'of unknown version'}; {here}")
    return remarks


def version_of(package: str) -> str:
    """Return the version of an installed package; "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # imported late: it takes longer than a small run

    try:
        return version(package)
    except (PackageNotFoundError, ValueError):  # ValueError: not a valid package name
        return ""
