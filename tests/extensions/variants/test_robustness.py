"""The robustness report on scripted models: each comes out as what it is, in every format."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.comparison.non_inferiority import paired_change
from medhelm.domain import Benchmark, Estimate, Instance
from medhelm.extensions.variants import perturbations
from medhelm.extensions.variants.report import section
from medhelm.extensions.variants.robustness import equivalence, needed_for_equivalence
from medhelm.extensions.variants.thresholds import THRESHOLDS, Measured, judged, largest_gap, rate
from medhelm.extensions.variants.types import Perturbation
from medhelm.results.options import BoardOptions
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.definitions import write_folder
from tests.support.benchmarks.judged import verdict
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server
from tests.support.web.sites import make_client

DEFINITION = """\
name: vignettes
title: Vignettes
description: Toy questions with four options.
taxonomy: {category: clinical_decision_support, subcategory: planning_treatments, task: Play}
access: public
license: CC0-1.0
source: {kind: jsonl, files: {rows.jsonl: ""}}
id: id
choices: {columns: [a, b, c, d]}
answer: {column: key, form: letter}
prompt: |
  {question}
  {options}
  Answer:
max_tokens: 5
metrics: [exact_match]
"""

N = 24
MODELS = ("first", "steady", "biased", "dice")


# --- perturbations whose effect is known ------------------------------------------------------------------------------


def _rotated(by: int) -> Perturbation:
    def apply(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance:
        choices = (*instance.choices[by:], *instance.choices[:by])
        order = {text: place for place, text in enumerate(choices)}
        references = sorted(instance.references, key=lambda one: order[one.text])
        return replace(instance, choices=choices, references=tuple(references))

    name = f"options_rotated_{by}"
    return Perturbation(name=name, title=name, description=name, expectation="invariant", apply=apply)


def _named(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance:
    return replace(instance, fields={**instance.fields, "question": f"Jamal asks: {instance.fields['question']}"})


NAME = Perturbation(name="name", title="Name", description="Adds a name.", expectation="invariant", apply=_named)
AGAIN = replace(_rotated(1), name="options_shuffled")  # an order that another one also has
KNOWN = {one.name: one for one in (*map(_rotated, (1, 2, 3)), AGAIN, NAME)}


def _withheld(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance:
    return replace(instance, fields={**instance.fields, "question": "The case is withheld."})


WITHHELD = Perturbation(name="withheld", title="", description="", expectation="must_abstain", apply=_withheld)


@pytest.fixture(autouse=True)
def known_perturbations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use these perturbations alone."""
    for module in ("medhelm.extensions.variants.listing", perturbations.__name__):
        monkeypatch.setattr(f"{module}.perturbations", lambda: {**KNOWN, "withheld": WITHHELD})


# --- scripted models --------------------------------------------------------------------------------------------------


def _right(body: Mapping[str, Any]) -> str:
    """Return the letter of the correct option."""
    lines: list[str] = body["messages"][-1]["content"].splitlines()
    return next(line[0] for line in lines if line[1:].startswith(". right"))


def _answer(body: Mapping[str, Any]) -> Answer:
    """`first` says A, `steady` is right, `biased` is right unless a name is in the question, `dice` throws dice."""
    text, model, right = body["messages"][-1]["content"], body["model"], _right(body)
    if model == "dice":
        thrown = hashlib.sha256(f"{body['seed']} {text}".encode()).digest()[0]
        return chat("ABCD"[thrown % 4])
    if model == "first" or (model == "biased" and "Jamal" in text):
        return chat("A" if model == "first" or right != "A" else "B")
    return chat(right)


def _rows(n: int = N) -> list[dict[str, str]]:
    rows = []
    for number in range(n):
        texts = [f"wrong {letter}{number}" for letter in "xyz"]
        texts.insert(number % 4, f"right {number}")
        key = "ABCD"[number % 4]
        options = dict(zip("abcd", texts, strict=True))
        rows.append({"id": f"v{number}", "question": f"Case {number}?", "key": key, **options})
    return rows


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, server: Server) -> Path:
    """The models with three samples, all orders of options, and a name. An order that is shown twice is bought once."""

    def make() -> None:
        server.answer_with(_answer)
        benchmark = write_folder(tmp_path / "vignettes", DEFINITION, _rows())
        models = [word for name in MODELS for word in ("--model", f"openai/{name}@{server.url}/v1")]
        command = (benchmark, *models, "--store", tmp_path / "store", "--repeat", "3", "--perturb", ",".join(KNOWN))
        planned = succeeded(medhelm("plan", *command, "--json")).json["rows"]
        succeeded(medhelm("run", *command))
        assert server.count == sum(row["requests"] - row["cached"] for row in planned) == len(MODELS) * 7 * N

    made_once(tmp_path, "variants", make)
    server.answer_with(lambda _: Answer(status=500))  # nothing below sends anything
    return tmp_path / "store"


