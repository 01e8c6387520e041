"""The sample tier: a few invented rows next to each definition, read directly or from files made of them."""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from medhelm.benchmarks.data.sampling import check_files, read_rows
from medhelm.benchmarks.definition import SAMPLE_ROWS
from medhelm.domain import Benchmark, Source
from medhelm.io.rows import Row

SAMPLE_SOURCE = Source(
    kind="jsonl",
    files={SAMPLE_ROWS: ""},
    note="The sample tier reads invented rows from there: add a few, one JSON object per line, with the real columns.",
)
"""The invented rows next to a definition, with the columns of the data."""


def sample_rows(benchmark: Benchmark, checksum: str) -> tuple[Source, Path]:
    """Return the source of the sample rows: the definition's folder, or files written for its hook."""
    if benchmark.source.kind != "folder":
        return SAMPLE_SOURCE, benchmark.folder
    files = dict.fromkeys(benchmark.source.files, "")
    return replace(benchmark.source, files=files, expected_count=None), _write_temporary(benchmark, checksum)


_written: dict[tuple[Path, str], Path] = {}
"""(Folder of a definition, checksum of its sample rows) -> folder with their files, until the process ends."""


def _write_temporary(benchmark: Benchmark, checksum: str) -> Path:
    """Write the sample rows as the different files of a folder, in a temporary folder."""
    from medhelm.benchmarks.data.sample_files import write_files

    key = (benchmark.folder, checksum)
    if key not in _written:
        place = Path(mkdtemp(prefix=f"medhelm-{benchmark.name}-"))
        atexit.register(rmtree, place, ignore_errors=True)
        write_files(read_rows(SAMPLE_SOURCE, benchmark.folder), place, benchmark=benchmark)
        _written[key] = place
    return _written[key]


def write_sample(benchmark: Benchmark, folder: Path, *, rows: int | None = None) -> tuple[list[Path], int]:
    """Write the invented rows as files in the format of the benchmark, such as a workbook or a folder of XML.

    Parameters
    ----------
    folder
        Folder for the files.
    rows
        Write only the first so many rows of each file. Of a folder of different files, all rows are written.

    Returns
    -------
    tuple of list of Path and int
        The files, and the number of rows in them.

    Raises
    ------
    MissingError
        If there are no invented rows.
    UserError
        If a file already exists.
    """
    from medhelm.benchmarks.data.sample_files import write_files

    check_files(SAMPLE_SOURCE, benchmark.folder)
    chosen = list(_first_rows(read_rows(SAMPLE_SOURCE, benchmark.folder), benchmark.source, rows))
    return write_files(chosen, folder, benchmark=benchmark), len(chosen)


def _first_rows(rows: Iterable[Row], source: Source, most: int | None) -> Iterator[Row]:
    """Yield the first `most` rows of each file, at least one per file; all rows of a folder."""
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
