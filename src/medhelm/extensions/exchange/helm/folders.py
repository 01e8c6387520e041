"""Find HELM's runs in a run folder, a suite, a release or an output folder; read and write files in its layout."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.domain import Tier
from medhelm.errors import UserError
from medhelm.io.folders import EXPORT_MANIFEST
from medhelm.io.parquet import sql_path

if TYPE_CHECKING:
    import duckdb


FILES = ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json", "per_instance_stats.json")
"""Files of a finished run. HELM writes them one after another, so an interrupted run lacks the last ones."""

RELEASE = "runs_to_run_suites.json"
"""File of a release that maps each of its runs to a suite."""

_DEEPEST = 4
"""Maximum depth of the search for runs below the given folder."""

_NO_RUNS = {"scenarios", "scenario_instances", "eval_cache", "groups", "releases", "tokenizer_config", "prod_env"}
"""HELM's folders that contain no runs."""

_LARGEST = 2**31
"""Maximum size, in bytes, of an uncompressed file."""


class UnreadableRun(Exception):  # noqa: N818 - the result of reading a run
    """A run cannot be imported; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path
    """Path of the folder."""

    @property
    def name(self) -> str:
        """Return suite and run, which identify the run within an output folder."""
        path = self.path.resolve()
        return f"{path.parent.name}/{path.name}"

    def spec(self) -> dict[str, Any]:
        """Return the run's specification. Raises: UnreadableRun, as `read` does."""
        try:
            spec = _parse_json(self._read_bytes(FILES[0]))
            is_complete = all(_has(self.path, name) for name in FILES)
        except (OSError, EOFError, zlib.error, ValueError, RecursionError):
            is_complete = False
        if not is_complete:
            self.read()  # raises UnreadableRun with every problem
        if not isinstance(spec, dict):
            raise UnreadableRun(f"{FILES[0]} is not a JSON object")
        return spec

    def main_metric(self, group: str) -> str:
        """Return the metric that the schema next to the run shows for its group; empty if there is none."""
        return _main_metrics(self.path.resolve().parent).get(group, "")

    @property
    def tier(self) -> Tier:
        """Return `real`, unless the files are a MedHELM export that is marked as sample data."""
        return _tier(self.path.resolve().parent.parent.parent)

    @property
    def size(self) -> int:
        """Return the total size of its files in bytes."""
        return sum(path.stat().st_size for path in self.path.iterdir() if path.is_file())

    def read(self) -> tuple[dict[str, Any], str]:
        """Return the content of each of FILES by name, and the hex SHA-256 of all of them together.

        A file may be compressed, as NAME.gz. Raises: UnreadableRun with all files that are missing or broken.
        """
        contents: dict[str, Any] = {}
        digest = hashlib.sha256()
        problems = []
        for name in FILES:
            try:
                raw = self._read_bytes(name)
                contents[name] = _parse_json(raw)
            except FileNotFoundError:
                problems.append(f"{name} is missing")
            except (OSError, EOFError, zlib.error) as error:
                problems.append(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})")
            except (ValueError, RecursionError) as error:
                problems.append(f"{name} is not valid JSON ({str(error)[:100]})")
            else:
                digest.update(f"{name} {len(raw)}\n".encode())
                digest.update(raw)
        if problems:
            raise UnreadableRun("; ".join(problems))
        return contents, digest.hexdigest()

    def _read_bytes(self, name: str) -> bytes:
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
    """Return the runs in a folder, sorted by name, and the runs listed there that are missing, with the reason.

    `place`: a run, a suite, a release, the folder of all suites or all releases, or the output folder of HELM. The
    runs of a release are in `../../runs`.
    Raises: UserError if the folder does not exist or contains no run.
    """
    if not place.is_dir():
        raise UserError(
            f"{place}: this folder does not exist. Name a run, a suite, a release or the output folder of HELM."
        )
    releases = [place] if _has(place, RELEASE) else []
    if not releases and place.resolve().name == "releases":
        releases = [child for child in sorted(place.iterdir()) if _has(child, RELEASE)]
    if releases and not _is_suite(place):
        found, missing = _runs_of_releases(releases)
    else:
        found, missing = [RunFolder(path) for path in _find_run_folders(place, 0)], []
    if not found and not missing:
        raise UserError(
            f"{place}: no HELM run found. A run is a folder with {', '.join(FILES)}; HELM writes it to "
            "OUTPUT/runs/SUITE."
        )
    return found, missing


def _is_suite(place: Path) -> bool:
    """Return True if the folder itself contains runs: a suite may have been summarized in its own folder."""
    return any(_is_run(child) for child in place.iterdir() if child.is_dir())


def _runs_of_releases(releases: list[Path]) -> tuple[list[RunFolder], list[tuple[str, str]]]:
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
                missing.append((f"{suite}/{name}", f"the release {release.name} lists it, but {folder} does not exist"))
    return [RunFolder(path) for path in found], missing


def _find_run_folders(place: Path, depth: int) -> Iterator[Path]:
    if _is_run(place):
        yield place
        return
    if depth < _DEEPEST:
        for child in sorted(place.iterdir()):
            if child.is_dir() and child.name not in _NO_RUNS and not child.name.startswith("."):
                yield from _find_run_folders(child, depth + 1)


