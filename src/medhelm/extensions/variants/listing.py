"""The list of prompts and perturbations, and the differences that they make to the prompt of an instance.

Ask the instances of a data set in other ways: with another prompt, several times, or perturbed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Instance
from medhelm.domain.run import REPEAT, VARIANT, Variant, asked_in_words
from medhelm.errors import ErrorCollector, UserError
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.judging import CHANGES
from medhelm.extensions.variants.perturbations import GROUPS, find_perturbation, perturbations
from medhelm.extensions.variants.prompts import PROMPTS
from medhelm.extensions.variants.types import REACTIONS, NamedChange, Perturbation
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


# --- expand -----------------------------------------------------------------------------------------------------------

ALL = "all"
"""Name of all perturbations that a benchmark permits."""


def expand(dataset: Dataset, settings: Settings) -> list[Dataset]:
    """Return the data sets that a command evaluates: with the chosen prompt, then its repeats and perturbations.

    Raises: UserError for names that are unknown, and for perturbations that the benchmark forbids or that apply to
    none of its instances; all of them in one message.
    """
    if settings.prompt:
        from medhelm.extensions.variants.prompts import prompt_variant  # lazy: most commands use the usual prompt

        dataset = dataset.varied(prompt_variant(settings.prompt, dataset, settings))
    found = [dataset, *(dataset.varied(_repeat(number)) for number in range(2, settings.repeat + 1))]
    errors = ErrorCollector()
    for name in dict.fromkeys(settings.perturb):
        with errors.collect():
            found += _named(dataset, name, settings.seed)
    errors.raise_all()
    return list({one.variant: one for one in found}.values())


def _named(dataset: Dataset, name: str, seed: int) -> list[Dataset]:
    """Return the data set in the perturbation with this name, or in those of the group that apply to some instance.

    Raises: UserError if none does, or one is forbidden.
    """
    benchmark = dataset.benchmark
    permitted = [one for one in perturbations() if one not in benchmark.forbidden_perturbations]
    found = []
    for member in permitted if name == ALL else GROUPS.get(name, (name,)):
        perturbation = find_perturbation(member)
        if reason := benchmark.forbidden_perturbations.get(member):
            raise UserError(f"{benchmark.name} forbids the perturbation `{member}`: {reason} Nothing was sent.")
        found.append(dataset.varied(perturbation_variant(perturbation, benchmark, seed)))
    if not any(one.n for one in found) and name != ALL:
        raise UserError(
            f"{benchmark.name}: the perturbation `{name}` applies to none of its {dataset.n:,} instances; "
            "`medhelm variants check` says why. Leave it out. Nothing was sent."
        )
    return [one for one in found if one.n]


def _repeat(number: int) -> Variant:
    """Return the variant that requests a further completion of each prompt. `number`: from 2."""
    return Variant(name=f"repeat={number}", settings={VARIANT: f"repeat={number}", REPEAT: number})


def perturbation_variant(perturbation: Perturbation, benchmark: Benchmark, seed: int) -> Variant:
    """Return the variant that perturbs instances, and leaves out those that fail the check of the perturbation."""
    name = f"perturb={perturbation.name}"
    return Variant(
        name=name,
        settings={
            VARIANT: name,
            "expectation": perturbation.expectation,
            "version": perturbation.version,
            "seed": seed,
        },
        benchmark=perturbation.benchmark,
        instance=partial(_changed, perturbation, benchmark, seed),
    )


def changed_instance(
    perturbation: Perturbation, benchmark: Benchmark, seed: int, instance: Instance
) -> Instance | None:
    """Return the changed instance before its check; None if the change does not apply, or changes nothing."""
    found = perturbation.apply(instance, benchmark, Random(f"{seed}:{perturbation.name}:{instance.id}"))
    return None if found == instance else found


def _changed(perturbation: Perturbation, benchmark: Benchmark, seed: int, instance: Instance) -> Instance | None:
    """Return the changed instance; None if there is none, or it fails its check."""
    found = changed_instance(perturbation, benchmark, seed, instance)
    return None if found is None or perturbation.check(instance, found, benchmark) else found
