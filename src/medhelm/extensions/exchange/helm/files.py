"""Write files in HELM's layout: JSON indented by two, long lists entry by entry, each number as a `Stat`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.io.parquet import sql_path

if TYPE_CHECKING:
    import duckdb

_ROWS = 32
"""Number of rows in memory at a time."""


def stat(name: str, value: float, split: str) -> dict[str, Any]:
    """Return one number in the form in which HELM writes the mean of a metric."""
    return {
        "name": {"name": name, "split": split},
        "count": 1,
        "sum": value,
        "sum_squared": _square(value),
        "min": value,
        "max": value,
        "mean": value,
        "variance": 0.0,
        "stddev": 0.0,
    }


_STAT = """      {{
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
"""A `stat` as JSON. Formatting is ten times as fast as `json`, and each instance has a dozen of them."""


def per_instance(instance_id: str, values: Mapping[str, float], split: str) -> str:
    """Return the metric values of one instance as JSON."""
    stats = ",\n".join(
        _STAT.format(name=json.dumps(name), split=split, value=value, square=_square(value))
        for name, value in values.items()
    )
    start = f'{{\n  "instance_id": {json.dumps(instance_id)},\n  "train_trial_index": 0,\n  "stats": '
    body = f"[\n{stats.replace(chr(10) + '  ', chr(10)).removeprefix('  ')}\n  ]" if stats else "[]"
    return start + body + "\n}"


def _square(value: float) -> float:
    """Return the square, or the largest float if it overflows: JSON has no infinity."""
    return min(value * value, sys.float_info.max)


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
