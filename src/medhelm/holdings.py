"""What data of which benchmarks is on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medhelm.benchmarks.availability import availability
from medhelm.benchmarks.sources import addresses
from medhelm.domain import Benchmark
from medhelm.reports.data_report import Holding


def holdings(benchmarks: Sequence[Benchmark], data: Path | None, *, verify: bool = False) -> list[Holding]:
    """Look for the data of each benchmark; `verify`: read it whole and compare checksums."""
    found = []
    for benchmark in benchmarks:
        known = availability(benchmark, data, verify=verify)
        holding = Holding(
            benchmark=benchmark,
            state=known.state,
            is_usable=known.is_usable,
            folder=known.folder,
            missing=known.missing,
            reason=known.reason,
            addresses=list(dict.fromkeys(addresses(benchmark.source, benchmark.source.files))),
        )
        found.append(holding)
    return found
