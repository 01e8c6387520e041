"""Remarks on a leaderboard: what limits the comparison, and which differences are significant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.comparison.all_pairs import MOST_MODELS, AllPairs
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.constant_answers import NAMES, constant_answer_remarks
from medhelm.analysis.leaderboard.rival_panel import panel_remarks
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain.completion_counts import worst_answers
from medhelm.domain.remark import Remark
from medhelm.domain.text import plural
from medhelm.domain.titles import group_title

WIDEST = 0.9
"""Width of an interval, on a scale of 1, from which it says nothing."""

SAMPLE_TIER = Remark(
    code="sample_tier",
    subject="",
    text="Sample tier: each benchmark has a few invented rows, which say nothing about real performance.",
)
"""Comes first wherever numbers are made from sample rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkContext:
    """Findings from building a leaderboard that are not part of it."""

    absent: Sequence[str]
    """Ids of requested benchmarks without a result, whose titles are not known; the others are named by title."""
    only_baselines: Sequence[str]
    """Requested benchmarks that only baselines have, which do not compete."""
    not_shared: Sequence[str]
    """Benchmarks that were left out because some model has no value on them."""
    different_instances: Sequence[str]
    """Benchmarks on which models were run on different instances."""
    single_instance: Sequence[str]
    """Benchmarks with one independent instance."""


def all_remarks(board: Leaderboard, context: RemarkContext) -> Iterator[Remark]:
    """Yield remarks on a board whose rows are in order of rank, the most limiting first."""
    rows, columns = board.rows, board.columns
    if board.tier == "sample":
        yield SAMPLE_TIER
    if not rows:
        yield Remark("no_results", "", "There is nothing to rank: none of the requested benchmarks has a result.")
        return
    if context.absent:
        count = len(context.absent) + len(context.only_baselines) + len(columns) + len(context.not_shared)
        text = f"{len(context.absent)} of {count} requested benchmarks have no result: {_names(context.absent)}."
        yield Remark("benchmarks_without_result", "", text)
    if context.only_baselines:
        verb = "is" if len(context.only_baselines) == 1 else "are"
        text = f"Only baselines were run on {_names(context.only_baselines)}, which {verb} not counted."
        yield Remark("only_baselines", "", f"{text} --rank-baselines counts them.")
    if context.not_shared:
        count = len(context.not_shared) + len(columns)
        text = f"Only the {len(columns)} of {count} benchmarks on which every model has a value are counted."
        yield Remark("benchmarks_not_shared", "", f"{text} Left out: {_names(context.not_shared)}.")
    if all(row.n_benchmarks == 0 for row in rows):
        text = f"No model has a {board.scoring} score on any benchmark."
        yield Remark("no_values", "", text)
        yield from _failures(board)
        return
    yield from _coverage(board)
    yield from panel_remarks(board)
    yield from _instances(context)
    yield from _failures(board)
    yield from _below_floors(board)
    yield from constant_answer_remarks(board)
    yield from _weights(columns)
    yield from _size(board)
    if board.pairs is not None:
        yield from _significance(board.pairs)
    elif len(rows) > MOST_MODELS:
        text = f"More than {MOST_MODELS:,} models are not tested against each other: ranks have no ties and no ranges."
        yield Remark("too_many_models", "", text)
    yield _interval_basis(board)


def _coverage(board: Leaderboard) -> Iterator[Remark]:
    """Yield models without a value on some benchmarks, and benchmarks with a value of one model or none."""
    rows, columns = board.rows, board.columns
    having = {c.benchmark: [row.model for row in rows if _has_value(row, c.benchmark)] for c in columns}
    titles = _titles(columns)
    yield from _not_comparable(board)
    for model, lacking in lacking_benchmarks(board).items():
        if lacking:
            text = f"{model} was not run on {_names(lacking)}. Its {board.ranked_by} is estimated from its other "
            text += "benchmarks and from how hard these were for other models."
            yield Remark("model_lacks_benchmarks", model, text)
    fewer = [row for row in board.baselines if any(not _has_value(row, name) for name in having if having[name])]
    if fewer:
        counts = sorted({row.n_benchmarks for row in fewer})
        spread = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text = (
            f"Averages of {_names([row.model for row in fewer])} are over {spread} of {len(columns)} benchmarks: "
            "do not compare them with those of models."
        )
        yield Remark("baseline_lacks_benchmarks", "", text)
    if unscored := [titles[name] for name, models in having.items() if not models]:
        verb = "is not counted" if len(unscored) == 1 else "are not counted"
        text = f"No model has a value on {_names(unscored)}, which {verb}."
        yield Remark("benchmarks_without_values", "", text)
    if len(rows) == 1:
        return
    if alone := [titles[name] for name, models in having.items() if len(models) == 1]:
        verb = "is" if len(alone) == 1 else "are"
        text = f"Only one model was run on {_names(alone)}, which {verb} not counted."
        yield Remark("only_one_model", "", text)


