"""The verdict of a leaderboard in a few sentences: leaders, models that cannot be separated from them, and costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.all_pairs import AllPairs
from medhelm.analysis.comparison.paired import pair_indices
from medhelm.analysis.leaderboard.constant_answers import NAMES, constant_answer_sentences
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain.text import listed, plural

SAMPLE_ROWS = "These are invented sample rows, not a measure of real performance."
"""First sentence on results of the sample tier."""

FEW = 3
"""Most pairs of models that get a sentence of their own."""

FASTER = 0.9
"""Largest median time, as a share of the leader's, that is worth a sentence: times vary with server load."""

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
        found += _costs(board)
    return found


_ON_RANKS = re.compile(r" leads \(| ranks? first | share the first rank ")
"""Found in the sentence on the order of the models."""

_WORD = re.compile(r"(No two|Both|All \d+|The two)\b")
"""Beginning of a sentence on ranks that is not the name of a model."""


def with_doubts(board: Leaderboard, doubts: Sequence[str]) -> tuple[str, ...]:
    """Return the verdict after sentences that speak against the jury: what follows is only what its scores show."""
    if not doubts:
        return tuple(board.verdict)
    source = "By the jury's scores, " if all(column.judges for column in board.columns) else "By these scores, "
    place = next((place for place, text in enumerate(board.verdict) if _ON_RANKS.search(text)), None)
    found = list(board.verdict)
    if place is not None and not found[place].startswith(("By the jury's", "By these")):
        text = found[place]
        found[place] = source + (text[0].lower() + text[1:] if _WORD.match(text) else text)
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
        verb = "is" if len(better) == 1 else "are"
        yield f"{_model_names(first)} ranks first ({number}), but {_model_names(better)} {verb} significantly better."
    elif len(first) == len(ranked):
        yield f"{'Both' if len(first) == 2 else f'All {len(first)}'} models share the first rank ({number})."
    elif not board.pairs.is_separated.any():
        subject = f"No two of the {len(ranked)} models" if len(ranked) > 2 else "The two models do not"
        verb = "ranks" if len(first) == 1 else "rank"
        yield f"{subject} differ significantly. {_model_names(first)} {verb} first ({number})."
    elif len(first) > 1:
        yield f"{_model_names(first)} share the first rank ({number}){_not_separated(rest, 'them')}."
    elif rest:
        yield f"{first[0].model} leads ({number}), but cannot be separated from {_model_names(rest)}."
    else:
        every = "every other model" if len(ranked) == len(board.rows) else "every other ranked model"
        all_others = "the other model" if len(board.rows) == 2 else every
        worse = all_others if len(others) == len(ranked) - 1 else _model_names(others)
        yield f"{first[0].model} leads ({number}) and is significantly better than {worse}."
    if unknown := [row for row in ranked if row.model in known.unknown]:
        verb = "was" if len(unknown) == 1 else "were"
        yield f"{_model_names(unknown)} {verb} not run on the same benchmarks as {first[0].model}."
    yield from _fragile(board, board.pairs)
    yield from _opposed(board.pairs)


def _not_separated(rest: Sequence[Row], them: str) -> str:
    """Return the part of a sentence on models that cannot be separated from the leaders; empty for none."""
    return f"; {_model_names(rest)} cannot be separated from {them}" if rest else ""


def _fragile(board: Leaderboard, pairs: AllPairs) -> Iterator[str]:
    """Yield differences that are significant only if missing scores are ignored."""
    missing = {row.model: sum(cell.n_missing for cell in row.cells.values()) for row in board.rows}
    beaten: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for better, worse in pairs.pairs_of(pairs.are_fragile):
        lacking = tuple(name for name in (better, worse) if missing[name])
        beaten.setdefault((better, lacking), []).append(worse)
    found = list(beaten.items())
    for (better, lacking), others in found[:FEW]:
        n = sum(missing[name] for name in lacking)
        scores = f"{plural(n, 'missing score')} of {listed(lacking)} {'is' if n == 1 else 'are'}"
        yield f"{better} is significantly better than {listed(others, NAMES)} only if {scores} ignored."
    if more := sum(len(others) for _, others in found[FEW:]):
        yield f"{more:,} more differences depend on missing scores." if more > 1 else "One more depends on them."
    if found:
        yield "Run again to complete the scores."


