"""`medhelm jury`."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from tests.support.benchmarks.judged import CRITERIA, JUDGES, court, grades_of, write_benchmark
from tests.support.cli import Medhelm, repeated, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Server
from tests.support.stores import add_judged_runs, grades

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with two benchmarks that three judges judged."""

    def make() -> None:
        for seed, name in enumerate(("aci_bench", "toy")):
            add_judged_runs(tmp_path / "store", name, grades(seed, 8))

    made_once(tmp_path, __name__, make)
    return tmp_path / "store"


def test_benchmarks_may_be_named_by_alias_and_group(medhelm: Medhelm, store: Path) -> None:
    for names in (["toy"], ["aci_bench"], ["open"], ["clinical_note_generation", "toy"]):
        found = medhelm("jury", *names, "--store", store, "--json").json["benchmarks"]
        assert set(found) == {name if name == "toy" else "aci_bench" for name in names}


# --- the whole road ---------------------------------------------------------------------------------------------------


def test_what_judges_said_on_the_road_is_analysed(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    """Two models on nine questions, judged by three; the second judge cannot answer the first question."""
    refused = (JUDGES[1], 0)
    server.answer_with(court(lambda judge, n, _: "I would rather not." if (judge, n) == refused else None))
    names = (*repeated("--model", map(server.model, "ab")), *repeated("--judge", map(server.model, JUDGES)))
    medhelm("run", write_benchmark(tmp_path), *names, "--store", "store")
    outcome = succeeded(medhelm("jury", "--store", "store", "--json"))
    own = outcome.json["benchmarks"]["letters"]
    assert (own["n_instances"], own["n_completions"], len(own["models"])) == (9, 18, 2)
    for name in JUDGES:
        judge = own["judges"][server.model(name)]
        lost = 2 * len(CRITERIA) if name == JUDGES[1] else 0
        assert (judge["judgments"]["expected"], judge["judgments"]["failed"]) == (2 * 9 * 3, lost)
        there = [grades_of(name, n) for n in range(1 if lost else 0, 9)]
        assert judge["mean"]["value"] == pytest.approx(fmean(g for three in there for g in three), abs=1e-6)
    # Both models got the same grades: nobody is better, and no judge prefers anybody.
    full = own["ranking"]["panels"][0]
    assert [model["rank"] for model in full["models"]] == [1, 1]
    assert full["tau"] is None