def lacking_benchmarks(board: Leaderboard) -> dict[str, list[str]]:
    """Return ranked model -> titles of the benchmarks that it lacks and that count in the ranking."""
    counted = []
    for column in board.columns:
        ranked = [row.rank is not None for row in board.rows if _has_value(row, column.benchmark)]
        if len(ranked) > 1 and any(ranked):
            counted.append(column)
    return {
        row.model: [column.title for column in counted if not _has_value(row, column.benchmark)]
        for row in board.rows
        if row.rank is not None
    }


def _not_comparable(board: Leaderboard) -> Iterator[Remark]:
    """Yield models that were not run on the same benchmarks as others."""
    unranked = [row.model for row in board.rows if row.rank is None]
    if unranked:
        verb, noun = ("was", "has no rank") if len(unranked) == 1 else ("were", "have no rank")
        text = f"{_names(unranked)} {verb} not run on the same benchmarks as the other models and {noun}."
        yield Remark("not_comparable", "", text)
    if board.pairs is None:
        return
    apart = [pair for pair in board.pairs.pairs_of(~board.pairs.is_tested) if set(pair).isdisjoint(unranked)]
    if apart:
        shown = "; ".join(" and ".join(pair) for pair in apart[:NAMES])
        more = f" and {len(apart) - NAMES} more pairs" if len(apart) > NAMES else ""
        text = f"These models were not run on the same benchmarks and are not compared: {shown}{more}."
        yield Remark("no_shared_benchmark", "", text)


def _has_value(row: Row, benchmark: str) -> bool:
    """Return whether a model has a value on a benchmark."""
    return benchmark in row.cells and row.cells[benchmark].value is not None


def _instances(context: RemarkContext) -> Iterator[Remark]:
    """Yield benchmarks on which models were run on different instances, or on a single one."""
    if context.different_instances:
        text = f"Models were run on different instances of {_names(context.different_instances)}."
        yield Remark("different_instances", "", text)
    if context.single_instance:
        text = f"Only one independent instance: {_names(context.single_instance)}."
        text += " Differences there cannot be significant."
        yield Remark("single_instance", "", text)


def _titles(columns: Sequence[Column]) -> dict[str, str]:
    """Return benchmark -> its name for people."""
    return {column.benchmark: column.title for column in columns}


def _weights(columns: Sequence[Column]) -> Iterator[Remark]:
    """Yield a remark if some benchmarks count more than others."""
    weights = sorted(column.weight for column in columns)
    if weights[0] < weights[-1]:
        text = (
            f"The suite weights benchmarks between {weights[0]:g} and {weights[-1]:g}, so averages differ from those "
            "of unweighted tables."
        )
        yield Remark("weighted_benchmarks", "", text)


def _size(board: Leaderboard) -> Iterator[Remark]:
    """Yield a remark if there is a single model or a single benchmark."""
    if len(board.rows) == 1:
        yield Remark("one_model", board.rows[0].model, "There is one model: win rates need at least two.")
    elif len(board.columns) == 1:
        text = "There is one benchmark: these ranks do not generalize to other tasks."
        yield Remark("one_benchmark", board.columns[0].benchmark, text)


A_DIFFERENCE = (
    "A difference counts if swapping the two models' {what} at random would rarely produce one as large. It may still "
    "be small."
)
"""Says when a difference is significant."""


