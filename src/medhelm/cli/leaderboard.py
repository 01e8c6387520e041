"""`medhelm leaderboard`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common.options import format_option, is_given, options_of
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import as_shown, print_json, print_remarks
from medhelm.cli.common.shared import Shared, board_options, load, shared_options
from medhelm.errors import UserError
from medhelm.results.options import BoardOptions, CalibrationOptions, SourceOptions

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Leaderboard

PUBLISHED = "published"
"""Name of the panel of all published models."""


@click.command()
@click.option(
    "--by",
    type=click.Choice(["overall", "category", "subcategory", "benchmark", "head-to-head"]),
    default="overall",
    show_default=True,
    help="Columns of the table; head-to-head: how often each model beats each of the others.",
)
@options_of(SourceOptions, "source")
@options_of(BoardOptions, "options", "ranking")
@click.option(
    "--ratings",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File of clinicians' ratings; jury scores are also shown calibrated to them.",
)
@click.option(
    "--calibration",
    type=click.Choice(["line", "curve"]),
    default="line",
    show_default=True,
    help="With --ratings: fit a line or a rising curve.",
)
@options_of(BoardOptions, "options", "suite", "wanted", "tier", "rule", "pricing")
@format_option
@table_options
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def leaderboard(
    shared: Shared,
    /,
    format_: str,
    by: str,
    source: SourceOptions,
    options: BoardOptions,
    ratings: Path | None,
    calibration: str,
) -> int:
    """Rank models by macro average.

    Shows a verdict in words, confidence intervals, possible ranks, failures and costs; --wide adds win shares, win
    rates, spread and coverage. If --store is repeated, the models of all stores are ranked together. Baselines are
    shown below the models and have no rank, unless --rank-baselines is given.

    \b
    Examples:
      medhelm leaderboard --by category
      medhelm leaderboard --store ours --store theirs --format md
      medhelm leaderboard --published-only --suite paper35
      medhelm leaderboard --scores published.csv --suite paper35 --format json
      medhelm leaderboard --by benchmark --ratings ratings.csv
      medhelm leaderboard --suite ours.yaml --shared --prices ours.yaml
      medhelm leaderboard --panel openai/gpt-4o,openai/o3-mini
      medhelm leaderboard --by head-to-head
    """
    _check_sources(source, options, ratings)
    rule = options.rule if is_given("options_rule") else None
    options = replace(board_options(shared, options, format_), clinicians=_clinicians(shared, ratings, calibration))
    from medhelm.results import leaderboard as results
    from medhelm.results.published.boards import leaderboard_with_published, published_leaderboard
    from medhelm.results.runs.run_filter import refuse_filter

    if source.has_no_runs:
        refuse_filter(options.wanted)
    if source.published_only:
        chosen: dict[str, Any] = {name: getattr(options, name) for name in ("suite", "tier", "resample", "panel")}
        board = published_leaderboard(rule=rule, **chosen)
    elif source.with_published or PUBLISHED in options.panel:
        board = leaderboard_with_published(shared.all_stores, options, rule=rule)
    elif source.scores is not None:
        board = results.leaderboard_of_scores(source.scores, options)
    else:
        board = results.leaderboard_of(shared.all_stores, options)
    wide = click.get_current_context().params["wide"]
    print_leaderboard(board, by=by, format_=format_, wide=wide)
    return 0


def _clinicians(shared: Shared, ratings: Path | None, calibration: str) -> CalibrationOptions | None:
    """Return the options for calibrating jury scores; None without ratings."""
    if ratings is None:
        return None
    definitions = load(shared, ["open", "additional"])
    return CalibrationOptions(ratings=ratings, definitions=definitions, curve=calibration == "curve")


def _check_sources(source: SourceOptions, options: BoardOptions, ratings: Path | None) -> None:
    """Raise UserError for sources that exclude each other, and for options that published results exclude."""
    others: dict[str, object] = {
        "rank_baselines": options.rank_baselines,
        "completers_only": options.completers_only,
        "ratings": ratings,
    }
    if options.pricing and source.has_no_runs:
        raise UserError("--prices are for runs in a store. Leave it out, or leave out --published-only and --scores.")
    if source != SourceOptions():
        _check_at_most_one(
            with_published=source.with_published,
            published_only=source.published_only,
            scores=source.scores,
            **others,
        )
    if PUBLISHED in options.panel:
        _check_at_most_one(**{f"panel {PUBLISHED}": True, "scores": source.scores}, **others)


def _check_at_most_one(**options: object) -> None:
    """Raise UserError if more than one of these options is given."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} cannot be combined: use one of them.")


def print_leaderboard(board: Leaderboard, *, by: str = "overall", format_: str = "table", wide: bool = False) -> None:
    """Print the verdict, the leaderboard, scores calibrated to clinicians' ratings if any, and the remarks."""
    from medhelm.reports import leaderboard as leaderboard_report
    from medhelm.reports.calibration import calibration_table

    if format_ == "json":
        print_json(leaderboard_report.as_json(board, by=by))
        return
    if board.verdict and format_ in ("table", "md"):
        click.echo(as_shown(" ".join(board.verdict), format_) + "\n")
    click.echo(leaderboard_report.to_table(board, by=by, format=format_, wide=wide), nl=False)
    if format_ != "csv" and (calibrated := calibration_table(board, format_)):
        click.echo("\n" + calibrated, nl=False)
    if board.remarks and format_ in ("table", "md"):
        click.echo()
    print_remarks(board.remarks, format_)
