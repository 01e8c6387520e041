"""Read the inputs of a report: leaderboard, costs, agreement with clinicians, and dates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from medhelm.analysis.cost import sum_costs
from medhelm.domain import Benchmark, Rule, Run
from medhelm.domain.benchmark import Suite, group_by
from medhelm.domain.result import Remark
from medhelm.errors import UserError
from medhelm.extensions.paper.contents import ModelCost
from medhelm.extensions.paper.figures import FlaggedScores
from medhelm.extensions.paper.reference_filter.marks import read_marks
from medhelm.extensions.paper.reference_filter.scores import split_score
from medhelm.results.comparable import BASELINE, select_runs
from medhelm.results.leaderboard import leaderboard_of, leaderboard_of_scores, suite_of
from medhelm.results.options import USUAL, BoardOptions, CalibrationOptions
from medhelm.results.published.boards import MARK, leaderboard_with_published, published_leaderboard
from medhelm.results.published.cells import ceiling_of, published_names
from medhelm.results.published.data import load_results
from medhelm.results.runs.pricing import Pricing, read_pricing
from medhelm.results.runs.run_filter import days_in_words, names_in, refuse_filter, with_names, without_address
from medhelm.results.spending import UsageItem, read_spending
from medhelm.storage.store import Store, stored_folder

if TYPE_CHECKING:
    from medhelm.analysis.agreement.jury_vs_clinicians import JuryAgreement
    from medhelm.analysis.leaderboard.types import Leaderboard


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """Request for a report."""

    stores: Sequence[Path] = ()
    """Stores to read; none for published results alone."""
    scores: Path | None = None
    """File with scores of other models to read instead."""
    published: Literal["no", "beside", "only"] = "no"
    """Published results: left out, beside own ones, or alone."""
    options: BoardOptions = USUAL
    """Options of the leaderboard, without its rule."""
    rule: Rule | None = None
    """Scoring rule; None: `published` for published results, else `corrected`."""
    ratings: Path | None = None
    """Clinicians' ratings of some completions."""
    definitions: Sequence[Benchmark] = ()
    """Benchmarks whose rubrics are known, for the ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInputs:
    """Inputs of tables and figures."""

    board: Leaderboard
    """The leaderboard."""
    suite: Sequence[str] | None = None
    """Benchmarks of the suite; None: all with results."""
    costs: Sequence[ModelCost] = ()
    """Costs by model; empty if all are unknown."""
    cost_remarks: Sequence[Remark] = ()
    """Limits of the costs, such as unknown prices."""
    clinical: JuryAgreement | None = None
    """The jury against clinicians; None without ratings."""
    flagged: Sequence[FlaggedScores] = ()
    """Scores on accepted and on flagged references; empty if no references are marked."""
    dates: str = ""
    """Dates of the runs, for people."""


def gather_inputs(request: ReportRequest, *, with_costs: bool = True) -> ReportInputs:
    """Read all inputs.

    Raises: UserError for contradictory options, or if there is nothing to rank; StoreError for a folder that is not a
    store; ConfigError with all problems of a file of scores or ratings.
    """
    _refuse_contradictions(request)
    board = read_leaderboard(request)
    # The command of a remark may hold the address of a server, which no report shows.
    board = replace(board, remarks=tuple(replace(one, text=without_address(one.text)) for one in board.remarks))
    clinical = None
    if request.ratings:
        from medhelm.results.agreement import agreement

        # Without results of the stores, only the jury's grades in the ratings file count.
        store = Path(os.devnull) if _has_no_runs(request) else request.stores[0]
        clinical = agreement(request.ratings, store, request.definitions)
    costs: list[ModelCost] = []
    flagged: list[FlaggedScores] = []
    remarks: Sequence[Remark] = ()
    dates: list[str] = []
    if not _has_no_runs(request):
        spending = read_spending(
            request.stores, read_pricing(request.options.pricing) or Pricing(), request.options.wanted
        )
        runs = _labeled_runs(spending.items)
        counted = _counted_runs(runs, board)
        dates += _run_dates(counted.values())
        flagged = _flagged_scores(counted, board)
        if with_costs:
            names = names_in(runs)
            costs += _own_costs(spending.items, {(names[name], b): run for (name, b), run in counted.items()}, board)
            named = [replace(remark, text=with_names(names, remark.text)) for remark in spending.remarks]
            remarks = [remark for remark in named if any(cost.model in remark.text for cost in costs)]
    if request.published != "no":
        costs += _published_costs(board)
        dates.append(_published_date())
    return ReportInputs(
        board=board,
        suite=_suite_benchmarks(request, board),
        costs=costs,
        cost_remarks=remarks,
        clinical=clinical,
        flagged=flagged,
        dates="; ".join(dates) or (f"{request.scores}, means only" if request.scores else "unknown"),
    )


def _refuse_contradictions(request: ReportRequest) -> None:
    if request.scores and request.published != "no":
        raise UserError("--scores cannot be combined with published results. Leave one of them out.")
    if request.scores and (request.rule == "corrected" or request.options.tier == "sample"):
        raise UserError("--scores has published means on real data. Leave out --scoring corrected and --tier sample.")
    if request.options.pricing and _has_no_runs(request):
        raise UserError("--prices are for runs in a store. Leave it out, or leave out --published-only and --scores.")
    if _has_no_runs(request):
        refuse_filter(request.options.wanted)
    if request.ratings and len(request.stores) > 1:
        raise UserError("--ratings rate the completions of one store. Give one --store.")


def _has_no_runs(request: ReportRequest) -> bool:
    """Return whether the report contains no results of the stores."""
    return request.scores is not None or request.published == "only"


def read_leaderboard(request: ReportRequest) -> Leaderboard:
    """Return the leaderboard of a report."""
    if request.published == "only":
        return published_leaderboard(suite=request.options.suite, tier=request.options.tier, rule=request.rule)
    if request.scores:
        return leaderboard_of_scores(request.scores, request.options)
    rule = request.rule or "corrected"
    options = replace(request.options, rule=rule, short_names=True)
    if request.published == "beside":
        return leaderboard_with_published(request.stores, options, rule=request.rule)
    if request.ratings and rule == "corrected" and len(request.stores) == 1:
        clinicians = CalibrationOptions(ratings=request.ratings, definitions=request.definitions)
        options = replace(options, clinicians=clinicians)
    return leaderboard_of(request.stores, options)


def _suite_benchmarks(request: ReportRequest, board: Leaderboard) -> list[str] | None:
    """Return the benchmarks of the suite, with or without results; None for all."""
    weights = suite_of(request.options, board.columns).weights
    return None if weights is None else list(weights)


def _flagged_scores(counted: Counted, board: Leaderboard) -> list[FlaggedScores]:
    """Return the means over models on accepted and on flagged references, of each benchmark with marks."""
    found = []
    for column in board.columns:
        splits = []
        for run in (run for (_, name), run in counted.items() if name == column.benchmark and run.folder):
            store = Store(stored_folder(run).parents[2])
            marks = read_marks(store, run.benchmark, run.benchmark_digest, run.data_digest)
            if marks and not run.model.startswith(BASELINE):
                splits.append(split_score(run, run.main_metric, marks, board.scoring))
        both = [(kept, aside) for one in splits if (kept := one.parts["kept"]) and (aside := one.parts["set_aside"])]
        if both:
            found.append(
                FlaggedScores(
                    title=column.title,
                    accepted=fmean(column.normalize(kept.value) for kept, _ in both),
                    flagged=fmean(column.normalize(aside.value) for _, aside in both),
                    n_accepted=max(kept.n for kept, _ in both),
                    n_flagged=max(aside.n for _, aside in both),
                    n_models=len(both),
                )
            )
    return found


# --- costs ------------------------------------------------------------------------------------------------------------

Counted = Mapping[tuple[str, str], Run]
"""Model and benchmark -> the run that the leaderboard counts."""


def _labeled_runs(items: Iterable[UsageItem]) -> list[tuple[str, Run]]:
    """Return each run with the label of its store."""
    runs = {id(item.run): (item.model.removeprefix(item.run.model), item.run) for item in items if item.run}
    return list(runs.values())


def _counted_runs(runs: Iterable[tuple[str, Run]], board: Leaderboard) -> Counted:
    """Return the runs that the leaderboard counts. `runs`: each with the label of its store."""
    shown = {column.benchmark for column in board.columns}
    found = select_runs((label, run) for label, run in runs if run.tier == board.tier).runs
    return {key: run for key, run in found.items() if key[1] in shown}


def _own_costs(items: Sequence[UsageItem], counted: Counted, board: Leaderboard) -> list[ModelCost]:
    """Return the cost of repeating the board's own results, judges included."""
    by_run = group_by(items, lambda item: id(item.run))
    costs = []
    for model in (row.model for row in board.rows if not row.published):
        own = [item for (name, _), run in counted.items() if name == model for item in by_run[id(run)]]
        if not own:
            continue
        tested, judged = [item for item in own if not item.judge], [item for item in own if item.judge]
        ceilings = [item.ceiling for item in tested]
        costs.append(
            ModelCost(
                model=model,
                benchmark_tokens=_tokens(tested),
                jury_tokens=_tokens(judged),
                benchmark_usd=sum_costs(item.bill_usd for item in tested).usd,
                jury_usd=sum_costs(item.bill_usd for item in judged).usd,
                ceiling_usd=None if None in ceilings else float(sum(one.total_usd for one in ceilings if one)),
            )
        )
    return costs


