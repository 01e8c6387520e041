"""`medhelm runs` as people and scripts use it."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from medhelm.domain import Origin, RunStatus
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Server
from tests.support.stores import Scores, add_judged_runs, grades, make_store, scored_run, write_run

STORE = "medhelm-store"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four complete runs of 2026-01-01, a partial one of February, an imported one and a judged one."""
    folder = tmp_path / STORE

    def make() -> None:
        scores: Scores = {"pubmed_qa": {"openai/a": [1.0, 0.0], "openai/b": [1.0, None]}, "medec": {"openai/a": [1.0]}}
        make_store(folder, scores)
        write_run(folder, scored_run("medec", "baseline/majority", [1.0], tier="sample"), [])
        changes: dict[str, Any] = {"started": "2026-02-01T00:00:00+00:00", "status": RunStatus.PARTIAL}
        write_run(folder, scored_run("medec", "openai/b", [1.0], **changes), [])
        origin = Origin(harness="helm", version="0.5", run="pubmed_qa:model=x", sha256="0" * 64)
        write_run(folder, scored_run("pubmed_qa", "other/x", [1.0], origin=origin), [])
        add_judged_runs(folder, "aci_bench", grades(1, 4, ["openai/a"]), models=["openai/a"])

    made_once(tmp_path, __name__, make)
    return folder


def listed(medhelm: Medhelm, *options: str) -> list[tuple[str, str]]:
    done = succeeded(medhelm("runs", "list", "--json", *options))
    return [(run["benchmark"], run["model"]) for run in done.json["runs"]]


ALL = [
    ("aci_bench", "openai/a"),
    ("medec", "baseline/majority"),
    ("medec", "openai/a"),
    ("medec", "openai/b"),
    ("pubmed_qa", "openai/a"),
    ("pubmed_qa", "openai/b"),
    ("pubmed_qa", "other/x"),
]


def test_a_damaged_run_is_listed_beside_the_others_and_removed(store: Path, medhelm: Medhelm) -> None:
    (path,) = store.glob("runs/medec/openai_b-*/run.json")
    path.write_text("{", encoding="utf-8")
    (damaged,) = medhelm("runs", "list", "--status", "damaged", "--json").json["runs"]
    assert (damaged["benchmark"], damaged["model"], damaged["n"]) == ("medec", "openai_b", None)
    with warnings.catch_warnings():
        warnings.simplefilter("always", DamagedRunWarning)
        for command in (["leaderboard"], ["compare", "--all"], ["cost"], ["jury"], ["export", "csv", "out"]):
            done = succeeded(medhelm(*command))
            assert done.err.count("the run of openai_b on medec is left out") == 1
            assert f"medhelm runs remove {damaged['short_id']}" in done.err
        for command in (["release", "r1"], ["verify"], ["gate", "--against", "previous"]):
            assert_refused(medhelm(*command), "run.json is damaged")
    assert medhelm("runs", "remove", damaged["short_id"], "--yes").code == 0
    assert medhelm("leaderboard").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show"], "name one run"),
        (["show", "zzzzzz"], "no run with the id `zzzzzz`"),
        (["show", "ab"], "too short for a run id"),
        (["show", "pubmed_qa", "openai/"], "could be openai/a and openai/b"),
        (["show", "pubmed_qa", "baseline/majority"], "no run meets these conditions"),
        (["remove", "--all", "--tier", "real"], "but only one of these"),
        (["remove", "--all", "--yes"], "in progress: medec with openai/b."),
        (["restore", "2026"], "no removal `2026`. There is none."),
        (["purge", "20", "--yes"], "too short for a removal"),
    ],
    ids=str,
)
def test_wrong_selections_change_nothing(store: Path, medhelm: Medhelm, arguments: list[str], words: str) -> None:
    with FileLock(Store(store).lock_file("medec", "openai/b")):
        refused = medhelm("runs", *arguments)
    assert refused.code == 2
    assert words in " ".join(refused.err.split())
    assert len(listed(medhelm)) == 7


