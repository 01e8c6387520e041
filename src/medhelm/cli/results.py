"""`medhelm leaderboard`, `compare`, `cost`, `budget` and `confusion`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import (
    Shared,
    board_options,
    clinicians_of,
    load,
    pricing_of,
    shared_options,
)
from medhelm.cli.options import (
    Dollars,
    WordOrColumn,
    format_option,
    is_given,
    option_from,
    options_of,
    prices_option,
)
from medhelm.cli.output import table_options
from medhelm.cli.printing import as_shown, print_either, print_json, print_remarks
from medhelm.cli.releases import print_side_by_side, slice_source
from medhelm.errors import UserError, suggestion
from medhelm.results.options import BY_PAIRS, BoardOptions, DocumentOptions, PairOptions, SourceOptions

if TYPE_CHECKING:
    from medhelm.analysis.comparison.pairs import ComparedPairs, Comparison
    from medhelm.analysis.frontier import CostRule, GroupBy
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.results.cost import BudgetState


# --- leaderboard ------------------------------------------------------------------------------------------------------

PUBLISHED = "published"
"""Name of the panel of all published models."""


BY = ("overall", "category", "subcategory", "benchmark", "head-to-head", "criterion")
"""Words of `leaderboard --by`; other names are columns of the data."""


@click.command()
@click.option(
    "--by",
    type=WordOrColumn(BY),
    default="overall",
    show_default=True,
    help="Columns of the table: overall, category, subcategory, benchmark; head-to-head: how often each model beats "
    "each of the others; criterion, or BENCHMARK:criterion: mean grades by criterion of the judges' rubric; any other "
    "name is a column of the data, by whose values scores are shown.",
)
@options_of(SourceOptions, "source")
@options_of(BoardOptions, "options", "ranking")
@option_from(DocumentOptions, "ratings")
@click.option(
    "--calibration",
    type=click.Choice(["line", "curve"]),
    default="line",
    show_default=True,
    help="Calibrate jury scores to clinicians' ratings by a line or a rising curve.",
)
@options_of(BoardOptions, "options", "suite", "wanted", "tier", "rule", "pricing")
@format_option
@table_options
@shared_options("store", "data", "benchmarks", "models", "json")
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
    rates, spread, coverage and all remarks. If --store is repeated, the models of all stores are ranked together.
    Baselines are shown below the models and have no rank, unless --rank-baselines is given.

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
      medhelm leaderboard --by aci_bench:criterion
      medhelm leaderboard --by medcalc_bench:Category
    """
    _check_sources(source, options, ratings)
    is_column = by not in BY and not by.endswith(":criterion")
    if is_column and (source.has_no_runs or PUBLISHED in options.panel):
        raise UserError(f"--by {by} needs scores of instances, which are not published. {suggestion(by, BY)}")
    rule = options.rule if is_given("options_rule") else None
    options = replace(
        board_options(shared, options, format_),
        clinicians=clinicians_of(shared, ratings, curve=calibration == "curve"),
        criteria=format_ == "json" or by.endswith("criterion"),
    )
    from medhelm.results.leaderboard import leaderboard_of, leaderboard_of_scores
    from medhelm.results.published.boards import leaderboard_with_published, published_leaderboard
    from medhelm.results.runs.selection import refuse_filter

    if source.has_no_runs:
        refuse_filter(options.wanted)
    if source.published_only:
        chosen: dict[str, Any] = {name: getattr(options, name) for name in ("suite", "tier", "resample", "panel")}
        board = published_leaderboard(rule=rule, **chosen)
    elif source.with_published or PUBLISHED in options.panel:
        board = leaderboard_with_published(shared.all_stores, options, rule=rule)
    elif source.scores is not None:
        board = leaderboard_of_scores(source.scores, options)
    elif is_column:
        return _print_slices(shared, by, options, format_)
    else:
        board = leaderboard_of(shared.all_stores, options)
    wide = click.get_current_context().params["wide"]
    print_leaderboard(board, by=by, format_=format_, wide=wide)
    return 0


