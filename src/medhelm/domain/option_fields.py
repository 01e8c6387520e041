"""Options that are written once: a field of a dataclass is also an option of commands.

From the fields come the options of the command line (`cli.options.options_of`), the checks of the Python API,
the meaning in the reference, and the words of a command that repeats what was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from math import inf
from typing import Any

from medhelm.domain.text import check_choice, shortened
from medhelm.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The command-line form of a field. Its type and default are those of the field."""

    flag: str
    """Name on the command line; `--with/--without` for a field that is True unless the user says otherwise."""
    help: str
    """Meaning, for the help and the reference."""
    metavar: str | None = None
    """Placeholder for the value in the help; None for N of a whole number, and the choices."""
    group: str = ""
    """Name under which commands take several options together."""
    choices: tuple[str, ...] = ()
    """The valid values, if they are a fixed list."""
    least: float | None = None
    """Lowest value of a number."""
    most: int | None = None
    """Highest value of a number on the command line."""
    above: float | None = None
    """Number that values on the command line must exceed."""
    below: float | None = None
    """Number that must exceed values on the command line."""
    kind: str = ""
    """Name of a type of the command line, for values that need one of their own."""
    completes: str = ""
    """Names that the shell completes: a function of `cli.shell_completion`."""
    is_required: bool = False
    """True if commands need it."""
    variable: str | None = None
    """Environment variable that gives a default."""
    parse: Callable[[str], Any] | None = None
    """Text on the command line -> value. Raises: ValueError."""


def option(flag: str, help: str, default: Any = None, **form: Any) -> Any:
    """Return a field that is also an option. `form`: the other fields of `Option`."""
    return field(default=default, metadata={"option": Option(flag=flag, help=help, **form)})


def options_in(default: Any) -> Any:
    """Return a field that holds a dataclass whose fields are options. `default`: an instance."""
    return field(default=default, metadata={"nested": type(default)})


def option_of(one: Field[Any]) -> Option | None:
    """Return the option that a field is; None for one that the command line does not offer."""
    found: Option | None = one.metadata.get("option")
    return found


def words(options: Any) -> tuple[str, ...]:
    """Return the words of a command that choose these options: those that differ from their default.

    Paths, dates and numbers are written as the command line reads them.
    """
    return tuple(word for one in fields(options) for word in _words_of(one, getattr(options, one.name)))


def _words_of(one: Field[Any], value: Any) -> Iterator[str]:
    if "nested" in one.metadata:
        yield from words(value)
    form = option_of(one)
    if form is None or value == one.default:
        return
    on, _, off = form.flag.partition("/")
    if isinstance(value, bool):
        yield on if value else off
    elif isinstance(value, str | int | float):
        yield from (on, str(value))
    elif isinstance(value, datetime):
        yield from (on, value.isoformat(timespec="seconds"))
    elif isinstance(value, tuple | list) and form.parse is None:
        for item in value:
            yield from (on, str(item))
    else:
        yield from (on, ",".join(value) if isinstance(value, tuple | list) else str(value))


def check_options(options: Any) -> None:
    """Raise UserError for a value that is not one of the choices of its option, or below its lowest number."""
    for one in fields(options):
        form, value = option_of(one), getattr(options, one.name)
        if form is None or (value is None and one.default is None):
            continue
        least = form.least if form.above is None else form.above
        if form.choices:
            check_choice(value, form.choices, one.name)
        elif form.parse and isinstance(value, str) and value != one.default:
            try:
                form.parse(value)
            except ValueError as error:
                raise UserError(f"`{one.name}` {error}") from None
        elif one.type == "bool" and not isinstance(value, bool):
            raise UserError(f"`{one.name}` must be True or False. This is not: {shortened(value)}.")
        elif least is not None:
            is_whole = str(one.type).startswith("int")
            if (
                isinstance(value, bool)
                or not isinstance(value, int if is_whole else (int, float))
                or not (least <= value < inf)
            ):
                kind = "a whole number" if is_whole else "a number"
                raise UserError(f"`{one.name}` must be {kind} of at least {least}. This is not: {shortened(value)}.")
