"""Whether the data of a benchmark is on this machine, and whether it is the right data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from medhelm.benchmarks.dataset import find_data
from medhelm.benchmarks.sources import check_files, missing_files
from medhelm.domain import Benchmark
from medhelm.errors import DataError, MissingError

State = Literal["here", "incomplete", "absent", "verified", "unpinned", "changed"]
"""`here`: all files are there; `incomplete`: some are; `absent`: none. After reading them: `verified`: all have the
checksums of the definition; `unpinned`: it names none for some, as for data that each hospital has of its own;
`changed`: a checksum is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """What is known of a benchmark's data on this machine."""

    state: State
    """How it stands."""
    folder: Path | None
    """Where it was found."""
    missing: tuple[str, ...]
    """Files that should be there and are not, below the folder."""
    reason: str
    """Why it cannot be used, or what is wrong with it, in words; empty if nothing is."""

    @property
    def is_usable(self) -> bool:
        """Whether the benchmark can be asked with it."""
        return self.state in ("here", "verified", "unpinned")


def availability(benchmark: Benchmark, data: Path | None, *, verify: bool = False) -> Availability:
    """Look for the data of a benchmark.

    Parameters: data, the folder with one folder per benchmark, None if there is none; verify, read the files whole and
    compare their checksums. Files that only scoring needs are looked for as well, but do not make data incomplete.
    """
    source = benchmark.source
    try:
        folder = find_data(benchmark, data)
    except MissingError:
        reason = f"not in {data}" if data else "no data folder is named"
        return Availability(state="absent", folder=None, missing=tuple(source.files), reason=reason)
    lacking = tuple(missing_files(source, folder, scoring=True))
    needed = [name for name in lacking if name in source.files]
    if needed:
        reason = f"{folder} lacks {', '.join(needed)}"
        return Availability(state="incomplete", folder=folder, missing=lacking, reason=reason)
    reason = f"scoring needs {', '.join(lacking)}" if lacking else ""
    if not verify:
        return Availability(state="here", folder=folder, missing=lacking, reason=reason)
    try:
        check_files(source, folder)
    except DataError as error:
        return Availability(state="changed", folder=folder, missing=lacking, reason=str(error))
    pinned = all(source.files.values()) and all(source.scoring_files.values())
    return Availability(state="verified" if pinned else "unpinned", folder=folder, missing=lacking, reason=reason)