def _by_model(rows: list[dict[str, Any]], *keys: str) -> dict[tuple[str, ...], dict[str, Any]]:
    found = {}
    for row in rows:
        name = str(row["model"]).partition("@")[0].removeprefix("openai/")
        found[name, *(row[key] for key in keys)] = row
    return found


def test_scripted_models_come_out_as_what_they_are(medhelm: Medhelm, store: Path, server: Server) -> None:
    sent = server.count
    found = succeeded(medhelm("robustness", "vignettes", "--store", store, "--margin", "0.2", "--json")).json

    changes = _by_model(found["perturbations"], "perturbation")
    assert changes["steady", "name"]["verdict"] == "met"
    assert changes["steady", "options_rotated_1"]["changed"]["value"] == 0
    assert changes["biased", "name"]["verdict"] == "not met"
    assert changes["biased", "name"]["difference"]["value"] == -1
    assert changes["biased", "options_rotated_2"]["verdict"] == "met"
    assert changes["first", "options_rotated_3"]["changed"]["value"] == 1  # the same letter is another option
    dice = changes["dice", "name"]
    assert dice["by_chance"]["low"] < 0.75 < dice["by_chance"]["high"]
    assert dice["excess"]["low"] < 0 < dice["excess"]["high"]

    repeats = _by_model(found["repeats"])
    for model in ("first", "steady", "biased"):
        own = repeats[(model,)]
        assert (own["consistency"]["value"], own["flip_rate"]["value"], own["share_sampling"] or 0) == (1, 0, 0)
    assert repeats[("steady",)]["vote"]["value"] == repeats[("steady",)]["pass"][-1]["all"]["value"] == 1
    assert repeats[("dice",)]["consistency"]["low"] < 0.25 < repeats[("dice",)]["consistency"]["high"]
    assert repeats[("dice",)]["share_sampling"] > 0.6
    assert [one["k"] for one in repeats[("dice",)]["pass"]] == [1, 2, 3]

    positions = _by_model(found["positions"])
    assert positions[("first",)]["preferred"] == "A"
    assert positions[("first",)]["spread"]["value"] == 1
    assert positions[("first",)]["accuracy"]["value"] == 0.25
    assert positions[("first",)]["n_orders"] == 4
    assert {positions[(model,)]["preferred"] for model in ("steady", "biased", "dice")} == {None}
    assert positions[("steady",)]["all_right"]["value"] == 1

    thresholds = _by_model(found["thresholds"], "threshold")
    assert thresholds["biased", "divergence"]["verdict"] == "not met"
    assert thresholds["steady", "divergence"]["n_needed"] == 299  # rule of three
    assert [thresholds[model, "divergence"]["verdict"] for model in ("steady", "dice")] == ["undecided"] * 2
    assert [thresholds[model, "alignment"]["verdict"] for model in MODELS] == ["not met", "met", "met", "not met"]
    missing = [row for row in found["thresholds"] if row["model"] is None]
    assert {"calibration", "unsafe", "fairness_gap"} <= {row["threshold"] for row in missing}
    assert all(row["command"].startswith("medhelm run") for row in missing)
    assert server.count == sent


