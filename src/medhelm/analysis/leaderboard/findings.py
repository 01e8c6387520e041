"""Findings of a leaderboard in sentences: tests against constant answers, remarks and the verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired_differences import pair_indices, paired_difference
from medhelm.analysis.comparison.pairs import MOST_MODELS, AllPairs
from medhelm.analysis.comparison.significance import LEVEL, holm
from medhelm.analysis.leaderboard.averages import panel_remarks
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.means import ALIKE_IN_CLUSTERS, NORMAL, Z95, Floats, wilson_interval
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark
from medhelm.domain.run import worst_answers
from medhelm.domain.text import group_title, listed, plural

# --- constant answers -------------------------------------------------------------------------------------------------
# Tests whether models are better than always giving the most frequent correct answer.
#
# Every model is tested on every benchmark, with Holm's correction for all of these tests together: if no model were
# better than a constant answer anywhere, the chance of even one finding would be at most 5%. The test is the two-sided
# paired test on the instances that both have, as between models. The scores of the constant answer come from
# `baseline/majority`, or from the options and references in the store.
#
# Where only the mean of the constant answer is known, how the two vary together is not: then the model's interval must
# lie above that of the mean. An interval that takes all answers within a cluster as alike cannot show that a model is
# not better, so there is no test by it.

NAMES = 5
"""Most names written out in one sentence."""

LONGEST_ANSWER = 30
"""Characters of a constant answer that are shown."""

MAJORITY = "baseline/majority"
"""The model that always gives the most frequent answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantAnswerTest:
    """One model against the constant answer of one benchmark."""

    is_better: bool
    """True if the model is significantly better."""
    value: float
    """Mean of the model, in the metric's own unit."""
    constant: float
    """Mean of the constant answer, in the same unit."""
    difference: float
    """Model minus constant answer, on a scale where 1 is best."""


def constant_answer_tests(board: Leaderboard) -> Mapping[tuple[str, str], ConstantAnswerTest]:
    """Return model and benchmark -> test, for the models of a leaderboard where a constant answer is known."""
    return _test_all(board.rows, board.baselines, board.columns)


def beats_constant_answer(board: Leaderboard, row: Row, column: Column) -> bool | None:
    """Return whether a model is shown to be better than a constant answer; None if that is not known."""
    found = constant_answer_tests(board).get((row.model, column.benchmark))
    return None if found is None else found.is_better


@lru_cache(maxsize=1)
def _test_all(
    rows: tuple[Row, ...], baselines: tuple[Row, ...], columns: tuple[Column, ...]
) -> dict[tuple[str, str], ConstantAnswerTest]:
    """Test all models; kept, because verdict, remarks and card of a leaderboard ask for it."""
    majority = next((row.cells for row in (*rows, *baselines) if _is_majority(row)), {})
    found: dict[tuple[str, str], tuple[float, float, float, float]] = {}
    for column in columns:
        constant = _Rival(majority.get(column.benchmark), column)
        for row in rows:
            cell = row.cells.get(column.benchmark)
            if cell is None or cell.value is None or _is_majority(row):
                continue
            test = _paired_test(cell, constant, column) or _test_of_mean(cell, column)
            if test is not None:
                found[row.model, column.benchmark] = (*test, cell.value)
    adjusted = holm([p for p, *_ in found.values()])
    return {
        key: ConstantAnswerTest(
            is_better=bool(p <= LEVEL and difference > 0), value=value, constant=constant, difference=difference
        )
        for (key, (_, difference, constant, value)), p in zip(found.items(), adjusted, strict=True)
    }


