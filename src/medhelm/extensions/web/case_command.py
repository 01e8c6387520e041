"""`medhelm cases`: the cases that the site's list finds, one line each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, load, shared_options
from medhelm.cli.options import options_of
from medhelm.cli.printing import print_json
from medhelm.domain.completion import FailureCode
from medhelm.errors import UserError, suggestion
from medhelm.extensions.web.cases.search import CaseFilter, CaseOrder, CaseSearch, read_choices, read_criteria
from medhelm.results.options import BoardOptions
from medhelm.results.runs.selection import matching_names
from medhelm.results.runs.slices import SliceSource, read_slices

if TYPE_CHECKING:
    from medhelm.domain import Benchmark
    from medhelm.extensions.web.cases.case import BenchmarkCases
    from medhelm.extensions.web.cases.listing import CaseListItem

EXCERPT = 70
"""Characters of a prompt on a line."""


@click.command()
@click.argument("benchmark", shell_complete=shell_completion.benchmarks)
@click.option("--model", metavar="MODEL", default="", help="Only by this model's completions.")
@click.option(
    "--wrong", is_flag=True, help="Cases that --model has wrong; without it, those that every model has wrong."
)
@click.option(
    "--flipped", nargs=2, metavar="A B", default=None, help="Cases that one of these models has right, the other wrong."
)
@click.option(
    "--between",
    nargs=2,
    metavar="A B",
    default=None,
    help="The completions of two releases or stores, as `medhelm compare` names them, in place of those that count; "
    "with --became, cases that changed.",
)
@click.option(
    "--became",
    type=click.Choice(["right", "wrong", "other"]),
    default=None,
    help="With --between and --model: cases that became right or wrong, or have another answer that is as right or "
    "wrong.",
)
@click.option("--disagree", is_flag=True, help="Cases on which judges differ by half of the scale or more.")
@click.option("--failure", metavar="CODE", default="", help="Cases with this failure, such as refusal or timeout.")
@click.option(
    "--criterion", metavar="NAME", default="", help="Cases where a judge graded this criterion 2 of 5 or less."
)
@click.option(
    "--below",
    metavar="GRADE",
    type=float,
    default=None,
    help="Cases where a judge graded --criterion this or worse, or without it, a completion scores this or worse.",
)
@click.option(
    "--slice",
    "slice_",
    metavar="GROUP|COLUMN=VALUE",
    default=None,
    help="Only cases of this group, or with this value of a column of the data, as leaderboard --by COLUMN shows it.",
)
@click.option(
    "--show",
    metavar="FILTER",
    type=click.Choice(get_args(CaseFilter)),
    default="all",
    help="Another filter of the site, such as split, cut, blank, unreadable or injection.",
)
@click.option("--text", metavar="TEXT", default="", help="Only cases whose texts contain this.")
@click.option("--sort", type=click.Choice(get_args(CaseOrder)), default="position", show_default=True, help="Order.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="Most lines.")
@options_of(BoardOptions, "options", "tier", "rule")
@shared_options("store", "data", "benchmarks", "json")
@click.pass_obj
def cases(
    shared: Shared,
    /,
    benchmark: str,
    options: BoardOptions,
    flipped: tuple[str, str] | None,
    slice_: str | None,
    limit: int,
    **wanted: Any,
) -> int:
    """List cases by what happened.

    Each line has the id of the case, its key, what the models answered or scored, and the beginning of its text.
    Conditions are combined. Baselines do not count.

    \b
    Examples:
      medhelm cases med_qa --wrong
      medhelm cases med_qa --flipped north-70b mesa-70b
      medhelm cases aci_bench --criterion accuracy --model north-8b
      medhelm cases medcalc_bench --wrong --slice Category=lab
      medhelm cases race_bias --failure refusal --json
      medhelm cases med_qa --between r1 r2 --model north-70b --became wrong
    """
    from medhelm.extensions.web.cases.case import open_cases
    from medhelm.extensions.web.cases.listing import case_items, check_search
    from medhelm.extensions.web.cases.search import search_cases

    definition = _definition(shared, benchmark)
    name = definition.name if definition else benchmark
    between, became = wanted.pop("between"), wanted.pop("became")
    if between:
        opened, names = _open_between(shared, name, between, definition)
    else:
        opened = open_cases(shared.all_stores, name, rule=options.rule, tier=options.tier, definition=definition)
        names = {}
    if became:
        wanted, flipped = _became(became, wanted, names, flipped)
    group, of_slice = _read_slice(shared, opened, slice_)
    searches = _searches(opened, flipped, group=group, **wanted)
    found: dict[str, None] = {}
    for search in searches:
        check_search(opened, search)
        cases_found = search_cases(opened.searched, search)
        found |= dict.fromkeys(one for one in cases_found if of_slice is None or one in of_slice)
    items = case_items(opened, searches[0], list(found)[:limit])
    if shared.json:
        from medhelm.extensions.web.pages.case_list import CONDITIONS, ITEM
        from medhelm.results.formats.fields import fields_json

        listed = [fields_json(ITEM, item) for item in items]
        print_json({**fields_json(CONDITIONS, opened), "total": len(found), "cases": listed})
        return 0
    _print(opened, items, len(found))
    return 0


def _open_between(
    shared: Shared, benchmark: str, between: tuple[str, str], definition: Benchmark | None
) -> tuple[BenchmarkCases, dict[str, tuple[str, str]]]:
    """Open the cases of models whose runs differ between two releases or stores; also return their names there.

    Raises: UserError for an unknown release or store, and if no run differs.
    """
    from medhelm.extensions.web.cases.case import cases_of_runs
    from medhelm.results.releases import scoring_of
    from medhelm.results.runs.side_by_side import changed_runs, find_sides, name_in

    (earlier, later), stored = find_sides(shared.store_to_read, between)
    runs = changed_runs(earlier, later, benchmark, stored)
    if not runs:
        raise UserError(
            f"no model has other completions of `{benchmark}` in {earlier.name} and {later.name} whose runs are stored."
        )
    names = {model: (name_in(model, earlier), name_in(model, later)) for model in later.bases}
    names = {model: pair for model, pair in names.items() if pair[1] in runs}
    sides = (earlier.name, later.name)
    opened = cases_of_runs(runs, rule=scoring_of(later.release).scoring, definition=definition, sides=sides)
    return opened, names


def _became(
    became: str, wanted: dict[str, Any], names: dict[str, tuple[str, str]], flipped: tuple[str, str] | None
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Return the conditions of the cases that changed for the model of `--model`. Raises: UserError without it."""
    if flipped or not names:
        raise UserError("--became goes with --between, and not with --flipped.")
    matches = matching_names(wanted["model"], names) if wanted["model"] else list(names)
    if len(matches) != 1:
        raise UserError(f"--became {became} is about one model: name it with --model. Models: {', '.join(names)}.")
    earlier, later = names[matches[0]]
    got, missed = (earlier, later) if became == "wrong" else (later, earlier)
    same = {**wanted, "model": "", "got": got, "missed": missed}
    return ({**same, "show": "other_answer"} if became == "other" else same), None


