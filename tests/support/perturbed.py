"""One instance with a text, perturbed."""

from __future__ import annotations

from collections.abc import Sequence

from medhelm.domain import Instance, Reference
from medhelm.extensions.variants.listing import changed_instance
from medhelm.extensions.variants.perturbations import perturbations
from tests.support.benchmarks.library import benchmark

OPTIONS = ("Gout", "Migraine", "Sepsis")


def question(text: str, *, field: str = "question", options: Sequence[str] = OPTIONS, answer: str = "") -> Instance:
    """Return a choice question whose first option is correct; with `answer`, an open question."""
    if answer:
        return Instance(id="1", fields={field: text}, references=(Reference(answer),))
    return Instance(
        id="1",
        fields={field: text},
        references=tuple(Reference(option, place == 0) for place, option in enumerate(options)),
        choices=tuple(options),
        labels=("A", "B", "C")[: len(options)],
    )


def perturbed(name: str, instance: Instance, *, of: str = "med_qa", seed: int = 0) -> tuple[str, str]:
    """Return the changed texts, and the rule that they break; both empty if the change does not apply.

    `of`: benchmark whose prompt shows the field.
    """
    definition, perturbation = benchmark(of), perturbations()[name]
    found = changed_instance(perturbation, definition, seed, instance)
    if found is None:
        return "", ""
    return "\n".join(found.fields.values()), perturbation.check(instance, found, definition)
