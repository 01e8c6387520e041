"""Marks of the reference filter: judges' opinions on references that need information outside the prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from medhelm.domain.benchmark import Tier
from medhelm.domain.completion import Failure
from medhelm.domain.run import RunStatus

ReferenceVerdict = Literal["kept", "set_aside", "unknown"]
"""Verdict on a reference: it can be derived from the prompt; it needs information outside the prompt; or the judges
reached no majority."""

REFERENCE_VERDICTS: tuple[ReferenceVerdict, ...] = get_args(ReferenceVerdict)
"""All verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOpinion:
    """Opinion of one judge on one reference. `outside_prompt` is None if and only if `failure` is set."""

    judge: str
    """Name of the judge."""
    outside_prompt: bool | None
    """True if the reference needs information outside the prompt."""
    explanation: str = ""
    """Explanation in the judge's words."""
    failure: Failure | None = None
    """Reason for the missing opinion."""


@dataclass(frozen=True, slots=True)
class ReferenceMark:
    """Opinions of all judges on one reference."""

    opinions: tuple[ReferenceOpinion, ...]
    """One per judge, in their order."""

    @property
    def verdict(self) -> ReferenceVerdict:
        """Verdict of more than half of all judges, failed ones counted in the total; else unknown.

        >>> opinions = [ReferenceOpinion(judge=name, outside_prompt=name == "a") for name in "ab"]
        >>> ReferenceMark(tuple(opinions)).verdict
        'unknown'
        """
        votes = Counter(opinion.outside_prompt for opinion in self.opinions)
        if 2 * votes[True] > len(self.opinions):
            return "set_aside"
        return "kept" if 2 * votes[False] > len(self.opinions) else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMarks:
    """The marks of all references of one benchmark on one selection of its data."""

    benchmark: str
    """Name of the benchmark."""
    benchmark_digest: str
    """Digest of its definition."""
    data_digest: str
    """Digest of the data files and of the selection of instances."""
    tier: Tier
    """Real data or sample rows."""
    selection: Mapping[str, Any]
    """Selection of instances: `sample`, `limit` and `seed`."""
    judges: tuple[str, ...]
    """Names of the judges, in order."""
    prompt_version: int
    """Version of the judges' prompt."""
    status: RunStatus
    """Complete if every judge was asked about every reference."""
    started: str
    """Start time, ISO 8601, UTC."""
    by_instance: Mapping[str, ReferenceMark]
    """Instance id -> its mark, for every instance, in the order of the data."""

    def ids(self, verdict: ReferenceVerdict) -> list[str]:
        """Return the ids of the instances with this verdict, in the order of the data."""
        return [name for name, mark in self.by_instance.items() if mark.verdict == verdict]

    @property
    def failures(self) -> dict[str, Counter[str]]:
        """Judge -> failure code -> number of references without its opinion."""
        found: dict[str, Counter[str]] = {judge: Counter() for judge in self.judges}
        for mark in self.by_instance.values():
            for opinion in mark.opinions:
                if opinion.failure:
                    found[opinion.judge][opinion.failure.code] += 1
        return found
