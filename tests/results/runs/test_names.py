"""Names without addresses: accepted wherever a model is named, and shown wherever people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.domain.result import Remark
from medhelm.errors import UserError
from medhelm.results.runs.selection import match_name, renamed, short_names
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm
from tests.support.servers.openai import Server

KNOWN = ["openai/letter@http://a:1/v1", "openai/letter-2@http://a:1/v1", "openai/yes@http://a:1/v1", "openai/yes"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("openai/letter@http://a:1/v1", "openai/letter@http://a:1/v1"),
        ("openai/letter", "openai/letter@http://a:1/v1"),
        ("openai/letter-", "openai/letter-2@http://a:1/v1"),
        ("letter-2", "openai/letter-2@http://a:1/v1"),
        ("openai/yes", "openai/yes"),
        ("openai/yes@", "openai/yes@http://a:1/v1"),
        ("yes", None),
        ("openai/l", None),
        ("", None),
    ],
)
def test_a_name_needs_no_address(name: str, meant: str | None) -> None:
    if meant:
        assert match_name(name, KNOWN) == meant
    else:
        with pytest.raises(UserError):
            match_name(name, KNOWN)


def test_commands_in_remarks_keep_the_names_they_need() -> None:
    remark = Remark("x", "a@http://x:1/v1", "a@http://x:1/v1 failed. `medhelm run toy --model a@http://x:1` retries.")
    shown = renamed([remark], short_names([remark.subject]))[0]
    assert shown == Remark("x", "a", "a failed. `medhelm run toy --model a@http://x:1` retries.")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, server: Server) -> Path:
    """A store with two models of one server."""
    benchmark = make_benchmark(tmp_path, n=12)
    server.answer_with(lambda body: chat(perfect(question_number(body)) if body["model"] == "letter" else "A"))
    models = [word for name in ("letter", "yesno") for word in ("--model", f"openai/{name}@{server.url}/v1")]
    done = medhelm("run", benchmark, *models)
    assert (done.code, "openai/letter" in done.out, "127.0.0.1" in done.out) == (0, True, False)
    return tmp_path / "medhelm-store"


@pytest.mark.usefixtures("store")
def test_tables_have_no_address_and_json_keeps_names(medhelm: Medhelm, server: Server) -> None:
    full = {f"openai/{name}@{server.url}/v1" for name in ("letter", "yesno")}
    for command in (
        ("leaderboard",),
        ("compare", "openai/letter", "yesno"),
        ("compare",),
        ("power", "letter", "yesno"),
        ("cost",),
        ("cost", "--by", "run"),
        ("runs", "list", "--wide"),
    ):
        done = medhelm(*command)
        assert (done.code, "openai/letter" in done.out, "127.0.0.1" in done.out) == (0, True, False), command
    assert {row["model"] for row in medhelm("leaderboard", "--json").json["models"]} == full
    pair = medhelm("compare", "letter", "yesno", "--json").json
    assert {pair["first"], pair["second"]} == full
    assert "could be" in medhelm("compare", "openai/", "letter").err
    shown = medhelm("show", "toy", "q1", "--model", "openai/yesno", "--json").json["completions"]
    assert [one["model"] for one in shown] == [f"openai/yesno@{server.url}/v1"]
    assert medhelm("power", "--exclude", "yesno").code == 2


def test_a_report_has_no_address(medhelm: Medhelm, store: Path) -> None:
    done = medhelm("report", "report", "--formats", "md,csv,latex", "--exclude", "nothing")
    assert done.code == 2
    done = medhelm("report", "report", "--formats", "md,csv,latex,svg")
    assert done.code in (0, 4), done.err
    files = [path for path in (store.parent / "report").rglob("*") if path.is_file()]
    assert [path.name for path in files if b"127.0.0.1" in path.read_bytes()] == []
    assert any(b"openai/letter" in path.read_bytes() for path in files)


@pytest.mark.usefixtures("store")
def test_a_model_gets_a_name_on_the_command_line(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    address = f"openai/letter@{server.url}/v1"
    done = medhelm("run", tmp_path / "toy", "--model", f"ours={address}", "--json").json
    assert [(run["model"], run["requests_sent"]) for run in done["runs"]] == [("ours", 12)]
    assert medhelm("run", tmp_path / "toy", "--model", f"ours={address}", "--json").json["requests_sent"] == 0
    for wrong in ("=" + address, f"a@b={address}", "ours=", "ours=baseline/majority", "ours=nothing"):
        done = medhelm("run", tmp_path / "toy", "--model", wrong)
        assert (done.code, "Traceback" in done.err) == (2, False), wrong