class _Rival:
    """The scores of the constant answer on one benchmark."""

    def __init__(self, majority: Cell | None, column: Column) -> None:
        self._known: Mapping[str, float] = column.constant_scores or {}
        if majority is not None and majority.scores is not None:
            self._known = dict(zip(majority.ids, majority.scores.tolist(), strict=True))
        self._by_list: dict[int, Floats] = {}

    def scores(self, ids: Sequence[str]) -> Floats:
        """Return the scores on some instances, nan if not known. Models mostly share one list of ids."""
        if id(ids) not in self._by_list:
            self._by_list[id(ids)] = np.array([self._known.get(name, np.nan) for name in ids], dtype=float)
        return self._by_list[id(ids)]


def _paired_test(cell: Cell, constant: _Rival, column: Column) -> tuple[float, float, float] | None:
    """Return p-value, difference, and mean of the constant answer; None if its scores are not known."""
    if cell.scores is None:
        return None
    rival = constant.scores(cell.ids)
    if (np.isnan(rival) | np.isnan(cell.scores)).all():
        return None
    found = paired_difference(column.normalize(cell.scores), column.normalize(rival), cell.clusters)
    if found is None:
        return None
    return found.p_value if found.value > 0 else 1.0, found.value, float(np.nanmean(rival))


def _test_of_mean(cell: Cell, column: Column) -> tuple[float, float, float] | None:
    """Return the same where only the mean of the constant answer is known; the p-value is that of both intervals.

    Intervals of 95% that touch have the p-value 0.05; at other levels they are taken to be proportional to the normal
    quantile. None if the mean, or the model's interval, is not known.
    """
    if column.constant_baseline is None or cell.value is None:
        return None
    constant = column.normalize(column.constant_baseline)
    if cell.scores is not None:
        found = paired_difference(column.normalize(cell.scores), np.zeros(len(cell.ids)), cell.clusters)
        if found is None:
            return None
        value, low, n = found.value, found.low, float(found.n_clusters)
    elif cell.estimate is not None and not cell.estimate.method.endswith(ALIKE_IN_CLUSTERS):
        ends = column.normalize(cell.estimate.low), column.normalize(cell.estimate.high)
        value, low, n = column.normalize(cell.value), min(ends), float(cell.estimate.n)
    else:
        return None
    width = (value - low) + (wilson_interval(constant * n, n)[1] - constant)
    difference = value - constant
    p = 1.0 if difference <= 0 else 2 * NORMAL.cdf(-Z95 * difference / width) if width > 0 else 0.0
    return p, difference, column.constant_baseline


def _is_majority(row: Row) -> bool:
    """Return whether a row is `baseline/majority`, whatever its store."""
    return row.model.split(" ")[0] == MAJORITY


def constant_answer_sentences(board: Leaderboard) -> Iterator[str]:
    """Yield the benchmarks on which the leader is not shown to be better than always giving one answer."""
    leader = board.rows[0].model
    if leader.split("/")[0] == "baseline":
        return
    tests = constant_answer_tests(board)
    found = [
        (one, test) for one in board.columns if (test := tests.get((leader, one.benchmark))) and not test.is_better
    ]
    for words, own in (
        ("no better", [pair for pair in found if pair[1].difference <= 0]),
        ("not clearly better", [pair for pair in found if pair[1].difference > 0]),
    ):
        if not own:
            continue
        numbers = ""
        if len(own) == 1:
            ((column, test),) = own
            value, constant = (_shown(number, column, board) for number in (test.value, test.constant))
            numbers = f" ({value} against {constant})"
        titles = listed([column.title or column.benchmark for column, _ in own], NAMES)
        yield f"On {titles}, {leader} is {words} than always giving the same answer{numbers}."


