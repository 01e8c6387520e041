"""Sensitivity to the prompt: models that were asked the same instances by several prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.means import Floats
from medhelm.domain import Estimate
from medhelm.domain.benchmark import group_by
from medhelm.extensions.variants.asked_runs import AskedRun, RunFamily

USUAL = "the benchmark's own"
"""Name of the prompt of the definition."""

SEED = 0
"""Seed of bootstrap draws, so that a report repeats itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSensitivity:
    """One model on one benchmark under several prompts."""

    model: str
    """Name of the model."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark for people."""
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


CERTAIN = 0.95
"""Share of draws from which an order survives."""

_Key = tuple[str, str, str, str]
"""Benchmark, model with the label of its store, other settings, and metric with its judges."""


def _by_prompt(families: Sequence[RunFamily]) -> dict[_Key, dict[str, RunFamily]]:
    """Return the families of each model by prompt, those with one prompt left out."""

    def key(one: RunFamily) -> _Key:
        judges = sorted(judge.name for judge in one.plain.judges)
        return one.plain.benchmark, _name(one), _parts(one)[1], " ".join([one.plain.main_metric, *judges])

    groups = {found: {_parts(one)[0]: one for one in own} for found, own in group_by(families, key).items()}
    return {found: own for found, own in groups.items() if len(own) > 1}


def _parts(one: RunFamily) -> tuple[str, str]:
    """Return the prompt of a run, and its other settings in words."""
    parts = one.plain.setting.split(", ") if one.plain.setting else []
    prompt = next((part.partition("=")[2] for part in parts if part.startswith("prompt=")), USUAL)
    return prompt, ", ".join(part for part in parts if not part.startswith("prompt="))


def _name(one: RunFamily) -> str:
    """Return the name of the model without its setting, with the label of its store."""
    return one.plain.model_name + one.model.removeprefix(one.plain.model)


def prompt_results(families: Sequence[RunFamily]) -> list[PromptSensitivity]:
    """Return the spread of each model that was asked by several prompts."""
    found = []
    for (benchmark, model, rest, _), own in _by_prompt(families).items():
        from medhelm.extensions.variants.sensitivity import spread  # lazy: most stores have one prompt

        first, rows = _table(own.values())
        if not _has_shared_scores(rows):
            continue
        measured = spread(rows, np.random.default_rng(SEED), clusters=first.clusters(first.ids))
        found.append(
            PromptSensitivity(
                model=f"{model} [{rest}]" if rest else model,
                benchmark=benchmark,
                title=first.run.title,
                means=dict(zip(own, measured.means, strict=True)),
                range=measured.range,
                range_by_chance=measured.range_by_chance,
            )
        )
    return found


def rank_results(families: Sequence[RunFamily]) -> list[RankSensitivity]:
    """Return whether ranks survive, for each benchmark with several models that were asked by the same prompts."""
    found = []
    by_benchmark = group_by(_by_prompt(families).items(), lambda pair: (pair[0][0], pair[0][3]))
    for (benchmark, _), own in by_benchmark.items():
        prompts = sorted(set.intersection(*(set(by_prompt) for _, by_prompt in own)))
        if len(own) < 2 or len(prompts) < 2:
            continue
        from medhelm.extensions.variants.sensitivity import rank_stability

        first, rows = _table([by_prompt[prompt] for _, by_prompt in own for prompt in prompts])
        if not _has_shared_scores(rows):
            continue
        table = rows.reshape(len(own), len(prompts), -1)
        stability = rank_stability(table, np.random.default_rng(SEED), clusters=first.clusters(first.ids))
        found.append(
            RankSensitivity(
                benchmark=benchmark,
                title=first.run.title,
                models=tuple(f"{model} [{rest}]" if rest else model for (_, model, rest, _), _ in own),
                prompts=tuple(prompts),
                kendalls_w=stability.kendalls_w,
                n_pairs=len(stability.pairs),
                n_same_order=sum(one.same_order >= CERTAIN for one in stability.pairs),
            )
        )
    return found


def _has_shared_scores(rows: Floats) -> bool:
    """Return whether at least two instances have a score in every run."""
    return int((~np.isnan(rows)).all(axis=0).sum()) >= 2


def _table(families: Iterable[RunFamily]) -> tuple[AskedRun, Floats]:
    """Return the first run, and the scores of all runs on its instances, shape (runs, instances)."""
    runs = [AskedRun(one.plain) for one in families]
    return runs[0], np.stack([one.scores(runs[0].ids) for one in runs])
