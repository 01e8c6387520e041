"""The verdict of a leaderboard in a few sentences: leaders, models that cannot be separated from them, and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

from medhelm.analysis.comparison.all_pairs import AllPairs
from medhelm.analysis.comparison.paired import pair_indices
from medhelm.analysis.leaderboard.constant_answers import constant_answer_sentences
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain.text import listed

SAMPLE_ROWS = "These are invented sample rows, not a measure of real performance."
"""First sentence on results of the sample tier."""

NAMES = 5
"""Most names written out in one sentence."""

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


def leaders(board: Leaderboard) -> list[Row]:
    """Return the first rows of equal rank."""
    return list(takewhile(lambda row: row.rank == board.rows[0].rank, board.rows))


def inseparable(board: Leaderboard) -> list[Row]:
    """Return the models that share no rank with the leader and do not differ significantly from it."""
    rest = list(board.rows[len(leaders(board)) :])
    if board.pairs is None:
        return rest
    better, worse = _separated_from(board.rows[0].model, board.pairs)
    return [row for row in rest if row.model not in better | worse]


def _separated_from(model: str, pairs: AllPairs) -> tuple[set[str], set[str]]:
    """Return the models that are significantly better than one model, and those that are significantly worse."""
    first, second = pair_indices(len(pairs.models))
    place = pairs.models.index(model)
    better, worse = first[pairs.is_separated & (second == place)], second[pairs.is_separated & (first == place)]
    return {pairs.models[i] for i in better}, {pairs.models[i] for i in worse}


def _leaders(board: Leaderboard) -> Iterator[str]:
    """Yield who leads, and who cannot be separated from the leader."""
    if board.pairs is None:
        return
    first, rest = leaders(board), inseparable(board)
    n_separated = int(board.pairs.is_separated.sum())
    value = _ranking_value(board, first[0])
    against = " against the panel" if board.panel and board.ranked_by != "mean score" else ""
    plain = board.ranking_average(first[0])
    is_guarded = value is not None and plain is not None and f"{plain.value:.3f}" != f"{value:.3f}"
    by = f"guarded {board.ranked_by}" if is_guarded else board.ranked_by
    number = f"{by}{against}" + ("" if value is None else f" {value:.3f}")
    ranks = f"{'ranks' if len(first) == 1 else 'rank'} first by {by}{against}"
    above, _ = _separated_from(first[0].model, board.pairs)
    if better := [row for row in board.rows if row.model in above]:
        verb = "is" if len(better) == 1 else "are"
        yield f"{_names(first)} {ranks}, but {_names(better)} {verb} significantly better than {first[0].model}."
    elif len(first) == len(board.rows):
        yield f"{'Both' if len(first) == 2 else f'All {len(first)}'} models share the first rank ({number})."
    elif not n_separated:
        subject = f"No two of the {len(board.rows)} models" if len(board.rows) > 2 else "The two models do not"
        shown = "" if value is None else f" ({value:.3f})"
        yield f"{subject} differ significantly; {_names(first)} {ranks}{shown}."
    elif len(first) > 1:
        others = f"; {_names(rest)} cannot be separated from them" if rest else ""
        yield f"{_names(first)} share the first rank ({number}){others}."
    elif rest:
        yield f"{first[0].model} leads ({number}), but cannot be separated from {_names(rest)}."
    else:
        others = "the other model" if len(board.rows) == 2 else "every other model"
        yield f"{first[0].model} leads ({number}) and is significantly better than {others}."
    if (fragile := _lost_to_failures(board)) > 0:
        text = "1 of these findings depends" if fragile == 1 else f"{fragile:,} of these findings depend"
        text = "This finding depends" if n_separated == 1 else text
        yield f"{text} on scores that are missing because requests failed: run again to complete them."


def _lost_to_failures(board: Leaderboard) -> int:
    """Count the separated pairs that missing scores could undo."""
    if board.pairs is None:
        return 0
    return int((board.pairs.is_separated & ~board.pairs.survives_failures).sum())


def _ranking_value(board: Leaderboard, row: Row) -> float | None:
    """Return the number that ranks a model."""
    if board.ranked_by == "mean score":
        return row.macro_average.value if row.macro_average else None
    return row.guarded_win_share if board.ranked_by == "win share" else row.guarded_win_rate


def _costs(board: Leaderboard) -> Iterator[str]:
    """Yield what the leader costs, and which models that cannot be separated from it cost least and answer fastest."""
    if board.tier == "sample":
        return
    first = board.rows[0]
    found = alternatives(board)
    fast = _faster(first, found)
    cost, least, less = "cost", "cost least", "cost less"
    if first.published:
        cost, least, less = "has a cost ceiling of", "has the lowest", "has a lower one"
    if not first.cost_usd:
        if fast:
            yield f"Of the models that cannot be separated from {first.model}, {fast}."
        return
    text = f"{first.model} {cost} {first.cost_usd:,.2f} US dollars"
    if found.cheapest is not None:
        others = "models" if found.is_complete else "models with a comparable cost"
        text += f"; of the {others} that cannot be separated from it, {found.cheapest.model} {least} "
        text += f"({found.cheapest.cost_usd or 0.0:,.2f})"
        is_both = found.fastest is not None and found.fastest.model == found.cheapest.model
        text += f" and {fast.removeprefix(f'{found.cheapest.model} ') if is_both else fast}" if fast else ""
    elif found.is_complete and found.n_models > 1:
        text += f", and no model that cannot be separated from it {less}"
        text += f"; {fast}" if fast else " or answered faster" if found.is_leader_fastest else ""
    elif fast:
        text += f"; of the models that cannot be separated from it, {fast}"
    yield f"{text}."


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


def _names(rows: Sequence[Row]) -> str:
    """Join the names of models, cut after `NAMES`."""
    return listed([row.model for row in rows], NAMES)
