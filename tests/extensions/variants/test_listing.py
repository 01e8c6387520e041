"""`medhelm variants`: the list, the differences of a prompt, and the counts of instances that keep the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.listing import expand
from medhelm.extensions.variants.perturbations import perturbations
from medhelm.extensions.variants.validity import validity
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.library import SHIPPED, benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded


def test_the_list_has_every_prompt_and_perturbation_with_its_reaction(medhelm: Medhelm) -> None:
    rows = succeeded(medhelm("variants", "--json")).json
    found = {row["name"]: (row["option"], row["expectation"]) for row in rows}
    assert (
        found.items()
        >= {
            "terse": ("--prompt", ""),
            "options_reversed": ("--perturb", "invariant"),
            "none_of_the_above": ("--perturb", "must_change"),
            "options_order": ("--perturb", "invariant"),
            "padding": ("rejudge --perturb", "invariant"),
        }.items()
    )
    assert all(row["description"].endswith(".") for row in rows)
    table = succeeded(medhelm("variants")).out
    assert table == succeeded(medhelm("variants", "list")).out
    assert "same answer" in table


def test_differences_of_a_prompt_are_shown_and_nothing_else_changes(medhelm: Medhelm, tmp_path: Path) -> None:
    show = ("variants", "show", make_benchmark(tmp_path, n=3), "q1")
    found = succeeded(medhelm(*show, "--perturb", "options_reversed", "--json")).json
    assert found["perturb=options_reversed"][1:] == [
        " Question number 1?", "-A. good", "-B. bad", "+A. bad", "+B. good", " Answer:",
    ]  # fmt: skip
    assert "number 1" in succeeded(medhelm(*show, "--prompt", "terse")).out
    assert_refused(medhelm(*show), "name a variant")
    assert_refused(medhelm(*show[:-1], "q9", "--perturb", "options_reversed"), "no instance `q9`")


@pytest.mark.parametrize("name", ["ehrsql", "med_qa", "medcalc_bench", "race_bias"])
def test_counts_agree_with_the_data_set_that_is_sent(name: str) -> None:
    dataset = open_dataset(benchmark(name), data=None, tier="sample")

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


def test_checks_name_rules_and_reasons_and_know_groups(medhelm: Medhelm, tmp_path: Path) -> None:
    def checked(name: str | Path, perturb: str, *more: str) -> Any:
        return succeeded(medhelm("variants", "check", name, "--perturb", perturb, "--json", *more)).json

    rows = checked(make_benchmark(tmp_path, n=3), "options_order")
    assert [(row["perturbation"], row["n_valid"]) for row in rows] == [
        (f"options_rotated_{by}", n) for by, n in ((1, 3), (2, 0), (3, 0), (4, 0))
    ]
    sample = ("--tier", "sample")
    rows = checked("med_qa", "sex,units,sex", *sample)
    assert [row["perturbation"] for row in rows] == ["sex", "units"]
    table = medhelm("variants", "check", "med_qa", "--perturb", "sex", *sample, "--format", "md").out
    assert rows[0]["left_out"]
    assert all(rule in table for rule in rows[0]["left_out"])
    forbidden = medhelm("variants", "check", "race_bias", "--perturb", "race", *sample, "--format", "md").out
    assert "The questions are about race." in forbidden
    assert_refused(
        medhelm("variants", "check", "med_qa", "--perturb", "sexes", *sample), "`sexes` is not a perturbation"
    )


def test_benchmarks_forbid_perturbations_that_exist() -> None:
    forbidden = {name for one in SHIPPED for name in benchmark(one).forbidden_perturbations}
    assert forbidden <= perturbations().keys()
