"""Printing what commands return: JSON, warnings and remarks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from medhelm.domain.result import Remark


def as_shown(text: str, format_: str = "table", *, indent: str = "") -> str:
    """Escape an untrusted text for Markdown, or escape and wrap it for a terminal.

    `indent`: indentation of all lines after the first.
    """
    from medhelm.results.formats.tables import escape_markdown, printable, wrapped

    return escape_markdown(text) if format_ == "md" else wrapped(printable(text), indent)


def warn(text: str) -> None:
    """Print a message to standard error, without control characters."""
    click.echo(as_shown(f"medhelm: {text}"), err=True)


def print_json(content: object) -> None:
    """Write JSON to standard output."""
    from pydantic_core import to_json  # seven times as fast as `json`: leaderboards can have millions of numbers

    click.echo(to_json(content, indent=2, inf_nan_mode="constants").decode())


def print_either(is_json: bool, content: object, text: str, *, nl: bool = True) -> None:
    """Print a result: its content as JSON, or its text. `nl`: False if the text ends its last line itself."""
    if is_json:
        print_json(content)
    else:
        click.echo(text, nl=nl)


def print_remarks(remarks: Iterable[Remark | str], format_: str) -> None:
    """Print one bullet per remark: to standard output below a table, to standard error if that is CSV or LaTeX."""
    to_stderr = format_ in ("csv", "latex")
    for remark in remarks:
        click.echo(f"- {as_shown(str(remark), format_, indent='  ')}", err=to_stderr)
