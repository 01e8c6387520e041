"""Exceptions of MedHELM and the exit codes of commands.

    MedHelmError
    ├── UserError            2   wrong input: unknown name, bad file, bad option
    │   ├── ConfigError      2   a configuration file is wrong; lists all its problems
    │   └── DataError        2   a data file does not match its definition
    │       └── NotComputed  2   a metric needs something that is not installed; its score is missing
    ├── MissingError         4   missing data, API key or optional package
    ├── StoreError           2   the store cannot be used: read-only, not a store, another version
    │   └── StoreFullError   4   the disk is full; everything received so far is kept
    ├── BudgetError          3   the spending limit was reached
    ├── Interrupted        130   the user interrupted the command
    └── ProviderError            one request failed; the client retries or records it, users never see it raised

Each message names the place, the value, the rule and the fix, and is printed without a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

_Found = TypeVar("_Found")


class MedHelmError(Exception):
    """Base class of all exceptions of MedHELM."""

    exit_code = 1


class UserError(MedHelmError):
    """The input is wrong. Nothing was run or sent."""

    exit_code = 2


class DataError(UserError):
    """A data file does not match its definition."""


class NotComputed(DataError):  # noqa: N818 - an event, not an error
    """A metric needs a package, model or database that is not installed. Its score is missing."""


class MissingError(MedHelmError):
    """Data, an API key or an optional package is missing."""

    exit_code = 4


class StoreError(MedHelmError):
    """The store cannot be used. Nothing was sent."""

    exit_code = 2


class StoreFullError(StoreError):
    """The disk is full. Everything received so far is kept."""

    exit_code = 4


class BudgetError(MedHelmError):
    """The spending limit was reached."""

    exit_code = 3


class Interrupted(MedHelmError):  # noqa: N818 - an event, not an error
    """The user interrupted the command. Everything received so far is kept."""

    exit_code = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file: its line, its description, and the fix."""

    text: str
    """Description of the problem, and the fix."""
    line: int | None = None
    """Line in the file, from 1; None if it concerns the whole file."""


class ConfigError(UserError):
    """A configuration file is wrong. Holds all its problems, not only the first."""

    def __init__(self, place: str, problems: Sequence[Problem]) -> None:
        """Parameters: place, the file as the user named it; problems, all of them."""
        self.place = place
        self.problems = tuple(sorted(problems, key=lambda p: p.line or 0))
        count = len(self.problems)
        if count == 1 and not self.problems[0].line:
            super().__init__(f"{place}: {self.problems[0].text}")
            return
        lines = [f"{place} has {count} problem{'s' if count != 1 else ''}", ""]
        width = max((len(str(p.line)) for p in self.problems if p.line), default=0)
        for problem in self.problems:
            where = f"line {problem.line:>{width}}  " if problem.line else ""
            lines.append("  " + where + problem.text.replace("\n", "\n" + " " * (2 + len(where))))
        super().__init__("\n".join(lines))


_NOTHING_SENT = "Nothing was sent."
"""Last sentence of errors that come before the first request."""


class ErrorCollector:
    """Collects errors in what the user asked for, so that one message names them all.

    >>> errors = ErrorCollector()
    >>> with errors.collect():
    ...     raise MissingError("a key is missing. Nothing was sent.")
    >>> with errors.collect():
    ...     raise UserError("a name is wrong.")
    >>> errors.raise_all()
    Traceback (most recent call last):
    medhelm.errors.UserError: a key is missing.
    <BLANKLINE>
    a name is wrong.
    <BLANKLINE>
    Nothing was sent.
    """

    def __init__(self) -> None:
        """Start without errors."""
        self.errors: list[UserError | MissingError] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect an error that ends the block."""
        try:
            yield
        except (UserError, MissingError) as error:
            self.errors.append(error)

    def found(self, find: Callable[[Sequence[str]], Sequence[_Found]], names: Sequence[str]) -> list[_Found]:
        """Return what `find` finds under these names; if some are wrong, collect that and return the others."""
        try:
            return list(find(names))
        except MissingError as error:  # nothing can be found now
            self.errors.append(error)
            return []
        except UserError as error:
            self.errors.append(error)
        others: list[_Found] = []
        for name in names:
            with suppress(UserError, MissingError):
                others += find([name])
        return others

    def raise_all(self, outcome: str = _NOTHING_SENT) -> None:
        """Raise the only error as it is, or one with all messages: a UserError unless everything is just missing.

        `outcome`: last sentence of the message.
        """
        if not self.errors:
            return
        if len(self.errors) == 1:
            raise self.errors[0]
        texts = dict.fromkeys(str(error).removesuffix(_NOTHING_SENT).rstrip() for error in self.errors)
        first = next((error for error in self.errors if isinstance(error, UserError)), self.errors[0])
        kind = UserError if isinstance(first, UserError) else MissingError
        raise kind("\n\n".join([*texts, outcome])) from first


class ProviderError(MedHelmError):
    """One request to a provider failed.

    `code` is a short code for tables; `retryable`: the same request may succeed later; `fatal`: no request to this
    model can succeed (wrong key, unknown model); `overloaded`: the endpoint asks for fewer requests; `reply_lost`: the
    request was sent, and no whole reply arrived, so that it may have been billed.
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
        reply_lost: bool = False,
    ) -> None:
        """`retry_after_s`: seconds that the endpoint asked to wait; None if it did not."""
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.fatal = fatal
        self.overloaded = overloaded
        self.retry_after_s = retry_after_s
        self.reply_lost = reply_lost


def suggestion(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown name: the nearest known name, or the whole list if it is short."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean `{near[0]}`?"
    return f"Known: {', '.join(sorted(known))}." if 0 < len(known) <= 40 else ""
