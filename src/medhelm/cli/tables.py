"""`medhelm leaderboard`, `medhelm compare` and `medhelm show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.options import FORMATS, Shared, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Rule, Tier


@click.command()
@shared_options
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How the table is written.")
@click.option(
    "--by",
    type=click.Choice(["overall", "category", "subcategory", "benchmark"]),
    default="overall",
    show_default=True,
    help="What the columns are.",
)
@click.option(
    "--scores", type=click.Path(path_type=Path), help="Rank a published table instead: a CSV file with its header."
)
@click.option("--suite", default="all", show_default=True, help="paper35, all, or a file with one benchmark a line.")
@click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    help="Real data or invented rows.  [default: real, if there is any]",
)
@scoring_option
@click.pass_obj
def leaderboard(
    shared: Shared, format_: str, by: str, scores: Path | None, suite: str, tier: Tier | None, rule: Rule
) -> int:
    """Rank models by win rate, with intervals, ties and costs. Several --store are put side by side.

    \b
    Examples:
      medhelm leaderboard --by category
      medhelm leaderboard --store ours --store theirs --format md
      medhelm leaderboard --scores published.csv --suite paper35 --format json
    """
    stores = shared.stores or [shared.store]
    format_ = "json" if shared.json else format_
    print_leaderboard(stores, rule=rule, tier=tier, scores=scores, suite=suite, by=by, format_=format_)
    return 0


def print_leaderboard(
    stores: Sequence[Path],
    *,
    rule: Rule,
    tier: Tier | None,
    scores: Path | None = None,
    suite: str = "all",
    by: str = "overall",
    format_: str = "table",
) -> None:
    """Rank what the stores hold, or a published table, and write it."""
    from medhelm.reports.leaderboard_report import to_json, to_table
    from medhelm.standings import published_standings, standings

    if scores is not None:
        board = published_standings(scores, suite=suite)
    else:
        board = standings(stores, rule=rule, tier=tier, suite=suite)
    if format_ == "json":
        print_json(to_json(board))
    else:
        click.echo(to_table(board, by=by, format=format_), nl=False)
        # In words, for people; a file of numbers or LaTeX stays what it is.
        if board.warnings and format_ in ("table", "md"):
            click.echo()
        for warning in board.warnings:
            click.echo(f"- {warning}", err=format_ in ("csv", "latex"))


@click.command()
@shared_options
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How the table is written.")
@click.option("--tier", type=click.Choice(["real", "sample"]), help="Real data or invented rows.")
@scoring_option
@click.pass_obj
def compare(shared: Shared, /, first: str, second: str, format_: str, tier: Tier | None, rule: Rule) -> int:
    """Compare two models on the instances both answered: paired differences, intervals, adjusted p-values.

    \b
    Example:
      medhelm compare openai/gpt-4o baseline/majority
    """
    from medhelm.reports.comparison_report import to_json, to_table
    from medhelm.standings import compare_models

    found = compare_models(shared.stores or [shared.store], first, second, rule=rule, tier=tier)
    if shared.json or format_ == "json":
        print_json(to_json(found))
    else:
        click.echo(to_table(found, format_), nl=False)
    return 0


@click.command()
@shared_options
@click.argument("benchmark")
@click.argument("instance")
@scoring_option
@click.pass_obj
def show(shared: Shared, benchmark: str, instance: str, rule: Rule) -> int:
    """Show one case: the prompt, and every model's completion and scores.

    \b
    Example:
      medhelm show pubmed_qa 21645374
    """
    from medhelm.reports.case_report import to_text
    from medhelm.standings import find_case

    case = find_case(shared.stores or [shared.store], benchmark, instance)
    if shared.json:
        print_json(case)
    else:
        click.echo(to_text(case, rule))
    return 0