def test_remove_restore_and_purge(store: Path, medhelm: Medhelm) -> None:
    before = sorted(store.glob("runs/*/*/*"))
    done = succeeded(medhelm("runs", "remove", "--model", "openai/a", "--yes"))
    assert "- These 3 runs" in done.out
    removal = done.out.split("medhelm runs restore ")[1].split()[0]
    assert sorted(listed(medhelm)) == [one for one in ALL if one[1] != "openai/a"]
    assert listed(medhelm, "--since", "2026-01-15") == listed(medhelm, "--status", "partial") == [ALL[3]]
    assert listed(medhelm, "--tier", "sample", "--benchmark", "med", "--exclude", "openai/b") == [ALL[1]]
    shown = medhelm("runs", "show", "pubmed_qa", "openai/b", "--json").json
    assert medhelm("runs", "show", shown["id"][:8], "--json").json == shown
    board = medhelm("leaderboard", "--json").json["models"]
    assert "openai/a" not in {row["model"] for row in board}
    done = medhelm("runs", "restore", removal, "--benchmark", "medec")
    assert "Restored 1 run." in done.out
    assert medhelm("runs", "restore", "--json").json["restored"][0]["removal"] is None
    assert sorted(store.glob("runs/*/*/*")) == before
    assert medhelm("runs", "restore").code == 2

    assert medhelm("runs", "remove", "--benchmark", "pubmed_qa", "--yes").code == 0
    write_run(store, scored_run("pubmed_qa", "openai/a", [1.0, 0.0]), [])
    assert_refused(medhelm("runs", "restore"), "pubmed_qa with openai/a", "Remove the newer run first")
    gone = medhelm("runs", "remove", "--all", "--yes", "--json").json
    assert len(gone["runs"]) == 5
    assert medhelm("runs", "purge", "--older-than", "1", "--yes").out == "nothing to delete\n"
    assert listed(medhelm, "--removed")
    done = medhelm("runs", "purge", gone["removal"][:-2], "--yes")
    assert done.out.endswith("Deleted 5 runs for good.\n")
    assert not (store / "removed" / gone["removal"]).exists()


def test_nothing_happens_without_an_answer(store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch) -> None:
    done = medhelm("runs", "remove", "--model", "openai/a")
    assert done.code == 2
    question = "Remove 3 runs? This cannot be asked without a terminal"
    assert f"{question}. Repeat the command with --yes. Nothing was removed." in done.err
    plan = medhelm("runs", "remove", "--model", "openai/a", "--dry-run", "--json").json
    assert (plan["removal"], len(plan["runs"])) == (None, 3)
    assert len(listed(medhelm)) == 7
    for answer, left in (("n", 7), ("y", 4)):
        terminal = io.StringIO(f"{answer}\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", terminal)
        assert medhelm("runs", "remove", "--model", "openai/a").code == 0
        assert len(listed(medhelm)) == left


def test_completions_stay_in_the_cache_and_releases_are_named(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(lambda _: chat("A"))
    model = f"openai/m@{server.url}/v1"
    run = ("run", "pubmed_qa", "--tier", "sample", "--model", model, "--json")
    assert medhelm(*run).json["requests_sent"] == 9
    assert medhelm("release", "first", "--tier", "sample").code == 0
    effect = medhelm("runs", "remove", "--model", "openai/m", "--dry-run").out
    assert "Of 9 completions, including those of judges, 9 stay in the cache" in effect
    found = medhelm("runs", "remove", "--model", "openai/m", "--yes", "--json").json
    counts = ("requests", "requests_cached", "cost_unknown", "releases")
    assert [found[key] for key in counts] == [9, 9, 1, {"first": 1}]
    assert medhelm("leaderboard").code == 2
    assert medhelm(*run).json["requests_sent"] == 0


# --- the same filters on everything that reads a store ----------------------------------------------------------------


def test_every_reader_takes_some_runs(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    for command, key in (("leaderboard", "models"), ("cost", "rows")):
        shown = succeeded(medhelm(command, "--json", "--exclude", "other/x", "--benchmark", "pub")).json[key]
        assert {row["model"] for row in shown} == {"openai/a", "openai/b"}
    pairs = medhelm("compare", "--json", "--exclude", "other/x").json["models"]
    assert set(pairs) == {"openai/a", "openai/b"}
    assert medhelm("jury", "--since", "2026-01-15").code == 2
    assert medhelm("export", "csv", "tables", "--exclude", "other", "--benchmark", "pubmed_qa").code == 0
    with (tmp_path / "tables" / "runs.csv").open(encoding="utf-8", newline="") as file:
        assert {(row["benchmark"], row["model"]) for row in csv.DictReader(file)} == {ALL[4], ALL[5]}
    succeeded(medhelm("report", "paper", "--only", "table3", "--formats", "csv", "--model", "openai/a"))
    assert "openai/b" not in (tmp_path / "paper" / "tables" / "table3.csv").read_text(encoding="utf-8")

    said = "no run of `nothing`. Known: baseline/majority, openai/a, openai/b, other/x."
    for command in ("leaderboard", "compare", "cost", "jury", "report pages", "export csv more"):
        assert_refused(medhelm(*command.split(), "--model", "nothing"), said)
