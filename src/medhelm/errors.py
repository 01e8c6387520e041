"""Every error this package raises on purpose, and the exit code a command ends with.

    MedHelmError
    ├── UserError            2   what was asked cannot be done as asked: unknown name, bad file, bad option
    │   ├── ConfigError      2   a file that people write is wrong: carries all its problems
    │   └── DataError        2   a data file is not what the definition says it is
    │       └── NotComputed  2   a metric needs something that is not here; its score is missing
    ├── MissingError         4   something needed is not there: data, key, optional package
    ├── StoreError           2   the store cannot be used: read-only, not a store, written by another version
    │   └── StoreFullError   4   the disk filled up on the way; what was received before is kept
    ├── BudgetError          3   the limit on spending was reached
    ├── Interrupted        130   the user stopped it
    └── ProviderError            one call failed; the client decides what becomes of it, users never see it raised

Each message names the place, the value, the rule and the fix, and is shown without a traceback.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class MedHelmError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class UserError(MedHelmError):
    """What was asked cannot be done as asked. Nothing was run or sent."""

    exit_code = 2


class DataError(UserError):
    """A data file is not what the definition says it is."""


class NotComputed(DataError):  # noqa: N818 - what happened, not a mistake
    """A metric needs something that is not here: an optional package, a model, a database. Its score is missing."""


class MissingError(MedHelmError):
    """Something needed is not there: data, a key, an optional package."""

    exit_code = 4


class StoreError(MedHelmError):
    """The store cannot be used. Nothing was sent."""

    exit_code = 2


class StoreFullError(StoreError):
    """The disk filled up on the way. What was received before is kept."""

    exit_code = 4


class BudgetError(MedHelmError):
    """The limit on spending was reached."""

    exit_code = 3


class Interrupted(MedHelmError):  # noqa: N818 - what happened, not a mistake
    """The user stopped it. Everything received is kept."""

    exit_code = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file: where, what, and how to mend it."""

    text: str
    """What is wrong, and the fix."""
    line: int | None = None
    """Line in the file, from 1; None if it concerns the whole file."""


class ConfigError(UserError):
    """A file that people write is wrong; holds all its problems, not only the first."""

    def __init__(self, place: str, problems: Sequence[Problem]) -> None:
        """`place` is the file as the user knows it."""
        self.place = place
        self.problems = tuple(sorted(problems, key=lambda p: p.line or 0))
        count = len(self.problems)
        lines = [f"{place} has {count} problem{'s' if count != 1 else ''}", ""]
        width = max((len(str(p.line)) for p in self.problems if p.line), default=0)
        for problem in self.problems:
            where = f"line {problem.line:>{width}}  " if problem.line else ""
            lines.append("  " + where + problem.text.replace("\n", "\n" + " " * (2 + len(where))))
        super().__init__("\n".join(lines))


class ProviderError(MedHelmError):
    """One call to a provider failed.

    `code` is a short word for tables; `retryable` says whether the same request may succeed later; `fatal` says that no
    request to this model can succeed (wrong key, unknown model); `overloaded` that the endpoint asked for less.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        fatal: bool = False,
        overloaded: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        """`retry_after_s`: seconds the endpoint asked to wait, if it did."""
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.fatal = fatal
        self.overloaded = overloaded
        self.retry_after_s = retry_after_s


def suggestion(name: str, known: Collection[str]) -> str:
    """A sentence that helps with an unknown name: the nearest known one, or the whole list if it is short."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean `{near[0]}`?"
    return f"Known: {', '.join(sorted(known))}." if 0 < len(known) <= 40 else ""
