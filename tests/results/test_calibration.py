"""From a ratings file to a leaderboard with what clinicians would give, and the worked example of the docs."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.agreement.calibration import RatingDesign, prediction_powered
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.errors import ConfigError, UserError
from medhelm.evaluation import recorder as run_in_progress
from medhelm.evaluation.python_api import evaluate
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import CalibrationOptions
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import CRITERIA, jury, mock, number, open_benchmark, verdict
from tests.support.cli import Medhelm
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server

UPDATE = os.environ.get("MEDHELM_UPDATE_GOLDEN") == "1"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "calibration.md"
N = 120
MODELS = ("model-a", "model-b")
RATED = {"model-a": 30, "model-b": 30}


def quality(model: str, question: int) -> float:
    """What clinicians think of an answer, 1 to 5: the second model is worse by a grade."""
    random = Random(f"{model} {question}")
    return min(5.0, max(1.0, random.gauss(3.4 if model == "model-a" else 2.4, 0.9)))


def grade(judge: str, model: str, question: int, criterion: str) -> int:
    """What a judge gives: half a grade for a whole one of clinicians, and all of it kinder, with chance in it."""
    chance = Random(f"{judge} {model} {question} {criterion}").gauss(0, 0.5)
    return min(5, max(1, round(2.6 + 0.5 * quality(model, question) + chance)))


def answer(body: Mapping[str, Any]) -> Answer:
    """Models sign their answers; judges grade by the signature."""
    question = number(body)
    if not str(body["model"]).startswith("judge"):
        return chat(f"Answer of {body['model']} to number {question}")
    model = next(name for name in MODELS if f"Answer of {name}" in body["messages"][0]["content"])
    return chat(verdict(*(grade(body["model"], model, question, criterion) for criterion in CRITERIA)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models that three judges graded.

    Neither names nor the runs' ids, which seed the intervals, hold the server's port: the output is always the same.
    """
    folder = tmp_path_factory.mktemp("calibrating")
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_in_progress, "identity", lambda _, __, model, *___: sha256(model.name.encode()).hexdigest())
        server.answer_with(answer)
        models = [replace(mock(server, name), name=f"lab/{name}") for name in MODELS]
        judges = jury(server)
        named = tuple(replace(judge, name=f"lab/{judge.remote_name}") for judge in judges.judges)
        benchmark = open_benchmark(folder, n=N)
        evaluate([benchmark], models, store=folder / "store", jury=replace(judges, judges=named))
    return folder / "store"


def ratings(folder: Path, rated: Mapping[str, int] = RATED, *, extra: str = "") -> Path:
    """Two clinicians, each of whom rates every answer of a random selection of each model's."""
    lines = ["rater,instance_id,benchmark,model,accuracy,completeness,clarity"]
    for model, n in rated.items():
        for question in sorted(Random(model).sample(range(N), n)):
            for rater in ("Dr Abel", "Dr Brandt"):
                random = Random(f"{rater} {model} {question}")
                grades = [min(5, max(1, round(quality(model, question) + random.gauss(0, 0.4)))) for _ in CRITERIA]
                lines.append(f"{rater},q{question},letters,lab/{model},{','.join(map(str, grades))}")
    path = folder / "ratings.csv"
    path.write_text("\n".join(lines) + "\n" + extra, encoding="utf-8")
    return path


def cells(store: Path, path: Path, **how: Any) -> dict[str, Cell]:
    board = leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=path, **how))
    return {row.model: row.cells["letters"] for row in board.rows}


@pytest.mark.long
def test_the_corrected_score_finds_what_clinicians_think_and_the_jury_does_not(store: Path, tmp_path: Path) -> None:
    for name, cell in cells(store, ratings(tmp_path)).items():
        truth = fmean(quality(name.removeprefix("lab/"), question) for question in range(N))
        assert cell.calibrated is not None
        assert cell.estimate is not None
        assert cell.calibrated.low < truth < cell.calibrated.high
        assert not cell.estimate.low < truth < cell.estimate.high
        assert (cell.calibrated.n, cell.calibrated.n_rated, cell.calibrated.method) == (N, 30, "prediction-powered")


