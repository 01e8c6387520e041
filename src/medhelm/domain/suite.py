"""Suites: weighted selections of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """One benchmark of a suite: its names and category."""

    name: str
    """Id in snake case, such as `pubmed_qa`."""
    title: str
    """Name for people, such as `PubMedQA`."""
    category: str
    """Id of its category."""
    subcategory: str
    """Id of its subcategory."""
    alias: str = ""
    """Id in the reference implementation, if it differs; else empty."""
    in_paper: bool = True
    """True if it is one of the 35 benchmarks of the paper."""
    access: str = ""
    """Access to the data: public, gated or private; empty if unknown."""
    construction: str = ""
    """Construction: existing benchmark, reformulated from existing data, or new; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A selection of benchmarks with their weights."""

    name: str
    """Name for people, such as `paper35`."""
    weights: Mapping[str, float] | None
    """Benchmark id -> weight above 0, in display order; None: all benchmarks with equal weights."""
    description: str = ""
    """Purpose of the suite."""
