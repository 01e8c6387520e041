"""Scores of several models on one benchmark, brought together by instance id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.board import Cell, Column
from medhelm.analysis.resampling import Floats, cluster_codes
from medhelm.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class AlignedScores:
    """Scores of all models on one benchmark, instance by instance, normalised so that 1 is best."""

    scores: Floats
    """Shape (n_models, n), nan where a model has no score."""
    codes: NDArray[np.intp]
    """Shape (n,): number of each instance's cluster, 0 to k - 1."""
    k: int
    """Number of clusters."""
    same_instances: bool
    """Whether all models that were run at all were asked the same instances."""


def align(cells: Mapping[str, Cell], column: Column, models: Sequence[str]) -> AlignedScores:
    """Put the scores of every model beside each other, instances in the order of their ids.

    Parameters: cells, model -> its cell on the benchmark; models, the rows to make: nan for those without scores.
    Raises: UserError if ids, scores and clusters of a cell differ in number, or an id comes twice.
    """
    with_scores = [cell for cell in cells.values() if cell.scores is not None]
    for cell in with_scores:
        _check(cell)
    ids = sorted(set().union(*(cell.ids for cell in with_scores)))
    place = {name: position for position, name in enumerate(ids)}
    scores = np.full((len(models), len(ids)), np.nan)
    names = np.full(len(ids), "", dtype=object)
    for row, model in enumerate(models):
        own = cells.get(model)
        if own is None or own.scores is None:
            continue
        positions = np.fromiter((place[name] for name in own.ids), dtype=np.intp, count=len(own.ids))
        scores[row, positions] = column.normalise(own.scores)
        if own.clusters is not None:
            names[positions] = own.clusters
    codes, k = cluster_codes(names.astype(np.str_), len(ids))
    same = all(len(cell.ids) == len(ids) for cell in with_scores)
    return AlignedScores(scores, codes, k, same)


def _check(cell: Cell) -> None:
    """Refuse a cell whose parts do not fit together."""
    scores = () if cell.scores is None else cell.scores
    clusters = scores if cell.clusters is None else cell.clusters
    place = f"{cell.model} on {cell.benchmark}"
    if not len(cell.ids) == len(scores) == len(clusters):
        raise UserError(
            f"{place}: {len(cell.ids)} ids, {len(scores)} scores and {len(clusters)} clusters do not match."
        )
    if len(set(cell.ids)) < len(cell.ids):
        raise UserError(f"{place}: an instance id comes twice. Give every instance of a benchmark its own id.")
