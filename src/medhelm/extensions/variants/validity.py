"""Share of the instances of a benchmark that a perturbation changes, and that keep its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.extensions.variants.listing import changed_instance
from medhelm.extensions.variants.perturbations import find_perturbation, perturbations
from medhelm.extensions.variants.types import Perturbation
from medhelm.results.formats.fields import Field
from medhelm.results.formats.tables import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Results of the rules of one perturbation on one benchmark."""

    benchmark: str
    """Name of the benchmark."""
    perturbation: str
    """Name of the perturbation."""
    expectation: str
    """Correct reaction to the changed instances."""
    n: int
    """Instances of the selection."""
    n_changed: int = 0
    """Instances that the perturbation changes."""
    broken: Mapping[str, int] = field(default_factory=dict)
    """Rule -> changed instances that are left out because they break it, the most frequent first."""
    forbidden: str = ""
    """Reason why the benchmark forbids the perturbation; empty if it does not."""

    @property
    def n_valid(self) -> int:
        """Changed instances that keep all rules: those that are sent."""
        return self.n_changed - sum(self.broken.values())

    @property
    def rate(self) -> float | None:
        """Share of the changed instances that keep all rules; None if none is changed."""
        return self.n_valid / self.n_changed if self.n_changed else None


def _reasons(one: Validity) -> str:
    """Return the reasons for leaving instances out, with numbers."""
    return one.forbidden or " ".join(f"{n:,}: {rule}" for rule, n in one.broken.items())


VALIDITY_FIELDS: list[Field[Validity]] = [
    Field("benchmark", lambda one: one.benchmark, kind="text", meaning="Name of the benchmark."),
    Field("perturbation", lambda one: one.perturbation, kind="text", heading="Perturbation", meaning="Its name."),
    Field("expectation", lambda one: one.expectation, kind="text", heading="Expected", drop=1,
          meaning="Correct reaction to the changed instances.", range="invariant, must_change, must_abstain"),
    Field("n", lambda one: one.n, kind="whole number", heading="Instances", drop=2, meaning="Instances selected."),
    Field("n_changed", lambda one: one.n_changed, kind="whole number", heading="Changed",
          meaning="Instances that the perturbation changes."),
    Field("n_valid", lambda one: one.n_valid, kind="whole number", heading="Sent",
          meaning="Changed instances that keep all rules."),
    Field("rate", lambda one: one.rate, heading="Valid", text=lambda one: percent(one.rate),
          meaning="Share of the changed instances that keep all rules.", range="0 to 1",
          missing="no instance is changed"),
    Field("left_out", lambda one: dict(one.broken), kind="object", heading="Left out because", text=_reasons,
          schema={"type": "object", "additionalProperties": {"type": "integer"}},
          meaning="Rule -> changed instances that break it first."),
    Field("forbidden", lambda one: one.forbidden, kind="text",
          meaning="Reason why the benchmark forbids it; else empty."),
]  # fmt: skip
"""The table of `medhelm variants check`."""


def validity(dataset: Dataset, names: Sequence[str], seed: int) -> list[Validity]:
    """Perturb the instances of a data set, and count those that keep the rules. Nothing is sent.

    Parameters: names, perturbations, or none for all.
    Raises: UserError for an unknown name.
    """
    chosen = [find_perturbation(name) for name in dict.fromkeys(names)] or list(perturbations().values())
    return [_validity_of(dataset, perturbation, seed) for perturbation in chosen]


def _validity_of(dataset: Dataset, perturbation: Perturbation, seed: int) -> Validity:
    benchmark = dataset.benchmark
    found: Counter[str] = Counter()
    forbidden = benchmark.forbidden_perturbations.get(perturbation.name, "")
    for instance in () if forbidden else dataset:
        changed = changed_instance(perturbation, benchmark, seed, instance)
        if changed is not None:
            found[perturbation.check(instance, changed, benchmark)] += 1
    n_changed = found.total()
    del found[""]
    return Validity(
        benchmark=benchmark.name,
        perturbation=perturbation.name,
        expectation=perturbation.expectation,
        n=dataset.n,
        n_changed=n_changed,
        broken=dict(found.most_common()),
        forbidden=forbidden,
    )
