"""Scores of several models on one benchmark, aligned by instance id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.win_rates import ratio_win_shares, win_shares
from medhelm.analysis.statistics.cluster_bootstrap import Floats, cluster_codes
from medhelm.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class AlignedScores:
    """Scores of all models on one benchmark, instance by instance, normalized so that 1 is best."""

    scores: Floats
    """Shape (n_models, n), nan where a model has no score."""
    codes: NDArray[np.intp]
    """Shape (n,): number of each instance's cluster, 0 to k - 1."""
    k: int
    """Number of clusters."""
    same_instances: bool
    """True if all models that were run at all were asked the same instances."""
    ratio_values: Floats | None = None
    """Values to compare models with, as `scores`, on a benchmark whose number is a ratio; see `Cell.tested`."""
    ratio_limits: Floats | None = None
    """Shape (2, n_models): limits of the 95% interval of each such number, normalized; nan where they are not known."""
    _cached_shares: list[Floats] = field(default_factory=list, repr=False)
    """Win shares among all models, once they were computed."""

    @property
    def tested(self) -> Floats:
        """Values whose differences are tested, as `scores`."""
        return self.scores if self.ratio_values is None else self.ratio_values

    def win_shares(self, panel: NDArray[np.bool_] | None = None) -> Floats:
        """Return the share of rivals that each model beats, instance by instance; see `win_rates.win_shares`."""
        if panel is None and self._cached_shares:
            return self._cached_shares[0]
        if self.ratio_values is None:
            found = win_shares(self.scores, panel)
        else:
            found = ratio_win_shares(self.ratio_values, panel)
        if panel is None:
            self._cached_shares.append(found)
        return found

    def reordered(self, order: Sequence[int]) -> AlignedScores:
        """Return a copy with the models in another order, or some of them."""
        rows = list(order)
        if rows == list(range(len(self.scores))):
            return self
        return replace(
            self,
            scores=self.scores[rows],
            ratio_values=None if self.ratio_values is None else self.ratio_values[rows],
            ratio_limits=None if self.ratio_limits is None else self.ratio_limits[:, rows],
            _cached_shares=[],
        )


def _ratio_limits(cells: Mapping[str, Cell], column: Column, models: Sequence[str]) -> Floats:
    """Return the normalized limits of numbers that are ratios: shape (2, n_models), nan where they are not known."""
    limits = np.full((2, len(models)), np.nan)
    for row, model in enumerate(models):
        own = cells.get(model)
        if own is not None and own.tested is not None and own.estimate is not None:
            limits[:, row] = sorted(column.normalize(end) for end in (own.estimate.low, own.estimate.high))
    return limits


def align(cells: Mapping[str, Cell], column: Column, models: Sequence[str]) -> AlignedScores:
    """Align the scores of all models, instances in the order of their ids.

    Parameters: cells, model -> its cell on the benchmark; models, the rows to make: nan for those without scores.
    Raises: UserError if ids, scores and clusters of a cell differ in number, an id comes twice, or a score is infinite.
    """
    with_scores = [cell for cell in cells.values() if cell.scores is not None]
    placed = _InstancePositions(with_scores)
    scores = np.full((len(models), placed.n), np.nan)
    ratio_values = scores.copy() if any(cell.tested is not None for cell in with_scores) else None
    names: NDArray[np.object_] | None = None
    last = (0, 0)
    for row, model in enumerate(models):
        own = cells.get(model)
        if own is None or own.scores is None:
            continue
        positions = placed.of(own.ids)
        scores[row, positions] = column.normalize(own.scores)
        if ratio_values is not None:
            ratio_values[row, positions] = column.normalize(own.scores if own.tested is None else own.tested)
        if own.clusters is None or last == (id(own.ids), id(own.clusters)):
            continue  # cells that were read together share their lists
        if names is None:
            names = np.full(placed.n, "", dtype=object)
        names[positions], last = own.clusters, (id(own.ids), id(own.clusters))
    codes, k = cluster_codes(None if names is None else names.astype(np.str_), placed.n)
    limits = None if ratio_values is None else _ratio_limits(cells, column, models)
    return AlignedScores(scores, codes, k, placed.same, ratio_values, limits)


class _InstancePositions:
    """Positions of the instances of each cell in the sorted list of all ids."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        """Looks at every list of ids once: cells that were read together share theirs."""
        lists: dict[int, Sequence[str]] = {}
        for cell in cells:
            _check_scores(cell)
            if id(cell.ids) not in lists:
                _check_ids(cell)
                lists[id(cell.ids)] = cell.ids
        ids = sorted(set().union(*lists.values()))
        self._place = {name: position for position, name in enumerate(ids)}
        self._positions_of: dict[int, NDArray[np.intp]] = {}
        self.n = len(ids)
        self.same = all(len(one) == self.n for one in lists.values())

    def of(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """Return the positions, in the order of `ids`."""
        if id(ids) not in self._positions_of:
            found = map(self._place.__getitem__, ids)
            self._positions_of[id(ids)] = np.fromiter(found, dtype=np.intp, count=len(ids))
        return self._positions_of[id(ids)]


def _check_scores(cell: Cell) -> None:
    """Raise UserError for a cell whose ids, scores and clusters differ in number, and for infinite scores."""
    scores = () if cell.scores is None else cell.scores
    clusters = scores if cell.clusters is None else cell.clusters
    if not len(cell.ids) == len(scores) == len(clusters):
        raise UserError(
            f"{cell.model} on {cell.benchmark}: {len(cell.ids)} ids, {len(scores)} scores and {len(clusters)} clusters "
            "do not match."
        )
    if np.isinf(scores).any():
        name = cell.ids[int(np.flatnonzero(np.isinf(scores))[0])]
        raise UserError(
            f"{cell.model} on {cell.benchmark}: the score of instance {name} is infinite, so it has no mean."
        )


def _check_ids(cell: Cell) -> None:
    """Raise UserError for a cell in which two instances have the same id."""
    if len(set(cell.ids)) < len(cell.ids):
        place = f"{cell.model} on {cell.benchmark}"
        raise UserError(f"{place}: an instance id comes twice. Give every instance of a benchmark its own id.")