def _is_run(folder: Path) -> bool:
    """Return True for a run folder, even an incomplete one: it has a run's file, or a run's name and no subfolders."""
    if any(_has(folder, name) for name in ("run_spec.json", "scenario_state.json", "per_instance_stats.json")):
        return True
    return "model=" in folder.name and not any(child.is_dir() for child in folder.iterdir())


def _has(folder: Path, name: str) -> bool:
    return (folder / name).is_file() or (folder / f"{name}.gz").is_file()


@lru_cache(maxsize=64)
def _main_metrics(suite: Path) -> dict[str, str]:
    """Map each run group to its main metric, from the schema of a suite or of one of its releases."""
    releases = sorted((suite.parent.parent / "releases").glob("*/schema.json"))
    for place in (suite / "schema.json", *reversed(releases)):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            groups = json.loads(place.read_text(encoding="utf-8"))["run_groups"]
            found = {str(one["name"]): (one.get("environment") or {}).get("main_name") for one in groups}
            return {name: str(metric) for name, metric in found.items() if metric}
    return {}


@lru_cache(maxsize=64)
def _tier(output: Path) -> Tier:
    """Return the tier of an output folder."""
    with suppress(OSError, ValueError, AttributeError):
        note = json.loads((output / EXPORT_MANIFEST).read_text(encoding="utf-8"))
        return "sample" if note.get("tier") == "sample" else "real"
    return "real"


def _parse_json(raw: bytes) -> Any:
    """Parse a JSON file. Raises: ValueError or RecursionError.

    Pydantic's parser is more than twice as fast as Python's, but only Python's accepts lone surrogates.
    """
    from pydantic_core import from_json

    try:
        return from_json(raw)
    except ValueError:
        return json.loads(raw)


# --- files ------------------------------------------------------------------------------------------------------------
# Write files in HELM's layout: JSON indented by two, long lists entry by entry, each number as a `Stat`.

_ROWS = 32
"""Number of rows in memory at a time."""


_STAT = """{{
  "name": {{
    "name": {name},
    "split": "{split}"
  }},
  "count": 1,
  "sum": {value!r},
  "sum_squared": {square!r},
  "min": {value!r},
  "max": {value!r},
  "mean": {value!r},
  "variance": 0.0,
  "stddev": 0.0
}}"""


def stat(name: str, value: float, split: str) -> str:
    """Return one number as JSON, in the form in which HELM writes the mean of a metric.

    Formatting is ten times as fast as `json`, and each instance has a dozen of them.
    """
    square = min(value * value, sys.float_info.max)  # JSON has no infinity
    return _STAT.format(name=json.dumps(name), split=split, value=value, square=square)


def per_instance(instance_id: str, values: Mapping[str, float], split: str) -> str:
    """Return the metric values of one instance as JSON."""
    stats = ",\n".join(stat(name, value, split) for name, value in values.items()).replace("\n", "\n    ")
    start = f'{{\n  "instance_id": {json.dumps(instance_id)},\n  "train_trial_index": 0,\n  "stats": '
    return start + (f"[\n    {stats}\n  ]" if stats else "[]") + "\n}"


def write_json(path: Path, content: object) -> None:
    """Write a JSON file. Raises: ValueError for nan, which JSON does not allow."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False), encoding="utf-8")


@contextmanager
def json_list(
    path: Path, before: Mapping[str, Any] | None = None, key: str = "", after: Mapping[str, Any] | None = None
) -> Iterator[Callable[[str], None]]:
    """Write a JSON file with one long list; provides a function that appends an entry, JSON indented by two.

    The file is a plain list or, with `key`, an object that has the list between the fields `before` and `after`.
    """
    start, margin, end = "[", "  ", "\n]"
    if key:
        fields = "".join(f"  {_field(name, value)},\n" for name, value in (before or {}).items())
        tail = "".join(f",\n  {_field(name, value)}" for name, value in (after or {}).items())
        start, margin, end = f"{{\n{fields}  {json.dumps(key)}: [", "    ", f"\n  ]{tail}\n}}"
    separator = ""
    with path.open("w", encoding="utf-8") as file:

        def add(entry: str) -> None:
            nonlocal separator
            file.write(f"{separator}\n{margin}" + entry.replace("\n", f"\n{margin}"))
            separator = ","

        file.write(start)
        yield add
        file.write(end)


def _field(name: str, value: object) -> str:
    return f"{json.dumps(name)}: " + json.dumps(value, indent=2).replace("\n", "\n  ")


def rows(engine: duckdb.DuckDBPyConnection, path: Path, columns: str = "*") -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file in order, a few at a time; `columns` is an SQL column list."""
    # Several files are read in parallel, so each has its own cursor. A connection for each would take 20 ms.
    cursor = engine.cursor()
    try:
        table = f"read_parquet({sql_path(path)})"
        found = cursor.execute(f"SELECT {columns} FROM {table}")  # noqa: S608 - our own names
        names = [column[0] for column in found.description]
        while some := found.fetchmany(_ROWS):
            yield from (dict(zip(names, row, strict=True)) for row in some)
    finally:
        cursor.close()
