"""Rows on their way into a Parquet file, and the engine that writes and reads such files."""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.io.output_folder import beside

if TYPE_CHECKING:
    import duckdb

ROW_GROUP, ROW_GROUP_BYTES = 2048, 2**24
"""Most rows, and about how many bytes of them, that are turned into columns together; a bound on memory."""

PART_BYTES = 2**20
"""Size of the files that DuckDB reads; it holds one in memory."""


class ParquetWriter:
    """Rows on their way into a Parquet file: appended as JSON lines, turned into columns at the end.

    Only places are kept in memory, and the columns are made a few thousand rows at a time.
    """

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        """`path` is the Parquet file to come; `columns` maps names to DuckDB types, `position` among them."""
        self._path, self._columns = path, columns
        self._lines = beside(path, ".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._lines.open("wb")
        self._positions, self._starts = array("q"), array("q")
        self._size = self._longest = 0
        self._in_order = True

    def add(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        # "replace": a lone surrogate, which JSON can carry and UTF-8 cannot, must not make the row unwritable.
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._in_order = self._in_order and row["position"] == len(self._positions)
        self._positions.append(row["position"])
        self._starts.append(self._size)
        self._size += len(line)
        self._longest = max(self._longest, len(line))
        self._file.write(line)

    def finish(self) -> None:
        """Write the Parquet file, in the order of `position`, and rename it into place."""
        self._file.close()
        new, folder = beside(self._path), beside(self._path, "-parts")
        types = ", ".join(f"{sql_name(name)}: '{kind}'" for name, kind in self._columns.items())
        size = self._longest + 2**20
        n_together = max(1, min(ROW_GROUP, ROW_GROUP_BYTES * len(self._starts) // max(self._size, 1)))
        with connect() as connection:
            parts = ", ".join(sql_text(part) for part in self._in_parts(folder))
            rows = f"read_json([{parts}], format='nd', columns={{{types}}}, maximum_object_size={size})"
            connection.execute(
                f"COPY (SELECT * FROM {rows}) TO {sql_text(new)} "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {n_together})"
            )
        new.replace(self._path)
        self.discard()
        shutil.rmtree(folder)

    def _in_parts(self, folder: Path) -> list[Path]:
        """The lines in the order of `position`, in small files: DuckDB holds a file, and what it sorts, in memory."""
        folder.mkdir()
        parts = []
        for number, content in enumerate(self._batches()):
            parts.append(folder / f"{number}.jsonl")
            parts[-1].write_bytes(content)
        return parts

    def _batches(self) -> Iterator[bytes]:
        """The lines in the order of `position`, about PART_BYTES at a time."""
        batch = bytearray()
        places: Sequence[int] = range(len(self._positions))
        if not self._in_order:
            places = sorted(places, key=self._positions.__getitem__)
        with self._lines.open("rb") as lines:
            for place in places:
                lines.seek(self._starts[place])
                batch += lines.readline()
                if len(batch) >= PART_BYTES:
                    yield bytes(batch)
                    batch.clear()
        yield bytes(batch)

    def discard(self) -> None:
        """Forget all rows."""
        self._file.close()
        self._lines.unlink(missing_ok=True)


def connect() -> duckdb.DuckDBPyConnection:
    """A small engine of our own: one thread, bounded memory, no extension and no network."""
    import duckdb

    return duckdb.connect(
        config={
            "threads": 1,
            "memory_limit": "512MB",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


def sql_name(text: str) -> str:
    """`text` as an SQL name."""
    return '"' + text.replace('"', '""') + '"'


def sql_text(value: Path) -> str:
    """A path as an SQL string."""
    return "'" + str(value).replace("'", "''") + "'"
