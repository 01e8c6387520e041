"""Completions drawn from a store to be rated: only judged ones, the same for the same seed."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from python_calamine import CalamineWorkbook
from xlsxwriter import Workbook

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Failure,
    Judgment,
    Jury,
    JuryResult,
    JuryVerdict,
    Model,
    Record,
    Score,
)
from medhelm.errors import ConfigError, UserError
from medhelm.io.spreadsheets import LONGEST_CELL
from medhelm.results.agreement import draw_rating_sample, sample_to_csv
from medhelm.results.options import DrawOptions, RunFilter
from medhelm.results.ratings import RatedBenchmark, read_ratings
from tests.support.cli import Medhelm
from tests.support.stores import make_run, write_run

JUDGES = (Model(name="lab/one", provider="openai", remote_name="one"),)
N = 40


def record(position: int) -> Record:
    """A completion with a low score in one of ten, and a good one in the others; the last has no score."""
    value = 1.0 if position % 10 == 0 else 5.0
    failure = Failure("judge", "too_few_judges", "too few") if position == N - 1 else None
    return Record(
        position=position,
        instance_id=f"i{position}",
        cluster="",
        request_digest=b"",
        completion=Completion(text=f"text of {position}"),
        scores=tuple(Score(metric=JURY, rule=r, value=None if failure else value, failure=failure) for r in RULES),
        jury_verdict=JuryVerdict(scores=(), judgments=(Judgment(judge="lab/one", criterion="tone", score=value),)),
    )


def store_with(folder: Path, *models: str, benchmark: str = "triage", **changes: Any) -> Path:
    jury = JuryResult(jury=Jury(judges=JUDGES, min_judges=1), low=1, high=5, tallies={})
    for model in models:
        fields = {"n": N, "main_metric": JURY, "jury_result": jury} | changes
        write_run(folder, make_run(benchmark, model, **fields), [record(position) for position in range(N)], [JURY])
    return folder


def test_each_model_has_its_own_draw_with_its_probability(tmp_path: Path) -> None:
    found = draw_rating_sample(
        store_with(tmp_path / "s", "lab/m", "lab/n"), 10, seed=7, options=DrawOptions(show_models=True)
    )
    assert found.criteria == ("tone",)
    assert len(found.completions) == 20
    for model in ("lab/m", "lab/n"):
        own = [one for one in found.completions if one.model == model]
        assert len({one.instance_id for one in own}) == 10
        assert {one.probability for one in own} == {10 / (N - 1)}
        assert all(one.completion == f"text of {one.instance_id[1:]}" for one in own)
    assert f"i{N - 1}" not in {one.instance_id for one in found.completions}


def test_a_draw_depends_on_the_seed_and_not_on_other_models(tmp_path: Path) -> None:
    one, two = store_with(tmp_path / "one", "lab/m"), store_with(tmp_path / "two", "lab/m", "lab/n")
    first = {c.instance_id for c in draw_rating_sample(one, 10, seed=1).completions}
    both = draw_rating_sample(two, 10, seed=1, options=DrawOptions(show_models=True))
    same = {c.instance_id for c in both.completions if c.model == "lab/m"}
    other = {c.instance_id for c in draw_rating_sample(one, 10, seed=2).completions}
    assert first == same != other


def test_the_same_instances_can_be_drawn_for_every_model(tmp_path: Path) -> None:
    store = store_with(tmp_path / "s", "lab/m", "lab/n")
    found = draw_rating_sample(store, 10, seed=3, options=DrawOptions(show_models=True, same_instances=True))
    drawn = {
        model: {one.instance_id for one in found.completions if one.model == model} for model in ("lab/m", "lab/n")
    }
    assert drawn["lab/m"] == drawn["lab/n"]
    assert len(drawn["lab/m"]) == 10
    assert {one.probability for one in found.completions} == {10 / (N - 1)}
    assert all(one.completion == f"text of {one.instance_id[1:]}" for one in found.completions)


def test_rare_scores_are_drawn_more_often(tmp_path: Path) -> None:
    found = draw_rating_sample(store_with(tmp_path / "s", "lab/m"), 12, options=DrawOptions(by_score=True)).completions
    low = [one for one in found if int(one.instance_id[1:]) % 10 == 0]
    assert len(low) == 4
    assert {one.probability for one in low} == {1.0}


def test_raters_see_codes_that_are_read_back_as_models(tmp_path: Path) -> None:
    store = store_with(tmp_path / "s", "lab/m", "lab/n")
    found = draw_rating_sample(store, 3, seed=7)
    named = draw_rating_sample(store, 3, seed=7, options=DrawOptions(show_models=True))
    assert len({one.model for one in found.completions}) == 6
    file = tmp_path / "ratings.csv"
    file.write_text(sample_to_csv(found, ["Dr A"]), encoding="utf-8")
    assert "lab/" not in file.read_text(encoding="utf-8")
    known = {"triage": RatedBenchmark(name="triage", criteria=("tone",), models=("lab/m", "lab/n"))}
    ids = {one.instance_id for one in found.completions}
    rows = read_ratings(file, known, lambda *_: ids).rows
    assert [(r.model, r.instance_id) for r in rows] == [(one.model, one.instance_id) for one in named.completions]
    other = {"triage": replace(known["triage"], models=("lab/x",))}
    with pytest.raises(ConfigError, match=r"is not the code of a judged model .* \(--store\)"):
        read_ratings(file, other, lambda *_: ids)


def test_benchmarks_and_models_can_be_named(tmp_path: Path) -> None:
    store = store_with(tmp_path / "s", "lab/m", "lab/n")
    store_with(store, "lab/m", benchmark="letters")
    one = RunFilter(models=["lab/n"], benchmarks=["triage"])
    found = draw_rating_sample(store, 5, wanted=one, options=DrawOptions(show_models=True)).completions
    assert {(one.benchmark, one.model) for one in found} == {("triage", "lab/n")}
    with pytest.raises(UserError, match=r"--benchmark: no run of `x`. Known: letters, triage"):
        draw_rating_sample(store, 5, wanted=RunFilter(benchmarks=["x"]))
    with pytest.raises(UserError, match=r"--model: no run of `lab/x`"):
        draw_rating_sample(store, 5, wanted=RunFilter(models=["lab/x"]))
    with pytest.raises(UserError, match="no run meets these conditions"):
        draw_rating_sample(store, 5, wanted=RunFilter(benchmarks=["letters"], models=["lab/n"]))


def test_a_store_without_judged_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no run whose judges gave grades"):
        draw_rating_sample(tmp_path / "none", 5)
    with pytest.raises(UserError, match="has no run whose judges gave grades"):
        draw_rating_sample(store_with(tmp_path / "s", "lab/m", jury_result=None), 5)


def test_baselines_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    store = store_with(tmp_path / "s", "lab/m", "baseline/majority")
    found = draw_rating_sample(store, 5, options=DrawOptions(show_models=True))
    assert ({one.model for one in found.completions}, found.left_out) == ({"lab/m"}, ("baseline/majority",))
    both = draw_rating_sample(store, 5, options=DrawOptions(show_models=True, include_baselines=True))
    assert ({one.model for one in both.completions}, both.left_out) == ({"lab/m", "baseline/majority"}, ())
    named = draw_rating_sample(
        store, 5, options=DrawOptions(show_models=True), wanted=RunFilter(models=["baseline/majority"])
    )
    assert ({one.model for one in named.completions}, named.left_out) == ({"baseline/majority"}, ())
    with pytest.raises(UserError, match=r"only judged runs of baseline/majority\. --include-baselines"):
        draw_rating_sample(store_with(tmp_path / "b", "baseline/majority"), 5)


def test_a_workbook_holds_the_rubric_and_is_read_back(tmp_path: Path, medhelm: Medhelm) -> None:
    """Texts stay texts, long ones continue in the next column, and grades are read as from CSV."""
    jury = JuryResult(jury=Jury(judges=JUDGES, min_judges=1), low=1, high=5, tallies={}, lower_is_better=("tone",))
    texts = {0: "=HYPERLINK(1)", 1: "https://x.example", 2: "long \U0001f600" * 8000, 3: "bad \x01 sign"}
    records = [replace(record(n), completion=Completion(text=texts.get(n, f"text of {n}"))) for n in range(N)]
    run = make_run("triage", "lab/m", n=N, main_metric=JURY, jury_result=jury)
    store = write_run(tmp_path / "s", run, records, [JURY]).folder.parents[2]  # type: ignore[union-attr]
    file = tmp_path / "ratings.xlsx"
    done = medhelm("agreement", "sample", "--size", N, "--raters", 2, file, "--store", store)
    assert done.code == 0, done.err
    assert file.read_bytes().startswith(b"PK")
    assert file.stat().st_mode & 0o777 == 0o600
    with CalamineWorkbook.from_path(str(file)) as workbook:
        assert workbook.sheet_names == ["Ratings", "Rubric"]
        names, *rows = workbook.get_sheet_by_name("Ratings").to_python()
        rubric = workbook.get_sheet_by_name("Rubric").to_python()
    assert ["triage", "tone", 1.0, 5.0, 1.0, ""] in rubric
    assert len(rows) == 2 * (N - 1)
    by_id = {str(row[names.index("instance_id")]): [str(cell) for cell in row] for row in rows}
    first = names.index("completion")
    long = [place for place, name in enumerate(names) if str(name).startswith("completion")]
    assert [by_id[f"i{n}"][first] for n in (0, 1)] == ["=HYPERLINK(1)", "https://x.example"]
    assert "".join(by_id["i2"][place] for place in long) == texts[2]
    assert all(len(by_id["i2"][place].encode("utf-16-le")) // 2 <= LONGEST_CELL for place in long)
    with zipfile.ZipFile(file) as content:
        sheet = content.read("xl/worksheets/sheet1.xml").decode()
        styles = content.read("xl/styles.xml").decode()
    assert "<f>" not in sheet
    assert "dataValidation" in sheet
    assert 'quotePrefix="1"' in styles  # the formula stays a text when it is edited
    filled = tmp_path / "filled.xlsx"
    with Workbook(str(filled), {"strings_to_formulas": False, "strings_to_urls": False}) as workbook:
        pages = workbook.add_worksheet()
        pages.write_row(0, 0, names)
        for number, row in enumerate(rows, 1):
            row[names.index("tone")] = 1 + number % 5
            pages.write_row(number, 0, row)
    compared = medhelm("agreement", filled, "--store", store)
    assert compared.code == 0, compared.err


def test_texts_that_excel_cuts_are_counted(tmp_path: Path, medhelm: Medhelm) -> None:
    texts = {2: "x" * LONGEST_CELL, 3: "x" * (LONGEST_CELL + 1), 4: "\U0001f600" * 20_000}
    records = [replace(record(n), completion=Completion(text=texts.get(n, "short"))) for n in range(N)]
    jury = JuryResult(jury=Jury(judges=JUDGES, min_judges=1), low=1, high=5, tallies={})
    run = make_run("triage", "lab/m", n=N, main_metric=JURY, jury_result=jury)
    store = write_run(tmp_path / "s", run, records, [JURY]).folder.parents[2]  # type: ignore[union-attr]
    done = medhelm("agreement", "sample", "--size", N, tmp_path / "r.csv", "--store", store)
    assert "2 texts of more than 32,767 characters, the most that Excel shows of a cell" in done.err
    done = medhelm("agreement", "sample", "--size", N, tmp_path / "j.csv", "--store", store, "--json")
    assert json.loads(done.out)["too_long_for_excel"] == 2
    done = medhelm("agreement", "sample", "--size", N, tmp_path / "r.xlsx", "--store", store)
    assert (done.code, done.err) == (0, "")


def test_a_sample_is_written_as_csv_or_xlsx_only(tmp_path: Path, medhelm: Medhelm) -> None:
    done = medhelm("agreement", "sample", tmp_path / "ratings.txt")
    assert (done.code, "must end in .csv or .xlsx" in done.err) == (2, True)
