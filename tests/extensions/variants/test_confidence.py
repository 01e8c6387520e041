"""`--prompt confidence`, `--prompt abstain`, `--logprobs` and `medhelm confidence`, with models of known behavior."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.types import Perturbation
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Answer, Server

N = 60


def is_right(number: int) -> bool:
    """True for 80% of the questions: those that the scripted models know."""
    return Random(f"seen {number}").random() < 0.8


def letter_of(number: int) -> str:
    """The letter that a scripted model answers."""
    return perfect(number) if is_right(number) else {"A": "B", "B": "A"}[perfect(number)]


def states(confidence: Callable[[int], int]) -> Callable[[dict[str, Any]], Answer]:
    """A model that states a confidence, in percent, if it is asked to."""

    def reply(body: dict[str, Any]) -> Answer:
        number = question_number(body)
        line = f"\n\nConfidence: {confidence(number)}%" if "Confidence: N%" in body["messages"][-1]["content"] else ""
        return chat(f"**{letter_of(number)}**{line}")

    return reply


def row_of(done: Any, **wanted: str) -> dict[str, Any]:
    """The only row with these values."""
    (found,) = [row for row in done["confidence"] if all(wanted[key] in row[key] for key in wanted)]
    return dict(found)


def test_stated_confidences_of_a_calibrated_and_of_an_overconfident_model(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    run = ("run", make_benchmark(tmp_path, n=N), "--store", tmp_path / "s", "--json")
    for name, confidence in {"calibrated": lambda _: 80, "sure": lambda _: 99}.items():
        server.answer_with(states(confidence))
        for prompt in ((), ("--prompt", "confidence")):
            done = succeeded(medhelm(*run, "--model", server.model(name), *prompt)).json
            score = done["runs"][0]["metrics_by_rule"]["corrected"]["exact_match"]["value"]
            assert score == pytest.approx(sum(map(is_right, range(N))) / N), "the last line is no part of the answer"
    asked = [body for body in server.bodies if "Confidence: N%" in body["messages"][-1]["content"]]
    assert len(asked) == 2 * N
    assert asked[0]["messages"][-1]["content"].endswith("\n\nAnswer:")
    assert asked[0]["max_tokens"] == 5 + 32
    found = succeeded(medhelm("confidence", "toy", "--store", tmp_path / "s", "--json")).json
    calibrated, sure = (row_of(found, model=name, source="stated") for name in ("calibrated", "sure"))
    share = sum(map(is_right, range(N))) / N
    assert calibrated["n"] == N
    assert calibrated["ece"]["low"] == 0
    assert calibrated["ece"]["value"] < 0.06
    assert calibrated["overconfidence"]["value"] == pytest.approx(0.8 - share)
    assert min(sure["ece"]["low"], sure["overconfidence"]["low"]) > 0.05
    assert sure["brier"]["value"] == pytest.approx((1 - share) * 0.99**2 + share * 0.01**2, abs=1e-6)
    assert sure["aurc"]["value"] == pytest.approx(1 - share), "one confidence for all separates nothing"
    assert [one["n"] for one in sure["curve"]] == [N]
    board = succeeded(medhelm("leaderboard", "--store", tmp_path / "s", "--json")).json
    assert len(board["models"]) == 2, "runs with another prompt do not enter the main scores"


def test_a_model_that_knows_when_it_is_right_has_a_risk_that_falls_with_coverage(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(states(lambda number: 95 if is_right(number) else 30))
    model = ("--model", server.model("knows"), "--prompt", "confidence")
    succeeded(medhelm("run", make_benchmark(tmp_path, n=N), *model, "--store", tmp_path / "s"))
    done = medhelm("confidence", "--store", tmp_path / "s", "--json")
    (row,) = succeeded(done).json["confidence"]
    share = sum(map(is_right, range(N))) / N
    assert row["accuracy_at_80"]["value"] == pytest.approx(min(1, share / 0.8), abs=1e-6)
    assert row["low_confidence"]["value"] == pytest.approx(1 - share)
    assert row["aurc"]["value"] < 0.05
    lines = succeeded(medhelm("confidence", "--store", tmp_path / "s", "--format", "csv")).out.splitlines()
    assert lines[0].split(",")[:5] == ["benchmark", "model", "source", "n", "n_without"]
    assert "ece_high" in lines[0]
    drawn = ("--wide", "--diagram", tmp_path / "reliability.svg")
    table = succeeded(medhelm("confidence", "--store", tmp_path / "s", *drawn)).out
    assert "Overconfidence" in table
    assert "Reliability" in table
    picture = ElementTree.fromstring((tmp_path / "reliability.svg").read_bytes())
    assert len(picture.findall(".//{*}circle")) == 2, "a point for each bin"
    assert "0.00 right at 0.30, 1.00 right at 0.95" in (picture.findtext("{*}desc") or "")


# --- token probabilities ----------------------------------------------------------------------------------------------


def with_logprobs(body: dict[str, Any]) -> Answer:
    """A model that is always 90% sure of its option, on a server that gives log-probabilities if asked."""
    letter = letter_of(question_number(body))
    other = {"A": "B", "B": "A"}[letter]
    if not body.get("logprobs"):
        return chat(letter)
    assert body["top_logprobs"] == 20
    shares = {letter: 0.6, f" {letter}": 0.12, other: 0.08, "The": 0.2}
    listed = [{"token": token, "logprob": math.log(share)} for token, share in shares.items()]
    return chat(letter, logprobs={"content": [{**listed[0], "top_logprobs": listed}]})


def test_token_probabilities_are_asked_for_on_request_only_and_kept(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(with_logprobs)
    run = ("run", make_benchmark(tmp_path, n=20), "--model", server.model("m"), "--store", tmp_path / "s", "--json")
    succeeded(medhelm(*run))
    assert not any("logprobs" in body for body in server.bodies)
    assert succeeded(medhelm(*run, "--logprobs")).json["requests_sent"] == 20, "other requests"
    assert succeeded(medhelm(*run, "--logprobs")).json["requests_sent"] == 0, "they are in the cache"
    assert succeeded(medhelm(*run)).json["requests_sent"] == 0, "what was bought before is valid"
    succeeded(medhelm(*run, "--logprobs", "--fresh"))
    row = row_of(succeeded(medhelm("confidence", "toy", "--store", tmp_path / "s", "--json")).json, source="tokens")
    assert row["mean_confidence"]["value"] == pytest.approx(0.9), "0.72 of 0.8: the word `The` names no option"
    (stored, *_) = [run for run in load_runs(open_store(tmp_path / "s")) if run.settings.get("logprobs")]
    (first, *_) = read_columns(stored, ["token_logprobs"])["token_logprobs"]
    assert json.loads(first)[0][0] == letter_of(0)


def test_a_server_that_refuses_log_probabilities_is_asked_without_them(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    def refuses(body: dict[str, Any]) -> Answer:
        if "logprobs" in body:
            message = "'logprobs' is not supported with this model."
            return Answer(status=400, body={"error": {"message": message, "param": "logprobs"}})
        return chat(letter_of(question_number(body)))

    server.answer_with(refuses)
    run = ("run", make_benchmark(tmp_path, n=9), "--model", server.model("m"), "--store", tmp_path / "s", "--json")
    done = succeeded(medhelm(*run, "--logprobs")).json
    assert (done["runs"][0]["n_failed"], server.count) == (0, 9 + sum("logprobs" in body for body in server.bodies))
    assert done["runs"][0]["refused_parts"] == {"logprobs": 9}
    assert_refused(medhelm("confidence", "--store", tmp_path / "s"), "no confidence in 1 run")
    found = succeeded(medhelm("confidence", "toy", "--store", tmp_path / "s", "--json")).json
    (remark,) = found["remarks"]
    assert remark.startswith(f"--logprobs brought no probability of an option for {server.model('m')}.")


# --- abstention -------------------------------------------------------------------------------------------------------


def unanswerable(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance:
    """Remove what the question is about."""
    fields = {name: f"{text} (illegible)" if name == "question" else text for name, text in instance.fields.items()}
    return Instance(
        id=instance.id, fields=fields, references=instance.references, choices=instance.choices, labels=instance.labels
    )


REMOVED = Perturbation(
    name="removed", title="Removed", description="Nothing is legible.", expectation="must_abstain", apply=unanswerable
)


def test_abstentions_are_counted_where_they_are_right_and_where_they_are_not(
    medhelm: Medhelm, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("listing", "perturbations"):
        monkeypatch.setattr(f"medhelm.extensions.variants.{place}.perturbations", lambda: {"removed": REMOVED})

    def careful(body: dict[str, Any]) -> Answer:
        text, number = body["messages"][-1]["content"], question_number(body)
        assert "`Cannot be answered` in place of an option" in text
        cannot = "(illegible)" in text and number % 10
        return chat("Cannot be answered." if cannot or number % 20 == 1 else letter_of(number))

    server.answer_with(careful)
    asked = ("--prompt", "abstain", "--perturb", "removed", "--model", server.model("careful"))
    succeeded(medhelm("run", make_benchmark(tmp_path, n=N), *asked, "--store", tmp_path / "s"))
    found = succeeded(medhelm("confidence", "--store", tmp_path / "s", "--json")).json
    rows = {row["must_abstain"]: row for row in found["abstention"]}
    assert rows[True]["abstained"]["value"] == pytest.approx(0.9)
    assert rows[True]["answered_accuracy"] is None
    assert rows[False]["abstained"]["value"] == pytest.approx(0.05)
    answered = [is_right(number) for number in range(N) if number % 20 != 1]
    assert rows[False]["answered_accuracy"]["value"] == pytest.approx(sum(answered) / len(answered), abs=1e-6)
    assert found["confidence"] == []
    text = succeeded(medhelm("confidence", "--store", tmp_path / "s")).out
    assert "decline to answer" in text


def test_confidence_of_grades_is_refused_before_anything_is_sent(medhelm: Medhelm, server: Server) -> None:
    command = ("run", "med_dialog", "--tier", "sample", "--model", server.model("m"), "--judge", server.model("j"))
    assert_refused(medhelm(*command, "--prompt", "confidence"), "a grade is not right or wrong", "Nothing was sent.")
    assert server.count == 0


def test_questions_with_a_false_premise_are_right_when_a_model_declines(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    replies = [
        "E",
        "Cannot be answered",
        "None of these doses is safe.",
        "B",
        "E. Cannot be answered",
        "FLAG",
        "A",
        "E",
    ]

    def reply(body: dict[str, Any]) -> Answer:
        assert "E. Cannot be answered" in body["messages"][-1]["content"]
        text = replies[server.count % len(replies)]
        return chat(f"{text}\nConfidence: {60 if text in 'AB' else 90}%")

    server.answer_with(reply)
    model = ("--model", server.model("m"), "--prompt", "confidence", "--concurrency", "1")
    run = medhelm("run", "adversemed_500", "--tier", "sample", *model, "--store", tmp_path / "s", "--json")
    assert succeeded(run).json["runs"][0]["metrics_by_rule"]["corrected"]["abstention"]["value"] == 0.75
    found = succeeded(medhelm("confidence", "--store", tmp_path / "s", "--json")).json
    (row,) = found["confidence"]
    assert (row["n"], row["accuracy"]["value"], row["mean_confidence"]["value"]) == (8, 0.75, pytest.approx(0.825))
    assert row["risk_coverage"] == [
        {"coverage": 0.75, "risk": 0.0, "threshold": 0.9},
        {"coverage": 1.0, "risk": 0.25, "threshold": 0.6},
    ]
    (declined,) = found["abstention"]
    assert (declined["must_abstain"], declined["abstained"]["value"]) == (True, 0.75)
