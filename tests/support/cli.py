"""The outcome of a command, for tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    code: int
    """Its exit code."""
    out: str
    """Its standard output."""
    err: str
    """Its standard error."""

    @property
    def json(self) -> Any:
        """Standard output, parsed as JSON."""
        return json.loads(self.out)


Medhelm = Callable[..., Outcome]
"""Runs a command in this process."""
