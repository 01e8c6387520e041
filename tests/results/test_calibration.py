"""From a ratings file to a leaderboard with what clinicians would give, and the worked example of the docs."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.agreement.calibration import RatingDesign, prediction_powered
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.errors import UserError
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import CalibrationOptions
from tests.support.benchmarks.judged import CRITERIA
from tests.support.cli import Medhelm
from tests.support.rated_store import MODELS, N, copy_of_store, quality
from tests.support.remarks import texts
from tests.support.values import present

UPDATE = os.environ.get("MEDHELM_UPDATE_GOLDEN") == "1"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "calibration.md"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models that three judges graded."""
    return copy_of_store(tmp_path_factory.mktemp("calibrating"))


HEADER = "rater,instance_id,benchmark,model,accuracy,completeness,clarity"


def ratings(folder: Path, *numbers: int) -> Path:
    """Two clinicians, each of whom rates every answer of a random selection of each model's, of 30 unless told."""
    lines = []
    for model, n in zip(MODELS, numbers or (30, 30), strict=True):
        for question in sorted(Random(model).sample(range(N), n)):
            for rater in ("Dr Abel", "Dr Brandt"):
                random = Random(f"{rater} {model} {question}")
                grades = [min(5, max(1, round(quality(model, question) + random.gauss(0, 0.4)))) for _ in CRITERIA]
                lines.append(f"{rater},q{question},letters,lab/{model},{','.join(map(str, grades))}")
    return write(folder, lines)


def write(folder: Path, lines: Sequence[str], header: str = HEADER) -> Path:
    path = folder / "ratings.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def calibrated(store: Path, path: Path, **how: Any) -> Leaderboard:
    return leaderboard([store], rule="corrected", clinicians=CalibrationOptions(ratings=path, **how))


def cells(store: Path, path: Path, **how: Any) -> dict[str, Cell]:
    return {row.model: row.cells["letters"] for row in calibrated(store, path, **how).rows}


