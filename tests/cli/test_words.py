"""An option is written once and read back; words that no command can use end with 2 and one message that helps."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from medhelm.cli.options import options_of
from medhelm.domain import Shard
from medhelm.domain.option_fields import check_options, words
from medhelm.evaluation.settings import Settings
from medhelm.results.options import BoardOptions, RunFilter
from tests.support.cli import Medhelm, assert_refused

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


# --- words that no command can use ------------------------------------------------------------------------------------

NOBODY = "--judge openai/judge@http://127.0.0.1:9/v1"
"""A judge whom nobody asks."""

FILTER = "filter-references mimic_rrs --tier sample"
RUN = "run pubmed_qa --model baseline/majority"
BOARD = "leaderboard --published-only"

WRONG = [
    # names, options and numbers
    ("rnu", "run"),
    ("run pubmed_qa", "--model"),
    ("run pubmedqa --model baseline/majority", "Did you mean `pubmed_qa`?"),
    ("run pubmed_qa --model baseline/majorty", "majority"),
    ("run pubmed_qa --model opnai/x", "Did you mean `openai"),
    (f"{RUN} --limit 0", "'--limit': 0 is not a whole number of at least 1."),
    (f"{RUN} --timeout -1", "-1.0 is not a number above 0."),
    (f"{RUN} --attempts 99", "99 is not a whole number from 1 to 20."),
    (f"{RUN} --tier real --sample offical --data .", "Did you mean `official`?"),
    (f"{RUN} --shard 0/2", "such as 2/8"),
    (f"{RUN} --shard 1/1{'0' * 5000}", "such as 2/8"),
    ("power --power 1", "1.0 is not a number above 0 and below 1."),
    ("budget set -5", "No such option '-5'. A number must not be negative."),
    ("leaderboard --since yesterday", "'yesterday' is not a date. Write it such as 2026-11-01 or 2026-11-01T14:30."),
    ("agreement", "has no ratings of a study"),
    ("agreement x.csv --scale 5 1", "the lowest grade must be below the highest"),
    ("filter-references pubmed_qa", "pubmed_qa is closed"),
    ("filter-references note_extract", "note_extract has no references"),
    (f"{FILTER} --judge baseline/majority", "cannot judge"),
    (f"{FILTER} {NOBODY} {NOBODY}", "twice"),
    (f"{FILTER} {NOBODY} --max-cost 1", "needs the price"),
    ("report out --only tabel1,figure9", "--only: unknown name `tabel1`. Did you mean `table1`?\n--only: unknown name"),
    # what does not go together
    (f"{BOARD} --scoring corrected", "corrected scores cannot be computed"),
    (f"{BOARD} --with-published", "--with-published and --published-only cannot be combined"),
    (f"{BOARD} --rank-baselines", "--published-only and --rank-baselines cannot be combined"),
    (f"{BOARD} --tier sample", "published results are on real data"),
    (f"{BOARD} --prices paper-2025-05-12", "--prices are for runs in a store"),
    (f"{BOARD} --since 2026-01-01", "select runs of a store"),
    ("leaderboard --scores x.csv --completers-only", "--scores and --completers-only cannot be combined"),
    ("leaderboard --with-published --ratings x.csv", "--with-published and --ratings cannot be combined"),
    ("leaderboard --panel published --scores x.csv", "--panel published and --scores cannot be combined"),
    ("compare --published-only GPT-5o", "one model cannot be compared"),
    ("compare --published-only GPT-4 o3-mini", "Did you mean"),
    ("compare --published-only --by test", "not published"),
    ("run aci_bench --tier sample --model baseline/lexical --rubric extended", "needs judges. Name them with --judge"),
    ("power --disagreement 0.2", "give --difference"),
    ("power --disagreement 0.2 --difference 0.3", "differ by no more"),
    ("power a b --sd 0.3 --difference 0.1", "--disagreement, --sd and names of models cannot be combined"),
    ("power --instances 100", "need --disagreement or --sd"),
    ("report out --published-only --only table2", "--only table2: needs --ratings FILE"),
    ("report out --published-only --only tableE4", "--only tableE4: needs scores of instances"),
    ("report out --published-only --scores x.csv", "cannot be combined"),
    ("report out --store a --store b --ratings r.csv", "Give one --store"),
    ("release r1 --sign nowhere --store nowhere", "no store at"),
    # places where nothing is
    ("agreement none.csv", "none.csv: the file does not exist."),
    (FILTER, "no store"),
    *((f"{command} --store nowhere", "no store at nowhere") for command in (
        "leaderboard", "leaderboard --with-published", "compare", "power", "cost", "jury", "report out",
        "export csv out", "runs list", "release", "diff x", "verify", "gate --against previous",
    )),
]  # fmt: skip
"""What a person may write -> what the message must say."""


@pytest.mark.parametrize(("command", "said"), WRONG, ids=[command[:60] for command, _ in WRONG])
def test_a_mistake_ends_with_two_and_a_hint(medhelm: Medhelm, tmp_path: Path, command: str, said: str) -> None:
    assert_refused(medhelm(*command.split()), said)
    assert list(tmp_path.iterdir()) == []