def test_it_is_computed_from_the_mean_over_raters_of_their_composites(store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    given: dict[str, list[float]] = {}
    for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
        if row["model"] == "lab/model-a":
            given.setdefault(row["instance_id"], []).append(fmean(float(row[criterion]) for criterion in CRITERIA))
    cell = cells(store, path)["lab/model-a"]
    assert cell.scores is not None
    column = [fmean(given[name]) if name in given else float("nan") for name in cell.ids]
    by_hand = prediction_powered(cell.scores, np.array(column), design=RatingDesign(low=1, high=5))
    assert cell.calibrated is not None
    assert (cell.calibrated.value, cell.calibrated.low) == pytest.approx((by_hand.value, by_hand.low))


def test_a_model_with_too_few_ratings_borrows_those_of_the_others(store: Path, tmp_path: Path) -> None:
    found = cells(store, ratings(tmp_path, {"model-a": 30, "model-b": 5}))
    assert found["lab/model-a"].calibrated
    assert found["lab/model-a"].calibrated.method == "prediction-powered"
    assert found["lab/model-b"].calibrated
    assert (found["lab/model-b"].calibrated.method, found["lab/model-b"].calibrated.n_rated) == ("pooled", 35)


def test_too_few_ratings_in_all_are_named_and_give_no_number(store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path, {"model-a": 4})
    assert {cell.calibrated for cell in cells(store, path).values()} == {None}
    board = leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=path))
    assert any("lab/model-a: not calibrated, because" in warning for warning in texts(board.remarks))


def test_a_curve_where_the_ratings_suffice(store: Path, tmp_path: Path) -> None:
    found = cells(store, ratings(tmp_path, {"model-a": 30, "model-b": 12}), curve=True)
    methods = {name: cell.calibrated and cell.calibrated.method for name, cell in found.items()}
    assert methods == {"lab/model-a": "isotonic", "lab/model-b": "prediction-powered"}


def test_ranks_go_by_the_jury_and_nothing_else_changes(store: Path, tmp_path: Path) -> None:
    plain = leaderboard([store], rule="corrected")
    with_ratings = leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=ratings(tmp_path)))
    assert [(row.model, row.rank, row.win_rate) for row in plain.rows] == [
        (row.model, row.rank, row.win_rate) for row in with_ratings.rows
    ]
    assert all(row.cells["letters"].calibrated is None for row in plain.rows)


def test_a_bad_ratings_file_is_refused(store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path, extra="Dr Chen,q999,letters,lab/model-a,3,3,3\nDr Chen,q1,letters,lab/model-a,9,3,3\n")
    with pytest.raises(ConfigError) as refused:
        cells(store, path)
    assert len(refused.value.problems) == 2
    with pytest.raises(UserError, match="one --store"):
        leaderboard([store, store], rule="corrected", clinicians=CalibrationOptions(ratings=ratings(tmp_path)))


