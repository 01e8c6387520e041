"""Ratings frozen in a store reach leaderboards, agreement, releases and pages, and remarks say what they lack."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison.pairs import ComparedPairs, Comparison
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Run
from medhelm.domain.study import CardCriterion, CardDesign, CardInstrument, CardRater, StudyCard
from medhelm.errors import UserError
from medhelm.results.agreement import agreement, as_json
from medhelm.results.comparison import compare, verdict
from medhelm.results.gate import _jury_remarks
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import CalibrationOptions
from medhelm.storage.judgments import read_judgments
from medhelm.storage.ratings import StoredRating, StoredRatings, completion_digest, freeze_ratings
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import Store
from tests.support.benchmarks.judged import CRITERIA
from tests.support.cli import Medhelm
from tests.support.rated_store import MODELS, N, copy_of_store, quality
from tests.support.values import present

pytestmark = pytest.mark.usefixtures("few_draws")

RUBRIC = CardInstrument(
    name="rubric",
    title="The rubric",
    version="1",
    digest="0" * 64,
    is_rubric=True,
    criteria={name: CardCriterion(low=1, high=5) for name in CRITERIA},
)
SAFETY = CardInstrument(
    name="safety",
    title="Safety of letters",
    version="2",
    digest="1" * 64,
    is_rubric=False,
    criteria={
        "omissions": CardCriterion(low=0, high=10, higher_is_better=False),
        "is_safe": CardCriterion(low=0, high=1),
    },
)
RATERS = ("R1", "R2", "R3")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two models that three judges graded."""
    return copy_of_store(tmp_path)


def rows_of(
    store: Path, n: int = 20, *, raters: Sequence[str] = RATERS, instrument: CardInstrument = RUBRIC
) -> list[StoredRating]:
    """Return ratings of the first completions of each model; rater R2 is half a grade harsher."""
    found = []
    for run in load_runs(Store(store)):
        model = run.model.removeprefix("lab/")
        columns = read_columns(run, ["instance_id", "completion"])
        for instance, completion in list(zip(columns["instance_id"], columns["completion"], strict=True))[:n]:
            for rater in raters:
                chance = Random(f"{rater} {model} {instance}").gauss(-0.5 * (rater == "R2"), 0.3)
                grades = {
                    name: round(min(1.0, max(0.0, (quality(model, int(instance[1:])) + chance - 1) / 4))
                                * (scale.high - scale.low) + scale.low)
                    for name, scale in instrument.criteria.items()
                }  # fmt: skip
                found.append(
                    StoredRating(
                        rater=rater,
                        benchmark="letters",
                        instance_id=instance,
                        model=run.model,
                        grades=grades,
                        completion_sha256=completion_digest(completion),
                    )
                )
    return found


def freeze(
    store: Path,
    rows: Sequence[StoredRating],
    name: str = "ward",
    *,
    instrument: CardInstrument = RUBRIC,
    closed: str = "2026-11-20",
) -> StoredRatings:
    card = StudyCard(
        name=name,
        title=f"Letters, rated on the {name}",
        closed=closed,
        instrument=instrument,
        raters=tuple(CardRater(id=rater, role="nurse") for rater in dict.fromkeys(row.rater for row in rows)),
        design=CardDesign(n_cases=len({(row.model, row.instance_id) for row in rows})),
        blinding=("Names of models were hidden.",),
        deviations=("One rater left early.",),
    )
    return freeze_ratings(Store(store), card, rows)


def board_of(store: Path, ratings: str = "") -> Leaderboard:
    return leaderboard([store], clinicians=CalibrationOptions(ratings=ratings))


def texts(board: Leaderboard, *codes: str) -> list[str]:
    return [remark.text for remark in board.remarks if remark.code in codes]


def test_a_store_without_ratings_says_nothing_of_them(medhelm: Medhelm, store: Path) -> None:
    plain = medhelm("leaderboard", "--store", store, "--json").json
    assert "clinicians" not in json.dumps(plain)
    freeze(store, rows_of(store))
    assert medhelm("leaderboard", "--store", store, "--ratings", "none", "--json").json == plain
    means = ("leaderboard", "--store", store, "--resample", "none", "--json")
    assert any("are not used: they need one store" in text for text in medhelm(*means).json["warnings"])
    assert not any("are not used" in text for text in medhelm(*means, "--ratings", "none").json["warnings"])
    assert "leave one of them out" in medhelm(*means, "--ratings", "ward").err.lower()
    rated = medhelm("leaderboard", "--store", store, "--json").json
    assert [row["rank"] for row in rated["models"]] == [row["rank"] for row in plain["models"]]
    assert rated["studies"][0]["name"] == "ward"
    assert medhelm("leaderboard", "--store", store, "--ratings", "ward", "--json").json == rated