def _print_slices(shared: Shared, by: str, options: BoardOptions, format_: str) -> int:
    """Print the models by the values of a column of the data; JSON is the leaderboard with the key `slices`."""
    from medhelm.results import leaderboard_view
    from medhelm.results.leaderboard import leaderboard_of, read_inputs, renamed_inputs
    from medhelm.results.runs import slices_view
    from medhelm.results.runs.slices import slice_models

    finished = read_inputs(shared.all_stores, options)
    board = leaderboard_of(shared.all_stores, options, finished=finished)
    inputs = renamed_inputs(finished, finished.short_names) if options.short_names else finished
    benchmarks, models = [one.benchmark for one in board.columns], [row.model for row in board.all_rows]
    found, remarks = slice_models(inputs, by, slice_source(shared), benchmarks, models)
    if format_ == "json":
        print_json({**leaderboard_view.as_json(board), "slices": slices_view.as_json(found)})
        return 0
    click.echo(slices_view.to_text(found, format_), nl=False)
    if format_ in ("table", "md"):
        click.echo()
    print_remarks([*slices_view.in_words(found), slices_view.GAP_IN_WORDS, *remarks], format_)
    return 0


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
    from medhelm.analysis.leaderboard.types import short_remarks
    from medhelm.results import leaderboard_view as leaderboard_report
    from medhelm.results.calibration_view import calibration_table

    if format_ == "json":
        print_json(leaderboard_report.as_json(board, by=by))
        return
    table = leaderboard_report.to_table(board, by=by, format=format_, wide=wide)
    if board.verdict and format_ in ("table", "md"):
        click.echo(as_shown(" ".join(board.verdict), format_) + "\n")
    click.echo(table, nl=False)
    if format_ != "csv" and (calibrated := calibration_table(board, format_)):
        click.echo("\n" + calibrated, nl=False)
    if board.remarks and format_ in ("table", "md"):
        click.echo()
    remarks = board.remarks if wide else short_remarks(board, "`--wide` shows all remarks.")
    print_remarks(remarks, format_)


# --- compare ----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("models", metavar="[MODEL|RELEASE|STORE]...", nargs=-1, shell_complete=shell_completion.stored_models)
@options_of(PairOptions, "pairs")
@option_from(DocumentOptions, "ratings")
@options_of(BoardOptions, "options", "suite", "wanted")
@format_option
@options_of(BoardOptions, "options", "tier", "rule")
@table_options
@shared_options("store", "data", "benchmarks", "json")
@click.pass_obj
def compare(
    shared: Shared,
    /,
    models: tuple[str, ...],
    pairs: PairOptions,
    options: BoardOptions,
    format_: str,
    ratings: Path | None,
) -> int:
    """Test whether models differ significantly.

    Shows paired differences on the same instances, with confidence intervals and adjusted p-values: for two models on
    each benchmark, otherwise for every pair of the named models, or of all models. Given releases or folders of stores,
    it shows them side by side, with the changes from the first one; of two also all that `medhelm diff` shows.

    \b
    Examples:
      medhelm compare openai/gpt-4o baseline/majority
      medhelm compare 2026-10 2026-11
      medhelm compare current ../theirs ../others/2026-11
      medhelm compare openai/gpt-4o openai/gpt-4o-mini --by criterion
      medhelm compare --all --by benchmark
      medhelm compare --adjust bh --by test --format csv
      medhelm compare --published-only --suite paper35
    """
    if pairs.everything and models:
        raise UserError("--all compares every pair of models: give names or --all, not both.")
    if releases := _find_releases(shared, models):
        print_side_by_side(shared, releases, format_)
        return 0
    if len(models) == 1:
        raise UserError(f"one model cannot be compared: {models[0]}. Name a second model, or none for every pair.")
    if pairs.by is not None and pairs.by not in BY_PAIRS and (pairs.published_only or len(models) != 2):
        raise UserError(
            f"--by {pairs.by} is a column of the data: name the two models to compare by its values. Other words: "
            f"{', '.join(BY_PAIRS)}."
        )
    if pairs.published_only:
        return _print_published_pairs(models, pairs, options, format_, has_ratings=ratings is not None)
    options = replace(board_options(shared, options, format_), clinicians=clinicians_of(shared, ratings))
    if len(models) == 2:
        return _print_two(shared, models, pairs, options, format_)
    from medhelm.results.comparison import compare_all_models

    if pairs.by == "criterion":
        raise UserError("--by criterion compares two models: name both.")
    found = compare_all_models(shared.all_stores, models, options)
    _print_pairs(replace(found, adjustment=pairs.adjustment), pairs.by, format_)
    return 0


