"""Completions drawn from a store to be rated: only judged ones, the same for the same seed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
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
    JuryVerdict,
    Record,
    Score,
)
from medhelm.errors import ConfigError, UserError
from medhelm.io.spreadsheets import LONGEST_CELL
from medhelm.results.agreement import draw_rating_sample, sample_to_csv
from medhelm.results.options import DrawOptions, RunFilter
from medhelm.results.ratings import RatedBenchmark, read_ratings
from tests.support.cli import Medhelm, succeeded
from tests.support.stores import jury_of, make_record, make_run, write_run

N = 40


def record(position: int, text: str = "") -> Record:
    """A completion with a low score in one of ten, and a good one in the others; the last has no score."""
    value = 1.0 if position % 10 == 0 else 5.0
    failure = Failure("judge", "too_few_judges", "too few") if position == N - 1 else None
    return make_record(
        position,
        completion=Completion(text=text or f"text of {position}"),
        scores=tuple(Score(metric=JURY, rule=r, value=None if failure else value, failure=failure) for r in RULES),
        jury_verdict=JuryVerdict(scores=(), judgments=(Judgment(judge="lab/one", criterion="tone", score=value),)),
    )


def store_with(
    folder: Path, *models: str, benchmark: str = "triage", texts: Mapping[int, str] | None = None, **changes: Any
) -> Path:
    """Write a judged run of each model; `texts`: completions by position, where they are not the usual ones."""
    for model in models:
        fields = {"n": N, "main_metric": JURY, "jury_result": jury_of("lab/one", min_judges=1)} | changes
        records = [record(position, (texts or {}).get(position, "")) for position in range(N)]
        write_run(folder, make_run(benchmark, model, **fields), records, [JURY])
    return folder


@pytest.mark.parametrize("same_instances", [False, True])
def test_each_model_has_a_draw_with_its_probability(tmp_path: Path, same_instances: bool) -> None:
    store = store_with(tmp_path / "s", "lab/m", "lab/n")
    options = DrawOptions(show_models=True, same_instances=same_instances)
    found = draw_rating_sample(store, 10, seed=7, options=options)
    assert found.criteria == ("tone",)
    drawn: dict[str, set[str]] = {"lab/m": set(), "lab/n": set()}
    for one in found.completions:
        drawn[one.model].add(one.instance_id)
        assert one.probability == 10 / (N - 1)
        assert one.completion == f"text of {one.instance_id[1:]}"
    assert {len(ids) for ids in drawn.values()} == {10}
    assert (drawn["lab/m"] == drawn["lab/n"]) is same_instances
    assert f"i{N - 1}" not in drawn["lab/m"] | drawn["lab/n"]


def test_a_draw_depends_on_the_seed_and_not_on_other_models(tmp_path: Path) -> None:
    def drawn(name: str, seed: int, *models: str) -> set[str]:
        store = store_with(tmp_path / name, *models)
        found = draw_rating_sample(store, 10, seed=seed, options=DrawOptions(show_models=True))
        return {one.instance_id for one in found.completions if one.model == "lab/m"}

    assert drawn("one", 1, "lab/m") == drawn("both", 1, "lab/m", "lab/n") != drawn("other", 2, "lab/m")


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
    wanted = RunFilter(models=["lab/n"], benchmarks=["triage"])
    found = draw_rating_sample(store, 5, wanted=wanted, options=DrawOptions(show_models=True)).completions
    assert {(one.benchmark, one.model) for one in found} == {("triage", "lab/n")}
    with pytest.raises(UserError, match=r"--benchmark: no run of `x`. Known: letters, triage"):
        draw_rating_sample(store, 5, wanted=RunFilter(benchmarks=["x"]))
    with pytest.raises(UserError, match="has no run whose judges gave grades"):
        draw_rating_sample(store_with(tmp_path / "unjudged", "lab/m", jury_result=None), 5)


def test_baselines_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    store = store_with(tmp_path / "s", "lab/m", "baseline/majority")

    def drawn(*models: str, **options: bool) -> tuple[set[str], tuple[str, ...]]:
        how = DrawOptions(show_models=True, **options)
        found = draw_rating_sample(store, 5, options=how, wanted=RunFilter(models=models))
        return {one.model for one in found.completions}, found.left_out

    assert drawn() == ({"lab/m"}, ("baseline/majority",))
    assert drawn(include_baselines=True) == ({"lab/m", "baseline/majority"}, ())
    assert drawn("baseline/majority") == ({"baseline/majority"}, ())
    with pytest.raises(UserError, match=r"only judged runs of baseline/majority\. --include-baselines"):
        draw_rating_sample(store_with(tmp_path / "b", "baseline/majority"), 5)


def test_a_workbook_holds_the_rubric_and_is_read_back(tmp_path: Path, medhelm: Medhelm) -> None:
    """Texts stay texts, long ones continue in the next column, and grades are read as from CSV."""
    texts = {0: "=HYPERLINK(1)", 1: "https://x.example", 2: "long \U0001f600" * 8000, 3: "bad \x01 sign"}
    jury = replace(jury_of("lab/one", min_judges=1), lower_is_better=("tone",))
    store = store_with(tmp_path / "s", "lab/m", texts=texts, jury_result=jury)
    file = tmp_path / "ratings.xlsx"
    succeeded(medhelm("agreement", "sample", "--size", N, "--raters", 2, file, "--store", store))
    assert file.stat().st_mode & 0o777 == 0o600
    with CalamineWorkbook.from_path(str(file)) as workbook:
        names, *rows = workbook.get_sheet_by_name("Ratings").to_python()
        rubric = workbook.get_sheet_by_name("Rubric").to_python()
    assert ["triage", "tone", 1.0, 5.0, 1.0, ""] in rubric
    assert len(rows) == 2 * (N - 1)
    by_id = {str(row[names.index("instance_id")]): [str(cell) for cell in row] for row in rows}
    assert [by_id[f"i{n}"][names.index("completion")] for n in (0, 1)] == [texts[0], texts[1]]
    parts = [cell for name, cell in zip(names, by_id["i2"], strict=True) if str(name).startswith("completion")]
    assert "".join(parts) == texts[2]
    assert all(len(part.encode("utf-16-le")) // 2 <= LONGEST_CELL for part in parts)
    with zipfile.ZipFile(file) as content:
        sheet = content.read("xl/worksheets/sheet1.xml").decode()
        styles = content.read("xl/styles.xml").decode()
        properties = content.read("docProps/core.xml").decode()
    assert "<sheetProtection" in sheet
    assert 'locked="0"' in styles  # the cells to fill in
    assert "2000-01-01T00:00:00Z" in properties
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
    succeeded(medhelm("agreement", filled, "--store", store))


def test_texts_that_excel_cuts_are_counted(tmp_path: Path, medhelm: Medhelm) -> None:
    texts = {2: "x" * LONGEST_CELL, 3: "x" * (LONGEST_CELL + 1), 4: "\U0001f600" * 20_000}
    sample = ("agreement", "sample", "--size", N, "--store", store_with(tmp_path / "s", "lab/m", texts=texts))
    done = medhelm(*sample, tmp_path / "r.csv")
    assert "2 texts of more than 32,767 characters, the most that Excel shows of a cell" in done.err
    assert medhelm(*sample, tmp_path / "j.csv", "--json").json["too_long_for_excel"] == 2
    done = medhelm(*sample, tmp_path / "r.xlsx")
    assert (done.code, done.err) == (0, "")
