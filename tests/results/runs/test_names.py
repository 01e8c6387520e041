"""Names without addresses: accepted wherever a model is named, and shown wherever people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.results.runs.selection import match_name
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm, assert_refused
from tests.support.servers.openai import Server

KNOWN = ["openai/letter@http://a:1/v1", "openai/letter-2@http://a:1/v1", "openai/yes@http://a:1/v1", "openai/yes"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("openai/letter@http://a:1/v1", "openai/letter@http://a:1/v1"),
        ("openai/letter", "openai/letter@http://a:1/v1"),
        ("letter-2", "openai/letter-2@http://a:1/v1"),
        ("openai/yes", "openai/yes"),
        ("openai/yes@", "openai/yes@http://a:1/v1"),
        ("yes", None),
        ("openai/l", None),
    ],
)
def test_a_name_needs_no_address(name: str, meant: str | None) -> None:
    if meant:
        assert match_name(name, KNOWN) == meant
    else:
        with pytest.raises(UserError):
            match_name(name, KNOWN)


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    """A store with two models of one server."""
    server.answer_with(lambda body: chat(perfect(question_number(body)) if body["model"] == "letter" else "A"))
    models = [f"--model=openai/{name}@{server.url}/v1" for name in ("letter", "yesno")]
    done = medhelm("run", make_benchmark(tmp_path, n=12), *models)
    assert (done.code, "openai/letter" in done.out, "127.0.0.1" in done.out) == (0, True, False)


@pytest.mark.usefixtures("store")
def test_tables_have_no_address_and_json_keeps_names(medhelm: Medhelm, server: Server) -> None:
    full = {f"openai/{name}@{server.url}/v1" for name in ("letter", "yesno")}
    reading = ("leaderboard", "compare openai/letter yesno", "compare", "power letter yesno", "cost --by run")
    for command in (*reading, "runs list --wide"):
        done = medhelm(*command.split())
        assert (done.code, "openai/letter" in done.out, "127.0.0.1" in done.out) == (0, True, False), command
    assert {row["model"] for row in medhelm("leaderboard", "--json").json["models"]} == full
    pair = medhelm("compare", "letter", "yesno", "--json").json
    assert {pair["first"], pair["second"]} == full
    assert "could be" in medhelm("compare", "openai/", "letter").err
    shown = medhelm("show", "toy", "q1", "--model", "openai/yesno", "--json").json["completions"]
    assert [one["model"] for one in shown] == [f"openai/yesno@{server.url}/v1"]


@pytest.mark.usefixtures("store")
def test_a_model_gets_a_name_on_the_command_line(medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    address = f"openai/letter@{server.url}/v1"
    for n_sent in (12, 0):
        done = medhelm("run", "./toy", "--model", f"ours={address}", "--json").json
        assert [(run["model"], run["requests_sent"]) for run in done["runs"]] == [("ours", n_sent)]
    for wrong in ("=" + address, f"a@b={address}", "ours=", "ours=baseline/majority", "ours=nothing"):
        assert_refused(medhelm("run", "./toy", "--model", wrong))
