"""Ask the instances of a data set in other ways: with another prompt, several times, or perturbed."""

from __future__ import annotations

from functools import partial
from random import Random

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Benchmark, Instance
from medhelm.domain.variant import REPEAT, VARIANT, Variant
from medhelm.errors import ErrorCollector, UserError
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.perturbations import GROUPS, find_perturbation, perturbations
from medhelm.extensions.variants.types import Perturbation

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
