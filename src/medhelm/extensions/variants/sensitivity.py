"""Sensitivity to the prompt: models that were asked the same instances by several prompts.

Everything here is about the prompts and the models at hand, not about others that might have been tried: only the
instances are a sample. They are drawn again in whole clusters, the same for all prompts and models.

The range of the means of several prompts is above zero even if the prompts are equal, because the means are uncertain.
So it comes with the range to expect then. It is a seminorm of the vector of means: its error is at most the range of
the errors, whose 95% quantile gives the interval. It covers the true range in at least 95% of samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.means import (
    DRAWS,
    NORMAL,
    Clusters,
    Floats,
    cluster_codes,
    cluster_totals,
    draw_means,
    percentile_interval,
    t_quantile,
)
from medhelm.domain import Estimate
from medhelm.domain.benchmark import group_by
from medhelm.extensions.variants.asked_runs import AskedRun, FamilySubject, RunFamily

USUAL = "the benchmark's own"
"""Name of the prompt of the definition."""

SEED = 0
"""Seed of bootstrap draws, so that a report repeats itself."""

CERTAIN = 0.95
"""Share of draws from which an order survives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSensitivity:
    """One model on one benchmark under several prompts."""

    about: FamilySubject
    """Model, with its settings other than the prompt, and benchmark."""
    means: Mapping[str, float]
    """Prompt -> mean score, over the instances that have a score under all of them."""
    range: Estimate
    """Highest mean minus lowest mean."""
    range_by_chance: float
    """Range to expect if all prompts were equal."""

    @property
    def best(self) -> str:
        """Prompt with the highest mean."""
        return max(self.means, key=lambda prompt: self.means[prompt])


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSensitivity:
    """The ranks of models on one benchmark under several prompts."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    models: tuple[str, ...]
    """Models that were asked by all of the prompts."""
    prompts: tuple[str, ...]
    """The prompts."""
    kendalls_w: Estimate
    """Kendall's coefficient of concordance of the ranks: 1 if all prompts give the same ranks."""
    n_pairs: int
    """Pairs of models."""
    n_same_order: int
    """Pairs that have the same order under every prompt in at least 95% of draws of the instances."""


# --- stored runs ------------------------------------------------------------------------------------------------------

_Key = tuple[str, str, str]
"""Benchmark, model with its other settings, and metric with its judges."""


def _by_prompt(families: Sequence[RunFamily]) -> dict[_Key, dict[str, RunFamily]]:
    """Return the families of each model by prompt, those with one prompt left out."""
    groups: dict[_Key, dict[str, RunFamily]] = {}
    for one in families:
        run = one.plain.run
        settings = run.setting.split(", ") if run.setting else []
        prompt = next((part.partition("=")[2] for part in settings if part.startswith("prompt=")), USUAL)
        others = ", ".join(part for part in settings if not part.startswith("prompt="))
        model = run.model_name + one.about.model.removeprefix(run.model)  # with the label of its store
        scored = " ".join([run.main_metric, *sorted(judge.name for judge in run.judges)])
        groups.setdefault((run.benchmark, f"{model} [{others}]" if others else model, scored), {})[prompt] = one
    return {found: own for found, own in groups.items() if len(own) > 1}


def prompt_results(families: Sequence[RunFamily]) -> list[PromptSensitivity]:
    """Return the spread of each model that was asked by several prompts."""
    found = []
    for (_, model, _), own in _by_prompt(families).items():
        first, rows = _table(own.values())
        if not _has_shared_scores(rows):
            continue
        means, spread, by_chance = spread_of_means(rows, np.random.default_rng(SEED), first.clusters(first.ids))
        found.append(
            PromptSensitivity(
                about=replace(next(iter(own.values())).about, model=model),
                means=dict(zip(own, means, strict=True)),
                range=spread,
                range_by_chance=by_chance,
            )
        )
    return found


def rank_results(families: Sequence[RunFamily]) -> list[RankSensitivity]:
    """Return whether ranks survive, for each benchmark with several models that were asked by the same prompts."""
    found = []
    by_benchmark = group_by(_by_prompt(families).items(), lambda pair: (pair[0][0], pair[0][2]))
    for own in by_benchmark.values():
        prompts = sorted(set.intersection(*(set(by_prompt) for _, by_prompt in own)))
        if len(own) < 2 or len(prompts) < 2:
            continue
        first, rows = _table([by_prompt[prompt] for _, by_prompt in own for prompt in prompts])
        if not _has_shared_scores(rows):
            continue
        table = rows.reshape(len(own), len(prompts), -1)
        agreement, same_order = rank_stability(table, np.random.default_rng(SEED), first.clusters(first.ids))
        found.append(
            RankSensitivity(
                benchmark=first.run.benchmark,
                title=first.run.title,
                models=tuple(model for (_, model, _), _ in own),
                prompts=tuple(prompts),
                kendalls_w=agreement,
                n_pairs=len(same_order),
                n_same_order=sum(share >= CERTAIN for share in same_order),
            )
        )
    return found


def _has_shared_scores(rows: Floats) -> bool:
    """Return whether at least two instances have a score in every run."""
    return int((~np.isnan(rows)).all(axis=0).sum()) >= 2


def _table(families: Iterable[RunFamily]) -> tuple[AskedRun, Floats]:
    """Return the first run, and the scores of all runs on its instances, shape (runs, instances)."""
    runs = [one.plain for one in families]
    return runs[0], np.stack([one.scores(runs[0].ids) for one in runs])


