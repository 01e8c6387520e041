"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but the work is done at the first use.

    The readers of answers need some fifty expressions; compiling them all takes longer than opening a benchmark, and no
    command needs them before the first answer is there.
    """
    return cast("re.Pattern[str]", _Late(pattern, flags))


class _Late:
    """A regular expression that is compiled on first use; methods are bound on first access."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet; `re` keeps the compiled expression for the next method."""
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found