def test_it_is_computed_from_the_mean_over_raters_of_their_composites(store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    given: dict[str, list[float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        _, instance, _, model, *grades = line.split(",")
        if model == "lab/model-a":
            given.setdefault(instance, []).append(fmean(map(float, grades)))
    cell = cells(store, path)["lab/model-a"]
    column = np.array([fmean(given.get(name, [float("nan")])) for name in cell.ids])
    by_hand = prediction_powered(present(cell.scores), column, design=RatingDesign(low=1, high=5))
    found = present(cell.calibrated)
    assert (found.value, found.low) == pytest.approx((by_hand.value, by_hand.low))


def test_the_number_of_ratings_decides_the_method(store: Path, tmp_path: Path) -> None:
    def methods(*numbers: int, **how: Any) -> list[tuple[str, int] | None]:
        found = [cell.calibrated for _, cell in sorted(cells(store, ratings(tmp_path, *numbers), **how).items())]
        return [(one.method, one.n_rated) if one else None for one in found]

    assert methods(30, 5) == [("prediction-powered", 30), ("pooled", 35)]
    assert methods(30, 12, curve=True) == [("isotonic", 30), ("prediction-powered", 12)]
    assert methods(4, 0) == [None, None]
    remarks = texts(calibrated(store, ratings(tmp_path, 4, 0)).remarks)
    assert any("lab/model-a: not calibrated, because" in text for text in remarks)
    with pytest.raises(UserError, match="one --store"):
        leaderboard(
            [store, shutil.copytree(store, tmp_path / "other")],
            rule="corrected",
            clinicians=CalibrationOptions(ratings=ratings(tmp_path)),
        )


def test_two_raters_do_not_represent_clinicians_and_three_do(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    path = ratings(tmp_path)
    board = ("leaderboard", "--store", store, "--ratings", path)
    assert "these 2 raters only" in medhelm(*board).out.replace("\n", " ")
    two = present(cells(store, path)["lab/model-a"].calibrated)
    _, *lines = path.read_text(encoding="utf-8").splitlines()
    stricter = str.maketrans("2345", "1234")
    third = ["Dr Chen" + row.removeprefix("Dr Abel")[:-5] + row[-5:].translate(stricter) for row in lines[::2]]
    write(tmp_path, [*lines, *third])
    assert "clinicians like these 3" in medhelm(*board).out
    three = medhelm(*board, "--json").json["models"][0]["benchmarks"]["letters"]["calibrated"]
    assert (three["n_raters"], three["is_weighted"]) == (3, False)
    assert three["between_raters"] > 0.4
    assert three["high"] - three["low"] > 3 * (two.high - two.low)


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
    for row in rows:
        assert row["completion"].startswith("Answer of model-a to number")
        chance = Random(f"{row['rater']} {row['instance_id']}").gauss(0, 0.3)
        grade = round(quality("model-a", int(row["instance_id"][1:])) + chance)
        row |= dict.fromkeys(CRITERIA, str(min(5, max(1, grade))))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = present(cells(store, path)["lab/model-a"].calibrated)
    assert (found.n_rated, found.n_raters, found.is_weighted) == (24, 3, True)
    assert found.low < fmean(quality("model-a", question) for question in range(N)) < found.high
    assert "own ratings, weighted" in medhelm("leaderboard", "--store", store, "--ratings", path).out.replace("\n", " ")
    assert medhelm("agreement", path, "--store", store, "--benchmarks", store.parent).code == 0
    again = medhelm("agreement", "sample", path, *options)
    assert (again.code, "exists and may hold ratings" in again.err) == (2, True)


def test_the_leaderboard_shows_both_scores_and_which_findings_the_ratings_confirm(
    medhelm: Medhelm, store: Path, tmp_path: Path
) -> None:
    options = ("leaderboard", "--store", store, "--benchmarks", store.parent)
    rated = (*options, "--ratings", ratings(tmp_path))
    content, plain = medhelm(*rated, "--json").json, medhelm(*options, "--json").json
    for model, without in zip(content["models"], plain["models"], strict=True):
        one = model["benchmarks"]["letters"]
        found = one["calibrated"]
        assert found["low"] < found["value"] < found["high"] < one["low"]
        assert (model["rank"], model["win_rate"]) == (without["rank"], without["win_rate"]), "ranks go by the jury"
    (pair,) = content["calibrated_pairs"]
    assert (pair["a"], pair["b"], pair["better"]) == ("lab/model-a", "lab/model-b", "lab/model-a")
    assert pair["low"] < fmean(quality("model-a", q) - quality("model-b", q) for q in range(N)) < pair["high"]
    ranks = {row["model"]: (row["calibrated_rank_low"], row["calibrated_rank_high"]) for row in content["models"]}
    assert ranks == {"lab/model-a": (1, 1), "lab/model-b": (2, 2)}
    confirmed, agreeing = content["verdict"][-2:]
    assert confirmed == "The clinicians' ratings confirm the significant difference."
    assert agreeing.startswith("The jury agrees with clinicians on Letters (correlation 0.9")
    text = medhelm(*rated).out
    assert text.count("30 of 120  own ratings") == 2
    assert "lab/model-a minus lab/model-b" in text
    assert "calibrated" not in str(plain["models"])


def test_remarks_on_selected_and_on_unrated_completions(store: Path, tmp_path: Path) -> None:
    lowest = sorted(range(N), key=lambda question: quality("model-a", question))[:20]
    lines = [f"Dr Abel,q{question},letters,lab/model-a,2,2,2" for question in lowest]
    (found,) = [one for one in calibrated(store, write(tmp_path, lines)).remarks if one.code == "unbalanced_ratings"]
    assert "the 20 rated completions have lower jury scores than the others by" in found.text
    drawn = [f"{line},{20 / N}" for line in lines]

    def remarks_with(rows: list[str]) -> list[str]:
        board = calibrated(store, write(tmp_path, rows, f"{HEADER},probability"))
        return [text.partition(" have no")[0] for text in texts(board.remarks) if "that were drawn" in text]

    assert not remarks_with(drawn)
    (gap,) = remarks_with([*drawn[:-1], drawn[-1].replace(",2,2,2,", ",2,,2,")])
    assert gap.endswith("1 of 20 completions that were drawn")
    # A rating that was not handed in at all is missed as well: probabilities say how many were drawn.
    (lost,) = remarks_with(drawn[:-6])
    assert lost.endswith("6 of 20 completions that were drawn")


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
