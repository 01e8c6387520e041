"""Counts of changed instances that keep the rules, and the lists of forbidden perturbations."""

from __future__ import annotations

import pytest

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.expand import expand
from medhelm.extensions.variants.perturbations import perturbations
from medhelm.extensions.variants.validity import validity, validity_json, validity_table
from tests.support.benchmarks.library import SHIPPED, benchmark


def samples(name: str) -> Dataset:
    """Open the sample rows of a benchmark."""
    return open_dataset(benchmark(name), data=None, tier="sample")


@pytest.mark.parametrize("name", ["clear", "ehrsql", "med_qa", "medcalc_bench", "mtsamples", "race_bias"])
def test_counts_agree_with_the_data_set_that_is_sent(name: str) -> None:
    dataset = samples(name)

    def sent(perturbation: str) -> int:
        return expand(dataset, Settings(perturb=(perturbation,), seed=3))[-1].n

    for row in validity(dataset, [], seed=3):
        if row.forbidden:
            with pytest.raises(UserError, match=row.forbidden.replace("(", r"\(")):
                sent(row.perturbation)
            assert row.n_changed == 0
        elif row.n_valid:
            assert sent(row.perturbation) == row.n_valid
        assert (row.benchmark, row.n) == (name, dataset.n)
        assert 0 <= row.n_valid <= row.n_changed <= row.n
        assert row.rate is None or row.rate == row.n_valid / row.n_changed


def test_rows_name_rules_and_reasons() -> None:
    rows = validity(samples("med_qa"), ["sex", "units", "sex"], seed=1)
    assert [row.perturbation for row in rows] == ["sex", "units"]
    (forbidden,) = validity(samples("race_bias"), ["race"], seed=1)
    table = validity_table([*rows, forbidden], "md")
    assert "The questions are about race." in table
    assert all(rule in table for row in rows for rule in row.broken)
    assert [one["left_out"] for one in validity_json(rows)] == [dict(row.broken) for row in rows]
    with pytest.raises(UserError, match="`sexes` is not a perturbation"):
        validity(samples("med_qa"), ["sexes"], seed=1)


def test_benchmarks_forbid_perturbations_that_exist() -> None:
    forbidden = {name for one in SHIPPED for name in benchmark(one).forbidden_perturbations}
    assert forbidden <= perturbations().keys()
