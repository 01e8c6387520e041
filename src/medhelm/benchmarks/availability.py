"""Check whether the data of a benchmark is on this machine and unchanged."""

from __future__ import annotations

from pathlib import Path

from medhelm.benchmarks.data.dataset import find_data, folder_problem
from medhelm.benchmarks.data.sources import addresses, check_files, missing_files, missing_files_text
from medhelm.domain import Availability, Benchmark, DataState
from medhelm.errors import DataError, MissingError


def availability(benchmark: Benchmark, data: Path | None, *, verify: bool = False) -> Availability:
    """Look for the data of a benchmark.

    Files that only scoring needs are reported if missing, but do not make the data incomplete.

    Parameters
    ----------
    data
        Folder with one folder per benchmark; None if there is none.
    verify
        Read all files and compare their checksums.
    """
    source = benchmark.source
    folder: Path | None = None
    missing = list(source.files)
    state: DataState = "absent"
    reason = f"not in {data}{folder_problem(data)}" if data else "no data folder is set"
    try:
        folder = find_data(benchmark, data)
    except MissingError:
        pass  # `reason` says so
    else:
        missing = missing_files(source, folder, scoring=True)
        state, reason = _state(benchmark, folder, missing, verify=verify)
    return Availability(
        state=state,
        folder=folder,
        missing=tuple(missing),
        addresses=tuple(dict.fromkeys(addresses(source, source.files))),
        reason=reason,
    )


def _state(benchmark: Benchmark, folder: Path, missing: list[str], *, verify: bool) -> tuple[DataState, str]:
    """Return the state of data that was found, and what is wrong with it."""
    source = benchmark.source
    if needed := [name for name in missing if name in source.files]:
        return "incomplete", missing_files_text(folder, needed)
    reason = f"scoring needs {', '.join(missing)}" if missing else ""
    if not verify:
        return "here", reason
    try:
        check_files(source, folder)
    except DataError as error:
        return "changed", str(error)
    return ("verified" if all([*source.files.values(), *source.scoring_files.values()]) else "unpinned"), reason
