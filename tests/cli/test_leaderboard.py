"""`medhelm leaderboard` and `medhelm show`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion
from medhelm.models.cache import Cache
from medhelm.storage.store import create
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with two baselines on two benchmarks."""

    def make() -> None:
        names = [make_benchmark(tmp_path, name=name, n=30) for name in ("toy", "toy_two")]
        models = ["--model", "baseline/majority", "--model", "baseline/random"]
        assert medhelm("run", *names, *models, "--store", tmp_path / "store").code == 0

    made_once(tmp_path, __name__, make)
    return tmp_path / "store"


def test_numbers_against_a_panel_stay_when_a_model_comes(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    panel = ("--store", store, "--rank-baselines", "--panel", "baseline/majority", "--json")
    before = succeeded(medhelm("leaderboard", *panel))
    assert before.json["panel"] == ["baseline/majority"]
    medhelm("run", tmp_path / "toy", tmp_path / "toy_two", "--model", "baseline/lexical", "--store", store)
    after = medhelm("leaderboard", *panel).json
    shares = [
        {
            model["model"]: (model["win_share"], model["win_rate"], model["guarded_win_share"])
            for model in board["models"]
        }
        for board in (before.json, after)
    ]
    assert shares[0].items() <= shares[1].items()
    assert shares[0]["baseline/majority"] == (None, None, 0.5)
    (pair,) = [one for one in after["head_to_head"] if {one["a"], one["b"]} == set(shares[0])]
    own = shares[1]["baseline/random"][0]["value"]
    assert pair["win_share"] == pytest.approx(own if pair["a"] == "baseline/random" else 1 - own)
    table = medhelm("leaderboard", *panel[:-1])
    assert "against the panel: baseline/majority" in table.out
    assert "- Win shares and win rates are against a panel of 1 model: baseline/majority." in table.out
    rows = medhelm("leaderboard", *panel[:-1], "--format", "csv").out.splitlines()
    assert rows[0].endswith(",guarded_win_share,panel")
    assert rows[1].endswith(",baseline/majority")
    assert medhelm("leaderboard", "--store", store, "--json").json["panel"] is None


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        ("baseline/majorty", "`baseline/majorty` is not on the leaderboard. Did you mean `baseline/majority`?"),
        ("published", "no benchmark has both own and published results"),
        (", ,", "the list names no model"),
    ],
)
def test_an_impossible_panel_is_refused(medhelm: Medhelm, store: Path, panel: str, said: str) -> None:
    assert_refused(medhelm("leaderboard", "--store", store, "--panel", panel), said)


