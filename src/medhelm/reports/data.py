"""Source and state of benchmark data as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Availability, Benchmark
from medhelm.domain.text import plural
from medhelm.reports.formats import tables
from medhelm.reports.formats.json import select
from medhelm.reports.formats.tables import printable

Known = Sequence[tuple[Benchmark, Availability]]
"""Benchmarks with the state of their data."""

MEANING = {
    "here": "all files exist",
    "unscorable": "all instances exist, but a file that scoring needs is missing",
    "incomplete": "some files are missing",
    "absent": "no file was found",
    "verified": "all files have the checksums of the definition",
    "unpinned": "the definition has no checksum for some files",
    "changed": "a file has another checksum",
}
"""State of data in a table -> its meaning."""


def as_json(known: Known) -> dict[str, Any]:
    """Return the output of `medhelm data status --json`."""
    return {"benchmarks": [_benchmark_json(benchmark, found) for benchmark, found in known]}


def _benchmark_json(benchmark: Benchmark, found: Availability) -> dict[str, Any]:
    return {
        **select(benchmark, "benchmark=name access license"),
        **select(found, "state folder missing reason"),
        **select(benchmark.source, "files scoring_files location revision"),
        "addresses": list(found.addresses),
        "note": benchmark.source.note.strip(),
        "citation": benchmark.citation,
    }


def to_table(known: Known) -> str:
    """Return one line per benchmark, then the sources of the data that is missing."""
    headers = ["benchmark", "access", "license", "state", "known checksums", "folder"]
    rows = [
        [
            *(benchmark.name, benchmark.access, benchmark.license or "not stated"),
            *(_state(found), _checksums(benchmark), str(found.folder) if found.folder else None),
        ]
        for benchmark, found in known
    ]
    text = tables.render(rows, headers, drop=("known checksums", "license", "access"))
    states = [name for name in MEANING if any(_state(found) == name for _, found in known)]
    legend = "\n".join(f"- {name}: {MEANING[name]}" for name in states)
    needed = [_missing_data_text(benchmark, found) for benchmark, found in known if not found.is_usable or found.reason]
    return "\n\n".join([f"{text}\n{legend}" if legend else text.rstrip("\n"), *needed])


def _state(found: Availability) -> str:
    """Return the state in a table. JSON has no such state, but the missing files."""
    return "unscorable" if found.state == "here" and found.missing else found.state


def _checksums(benchmark: Benchmark) -> str:
    """Return the share of files with a checksum in the definition."""
    checksums = [*benchmark.source.files.values(), *benchmark.source.scoring_files.values()]
    return f"{sum(map(bool, checksums))} of {len(checksums)}"


def _missing_data_text(benchmark: Benchmark, found: Availability) -> str:
    """Return the sources of missing data."""
    source = benchmark.source
    files = ", ".join([*source.files, *source.scoring_files])
    lines = [f"{benchmark.name}: {found.reason}", f"  files    {files}"]
    lines += [f"  from     {address}" for address in found.addresses]
    lines += [f"  note     {' '.join(source.note.split())}"] if source.note else []
    return printable("\n".join(lines))


def written_text(name: str, files: Sequence[Path], n_rows: int, folder: Path) -> str:
    """Return the list of sample files that were written."""
    listed = [f"  {path}" for path in files[:10]]
    listed += [f"  ... and {len(files) - 10} more"] if len(files) > 10 else []
    count = f"{plural(n_rows, 'invented row')} in {plural(len(files), 'file')}"
    advice = "Replace them with files of your own in the same format and place; then run\n"
    advice += f"  medhelm run {name} --data {folder} --own-data --model ..."
    return "\n".join([f"{name}: {count}", *listed, advice])