def _opposed(pairs: AllPairs) -> Iterator[str]:
    """Yield pairs of which one model is better on more questions, but worse on average."""
    found = list(pairs.pairs_of(pairs.are_opposed))
    for better, worse in found[:FEW]:
        yield f"{worse} is better than {better} on more questions, but worse on average: its bad answers are worse."
    if len(found) > FEW:
        yield f"{len(found) - FEW:,} more pairs differ in the same way."


def _costs(board: Leaderboard) -> Iterator[str]:
    """Yield what the leader costs, and which models that cannot be separated from it cost least and answer fastest."""
    if board.tier == "sample":
        return
    first = board.rows[0]
    found = alternatives(board)
    fast = _faster(first, found)
    cost, least = "cost", "cost least"
    if first.published:
        cost, least = "has a cost ceiling of", "has the lowest ceiling"
    if not first.cost_usd:
        if fast:
            yield f"Of the models that may be as good as {first.model}, {fast}."
        return
    yield f"{first.model} {cost} {first.cost_usd:,.2f} US dollars."
    if found.cheapest is not None:
        others = "models" if found.is_complete else "models with a comparable cost"
        text = f"Of the {others} that may be as good, {found.cheapest.model} {least} "
        text += f"({found.cheapest.cost_usd or 0.0:,.2f})"
        is_both = found.fastest is not None and found.fastest.model == found.cheapest.model
        text += f" and {fast.removeprefix(f'{found.cheapest.model} ') if is_both else fast}" if fast else ""
        yield f"{text}."
    elif found.is_complete and found.n_models > 1:
        no_faster = " or answered faster" if found.is_leader_fastest else ""
        less = "has a lower one" if first.published else "cost less"
        yield f"None of the models that may be as good {less}{no_faster}."
        if fast:
            yield f"Of them, {fast}."
    elif fast:
        yield f"Of the models that may be as good, {fast}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """Models that cannot be separated from the leader, by cost and speed."""

    cheapest: Row | None
    """The one that costs least, if it costs less than the leader."""
    fastest: Row | None
    """The one that answers fastest, if it takes a tenth and half a second less than the leader."""
    is_complete: bool
    """True if the costs of all of them can be compared."""
    is_leader_fastest: bool
    """True if the times of all of them are known, and none is shorter than the leader's."""
    n_models: int
    """Number of these models, the leader included."""


def alternatives(board: Leaderboard) -> Alternatives:
    """Return which models that cannot be separated from the leader cost less, or answer faster.

    Published costs are ceilings, so they are not compared with those of own runs; costs and times of models on other
    benchmarks are not compared either.
    """
    first = board.rows[0]
    group = [*leaders(board), *inseparable(board)] if board.pairs is not None else leaders(board)
    alike = [row for row in group if (row.n_benchmarks, row.published) == (first.n_benchmarks, first.published)]
    priced = [row for row in alike if row.cost_usd is not None]
    timed = [row for row in alike if row.use is not None and row.use.seconds is not None]
    cheapest = min(priced, key=lambda row: (row.cost_usd or 0.0, row.rank or 0), default=first)
    fastest = min(timed, key=lambda row: (_seconds(row), row.rank or 0), default=first)
    is_cheaper = bool(cheapest.cost_usd) and first.cost_usd is not None and (cheapest.cost_usd or 0.0) < first.cost_usd
    own, best = _seconds(first), _seconds(fastest)
    is_faster = own < inf and best <= FASTER * own and own - best >= NOTICED
    return Alternatives(
        cheapest=cheapest if is_cheaper else None,
        fastest=fastest if is_faster else None,
        is_complete=len(priced) == len(group),
        is_leader_fastest=len(timed) == len(group) and best >= own,
        n_models=len(group),
    )


def _seconds(row: Row) -> float:
    """Return the median seconds of a completion; infinite if unknown."""
    return row.use.seconds if row.use is not None and row.use.seconds is not None else inf


def _faster(first: Row, found: Alternatives) -> str:
    """Return which model answers fastest, with both times; empty if it is the leader, or hardly faster."""
    if found.fastest is None:
        return ""
    known = [_seconds(row) for row in (found.fastest, first)]
    times = [f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}" for seconds in known]
    return f"{found.fastest.model} answered fastest ({times[0]} s, median; {first.model} {times[1]} s)"


def _model_names(rows: Sequence[Row]) -> str:
    """Join the names of models, cut after `NAMES`."""
    return listed([row.model for row in rows], NAMES)
