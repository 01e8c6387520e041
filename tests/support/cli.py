"""What a command of ours came to, for tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int
    """Its exit code."""
    out: str
    """What it wrote to standard output."""
    err: str
    """What it wrote to standard error."""

    @property
    def json(self) -> Any:
        """Its standard output, read as JSON."""
        return json.loads(self.out)


Medhelm = Callable[..., Outcome]
"""Runs a command in this process."""
