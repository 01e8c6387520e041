"""`medhelm study new`, `status` and `instruments`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm.extensions.study.instruments import instrument_names
from medhelm.extensions.study.journal import read_study, record, studies
from medhelm.extensions.study.types import CaseRating
from medhelm.storage.store import Store
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.planned_studies import MODELS, plain_text, rated_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which one model names itself."""

    def text(name: str, model: str, number: int) -> str:
        return plain_text(name, model, number) + " I am Rocket 7b." * (model == MODELS[0])

    return rated_store(tmp_path / "store", {"aci_bench": True}, text, n=20)


def test_a_preview_shows_work_precision_and_flagged_completions_and_saves_nothing(
    medhelm: Medhelm, store: Store
) -> None:
    done = succeeded(
        medhelm("study", "new", "letters", "--raters", "2", "--cases", "10", "--preview", "--store", store.folder)
    )
    assert "Letters: 30 completions of 3 models on aci_bench, and 3 cases for calibration." in done.out
    assert "rater_2" in done.out
    assert "Expected 95% interval of a model's mean: ±" in done.out
    assert "- Left out, because they are baselines: baseline/majority." in done.out
    assert 'acme/rocket-7b, names its own model: 11 of 11 completions, "Rocket 7b"' in done.err
    assert "Nothing was saved" in done.err
    assert studies(store) == []


def test_a_plan_is_saved_once(medhelm: Medhelm, store: Store) -> None:
    words = ("study", "new", "letters", "--rater", "anna:cardiology", "--rater", "ben", "--cases", "6", "--no-harm")
    found = succeeded(medhelm(*words, "--json", "--store", store.folder)).json
    assert found["is_saved"]
    assert (found["study"], found["n_cases"], found["models"]) == ("letters", 18, list(MODELS))
    assert {one["kind"] for one in found["findings"]} == {"own_name", "signature"}
    assert sum(one["n_cases"] for one in found["raters"]) == found["n_ratings"]
    study = read_study(store, "letters")
    assert [rater.role for rater in study.raters] == ["cardiology", ""]
    assert not study.asks_harm
    assert_refused(medhelm(*words, "--store", store.folder), "already has a study `letters`")


def test_wrong_options_are_named_together_with_exit_code_2(medhelm: Medhelm, store: Store) -> None:
    done = medhelm("study", "new", "Letters", "--benchmark", "aci_benc", "--shared", "0.5", "--store", store.folder)
    assert_refused(done, "name: `Letters`", "rater: none is given", "Did you mean `aci_bench`?", "Nothing was saved.")
    assert_refused(medhelm("study", "new", "x", "--shared", "2", "--store", store.folder), "--shared")


def test_status_lists_studies_and_shows_what_raters_have_done(medhelm: Medhelm, store: Store) -> None:
    assert "no studies" in succeeded(medhelm("study", "status", "--store", store.folder)).out
    succeeded(medhelm("study", "new", "letters", "--raters", "2", "--cases", "4", "--store", store.folder))
    study = read_study(store, "letters")
    grades = {"accuracy": 4, "completeness": 3, "clarity": 5, "harm_severity": 0, "harm_likelihood": 1}
    for rater in ("rater_1", "rater_2"):
        record(store, study, rater, 1, CaseRating(grades=grades, seconds=30))
    (one,) = succeeded(medhelm("study", "status", "--json", "--store", store.folder)).json["studies"]
    assert (one["study"], one["state"], one["n_complete"]) == ("letters", "rating", 2)
    found = succeeded(medhelm("study", "status", "letters", "--json", "--store", store.folder)).json
    assert [(row["rater"], row["n_complete"]) for row in found["raters"]] == [("rater_1", 1), ("rater_2", 1)]
    assert found["agreement"][0].keys() == {"criterion", "n", "n_raters", "alpha", "same", "near"}
    shown = succeeded(medhelm("study", "status", "letters", "--store", store.folder)).out
    assert f"rating, 2 of {found['n_cases']} cases rated" in shown
    assert all(model not in shown for model in MODELS)
    assert_refused(medhelm("study", "status", "leters", "--store", store.folder), "Did you mean `letters`?")


def test_the_keys_of_json_are_documented(medhelm: Medhelm, store: Store) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "rate_with_clinicians.md").read_text(encoding="utf-8")
    words = ("new", "letters", "--raters", "2", "--cases", "4", "--store", store.folder)
    for command in (words, ("status", "--store", store.folder), ("status", "letters", "--store", store.folder),
                    ("instruments",), ("instruments", "quest")):  # fmt: skip
        found = succeeded(medhelm("study", *command, "--json")).json
        inner = [one for value in found.values() if isinstance(value, list) for one in value if isinstance(one, dict)]
        for keys in (found, *inner):
            assert set(keys) <= set(re.findall(r"`(\w+)`", page)), command[0]


def test_instruments_are_listed_shown_and_checked(medhelm: Medhelm, tmp_path: Path) -> None:
    found = succeeded(medhelm("study", "instruments", "--json")).json["instruments"]
    assert [one["name"] for one in found] == instrument_names()
    shown = succeeded(medhelm("study", "instruments", "omission_commission")).out
    assert "omission, 0 to 3, lower is better: How severe is the worst omission?" in shown
    file = tmp_path / "form.yaml"
    file.write_text("name: form\ntitle: Form\nform: grades\ncriteria:\n  a:\n    question: Good?\n")
    assert_refused(medhelm("study", "instruments", str(file)), "criteria.a.anchors: say in words what 1 and 5 mean.")
