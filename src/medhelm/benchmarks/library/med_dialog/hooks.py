"""MedDialog: the website of each conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from medhelm.errors import DataError


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {subset, position, src, tgt} for every conversation; none is skipped.

    `subset` is the folder of the file, `position` the place in it, from 0; the texts have no outer white space.
    Raises: DataError if a conversation lacks one of its texts.
    """
    seen: Counter[str] = Counter()
    for entry in entries:
        subset = str(entry["file"]).partition("/")[0]
        position = seen[subset]
        seen[subset] += 1
        missing = [name for name in ("src", "tgt") if not str(entry.get(name) or "").strip()]
        if missing:
            raise DataError(f"{entry['file']}, conversation {position}: has no text in {' and '.join(missing)}.")
        yield {
            "subset": subset,
            "position": str(position),
            "src": str(entry["src"]).strip(),
            "tgt": str(entry["tgt"]).strip(),
        }
