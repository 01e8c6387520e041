"""Agreement of each judge with the other judges, and the judges whose grades say nothing, or the opposite.

A judge's number is the correlation of its scores with the mean score of the others on the same completions, with a
jackknife interval over instances (`agreement.reliability`). Judges are named step by step, the lowest number first,
because one judge who guesses, or grades the wrong way round, lowers the numbers of all:

    constant     it gave every completion the same score, while others did not
    guesses      the interval holds 0, and the number is less than half of the agreement among the others
    against      the interval lies below 0

The others are those who are not named. If they are not shown to agree with each other, it is
unknown who is wrong, and only constant judges are named. The same holds for two judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from medhelm.analysis.agreement.reliability import (
    LEAST_UNITS,
    RaterAgreement,
    correlation_with_raters,
    one_rater_agreement,
)
from medhelm.analysis.jury.cells import Codes
from medhelm.analysis.statistics.cluster_bootstrap import Floats


class JudgeFinding(StrEnum):
    """Conclusion about a judge, from the other judges."""

    AGREES = "agrees"
    """It agrees with the others better than chance."""
    UNKNOWN = "unknown"
    """It is not shown to agree, and nothing is shown against it."""
    GUESSES = "guesses"
    """It does not agree with the others, who agree with each other."""
    CONSTANT = "constant"
    """It gave every completion the same score."""
    AGAINST = "against"
    """It grades low what the others grade high."""

    @property
    def is_named(self) -> bool:
        """Return True if the verdict names the judge."""
        return self not in (JudgeFinding.AGREES, JudgeFinding.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReliability:
    """One judge beside the others."""

    judge: str
    """Name of the judge."""
    agreement: RaterAgreement
    """Correlation with the mean of the other judges who are not named."""
    finding: JudgeFinding
    """Conclusion from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryReliability:
    """All judges of a jury beside each other."""

    judges: tuple[JudgeReliability, ...]
    """Each judge with scores."""
    one_judge: RaterAgreement
    """Agreement of one judge with another, severity set aside, ICC(3,1)."""
    without_named: RaterAgreement | None
    """The same without the judges that are named; None if none are."""

    @property
    def named(self) -> tuple[JudgeReliability, ...]:
        """Judges whose scores say nothing, or the opposite."""
        return tuple(judge for judge in self.judges if judge.finding.is_named)

    def renamed(self, names: Mapping[str, str]) -> JuryReliability:
        """Return the same with other names of judges."""
        return replace(self, judges=tuple(replace(one, judge=names.get(one.judge, one.judge)) for one in self.judges))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgeScores:
    """Scores of J judges for N completions on B benchmarks, each benchmark on a scale of length 1."""

    judges: tuple[str, ...]
    """Names of the judges."""
    values: Floats
    """Shape (J, N), nan if missing."""
    benchmark: Codes
    """Shape (N,): number of the benchmark of each completion."""
    units: Codes
    """Shape (N,): number of the independent unit of each completion, over all benchmarks."""

    @classmethod
    def stack(cls, tables: Sequence[tuple[Sequence[str], Floats, Codes]]) -> JudgeScores:
        """Combine benchmarks.

        Parameters: tables, of each benchmark the names of its judges; their scores on a scale of length 1, shape
        (J, N), nan if missing; and the number of the independent unit of each completion, shape (N,).
        """
        names = tuple(dict.fromkeys(name for judges, _, _ in tables for name in judges))
        parts, units, start = [], [], 0
        for judges, scores, codes in tables:
            part = np.full((len(names), scores.shape[1]), np.nan)
            part[[names.index(name) for name in judges]] = scores
            parts.append(part)
            units.append(codes + start)
            start += int(codes.max(initial=-1)) + 1
        sizes = [part.shape[1] for part in parts]
        return cls(
            judges=names,
            values=np.concatenate(parts, axis=1) if parts else np.empty((0, 0)),
            benchmark=np.repeat(np.arange(len(parts)), sizes),
            units=np.concatenate(units) if units else np.empty(0, dtype=np.intp),
        )

    def centered(self) -> Floats:
        """Return the values less each judge's mean on each benchmark."""
        found = self.values.copy()
        for place in np.unique(self.benchmark):
            own = found[:, self.benchmark == place]
            there = ~np.isnan(own)
            count = np.maximum(there.sum(axis=1, keepdims=True), 1)
            own -= np.where(there, own, 0.0).sum(axis=1, keepdims=True) / count
            found[:, self.benchmark == place] = own
        return found


