"""What was exported, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MIB = 2**20


def to_json(
    kind: str,
    place: Path,
    files: int,
    size: int,
    counts: Mapping[str, int],
    scoring: str,
    left_out: Sequence[str],
) -> dict[str, Any]:
    """As plain lists and dictionaries."""
    content: dict[str, Any] = {"kind": kind, "path": str(place), "files": files, "bytes": size, "counts": dict(counts)}
    if scoring:
        content["scoring"] = scoring
    return {**content, "left_out": list(left_out)}


def to_text(kind: str, place: Path, files: int, size: int, counts: Mapping[str, int], scoring: str) -> str:
    """One line: what, how many, where."""
    what = ", ".join(f"{number:,} {name if number != 1 else name.removesuffix('s')}" for name, number in counts.items())
    rule = f" ({scoring} scoring)" if scoring else ""
    amount = f"{size / MIB:.1f} MiB" if size >= MIB / 10 else f"{size / 1024:.1f} KiB"
    count = "1 file" if files == 1 else f"{files:,} files"
    return f"{kind}: {what}{rule} in {count}, {amount}: {place}\n"