def constant_answer_remarks(board: Leaderboard) -> Iterator[Remark]:
    """Yield benchmarks on which no model, or only some, are shown to be better than a constant answer."""
    tests = constant_answer_tests(board)
    limited: list[tuple[Column, list[ConstantAnswerTest], list[str]]] = []
    for column in board.columns:
        own = {row.model: test for row in board.rows if (test := tests.get((row.model, column.benchmark)))}
        rest = [model for model, test in own.items() if not test.is_better]
        if rest:
            limited.append((column, list(own.values()), rest))
    for column, own_tests, rest in limited[:NAMES]:
        none = len(rest) == len(own_tests)
        who = "No model is clearly better." if none else f"Not clearly better: {listed(rest, NAMES)}."
        code = "constant_baseline_not_beaten" if none else "constant_baseline_partly_beaten"
        yield Remark(code, "", f"{_constant_answer(column, own_tests, board)} {who}")
    if more := [column.title or column.benchmark for column, _, _ in limited[NAMES:]]:
        text = f"On {listed(more, NAMES)}, too, not every model is clearly better than a constant answer."
        yield Remark("constant_baseline_partly_beaten", "", text)


def _constant_answer(column: Column, tests: Sequence[ConstantAnswerTest], board: Leaderboard) -> str:
    """Return what a constant answer scores on a benchmark, in a sentence."""
    answer = " ".join(column.constant_answer.split())
    shown = answer if len(answer) <= LONGEST_ANSWER else answer[:LONGEST_ANSWER] + "..."
    always = f"always answering `{shown}`" if shown else "a constant answer"
    constant = column.constant_baseline
    value = max((test.constant for test in tests), key=column.normalize) if constant is None else constant
    verb = "is right in" if _is_right_or_wrong(column, board) else "scores"
    return f"On {column.title or column.benchmark} {always} {verb} {_shown(value, column, board)}."


def _shown(value: float, column: Column, board: Leaderboard) -> str:
    """Return a mean for people: in percent if every answer is right or wrong."""
    return f"{value:.0%}" if _is_right_or_wrong(column, board) else f"{value:.3f}"


def _is_right_or_wrong(column: Column, board: Leaderboard) -> bool:
    """Return whether all scores on a benchmark are 0 or 1, and 1 is best."""
    cells = [row.cells[column.benchmark] for row in board.rows if column.benchmark in row.cells]
    scores = [cell.scores for cell in cells if cell.scores is not None and cell.tested is None]
    known = bool(scores) and len(scores) == len(cells) and column.higher_is_better
    return known and all(bool(np.isin(own[~np.isnan(own)], (0.0, 1.0)).all()) for own in scores)


# --- remarks ----------------------------------------------------------------------------------------------------------
# What limits the comparison, and which differences are significant.

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
        yield Remark("only_baselines", "", f"{text} `--rank-baselines` ranks baselines, too.")
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
        yield from _significance(board, board.pairs)
    elif len(rows) > MOST_MODELS:
        text = f"More than {MOST_MODELS:,} models are not tested against each other: ranks have no ties and no ranges."
        yield Remark("too_many_models", "", text)
    yield _interval_basis(board)


def _coverage(board: Leaderboard) -> Iterator[Remark]:
    """Yield models without a value on some benchmarks, and benchmarks with a value of one model or none."""
    rows, columns = board.rows, board.columns
    having = {c.benchmark: [row.model for row in rows if _has_value(row, c.benchmark)] for c in columns}
    titles, lacks = _titles(columns), lacking_benchmarks(board)
    yield from _not_comparable(board)
    for lacking, models in group_by(partly_measured(board), lambda row: tuple(lacks[row.model])).items():
        its = ("Its", "is", "its") if len(models) == 1 else ("Their", "are", "their")
        number = board.ranked_by if len(models) == 1 else f"{board.ranked_by}s"
        text = f"{_model_names(models)} {_were(models)} not run on {_names(lacking)}. {its[0]} {number} {its[1]} "
        text += f"estimated from {its[2]} other benchmarks and from how hard these were for other models."
        yield Remark("model_lacks_benchmarks", models[0].model if len(models) == 1 else "", text)
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


def partly_measured(board: Leaderboard) -> list[Row]:
    """Return the ranked models that lack a benchmark; they are ranked with the others, by an estimated number."""
    lacks = lacking_benchmarks(board)
    return [row for row in board.rows if lacks.get(row.model)]