def _definition(shared: Shared, benchmark: str) -> Benchmark | None:
    """Return the definition of a benchmark; None if it is not installed."""
    from medhelm.benchmarks.catalog import all_names

    is_installed = benchmark in all_names(shared.folders_of_stores)
    return load(shared, [benchmark], of_stores=True)[0] if is_installed else None


def _read_slice(shared: Shared, opened: BenchmarkCases, name: str | None) -> tuple[str, Collection[str] | None]:
    """Return the group that `--slice` names, or the ids of the instances with a value of a column.

    Raises: UserError for an unknown group, column or value.
    """
    if name is None:
        return "", None
    column, separator, value = name.partition("=")
    groups = read_choices(opened.searched).groups
    if name in groups:
        return name, None
    if not separator:
        hint = suggestion(name, groups) if groups else "It has no groups."
        raise UserError(f"--slice {name}: {opened.benchmark} has no such group. {hint} Or write COLUMN=VALUE.")
    definitions = {opened.benchmark: opened.definition} if opened.definition else {}
    source = SliceSource(definitions=definitions, data=shared.data)
    slices = read_slices(list(opened.runs.values()), column, source)
    if value not in slices.order:
        raise UserError(f"--slice {name}: no case has this value. {suggestion(value, slices.order)}")
    return "", {one for one, own in slices.names.items() if own == value}


def _searches(
    opened: BenchmarkCases,
    flipped: tuple[str, str] | None,
    *,
    wrong: bool,
    disagree: bool,
    below: float | None,
    **same: Any,
) -> list[CaseSearch]:
    """Return the searches whose results are listed together. Raises: UserError for filters that exclude each other."""
    if sum([wrong, disagree, same["show"] not in ("all", "other_answer")]) > 1:
        raise UserError("choose one of --wrong, --disagree and --show.")
    if wrong:
        same["show"] = "wrong" if same["model"] else "all_wrong"
    if disagree:
        same["show"] = "judges"
    if below is not None:
        by_score = "high" if opened.column.higher_is_better else "low"
        same["low_grade" if same["criterion"] else by_score] = below
    codes = [str(code) for code in FailureCode]
    if same["failure"] and same["failure"] not in codes:
        raise UserError(f"--failure {same['failure']}: is not a failure code. Codes: {', '.join(codes)}.")
    criteria = [one.criterion for one in read_criteria(opened.searched)] if same["criterion"] else [""]
    if same["criterion"] not in criteria:
        known = ", ".join(criteria) or "none"
        raise UserError(f"--criterion {same['criterion']}: judges did not grade it. Criteria: {known}.")
    same["model"], *flipped_models = (
        matches[0] if len(matches := matching_names(name, opened.runs)) == 1 else name
        for name in (same["model"], *(flipped or ()))
    )
    search = CaseSearch(**same)
    if not flipped:
        return [search]
    first, second = flipped_models
    return [replace(search, got=first, missed=second), replace(search, got=second, missed=first)]


def _print(opened: BenchmarkCases, items: Sequence[CaseListItem], total: int) -> None:
    """Print one line for each case, and how many there are."""
    from medhelm.domain.text import plural
    from medhelm.results.formats.tables import decimal, printable, render

    models = opened.searched.contestants or opened.models
    has_keys = any(item.correct for item in items)
    rows = [
        [
            printable(item.row.instance_id),
            *([", ".join(item.correct)] if has_keys else []),
            *(
                item.row.failures.get(model) or item.answers.get(model) or decimal(item.row.scores.get(model), 2)
                for model in models
            ),
            " ".join(printable(item.excerpt).split())[:EXCERPT],
        ]
        for item in items
    ]
    if rows:
        click.echo(render(rows, ["Case", *(["Key"] if has_keys else []), *models, "Text"]), nl=False)
    shown = f", the first {len(items)} of them shown" if len(items) < total else ""
    click.echo(f"{plural(total, 'case')} of {opened.title}{shown}.", err=True)
