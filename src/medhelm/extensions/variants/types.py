"""Perturbations: checked changes to an instance whose correct answer is known to stay, or to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from medhelm.domain import Benchmark, Instance
from medhelm.domain.run import Expectation

REACTIONS: Mapping[str, str] = {
    "invariant": "same answer",
    "must_change": "new answer",
    "must_abstain": "no answer",
    "": "–",
}
"""Expectation -> the reaction, in words."""

MARGIN = 0.02
"""Difference of scores up to which they count as equivalent, unless the user chooses another one."""


def _accept(original: Instance, changed: Instance, benchmark: Benchmark) -> str:  # noqa: ARG001
    return ""


Apply = Callable[[Instance, Benchmark, Random], Instance | None]
"""Returns the changed instance, or None if the change does not apply to this one. The generator is seeded by the seed
of the command, the name of the perturbation and the id of the instance."""

Check = Callable[[Instance, Instance, Benchmark], str]
"""Validates a changed instance against its original: returns the rule that it breaks, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedChange:
    """A change to what models or judges are asked, which can be chosen by name."""

    name: str
    """Name on the command line, such as `typos`."""
    title: str
    """Name for tables."""
    description: str
    """The change, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation(NamedChange):
    """A change to an instance."""

    expectation: Expectation = "invariant"
    """Correct reaction of a model."""
    apply: Apply
    """The change."""
    check: Check = _accept
    """Instances that break a rule are left out before anything is sent."""
    benchmark: Callable[[Benchmark], Benchmark] | None = None
    """Changes the prompt of all instances accordingly; None if it stays."""
    version: int = 1
    """Raised with every change of its results, which then belong to other runs."""
