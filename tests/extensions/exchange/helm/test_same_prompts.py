"""`run --like`: what HELM sent, sent to another model, byte for byte; and what comes of it beside the imported run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Run
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.exchange.helm import HELM, change, copy_of, run_folder
from tests.support.servers.openai import Answer, Server

PUBMED = run_folder("pubmed_qa:model=mock_writer-a,model_deployment=mock")
LETTERS = run_folder("LETTERS:model=mock_writer-a")
SENT = [json.loads(line) for line in (HELM / "0.5.16" / "requests.jsonl").read_text().splitlines()]
"""What HELM itself sent for these two, as a server received it."""

VERDICT = json.dumps({name: {"score": 4, "explanation": "Why."} for name in ("accuracy", "completeness", "clarity")})


def answering(text: Callable[[str], str]) -> Callable[[dict[str, Any]], Answer]:
    """A server's behavior: judges give one verdict, writers `text` of what they were asked."""
    return lambda body: chat(VERDICT if body["model"].startswith("judge") else text(body["messages"][-1]["content"]))


def asked(body: dict[str, Any]) -> tuple[str, object, object, object]:
    """What decides the answer to a request."""
    return json.dumps(body["messages"]), body.get("max_tokens"), body.get("temperature"), body.get("stop")


def only_run(store: Path = Path("medhelm-store")) -> Run:
    (run,) = load_runs(open_store(store))
    return run


@pytest.mark.parametrize(("folder", "start"), [(PUBMED, "Answer the invented"), (LETTERS, "Letter ")])
def test_the_requests_are_those_that_helm_sent(medhelm: Medhelm, server: Server, folder: Path, start: str) -> None:
    server.answer_with(answering(lambda prompt: "B" if "invented drug" in prompt else "Take it."))
    names = [f"openai/{name}@{server.url}/v1" for name in ("writer-c", "judge1", "judge2")]
    succeeded(medhelm("run", "--like", folder, "--model", names[0], "--judge", names[1], "--judge", names[2]))
    ours = [body for body in server.bodies if body["model"] == "writer-c"]
    theirs = [body for body in SENT if body["messages"][0]["content"].startswith(start)]
    assert sorted(map(asked, ours)) == sorted(map(asked, theirs))


def test_stop_temperature_and_messages_are_sent_as_they_were(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    folder = copy_of("WARD-EM", tmp_path)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fever?"}]

    def other(state: Any) -> None:
        for one in state["request_states"]:
            one["request"] |= {"temperature": 0.7, "stop_sequences": ["\n", "END"], "max_tokens": 33}
        state["request_states"][0]["request"]["messages"] = turns

    change(folder, "scenario_state.json", other)
    server.answer_with(answering(lambda prompt: "Yes"))
    succeeded(medhelm("run", "--like", folder, "--model", f"openai/m@{server.url}/v1"))
    assert {(b["temperature"], tuple(b["stop"]), b["max_tokens"]) for b in server.bodies} == {(0.7, ("\n", "END"), 33)}
    assert [body["messages"] for body in server.bodies].count(turns) == 1
    settings = only_run().settings
    assert (settings["temperature"], settings["stop"], settings["max_tokens"]) == (0.7, ["\n", "END"], 33)


def test_the_run_is_paired_with_the_imported_one_and_is_not_paid_for_again(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "A"))
    model = f"openai/m@{server.url}/v1"
    command = ["run", "--like", PUBMED, "--model", model, "--json"]
    first = medhelm(*command).json["runs"][0]
    run = only_run()
    assert run.origin is not None
    assert (run.origin.harness, run.origin.completions_made_here, run.origin.run) == ("helm", True, f"v1/{PUBMED.name}")
    assert run.benchmark == "pubmed_qa"
    assert run.estimates["published"]["exact_match"].value == pytest.approx(3 / 6)
    second = medhelm(*command).json["runs"][0]
    assert (server.count, second["requests_cached"], second["metrics"]) == (6, 6, first["metrics"])
    assert medhelm("rescore").code == 0
    assert (only_run().estimates, only_run().origin) == (run.estimates, run.origin), "no data is needed"
    assert medhelm("import", "helm", PUBMED, "--rescore").code == 0
    (pair,) = medhelm("compare", "mock/writer-a", model, "--json").json["benchmarks"]
    assert pair["n"] == 6
    limited = medhelm(*command, "--limit", "2", "--store", "limited").json["runs"][0]
    assert (limited["n"], server.count) == (2, 8)


def test_impossible_requests_are_refused_before_anything_is_sent(medhelm: Medhelm, server: Server) -> None:
    for arguments, text in [
        ([], "name a BENCHMARK, or a HELM run with --like"),
        (["--like", LETTERS], "can only be scored by judges"),
        (["--like", PUBMED, "--tier", "sample"], "--like and --tier sample cannot be combined"),
    ]:
        assert_refused(medhelm("run", *arguments, "--model", f"openai/m@{server.url}/v1"), text)
    assert server.count == 0


def test_another_judge_grades_the_imported_completions(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "no model is asked"))
    assert medhelm("import", "helm", LETTERS).code == 0
    outcome = medhelm("rejudge", "LETTERS", "--judge", f"openai/judge9@{server.url}/v1", "--json")
    assert outcome.code in (0, 1), outcome.err
    texts = [body["messages"][0]["content"] for body in server.bodies]
    assert len(texts) == 9, "a blank completion is shown to nobody"
    assert all(text.startswith("INVENTED: grade the answer from 1 to 5.") for text in texts)
    assert any("Letter 3 asks about drug D9." in text and "Take 3 with milk." in text for text in texts)
    juries = [(run, run.jury_result.jury) for run in load_runs(open_store(Path("medhelm-store"))) if run.jury_result]
    ((judged, jury),) = [(run, jury) for run, jury in juries if "9" in str(jury)]
    assert (len(jury.judges), judged.origin is not None) == (4, True)
    assert sum(row["jury_corrected"] is not None for row in read_records(judged)) == 10