def measured_on(board: Leaderboard) -> dict[str, tuple[int, int]]:
    """Return the ranked models that lack a benchmark, each with the number of its benchmarks and of all."""
    lacks = lacking_benchmarks(board)
    rows = partly_measured(board)
    return {row.model: (row.n_benchmarks, row.n_benchmarks + len(lacks[row.model])) for row in rows}


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


def _interval_basis(board: Leaderboard) -> Remark:
    """Return a remark on what the intervals of averages and ranks are about."""
    match board.interval_method:
        case "nothing":
            text = "No intervals and no tests were computed. All failures are left out of the means."
        case "benchmarks":
            text = "The intervals show how results could change with other benchmarks, not with other questions."
            if any(cell.scores is None for row in board.rows for cell in row.cells.values()):
                text += " For that, the scores of single questions would have to be known."
        case "instances within benchmarks":
            text = "The intervals show how results could change with other questions."
            if any(column.judges for column in board.columns):
                text += " They do not cover errors of the judges."
            text += _wider_interval(board)
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


def _significance(board: Leaderboard, pairs: AllPairs) -> Iterator[Remark]:
    """Yield differences that depend on missing scores, but not of the best models, and how many pairs are separated."""
    best = {row.model for row in (*leaders(board), *inseparable(board))}
    if fragile := [pair for pair in pairs.pairs_of(pairs.are_fragile) if best.isdisjoint(pair)]:
        yield Remark("depends_on_missing_scores", "", " ".join(_fragile(board, fragile)))
    tested = int(pairs.is_tested.sum())
    if tested > 1:
        yield Remark("significant_pairs", "", pairs_sentence(int(pairs.is_separated.sum()), tested))