def _print_published_pairs(
    models: tuple[str, ...], pairs: PairOptions, options: BoardOptions, format_: str, *, has_ratings: bool
) -> int:
    """Print the pairs of published models. Raises: UserError for options that need runs."""
    from medhelm.results.comparison import compare_published_models
    from medhelm.results.runs.selection import refuse_filter

    refuse_filter(options.wanted)
    if has_ratings:
        raise UserError("--ratings are for runs in a store. Leave it out, or leave out --published-only.")
    if pairs.by in ("benchmark", "test", "criterion"):
        raise UserError(f"--by {pairs.by} needs scores of instances, which are not published. Use --by overall.")
    found = compare_published_models(models, suite=str(options.suite))
    _print_pairs(replace(found, adjustment=pairs.adjustment), pairs.by, format_)
    return 0


def _print_two(shared: Shared, models: tuple[str, ...], pairs: PairOptions, options: BoardOptions, format_: str) -> int:
    """Print the comparison of two models: by benchmark, by criterion, or by the values of a column."""
    from medhelm.results.comparison import compare_models

    by_criterion = pairs.by == "criterion"
    options = replace(options, criteria=by_criterion or format_ == "json")
    if pairs.by is not None and pairs.by not in BY_PAIRS:
        return _print_sliced_pair(shared, models, pairs, options, format_)
    if pairs.by is not None and not by_criterion:
        raise UserError(
            f"--by {pairs.by} needs more than two models: two models are shown by benchmark, or with --by criterion."
        )
    pair = compare_models(shared.all_stores, models[0], models[1], options, adjustment=pairs.adjustment)
    _print_pair(pair, format_, by_criterion=by_criterion)
    return 0


def _print_sliced_pair(
    shared: Shared, models: tuple[str, ...], pairs: PairOptions, options: BoardOptions, format_: str
) -> int:
    """Print a comparison of two models by the values of a column; JSON is the comparison with the key `slices`."""
    from medhelm.results import comparison
    from medhelm.results.runs import slices_view
    from medhelm.results.runs.slices import slice_pairs

    inputs, names = comparison.selected_inputs(shared.all_stores, models, options, with_ratings=True)
    pair = comparison.compare_inputs(inputs, *names, adjustment=pairs.adjustment)
    benchmarks = [one.column.benchmark for one in pair.benchmarks]
    both, source = (pair.first, pair.second), slice_source(shared)
    found, remarks = slice_pairs(inputs, pairs.by or "", source, benchmarks, both, pairs.adjustment)
    if format_ == "json":
        print_json({**comparison.as_json(pair), "slices": slices_view.pairs_as_json(found)})
        return 0
    click.echo(slices_view.pairs_to_text(found, format_, pairs.adjustment), nl=False)
    if format_ in ("table", "md"):
        click.echo()
    print_remarks([*slices_view.pairs_in_words(found), *remarks, *pair.remarks], format_)
    return 0


