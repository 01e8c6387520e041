"""The list of prompts and perturbations, and the differences that they make to the prompt of an instance."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Instance
from medhelm.domain.variant import asked_in_words
from medhelm.errors import UserError
from medhelm.extensions.variants.judging import CHANGES
from medhelm.extensions.variants.perturbations import GROUPS, perturbations
from medhelm.extensions.variants.prompts import PROMPTS
from medhelm.extensions.variants.types import REACTIONS, NamedChange
from medhelm.results.formats.fields import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVariant:
    """A prompt or a perturbation, as lists show it."""

    option: str
    """Option that chooses it: of `medhelm run`, or of another command that is named."""
    change: NamedChange
    """Its names."""
    expectation: str
    """Correct reaction; empty for a prompt."""


VARIANT_FIELDS: list[Field[ListedVariant]] = [
    Field("option", lambda one: one.option, kind="text", heading="Option"),
    Field("name", lambda one: one.change.name, kind="text", heading="Name"),
    Field("title", lambda one: one.change.title, kind="text", is_wide=True, heading="Title"),
    Field(
        "expectation",
        lambda one: one.expectation,
        kind="text",
        heading="Should give",
        text=lambda one: REACTIONS[one.expectation],
        meaning="Correct reaction to the changed instances; empty for a prompt.",
    ),
    Field("description", lambda one: one.change.description, kind="text", heading="Change"),
]
"""The table of `medhelm variants`."""


def listed_variants() -> list[ListedVariant]:
    """Return all built-in prompts, then all perturbations and groups of them, and the changes for judges."""
    known = perturbations()
    found: list[tuple[str, NamedChange, str]] = [
        *(("--prompt", one, "") for one in PROMPTS.values()),
        *(("--perturb", one, one.expectation) for one in known.values()),
    ]
    for name, members in GROUPS.items():
        group = NamedChange(name=name, title=name, description=f"All of {', '.join(members)} that apply.")
        found.append(("--perturb", group, known[members[0]].expectation))
    found += [("rejudge --perturb", one, "invariant") for one in CHANGES.values()]
    return [ListedVariant(option=option, change=one, expectation=expected) for option, one, expected in found]


# --- differences ------------------------------------------------------------------------------------------------------

UNCHANGED = "This variant does not apply to the instance, or its check refused the result."


def differences(datasets: Sequence[Dataset], instance_id: str) -> dict[str, list[str]]:
    """Return variant -> lines of the prompt and references that differ from those of the instance as it is.

    Parameters: datasets, the plain one first.
    Raises: UserError if the plain data set does not have the instance, or there is no other.
    """
    plain, *others = datasets
    if not others:
        raise UserError("name a variant with --perturb or --prompt. `medhelm variants` lists them.")
    original = _find(plain, instance_id)
    if original is None:
        raise UserError(f"{plain.benchmark.name} has no instance `{instance_id}` in this selection.")
    before = _lines(plain.benchmark, original)
    found = {}
    for dataset in others:
        changed = _find(dataset, instance_id)
        after = before if changed is None else _lines(dataset.benchmark, changed)
        lines = [line.rstrip("\n") for line in difflib.unified_diff(before, after, n=1, lineterm="")][2:]
        found[asked_in_words(dataset.settings)] = lines or [UNCHANGED]
    return found


def _find(dataset: Dataset, instance_id: str) -> Instance | None:
    return next((one for one in dataset if one.id == instance_id), None)


def _lines(benchmark: Benchmark, instance: Instance) -> list[str]:
    """Return the lines of prompt and references."""
    prompt = render(benchmark, instance)
    lines = [line for message in prompt.messages for line in (f"[{message.role}]", *message.text.splitlines())]
    references = [f"reference{'' if one.correct else ' (wrong)'}: {one.text}" for one in instance.references]
    return [*lines, *sorted(references)]  # their order follows that of the options
