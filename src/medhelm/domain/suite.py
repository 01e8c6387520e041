"""What the tables need to know of a benchmark without opening its definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """One benchmark of a suite: its names and its place."""

    name: str
    """Id in snake case, such as `pubmed_qa`."""
    title: str
    """Name for people, such as `PubMedQA`."""
    category: str
    """Id of its category."""
    subcategory: str
    """Id of its subcategory."""
    alias: str = ""
    """The reference implementation's id, where it differs; empty if it does not."""
    in_paper: bool = True
    """Whether it is one of the 35 benchmarks of the paper."""
    access: str = ""
    """Who can get the data: public, gated or private; empty if that is not known."""
    construction: str = ""
    """Whether it is an existing benchmark, one reformulated from existing data, or new; empty if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A selection of benchmarks, and how much each of them counts."""

    name: str
    """Name for people, such as `paper35`."""
    weights: Mapping[str, float] | None
    """Benchmark id -> weight above 0, in the order to show them; None: every benchmark there is, each once."""
    description: str = ""
    """What it is for."""
