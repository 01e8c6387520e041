"""`medhelm variants`: the list, the differences of a prompt, and the rules that perturbations keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded

pytest.importorskip("medhelm.extensions.variants.prompts", reason="other prompts are not installed")


def test_the_list_has_every_prompt_and_perturbation_with_its_reaction(medhelm: Medhelm) -> None:
    rows = succeeded(medhelm("variants", "--json")).json
    found = {row["name"]: row for row in rows}
    assert found["terse"]["option"] == "--prompt"
    assert found["options_reversed"]["expectation"] == "invariant"
    assert found["none_of_the_above"]["expectation"] == "must_change"
    assert found["options_order"]["expectation"] == "invariant"
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


def test_rules_are_checked_for_groups_of_perturbations(medhelm: Medhelm, tmp_path: Path) -> None:
    check = ("variants", "check", make_benchmark(tmp_path, n=3), "--perturb", "options_order", "--json")
    rows = succeeded(medhelm(*check)).json
    assert [row["perturbation"] for row in rows] == [f"options_rotated_{by}" for by in (1, 2, 3, 4)]
    assert [row["n_valid"] for row in rows] == [3, 0, 0, 0]
