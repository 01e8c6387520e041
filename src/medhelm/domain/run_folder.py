"""Runs as folders of a store, damaged ones included, and removals of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain.run import Run

SHORT_ID = 10
"""Characters of a run id in the name of its folder and in tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnDisk:
    """A run's folder, which may be damaged."""

    folder: Path
    """The folder."""
    run: Run | None
    """The run; None if its `run.json` cannot be read."""
    problem: str = ""
    """The damage, in a sentence; empty if there is none."""
    files: Mapping[str, int]
    """Name of each file -> its size in bytes."""
    removal: str = ""
    """Id of the removal that holds it; empty if it was not removed."""

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return self.folder.parents[3 if self.removal else 2]

    @property
    def id(self) -> str:
        """Id of the run; its first characters if only the folder's name is known."""
        return self.run.id if self.run else self.folder.name.rpartition("-")[2]

    @property
    def short_id(self) -> str:
        """The first characters of the id."""
        return self.id[:SHORT_ID]

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.run.benchmark if self.run else self.folder.parent.name

    @property
    def model(self) -> str:
        """Name of the model; as the folder spells it if `run.json` cannot be read."""
        return self.run.model if self.run else self.folder.name.rpartition("-")[0]

    @property
    def started(self) -> str:
        """Start time, ISO 8601, UTC; empty if unknown."""
        return self.run.started if self.run else ""

    @property
    def status(self) -> str:
        """Status of the run, or `damaged`."""
        return "damaged" if self.problem or not self.run else str(self.run.status)

    @property
    def n_bytes(self) -> int:
        """Bytes on disk."""
        return sum(self.files.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Runs that were removed together and can be restored."""

    id: str
    """Name of its folder, which begins with the time."""
    removed: str
    """Time of the removal, ISO 8601, UTC."""
    runs: Sequence[RunOnDisk]
    """The runs that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalEffect:
    """Losses of a store without some of its runs."""

    runs: Sequence[RunOnDisk]
    """The runs."""
    requests: int
    """Number of different requests of these runs, to models and judges, damaged runs left out."""
    requests_cached: int
    """Requests whose completion is in the cache, and stays there."""
    cost_usd: float
    """Cost of buying all completions and judgments again, as the runs recorded it, as far as it is known."""
    cost_unknown: int
    """Runs whose cost is not known in full."""
    imported: int
    """Runs that other harnesses made: their completions are in no cache."""
    releases: Mapping[str, int]
    """Release that uses some of these runs -> how many."""
