"""Output of commands: to a file or a terminal, with the width of tables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import Any

import click

from medhelm.cli.global_options import Shared
from medhelm.cli.options import add_options
from medhelm.errors import UserError

Command = Callable[..., int]

NOT_TEXT = (".html", ".htm", ".pdf", ".docx", ".doc", ".xlsx", ".xls", ".pptx", ".parquet", ".png", ".svg", ".zip")
"""Endings of files that no result is written as."""


def output_option(command: Command) -> Command:
    """Add `-o`, which writes the result to a file instead of printing it."""

    @wraps(command)
    def with_output(*args: Any, output: Path | None, **options: Any) -> int:
        if output is None:
            return command(*args, **options)
        if output.suffix.lower() in NOT_TEXT:
            raise UserError(
                f"{output}: the result is text, and cannot be written as {output.suffix}. Name a file that ends in "
                ".txt, .md, .csv, .tex or .json, with the --format of that name. Nothing was written."
            )
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
    """Add `-o` and `--wide` to a command that prints tables; without `--wide`, they fit the width of a terminal."""

    @wraps(command)
    def with_width(*args: Any, wide: bool, **options: Any) -> int:
        from medhelm.results.formats.tables import fitted

        with fitted(None if wide else terminal_width(), wide=wide):
            return command(*args, **options)

    wide = click.option(
        "--wide",
        is_flag=True,
        help="Show all columns, also those that few readers need and those that do not fit the terminal.",
    )
    return wide(output_option(with_width))


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if the output goes to a file or a pipe."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None if it was closed before the start
    return shutil.get_terminal_size().columns if is_terminal else None


def write_output(path: Path, text: str) -> None:
    """Write a result to a file, atomically. Raises: UserError or StoreFullError if it cannot be written."""
    from medhelm.io.folders import output_errors, write_file

    with output_errors(path, "file"):
        write_file(path, text)


def _set_if_given(name: str, value: bool) -> Callable[[click.Context, click.Parameter, bool], None]:
    """Return a callback that sets a field of `Shared` if the flag is given."""

    def set_field(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
        if given:
            setattr(context.ensure_object(Shared), name, value)

    return set_field


progress_options = add_options(
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_set_if_given("quiet", value=True),
        help="Do not print progress and notes, only errors and the result.",
    ),
    click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        callback=_set_if_given("color", value=False),
        help="Show progress without colors, as with NO_COLOR=1.",
    ),
)
