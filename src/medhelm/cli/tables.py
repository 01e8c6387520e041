"""`medhelm leaderboard` and `medhelm show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.options import FORMATS, Shared, load, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.analysis.board import Leaderboard
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
@click.option(
    "--ratings",
    type=click.Path(path_type=Path),
    help="Clinicians' ratings of some completions: jury scores are shown beside what clinicians would give.",
)
@click.option(
    "--calibration",
    type=click.Choice(["line", "curve"]),
    default="line",
    show_default=True,
    help="With --ratings: whether ratings follow the jury in a line or in a rising curve.",
)
@scoring_option
@click.pass_obj
def leaderboard(
    shared: Shared,
    format_: str,
    by: str,
    scores: Path | None,
    suite: str,
    tier: Tier | None,
    ratings: Path | None,
    calibration: str,
    rule: Rule,
) -> int:
    """Rank models by win rate, with intervals, ties and costs. Several --store are put side by side.

    \b
    Examples:
      medhelm leaderboard --by category
      medhelm leaderboard --store ours --store theirs --format md
      medhelm leaderboard --scores published.csv --suite paper35 --format json
      medhelm leaderboard --by benchmark --ratings ratings.csv
    """
    from medhelm.standings import Clinicians, published_standings, standings

    stores = shared.stores or [shared.store]
    if scores is not None:
        board = published_standings(scores, suite=suite)
    else:
        clinicians = None
        if ratings:
            clinicians = Clinicians(
                ratings=ratings, definitions=load(shared, ["open", "additional"]), curve=calibration == "curve"
            )
        board = standings(stores, rule=rule, tier=tier, suite=suite, clinicians=clinicians)
    print_leaderboard(board, by=by, format_="json" if shared.json else format_)
    return 0


def print_leaderboard(board: Leaderboard, *, by: str = "overall", format_: str = "table") -> None:
    """Write a leaderboard, and below it what clinicians would give, where they rated."""
    from medhelm.reports import calibration_report
    from medhelm.reports.leaderboard_report import to_json, to_table

    if format_ == "json":
        print_json(to_json(board))
        return
    click.echo(to_table(board, by=by, format=format_), nl=False)
    if format_ != "csv" and (beside := calibration_report.to_table(board, format_)):
        click.echo()
        click.echo(beside, nl=False)
    # In words, for people; a file of numbers or LaTeX stays what it is.
    if board.warnings and format_ in ("table", "md"):
        click.echo()
    for warning in board.warnings:
        click.echo(f"- {warning}", err=format_ in ("csv", "latex"))


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
