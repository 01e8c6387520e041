"""`medhelm study close`, `withdraw` and `reassign`, and what the ratings then change, in plain and encrypted stores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medhelm.extensions.study.access import new_link
from medhelm.extensions.study.journal import cases_of, criteria_of_case, rater_file, read_study, record
from medhelm.extensions.study.outcome import outcome_of
from medhelm.extensions.study.types import CaseRating, Study
from medhelm.extensions.vault.commands import decrypt_store, encrypt_store
from medhelm.io.files import is_encrypted
from medhelm.storage.ratings import stored_ratings
from medhelm.storage.store import Store
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.encryption import plain_files, store_key, without_key
from tests.support.planned_studies import MODELS, rated_store
from tests.support.rated_studies import grade, make_study, new_store, rate_all

__all__ = ["store_key"]

WORDS = "Remark about a patient"


@pytest.fixture
def store(tmp_path: Path, medhelm: Medhelm) -> Store:
    """A store with a study of three models and three raters."""
    found = rated_store(tmp_path / "store", {"aci_bench": True}, n=8)
    plan = ("--raters", "3", "--cases", "5", "--instrument", "pdsqi_9", "--no-harm", "--calibration", "1")
    succeeded(medhelm("study", "new", "letters", *plan, "--store", found.folder))
    return found


def rate_cases(store: Store, study: Study, *raters: str) -> None:
    """Rate all cases of some raters, by default of all, well for the first model and badly for the last one."""
    for rater in raters or [one.id for one in study.raters]:
        for case in cases_of(store, study, rater):
            place = 2 - MODELS.index(study.item(case.items[0]).model)
            grades = {one.name: min(one.low + place, one.high) for one in criteria_of_case(store, study, case)}
            record(store, study, rater, case.number, CaseRating(grades=grades, comment=WORDS, seconds=20))


def test_a_study_is_closed_and_its_ratings_are_among_the_results(medhelm: Medhelm, store: Store) -> None:
    of_store = ("--store", store.folder)
    close = ("study", "close", "letters", *of_store)
    study = read_study(store, "letters")
    assert_refused(medhelm(*close), "has no complete rating", "Nothing was closed.")
    rate_cases(store, study, "rater_1")
    assert_refused(medhelm(*close), "are not rated (rater_2 ", "--incomplete")
    rate_cases(store, study, "rater_2", "rater_3")
    found = succeeded(medhelm(*close, "--json")).json
    assert (found["ratings"], found["n_missing"], found["closed_by"]) == (["letters"], 0, "command line")
    whole = [one for one in found["means"] if not one["criterion"]]
    assert [one["model"] for one in whole] == list(MODELS)
    assert {one["criterion"] for one in found["agreement"]} > {"", "accurate"}
    shown = succeeded(medhelm(*close)).out
    for words in (*MODELS, f"{whole[0]['mean']['value']:.3f}", "Agreement of raters", "Frozen as"):
        assert words in shown
    assert WORDS not in shown
    assert "letters" in succeeded(medhelm("agreement", "--json", *of_store)).out
    assert_refused(medhelm("study", "withdraw", "letters", "rater_1", *of_store), "is closed")
    assert_refused(medhelm("study", "close", "leters", *of_store), "Did you mean `letters`?")
    rater_file(store, "letters", "rater_1").unlink()
    assert "were changed after the close" in succeeded(medhelm("study", "status", "letters", *of_store)).out


@pytest.mark.usefixtures("same_texts")
def test_a_rater_leaves_and_others_take_over(medhelm: Medhelm, tmp_path: Path) -> None:
    study = make_study({"rater_1": ["0-1"], "rater_2": ["1-1", "1-2"], "rater_3": ["0-3"]})
    store = new_store(tmp_path / "store", study)
    of_store = ("--store", store.folder)
    assert "No case is open." in succeeded(medhelm("study", "reassign", "ward", *of_store)).out
    assert_refused(medhelm("study", "withdraw", "ward", "rater_4", *of_store), "no rater `rater_4`")
    done = succeeded(medhelm("study", "withdraw", "ward", "rater_2", "--reason", "ill", *of_store))
    assert "2 cases are open. Give them to others: medhelm study reassign ward" in done.out
    given = succeeded(medhelm("study", "reassign", "ward", "--json", *of_store)).json
    assert given == {"study": "ward", "given": {"rater_1": 1, "rater_3": 1}, "n_open": 0}
    rate_all(store, study, lambda rater, _: None if rater == "rater_2" else grade(3))
    closed = succeeded(medhelm("study", "close", "ward", "--json", *of_store)).json
    assert closed["n_missing"] == 0
    assert any("rater_2 left the study on" in text for text in closed["deviations"])
    assert "ill" not in " ".join(closed["deviations"]).split()


def test_conversions_and_an_encrypted_close_leave_no_words_in_plain_text(
    medhelm: Medhelm, store: Store, store_key: str
) -> None:
    words = (WORDS, "rater_1", "pdsqi_9")
    with without_key():
        study = read_study(store, "letters")
        rate_cases(store, study)
        new_link(store, "letters", "rater_1", by="owner")
    assert store_key
    assert {"rater_1.jsonl", "access.json"} <= {Path(name).name for name in plain_files(store.folder, *words)}
    encrypt_store(store.folder, os.environ)
    assert plain_files(store.folder, *words) == []
    closed = succeeded(medhelm("study", "close", "letters", "--json", "--store", store.folder)).json
    assert plain_files(store.folder, *words) == []
    ratings = [path for path in store.folder.glob("ratings/*/*") if path.is_file()]
    assert ratings and all(map(is_encrypted, ratings))
    decrypt_store(store.folder, os.environ)
    with without_key():
        found = outcome_of(store, read_study(store, "letters"))
        assert (found.digest, found.deviations) == (closed["digest"], ())
        assert [one.card.name for one in stored_ratings(store)] == ["letters"]


def test_a_purge_of_the_store_reaches_the_study(medhelm: Medhelm, store: Store) -> None:
    study = read_study(store, "letters")
    rate_cases(store, study)
    instance = study.items[0].instance_id
    n_before = sum(path.read_text(encoding="utf-8").count(WORDS) for path in store.folder.rglob("raters/*.jsonl"))
    succeeded(medhelm("purge", "--instance", f"aci_bench:{instance}", "--yes", "--store", store.folder))
    left = sum(path.read_text(encoding="utf-8").count(WORDS) for path in store.folder.rglob("raters/*.jsonl"))
    assert 0 < left < n_before
    found = succeeded(medhelm("study", "status", "letters", "--json", "--store", store.folder)).json
    assert any("deleted or generated anew" in text for text in found["deviations"])
