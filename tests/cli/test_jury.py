"""`medhelm jury`."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from tests.support.benchmarks.judged import CRITERIA, DEFINITION, JUDGES, court, grades_of, verdict, write_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tyo"], "tyo"),
        (["mtsamples"], "no run of `mtsamples` was judged"),
        (["--tier", "sample"], "no finished run with judges"),
        (["--family", "Meta"], "NAME=FAMILY"),
        (["--family", "openai/gpt-4=Meta"], "Did you mean `openai/gpt-4o`?"),
        (["--format", "jsn"], "json"),
    ],
)
def test_mistakes_end_with_two(medhelm: Medhelm, store: Path, arguments: list[str], said: str) -> None:
    assert_refused(medhelm("jury", "--store", store, *arguments), said)


def test_a_family_can_be_set(medhelm: Medhelm, store: Path) -> None:
    found = medhelm("jury", "--store", store, "--family", "local/qwen2.5-7b=Anthropic", "--json").json
    judge = found["benchmarks"]["toy"]["judges"]["anthropic/claude-3-7-sonnet"]
    assert judge["own_models"] == ["local/qwen2.5-7b"]
    assert judge["self_preference"] is not None


def test_the_rule_can_be_chosen(medhelm: Medhelm, store: Path) -> None:
    assert medhelm("jury", "--store", store, "--scoring", "published", "--json").json["scoring"] == "published"


# --- the whole road ---------------------------------------------------------------------------------------------------


REVERSED = DEFINITION.replace("clarity: Is it plain?", "clarity: {description: Is it plain?, lower_is_better: true}")


def ran(medhelm: Medhelm, server: Server, place: Path) -> None:
    """Two models on nine questions, judged by three; the second judge cannot answer the first question."""
    models = [argument for name in ("one", "two") for argument in ("--model", f"openai/{name}@{server.url}/v1")]
    judges = [argument for name in JUDGES for argument in ("--judge", f"openai/{name}@{server.url}/v1")]
    medhelm("run", place, *models, *judges, "--store", "store", "--json")


def judging(name: str, question: int, body: object) -> str | None:
    return "I would rather not." if (name, question) == (JUDGES[1], 0) else None


def test_what_judges_said_on_the_road_is_analysed(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(court(judging))
    ran(medhelm, server, write_benchmark(tmp_path))
    outcome = succeeded(medhelm("jury", "--store", "store", "--json"))
    own = outcome.json["benchmarks"]["letters"]
    assert (own["n_instances"], own["n_completions"], len(own["models"])) == (9, 18, 2)
    for name in JUDGES:
        judge = own["judges"][f"openai/{name}@{server.url}/v1"]
        lost = 2 * len(CRITERIA) if name == JUDGES[1] else 0
        assert (judge["judgments"]["expected"], judge["judgments"]["failed"]) == (2 * 9 * 3, lost)
        there = [grades_of(name, n) for n in range(1 if lost else 0, 9)]
        assert judge["mean"]["value"] == pytest.approx(fmean(g for three in there for g in three), abs=1e-6)
        assert judge["tokens"]["input"] > 0
    assert [part["on"] for part in own["agreement"]] == [*CRITERIA, "score"]
    # Both models got the same grades: nobody is better, and no judge prefers anybody.
    full = own["ranking"]["panels"][0]
    assert [model["rank"] for model in full["models"]] == [1, 1]
    assert full["tau"] is None


def test_where_the_lowest_grade_is_the_best_no_definition_is_needed(
    medhelm: Medhelm, server: Server, tmp_path: Path
) -> None:
    server.answer_with(court(lambda name, n, body: verdict(4, 3, 1 + n % 2)))
    ran(medhelm, server, write_benchmark(tmp_path, definition=REVERSED))
    outcome = succeeded(medhelm("jury", "letters", "--store", "store", "--json"))
    judge = next(iter(outcome.json["benchmarks"]["letters"]["judges"].values()))
    assert judge["mean"]["value"] == pytest.approx(fmean(fmean((4, 3, 5 - n % 2)) for n in range(9)), abs=1e-6)
