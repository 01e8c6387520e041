"""`medhelm study export` and `medhelm study import`: what they print, and their exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medhelm.extensions.study.formats.exchange import rater_cases
from medhelm.extensions.study.formats.workbook import write_workbook
from medhelm.extensions.study.journal import ratings_of, record
from medhelm.extensions.study.types import CaseRating
from tests.support.cli import Medhelm, assert_refused
from tests.support.offline_studies import offline_study


def test_files_are_written_for_all_raters_or_for_one(tmp_path: Path, medhelm: Medhelm) -> None:
    where = ("--store", offline_study(tmp_path / "s")[0].folder)
    done = medhelm("study", "export", "ward", "--to", tmp_path / "all", *where)
    assert (done.code, done.out.split()) == (0, sorted(str(path) for path in (tmp_path / "all").iterdir()))
    words = ("study", "export", "ward", "--to", tmp_path / "one", "--rater", "rater_2", "--format", "redcap", *where)
    files = medhelm(*words, "--json").json["files"]
    assert files == [str(path) for path in sorted((tmp_path / "one").iterdir())]
    assert all(Path(one).name.startswith("ward-rater_2") for one in files)
    assert_refused(medhelm(*words), "may hold ratings. Choose another folder.")


def test_what_an_import_did_is_told(tmp_path: Path, medhelm: Medhelm) -> None:
    store, study = offline_study(tmp_path / "s")
    cases = rater_cases(store, study, "rater_1")
    rated = tuple(replace(one, rating=CaseRating(grades={"accurate": 4})) for one in cases.cases[:3])
    file = tmp_path / "ward-rater_1.xlsx"
    file.write_bytes(write_workbook(replace(cases, cases=(*rated, *cases.cases[3:])))[".xlsx"])
    record(store, study, "rater_1", 2, CaseRating(grades={"accurate": 1}))
    command = ("study", "import", "ward", file, "--store", store.folder)
    done = medhelm(*command)
    assert (done.code, done.out) == (1, f"{file}: rater_1, 2 new, 1 kept as they are\n")
    assert "Case 2 was rated elsewhere after this file was written. The later rating was kept." in done.err
    found = medhelm(*command, "--replace", "--json")
    lists = {"new": [], "revised": [2], "unchanged": [1, 3], "kept": [], "gone": []}
    assert (found.code, found.json) == (0, {"files": [{"file": str(file), "rater": "rater_1", **lists}]})
    assert ratings_of(store, study, "rater_1")[2].revision == 2
