"""Ranking of the models by the full jury, without each judge, and by each judge alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from medhelm.analysis.agreement.reliability import RaterAgreement
from medhelm.analysis.jury.cells import panel_scores
from medhelm.analysis.leaderboard.cells import DECIMALS, competition_ranks
from medhelm.analysis.means import Floats, row_means

ALL_JUDGES = "all judges"
"""Name of the panel that holds every judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSwap:
    """Two models that a smaller panel ranks in another order."""

    better: str
    """The one the full jury puts first."""
    worse: str
    """The other."""
    is_significant: bool
    """True if the full jury's difference between them is significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePanelRanking:
    """The models as some of the judges rank them."""

    name: str
    """Name of the panel: `all judges`, `without NAME` or `NAME alone`."""
    judges: tuple[str, ...]
    """Their names."""
    models: tuple[str, ...]
    """Models with a value, best first."""
    values: tuple[float, ...]
    """Value of each: the mean score; over several benchmarks, the macro average on a scale of 0 to 1."""
    ranks: tuple[int, ...]
    """Place of each, from 1; equal values share a place."""
    tau: float | None
    """Kendall's tau-b with the ranking by all judges; None where one of both puts all models on one place."""
    swaps: tuple[RankSwap, ...]
    """Pairs in another order than with all judges."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """Rankings of the models by all judges and by smaller panels."""

    panels: tuple[JudgePanelRanking, ...]
    """All judges first, then without each of them, then each alone."""
    n_pairs: int
    """Pairs of models that can be compared."""
    n_significant: int
    """Pairs that all judges separate significantly, by the test of the leaderboard."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JuryWithoutNamed:
    """A jury without the judges whose scores say nothing, or the opposite."""

    judges: tuple[str, ...]
    """The judges that are left out."""
    one_judge_of_all: RaterAgreement
    """Agreement of one judge with another among all judges, ICC(3,1), over all benchmarks together."""
    one_judge: RaterAgreement
    """The same among those that are kept."""
    ranking: Ranking | None
    """Ranking by those that are kept, its first panel; None if there is nothing to rank, or no judge for it."""
    reordered: tuple[tuple[str, str], ...]
    """Pairs of models in another order than with all judges: the one that now ranks higher, and the other."""

    @property
    def all_are_by_chance(self) -> bool:
        """True if all judges together are not shown to agree better than chance."""
        return self.one_judge_of_all.low is not None and self.one_judge_of_all.low <= 0


def reordered_pairs(before: Ranking | None, after: Ranking | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of models that two rankings put in opposite orders, the one that now ranks higher first."""
    if before is None or after is None:
        return ()
    old, new = (dict(zip(of.panels[0].models, of.panels[0].ranks, strict=True)) for of in (before, after))
    shared = [model for model in new if model in old]
    return tuple(
        (first, second)
        for first, second in combinations(shared, 2)
        if new[first] < new[second] and old[first] > old[second]
    )


def judge_panels(judges: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return panel -> places of its judges: all, without each of three or more, and each alone of two or more."""
    every = tuple(range(len(judges)))
    found = {ALL_JUDGES: every}
    if len(judges) > 2:
        found |= {f"without {name}": every[:i] + every[i + 1 :] for i, name in enumerate(judges)}
    if len(judges) > 1:
        found |= {f"{name} alone": (i,) for i, name in enumerate(judges)}
    return found


def panel_means(scores: Floats, default_scores: Floats, judges: Sequence[str], at_least: int) -> dict[str, Floats]:
    """Return panel -> mean score of each model, shape (M,); nan for a model without any score. See `panel_scores`."""
    return {
        name: row_means(panel_scores(scores, default_scores, panel, at_least))
        for name, panel in judge_panels(judges).items()
    }


def rank_by_panel(
    values: Mapping[str, Floats], judges: Sequence[str], models: Sequence[str], separated: np.ndarray
) -> Ranking | None:
    """Rank the models by each panel.

    Parameters: values, panel -> value of each model, nan if missing; separated, shape (M, M), whether the full
    jury separates two models. Returns: None if fewer than two models have a value.
    """
    full = values[ALL_JUDGES]
    pairs = [(i, j) for i, j in combinations(range(len(models)), 2) if not np.isnan(full[[i, j]]).any()]
    if not pairs:
        return None
    places = judge_panels(judges)
    return Ranking(
        panels=tuple(
            _rank_by_one_panel(name, [judges[i] for i in places[name]], models, own, full, separated)
            for name, own in values.items()
        ),
        n_pairs=len(pairs),
        n_significant=sum(bool(separated[pair]) for pair in pairs),
    )


def _rank_by_one_panel(
    name: str, judges: Sequence[str], models: Sequence[str], own: Floats, full: Floats, separated: np.ndarray
) -> JudgePanelRanking:
    """Rank the models by one panel, and compare with the full one."""
    own, full = np.round(own, DECIMALS), np.round(full, DECIMALS)
    order = [i for i in np.argsort(-own, kind="stable") if not math.isnan(own[i])]
    swaps = []
    for i, j in combinations(range(len(models)), 2):
        if (full[i] - full[j]) * (own[i] - own[j]) < 0:
            first, second = (i, j) if full[i] > full[j] else (j, i)
            swaps.append(RankSwap(better=models[first], worse=models[second], is_significant=bool(separated[i, j])))
    return JudgePanelRanking(
        name=name,
        judges=tuple(judges),
        models=tuple(models[i] for i in order),
        values=tuple(float(own[i]) for i in order),
        ranks=tuple(competition_ranks([float(own[i]) for i in order])),
        tau=kendall_tau(full, own),
        swaps=tuple(swaps),
    )


def kendall_tau(first: Floats, second: Floats) -> float | None:
    """Rank correlation of two lists of values, -1 to 1, with the correction for ties (tau-b, Kendall 1945).

    Pairs with a nan do not count. Returns: None if all pairs are ties in one of the lists.

    >>> kendall_tau(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    0.3333333333333333
    """
    there = ~np.isnan(first) & ~np.isnan(second)
    a, b = (np.sign(values[there][:, None] - values[there][None, :]) for values in (first, second))
    untied = math.sqrt(float((a != 0).sum()) * float((b != 0).sum()))
    return float((a * b).sum()) / untied if untied else None


def average_by_panel(values: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return panel -> mean of each model's values over several benchmarks, for the panels that all of these have.

    Parameters: values, for each benchmark panel -> value of each model, shape (M,), nan if missing.
    """
    shared = [name for name in values[0] if all(name in found for found in values)]
    return {name: row_means(np.stack([found[name] for found in values], axis=1)) for name in shared}
