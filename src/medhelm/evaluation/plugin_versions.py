"""Versions of the plug-ins that a run uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from medhelm.models.providers import SERVICES
from medhelm.scoring.metrics import METRICS


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
