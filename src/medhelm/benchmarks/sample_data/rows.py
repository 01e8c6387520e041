"""The sample tier: a few invented rows beside each definition, read as they are or as the files they stand for."""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from medhelm.benchmarks.data.sources import check_files, read_rows
from medhelm.benchmarks.definition import SAMPLE_ROWS
from medhelm.domain import Benchmark, Source
from medhelm.io.rows import Row

SAMPLE_SOURCE = Source(
    kind="jsonl",
    files={SAMPLE_ROWS: ""},
    note="The sample tier reads invented rows from there: write a few, one JSON object a line, with the real columns.",
)
"""The invented rows beside a definition, as they would come from the files of the benchmark."""


def sample_rows(benchmark: Benchmark, checksum: str) -> tuple[Source, Path]:
    """Where the sample rows are read: beside the definition, or written out as the files that the hook expects."""
    if benchmark.source.kind != "folder":
        return SAMPLE_SOURCE, benchmark.folder
    files = dict.fromkeys(benchmark.source.files, "")
    return replace(benchmark.source, files=files, expected_count=None), _written_out(benchmark, checksum)


_written: dict[tuple[Path, str], Path] = {}
"""(Folder of a definition, checksum of its sample rows) -> the files made of them, kept until this process ends."""


def _written_out(benchmark: Benchmark, checksum: str) -> Path:
    """The sample rows of a folder of different files as these files, in a temporary folder."""
    from medhelm.benchmarks.sample_data.files import (
        write_files,  # writers of many formats, which real data does not need
    )

    key = (benchmark.folder, checksum)
    if key not in _written:
        place = Path(mkdtemp(prefix=f"medhelm-{benchmark.name}-"))
        atexit.register(rmtree, place, ignore_errors=True)
        write_files(read_rows(SAMPLE_SOURCE, benchmark.folder), place, benchmark=benchmark)
        _written[key] = place
    return _written[key]


def write_sample(benchmark: Benchmark, folder: Path, *, rows: int | None = None) -> tuple[list[Path], int]:
    """Write the invented rows as files in the format that the benchmark reads, such as a workbook or a folder of XML.

    Parameters: folder, where the files go; rows, only the first so many of each file. Rows of a folder of different
    files belong together: all of them are written.
    Returns: the files, and the number of rows in them. Raises: MissingError if there are no invented rows; UserError if
    a file is there already.
    """
    from medhelm.benchmarks.sample_data.files import write_files

    check_files(SAMPLE_SOURCE, benchmark.folder)
    chosen = list(_first(read_rows(SAMPLE_SOURCE, benchmark.folder), benchmark.source, rows))
    return write_files(chosen, folder, benchmark=benchmark), len(chosen)


def _first(rows: Iterable[Row], source: Source, most: int | None) -> Iterator[Row]:
    """The first `most` rows of each file; all of a folder, and one at least for each of several files."""
    if most is None or source.kind == "folder":
        yield from rows
        return
    most = most if source.file_column else max(most, len(source.files))
    taken: Counter[object] = Counter()
    for row in rows:
        file = row.get(source.file_column, "")
        taken[file] += 1
        if taken[file] <= most:
            yield row
