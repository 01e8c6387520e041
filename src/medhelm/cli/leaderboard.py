"""`medhelm leaderboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common.options import (
    completers_option,
    format_option,
    panel_option,
    prices_option,
    published_options,
    rank_baselines_option,
    resample_option,
    run_filter_options,
    scoring_option,
    shared_benchmarks_option,
    stored_tier_option,
    suite_option,
)
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import as_shown, print_json, print_remarks
from medhelm.cli.common.shared import Shared, load, pricing_of, shared_options
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.build import Resample
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.domain import Rule, Tier
    from medhelm.results.leaderboard import CalibrationOptions
    from medhelm.results.options import RunFilter

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
@published_options
@shared_benchmarks_option
@resample_option
@rank_baselines_option
@panel_option
@completers_option
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
@suite_option
@run_filter_options
@stored_tier_option
@scoring_option
@prices_option
@format_option
@table_options
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def leaderboard(
    shared: Shared,
    /,
    format_: str,
    by: str,
    scores: Path | None,
    with_published: bool,
    published_only: bool,
    suite: str,
    shared_only: bool,
    wanted: RunFilter,
    resample: Resample | None,
    rank_baselines: bool,
    panel: tuple[str, ...],
    completers_only: bool,
    tier: Tier | None,
    ratings: Path | None,
    calibration: str,
    rule: Rule,
    prices: tuple[str, ...],
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
    others = {"rank_baselines": rank_baselines, "completers_only": completers_only, "ratings": ratings}
    _check_sources(with_published, published_only, scores, panel, prices, others)
    pricing = pricing_of(shared, prices) if prices else None
    from medhelm.results import leaderboard as results
    from medhelm.results.runs.run_filter import refuse_filter

    is_text = format_ != "json"
    if published_only or scores:
        refuse_filter(wanted)
    if with_published or published_only or PUBLISHED in panel:
        stores = None if published_only else shared
        of_runs: dict[str, Any] = {"shared": shared_only, "pricing": pricing, "wanted": wanted, "short_names": is_text}
        board = _published_leaderboard(stores, rule, suite, tier, resample, panel=panel, **of_runs)
    elif scores is not None:
        board = results.leaderboard_from_scores(scores, suite=suite, resample=resample, shared=shared_only, panel=panel)
    else:
        board = results.leaderboard(
            shared.all_stores,
            rule=rule,
            tier=tier,
            suite=suite,
            resample=resample,
            shared=shared_only,
            clinicians=_clinicians(shared, ratings, calibration),
            rank_baselines=rank_baselines,
            completers_only=completers_only,
            panel=panel,
            benchmark_folders=shared.benchmark_folders,
            pricing=pricing,
            wanted=wanted,
            short_names=is_text,
        )
    wide = click.get_current_context().params["wide"]
    print_leaderboard(board, by=by, format_=format_, wide=wide)
    return 0


def _clinicians(shared: Shared, ratings: Path | None, calibration: str) -> CalibrationOptions | None:
    """Return the options for calibrating jury scores; None without ratings."""
    from medhelm.results.leaderboard import CalibrationOptions

    if ratings is None:
        return None
    definitions = load(shared, ["open", "additional"])
    return CalibrationOptions(ratings=ratings, definitions=definitions, curve=calibration == "curve")


def _published_leaderboard(
    stores: Shared | None,
    rule: Rule,
    suite: str,
    tier: Tier | None,
    resample: Resample | None,
    *,
    panel: tuple[str, ...],
    **of_runs: Any,
) -> Leaderboard:
    """Return the leaderboard of the published results, with those of `stores` if given.

    The default rule is the published one. `of_runs`: further arguments of `leaderboard_with_published`.
    """
    from medhelm.results.published.boards import leaderboard_with_published, published_leaderboard

    source = click.get_current_context().get_parameter_source("rule")
    chosen = None if source is click.core.ParameterSource.DEFAULT else rule
    if stores is None:
        return published_leaderboard(suite=suite, tier=tier, resample=resample, rule=chosen, panel=panel)
    return leaderboard_with_published(
        stores.all_stores,
        suite=suite,
        tier=tier,
        resample=resample,
        rule=chosen,
        panel=panel,
        benchmark_folders=stores.benchmark_folders,
        **of_runs,
    )


def _check_sources(
    with_published: bool,
    published_only: bool,
    scores: Path | None,
    panel: tuple[str, ...],
    prices: tuple[str, ...],
    others: Mapping[str, object],
) -> None:
    """Raise UserError for sources that exclude each other, and for options that published results exclude."""
    if prices and (published_only or scores):
        raise UserError("--prices are for runs in a store. Leave it out, or leave out --published-only and --scores.")
    if with_published or published_only or scores:
        _check_at_most_one(with_published=with_published, published_only=published_only, scores=scores, **others)
    if PUBLISHED in panel:
        _check_at_most_one(**{f"panel {PUBLISHED}": True, "scores": scores}, **others)


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
