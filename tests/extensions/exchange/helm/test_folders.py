"""Where runs of HELM are found, and what is said of those that cannot be read."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.extensions.exchange.helm.folders import FILES, RunFolder, UnreadableRun, find_runs
from tests.support.exchange.helm import HELM, RUNS, change, copy_of, run_folder


def names(place: Path) -> list[str]:
    return [folder.path.name for folder in find_runs(place)[0]]


def test_a_run_a_suite_and_an_output_folder_lead_to_the_same_runs() -> None:
    suite = names(RUNS)
    assert len(suite) == len([path for path in RUNS.iterdir() if path.is_dir()]) == 18
    assert names(HELM / "0.5.16") == names(HELM / "0.5.16" / "runs") == suite
    assert names(run_folder("STAY-RG")) == [run_folder("STAY-RG").name]
    assert find_runs(RUNS)[1] == []


def test_folders_without_runs_are_skipped(tmp_path: Path) -> None:
    run = copy_of("WARD-EM", tmp_path)
    for other in ("eval_cache", "groups", ".hidden"):
        shutil.copytree(run, tmp_path / "runs" / "v1" / other)
    shutil.copytree(run, tmp_path / "scenarios" / "x")
    assert names(tmp_path) == [run.name]


def test_a_release_names_its_runs_whatever_their_suites(tmp_path: Path) -> None:
    first, second = copy_of("WARD-EM", tmp_path), copy_of("STAY-RG", tmp_path, suite="v2")
    copy_of("LETTERS:model=mock_writer-a", tmp_path, suite="v3")
    release = tmp_path / "releases" / "r1"
    release.mkdir(parents=True)
    suites = {second.name: "v2", first.name: "v1", "gone:model=x": "v1"}
    (release / "runs_to_run_suites.json").write_text(json.dumps(suites))
    for place in (release, tmp_path / "releases"):
        found, missing = find_runs(place)
        assert {folder.name for folder in found} == {f"v1/{first.name}", f"v2/{second.name}"}
        ((name, why),) = missing
        assert name == "v1/gone:model=x"
        assert "r1 lists it" in why


def test_a_release_does_not_lead_out_of_its_own_runs(tmp_path: Path) -> None:
    outside = copy_of("WARD-EM", tmp_path / "elsewhere")
    release = tmp_path / "here" / "releases" / "r1"
    release.mkdir(parents=True)
    (tmp_path / "here" / "runs").mkdir()
    suites = {outside.name: "../../elsewhere/runs/v1"}
    (release / "runs_to_run_suites.json").write_text(json.dumps(suites))
    found, missing = find_runs(release)
    assert found == []
    assert len(missing) == 1


def test_a_suite_that_was_summarised_in_its_place_is_a_suite(tmp_path: Path) -> None:
    run = copy_of("WARD-EM", tmp_path)
    (run.parent / "runs_to_run_suites.json").write_text(json.dumps({run.name: "v1"}))
    assert names(run.parent) == [run.name]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (None, "", "this folder does not exist"),
        ("notes.txt", "hello", "no HELM run found"),
        ("runs_to_run_suites.json", "[1, 2]", "should map runs to suites"),
    ],
)
def test_a_folder_without_runs_is_a_user_error(tmp_path: Path, file: str | None, text: str, message: str) -> None:
    place = tmp_path / "x" / "y"
    if file:
        place.mkdir(parents=True)
        (place / file).write_text(text)
    with pytest.raises(UserError, match=message):
        find_runs(place)


def test_everything_that_is_missing_or_broken_is_named_at_once(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    (run / "per_instance_stats.json.gz").unlink()
    packed = run / "scenario_state.json.gz"
    packed.write_bytes(packed.read_bytes()[:200])
    (run / "scenario.json").write_text('{"name": ')
    (run / "stats.json.gz").write_bytes(b"no archive")
    with pytest.raises(UnreadableRun) as caught:
        RunFolder(run).read()
    text = str(caught.value)
    assert "per_instance_stats.json is missing" in text
    assert "scenario_state.json cannot be read" in text
    assert "scenario.json is not valid JSON" in text
    assert "stats.json cannot be read" in text
    assert "run_spec.json" not in text
    with pytest.raises(UnreadableRun, match=r"per_instance_stats\.json is missing"):
        RunFolder(run).spec()


def test_a_run_that_was_never_written_is_a_run_without_files(tmp_path: Path) -> None:
    (tmp_path / "runs" / "v1" / "pubmed_qa:model=mock_x").mkdir(parents=True)
    (folder,), _ = find_runs(tmp_path)
    with pytest.raises(UnreadableRun, match=r"run_spec\.json is missing; .*per_instance_stats\.json is missing"):
        folder.spec()


def test_compressed_and_plain_files_are_the_same_run(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    before = RunFolder(run).read()
    for path in list(run.glob("*.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert RunFolder(run).read() == before
    assert sorted(path.name for path in run.iterdir()) == sorted(FILES)


def test_the_digest_changes_with_any_file(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    seen = {RunFolder(run).read()[1]}
    for name in FILES:
        change(run, name, lambda data: None)
        path = run / name
        path.write_text(path.read_text() + " ")
        seen.add(RunFolder(run).read()[1])
    assert len(seen) == 1 + len(FILES)


def test_half_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    (run / "scenario.json").write_text('{"name": "\\ud83d"}')
    assert RunFolder(run).read()[0]["scenario.json"] == {"name": "\ud83d"}


def test_a_schema_beside_the_run_or_in_a_release_names_main_metrics(tmp_path: Path) -> None:
    run = copy_of("STAY-RG", tmp_path)
    assert RunFolder(run).main_metric("STAY-RG") == ""
    groups = [{"name": "STAY-RG", "environment": {"main_name": "rouge_2", "main_split": "test"}}, {"name": "other"}]
    release = tmp_path / "releases" / "r1"
    release.mkdir(parents=True)
    (release / "schema.json").write_text(json.dumps({"run_groups": groups}))
    other = copy_of("STAY-RG", tmp_path, suite="v2")
    assert RunFolder(other).main_metric("STAY-RG") == "rouge_2"
    assert RunFolder(other).main_metric("other") == ""
