"""Where runs of HELM are found, and what is said of those that cannot be read."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.extensions.exchange.helm.folders import FILES, RunFolder, UnreadableRun, find_runs
from tests.support.exchange.helm import HELM, RUNS, copy_of, run_folder


def names(place: Path) -> list[str]:
    return [folder.path.name for folder in find_runs(place)[0]]


def test_a_run_a_suite_and_an_output_folder_lead_to_the_same_runs() -> None:
    suite = names(RUNS)
    assert len(suite) == len([path for path in RUNS.iterdir() if path.is_dir()]) == 18
    assert names(HELM / "0.5.16") == names(HELM / "0.5.16" / "runs") == suite
    assert names(run_folder("STAY-RG")) == [run_folder("STAY-RG").name]
    assert find_runs(RUNS)[1] == []


def test_folders_without_runs_are_skipped_and_a_suite_summarised_in_its_place_is_a_suite(tmp_path: Path) -> None:
    run = copy_of("WARD-EM", tmp_path)
    for other in ("eval_cache", ".hidden"):
        shutil.copytree(run, tmp_path / "runs" / "v1" / other)
    shutil.copytree(run, tmp_path / "scenarios" / "x")
    assert names(tmp_path) == [run.name]
    (run.parent / "runs_to_run_suites.json").write_text(json.dumps({run.name: "v1"}))
    assert names(run.parent) == [run.name]


def test_a_release_names_its_runs_whatever_their_suites_but_leads_nowhere_else(tmp_path: Path) -> None:
    first, second = copy_of("WARD-EM", tmp_path), copy_of("STAY-RG", tmp_path, suite="v2")
    copy_of("LETTERS:model=mock_writer-a", tmp_path, suite="v3")
    outside = copy_of("medec:model=mock_writer-a", tmp_path / "elsewhere")
    release = tmp_path / "releases" / "r1"
    release.mkdir(parents=True)
    suites = {second.name: "v2", first.name: "v1", "gone:model=x": "v1", outside.name: "../elsewhere/runs/v1"}
    (release / "runs_to_run_suites.json").write_text(json.dumps(suites))
    for place in (release, tmp_path / "releases"):
        found, missing = find_runs(place)
        assert {folder.name for folder in found} == {f"v1/{first.name}", f"v2/{second.name}"}
        assert len(missing) == 2
        assert "r1 lists it" in dict(missing)["v1/gone:model=x"]


def test_a_folder_without_runs_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this folder does not exist"):
        find_runs(tmp_path / "x")
    with pytest.raises(UserError, match="no HELM run found"):
        find_runs(tmp_path)
    (tmp_path / "runs_to_run_suites.json").write_text("[1, 2]")
    with pytest.raises(UserError, match="should map runs to suites"):
        find_runs(tmp_path)


def test_everything_that_is_missing_or_broken_is_named_at_once(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    (run / "per_instance_stats.json.gz").unlink()
    packed = run / "scenario_state.json.gz"
    packed.write_bytes(packed.read_bytes()[:200])
    (run / "scenario.json").write_text('{"name": ')
    (run / "stats.json.gz").write_bytes(b"no archive")
    with pytest.raises(UnreadableRun) as caught:
        RunFolder(run).read()
    for words in ("per_instance_stats.json is missing", "scenario_state.json cannot be read", "stats.json cannot be"):
        assert words in str(caught.value)
    assert "scenario.json is not valid JSON" in str(caught.value)
    assert "run_spec.json" not in str(caught.value)


def test_plain_files_are_the_same_run_and_the_digest_changes_with_any_file(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    before = RunFolder(run).read()
    for path in run.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert RunFolder(run).read() == before
    digests = {before[1]}
    for name in FILES:
        (run / name).write_text((run / name).read_text() + " ")
        digests.add(RunFolder(run).read()[1])
    assert len(digests) == 1 + len(FILES) == 6
