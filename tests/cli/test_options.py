"""An option is written once: the words of an object, read by the command line, give the object."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import pytest
from click.testing import CliRunner

from medhelm.cli.options import options_of
from medhelm.domain import Shard
from medhelm.domain.option_fields import check_options, words
from medhelm.evaluation.settings import Settings
from medhelm.results.options import BoardOptions, RunFilter

WORDS: dict[str, tuple[Any, str]] = {
    "defaults need no word": (RunFilter(), ""),
    "flags, numbers, choices, and values with a notation": (
        Settings(
            verification_codes=False, limit=3, seed=7, tier="sample", own_data=True, allow_hosts=("a", "b"),
            max_cost_usd=0.5, proxy="http://h:1", timeout_s=1.5, shard=Shard(index=1, count=4),
        ),
        "--no-verification-code --limit 3 --seed 7 --tier sample --own-data --allow-host a --allow-host b "
        "--max-cost 0.5 --proxy http://h:1 --timeout 1.5 --shard 1/4",
    ),
    "options within options, and a list in one word": (
        BoardOptions(
            shared=True, panel=("m", "n"), suite="paper35", wanted=RunFilter(excluded="x"), rule="published",
            pricing=("a.yaml", "b.yaml"),
        ),
        "--shared --panel m,n --suite paper35 --exclude x --scoring published --prices a.yaml --prices b.yaml",
    ),
    "names are repeated, a day is a time": (
        RunFilter(models=["a", "b"], benchmarks="c", since=datetime(2026, 11, 1)),
        "--model a --model b --benchmark c --since 2026-11-01T00:00:00",
    ),
}  # fmt: skip


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