def test_the_column_of_clinicians_is_the_mean_of_their_ratings(medhelm: Medhelm, store: Path) -> None:
    rows = rows_of(store)
    freeze(store, rows)
    for row in board_of(store).rows:
        own = [fmean(map(present, one.grades.values())) for one in rows if one.model == row.model]
        found = present(row.cells["letters"].clinicians)
        assert found.value == pytest.approx(fmean(own))
        assert (found.n, found.n_raters, found.worst, found.best) == (20, 3, 1, 5)
        assert present(found.between_raters) == pytest.approx(0.29, abs=0.1), "three severities: 0, -0.5 and 0"
        assert present(row.clinicians).value == pytest.approx((fmean(own) - 1) / 4)
        assert row.cells["letters"].calibrated is not None
    out = medhelm("leaderboard", "--store", store).out
    assert "clinicians like these 3" in out.replace("\n", " ")
    csv = medhelm("leaderboard", "--store", store, "--by", "benchmark", "--format", "csv").out
    assert csv.splitlines()[0].endswith(
        "weight,clinicians,clinicians_low,clinicians_high,clinicians_n,clinicians_n_raters"
    )


def test_agreement_by_criterion_is_that_of_an_independent_computation(store: Path) -> None:
    rows = rows_of(store, raters=("R1", "R2"))
    freeze(store, rows)
    found = as_json(present(agreement("", store, ())))["datasets"]["letters"]["criteria"]["accuracy"]
    table = np.array(
        [[present(row.grades["accuracy"]) for row in rows if row.rater == rater] for rater in ("R1", "R2")]
    )
    # ICC(3,1) of a complete table by two raters (Shrout and Fleiss 1979).
    n = table.shape[1]
    between = 2 * table.mean(axis=0).var(ddof=1)
    residual = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    error = (residual**2).sum() / (n - 1)
    assert found["clinicians"]["value"] == pytest.approx((between - error) / (between + error), abs=1e-6)
    assert found["clinicians"]["low"] < found["clinicians"]["value"] < found["clinicians"]["high"]
    assert (found["clinicians"]["n"], found["clinicians"]["n_raters"]) == (40, 2)
    # Of the jury with one clinician: Pearson's correlation, if there is one.
    one = store.parent / "one"
    shutil.copytree(store, one, ignore=shutil.ignore_patterns("ratings"))
    freeze(one, rows_of(one, raters=("R1",)))
    alone = as_json(present(agreement("", one, ())))["datasets"]["letters"]["criteria"]["accuracy"]
    jury = {(run.model, name): grade for run in load_runs(Store(one)) for name, grade in _mean_grades(run).items()}
    pairs = [(present(row.grades["accuracy"]), jury[row.model, row.instance_id]) for row in rows if row.rater == "R1"]
    r = stats.pearsonr(*zip(*pairs, strict=True)).statistic
    assert alone["jury_and_clinician"]["value"] == pytest.approx(r, abs=1e-6)
    assert alone["clinicians"]["value"] is None


def _mean_grades(run: Run) -> dict[str, float]:
    """Return instance -> mean grade of the judges on accuracy."""
    found: dict[str, list[float]] = {}
    judgments = read_judgments(run)
    for instance, criterion, score in zip(judgments.instance_ids, judgments.criteria, judgments.scores, strict=True):
        if criterion == "accuracy":
            found.setdefault(instance, []).append(float(score))
    return {name: fmean(scores) for name, scores in found.items()}


def test_a_completion_generated_anew_is_left_out_and_counted(store: Path) -> None:
    rows = rows_of(store)
    changed = [replace(row, completion_sha256="f" * 64) if row.instance_id == "q3" else row for row in rows]
    gone = [replace(row, instance_id="q999") if row.instance_id == "q4" else row for row in changed]
    other = [replace(row, model="lab/model-z") for row in rows[:2]]
    freeze(store, [*gone, *other])
    board = board_of(store)
    assert [present(row.cells["letters"].clinicians).n for row in board.rows] == [18, 18]
    assert texts(board, "rated_completion_changed", "rated_instance_missing", "rated_without_run") == [
        text
        for model in MODELS
        for text in (
            f"3 ratings of lab/{model} on letters are not used: the run lacks the instance.",
            f"3 ratings of lab/{model} on letters are not used: the completion is not the one that was rated.",
        )
    ] + ["2 ratings of lab/model-z on letters are not used: no run of it counts here."]


