"""A study is planned from the runs of a store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import UserError
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.journal import read_study, write_study
from medhelm.extensions.study.plans.planning import PlannedStudy, PlanOptions, plan_study
from medhelm.extensions.study.texts import CaseGoneError, case_texts, completion_of
from medhelm.extensions.study.types import CaseKind, InstrumentForm, Rater
from medhelm.storage.store import Store
from tests.support.planned_studies import MODELS, definitions, plain_text, rated_store

BOTH = {"aci_bench": True, "medication_qa": True}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with two judged benchmarks, one of checks, and one that nobody judged and no definition describes."""
    return rated_store(tmp_path_factory.mktemp("store"), {**BOTH, "healthbench": True, "own_letters": False})


def planned(store: Store, **options: Any) -> PlannedStudy:
    """Plan a study with three raters."""
    given = {"name": "letters", "n_raters": 3, "n_cases": 10, **options}
    return plan_study(store, definitions(), PlanOptions(**given))


def test_a_plan_draws_the_same_instances_for_all_models_and_no_baseline(store: Store) -> None:
    found = planned(store)
    study = found.study
    assert study.models == MODELS
    assert set(study.benchmarks) == set(BOTH)
    given = {item for own in study.assignments.values() for one in own for item in one.items}
    assert given == {item.id for item in study.items}
    first = {one.items[0] for one in study.assignments["rater_1"][:3]}
    main = [item for item in study.items if item.id not in first]
    by_model = {model: sorted((i.benchmark, i.instance_id) for i in main if i.model == model) for model in MODELS}
    assert by_model[MODELS[0]] == by_model[MODELS[1]] == by_model[MODELS[2]]
    assert Counter(item.model for item in main) == dict.fromkeys(MODELS, 10)
    assert Counter(item.benchmark for item in main) == {"aci_bench": 15, "medication_qa": 15}
    assert {item.probability for item in main} == {5 / 30}
    calibration = {(item.benchmark, item.instance_id) for item in study.items if item.id in first}
    assert not calibration & {(item.benchmark, item.instance_id) for item in main}
    assert len(calibration) == 3
    assert [one.code for one in found.remarks] == ["baselines_left_out", "checks_left_out"]
    assert found.n_ratings == sum(map(len, study.assignments.values()))
    assert sum(one.hours for one in found.workloads) > 0


def test_equal_options_give_equal_plans_and_names_of_items_do_not_follow_from_what_they_hold(store: Store) -> None:
    one, other = (planned(store, seed=7).study for _ in range(2))
    assert replace(one, created="") == replace(other, created="")
    assert len({item.id for item in one.items} & {item.id for item in planned(store, seed=8).study.items}) == 0
    assert [len(item.id) for item in one.items] == [16] * len(one.items)


def test_a_saved_plan_is_read_back_and_its_texts_are_those_that_were_drawn(store: Store, tmp_path: Path) -> None:
    study = planned(store, name="saved", show_reference=True).study
    write_study(store, study)
    assert read_study(store, "saved") == study
    case = study.assignments["rater_2"][4]
    shown = case_texts(store, study, case)
    item = study.item(case.items[0])
    assert shown.completions == (f"Plan\n\n• Day {item.instance_id[1:]}: see the {item.benchmark} clinic about case "
                                 f"{len(item.model)}.",)  # fmt: skip
    assert shown.question == f"A consumer asks about case {item.instance_id[1:]}."
    assert shown.references == (f"Right {item.instance_id[1:]}",)
    assert [one.name for one in shown.criteria] == ["accuracy", "completeness", "clarity", *(one.name for one in HARM)]
    assert completion_of(store, study, item) == plain_text(item.benchmark, item.model, int(item.instance_id[1:]))
    with pytest.raises(UserError, match="already has a study `saved`"):
        planned(store, name="saved")


def test_a_case_whose_completion_was_replaced_or_deleted_is_gone(tmp_path: Path) -> None:
    store = rated_store(tmp_path, {"aci_bench": True}, n=12)
    study = planned(store, n_cases=4).study
    rated_store(tmp_path, {"aci_bench": True}, lambda *key: plain_text(*key) + " Changed.", n=12)
    with pytest.raises(CaseGoneError, match="replaced"):
        case_texts(store, study, study.assignments["rater_1"][0])
    for file in tmp_path.glob("runs/*/*/records.parquet"):
        file.unlink()
    with pytest.raises(CaseGoneError, match="deleted"):
        case_texts(store, study, study.assignments["rater_1"][0])


def test_preferences_compare_each_pair_of_models_equally_often_and_do_not_ask_for_harm(store: Store) -> None:
    study = planned(store, instrument="preference", benchmarks=("own_letters",), n_cases=12, repeated=0).study
    pairs: Counter[frozenset[str]] = Counter()
    for own in study.assignments.values():
        for one in own:
            left, right = (study.item(item) for item in one.items)
            assert left.instance_id == right.instance_id
            if one.kind is CaseKind.SINGLE:
                pairs[frozenset((left.model, right.model))] += 1
    assert len(pairs) == 3
    assert study.design.n_cases == 12
    assert not study.asks_harm
    assert len(case_texts(store, study, study.assignments["rater_1"][0]).completions) == 2


def test_checks_take_the_criteria_of_each_instance(store: Store) -> None:
    study = planned(store, benchmarks=("healthbench",), asks_harm=False).study
    assert study.instruments["healthbench"].form is InstrumentForm.CHECKS
    criteria = case_texts(store, study, study.assignments["rater_1"][0]).criteria
    assert [(one.name, one.points, one.higher_is_better) for one in criteria] == [
        ("c0", 5.0, True),
        ("c1", -3.0, False),
    ]


