"""Every two models head to head: how often one beats the other, and triples of models that beat in a circle.

The share is a mean over the instances that both models have, then a weighted mean over benchmarks; a tie counts one
half. Where instance scores are not known, it is the share of benchmarks. It depends on the two models alone. Which
pairs are separated is the verdict of the leaderboard, by the difference of their win shares.

On right-or-wrong answers the share is one half plus half the difference of the means, so that models have one order. On
grades A can beat B, B can beat C, and C can beat A, as with uneven dice. Such a triple is reported if each of the three
shares differs from one half by the sign-flip test at the 5% level, after Bonferroni's correction for all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired import Ints
from medhelm.analysis.comparison.pairs import AlignedBenchmark, Unit, compare_aligned
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.cells import DECIMALS, AlignedScores, Column, align
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import Floats
from medhelm.domain.result import Remark

NAMED = 5
"""Most triples written out as remarks."""

Triple = tuple[str, str, str]
"""Three models of which each beats the next, and the last the first."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadToHead:
    """Every two models head to head, in order of rank. Arrays of shape (n_models, n_models)."""

    models: tuple[str, ...]
    """Names."""
    unit: Unit
    """Unit of the shares."""
    win_share: Floats
    """Share on which the row's model beats the column's, 0..1; nan on the diagonal and where they share nothing."""
    n_benchmarks: Ints
    """Benchmarks that both have."""
    separated: NDArray[np.bool_]
    """True where the two models differ significantly on the leaderboard."""
    circles: tuple[Triple, ...]
    """Triples that beat each other in a circle, each significantly."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on triples that have no order."""
        shown = [
            Remark(
                "intransitive",
                a,
                f"Head to head {a} beats {b}, {b} beats {c}, and {c} beats {a}, each significantly: their order "
                "depends on the models they are compared with.",
            )
            for a, b, c in self.circles[:NAMED]
        ]
        if more := len(self.circles) - len(shown):
            shown.append(Remark("intransitive", "", f"{more} more triples of models beat each other in a circle."))
        return tuple(shown)


def head_to_head(board: Leaderboard) -> HeadToHead:
    """Compare every two models of a leaderboard, baselines left out."""
    models = [row.model for row in board.rows]
    by_instance = board.interval_method == "instances within benchmarks"
    n = len(models)
    total, weights, within = np.zeros((3, n, n))
    between = np.zeros((3, n, n))
    n_benchmarks = np.zeros((n, n), dtype=np.intp)
    for column in board.columns:
        share, counts, variance = _shares(_scores(board, column, models, by_instance))
        here = counts > 0
        total += column.weight * np.where(here, share, 0.0)
        weights += column.weight * here
        within += column.weight**2 * np.where(here, variance / np.maximum(counts, 1), 0.0)
        between += column.weight**2 * np.where(here, np.stack([np.ones((n, n)), share, share**2]), 0.0)
        n_benchmarks += here
    mean = np.where(weights > 0, total / np.where(weights > 0, weights, 1.0), np.nan)
    win_share: Floats = np.asarray(np.round(mean, DECIMALS), dtype=np.float64)
    place = {model: i for i, model in enumerate(models)}
    separated = np.zeros((n, n), dtype=np.bool_)
    for first, second in board.separated:
        separated[place[first], place[second]] = separated[place[second], place[first]] = True
    lead = np.nan_to_num(win_share - 0.5)
    variance = within if by_instance else between[2] - 2 * win_share * between[1] + win_share**2 * between[0]
    # Leads below two standard errors are not tested: after the correction they would not be significant.
    wins = (lead > 0) & (lead * weights > 2 * np.sqrt(np.maximum(np.nan_to_num(variance), 0.0)))
    return HeadToHead(
        models=tuple(models),
        unit="instances" if by_instance else "benchmarks",
        win_share=win_share,
        n_benchmarks=n_benchmarks,
        separated=separated,
        circles=tuple(_circles(board, wins, models, by_instance)),
    )


def _scores(board: Leaderboard, column: Column, models: Sequence[str], by_instance: bool) -> AlignedScores:
    """Return the scores of some models on one benchmark, or their mean as a single instance."""
    cells = {row.model: row.cells[column.benchmark] for row in board.rows if column.benchmark in row.cells}
    if by_instance:
        return align({model: cells[model] for model in models if model in cells}, column, models)
    values = [cells[model].value if model in cells else None for model in models]
    means = np.array([[np.nan if value is None else column.normalize(value)] for value in values])
    return AlignedScores(means.reshape(len(models), 1), np.zeros(1, dtype=np.intp), 1, True)


def _shares(aligned: AlignedScores) -> tuple[Floats, Ints, Floats]:
    """Return the share of instances that each model beats each other one on, their number, and the variance of one.

    Returns: three arrays of shape (n_models, n_models).
    """
    n = len(aligned.scores)
    rounded = np.round(aligned.tested, DECIMALS)
    win = np.sign if aligned.ratio_values is None else np.positive  # see `ratio_win_shares`
    share, variance = np.full((2, n, n), np.nan)
    counts = np.zeros((n, n), dtype=np.intp)
    for i in range(n - 1):
        won = (win(rounded[i] - rounded[i + 1 :]) + 1) / 2
        here = ~np.isnan(won)
        known = here.sum(axis=1)
        won[~here] = 0.0
        mean = np.divide(won.sum(axis=1), known, out=np.full(n - i - 1, np.nan), where=known > 0)
        spread = np.einsum("mn,mn->m", won, won) / np.maximum(known, 1) - np.nan_to_num(mean) ** 2
        share[i, i + 1 :], share[i + 1 :, i] = mean, 1 - mean
        counts[i, i + 1 :] = counts[i + 1 :, i] = known
        variance[i, i + 1 :] = variance[i + 1 :, i] = spread
    return share, counts, variance


def _circles(board: Leaderboard, wins: NDArray[np.bool_], models: Sequence[str], by_instance: bool) -> Iterator[Triple]:
    """Yield triples in which each model significantly beats the next. `wins`: whether a row leads a column clearly."""
    returns = wins.astype(np.intp) @ wins.astype(np.intp) > 0
    limit = LEVEL / max(len(models) * (len(models) - 1) // 2, 1)
    beats = np.zeros(wins.shape, dtype=np.bool_)
    for i, j in np.argwhere(wins & returns.T).tolist():
        beats[i, j] = _p_value(board, (models[i], models[j]), by_instance) <= limit
    for i, j in np.argwhere(beats).tolist():
        for k in np.flatnonzero(beats[j] & beats[:, i]).tolist():
            if i < min(j, k):
                yield models[i], models[j], models[k]


def _p_value(board: Leaderboard, pair: tuple[str, str], by_instance: bool) -> float:
    """Return the p-value of the share of one pair: the sign-flip test of wins, over all clusters or benchmarks."""
    compared, values = [], []
    for column in board.columns:
        found = _scores(board, column, pair, by_instance)
        lead = np.sign(np.round(found.scores[0], DECIMALS) - np.round(found.scores[1], DECIMALS))
        if np.isnan(lead).all():
            continue
        won = np.stack([(1 + lead) / 2, (1 - lead) / 2])
        aligned = AlignedScores(won, found.codes, found.k, True) if by_instance else None
        compared.append(AlignedBenchmark(column, aligned))
        values.append(np.nanmean(won, axis=1))
    tests = compare_aligned(pair, compared, np.stack(values, axis=1), kept=())
    return float(tests.macro_average.differences.p_value[0])