def test_a_rater_who_gives_all_the_same_grade_counts_and_is_named(store: Path) -> None:
    rows = [replace(row, grades=dict.fromkeys(CRITERIA, 3.0)) if row.rater == "R3" else row for row in rows_of(store)]
    freeze(store, rows)
    (text,) = texts(board_of(store), "constant_rater")
    assert text.startswith("letters: R3 gave all 40 completions the same grades")


def test_another_instrument_than_the_rubric_is_shown_but_not_compared_with_the_jury(
    medhelm: Medhelm, store: Path
) -> None:
    freeze(store, rows_of(store, instrument=SAFETY), instrument=SAFETY)
    board = board_of(store)
    for row in board.rows:
        found = present(row.cells["letters"].clinicians)
        assert (found.worst, found.best) == (0, 1), "scales of 0 to 10 and of 0 to 1 together"
        assert row.cells["letters"].calibrated is None
    assert len(texts(board, "other_instrument_than_jury")) == 1
    assert not any("jury agrees" in sentence or "rely on the jury" in sentence for sentence in board.verdict)
    content = medhelm("agreement", "--store", store, "--json").json
    assert content["datasets"]["letters"]["conclusion"] == "not_compared"
    assert content["datasets"]["letters"]["criteria"]["omissions"]["clinicians"]["value"] > 0.5
    (sentence,) = content["verdict"]
    assert sentence.startswith("The jury is not compared with clinicians: clinicians rated with Safety of letters")


def test_the_rubric_counts_before_other_instruments_and_a_later_study_before_an_earlier_one(store: Path) -> None:
    freeze(store, rows_of(store, 12), "pilot", closed="2026-10-01")
    freeze(store, rows_of(store), "main", closed="2026-11-01")
    freeze(store, rows_of(store, instrument=SAFETY), "safety", instrument=SAFETY, closed="2026-12-01")
    board = board_of(store)
    assert [card.name for card in board.studies] == ["main"]
    assert [present(row.cells["letters"].clinicians).n for row in board.rows] == [20, 20]
    (other,), (replaced,) = texts(board, "other_instrument"), texts(board, "replaced_ratings")
    assert "the ratings of safety are not used" in other
    assert replaced.startswith("pilot: main replaces its ratings of")
    assert [card.name for card in board_of(store, "pilot").studies] == ["pilot"]
    with pytest.raises(UserError, match="Did you mean `pilot`"):
        board_of(store, "pilots")


def test_raters_of_two_studies_are_different_people(store: Path) -> None:
    rows = rows_of(store)
    for model in MODELS:
        freeze(store, [row for row in rows if row.model == f"lab/{model}"], model)
    found = present(agreement("", store, ()))
    assert sorted(found.datasets["letters"].raters) == sorted(f"{model} {name}" for model in MODELS for name in RATERS)


def test_changed_ratings_are_named_and_not_used(store: Path) -> None:
    frozen = freeze(store, rows_of(store))
    frozen.path.write_text(frozen.path.read_text().replace(",5,", ",1,"))
    board = board_of(store)
    assert not board.has_clinicians
    (text,) = texts(board, "damaged_ratings")
    assert "was changed after it was frozen" in text


def test_the_verdict_begins_with_a_jury_that_does_not_agree(store: Path) -> None:
    random = Random(1)
    wrong = {(row.model, row.instance_id): random.randint(1, 5) for row in rows_of(store, 40)}
    rows = [
        replace(row, grades=dict.fromkeys(CRITERIA, wrong[row.model, row.instance_id])) for row in rows_of(store, 40)
    ]
    freeze(store, rows)
    first, second, *others = board_of(store).verdict
    assert first.startswith("Do not rely on the jury on Letters")
    assert second.startswith("By the jury's scores, lab/model-a leads")
    assert any(one.startswith("The order by scores calibrated to clinicians' ratings, from 0 to 1: ") for one in others)
    assert not any("The jury agrees" in one for one in others)
    found = compare([store], [f"lab/{model}" for model in MODELS])
    assert isinstance(found, Comparison)
    assert found.doubts == (first,)
    assert verdict(found)[0].startswith(f"{first} lab/model-a is significantly better")
    pairs = compare([store])
    assert isinstance(pairs, ComparedPairs)
    assert [remark.text for remark in pairs.remarks if remark.code == "jury_doubted"] == [first]
    assert [remark.text for remark in _jury_remarks(store, {"letters"}, "real")] == [first]
    assert _jury_remarks(store, {"another"}, "real") == []