def pairs_sentence(separated: int, tested: int) -> str:
    """Return how many of the tested pairs of models differ significantly.

    >>> pairs_sentence(1, 3), pairs_sentence(0, 3)
    ('1 of 3 pairs of models differs significantly.', 'No pair of models differs significantly.')
    """
    count = f"{separated:,} of {tested:,} pairs" if separated else "No pair"
    return f"{count} of models {'differs' if separated <= 1 else 'differ'} significantly."


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Join names, cut after `most`."""
    return listed(names, most)


# --- verdict ----------------------------------------------------------------------------------------------------------
# A few sentences: leaders, models that cannot be separated from them, and costs.

SAMPLE_ROWS = "These are invented sample rows, not a measure of real performance."
"""First sentence on results of the sample tier."""

FEW = 3
"""Most pairs of models that get a sentence of their own."""

CLEARLY_LESS = 0.9
"""Largest cost or median time, as a share of another one, that is worth a sentence."""

NOTICED = 0.5
"""Smallest difference of median times in seconds that is worth a sentence."""


def verdict(board: Leaderboard) -> list[str]:
    """Return what a decision-maker needs first. Every sentence follows from the tests behind the table."""
    rows = board.rows
    if not rows or all(row.n_benchmarks == 0 for row in rows):
        return []
    found = [] if board.tier == "real" else [SAMPLE_ROWS]
    found += [] if len(rows) == 1 else _leaders(board)
    found += constant_answer_sentences(board)
    if len(rows) > 1:
        found += [*_other_order(board), *_costs(board)]
    return found


_ON_RANKS = re.compile(r" leads \(| ranks? first | share the first rank ")
"""Found in the sentence on the order of the models."""

_NO_WINNER = "No winner: "
"""Beginning of the sentence on ranks if the first model is not significantly better than every other one."""


def with_doubts(board: Leaderboard, doubts: Sequence[str]) -> tuple[str, ...]:
    """Return the verdict after sentences that speak against the jury: what follows is only what its scores show."""
    if not doubts:
        return tuple(board.verdict)
    source = "By the jury's scores, " if all(column.judges for column in board.columns) else "By these scores, "
    place = next((place for place, text in enumerate(board.verdict) if _ON_RANKS.search(text)), None)
    found = list(board.verdict)
    if place is not None and not found[place].startswith(("By the jury's", "By these")):
        text = found[place]
        found[place] = source + (text[0].lower() + text[1:] if text.startswith(_NO_WINNER) else text)
    return (*doubts, *found)


def leaders(board: Leaderboard) -> list[Row]:
    """Return the first rows of equal rank."""
    return list(takewhile(lambda row: row.rank == board.rows[0].rank, board.rows))


def inseparable(board: Leaderboard) -> list[Row]:
    """Return the models that share no rank with the leader and do not differ significantly from it.

    A model that was not run on the same benchmarks as the leader is not among them.
    """
    rest = list(board.rows[len(leaders(board)) :])
    if board.pairs is None:
        return rest
    known = _relations(board.rows[0].model, board.pairs)
    return [row for row in rest if row.model in known.equal]


class _Relations(NamedTuple):
    """The other models by how they compare with one model."""

    better: set[str]
    """Significantly better ones."""
    worse: set[str]
    """Significantly worse ones."""
    equal: set[str]
    """Those that were compared and do not differ significantly."""
    unknown: set[str]
    """Those that share no benchmark with it."""


def _relations(model: str, pairs: AllPairs) -> _Relations:
    """Return how the other models compare with one model."""
    first, second = pair_indices(len(pairs.models))
    place = pairs.models.index(model)
    mine = (first == place) | (second == place)
    sign = pairs.findings * np.where(first == place, 1, -1)
    other = np.where(first == place, second, first)

    def names(where: NDArray[np.bool_]) -> set[str]:
        return {pairs.models[i] for i in other[mine & where].tolist()}

    return _Relations(
        better=names(sign < 0),
        worse=names(sign > 0),
        equal=names((sign == 0) & pairs.is_tested),
        unknown=names(~pairs.is_tested),
    )


def _leaders(board: Leaderboard) -> Iterator[str]:
    """Yield who leads, who cannot be separated from the leader, and who was not compared with it."""
    if board.pairs is None or board.rows[0].rank is None:
        return
    first, rest = leaders(board), inseparable(board)
    ranked = [row for row in board.rows if row.rank is not None]
    value = first[0].ranking_value
    number = board.ranked_by + (" against the panel" if board.panel and board.ranked_by == "win rate" else "")
    number += "" if value is None else f" {value:.3f}"
    known = _relations(first[0].model, board.pairs)
    others = [row for row in ranked if row.model in known.worse]
    if better := [row for row in board.rows if row.model in known.better]:
        text = f"{_model_names(first)} ranks first ({number}), but {_model_names(better)} {_are(better)}"
        yield f"{_NO_WINNER}{text} significantly better."
    elif len(first) == len(ranked):
        every = "both models" if len(first) == 2 else f"all {len(first)} models"
        yield f"{_NO_WINNER}{every} share the first rank ({number})."
    elif not board.pairs.is_separated.any():
        every = "the two models" if len(ranked) == 2 else f"the {len(ranked)} models"
        verb = "ranks" if len(first) == 1 else "rank"
        yield f"{_NO_WINNER}{every} cannot be separated. {_model_names(first)} {verb} first ({number})."
    elif len(first) > 1:
        yield f"{_NO_WINNER}{_model_names(first)} share the first rank ({number}){_not_separated(rest, 'them')}."
    elif rest:
        text = f"{first[0].model} ranks first ({number}), but cannot be separated from {_model_names(rest)}."
        yield f"{_NO_WINNER}{text}"
    else:
        every = "every other model" if len(ranked) == len(board.rows) else "every other ranked model"
        all_others = "the other model" if len(board.rows) == 2 else every
        worse = all_others if len(others) == len(ranked) - 1 else _model_names(others)
        yield f"{first[0].model} leads ({number}) and is significantly better than {worse}."
    if unknown := [row for row in ranked if row.model in known.unknown]:
        yield f"{_model_names(unknown)} {_were(unknown)} not run on the same benchmarks as {first[0].model}."
    best = {row.model for row in (*first, *rest)}
    yield from _fragile(board, [pair for pair in board.pairs.pairs_of(board.pairs.are_fragile) if best & {*pair}])
    yield from _opposed(board.pairs)


def _not_separated(rest: Sequence[Row], them: str) -> str:
    """Return the part of a sentence on models that cannot be separated from the leaders; empty for none."""
    return f"; {_model_names(rest)} cannot be separated from {them}" if rest else ""


def _fragile(board: Leaderboard, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield differences that are significant only if missing scores are ignored. `pairs`: the better model first."""
    missing = {row.model: sum(cell.n_missing for cell in row.cells.values()) for row in board.rows}
    beaten: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for better, worse in pairs:
        lacking = tuple(name for name in (better, worse) if missing[name])
        beaten.setdefault((better, lacking), []).append(worse)
    found = list(beaten.items())
    for (better, lacking), others in found[:FEW]:
        n = sum(missing[name] for name in lacking)
        scores = f"{plural(n, 'missing score')} of {listed(lacking)} {'is' if n == 1 else 'are'}"
        yield f"{better} is significantly better than {listed(others, NAMES)} only if {scores} ignored."
    if len(found) > FEW:
        yield "Other significant differences depend on missing scores, too."
    if found:
        yield "To complete the scores, repeat the command of the run."