def test_two_stores_stand_side_by_side(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    medhelm("run", tmp_path / "toy", "--model", "baseline/majority", "--store", tmp_path / "theirs")
    board = medhelm("leaderboard", "--store", store, "--store", tmp_path / "theirs", "--json").json
    assert {model["model"] for model in board["models"]} == {
        "baseline/majority [store]",
        "baseline/random [store]",
        "baseline/majority [theirs]",
    }


def test_real_and_sample_data_are_never_mixed(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    medhelm("run", tmp_path / "toy", "--model", "baseline/lexical", "--tier", "sample", "--store", store)
    real = medhelm("leaderboard", "--store", store, "--json").json
    sample = medhelm("leaderboard", "--store", store, "--tier", "sample", "--json").json
    assert (real["tier"], {m["model"] for m in real["models"]}) == ("real", {"baseline/majority", "baseline/random"})
    assert (sample["tier"], {m["model"] for m in sample["models"]}) == ("sample", {"baseline/lexical"})
    assert "SAMPLE TIER" in medhelm("leaderboard", "--store", store, "--tier", "sample").out


def test_a_suite_file_selects_benchmarks(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# ours\ntoy_two  # the second\n", encoding="utf-8")
    board = medhelm("leaderboard", "--store", store, "--suite", "mine.txt", "--json").json
    assert [benchmark["id"] for benchmark in board["benchmarks"]] == ["toy_two"]


def test_an_unfinished_run_is_named_and_not_counted(medhelm: Medhelm, store: Path) -> None:
    for file in store.glob("runs/toy/*random*/run.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**content, "status": "partial"}), encoding="utf-8")
    board = medhelm("leaderboard", "--store", store, "--json").json
    assert {m["model"]: m["n_benchmarks"] for m in board["models"]} == {"baseline/majority": 2, "baseline/random": 1}
    assert any("toy with baseline/random" in warning for warning in board["warnings"])


def test_show_does_not_let_a_model_drive_the_terminal(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: "\x1b[2J\u202egone" + perfect(n)))
    medhelm("run", make_benchmark(tmp_path), "--model", f"openai/mock@{server.url}/v1")
    out = medhelm("show", "toy", "q1").out
    assert "\\x1b[2J\\u202egoneA" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("arguments", "said"), [(["tyo", "q1"], "Did you mean `toy`?"), (["toy", "q99"], "q99")])
def test_show_helps_with_unknown_names(medhelm: Medhelm, store: Path, arguments: list[str], said: str) -> None:
    assert_refused(medhelm("show", *arguments, "--store", store), said)


def test_an_empty_store_and_a_store_without_such_data_are_told_apart(
    medhelm: Medhelm, store: Path, tmp_path: Path
) -> None:
    create(tmp_path / "empty")
    assert "no finished run in" in medhelm("leaderboard", "--store", tmp_path / "empty").err
    assert_refused(medhelm("leaderboard", "--store", store, "--tier", "sample"), "no finished run on sample data in")


@pytest.mark.parametrize(("n", "words"), [(1, "1 completion is"), (3, "3 completions are")])
def test_completions_of_a_first_run_that_was_killed_are_mentioned(
    medhelm: Medhelm, tmp_path: Path, n: int, words: str
) -> None:
    store = create(tmp_path / "killed")
    with Cache(store.cache_file) as cache:
        for number in range(n):
            asyncio.run(cache.put(bytes([number]) * 32, Completion(text="yes"), model="openai/m"))
    said = f"{words} in the cache: repeat an interrupted command to continue it."
    for command in (["leaderboard"], ["jury"], ["export", "csv", tmp_path / "out"]):
        assert_refused(medhelm(*command, "--store", store.folder), said)
    listed = medhelm("runs", "list", "--store", store.folder)
    assert (listed.code, listed.out.splitlines()) == (0, ["the store has no runs; `medhelm run` adds some", said])


# --- failures and baselines -------------------------------------------------------------------------------------------


def run_with(medhelm: Medhelm, server: Server, folder: Path, name: str, filtered: int, broken: int) -> None:
    """Run a perfect model whose product refuses the first questions, and whose service drops the next ones."""

    def reply(body: dict[str, Any]) -> Answer:
        number = question_number(body)
        if number < filtered:
            return chat(None, finish_reason="content_filter")
        return Answer(status=400, body={}) if number < filtered + broken else chat(perfect(number))

    server.answer_with(reply)
    medhelm("run", folder, "--model", f"openai/mock-{name}@{server.url}/v1", "--model", "baseline/majority")


def cell_of(board: dict[str, Any], model: str) -> dict[str, Any]:
    (found,) = [row["benchmarks"]["toy"] for row in board["models"] if model in row["model"]]
    return dict(found)


def test_refusals_by_a_filter_count_as_wrong_and_lost_requests_as_missing(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    folder = make_benchmark(tmp_path, n=20)
    run_with(medhelm, server, folder, "timid", filtered=5, broken=2)
    found = cell_of(medhelm("leaderboard", "--json").json, "timid")
    assert (found["value"], found["n"]) == (pytest.approx(13 / 18, abs=1e-6), 18)
    assert (found["n_failed"], found["n_failed_by_model"]) == (7, 5)
    assert (found["completers"]["value"], found["completers"]["n"]) == (1.0, 13)
    assert (found["worst_case"], found["best_case"]) == (13 / 20, 15 / 20)
    without = cell_of(medhelm("leaderboard", "--completers-only", "--json").json, "timid")
    published = cell_of(medhelm("leaderboard", "--scoring", "published", "--json").json, "timid")
    assert (without["value"], published["value"]) == (1.0, 1.0)


def test_baselines_are_below_the_models_unless_they_are_ranked(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    run_with(medhelm, server, make_benchmark(tmp_path, n=20), "good", filtered=0, broken=0)
    first, last = medhelm("leaderboard", "--json").json["models"]
    assert (last["model"], last["rank"], last["win_rate"]) == ("baseline/majority", None, None)
    assert (first["rank"], first["win_rate"]) == (1, None), "there is no rival"
    ranked = medhelm("leaderboard", "--rank-baselines", "--json").json["models"]
    assert [row["rank"] for row in ranked] == [1, 2]
