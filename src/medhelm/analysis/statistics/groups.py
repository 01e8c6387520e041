"""Means of a metric by group of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from medhelm.domain import RULES, Rule


def group_means(groups: Sequence[str], scores: Mapping[Rule, Sequence[float]]) -> dict[str, dict[str, float | None]]:
    """Return the mean of a metric by group, under each rule, and how many instances have a score.

    `groups`: the group of each instance. `scores`: rule -> score of each instance, nan if it is missing; a rule that
    is left out has no mean.
    """
    means: dict[str, dict[str, float | None]] = {group: {"n": 0} for group in sorted(set(groups))}
    for rule in RULES:
        by_group: dict[str, list[float]] = {group: [] for group in means}
        for group, score in zip(groups, scores.get(rule, ()), strict=False):
            if not isnan(score):
                by_group[group].append(score)
        for group, own in by_group.items():
            means[group][rule] = sum(own) / len(own) if own else None
            if rule in scores:
                means[group]["n"] = len(own)
    return means