FLAT = 1e-9
"""Spread of scores, on a scale of length 1, below which they are equal."""


def jury_reliability(scores: JudgeScores) -> JuryReliability:
    """Compare each judge with the others, and find those whose grades say nothing or the opposite."""
    panel = _Panel(scores)
    named, core = panel.find_named()
    findings = []
    for place, judge in enumerate(scores.judges):
        agreement = panel.with_others(place, core)
        if place in panel.constant:
            finding = JudgeFinding.CONSTANT
        elif agreement.low is None or agreement.high is None:
            finding = JudgeFinding.UNKNOWN
        elif place in named and agreement.low <= 0:
            finding = JudgeFinding.AGAINST if agreement.high < 0 else JudgeFinding.GUESSES
        else:
            finding = JudgeFinding.AGREES if agreement.low > 0 else JudgeFinding.UNKNOWN
        findings.append(JudgeReliability(judge=judge, agreement=agreement, finding=finding))
    kept = [place for place, one in enumerate(findings) if not one.finding.is_named]
    return JuryReliability(
        judges=tuple(findings),
        one_judge=panel.one_judge(range(len(findings))),
        without_named=panel.one_judge(kept) if len(kept) < len(findings) else None,
    )


class _Panel:
    """Judges whose scores are compared."""

    def __init__(self, scores: JudgeScores) -> None:
        self._scores = scores
        self._centered = scores.centered()
        there = ~np.isnan(self._centered)
        spread = np.array(
            [np.abs(own[given]).max(initial=0.0) for own, given in zip(self._centered, there, strict=True)]
        )
        varying = spread > FLAT
        units = np.array([len(np.unique(scores.units[given])) for given in there], dtype=np.intp)
        self.constant = {int(i) for i in np.flatnonzero(~varying & (units >= LEAST_UNITS))} if varying.any() else set()
        """Places of the judges who gave every completion the same score, while others did not."""
        self._varying = [int(i) for i in np.flatnonzero(varying)]

    def find_named(self) -> tuple[list[int], list[int]]:
        """Return the places of judges who do not agree with the rest, and of the rest."""
        rest, named = list(self._varying), list[int]()
        while len(rest) > 2:
            found = {judge: self.with_others(judge, rest) for judge in rest}
            doubtful = {
                judge: one.value
                for judge, one in found.items()
                if one.value is not None
                and one.low is not None
                and one.low <= 0
                and one.value < self._mean_agreement([other for other in rest if other != judge]) / 2
            }
            if not doubtful:
                break
            worst = min(doubtful, key=lambda judge: doubtful[judge])
            rest.remove(worst)
            named.append(worst)
        if named:
            among = self.one_judge(rest)
            if among.low is None or among.low <= 0:
                return [], list(self._varying)
        return named, rest

    def one_judge(self, judges: Sequence[int]) -> RaterAgreement:
        """Estimate the agreement of one of these judges with another."""
        return one_rater_agreement(self._centered[list(judges)].T, self._scores.units)

    def with_others(self, judge: int, others: Sequence[int]) -> RaterAgreement:
        """Correlate a judge with the mean of the others, within benchmarks."""
        own = [place for place in others if place != judge]
        there = ~np.isnan(self._centered[own])
        count = there.sum(axis=0)
        total = np.where(there, self._centered[own], 0.0).sum(axis=0)
        mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
        by_benchmark = np.full((len(mean), int(self._scores.benchmark.max(initial=0)) + 1), np.nan)
        by_benchmark[np.arange(len(mean)), self._scores.benchmark] = mean
        return correlation_with_raters(by_benchmark, self._scores.values[judge], self._scores.units)

    def _mean_agreement(self, judges: Sequence[int]) -> float:
        """Return the mean over these judges of the correlation with the others of them; -1 if it is unknown."""
        values = [self.with_others(judge, judges).value for judge in judges]
        return float(np.mean([-1.0 if value is None else value for value in values]))
