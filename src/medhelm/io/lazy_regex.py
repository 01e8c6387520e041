"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled on first use.

    Parsers of completions need some fifty expressions. Compiling them all takes longer than loading a benchmark, and
    they are not needed before the first completion arrives.
    """
    return cast("re.Pattern[str]", _Late(pattern, flags))


class _Late:
    """A regular expression that is compiled on first use; methods are bound on first access."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Bind a method on first access; `re` caches the compiled expression."""
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found
