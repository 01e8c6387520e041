"""MIMIC-RRS: findings and impression of each report, from two files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from medhelm.errors import DataError

FINDINGS = "test.findings.tok"
"""The file that is read first."""


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {line, findings, impression} for every report, the texts without outer white space; none is skipped here.

    `line` is the number of the report's line in both files, from 1. All lines of the findings come first; each is let
    go as soon as its impression is there. The definition leaves out, and counts, reports with an empty side.
    Raises: DataError with both numbers of lines if they differ, because then nothing tells which lines belong together.
    """
    waiting: deque[str] = deque()
    n_findings = n_impressions = 0
    for entry in entries:
        text = str(entry["line"]).strip()
        if entry["file"] == FINDINGS:
            n_findings += 1
            waiting.append(text)
            continue
        n_impressions += 1
        if waiting:
            yield {"line": str(n_impressions), "findings": waiting.popleft(), "impression": text}
    if n_findings != n_impressions:
        raise DataError(
            f"{FINDINGS} has {n_findings} lines and test.impression.tok has {n_impressions}. Line by line they belong "
            "to the same reports, so they must have equally many. Get both files again."
        )