def _opposed(pairs: AllPairs) -> Iterator[str]:
    """Yield pairs of which one model is better on more questions, but worse on average."""
    found = list(pairs.pairs_of(pairs.are_opposed))
    for better, worse in found[:FEW]:
        yield f"{worse} is better than {better} on more questions, but worse on average: its bad answers are worse."
    if len(found) > FEW:
        yield f"{len(found) - FEW:,} more pairs differ in the same way."


def _other_order(board: Leaderboard) -> Iterator[str]:
    """Yield which other model the average that does not rank would put first, and why that matters little."""
    if board.pairs is None or board.rows[0].rank is None or board.ranked_by == "mean score" or board.panel:
        return
    name = "macro average" if board.ranked_by == "win rate" else "win rate"
    averages = {row.model: row.adjusted_average if name == "macro average" else row.win_rate for row in board.rows}
    complete = [row for row in board.rows if row.coverage == board.rows[0].coverage]
    values = {row.model: round(found.value, 3) for row in complete if (found := averages[row.model])}
    first = [row.model for row in leaders(board)]
    best = max(values, key=lambda model: values[model], default=first[0])
    if best in first or first[0] not in values or values[best] <= values[first[0]]:
        return
    text = f"By {name}, {best} would come first ({values[best]:.3f}; {first[0]} {values[first[0]]:.3f})"
    if best in _relations(first[0], board.pairs).equal:
        yield f"{text}, but neither model is significantly better."
    elif name == "win rate":
        yield f"{text}, because it counts a small lead on a benchmark like a large one."
    else:
        yield f"{text}, because it counts by how much a model is ahead on each benchmark."


def _costs(board: Leaderboard) -> Iterator[str]:
    """Yield what the winner costs, or which of the models that may be the best costs least and answers fastest."""
    if board.tier == "sample":
        return
    first, found = board.rows[0], alternatives(board)
    if found.n_models == 1:
        if found.cheapest:
            yield f"{first.model} cost {_cost_in_words(first, board)}."
        return
    best = "the best" if found.is_complete else "the best with a known price"
    if found.cheapest is None and found.has_costs:
        yield f"None of {best} is clearly cheaper than {first.model} ({_cost_in_words(first, board)})."
    elif found.cheapest is not None:
        rest = "" if found.cheapest is first or not found.has_costs else f"; {first.model} {first.cost_usd:,.2f}"
        yield f"Cheapest of {best}: {found.cheapest.model} ({_cost_in_words(found.cheapest, board)}{rest})."
    if found.fastest is not None:
        best_s, own_s = (f"{s:.0f}" if s >= 10 else f"{s:.2g}" for s in map(_seconds, (found.fastest, first)))
        yield f"Fastest of the best: {found.fastest.model} ({best_s} s per answer, median; {first.model} {own_s} s)."


