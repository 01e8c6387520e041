"""Model versions that servers report are counted, stored and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.domain import Completion, Model
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.request_totals import RequestTotals
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import JuryChange, Settings
from medhelm.results.leaderboard import leaderboard
from medhelm.storage.judgments import read_replies
from medhelm.storage.releases import reported_models
from medhelm.storage.runs import completions_by_snapshot, load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark, question_number
from tests.support.benchmarks.judged import court, is_judge, jury, mock, open_benchmark, write_benchmark
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server


def reply(body: dict[str, Any], name: str, fingerprint: str | None = None) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 1}
    return Answer(body={"model": name, "choices": [choice], "usage": usage, "system_fingerprint": fingerprint})


def test_reported_versions_are_counted() -> None:
    totals = RequestTotals(Model(name="m", provider="openai", remote_name="m"))
    for name, fingerprint, parts in [
        ("b", "f1", ()),
        ("a", "f1", ("seed",)),
        ("a", "", ("schema", "seed")),
        ("", "", ()),
    ]:
        completion = Completion(text="x", reported_model=name, fingerprint=fingerprint, refused_parameters=parts)
        totals.add(completion, requests_sent=1, cached=False)
    assert totals.snapshots == {"a": 2, "b": 1}
    assert list(totals.snapshots) == ["a", "b"]
    assert totals.fingerprints == {"f1": 2}
    assert totals.refused_parameters == {"seed": 2, "schema": 1}


def test_a_model_that_changes_under_its_name_is_reported(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    make_benchmark(tmp_path)
    server.answer_with(lambda body: reply(body, "mock-2" if question_number(body) > 6 else "mock-1", "fp_1"))
    asked = f"openai/mock@{server.url}/v1"
    done = medhelm("run", "./toy", "--model", asked, "--store", "store")
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert (dict(run.snapshots), dict(run.fingerprints)) == ({"mock-1": 7, "mock-2": 2}, {"fp_1": 9})
    told = f"{asked} was served as 2 versions, so it is not a single model: mock-1 (7), mock-2 (2)."
    assert f"medhelm: {told}" in done.err
    assert told.replace(asked, "openai/mock") in medhelm("leaderboard", "--store", "store").out
    content = json.loads((tmp_path / "store").glob("runs/*/*/run.json").__next__().read_text())
    assert content["snapshots"] == {"mock-1": 7, "mock-2": 2}
    # The records are the evidence, and the same in all that read them.
    assert run.folder is not None
    assert reported_models(run.folder / "records.parquet") == {"": ["mock-1", "mock-2"]}
    assert completions_by_snapshot([run]) == run.snapshots
    assert set(read_columns(run, ["fingerprint"])["fingerprint"]) == {"fp_1"}


def test_several_fingerprints_are_counted_and_said(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    make_benchmark(tmp_path)
    server.answer_with(lambda body: reply(body, "mock-1", f"fp_{question_number(body) % 3}"))
    done = medhelm("run", "./toy", "--model", f"openai/mock@{server.url}/v1", "--store", "store", "--json")
    assert done.json["runs"][0]["fingerprints"] == {"fp_0": 3, "fp_1": 3, "fp_2": 3}
    assert "/v1 (3) reported several system fingerprints" in done.err
    assert "was served as" not in done.err


def test_what_a_server_refuses_is_recorded(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    make_benchmark(tmp_path)

    def decide(body: dict[str, Any]) -> Answer:
        if "seed" in body:
            return Answer(status=400, body={"error": {"message": "Unrecognized request argument supplied: seed"}})
        return reply(body, "mock-1")

    server.answer_with(decide)
    asked = f"openai/mock@{server.url}/v1"
    done = medhelm("run", "./toy", "--model", asked, "--store", "store")
    assert "- not supported by the server of openai/mock: seed (9)" in done.out
    # It is known of every completion, wherever it comes from.
    again = medhelm("run", "./toy", "--model", asked, "--store", "store", "--json")
    assert (again.json["requests_sent"], again.json["runs"][0]["refused_parts"]) == (0, {"seed": 9})


def test_a_judge_that_changes_is_reported_and_kept_with_its_replies(tmp_path: Path, server: Server) -> None:
    usual = court()

    def decide(body: dict[str, Any]) -> Answer:
        given = usual(body)
        assert isinstance(given.body, Mapping)
        if not is_judge(body) or body["model"] != "judge-1":
            return given
        number = int(body["messages"][0]["content"].partition("number ")[2].partition("?")[0])
        return Answer(body={**given.body, "model": f"snapshot-{number % 2}", "system_fingerprint": "fp_j"})

    server.answer_with(decide)
    judges, benchmark = jury(server), open_benchmark(tmp_path)
    done = evaluate([benchmark], [mock(server)], store=tmp_path / "store", settings=Settings(), jury=judges)
    (run,) = done.runs
    name = judges.judges[0].name
    assert run.jury_result is not None
    tally = run.jury_result.tallies[name]
    assert (tally.snapshots, tally.fingerprints) == ({"snapshot-0": 5, "snapshot-1": 4}, {"fp_j": 9})
    told = f"{name} was served as 2 versions, so it is not a single model: snapshot-0 (5), snapshot-1 (4)."
    assert told in done.messages
    assert told in texts(leaderboard([tmp_path / "store"]).remarks)
    assert load_runs(open_store(tmp_path / "store")) == [run]
    # The same replies again, from the store: nothing is lost of what is known of them.
    (again,) = rejudge([benchmark], JuryChange(), EvaluationSetup(store=tmp_path / "store")).runs
    assert again.jury_result is not None
    assert again.jury_result.tallies[name].snapshots == tally.snapshots
    assert again.jury_result.tallies[name].fingerprints == tally.fingerprints
    replies = read_replies(again)
    assert {one.completion.fingerprint for said in replies.values() for one in said} == {"", "fp_j"}


def test_a_change_between_two_benchmarks_stands_on_the_leaderboard(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    """Each run has one name; together they have two."""
    make_benchmark(tmp_path)
    write_benchmark(tmp_path)
    asked = f"openai/mock@{server.url}/v1"
    told = []
    for benchmark, name in (("./toy", "mock-1"), ("./letters", "mock-2")):
        server.answer_with(lambda body, name=name: reply(body, name))  # type: ignore[misc]
        told.append(medhelm("run", benchmark, "--model", asked, "--store", "store").err)
    assert not any("was served as" in text for text in told)
    assert "was served as 2 versions, so it is not a single model: mock-1 (9), mock-2 (9)." in (
        medhelm("leaderboard", "--store", "store").out
    )