def _interval_basis(board: Leaderboard) -> Remark:
    """Return a remark on what the intervals of averages and ranks are about."""
    match board.interval_method:
        case "nothing":
            text = (
                "Nothing was tested, so intervals and the significance of ranks are unknown; all failures are left out."
            )
        case "benchmarks" if any(cell.scores is None for row in board.rows for cell in row.cells.values()):
            text = (
                "Instance scores are not known for all results, so intervals and tests reflect the choice of "
                "benchmarks, not the choice of questions."
            )
        case "benchmarks":
            text = "Intervals and tests reflect the choice of benchmarks, not the choice of questions."
        case "instances within benchmarks":
            judged = ", not errors of the judges" if any(column.judges for column in board.columns) else ""
            text = f"Intervals and tests reflect the choice of questions on these benchmarks{judged}."
            text += _wider_interval(board)
    if board.pairs is not None:
        what = "answers" if board.interval_method == "instances within benchmarks" else "scores on a benchmark"
        text += f" {A_DIFFERENCE.format(what=what)}"
    return Remark("interval_basis", "", text)


def _wider_interval(board: Leaderboard) -> str:
    """Return a sentence on the first model's average on other benchmarks; empty for one benchmark.

    The wider one of both intervals is meant: with few benchmarks their spread can be small by chance.
    """
    first = board.rows[0]
    here, wider = first.adjusted_average, first.macro_over_benchmarks
    if wider is None or wider.low is None or wider.high is None or here is None or here.low is None:
        return ""
    low, high = min(wider.low, here.low), max(wider.high, here.high or here.value)
    if high - low > WIDEST:
        n = first.n_benchmarks
        return f" With only {n} benchmarks, nothing can be said about other tasks of this kind."
    return f" On similar benchmarks {first.model} would probably average between {low:.2f} and {high:.2f}."


def _failures(board: Leaderboard) -> Iterator[Remark]:
    """Yield models with failed instances, and the rank they could fall to."""
    titles = _titles(board.columns)
    for row in board.rows:
        caused = {titles.get(name, name): cell for name, cell in row.cells.items() if cell.n_failed_by_model}
        if caused:
            failures = sum((Counter(cell.failures_by_model) for cell in caused.values()), Counter[str]())
            n = sum(cell.n_failed_by_model for cell in caused.values())
            yield worst_answers(row.model, failures, list(caused), n)
        missing = {titles.get(name, name): cell.n_missing for name, cell in row.cells.items() if cell.n_missing}
        if not missing:
            continue
        instances = plural(sum(missing.values()), "instance")
        text = f"{row.model}: {instances} without a score, left out of its means, on {_names(list(missing))}."
        if row.rank_bounds and row.rank is not None and row.rank_bounds[1] > row.rank:
            text += f" With the worst score for each, its rank would fall from {row.rank} to {row.rank_bounds[1]}."
        yield Remark("instances_without_score", row.model, text)


def _below_floors(board: Leaderboard) -> Iterator[Remark]:
    """Yield how many completions of the leading model are below each floor."""
    row = board.rows[0]
    for column in board.columns:
        cell = row.cells.get(column.benchmark)
        for floor, below in cell.floors.items() if cell else ():
            known = below[~np.isnan(below)]
            n = int(known.sum())
            if not len(known):
                continue
            text = f"{n:,} of {plural(len(known), 'completion')} of {row.model} {'is' if n == 1 else 'are'} below the "
            text += f"floor of {group_title(floor.criterion)} on {column.title} ({floor})."
            yield Remark("below_floor", row.model, text)


def _significance(pairs: AllPairs) -> Iterator[Remark]:
    """Yield how many pairs of models are separated, and what that means."""
    tested = int(pairs.is_tested.sum())
    if tested > 1:
        text = pairs_sentence(int(pairs.is_separated.sum()), tested)[:-1]
        yield Remark("significant_pairs", "", f"{text} (all tests together at the 5% level).")


def pairs_sentence(separated: int, tested: int) -> str:
    """Return how many of the tested pairs of models differ significantly.

    >>> pairs_sentence(1, 3)
    '1 of 3 differences between models is larger than chance explains.'
    """
    verb = "is" if separated == 1 else "are"
    return f"{separated:,} of {tested:,} differences between models {verb} larger than chance explains."


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Join names with commas, cut after `most`."""
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