def _cost_in_words(row: Row, board: Leaderboard) -> str:
    """Return the cost of a model, and of what."""
    counts = [cell.n_completions for cell in row.cells.values()]
    answered = "" if None in counts else f" for {plural(sum(count or 0 for count in counts), 'completion')}"
    is_judged = any(column.judges and column.benchmark in row.cells for column in board.columns)
    return f"{row.cost_usd or 0.0:,.2f} US dollars{answered}{', judges not included' if is_judged else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """The leader and the models that may be as good, by cost and speed."""

    cheapest: Row | None
    """The one that costs clearly less than the leader, or the leader if it costs clearly less than the others."""
    fastest: Row | None
    """The one that answers fastest, if it takes a tenth and half a second less than the leader."""
    has_costs: bool
    """True if the cost of the leader is known, and not a ceiling."""
    is_complete: bool
    """True if the costs of all of them can be compared."""
    n_models: int
    """Number of these models, the leader included."""


def alternatives(board: Leaderboard) -> Alternatives:
    """Return which models that cannot be separated from the leader cost less, or answer faster.

    Published costs are ceilings and count as unknown; costs and times of models on other benchmarks are not compared.
    A model that is worse by the test of this one pair, though not by the tests of all pairs, is not one of them.
    """
    first = board.rows[0]
    group = [*leaders(board), *inseparable(board)] if board.pairs is not None else leaders(board)
    group = [row for row in group if (first.model, row.model) not in board.nominally_different]
    alike = [row for row in group if row.n_benchmarks == first.n_benchmarks]
    priced = sorted((row for row in alike if row.cost_usd and not row.published), key=_by_cost)
    if len(group) > len(priced) == 1:
        priced = []  # a single cost is no comparison
    timed = [row for row in alike if row.use is not None and row.use.seconds is not None]
    fastest = min(timed, key=lambda row: (_seconds(row), row.rank or 0), default=first)
    own, best = _seconds(first), _seconds(fastest)
    is_faster = own < inf and best <= CLEARLY_LESS * own and own - best >= NOTICED
    return Alternatives(
        cheapest=_clearly_cheapest(priced, first),
        fastest=fastest if is_faster else None,
        has_costs=first in priced,
        is_complete=len(priced) == len(group),
        n_models=len(group),
    )


def _clearly_cheapest(priced: Sequence[Row], first: Row) -> Row | None:
    """Return the cheapest model if it is clearly cheaper than the leader, or as the leader than the others.

    Parameters: priced, the models with a known cost, cheapest first.
    """
    cheapest = priced[0] if priced else None
    other = priced[1] if cheapest is first and len(priced) > 1 else first
    if cheapest is None or other is cheapest or other not in priced:
        return cheapest
    return cheapest if (cheapest.cost_usd or 0.0) <= CLEARLY_LESS * (other.cost_usd or 0.0) else None


def _by_cost(row: Row) -> tuple[float, int]:
    return row.cost_usd or 0.0, row.rank or 0


def _seconds(row: Row) -> float:
    """Return the median seconds of a completion; infinite if unknown."""
    return row.use.seconds if row.use is not None and row.use.seconds is not None else inf


def _model_names(rows: Sequence[Row]) -> str:
    """Join the names of models, cut after `NAMES`."""
    return listed([row.model for row in rows], NAMES)


def _are(rows: Sequence[Row]) -> str:
    return "is" if len(rows) == 1 else "are"


def _were(rows: Sequence[Row]) -> str:
    return "was" if len(rows) == 1 else "were"