def _tokens(items: Sequence[UsageItem]) -> int | None:
    """Return the input and output tokens; None if a provider did not report them."""
    if any(item.usage.unmetered for item in items):
        return None
    return sum(item.usage.usage.input + item.usage.usage.output for item in items)


def _published_costs(board: Leaderboard) -> list[ModelCost]:
    """Return the published ceilings on the benchmarks of the leaderboard."""
    shown = {row.model.removesuffix(f" {MARK}"): row.model for row in board.rows if row.published}
    suite = Suite(name="", weights={column.benchmark: 1.0 for column in board.columns})
    return [replace(cost, model=shown[cost.model]) for cost in published_costs(suite) if cost.model in shown]


def published_costs(suite: str | Suite = "paper35") -> list[ModelCost]:
    """Return the published table of costs, which are ceilings; `paper35` gives table 3 of the paper.

    A cost is the sum of the published cells, each of which was rounded to cents.
    """
    results = load_results()
    wanted = published_names(suite)
    rows = []
    for key, model in results.models.items():
        parts = [ceiling_of(results.scores[key, name]) for name in results.benchmarks if name in wanted]
        tested = sum((part.input_usd + part.output_usd for part in parts), Decimal(0))
        judged = sum((part.judge_input_usd + part.judge_output_usd for part in parts), Decimal(0))
        rows.append(
            ModelCost(
                model=model.name,
                benchmark_tokens=sum(part.input_tokens + part.output_tokens for part in parts),
                jury_tokens=sum(part.judge_input_tokens + part.judge_output_tokens for part in parts),
                benchmark_usd=float(tested),
                jury_usd=float(judged),
                ceiling_usd=float(tested + judged),
                is_ceiling=True,
            )
        )
    return rows


# --- dates ------------------------------------------------------------------------------------------------------------


def _run_dates(runs: Iterable[Run]) -> list[str]:
    """Return the first and last day of some runs in words; nothing without runs."""
    times = [run.started for run in runs]
    return [f"runs of {days_in_words(times)}"] if times else []


def _published_date() -> str:
    files = load_results().sources["files"]
    source = next(entry for entry in files if entry["file"] == "scores.csv")
    return f"published results of {source['date']} (revision {source['revision']})"
