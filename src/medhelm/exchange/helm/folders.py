"""Where HELM's runs are: a run's folder, a suite, a release, or everything it ever wrote, and the files in them."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from medhelm.domain import Tier
from medhelm.errors import UserError
from medhelm.io.output_folder import EXPORT_MANIFEST

FILES = ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json", "per_instance_stats.json")
"""What a finished run holds. HELM writes them one after the other, so that one is missing where it was stopped."""

RELEASE = "runs_to_run_suites.json"
"""The file of a release that says in which suite each of its runs is."""

_DEEPEST = 4
"""Folders below the one that is named in which runs are looked for."""

_NO_RUNS = {"scenarios", "scenario_instances", "eval_cache", "groups", "releases", "tokenizer_config", "prod_env"}
"""Folders of HELM's that hold everything but runs."""

_LARGEST = 2**31
"""Bytes of a file, unpacked, beyond which it is not read."""


class UnreadableRun(Exception):  # noqa: N818 - what became of a run
    """A run cannot be taken in; the text says why."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where one run is."""

    path: Path
    """Its folder."""

    @property
    def name(self) -> str:
        """Suite and run, which name it among all runs of an output folder."""
        path = self.path.resolve()
        return f"{path.parent.name}/{path.name}"

    def spec(self) -> dict[str, Any]:
        """What the run is, without what came of it. Raises: UnreadableRun, as `read` does."""
        try:
            spec = _parsed(self._bytes(FILES[0]))
            missing = not all(_has(self.path, name) for name in FILES)
        except (OSError, EOFError, zlib.error, ValueError, RecursionError):
            missing = True
        if missing:
            self.read()
        if not isinstance(spec, dict):
            raise UnreadableRun(f"{FILES[0]} is no object")
        return spec

    def main_metric(self, group: str) -> str:
        """The metric that the schema beside the run shows for its group; empty if there is none that says so."""
        return _main_metrics(self.path.resolve().parent).get(group, "")

    @property
    def tier(self) -> Tier:
        """Real data, unless the files are an export of ours that says that its rows are invented."""
        return _tier(self.path.resolve().parent.parent.parent)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.path.iterdir() if path.is_file())

    def read(self) -> tuple[dict[str, Any], str]:
        """The content of each of FILES by its name, and the sha256 of all of them together, in hex.

        A file may be packed, as NAME.gz. Raises: UnreadableRun with everything that is missing or broken.
        """
        contents: dict[str, Any] = {}
        whole = hashlib.sha256()
        wrong = []
        for name in FILES:
            try:
                raw = self._bytes(name)
                contents[name] = _parsed(raw)
            except FileNotFoundError:
                wrong.append(f"{name} is missing")
            except (OSError, EOFError, zlib.error) as error:
                wrong.append(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})")
            except (ValueError, RecursionError) as error:
                wrong.append(f"{name} is not whole JSON ({str(error)[:100]})")
            else:
                whole.update(f"{name} {len(raw)}\n".encode())
                whole.update(raw)
        if wrong:
            raise UnreadableRun("; ".join(wrong))
        return contents, whole.hexdigest()

    def digest(self) -> str:
        """The sha256 that `read` gives, without reading what is in the files; empty if they are not whole."""
        whole = hashlib.sha256()
        try:
            for name in FILES:
                raw = self._bytes(name)
                whole.update(f"{name} {len(raw)}\n".encode())
                whole.update(raw)
        except (OSError, EOFError, zlib.error):
            return ""
        return whole.hexdigest()

    def _bytes(self, name: str) -> bytes:
        path = self.path / name
        if path.exists():
            if path.stat().st_size > _LARGEST:
                raise OSError(f"has more than {_LARGEST:,} bytes")
            return path.read_bytes()
        with gzip.open(path.with_name(f"{name}.gz")) as packed:
            raw = packed.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise OSError(f"has more than {_LARGEST:,} bytes")
        return raw