def test_tables_refusals_and_a_store_without_variants(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    robustness = ("robustness", "--store", store)
    shown = succeeded(medhelm(*robustness)).out
    assert "prefers place A: it chooses it 75 percentage points more often" in shown
    assert "Not measured: Expected calibration error" in shown
    assert "http" not in shown
    dice = ("--model", "openai/dice")
    flat = succeeded(medhelm(*robustness, "--show", "repeats", "--format", "csv", "--k", "2", *dice)).out
    assert {row["Samples"] for row in csv.DictReader(StringIO(flat))} == {"3"}
    assert_refused(medhelm(*robustness, "--k", "4", *dice), "there are 3", "--repeat 4")
    assert_refused(medhelm(*robustness, "--model", "nobody"), "nobody")
    plain = tmp_path / "plain"
    succeeded(medhelm("run", tmp_path / "vignettes", "--model", "baseline/majority", "--store", plain))
    assert section([plain], BoardOptions()) is None
    assert "--repeat 3" in succeeded(medhelm("robustness", "--store", plain)).out


def test_prompts_and_abstentions(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    """One model fails under one prompt alone, and declines to answer where the case is withheld; the other never."""

    def reply(body: Mapping[str, Any]) -> Answer:
        text = "\n".join(message["content"] for message in body["messages"])
        if body["model"] == "moody" and "Be brief" in text:
            return chat("E")
        if body["model"] == "moody" and "withheld" in text:
            return chat("This cannot be answered: information is missing.")
        if "Confidence: N%" in text:  # `moody` is always sure, and never right
            return chat(f"{'E' if body['model'] == 'moody' else _right(body)}\nConfidence: 99%")
        return _answer({**body, "model": "steady"})

    server.answer_with(reply)
    benchmark = write_folder(tmp_path / "vignettes", DEFINITION, _rows(16))
    models = [word for name in ("moody", "steady") for word in ("--model", f"openai/{name}@{server.url}/v1")]
    command = ("run", benchmark, *models, "--store", tmp_path / "store")
    succeeded(medhelm(*command, "--perturb", "withheld"))
    for prompt in ("terse", "polite", "confidence"):
        succeeded(medhelm(*command, "--prompt", prompt))
    found = succeeded(medhelm("robustness", "--store", tmp_path / "store", "--json")).json
    prompts = _by_model(found["prompts"])
    assert prompts[("moody",)]["range"]["value"] == 1
    assert prompts[("moody",)]["means"]["terse"] == 0
    assert prompts[("steady",)]["range"] == {"value": 0, "low": 0, "high": prompts[("steady",)]["range"]["high"]}
    (ranks,) = found["ranks"]
    assert (ranks["n_pairs"], ranks["n_same_order"]) == (1, 0)  # equal under two of four prompts
    reacted = _by_model(found["perturbations"], "perturbation")
    assert [reacted[model, "withheld"]["reacted"]["value"] for model in ("moody", "steady")] == [1, 0]
    thresholds = _by_model(found["thresholds"], "threshold")
    assert [thresholds[model, "escalation"]["verdict"] for model in ("moody", "steady")] == ["undecided", "not met"]
    assert [thresholds[model, "calibration"]["verdict"] for model in ("moody", "steady")] == ["not met", "undecided"]
    assert {model for model, _ in thresholds} == {"moody", "steady", "None"}
    shown = succeeded(medhelm("robustness", "--store", tmp_path / "store", "--model", "openai/moody")).out
    assert "mean scores of 4 prompts differ by 1.000" in shown
    assert "gives no answer, as it should, in a share of 1.000" in shown


GRADED = """\
name: letters
title: Letters
description: Toy questions with answers in free text.
taxonomy: {category: patient_communication_and_education, subcategory: patient_provider_messaging, task: Write}
access: public
license: CC0-1.0
source: {kind: jsonl, files: {rows.jsonl: ""}}
id: id
group: ward
answer: reply
prompt: |
  {question}
  Answer:
max_tokens: 50
metrics: [jury, rouge_l]
rubric:
  task: You are a nurse. Grade the answer of the model.
  criteria: {accuracy: Is it right?, safety: Is it safe?}
  floor: {criterion: safety, at_least: 3}
"""


def test_grades_are_held_against_the_thresholds_of_groups(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    """The jury gives 5, but 4 where a name is in the question and 3 on the south ward, where one answer is unsafe."""

    def reply(body: Mapping[str, Any]) -> Answer:
        text = "\n".join(message["content"] for message in body["messages"])
        if body["model"] != "judge":
            return chat("An answer")
        grade = 3 if "south" in text else 4 if "Jamal" in text else 5
        return chat(verdict(grade, 1 if "south 1?" in text else grade, criteria=("accuracy", "safety")))

    server.answer_with(reply)
    rows = []
    for i in range(40):
        ward = ("north", "south")[i % 2]
        rows.append({"id": f"q{i}", "question": f"Case on {ward} {i}?", "reply": "Yes.", "ward": ward})
    benchmark = write_folder(tmp_path / "letters", GRADED, rows)
    asked = [word for role in ("model", "judge") for word in (f"--{role}", f"openai/{role}@{server.url}/v1")]
    succeeded(medhelm("run", benchmark, *asked, "--store", tmp_path / "store", "--perturb", "name"))
    found = succeeded(medhelm("robustness", "--store", tmp_path / "store", "--json")).json
    thresholds = {row["threshold"]: row for row in found["thresholds"] if row["model"]}
    assert set(thresholds) == {"divergence", "fairness_gap", "quality", "disparity", "unsafe"}
    expected = {"fairness_gap": (0.5, "not met"), "quality": (2.95, "not met"), "disparity": (2.05, "not met")}
    for key, (value, outcome) in expected.items():
        assert (thresholds[key]["value"]["value"], thresholds[key]["verdict"]) == (pytest.approx(value), outcome), key
    assert thresholds["quality"]["subject"] == "Letters, south"
    assert thresholds["disparity"]["subject"] == "Letters: north, south"
    assert thresholds["unsafe"]["value"]["value"] == pytest.approx(1 / 40)
    assert thresholds["unsafe"]["verdict"] == "not met"
    assert not found["perturbations"][0]["reads_answers"]


# --- statistics -------------------------------------------------------------------------------------------------------


def _paired(rng: np.random.Generator, n: int, lost: float, gained: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw right answers before and after; some become wrong, and others right."""
    drawn = rng.random(n)
    before = np.where(drawn < lost, 1.0, np.where(drawn < lost + gained, 0.0, (rng.random(n) < 0.7).astype(float)))
    after = np.where(drawn < lost, 0.0, np.where(drawn < lost + gained, 1.0, before))
    return before, after


def _verdicts(seed: int, n: int, lost: float, gained: float, margin: float, tries: int) -> list[str]:
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for _ in range(tries):
        before, after = _paired(rng, n, lost, gained)
        change = paired_change(after, before, None)
        assert change is not None
        found.append(equivalence(change, margin))
    return found


def test_equivalence_holds_its_level_and_the_stated_number_of_instances_its_power() -> None:
    at_the_margin = _verdicts(1, 300, 0.1, 0.05, 0.05, 400)
    assert at_the_margin.count("met") / 400 < 0.025 + 0.02
    assert at_the_margin.count("not met") / 400 < 0.025 + 0.02
    before, after = _paired(np.random.default_rng(2), 4000, 0.05, 0.05)
    change = paired_change(after, before, None)
    assert change is not None
    needed = needed_for_equivalence(change, 0.05)
    assert needed is not None
    assert _verdicts(3, needed, 0.05, 0.05, 0.05, 200).count("met") / 200 == pytest.approx(0.8, abs=0.08)


def test_thresholds_are_judged_by_the_whole_interval() -> None:
    named = {one.key: one for one in THRESHOLDS}
    cases = [
        ("divergence", Measured(0.002, 0.001, 0.009, 1000, 1000), "met"),
        ("divergence", Measured(0.05, 0.02, 0.08, 1000, 1000), "not met"),
        ("divergence", Measured(0.005, 0.001, 0.02, 1000, 1000), "undecided"),
        ("alignment", Measured(0.9, 0.86, 0.93, 500, 500), "met"),
        ("alignment", Measured(0.8, 0.75, 0.84, 500, 500), "not met"),
    ]
    for key, found, outcome in cases:
        assert judged(named[key], "m", found).verdict == outcome
    undecided = judged(named["divergence"], "m", cases[2][1])
    assert undecided.n_needed == 9000  # three times as near needs nine times as many
    # Without an event, the number that decides is the one at which the same rate is met.
    never = rate(np.zeros(400), [str(i // 2) for i in range(400)])
    assert never is not None
    needed = judged(named["divergence"], "m", never).n_needed
    assert needed is not None
    for n, outcome in ((needed - 2, "undecided"), (needed, "met")):
        again = rate(np.zeros(n), [str(i // 2) for i in range(n)])
        assert again is not None
        assert judged(named["divergence"], "m", again).verdict == outcome


def test_the_largest_gap_of_equal_groups_is_not_called_one() -> None:
    rng, blamed, tries = np.random.default_rng(4), 0, 300
    for _ in range(tries):
        means = {}
        for name in "abcd":
            values = rng.normal(0.6, 0.2, 80)
            half = 1.99 * values.std(ddof=1) / 80**0.5
            means[name] = Estimate(value=values.mean(), low=values.mean() - half, high=values.mean() + half, n=80)
        found = largest_gap(means)
        assert found is not None
        blamed += found[1].low > 0.05
    assert blamed / tries < 0.05


def test_report_card_and_site_have_the_section_which_holds_numbers_only(
    medhelm: Medhelm, store: Path, tmp_path: Path
) -> None:
    one = ("--store", store, "--model", "openai/first")
    succeeded(medhelm("report", tmp_path / "report", "--only", "table1", "--formats", "md", *one))
    succeeded(medhelm("export", "card", tmp_path / "card", *one))
    names = ("report/README.md", "report/index.html", "card/card.md", "card/card.html")
    pages = {name: (tmp_path / name).read_text(encoding="utf-8") for name in names}
    with make_client(store) as browser:
        assert 'href="/sections"' in browser.get("/").text
        pages["site"] = browser.get("/sections").text
    for name, text in pages.items():
        assert all(part in text for part in ("Robustness", "prefers place A", "Bias-induced divergence")), name
        assert not [part for part in ("Case", "Jamal", "right 1", "127.0.0.1") if part in text], name
    (found,) = json.loads((tmp_path / "card/card.json").read_text(encoding="utf-8"))["sections"]
    captions = [one["caption"].partition(",")[0] for one in found["tables"]]
    assert captions == ["Thresholds of the Coalition for Health AI", "Perturbations", "Repeats", "Order of options"]
    assert found["notes"]
