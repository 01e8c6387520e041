"""The help of every command: short summaries, an example, its own options first."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from medhelm.cli import GROUPS, cli
from medhelm.cli.global_options import Shared

WIDTH = 80
SUMMARY = 45
SHARED = ("--store", "--data", "--benchmarks", "--trust", "--models", "--offline", "--json")


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


ALL = dict(commands(cli))


def help_of(path: tuple[str, ...]) -> str:
    done = CliRunner().invoke(cli, [*path, "--help"], terminal_width=WIDTH, obj=Shared())
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("path", [path for path in ALL if path], ids=" ".join)
def test_help_fits_and_has_an_example_and_a_short_summary(path: tuple[str, ...]) -> None:
    text, command = help_of(path), ALL[path]
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "Example" in text
    first = (command.help or "").partition("\n")[0]
    assert first.endswith(".")
    assert len(first) <= SUMMARY
    assert first in help_of(path[:-1])


@pytest.mark.parametrize("path", [path for path in ALL if path], ids=" ".join)
def test_shared_options_are_accepted_everywhere_and_listed_last(path: tuple[str, ...]) -> None:
    options = [option for option in ALL[path].params if isinstance(option, click.Option)]
    assert {name for option in options for name in option.opts} >= set(SHARED) - {"--benchmarks", "--trust"}
    listed = [option.opts[0] for option in options if not option.hidden]
    shared = [name for name in listed if name in SHARED]
    assert listed[len(listed) - len(shared) :] == shared


def test_every_command_is_in_one_group() -> None:
    grouped = [name for group in GROUPS.values() for name in group]
    assert len(grouped) == len(cli.commands)
    assert [cli.commands[name].name for name in grouped] == grouped
    text = help_of(())
    assert [heading for heading in GROUPS if f"\n{heading}:\n" in text] == list(GROUPS)
