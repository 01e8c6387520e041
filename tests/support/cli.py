"""The outcome of a command, for tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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


def repeated(option: str, values: Iterable[object]) -> list[str]:
    """Return the words of an option that is given once for each value."""
    return [word for value in values for word in (option, str(value))]


def succeeded(outcome: Outcome) -> Outcome:
    """The outcome of a command that ended with 0."""
    assert outcome.code == 0, outcome.err
    return outcome


def assert_refused(outcome: Outcome, *words: str, code: int = 2) -> None:
    """Check that a command ended with this code and one message that says all of these words.

    A command that was refused prints nothing else.
    """
    assert outcome.code == code, outcome.err
    assert code != 2 or outcome.out == ""
    for one in words:
        assert one in outcome.err
    assert "Traceback" not in outcome.err
