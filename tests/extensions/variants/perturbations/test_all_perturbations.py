"""Properties of every perturbation on every benchmark: on sample rows, and on real data where there is some."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Instance
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.listing import changed_instance, expand
from medhelm.extensions.variants.perturbations import GROUPS, perturbations
from tests.support.benchmarks.library import SHIPPED, benchmark, real, sample_tier

READ = (
    "aci_bench",
    "med_mcqa",
    "med_qa",
    "medbullets",
    "medcalc_bench",
    "medec",
    "mediqa_qa",
    "mtsamples",
    "pubmed_qa",
)
"""Benchmarks whose real data is read."""
SEEDED = {"irrelevant_sentences", "options_shuffled", "section_order", "typos", "whitespace"} | {
    *("insurance", "language", "name", "race")
}
"""Those whose text depends on the seed."""


def changed(name: str, of: Benchmark, instance: Instance, seed: int = 0) -> Instance | None:
    """Return the changed instance, before its check."""
    return changed_instance(perturbations()[name], of, seed, instance)


def assert_sound(name: str, of: Benchmark, instance: Instance) -> bool:
    """Check one instance; return True if the perturbation applies to it and keeps the rules."""
    perturbation = perturbations()[name]
    new = changed(name, of, instance)
    if new is None or perturbation.check(instance, new, of):
        return False
    kept = ("id", "cluster", "group", "criteria")
    assert [getattr(new, key) for key in kept] == [getattr(instance, key) for key in kept]
    assert [turn.role for turn in new.turns] == [turn.role for turn in instance.turns]
    assert new.fields.keys() == instance.fields.keys()
    assert len(new.choices) == len(new.labels) == len(instance.choices)
    if new.choices:
        assert tuple(reference.text for reference in new.references) == new.choices
    other = perturbation.benchmark(of) if perturbation.benchmark else of
    assert render(other, new) != render(of, instance)
    if perturbation.expectation == "must_change":
        assert not set(new.correct) & set(instance.choices)
    elif not new.choices:
        assert new.references == instance.references
    return True


@pytest.mark.parametrize("name", SHIPPED)
def test_a_changed_instance_keeps_its_identity_and_passes_its_check(name: str) -> None:
    for perturbation in perturbations():
        for instance in sample_tier(name)[::3]:
            assert_sound(perturbation, benchmark(name), instance)


def test_each_applies_to_some_real_instances_and_its_check_accepts_them(data_dir: Path) -> None:
    applies: set[str] = set()
    for name in READ:
        for instance in islice(real(name, "default", data_dir), 0, 120, 15):
            applies |= {one for one in perturbations() if assert_sound(one, benchmark(name), instance)}
    assert applies == perturbations().keys()


def test_another_seed_changes_other_places_and_the_same_seed_the_same_ones() -> None:
    read = ("bmt_status", "med_qa", "medec", "mimic_iv_billing_code", "mtsamples")
    instances = [(benchmark(name), one) for name in read for one in sample_tier(name)[:4]]
    for name in perturbations():
        texts = [[changed(name, of, one, seed) for of, one in instances] for seed in (0, 0, 1)]
        assert texts[0] == texts[1], name
        assert (texts[0] != texts[2]) == (name in SEEDED), name


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return open_dataset(benchmark("med_qa"), data=None, tier="sample")


def test_a_group_is_its_perturbations_that_apply(dataset: Dataset) -> None:
    found = expand(dataset, Settings(perturb=("options_order", "typos")))
    assert [one.variant for one in found] == [
        "",
        *(f"perturb=options_rotated_{by}" for by in (1, 2, 3)),  # four options: a fourth turn changes nothing
        "perturb=typos",
    ]
    assert all(name in perturbations() for members in GROUPS.values() for name in members)


def test_names_and_groups_that_cannot_be_used_are_refused(dataset: Dataset) -> None:
    with pytest.raises(UserError, match=r"`option_order` is not a perturbation\. Did you mean `options_order`"):
        expand(dataset, Settings(perturb=("option_order",)))
    without = open_dataset(benchmark("medication_qa"), data=None, tier="sample")
    with pytest.raises(UserError, match=r"applies to none of its .* instances; .* Leave it out\. Nothing was sent\."):
        expand(without, Settings(perturb=("options_order",)))