def _find_releases(shared: Shared, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the named releases and stores, the current store beside a single one; empty if only models are named.

    Raises: UserError if releases or stores are mixed with models.
    """
    from medhelm.results.releases import CURRENT
    from medhelm.storage.releases import MANIFEST, release_names
    from medhelm.storage.store import Store

    known = set(release_names(Store(shared.all_stores[0])))
    files = {name: [Path(name) / file for file in (MANIFEST, "store.json")] for name in names}
    releases = [name for name in names if name in known or any(file.is_file() for file in files[name])]
    if not releases:
        return ()
    others = [name for name in names if name not in (*releases, CURRENT)]
    if others:
        kind = "release" if releases[0] in known or files[releases[0]][0].is_file() else "store"
        raise UserError(
            f"`{releases[0]}` is a {kind}, and {', '.join(others)} is not: compare models or {kind}s. Folders of "
            f"stores and releases count as such. `medhelm gate --against {releases[0]}` tests whether models got worse."
        )
    return names if len(names) > 1 else (names[0], CURRENT)


def _print_pair(pair: Comparison, format_: str, *, by_criterion: bool) -> None:
    """Print a comparison of two models: the verdict, every benchmark or criterion, and remarks."""
    from medhelm.results import comparison as comparison_report
    from medhelm.results.runs.criteria import criteria_to_table, differences_in_words

    if format_ == "json":
        print_json(comparison_report.as_json(pair))
        return
    verdict, *foot = comparison_report.verdict(pair)
    table = comparison_report.to_table(pair, format_)
    if by_criterion:
        table = criteria_to_table(pair, comparison_report.ADJUSTED[pair.adjustment], format_)
        verdict = " ".join([verdict, *differences_in_words(pair.criteria, pair.first, pair.second)])
    if format_ in ("table", "md"):
        click.echo(f"{as_shown(verdict, format_)}\n")
    click.echo(table, nl=False)
    if format_ in ("table", "md"):
        click.echo("\n" + "\n".join(as_shown(text, format_) for text in (*foot, *map(str, pair.remarks))))


def _print_pairs(found: ComparedPairs, by: str | None, format_: str) -> None:
    """Print a comparison of all pairs: the verdict, every pair, and a summary in sentences."""
    from medhelm.results.comparison import in_words, pairs_as_json, pairs_to_table, pairs_verdict

    if format_ == "json":
        print_json(pairs_as_json(found))
        return
    if format_ in ("table", "md"):
        click.echo(as_shown(" ".join(pairs_verdict(found)), format_) + "\n")
    click.echo(pairs_to_table(found, by=by or "overall", format=format_), nl=False)
    click.echo(err=format_ in ("csv", "latex"))
    print_remarks([*in_words(found), *found.remarks], format_)


# --- cost and budget --------------------------------------------------------------------------------------------------


@click.command()
@click.option(
    "--by",
    type=click.Choice(["model", "benchmark", "judge", "run"]),
    default="model",
    show_default=True,
    help="Rows of the table.",
)
@click.option(
    "--rule",
    "cost_rule",
    type=click.Choice(["bill", "ceiling"]),
    default="bill",
    show_default=True,
    help="bill: the tokens that providers counted; ceiling: also the published rule, which assumes that every "
    "completion is as long as its limit.",
)
@prices_option
@click.option(
    "--at",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Use the prices of this day.  [default: day of the run]",
)
@options_of(BoardOptions, "options", "suite", "wanted", "rule")
@format_option
@table_options
@shared_options("store", "models", "json")
@click.pass_obj
def cost(
    shared: Shared,
    /,
    format_: str,
    by: GroupBy,
    cost_rule: CostRule,
    prices: tuple[str, ...],
    at: datetime | None,
    options: BoardOptions,
) -> int:
    """Show what was spent, by model or benchmark.

    The bill is what the stored runs would cost today without stored completions. Spent is what you paid. If --store is
    repeated, the costs of all stores are added up. Runs on sample rows are included.

    \b
    Examples:
      medhelm cost --by benchmark
      medhelm cost --by judge --format csv
      medhelm cost --prices paper-2025-05-12 --rule ceiling
      medhelm cost --prices ours.yaml --at 2026-01-01 --json
    """
    from medhelm.results import cost as cost_report
    from medhelm.results.cost import make_bill
    from medhelm.results.runs.selection import renamed, short_names

    pricing = pricing_of(shared, prices, at.date() if at else None)
    scoring, suite, wanted = options.rule, str(options.suite), options.wanted
    bill = make_bill(shared.all_stores, pricing, by=by, rule=cost_rule, scoring=scoring, suite=suite, runs=wanted)
    if format_ == "json":
        print_json(cost_report.as_json(bill))
        return 0
    bill = renamed(bill, short_names(name for name, _ in bill.prices))
    click.echo(cost_report.to_table(bill, format_), nl=False)
    if format_ != "csv" and (worth := cost_report.worth_table(bill, format_)):
        click.echo("\n" + worth, nl=False)
    if format_ != "csv" and (steps := cost_report.steps_table(bill, format_)):
        click.echo("\n" + steps, nl=False)
    print_remarks(cost_report.remarks(bill), format_)
    return 0


@click.group()
@shared_options()
def budget() -> None:
    """Limit what is spent in a store.

    Before `run`, `rejudge`, `filter-references` or a batch sends a request, it reserves the highest cost that the
    request can have. Commands stop with exit code 3 before their total exceeds the limit.

    \b
    Examples:
      medhelm budget set 20
      medhelm budget show
    """


@budget.command("set")
@click.argument("limit_usd", metavar="USD", type=Dollars())
@prices_option
@shared_options("store", "models", "json")
@click.pass_obj
def set_(shared: Shared, /, limit_usd: float, prices: tuple[str, ...]) -> int:
    """Set or change the limit in US dollars.

    What was already spent in the store counts too.

    \b
    Example:
      medhelm budget set 20
    """
    from medhelm.results.cost import set_budget

    return _show(shared, set_budget(shared.store, limit_usd, pricing_of(shared, prices)))


@budget.command()
@shared_options("store", "json")
@click.pass_obj
def show(shared: Shared, /) -> int:
    """Show the limit and what was spent.

    \b
    Example:
      medhelm budget show --json
    """
    from medhelm.results.cost import budget_of

    return _show(shared, budget_of(shared.store))


@budget.command()
@shared_options("store", "json")
@click.pass_obj
def release(shared: Shared, /) -> int:
    """Release what killed commands reserved.

    Requests that were in flight may have been billed: check the provider's bill first.

    \b
    Example:
      medhelm budget release
    """
    from medhelm.results.cost import budget_of, release_lost

    freed_usd = release_lost(shared.store)
    click.echo(f"{freed_usd:.4f} US dollars are free again.", err=True)
    return _show(shared, budget_of(shared.store))


@budget.command()
@shared_options("store")
@click.pass_obj
def remove(shared: Shared, /) -> int:
    """Remove the limit.

    \b
    Example:
      medhelm budget remove
    """
    from medhelm.results.cost import remove_budget

    removed = remove_budget(shared.store)
    click.echo("The limit was removed." if removed else "The store has no limit.", err=True)
    return 0


def _show(shared: Shared, state: BudgetState | None) -> int:
    from medhelm.results.cost import budget_as_json, budget_text

    content = budget_as_json(state)
    print_either(shared.json, content, budget_text(content), nl=False)
    return 0


# --- confusion --------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("benchmark", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@click.option(
    "--positive",
    metavar="OPTION",
    default="",
    help="The positive class, such as the disease.  [default: that of the definition]",
)
@click.option(
    "--threshold",
    type=float,
    metavar="P",
    help="Also show the net benefit at this probability of the positive class, from which one would act.",
)
@options_of(BoardOptions, "options", "wanted", "tier")
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def confusion(
    shared: Shared, benchmark: str, positive: str, threshold: float | None, options: BoardOptions, format_: str
) -> int:
    """Show sensitivity and specificity by class.

    For questions whose instances all have the same options: sensitivity, specificity, predictive values, F1, Youden's
    index, balanced accuracy and Matthews' correlation, each with its 95% interval, and the confusion matrix. With one
    positive class, or without, each class against all others. Completions without a readable option are wrong, and
    refusals count as the worst answer.

    \b
    Examples:
      medhelm confusion race_bias
      medhelm confusion pubmed_qa --positive yes --json
    """
    from medhelm.benchmarks.catalog import all_names
    from medhelm.results.formats.fields import fields_json
    from medhelm.results.runs.classification import JSON_FIELDS, measure_classes, to_text
    from medhelm.results.runs.selection import renamed, short_names

    is_installed = benchmark in all_names(shared.folders_of_stores)
    definition = load(shared, [benchmark], of_stores=True)[0] if is_installed else None
    found = measure_classes(
        shared.all_stores,
        definition.name if definition else benchmark,
        board_options(shared, options, format_),
        definition=definition,
        positive=positive,
        threshold=threshold,
    )
    if format_ == "json":
        print_json(fields_json(JSON_FIELDS, found))
        return 0
    found = renamed(found, short_names([one.model for one in found.models]))
    click.echo(to_text(found, format_), nl=False)
    print_remarks(found.remarks, format_)
    return 0
