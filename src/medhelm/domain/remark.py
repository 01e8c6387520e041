"""Remarks: findings that a reader of a table, report or page should know."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding about results, for people and for programs.

    >>> str(Remark(code="few_instances", subject="pubmed_qa", text="PubMedQA has 12 instances: intervals are wide."))
    'PubMedQA has 12 instances: intervals are wide.'
    """

    code: str
    """Kind of finding, in snake case, such as `few_instances`: stable, so that programs can filter on it."""
    subject: str
    """Name of the model, benchmark, judge or metric it is about; empty for the results as a whole."""
    text: str
    """One or two complete sentences: the finding, its numbers, and what to do about it."""

    def __str__(self) -> str:
        """Return the text, for tables and logs."""
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A command that gives runs the conditions of others."""

    action: Literal["run", "rescore", "rejudge"]
    """Subcommand of `medhelm`."""
    models: tuple[str, ...] = ()
    """Models to name; empty for all that have runs."""
    options: tuple[str, ...] = ()
    """Other words after the names of the benchmarks."""
    like: str = ""
    """HELM run whose prompts are used, instead of names of benchmarks."""
    sends_nothing: bool = False
    """True if it needs no new completion."""
    preparation: str = ""
    """Change to make before the command, as the beginning of a sentence; empty for none."""

    def command(self, benchmarks: Sequence[str]) -> str:
        """Return the command for these benchmarks.

        >>> Remedy(action="rescore", models=("m",)).command(["medec"])
        'medhelm rescore medec --model m'
        """
        what = ["--like", self.like] if self.like else benchmarks
        models = [word for model in self.models for word in ("--model", model)]
        return shlex.join(["medhelm", self.action, *what, *models, *self.options])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A model that does not count on a benchmark, because it was measured under other conditions than the rest."""

    model: str
    """Name of the model on the leaderboard."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    reason: str
    """The conditions that differ, such as `sampled at temperature 0.7, the others at 0`."""
    remedy: Remedy
    """Command that makes the model count."""

    @property
    def command(self) -> str:
        """Return the command after which the model counts."""
        return self.remedy.command([self.benchmark])
