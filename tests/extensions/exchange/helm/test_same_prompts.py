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
from tests.support.cli import Medhelm
from tests.support.exchange.helm import HELM, RUNS, change, content, copy_of, run_folder
from tests.support.servers.openai import Answer, Server

PUBMED = run_folder("pubmed_qa:model=mock_writer-a,model_deployment=mock")
LETTERS = run_folder("LETTERS:model=mock_writer-a")
SENT = [json.loads(line) for line in (HELM / "0.5.16" / "requests.jsonl").read_text().splitlines()]
"""What HELM itself sent for these two, as a server received it."""

VERDICT = json.dumps({name: {"score": 4, "explanation": "Why."} for name in ("accuracy", "completeness", "clarity")})


def answering(text: Callable[[str], str]) -> Callable[[dict[str, Any]], Answer]:
    """A server's behaviour: judges give one verdict, writers `text` of what they were asked."""

    def answer(body: dict[str, Any]) -> Answer:
        said = VERDICT if body["model"].startswith("judge") else text(body["messages"][-1]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        return Answer(body={"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})

    return answer


def asked(body: dict[str, Any]) -> tuple[str, object, object, object]:
    """What decides the answer to a request."""
    return json.dumps(body["messages"]), body.get("max_tokens"), body.get("temperature"), body.get("stop")


def only_run(store: Path = Path("medhelm-store")) -> Run:
    (run,) = load_runs(open_store(store))
    return run


@pytest.mark.parametrize(("folder", "start"), [(PUBMED, "Answer the invented"), (LETTERS, "Letter ")])
def test_the_requests_are_those_that_helm_sent(medhelm: Medhelm, server: Server, folder: Path, start: str) -> None:
    server.answer_with(answering(lambda prompt: "B" if "invented drug" in prompt else "Take it."))
    where = f"{server.url}/v1"
    judge = ["--judge", f"openai/judge1@{where}", "--judge", f"openai/judge2@{where}"]
    outcome = medhelm("run", "--like", folder, "--model", f"openai/writer-c@{where}", *judge, "--json")
    assert outcome.code == 0, outcome.err
    ours = [body for body in server.bodies if body["model"] == "writer-c"]
    theirs = [body for body in SENT if body["messages"][0]["content"].startswith(start)]
    assert sorted(map(asked, ours)) == sorted(map(asked, theirs))
    states = content(folder, "scenario_state.json")["request_states"]
    for state in states:
        request = state["request"]
        same = [b for b in ours if b["messages"] == [{"role": "user", "content": request["prompt"]}]]
        assert [(b["max_tokens"], b["temperature"]) for b in same] == [(request["max_tokens"], request["temperature"])]
        assert all("stop" not in b for b in same)


def test_stop_temperature_and_messages_are_sent_as_they_were(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    folder = copy_of("WARD-EM", tmp_path)

    def other(state: Any) -> None:
        for one in state["request_states"]:
            one["request"] |= {"temperature": 0.7, "stop_sequences": ["\n", "END"], "max_tokens": 33}
        state["request_states"][0]["request"]["messages"] = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Fever?"},
        ]

    change(folder, "scenario_state.json", other)
    server.answer_with(answering(lambda prompt: "Yes"))
    outcome = medhelm("run", "--like", folder, "--model", f"openai/m@{server.url}/v1", "--json")
    assert outcome.code == 0, outcome.err
    assert {(b["temperature"], tuple(b["stop"]), b["max_tokens"]) for b in server.bodies} == {(0.7, ("\n", "END"), 33)}
    roles = [[message["role"] for message in body["messages"]] for body in server.bodies]
    assert sorted(roles) == [["system", "user"], *[["user"]] * 5]
    run = only_run()
    assert (run.settings["temperature"], run.settings["stop"], run.settings["max_tokens"]) == (0.7, ["\n", "END"], 33)


def test_the_run_names_the_source_of_its_prompts(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "A"))
    medhelm("run", "--like", PUBMED, "--model", f"openai/m@{server.url}/v1")
    run = only_run()
    assert run.origin is not None
    assert (run.origin.harness, run.origin.completions_made_here, run.origin.run) == ("helm", True, f"v1/{PUBMED.name}")
    assert run.benchmark == "pubmed_qa"
    assert set(run.estimates) == {"corrected", "published"}
    assert run.estimates["published"]["exact_match"].value == pytest.approx(3 / 6)
    ids = [row["instance_id"] for row in read_records(run)]
    assert ids == [one["instance"]["id"] for one in content(PUBMED, "scenario_state.json")["request_states"]]


def test_it_is_paired_with_the_imported_run(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "A"))
    model = f"openai/m@{server.url}/v1"
    assert medhelm("import", "helm", PUBMED, "--rescore").code == 0
    medhelm("run", "--like", PUBMED, "--model", model)
    runs = load_runs(open_store(Path("medhelm-store")))
    assert len({run.data_digest for run in runs}) == 1
    outcome = medhelm("compare", "mock/writer-a", model, "--json")
    assert outcome.code == 0, outcome.err
    (pair,) = outcome.json["benchmarks"]
    assert pair["n"] == 6


def test_the_same_command_again_sends_nothing_and_rescoring_needs_no_data(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "A"))
    command = ["run", "--like", PUBMED, "--model", f"openai/m@{server.url}/v1", "--json"]
    first = medhelm(*command).json["runs"][0]
    n = server.count
    second = medhelm(*command).json["runs"][0]
    assert (server.count, second["requests_cached"]) == (n, 6)
    assert second["metrics"] == first["metrics"]
    before = only_run()
    assert medhelm("rescore").code == 0
    assert only_run().estimates == before.estimates
    assert only_run().origin == before.origin