def test_the_number_of_cases_follows_from_the_precision(store: Store) -> None:
    found = planned(store, n_cases=None, precision=0.6, n_raters=4)
    assert found.precision
    assert found.precision.without_raters < found.precision.half_width <= 0.6
    assert found.study.design.n_cases % len(MODELS) == 0
    fewer = planned(store, n_cases=found.study.design.n_cases // len(MODELS) - 1, n_raters=4).precision
    assert fewer
    assert fewer.half_width > 0.6


def test_instances_with_flagged_completions_are_left_out_for_all_models(tmp_path: Path) -> None:
    def text(name: str, model: str, number: int) -> str:
        return plain_text(name, model, number) + (
            " As an AI, I cannot know." if number % 2 and model == MODELS[0] else ""
        )

    store = rated_store(tmp_path, {"aci_bench": True}, text, n=24)
    assert planned(store, n_cases=8).findings
    found = planned(store, n_cases=8, exclude_flagged=True)
    assert found.findings == ()
    assert all(int(item.instance_id[1:]) % 2 == 0 for item in found.study.items)
    assert found.remarks[-1].code == "excluded_instances"
    with pytest.raises(UserError, match="acme/rocket-7b has 12 completions, and 2 other models too few"):
        planned(store, n_cases=13, exclude_flagged=True)


def test_a_model_without_a_run_on_a_benchmark_gets_fewer_cases(tmp_path: Path) -> None:
    rated_store(tmp_path, {"aci_bench": True}, models=MODELS)
    store = rated_store(tmp_path, {"medication_qa": True}, models=MODELS[:2])
    found = planned(store, n_cases=8, n_calibration=0, repeated=0.0)
    assert Counter(item.model for item in found.study.items) == {MODELS[0]: 8, MODELS[1]: 8, MODELS[2]: 4}
    assert [str(one) for one in found.remarks] == [
        "There are fewer cases of some models, without a comparable run: openai/gpt-4o on medication_qa."
    ]


def test_blank_and_failed_completions_are_not_rated(tmp_path: Path) -> None:
    def text(name: str, model: str, number: int) -> str | None:
        return ("", None, "<think>Hm</think> ", plain_text(name, model, number))[min(number, 3)]

    found = planned(rated_store(tmp_path, {"aci_bench": True}, text), n_cases=27, n_calibration=2)
    assert not {"i0", "i1", "i2"} & {item.instance_id for item in found.study.items}
    assert [one.code for one in found.remarks] == ["baselines_left_out", "blank_completions", "fewer_calibration_cases"]


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, set()),
        ({"n_raters": 2}, {"these_raters_only"}),
        ({"shared": 0.0}, {"no_shared_cases"}),
        ({"n_raters": 1, "shared": 0.0}, set()),
        ({"n_cases": 2}, {"no_repeated_cases"}),
        ({"n_calibration": 100}, {"fewer_calibration_cases"}),
    ],
)
def test_limits_of_a_plan_are_remarks(store: Store, options: dict[str, Any], codes: set[str]) -> None:
    usual = {"baselines_left_out", "checks_left_out"}
    assert {one.code for one in planned(store, **{"repeated": 0.3, **options}).remarks} - usual == codes


def test_raters_have_roles_names_and_users_and_adjudicators_no_cases(store: Store) -> None:
    raters = ("anna:cardiology:a.berg", Rater(id="ben", name="Ben"))
    study = planned(store, n_raters=None, raters=raters, adjudicators=("eva:medicine",)).study
    anna, ben, eva = study.raters
    assert (anna.id, anna.role, anna.user, ben.name) == ("anna", "cardiology", "a.berg", "Ben")
    assert (eva.is_adjudicator, study.assignments["eva"]) == (True, ())


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"name": "My study"}, ["name: `My study` must be snake case"]),
        ({"n_raters": None}, ["rater: none is given."]),
        ({"n_raters": 1}, ["rater: a shared case needs 2, not 1."]),
        ({"n_raters": None, "raters": ("a", "a", "B")}, ["rater: `a` is given 2 times.", "rater: `B` must have"]),
        ({"benchmarks": ("aci_benc",)}, ["no complete run of `aci_benc`. Did you mean `aci_bench`?"]),
        ({"models": ("gpt",), "benchmarks": ("aci_bench",)}, ["model: no run of `gpt`."]),
        ({"benchmarks": ("own_letters",)}, ["own_letters: its definition, which has the rubric, was not found."]),
        ({"instrument": "rubrik"}, ["instrument: `rubrik` is unknown. Did you mean `rubric`?"]),
        ({"instrument": "healthbench", "benchmarks": ("aci_bench",)}, ["aci_bench: its rubric has grades"]),
        ({"benchmarks": ("aci_bench", "healthbench")}, ["one study has one form of rating"]),
        ({"instrument": "preference", "models": (MODELS[0],)}, ["a preference compares two models or more"]),
        ({"n_cases": 500}, ["cases: 250 of each model are wanted on aci_bench; acme/rocket-7b has 30 completions"]),
        ({"n_cases": 1}, ["cases: 1 for each model are too few for 2 benchmarks."]),
        ({"precision": 0.3}, ["cases: follow from --precision."]),
        ({"n_cases": None, "precision": 0.1}, ["precision: ± 0.1 cannot be reached with 3 raters"]),
        ({"n_cases": None, "precision": 1.0, "instrument": "pdsqi_9"}, ["precision: is for grades on one scale."]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_a_fix(store: Store, options: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        planned(store, **options)
    assert all(one in str(raised.value) for one in problems)
    assert str(raised.value).endswith("Nothing was saved.")
