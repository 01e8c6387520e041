"""Where the data of benchmarks comes from and how it stands here, as a table, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medhelm.domain import Benchmark
from medhelm.reports import tables
from medhelm.reports.plain import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The data of one benchmark: where it is from, and what of it is here."""

    benchmark: Benchmark
    """The benchmark."""
    state: str
    """here, incomplete, absent, verified, unpinned or changed."""
    is_usable: bool
    """Whether the benchmark can be asked with it."""
    folder: Path | None
    """Where it was found."""
    missing: Sequence[str]
    """Files that should be there and are not."""
    reason: str
    """What is wrong with it; empty if nothing is."""
    addresses: Sequence[str]
    """Where it can be downloaded; empty if that is nowhere."""


def to_json(holdings: Sequence[Holding]) -> dict[str, Any]:
    """Everything, for programs."""
    return {"benchmarks": [_entry(holding) for holding in holdings]}


def _entry(holding: Holding) -> dict[str, Any]:
    benchmark = holding.benchmark
    source = benchmark.source
    return {
        "benchmark": benchmark.name,
        "access": benchmark.access,
        "license": benchmark.license,
        "state": holding.state,
        "folder": holding.folder and str(holding.folder),
        "missing": list(holding.missing),
        "reason": holding.reason,
        "files": dict(source.files),
        "scoring_files": dict(source.scoring_files),
        "location": source.location,
        "revision": source.revision,
        "addresses": list(holding.addresses),
        "note": source.note.strip(),
        "citation": benchmark.citation,
    }


def table(holdings: Sequence[Holding]) -> str:
    """One line per benchmark, and then what each one that is not here needs."""
    rows = [
        [
            holding.benchmark.name,
            holding.benchmark.access,
            holding.benchmark.license or "not stated",
            holding.state,
            _checksums(holding.benchmark),
            str(holding.folder) if holding.folder else None,
        ]
        for holding in holdings
    ]
    text = tables.render(rows, ["benchmark", "access", "licence", "state", "checksums", "folder"], format="table")
    needed = [_needs(holding) for holding in holdings if not holding.is_usable or holding.reason]
    return "\n\n".join([text.rstrip("\n"), *needed])


def _checksums(benchmark: Benchmark) -> str:
    """For how many of its files the definition names a checksum, which `medhelm data verify` compares."""
    known = [*benchmark.source.files.values(), *benchmark.source.scoring_files.values()]
    return f"{sum(map(bool, known))} of {len(known)}"


def _needs(holding: Holding) -> str:
    """What to do for one benchmark."""
    source = holding.benchmark.source
    files = ", ".join([*source.files, *source.scoring_files])
    lines = [f"{holding.benchmark.name}: {holding.reason}", f"  files    {files}"]
    lines += [f"  from     {address}" for address in holding.addresses]
    lines += [f"  note     {' '.join(source.note.split())}"] if source.note else []
    return printable("\n".join(lines))


def written_text(name: str, files: Sequence[Path], n_rows: int, folder: Path) -> str:
    """What was written as a sample of a benchmark's files."""
    listed = [f"  {path}" for path in files[:10]]
    listed += [f"  ... and {len(files) - 10} more"] if len(files) > 10 else []
    count = f"{n_rows} invented rows in {len(files)} file{'' if len(files) == 1 else 's'}"
    advice = f"Look at them, put your own in their place, and name the folder: --data {folder}"
    return "\n".join([f"{name}: {count}", *listed, advice])