def find_runs(place: Path) -> tuple[list[RunFolder], list[tuple[str, str]]]:
    """The runs in a folder, in the order of their names, and those that are named there but are not.

    `place`: a run, a suite, a release, the folder of all suites or all releases, or the output folder of HELM. A
    release has its runs beside it, in `../../runs`.
    Raises: UserError if there is no such folder, or it holds no run.
    """
    if not place.is_dir():
        raise UserError(
            f"{place}: there is no such folder. Name a run, a suite, a release or the output folder of HELM."
        )
    releases = [place] if _has(place, RELEASE) else []
    if not releases and place.resolve().name == "releases":
        releases = [child for child in sorted(place.iterdir()) if _has(child, RELEASE)]
    if releases and not _is_suite(place):
        found, missing = _of_releases(releases)
    else:
        found, missing = [RunFolder(path) for path in _walk(place, 0)], []
    if not found and not missing:
        raise UserError(
            f"{place}: there is no run of HELM in it. A run is a folder with {', '.join(FILES)}; it lies in "
            "OUTPUT/runs/SUITE."
        )
    return found, missing


def _is_suite(place: Path) -> bool:
    """Whether runs lie in the folder itself: a suite may have been summarised in its own place."""
    return any(_is_run(child) for child in place.iterdir() if child.is_dir())


def _of_releases(releases: list[Path]) -> tuple[list[RunFolder], list[tuple[str, str]]]:
    found: dict[Path, None] = {}
    missing = []
    for release in releases:
        runs = release.resolve().parent.parent / "runs"
        try:
            suites = json.loads((release / RELEASE).read_text(encoding="utf-8"))
            listed = sorted((str(name), str(suite)) for name, suite in suites.items())
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(f"{release / RELEASE} cannot be read ({error}): it should map runs to suites.") from None
        for name, suite in listed:
            folder = runs / suite / name
            inside = runs.resolve() in folder.resolve().parents
            if inside and folder.is_dir():
                found[folder] = None
            else:
                missing.append((f"{suite}/{name}", f"the release {release.name} names it, and {folder} is not there"))
    return [RunFolder(path) for path in found], missing


def _walk(place: Path, depth: int) -> Iterator[Path]:
    if _is_run(place):
        yield place
        return
    if depth < _DEEPEST:
        for child in sorted(place.iterdir()):
            if child.is_dir() and child.name not in _NO_RUNS and not child.name.startswith("."):
                yield from _walk(child, depth + 1)


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run, be it a half-written one: it has a file of a run, or the name of one and no folder."""
    if any(_has(folder, name) for name in ("run_spec.json", "scenario_state.json", "per_instance_stats.json")):
        return True
    return "model=" in folder.name and not any(child.is_dir() for child in folder.iterdir())


def _has(folder: Path, name: str) -> bool:
    return (folder / name).is_file() or (folder / f"{name}.gz").is_file()


@lru_cache(maxsize=64)
def _main_metrics(suite: Path) -> dict[str, str]:
    """Run group -> its main metric, by the schema of a suite or of a release of it."""
    releases = sorted((suite.parent.parent / "releases").glob("*/schema.json"))
    for place in (suite / "schema.json", *reversed(releases)):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            groups = json.loads(place.read_text(encoding="utf-8"))["run_groups"]
            found = {str(one["name"]): (one.get("environment") or {}).get("main_name") for one in groups}
            return {name: str(metric) for name, metric in found.items() if metric}
    return {}


@lru_cache(maxsize=64)
def _tier(output: Path) -> Tier:
    """The tier of an output folder."""
    with suppress(OSError, ValueError, AttributeError):
        note = json.loads((output / EXPORT_MANIFEST).read_text(encoding="utf-8"))
        return "sample" if note.get("tier") == "sample" else "real"
    return "real"


def _parsed(raw: bytes) -> Any:
    """The content of a JSON file. Raises: ValueError or RecursionError.

    The parser of pydantic is more than twice as fast as Python's, which alone takes half a surrogate pair.
    """
    from pydantic_core import from_json

    try:
        return from_json(raw)
    except ValueError:
        return json.loads(raw)
