"""Releases: frozen leaderboards and the provenance of each number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CellProvenance:
    """Provenance of one model's score on one benchmark: digests, names, prices."""

    model: str
    """Name of the model on the leaderboard."""
    benchmark: str
    """Id of the benchmark."""
    run_id: str
    """Id of the run."""
    started: str
    """Start time of the run, ISO 8601, UTC."""
    n: int
    """Number of instances."""
    metric: str
    """Metric on the leaderboard."""
    definition: str
    """Digest of the benchmark's definition."""
    data: str
    """Digest of the data files and of the selection of instances."""
    prompts: str
    """Digest of all prompts; empty if they are not stored."""
    settings: Mapping[str, Any]
    """User settings and decoding limits."""
    records: str
    """sha256 of the stored records: completions and scores."""
    judgments: str
    """sha256 of the stored judgments; empty without a jury."""
    snapshots: Sequence[str]
    """Model names in the responses; several if the model behind the name changed."""
    jury: Mapping[str, Sequence[str]]
    """Judge -> model names in its responses; empty without a jury."""
    min_judges: int
    """Complete judges that an instance needs; 0 without a jury."""
    prices: Mapping[str, Any]
    """Name of the model or judge -> price per million tokens and its source; None if unknown."""
    versions: Mapping[str, str]
    """Versions of MedHELM and Python."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Origin of an imported run; empty for other runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A frozen leaderboard."""

    name: str
    """Name of the release."""
    created: str
    """Time of the release, ISO 8601, UTC."""
    medhelm_version: str
    """Version of MedHELM that made it."""
    note: str
    """Note of its author."""
    options: Mapping[str, Any]
    """Options of the leaderboard: scoring, tier, suite and so on."""
    suite_text: str = ""
    """Content of the suite file named in `options`; empty for a built-in suite."""
    provenance: tuple[CellProvenance, ...]
    """Provenance of each run, by model and benchmark."""
    leaderboard: Mapping[str, Any]
    """The leaderboard, as `leaderboard --format json` prints it."""
    sha256: str
    """sha256 of `leaderboard.json`."""
