"""`medhelm leaderboard` and `medhelm show`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion
from medhelm.models.cache import Cache
from medhelm.storage.store import create
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Answer, Server


def test_numbers_against_a_panel_stay_when_a_model_comes(medhelm: Medhelm, tmp_path: Path) -> None:
    run = ("run", *(make_benchmark(tmp_path, name=name, n=30) for name in ("toy", "toy_two")))
    medhelm(*run, "--model", "baseline/majority", "--model", "baseline/random")
    panel = ("--rank-baselines", "--panel", "baseline/majority", "--json")
    before = succeeded(medhelm("leaderboard", *panel))
    assert before.json["panel"] == ["baseline/majority"]
    medhelm(*run, "--model", "baseline/lexical")
    after = medhelm("leaderboard", *panel).json
    shares = [
        {model["model"]: (model["win_share"], model["win_rate"]) for model in board["models"]}
        for board in (before.json, after)
    ]
    assert shares[0].items() <= shares[1].items()
    assert shares[0]["baseline/majority"] == (None, None)
    assert "against the panel: baseline/majority" in medhelm("leaderboard", *panel[:-1]).out
    wrong = medhelm("leaderboard", "--panel", "baseline/majorty")
    assert_refused(wrong, "`baseline/majorty` is not on the leaderboard. Did you mean `baseline/majority`?")


def test_real_and_sample_data_are_never_mixed(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path), "--model", "baseline/majority")
    assert_refused(medhelm("leaderboard", "--tier", "sample"), "no finished run on sample data in")
    medhelm("run", "./toy", "--model", "baseline/lexical", "--tier", "sample")
    for tier, model in (("real", "baseline/majority"), ("sample", "baseline/lexical")):
        board = medhelm("leaderboard", "--tier", tier, "--json").json
        assert (board["tier"], [row["model"] for row in board["models"]]) == (tier, [model])
    assert medhelm("leaderboard", "--json").json["tier"] == "real"
    assert "SAMPLE TIER" in medhelm("leaderboard", "--tier", "sample").out


def test_show_does_not_let_a_model_drive_the_terminal(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: "\x1b[2J\u202egone" + perfect(n)))
    medhelm("run", make_benchmark(tmp_path), "--model", f"openai/mock@{server.url}/v1")
    out = medhelm("show", "toy", "q1").out
    assert "\\x1b[2J\\u202egoneA" in out
    assert "\x1b" not in out
    assert_refused(medhelm("show", "tyo", "q1"), "Did you mean `toy`?")


def test_completions_of_a_first_run_that_was_killed_are_mentioned(medhelm: Medhelm, tmp_path: Path) -> None:
    store = create(tmp_path / "killed")
    assert "no finished run in" in medhelm("leaderboard", "--store", store.folder).err
    with Cache(store.cache_file) as cache:
        for number in range(3):
            asyncio.run(cache.put(bytes([number]) * 32, Completion(text="yes"), model="openai/m"))
    said = "3 completions are in the cache: repeat an interrupted command to continue it."
    for command in (["leaderboard"], ["jury"], ["export", "csv", tmp_path / "out"]):
        assert_refused(medhelm(*command, "--store", store.folder), said)
    listed = medhelm("runs", "list", "--store", store.folder)
    assert (listed.code, listed.out.splitlines()) == (0, ["the store has no runs; `medhelm run` adds some", said])


# --- failures and baselines -------------------------------------------------------------------------------------------


def test_refusals_by_a_filter_count_as_wrong_and_lost_requests_as_missing(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        """A perfect model whose product refuses the first questions, and whose service drops the next ones."""
        number = question_number(body)
        if number < 5:
            return chat(None, finish_reason="content_filter")
        return Answer(status=400, body={}) if number < 7 else chat(perfect(number))

    server.answer_with(reply)
    medhelm("run", make_benchmark(tmp_path, n=20), "--model", server.model(), "--model", "baseline/majority")

    def cell(*options: str) -> dict[str, Any]:
        first, last = medhelm("leaderboard", "--json", *options).json["models"]
        assert (first["rank"], last["model"], last["rank"]) == (1, "baseline/majority", None)
        return dict(first["benchmarks"]["toy"])

    found = cell()
    assert (found["value"], found["n"]) == (pytest.approx(13 / 18, abs=1e-6), 18)
    assert (found["n_failed"], found["n_failed_by_model"]) == (7, 5)
    assert (found["completers"]["value"], found["completers"]["n"]) == (1.0, 13)
    assert (found["worst_case"], found["best_case"]) == (13 / 20, 15 / 20)
    assert [cell("--completers-only")["value"], cell("--scoring", "published")["value"]] == [1.0, 1.0]
    ranked = medhelm("leaderboard", "--rank-baselines", "--json").json["models"]
    assert [row["rank"] for row in ranked] == [1, 2]
