"""Model versions that servers report are counted, stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.results.leaderboard import leaderboard
from medhelm.storage.judgments import read_replies
from medhelm.storage.releases import reported_models
from medhelm.storage.runs import completions_by_snapshot, load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import court, jury, mock, number, open_benchmark, write_benchmark
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server


def reply(name: str, fingerprint: str) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 1}
    return Answer(body={"model": name, "choices": [choice], "usage": usage, "system_fingerprint": fingerprint})


def test_a_model_that_changes_under_its_name_is_reported(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    make_benchmark(tmp_path)

    def decide(body: dict[str, Any]) -> Answer:
        if "seed" in body:
            return Answer(status=400, body={"error": {"message": "Unrecognized request argument supplied: seed"}})
        return reply("mock-2" if number(body) > 6 else "mock-1", f"fp_{number(body) % 3}")

    server.answer_with(decide)
    asked = f"openai/mock@{server.url}/v1"
    command = ("run", "./toy", "--model", asked, "--store", "store")
    done = medhelm(*command)
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert (run.snapshots, run.fingerprints) == ({"mock-1": 7, "mock-2": 2}, {"fp_0": 3, "fp_1": 3, "fp_2": 3})
    told = f"{asked} was served as 2 versions, so it is not a single model: mock-1 (7), mock-2 (2)."
    assert f"medhelm: {told}" in done.err
    assert "/v1 (3) reported several system fingerprints" in done.err
    assert told.replace(asked, "openai/mock") in medhelm("leaderboard", "--store", "store").out
    # The records are the evidence, and the same in all that read them.
    assert run.folder is not None
    assert reported_models(run.folder / "records.parquet") == {"": ["mock-1", "mock-2"]}
    assert completions_by_snapshot([run]) == run.snapshots
    assert set(read_columns(run, ["fingerprint"])["fingerprint"]) == set(run.fingerprints)
    # So is what the server refused, wherever a completion comes from.
    assert "- not supported by the server of openai/mock: seed (9)" in done.out
    again = medhelm(*command, "--json").json
    assert (again["requests_sent"], again["runs"][0]["refused_parts"]) == (0, {"seed": 9})


def test_a_judge_that_changes_is_reported_and_kept_with_its_replies(tmp_path: Path, server: Server) -> None:
    usual = court()

    def decide(body: dict[str, Any]) -> Answer:
        given = usual(body)
        assert isinstance(given.body, Mapping)
        if body["model"] != "judge-1":
            return given
        return Answer(body={**given.body, "model": f"snapshot-{number(body) % 2}", "system_fingerprint": "fp_j"})

    server.answer_with(decide)
    judges, benchmark = jury(server), open_benchmark(tmp_path)
    done = evaluate([benchmark], [mock(server)], store=tmp_path / "store", settings=Settings(), jury=judges)
    name = judges.judges[0].name
    told = f"{name} was served as 2 versions, so it is not a single model: snapshot-0 (5), snapshot-1 (4)."
    assert told in done.messages
    assert told in texts(leaderboard([tmp_path / "store"]).remarks)
    assert load_runs(open_store(tmp_path / "store")) == list(done.runs)
    # The same replies again, from the store: nothing is lost of what is known of them.
    (again,) = rejudge([benchmark], JuryChange(), EvaluationSetup(store=tmp_path / "store")).runs
    for run in (*done.runs, again):
        tally = run.tallies[name]
        assert (tally.snapshots, tally.fingerprints) == ({"snapshot-0": 5, "snapshot-1": 4}, {"fp_j": 9})
    replies = read_replies(again)
    assert {one.completion.fingerprint for said in replies.values() for one in said} == {"", "fp_j"}


def test_a_change_between_two_benchmarks_stands_on_the_leaderboard(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    """Each run has one name; together they have two."""
    make_benchmark(tmp_path)
    write_benchmark(tmp_path)
    for benchmark, name in (("./toy", "mock-1"), ("./letters", "mock-2")):
        server.script(reply(name, ""))
        done = medhelm("run", benchmark, "--model", f"openai/mock@{server.url}/v1", "--store", "store")
        assert "was served as" not in done.err
    assert "was served as 2 versions, so it is not a single model: mock-1 (9), mock-2 (9)." in (
        medhelm("leaderboard", "--store", "store").out
    )
