"""An option is written once: the words of an object, read by the command line, give the object."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import pytest
from click.testing import CliRunner

from medhelm.cli.common.options import options_of
from medhelm.domain.options import check_options, words
from medhelm.results.options import RunFilter

WORDS: dict[str, tuple[Any, str]] = {
    "defaults need no word": (RunFilter(), ""),
    "names are repeated, a day is a time": (
        RunFilter(models=["a", "b"], benchmarks="c", since=datetime(2026, 11, 1)),
        "--model a --model b --benchmark c --since 2026-11-01T00:00:00",
    ),
}


def read(kind: type[Any], *given: str) -> Any:
    """Read words as a command with the options of a class does."""
    found: list[Any] = []

    @click.command()
    @options_of(kind, "chosen")
    def command(chosen: Any) -> int:
        found.append(chosen)
        return 0

    done = CliRunner().invoke(command, given)
    assert done.exit_code == 0, done.output
    return found[0]


@pytest.mark.parametrize(("options", "text"), WORDS.values(), ids=WORDS)
def test_words_are_read_back(options: Any, text: str) -> None:
    assert words(options) == tuple(text.split())
    assert read(type(options), *words(options)) == options
    check_options(options)