def test_a_comparison_of_two_models_has_their_difference_with_the_ratings(medhelm: Medhelm, store: Path) -> None:
    freeze(store, rows_of(store))
    content = medhelm("compare", *(f"lab/{model}" for model in MODELS), "--store", store, "--json").json
    (one,) = content["benchmarks"]
    assert one["clinicians"]["first"]["value"] > one["clinicians"]["second"]["value"]
    truth = fmean(quality("model-a", question) - quality("model-b", question) for question in range(N)) / 4
    assert one["clinicians"]["difference"] == content["with_ratings"]
    assert content["with_ratings"]["low"] < truth < content["with_ratings"]["high"]
    assert "With the clinicians' ratings, lab/model-a is better than lab/model-b" in content["verdict"][0]
    without = medhelm("compare", *(f"lab/{m}" for m in MODELS), "--store", store, "--ratings", "none", "--json").json
    assert "linicians" not in json.dumps(without)
    for ratings, is_named in (((), True), (("--ratings", "none"), False)):
        every = medhelm("compare", "--all", "--store", store, *ratings, "--json").json
        assert ("Clinicians rated some of these completions." in json.dumps(every["remarks"])) == is_named


@pytest.mark.long
def test_a_release_keeps_its_ratings_when_another_study_is_closed(medhelm: Medhelm, store: Path) -> None:
    places = ("--store", store, "--benchmarks", store.parent)
    assert medhelm("release", "before", *places).code == 0
    frozen = freeze(store, rows_of(store))
    assert medhelm("release", "with", *places).code == 0
    board = json.loads((store / "releases" / "with" / "leaderboard.json").read_text())
    assert [(card["name"], card["digest"]) for card in board["studies"]] == [("ward", frozen.card.digest)]
    freeze(store, rows_of(store, 40), "later", closed="2027-01-01")
    for name in ("before", "with"):
        checked = medhelm("verify", name, *places, "--json")
        assert checked.json["leaderboard"] == [], name
    shutil.rmtree(store / "ratings" / "ward")
    assert medhelm("verify", "with", *places, "--json").json["leaderboard"] != []


def test_a_purge_deletes_the_ratings_of_its_instances(medhelm: Medhelm, store: Path) -> None:
    freeze(store, rows_of(store))
    done = medhelm("purge", "--instance", "letters:q2", "--store", store, "--yes")
    assert "ratings/ward/ratings.csv" in done.out
    assert "q2," not in (store / "ratings" / "ward" / "ratings.csv").read_text()
    board = board_of(store)
    assert [present(row.cells["letters"].clinicians).n for row in board.rows] == [19, 19]
    assert "6 ratings of 1 instance" in board.studies[0].deviations[-1]


def test_card_report_and_site_show_the_study(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    freeze(store, rows_of(store))
    places = ("--store", store, "--benchmarks", store.parent)
    assert medhelm("export", "card", tmp_path / "card.md", *places).code == 0
    card = (tmp_path / "card.md").read_text()
    assert "## Ratings by clinicians" in card
    assert "Not as planned: One rater left early." in card
    assert medhelm("report", tmp_path / "report", *places, "--only", "table1,criteria,study").code == 0
    assert "Names of models were hidden." in (tmp_path / "report" / "tables" / "study.md").read_text()
    assert "accuracy" in (tmp_path / "report" / "tables" / "criteria.csv").read_text()
    assert medhelm("export", "site", tmp_path / "site", *places, "--cases", "0").code == 0
    judges = (tmp_path / "site" / "judges.html").read_text()
    assert "Letters, rated on the ward" in judges
    assert "By criterion" in judges
    page = unescape((tmp_path / "site" / "index.html").read_text())
    assert "Clinicians" in page
    assert [sentence for sentence in board_of(store).verdict if sentence not in page] == []
