"""Options for output: a file instead of the terminal, the width of tables, progress and notes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import Any

import click

from medhelm.cli.common.options import add_options
from medhelm.cli.common.shared import Shared

Command = Callable[..., int]


def output_option(command: Command) -> Command:
    """Add `-o`, which writes to a file what the command prints as its result."""

    @wraps(command)
    def with_output(*args: Any, output: Path | None, **options: Any) -> int:
        if output is None:
            return command(*args, **options)
        with redirect_stdout(StringIO()) as printed:
            code = command(*args, **options)
        write_output(output, printed.getvalue())
        return code

    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the result to this file instead of printing it.",
    )(with_output)


def table_options(command: Command) -> Command:
    """Add `-o` and `--wide` to a command that prints tables; in a terminal, they fit its width without `--wide`."""

    @wraps(command)
    def with_width(*args: Any, wide: bool, **options: Any) -> int:
        width = None if wide else terminal_width()
        with _fitted(width) if width else nullcontext():
            return command(*args, **options)

    wide = click.option("--wide", is_flag=True, help="Show all columns, also those that the terminal has no room for.")
    return wide(output_option(with_width))


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if the output goes to a file or a pipe."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None if it was closed before the start
    return shutil.get_terminal_size().columns if is_terminal else None


def _fitted(width: int) -> AbstractContextManager[None]:
    from medhelm.reports.tables import fitted  # imported late, as all packages here

    return fitted(width)


def write_output(path: Path, text: str) -> None:
    """Write a result to a file, atomically. Raises: UserError if it cannot be written."""
    from medhelm.errors import UserError
    from medhelm.io.output_folder import write_file

    try:
        write_file(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error


def _keep(name: str, value: bool) -> Callable[[click.Context, click.Parameter, bool], None]:
    """Return a callback that sets a field of `Shared` if the flag is given."""

    def keep(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        del parameter
        if given:
            setattr(context.ensure_object(Shared), name, value)

    return keep


progress_options = add_options(
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_keep("quiet", value=True),
        help="Print no progress and no notes; errors and the result stay.",
    ),
    click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        callback=_keep("color", value=False),
        help="Show progress without colors, as with NO_COLOR=1.",
    ),
)
