"""Completions with signs of a prompt injection, and how much they change the mean scores of a jury."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from medhelm.domain import JURY, InjectionEffect, Rule, Run
from medhelm.domain.grouping import group_by
from medhelm.domain.remark import Remark
from medhelm.domain.text import listed, plural
from medhelm.reports.formats.tables import decimal
from medhelm.storage.runs import read_columns, score_column

_NAMED = 5


def injection_effects(runs: Mapping[tuple[str, str], Run], rule: Rule) -> tuple[InjectionEffect, ...]:
    """Return the effect of flagged completions on each run whose main metric is the jury.

    `runs`: model and benchmark -> run. The signs are those that the run stored when it was scored: `medhelm rescore`
    searches again. Only the records of runs with signs are read.
    """
    found = []
    for (model, benchmark), run in sorted(runs.items()):
        result = run.jury_result
        if result is None or run.main_metric != JURY or not result.n_with_injection_signs:
            continue
        column = score_column(JURY, rule)
        records = read_columns(run, ["suspicions", column])
        scores = np.array([np.nan if score is None else score for score in records[column]], dtype=float)
        is_flagged = np.array([bool(signs) for signs in records["suspicions"]], dtype=bool)
        found.append(
            InjectionEffect(
                model=model,
                benchmark=benchmark,
                title=run.title,
                n=run.n,
                n_flagged=int(is_flagged.sum()),
                mean=_mean(scores),
                mean_without=_mean(scores[~is_flagged]),
            )
        )
    return tuple(found)


def injection_remarks(effects: Iterable[InjectionEffect]) -> list[Remark]:
    """Return one remark for each benchmark with flagged completions."""
    return [
        Remark(
            "prompt_injection",
            own[0].benchmark,
            f"{title}: completions with signs of a prompt injection aimed at judges: "
            f"{listed([_short_effect(one) for one in own], _NAMED)}. They count like all others.",
        )
        for title, own in group_by(effects, lambda one: one.title).items()
    ]


def effect_sentence(one: InjectionEffect) -> str:
    """Return the effect on one run as a sentence."""
    mean, without = _means_in_words(one)
    verb = "has" if one.n_flagged == 1 else "have"
    return (
        f"{plural(one.n_flagged, 'answer')} of {one.n:,} on {one.title} {verb} signs of a prompt injection "
        f"aimed at judges; the mean score is {mean} with them and {without} without them."
    )


def _short_effect(one: InjectionEffect) -> str:
    mean, without = _means_in_words(one)
    return f"{one.model} {one.n_flagged:,} of {one.n:,} (mean {mean}, without them {without})"


def _means_in_words(one: InjectionEffect) -> tuple[str, str]:
    """Return the mean score with and without flagged completions."""
    return decimal(one.mean, 2) or "unknown", decimal(one.mean_without, 2) or "unknown"


def _mean(scores: np.ndarray) -> float | None:
    """Return the mean of the scores that exist."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else None
