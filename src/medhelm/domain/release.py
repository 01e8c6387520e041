"""What is frozen: leaderboards, and what every number of them rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CellProvenance:
    """What one model's number on one benchmark rests on: digests, names, prices."""

    model: str
    """The model as the leaderboard calls it."""
    benchmark: str
    """Id of the benchmark."""
    run_id: str
    """Id of the run."""
    started: str
    """When it was started."""
    n: int
    """Instances that should have been answered."""
    metric: str
    """The metric that is shown."""
    definition: str
    """Digest of the benchmark's definition."""
    data: str
    """Digest of the data files and of the selection of instances."""
    prompts: str
    """Digest of all prompts; empty if they are not stored."""
    settings: Mapping[str, Any]
    """What the user chose, and decoding limits."""
    records: str
    """sha256 of the stored records: completions and scores."""
    judgments: str
    """sha256 of the stored judgments; empty where nobody judged."""
    snapshots: Sequence[str]
    """What the model's server called it, as it answered; several if that changed on the way."""
    jury: Mapping[str, Sequence[str]]
    """Judge -> what its server called it; empty where nobody judged."""
    min_judges: int
    """Complete judges that an instance needs; 0 without a jury."""
    prices: Mapping[str, Any]
    """The model's name and each judge's -> price per million tokens and where it was read; None if unknown."""
    versions: Mapping[str, str]
    """Versions of this package and of Python that made it."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The run of another harness it was read from; empty for our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A frozen leaderboard."""

    name: str
    """What it is called."""
    created: str
    """When it was frozen, ISO 8601, UTC."""
    medhelm_version: str
    """Version of this package that made it."""
    note: str
    """What it is for, in its maker's words."""
    options: Mapping[str, Any]
    """What the leaderboard was asked for: scoring, tier, suite and so on."""
    suite_text: str = ""
    """Content of the file that the suite was read from, whose name is then the suite's in `options`; else empty."""
    provenance: tuple[CellProvenance, ...]
    """One for each run behind it, by model and benchmark."""
    leaderboard: Mapping[str, Any]
    """The leaderboard, as `leaderboard --format json` gives it."""
    sha256: str
    """Digest of `leaderboard.json`."""
