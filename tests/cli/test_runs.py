"""`medhelm runs` as people and scripts use it."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from medhelm.domain import Origin, RunStatus, Usage
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Server
from tests.support.stores import JUDGES, Scores, add_judged_runs, grades, make_store, scored_run, write_run

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


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


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


@pytest.mark.parametrize(
    ("options", "models"),
    [
        ([], ALL),
        (["--model", "openai/b"], [ALL[3], ALL[5]]),
        (["--model", "other", "--model", "base"], [ALL[1], ALL[6]]),
        (["--exclude", "openai/a", "--exclude", "openai/b"], [ALL[1], ALL[6]]),
        (["--benchmark", "pub", "--exclude", "other"], [ALL[4], ALL[5]]),
        (["--since", "2026-01-15"], [ALL[3]]),
        (["--status", "partial"], [ALL[3]]),
        (["--tier", "sample"], [ALL[1]]),
    ],
    ids=str,
)
def test_filters(store: Path, medhelm: Medhelm, options: list[str], models: list[tuple[str, str]]) -> None:
    assert sorted(listed(medhelm, *options)) == models


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "openai/"], "`openai/` could be openai/a and openai/b"),
        (["--model", "gpt"], "no run of `gpt`"),
        (["--benchmark", "medec", "--model", "other/x"], "no run meets these conditions. Models: baseline/majority,"),
        (["--status", "failed"], "Statuses: complete and partial."),
    ],
    ids=str,
)
def test_what_matches_nothing_names_what_there_is(
    store: Path, medhelm: Medhelm, options: list[str], words: str
) -> None:
    assert_refused(medhelm("runs", "list", *options), words)


def test_several_stores_and_none(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    make_store(tmp_path / "theirs", {"medec": {"z/z": [1.0]}})
    done = medhelm("runs", "list", "--store", STORE, "--store", "theirs", "--benchmark", "medec", "--format", "csv")
    assert [(row["store"], row["model"]) for row in rows(done.out)][-1] == ("theirs", "z/z")
    assert medhelm("runs", "list", "--store", "nowhere").code == 2
    make_store(tmp_path / "empty", {})
    assert medhelm("runs", "list", "--store", "empty").out == "the store has no runs; `medhelm run` adds some\n"
    assert medhelm("runs", "list", "--removed").out == "no run was removed\n"


def test_a_damaged_run_is_listed_beside_the_others_and_removed(store: Path, medhelm: Medhelm) -> None:
    (path,) = store.glob("runs/medec/openai_b-*/run.json")
    path.write_text("{", encoding="utf-8")
    done = succeeded(medhelm("runs", "list"))
    assert f"- damaged: {path.parent.relative_to(store.parent)}: run.json is damaged" in done.out
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
    assert "damage" in medhelm("runs", "show", damaged["short_id"]).out
    assert medhelm("runs", "remove", damaged["short_id"], "--yes").code == 0
    assert medhelm("leaderboard").code == 0


def facts_in(text: str) -> dict[str, str]:
    """The lines of a shown run, up to its metrics."""
    lines = text.split("\n\n")[1].splitlines()
    return {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def test_everything_about_one_run(store: Path, medhelm: Medhelm) -> None:
    text = medhelm("runs", "show", "pubmed", "openai/b").out
    facts = facts_in(text)
    assert facts["instances"] == "2, 1 failed (timeout 1)"
    assert facts["leaderboard"] == "counted"
    assert "records.parquet" in facts["files"]
    judged = medhelm("runs", "show", "aci_bench", "openai/a").out
    assert "Jury: an instance needs 2 judges" in judged
    assert all(judge in judged for judge in JUDGES)
    found = medhelm("runs", "show", "pubmed_qa", "openai/b", "--json").json
    assert {"settings", "versions", "data_digest", "failures", "tokens", "metrics_by_rule", "files"} <= set(found)
    assert medhelm("runs", "show", found["id"][:8], "--json").json == found
    assert medhelm("runs", "show", "medec", "openai/b", "--json").json["counts"] is False


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "name one run"),
        (["pubmed_qa", "openai/a", "more"], "name one run"),
        (["zzzzzz"], "no run with the id `zzzzzz`"),
        (["ab"], "too short for a run id"),
        (["pubmed_qa", "openai/"], "could be openai/a and openai/b"),
        (["pubmed_qa", "baseline/majority"], "no run meets these conditions"),
    ],
    ids=str,
)
def test_a_run_that_is_not_one(store: Path, medhelm: Medhelm, names: list[str], words: str) -> None:
    assert_refused(medhelm("runs", "show", *names), words)


def test_two_runs_of_a_model_on_a_benchmark_are_named(store: Path, medhelm: Medhelm) -> None:
    write_run(store, scored_run("pubmed_qa", "openai/a", [1.0], settings={"limit": 1}), [])
    assert_refused(medhelm("runs", "show", "pubmed_qa", "openai/a"), "2 runs of openai/a on pubmed_qa")


def test_remove_restore_and_purge(store: Path, medhelm: Medhelm) -> None:
    before = sorted(store.glob("runs/*/*/*"))
    done = succeeded(medhelm("runs", "remove", "--model", "openai/a", "--yes"))
    assert "- These 3 runs" in done.out
    removal = done.out.split("medhelm runs restore ")[1].split()[0]
    assert sorted(listed(medhelm)) == [one for one in ALL if one[1] != "openai/a"]
    assert {row["removal"] for row in rows(medhelm("runs", "list", "--removed", "--format", "csv").out)} == {removal}
    board = medhelm("leaderboard", "--json").json["models"]
    assert "openai/a" not in {row["model"] for row in board}
    done = medhelm("runs", "restore", removal, "--benchmark", "medec")
    assert "Restored 1 run." in done.out
    assert medhelm("runs", "restore", "--json").json["restored"][0]["removal"] is None
    assert sorted(store.glob("runs/*/*/*")) == before
    assert medhelm("runs", "restore").code == 2

    gone = medhelm("runs", "remove", "--all", "--yes", "--json").json
    assert (len(gone["runs"]), gone["imported"]) == (7, 1)
    assert medhelm("runs", "purge", "--older-than", "1", "--yes").out == "nothing to delete\n"
    assert listed(medhelm, "--removed")
    done = medhelm("runs", "purge", gone["removal"][:15], "--yes")
    assert done.out.startswith(f"{gone['removal']}  7 runs, ")
    assert done.out.endswith("Deleted 7 runs for good.\n")
    assert list((store / "removed").iterdir()) == []


def test_nothing_happens_without_an_answer(store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch) -> None:
    done = medhelm("runs", "remove", "--model", "openai/a")
    assert done.code == 2
    question = "Remove 3 runs? This cannot be asked without a terminal"
    assert f"{question}. Repeat the command with --yes. Nothing was removed." in done.err
    assert medhelm("runs", "remove", "--model", "openai/a", "--dry-run").code == 0
    plan = medhelm("runs", "remove", "--model", "openai/a", "--dry-run", "--json").json
    assert (plan["removal"], len(plan["runs"])) == (None, 3)
    assert len(listed(medhelm)) == 7
    for answer, left in (("n", 7), ("y", 4)):
        terminal = io.StringIO(f"{answer}\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", terminal)
        assert medhelm("runs", "remove", "--model", "openai/a").code == 0
        assert len(listed(medhelm)) == left
    monkeypatch.undo()
    monkeypatch.chdir(store.parent)
    assert medhelm("runs", "purge").code == 2
    assert len(listed(medhelm, "--removed")) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["remove"], "but only one of these"),
        (["remove", "abcdef", "--all"], "but only one of these"),
        (["remove", "--all", "--tier", "real"], "but only one of these"),
        (["remove", "abcdef", "--yes"], "no run with the id"),
        (["restore", "2026"], "no removal `2026`. There is none."),
        (["purge", "20", "--yes"], "too short for a removal"),
    ],
    ids=str,
)
def test_wrong_selections_change_nothing(store: Path, medhelm: Medhelm, arguments: list[str], words: str) -> None:
    assert_refused(medhelm("runs", *arguments), words)
    assert len(listed(medhelm)) == 7


def test_a_run_that_was_made_again_is_not_overwritten(store: Path, medhelm: Medhelm) -> None:
    assert medhelm("runs", "remove", "--benchmark", "pubmed_qa", "--yes").code == 0
    write_run(store, scored_run("pubmed_qa", "openai/a", [1.0, 0.0]), [])
    assert_refused(medhelm("runs", "restore"), "pubmed_qa with openai/a", "Remove the newer run first")
    assert listed(medhelm, "--benchmark", "pubmed_qa") == [("pubmed_qa", "openai/a")]
    assert medhelm("runs", "restore", "--exclude", "openai/a").code == 0
    assert len(listed(medhelm, "--benchmark", "pubmed_qa")) == 3


def test_a_run_in_progress_is_refused(store: Path, medhelm: Medhelm) -> None:
    with FileLock(Store(store).lock_file("medec", "openai/b")):
        done = medhelm("runs", "remove", "--all", "--yes")
    assert done.code == 2
    assert "in progress: medec with openai/b" in done.err
    assert "Nothing was removed." in done.err
    assert len(listed(medhelm)) == 7


def test_completions_stay_in_the_cache_and_releases_are_named(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(lambda _: chat("A"))
    model = f"openai/m@{server.url}/v1"
    run = ("run", "pubmed_qa", "--tier", "sample", "--model", model, "--json")
    assert medhelm(*run).json["requests_sent"] == 9
    assert medhelm("release", "first", "--tier", "sample").code == 0
    effect = medhelm("runs", "remove", "--model", "openai/m", "--dry-run").out
    assert "Of 9 completions, including those of judges, 9 stay in the cache" in effect
    assert "the unknown cost of 1 run" in effect
    assert "Release first uses 1 of these runs" in effect
    found = medhelm("runs", "remove", "--model", "openai/m", "--yes", "--json").json
    counts = ("requests", "requests_cached", "cost_unknown", "releases")
    assert [found[key] for key in counts] == [9, 9, 1, {"first": 1}]
    assert medhelm("leaderboard").code == 2
    again: Mapping[str, Any] = medhelm(*run).json
    assert again["requests_sent"] == 0
    assert json.loads((tmp_path / STORE / "releases" / "first" / "release.json").read_text())["name"] == "first"


def test_an_old_run_without_tokens_is_shown(store: Path, medhelm: Medhelm) -> None:
    write_run(store, scored_run("medbullets", "old/m", [1.0], usage=Usage(), cost_usd=None), [])
    shown = medhelm("runs", "show", "medbullets", "old/m").out
    assert {"cost": "unknown", "tokens": "0 in, 0 out"}.items() <= facts_in(shown).items()


# --- the same filters on everything that reads a store ----------------------------------------------------------------


def names_of(found: Any) -> set[str]:
    """Models in the JSON of a command."""
    return {row["model"] for row in found.get("models") or found["rows"] if row.get("model")}


@pytest.mark.parametrize("command", ["leaderboard", "cost"])
@pytest.mark.parametrize(
    ("options", "models"),
    [
        (["--model", "other", "--model", "openai/a"], {"openai/a", "other/x"}),
        (["--exclude", "other/x", "--benchmark", "pub"], {"openai/a", "openai/b"}),
        (["--since", "2026-01-01", "--exclude", "openai/b", "--exclude", "baseline/m"], {"openai/a", "other/x"}),
    ],
    ids=["model", "exclude", "since"],
)
def test_readers_leave_out_runs(
    store: Path, medhelm: Medhelm, command: str, options: list[str], models: set[str]
) -> None:
    done = succeeded(medhelm(command, "--json", *options))
    assert names_of(done.json) == models


def test_a_comparison_a_jury_an_export_and_a_report_of_some_runs(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    pairs = medhelm("compare", "--json", "--exclude", "other/x").json["models"]
    assert set(pairs) == {"openai/a", "openai/b"}
    assert medhelm("compare", "openai/a", "openai/b", "--benchmark", "pubmed_qa").code == 0
    assert medhelm("jury", "--model", "openai/a", "--json").code == 0
    assert medhelm("jury", "--since", "2026-01-15").code == 2
    assert medhelm("export", "csv", "tables", "--exclude", "other", "--benchmark", "pubmed_qa").code == 0
    exported = rows((tmp_path / "tables" / "runs.csv").read_text(encoding="utf-8"))
    assert {(row["benchmark"], row["model"]) for row in exported} == {ALL[4], ALL[5]}
    succeeded(medhelm("report", "paper", "--only", "table3", "--formats", "csv", "--model", "openai/a"))
    assert "openai/b" not in (tmp_path / "paper" / "tables" / "table3.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["leaderboard", "compare", "cost", "jury", "report paper", "export csv tables"])
def test_a_filter_that_matches_nothing_is_refused_by_every_reader(store: Path, medhelm: Medhelm, command: str) -> None:
    assert_refused(
        medhelm(*command.split(), "--model", "nothing"),
        "no run of `nothing`. Known: baseline/majority, openai/a, openai/b, other/x.",
    )


def test_what_was_spent_on_some_runs_does_not_depend_on_the_others_being_shown(store: Path, medhelm: Medhelm) -> None:
    whole = {row["model"]: row for row in medhelm("cost", "--json").json["rows"]}
    some = {row["model"]: row for row in medhelm("cost", "--json", "--model", "openai/a").json["rows"]}
    assert some == {"openai/a": whole["openai/a"]}