def test_the_leaderboard_shows_both_scores(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    shown = medhelm("leaderboard", "--store", store, "--ratings", path)
    assert shown.code == 0
    assert "Jury and clinicians: means with 95% intervals" in shown.out
    assert shown.out.count("30 of 120  own ratings") == 2
    found = medhelm("leaderboard", "--store", store, "--ratings", path, "--json").json
    for model in found["models"]:
        one = model["benchmarks"]["letters"]
        assert one["calibrated"]["low"] < one["calibrated"]["value"] < one["calibrated"]["high"] < one["low"]
        assert one["calibrated"]["n_rated"] == 30
    assert "calibrated" not in str(medhelm("leaderboard", "--store", store, "--json").json["models"])


def test_two_raters_do_not_represent_clinicians_and_three_do(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    two = cells(store, path)["lab/model-a"].calibrated
    assert two is not None
    assert (two.n_raters, two.between_raters) == (2, None)
    assert "these 2 raters only" in medhelm("leaderboard", "--store", store, "--ratings", path).out.replace("\n", " ")
    lines = path.read_text(encoding="utf-8").splitlines()
    third = [
        ",".join(["Dr Chen", *row.split(",")[1:4], *(str(max(1, int(cell) - 1)) for cell in row.split(",")[4:])])
        for row in lines[1:]
        if row.startswith("Dr Abel")
    ]
    path.write_text("\n".join([*lines, *third]) + "\n", encoding="utf-8")
    three = cells(store, path)["lab/model-a"].calibrated
    assert three is not None
    assert three.n_raters == 3
    assert (three.between_raters or 0) > 0.4
    assert three.high - three.low > 3 * (two.high - two.low)
    shown = medhelm("leaderboard", "--store", store, "--ratings", path)
    assert "clinicians like these 3" in shown.out
    as_json = medhelm("leaderboard", "--store", store, "--ratings", path, "--json").json
    found = as_json["models"][0]["benchmarks"]["letters"]["calibrated"]
    assert (found["n_raters"], found["is_weighted"]) == (3, False)
    assert found["between_raters"] > 0.4


@pytest.mark.usefixtures("few_draws")
def test_a_drawn_sample_is_rated_and_read_back(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    """From the draw to a calibrated score: only the grades are filled in."""
    path = tmp_path / "draw.csv"
    options = ("--store", store, "--size", "24", "--seed", "3", "--raters", "3", "--by-score", "--model", "lab/model-a")
    drawn = medhelm("agreement", "sample", path, *options)
    assert (drawn.code, drawn.out) == (0, f"{path}: 24 completions, 3 raters, seed 3\n")
    assert path.stat().st_mode & 0o777 == 0o600
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert len(rows) == 72
    assert all(row["completion"].startswith("Answer of model-a to number") for row in rows)
    for row in rows:
        chance = Random(f"{row['rater']} {row['instance_id']}").gauss(0, 0.3)
        row |= {name: str(round(quality("model-a", int(row["instance_id"][1:])) + chance)) for name in CRITERIA}
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows({**row, **{name: str(min(5, max(1, int(row[name])))) for name in CRITERIA}} for row in rows)
    path.write_text(out.getvalue(), encoding="utf-8")
    found = cells(store, path)["lab/model-a"].calibrated
    assert found is not None
    assert (found.n_rated, found.n_raters, found.is_weighted) == (24, 3, True)
    assert found.low < fmean(quality("model-a", question) for question in range(N)) < found.high
    assert "own ratings, weighted" in medhelm("leaderboard", "--store", store, "--ratings", path).out.replace("\n", " ")
    assert medhelm("agreement", path, "--store", store, "--benchmarks", store.parent).code == 0
    again = medhelm("agreement", "sample", path, *options)
    assert again.code == 2
    assert "exists and may hold ratings" in again.err


def test_the_leaderboard_says_which_findings_the_ratings_confirm(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    options = ("leaderboard", "--store", store, "--benchmarks", store.parent, "--ratings", path)
    content = medhelm(*options, "--json").json
    (pair,) = content["calibrated_pairs"]
    assert (pair["a"], pair["b"], pair["benchmark"], pair["better"]) == (
        "lab/model-a", "lab/model-b", "letters", "lab/model-a",
    )  # fmt: skip
    assert pair["low"] < pair["difference"] < pair["high"]
    assert pair["low"] < fmean(quality("model-a", q) - quality("model-b", q) for q in range(N)) < pair["high"]
    ranks = {row["model"]: (row["calibrated_rank_low"], row["calibrated_rank_high"]) for row in content["models"]}
    assert ranks == {"lab/model-a": (1, 1), "lab/model-b": (2, 2)}
    assert content["verdict"][-1] == "With the clinicians' ratings the finding still holds."
    text = medhelm(*options).out
    assert "lab/model-a minus lab/model-b" in text
    assert "Possible ranks (95%) by the jury alone, and with the clinicians' ratings" in text
    plain = medhelm(*options[:-2], "--json").json
    assert "calibrated_pairs" not in plain
    assert "calibrated_rank_low" not in plain["models"][0]


def test_ratings_that_contradict_the_jury_are_said_first(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    """Clinicians who agree with each other, but see no difference between the models where the jury does."""
    lines = ["rater,instance_id,benchmark,model,accuracy,completeness,clarity"]
    for model in MODELS:
        for question in range(60):
            own = Random(f"other {model} {question}").choice((1, 2, 3, 4, 5))
            lines += [
                f"{rater},q{question},letters,lab/{model},{own},{own},{own}" for rater in ("Dr Abel", "Dr Brandt")
            ]
            lines[-1] = lines[-1][:-1] + str(min(5, own + 1))
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ("leaderboard", "--store", store, "--benchmarks", store.parent, "--ratings", path, "--json")
    content = medhelm(*options).json
    assert content["verdict"][0].startswith("Do not rely on the jury on Letters: its agreement with a clinician is not")
    assert content["verdict"][-1] == (
        "With the clinicians' ratings the finding no longer holds; "
        "lab/model-a and lab/model-b can no longer be separated."
    )
    assert {(row["calibrated_rank_low"], row["calibrated_rank_high"]) for row in content["models"]} == {(1, 2)}


def test_remarks_on_selected_and_on_unrated_completions(store: Path, tmp_path: Path) -> None:
    lowest = sorted(range(N), key=lambda question: quality("model-a", question))[:20]
    lines = ["rater,instance_id,benchmark,model,accuracy,completeness,clarity"]
    lines += [f"Dr Abel,q{question},letters,lab/model-a,2,2,2" for question in lowest]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    board = leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=path))
    (found,) = [remark for remark in board.remarks if remark.code == "unbalanced_ratings"]
    assert found.text.startswith(
        "letters, lab/model-a: the 20 rated completions have lower jury scores than the others by"
    )
    assert "more than chance explains" in found.text
    drawn = [f"{line},{'probability' if n == 0 else 20 / N}" for n, line in enumerate(lines)]

    def remarks_with(rows: list[str]) -> list[str]:
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        board = leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=path))
        return [text for text in texts(board.remarks) if "that were drawn" in text]

    assert not remarks_with(drawn)
    (gap,) = remarks_with([*drawn[:-1], drawn[-1].replace(",2,2,2,", ",2,,2,")])
    assert "1 of 20 completions that were drawn have no complete rating" in gap
    # A rating that was not handed in at all is missed as well: probabilities say how many were drawn.
    (lost,) = remarks_with(drawn[:-6])
    assert "6 of 20 completions that were drawn have no complete rating" in lost
    assert "If hard ones are missing, scores are too high" in lost


def test_clinicians_who_do_not_agree_with_each_other_get_a_remark(store: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "ratings.csv"

    def remarks_of(guess: bool) -> list[str]:
        lines = ["rater,instance_id,benchmark,model,accuracy,completeness,clarity"]
        for question in range(40):
            for rater in ("Dr Abel", "Dr Brandt"):
                grade = rng.integers(1, 6) if guess else 1 + question % 5
                lines.append(f"{rater},q{question},letters,lab/model-a,{grade},{rng.integers(1, 6)},3")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        board = leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=path))
        return [remark.text for remark in board.remarks if remark.code == "clinicians_disagree"]

    (text,) = remarks_of(guess=True)
    assert text.startswith("letters: the clinicians are not shown to agree with each other (correlation ")
    assert remarks_of(guess=False) == []


@pytest.mark.long
def test_the_worked_example_of_the_docs(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    places = ("--store", store, "--benchmarks", store.parent)
    blocks = {
        "ratings": "\n".join(path.read_text(encoding="utf-8").splitlines()[:5]) + "\n...\n",
        "agreement": medhelm("agreement", path.name, *places).out,
        "leaderboard": medhelm("leaderboard", "--by", "benchmark", "--ratings", path.name, *places).out,
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, block in blocks.items():
        fresh = f"<!-- {name} -->\n```\n{block.rstrip()}\n```\n"
        pattern = re.compile(rf"<!-- {name} -->\n```\n.*?\n```\n", re.DOTALL)
        assert pattern.search(text), f"no block {name}"
        if UPDATE:
            text = pattern.sub(fresh.replace("\\", r"\\"), text)
        else:
            assert fresh in text, name
    for model in MODELS:
        truth = f"{fmean(quality(model, question) for question in range(N)):.2f}"
        assert truth in text, f"the truth of {model} is {truth}"
    if UPDATE:
        PAGE.write_text(text, encoding="utf-8")
