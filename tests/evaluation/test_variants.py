"""Variants are runs of their own, which leave plain runs and the scores of models as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants import perturbations
from medhelm.extensions.variants.types import Perturbation
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Server

N = 6

SCORED = ["instance_id", "request_digest", "completion", "exact_match_corrected", "exact_match_published"]
"""Columns of a run's records that say what was asked, completed and scored."""


def shouted(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:
    """Put the question of every second instance in capitals."""
    if int(instance.id[1:]) % 2:
        return None
    return replace(instance, fields={name: text.upper() for name, text in instance.fields.items()})


SHOUTED = Perturbation(name="shouted", title="Shouted", description="Capitals.", expectation="invariant", apply=shouted)


@pytest.fixture(autouse=True)
def known_perturbations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One perturbation whose effect is known."""
    monkeypatch.setattr(perturbations, "perturbations", lambda: {"shouted": SHOUTED})
    monkeypatch.setattr("medhelm.extensions.variants.listing.perturbations", lambda: {"shouted": SHOUTED})


def model_of(server: Server) -> str:
    """A model that always answers A."""
    server.answer_with(lambda _: chat("A"))
    return f"openai/mock@{server.url}/v1"


def test_variants_pay_for_new_prompts_only_and_leave_the_plain_run_as_it_was(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    command = ("run", make_benchmark(tmp_path, n=N), "--model", model_of(server), "--store", tmp_path / "s", "--json")
    succeeded(medhelm(*command))
    (plain,) = load_runs(open_store(tmp_path / "s"))
    records = read_columns(plain, SCORED)
    varied = ("--repeat", "3", "--perturb", "shouted")
    planned = succeeded(medhelm("plan", *command[1:-1], *varied, "--json")).json
    assert [(row.get("asked", ""), row["requests"], row["cached"]) for row in planned["rows"]] == [
        ("", N, N), ("repeat=2", N, 0), ("repeat=3", N, 0), ("perturb=shouted", N // 2, 0),
    ]  # fmt: skip
    before = server.count
    found = succeeded(medhelm(*command, *varied)).json
    assert server.count - before == found["requests_sent"] == 2 * N + N // 2
    assert found["runs"][0]["requests_cached"] == N
    store = open_store(tmp_path / "s")
    (again,) = load_runs(store)
    assert (again.id, again.estimates, read_columns(again, SCORED)) == (plain.id, plain.estimates, records)
    every = {run.variant: run for run in load_runs(store, variants=True)}
    assert set(every) == {"", "repeat=2", "repeat=3", "perturb=shouted"}
    assert {run.model_name for run in every.values()} == {plain.model}
    assert every["perturb=shouted"].model == f"{plain.model} [perturb=shouted]"
    assert every["perturb=shouted"].settings["expectation"] == "invariant"
    ids = [f"q{number}" for number in range(0, N, 2)]
    assert read_columns(every["perturb=shouted"], ["instance_id"])["instance_id"] == ids
    seeds = {body["seed"] for body in server.bodies[before:]}
    assert seeds == {0, 1, 2}
    assert succeeded(medhelm(*command, *varied)).json["requests_sent"] == 0


def test_variants_are_shown_only_on_request(medhelm: Medhelm, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s")
    run = ("run", make_benchmark(tmp_path, n=N), "--model", "baseline/random", "--model", "baseline/majority")
    succeeded(medhelm(*run, "--repeat", "2", "--perturb", "shouted", *store))

    def rows(*options: str) -> list[str]:
        return [row["model"] for row in succeeded(medhelm("leaderboard", "--json", *options, *store)).json["models"]]

    assert sorted(rows()) == ["baseline/majority", "baseline/random"]
    assert sorted(rows("--variant", "shouted")) == [
        name
        for model in ("majority", "random")
        for name in (f"baseline/{model}", f"baseline/{model} [perturb=shouted]")
    ]
    assert len(rows("--variant", "all")) == 6
    assert_refused(medhelm("leaderboard", "--variant", "typo", *store), "typo", "perturb=shouted and repeat=2")
    named = medhelm("compare", "baseline/random", "baseline/random [perturb=shouted]", "--json", *store)
    assert succeeded(named).json["benchmarks"][0]["n"] == N // 2
    assert succeeded(medhelm("rescore", "toy", "--json", *store)).json["requests_sent"] == 0
    assert len(load_runs(open_store(tmp_path / "s"), variants=True)) == 6


def test_a_model_at_two_temperatures_is_two_rows(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    store = ("--store", tmp_path / "s")
    command = (
        "run",
        make_benchmark(tmp_path, n=N),
        "--model",
        model_of(server),
        "--model",
        "baseline/majority",
        *store,
    )
    succeeded(medhelm(*command))
    succeeded(medhelm(*command, "--temperature", "0.7"))
    assert [body["temperature"] for body in server.bodies] == [0.0] * N + [0.7] * N
    shown = succeeded(medhelm("leaderboard", "--json", *store))
    board = shown.json
    hot = f"{model_of(server)} [temperature=0.7]"
    assert {row["model"] for row in board["models"]} == {"baseline/majority", model_of(server), hot}
    assert board["left_out"] == []
    assert f"Sampled at another temperature than the others (0): {hot} at 0.7" in shown.out
    assert succeeded(medhelm("compare", model_of(server), hot, "--json", *store)).json["benchmarks"][0]["n"] == N
    assert succeeded(medhelm("rescore", "toy", "--model", hot, "--json", *store)).json["runs"][0]["model"] == hot


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--perturb", "shouted,typo"), ("--perturb: `typo` is not a perturbation", "medhelm variants")),
        (("--perturb", ","), ("--perturb", "must name at least one")),
        (("--repeat", "0"), ("--repeat",)),
        (("--temperature", "0.5", "--model", "openai/o3"), ("openai/o3 takes no temperature", "Nothing was sent")),
    ],
)
def test_impossible_ways_of_asking_are_refused(
    options: tuple[str, ...], words: tuple[str, ...], medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    outcome = medhelm("run", make_benchmark(tmp_path, n=N), "--model", model_of(server), *options)
    assert_refused(outcome, *words)
    assert server.count == 0