# --- statistics -------------------------------------------------------------------------------------------------------


def spread_of_means(
    scores: Floats, rng: np.random.Generator, clusters: Clusters = None, draws: int = DRAWS
) -> tuple[list[float], Estimate, float]:
    """Return the mean under each prompt, their range, and the range to expect if all prompts were equal.

    Where no instance has different scores, some that were not drawn may have: the interval allows for the largest share
    of them that is compatible with none in the sample.

    Parameters: scores, shape (prompts, instances), from 0 to 1, nan if missing, at least two prompts; clusters, as for
    `estimate`.
    Raises: ValueError for one prompt, or without an instance that all prompts have.
    """
    scores, codes, k, n_left_out = _complete(scores, clusters)
    if len(scores) < 2:
        raise ValueError("the spread over prompts needs at least two")
    means = scores.mean(axis=1)
    value, most, by_chance = float(np.ptp(means)), math.inf, math.nan
    drawn = _drawn_means(scores, codes, k, rng, draws)
    if drawn is not None:
        sizes = np.ptp(drawn - means, axis=1)
        by_chance = float(sizes.mean())
        most = float(np.quantile(sizes, 2 * NORMAL.cdf(t_quantile(0.975, k - 1)) - 1))
        most = max(most, 1 - 0.05 ** (1 / k))
    ends = max(0.0, value - most), value + most
    return means.tolist(), _estimate(value, ends, scores, n_left_out, "range, bootstrap"), by_chance


def rank_stability(
    scores: Floats, rng: np.random.Generator, clusters: Clusters = None, draws: int = DRAWS
) -> tuple[Estimate, list[float]]:
    """Measure whether the order of models survives a change of the prompt.

    Parameters: scores, shape (models, prompts, instances), nan if missing, at least two models and two prompts; higher
    is better. Returns: Kendall's coefficient of concordance, which is 1 if all prompts give the same ranks, and near 0
    if the ranks are unrelated; and for each pair of models, the share of draws of the instances in which the same one
    is better under every prompt. Raises: ValueError for fewer, or without an instance that has all scores.
    """
    m, p, _ = scores.shape
    if min(m, p) < 2:
        raise ValueError("the stability of ranks needs at least two models and two prompts")
    rows, codes, k, n_left_out = _complete(scores.reshape(m * p, -1), clusters)
    means = rows.mean(axis=1).reshape(1, m, p)
    drawn = _drawn_means(rows, codes, k, rng, draws)
    tables = means if drawn is None else drawn.reshape(-1, m, p)
    w = float(concordance(means)[0])
    ends = (0.0, 1.0) if drawn is None else percentile_interval(concordance(tables), k)
    differences = (np.round(tables[:, a] - tables[:, b], 12) for a, b in combinations(range(m), 2))
    same_order = [float(((own > 0).all(axis=1) | (own < 0).all(axis=1)).mean()) for own in differences]
    return _estimate(w, ends, rows, n_left_out, "Kendall's W, bootstrap"), same_order


def concordance(tables: Floats) -> Floats:
    """Return Kendall's W, corrected for ties, of the ranks of models under prompts; nan if all are tied.

    Parameters: tables, shape (draws, models, prompts).

    >>> float(concordance(np.array([[[0.9, 0.8], [0.5, 0.6], [0.1, 0.2]]]))[0])
    1.0
    """
    _, m, p = tables.shape
    rounded = np.round(tables, 12)  # equal means that were added in another order stay tied
    ones, others = rounded[:, :, None, :], rounded[:, None, :, :]
    equal = (ones == others).sum(axis=2).astype(float)  # the size of the tie that each model is in
    sums = ((ones > others).sum(axis=2) + (equal + 1) / 2).sum(axis=2)
    s = ((sums - p * (m + 1) / 2) ** 2).sum(axis=1)
    ties = (equal**2 - 1).sum(axis=(1, 2))  # a tie of t models adds t * (t^2 - 1)
    most = p**2 * (m**3 - m) - p * ties
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(most > 0, 12 * s / most, np.nan)
    return found


def _complete(rows: Floats, clusters: Clusters) -> tuple[Floats, NDArray[np.intp], int, int]:
    """Return the instances that all rows have, the numbers of their clusters, and how many are left out.

    Raises: ValueError if there are none.
    """
    rows = np.asarray(rows, dtype=float)
    known = ~np.isnan(rows).any(axis=0)
    if not known.any():
        raise ValueError("no instance has a score under every prompt")
    names = None if clusters is None else np.asarray(clusters)[known]
    codes, k = cluster_codes(names, int(known.sum()))
    return rows[:, known], codes, k, int((~known).sum())


def _drawn_means(rows: Floats, codes: NDArray[np.intp], k: int, rng: np.random.Generator, draws: int) -> Floats | None:
    """Return means of other samples of clusters, shape (draws, rows); None for a single cluster."""
    return draw_means(*cluster_totals(rows, codes, k), rng, draws) if k >= 2 else None


def _estimate(value: float, ends: tuple[float, float], rows: Floats, n_left_out: int, method: str) -> Estimate:
    """Return an estimate whose interval holds the value."""
    low, high = min(ends[0], value), max(ends[1], value)
    return Estimate(value=value, low=low, high=high, n=rows.shape[1], n_failed=n_left_out, method=method)