def test_the_same_questions_of_several_runs_are_asked_once(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(answering(lambda prompt: "A"))
    for start in ("pubmed_qa:model=mock_writer-a,model_deployment=mock", "pubmed_qa:model=mock_writer-b", "WARD-EM"):
        copy_of(start, tmp_path)
    more = run_folder("medec:model=mock_writer-a")
    outcome = medhelm("run", "--like", tmp_path, "--like", more, "--model", f"openai/m@{server.url}/v1", "--json")
    assert outcome.code == 0, outcome.err
    assert sorted(run["benchmark"] for run in outcome.json["runs"]) == ["WARD-EM", "medec", "pubmed_qa"]
    assert server.count == 18


def test_a_limit_takes_the_first_instances(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "A"))
    outcome = medhelm("run", "--like", PUBMED, "--limit", "2", "--model", f"openai/m@{server.url}/v1", "--json")
    assert outcome.json["runs"][0]["n"] == server.count == 2
    assert medhelm("rescore").code == 0
    assert only_run().n == 2


def test_impossible_requests_are_refused_before_anything_is_sent(
    medhelm: Medhelm, server: Server, tmp_path: Path
) -> None:
    model = ["--model", f"openai/m@{server.url}/v1"]
    broken = copy_of("WARD-EM", tmp_path)
    (broken / "stats.json.gz").unlink()
    for arguments, text in [
        ([], "name a BENCHMARK, or a HELM run with --like"),
        (["--like", tmp_path / "nowhere"], "this folder does not exist"),
        (["--like", broken], "stats.json is missing"),
        (["--like", LETTERS], "can only be scored by judges"),
        (["--like", PUBMED, "--tier", "sample"], "--like and --tier sample cannot be combined"),
    ]:
        outcome = medhelm("run", *arguments, *model)
        assert outcome.code == 2
        assert text in outcome.err
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
    new = next(
        run
        for run in load_runs(open_store(Path("medhelm-store")))
        if run.jury_result and "9" in str(run.jury_result.jury)
    )
    assert new.jury_result is not None
    assert len(new.jury_result.jury.judges) == 4
    assert new.origin is not None
    assert new.jury_result.tallies["mock/judge1"].expected == new.jury_result.tallies["mock/judge2"].expected == 27
    scores = {row["instance_id"]: row["jury_corrected"] for row in read_records(new)}
    assert sum(score is not None for score in scores.values()) == 10


def test_all_fixtures_can_be_asked_again(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answering(lambda prompt: "no"))
    where = f"{server.url}/v1"
    outcome = medhelm(
        "run", "--like", RUNS, "--model", f"openai/m@{where}", "--judge", f"openai/judge1@{where}", "--json"
    )
    assert outcome.code in (0, 1), outcome.err
    assert {run["benchmark"] for run in outcome.json["runs"]} == {
        "LETTERS", "STAY-RG", "WARD-EM", "clear", "ehrsql", "med_dialog", "medcalc_bench", "medec", "medication_qa",
        "mimic_iv_billing_code", "pubmed_qa",
    }  # fmt: skip
    assert all(run["status"] == "complete" for run in outcome.json["runs"])
