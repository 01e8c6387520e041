"""An analyst's own data: a spreadsheet as a new benchmark, and files in place of those of a published benchmark."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import Medhelm, assert_refused, succeeded

HEADER = ["Case ID", "Patient", " Note text ", "Answer"]


def cases() -> list[list[str]]:
    """Rows with an answer in changing case: each third one is yes."""
    note = "72-year-old, temp 38.{} °C – naïve; “no” bleeding, takes {}."
    kinds = [("yes", "apixaban"), ("No", "metformin"), ("no", "aspirin")]
    return [
        [str(i), f"p{i // 2}", note.format(i, kinds[i % 3][1]), kinds[i % 3][0].upper() if i == 3 else kinds[i % 3][0]]
        for i in range(1, 31)
    ]


def as_text(separator: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows([HEADER, *cases()])
    return text.getvalue()


def semicolons(path: Path) -> Path:
    path = path / "notes.csv"
    path.write_bytes(as_text(";").encode("cp1252"))
    return path


def tabs(path: Path) -> Path:
    path = path / "notes.csv"
    path.write_bytes(as_text("\t").encode("utf-16"))
    return path


def workbook(path: Path) -> Path:
    """A cover sheet, a title, merged headings, dates, truth values, and empty rows below."""
    from xlsxwriter import Workbook

    path = path / "notes.xlsx"
    with Workbook(str(path)) as book:
        book.add_worksheet("Info").write(0, 0, "From the ward")
        page, day = book.add_worksheet("Export"), book.add_format({"num_format": "yyyy-mm-dd"})
        page.merge_range(0, 0, 0, 4, "Discharge export")
        page.merge_range(2, 0, 2, 1, "Who")
        page.write_row(3, 0, [*HEADER[:3], "Date", "Anticoagulated"])
        for row, (case, patient, note, answer) in enumerate(cases(), 4):
            page.write_row(row, 0, [int(case), patient, note])
            page.write_datetime(row, 3, datetime.datetime(2026, 1, 1), day)
            page.write_boolean(row, 4, answer.lower() == "yes")
        page.write_blank(60, 0, None, day)
    return path


@pytest.mark.parametrize("make", [semicolons, tabs, workbook])
def test_a_spreadsheet_becomes_a_benchmark_with_a_leaderboard(
    medhelm: Medhelm, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    made = succeeded(medhelm("benchmarks", "new", "anticoagulants", "--from", make(tmp_path), "--out", tmp_path))
    for words in ("The prompt shows `Note text`", "identified by `Case ID`", "same `Patient` count as one patient"):
        assert words in made.out
    place = tmp_path / "anticoagulants"
    checked = succeeded(medhelm("benchmarks", "check", place, "--json"))
    (result,) = checked.json["benchmarks"]
    assert (result["n"], result["exceptions"], result["findings"]) == (30, [], [])
    assert medhelm("benchmarks", "check", place, "--tier", "sample").code == 0
    assert "38.1 °C – naïve; “no” bleeding" in medhelm("benchmarks", "preview", place, "--count", "1").out
    run = medhelm("run", place, "--model", "baseline/majority", "--json").json["runs"][0]
    assert run["metrics"]["exact_match"]["value"] == pytest.approx(2 / 3)
    assert "baseline/majority" in medhelm("leaderboard").out


LABELS = ["Y", "yes", "N", "no", "No", "unknown"]


def test_what_is_merged_hidden_skipped_or_spelled_in_several_ways_is_said(medhelm: Medhelm, tmp_path: Path) -> None:
    """Two questions share a merged note, one has none; a hidden sheet is larger; yes and no have several spellings."""
    from xlsxwriter import Workbook

    with Workbook(str(tmp_path / "w.xlsx")) as book:
        old, page = book.add_worksheet("Old"), book.add_worksheet("Data")
        old.write_column(0, 0, ["answer", *range(99)])
        old.hide()
        page.activate()
        page.set_first_sheet()
        page.merge_range(0, 0, 0, 3, "Export")
        page.write_row(2, 0, ["id", "note", "question", "answer"])
        for number, label in enumerate(LABELS, 3):
            note = None if number == 6 else "Fever since Monday, BP 80/40."
            page.write_row(number, 0, [number, note, f"Is it {label}?", label])
        page.merge_range(4, 1, 5, 1, "Leg swollen since Monday.")
        page.set_row(7, None, None, {"hidden": True})
    made = succeeded(medhelm("benchmarks", "new", "ward", "--from", tmp_path / "w.xlsx", "--out", tmp_path))
    for words in (
        "Read 6 rows of",
        "the sheet `Data`",
        "merged cells, each filled with the text of the first: B5:B6",
        "1 hidden row, read like the others: 8",
        "1 of 6 rows is skipped, because `note` is empty",
        "read as one: `N` as `no`, `Y` as `yes`",
    ):
        assert words in made.out, words
    place = tmp_path / "ward"
    checked = medhelm("benchmarks", "check", place, "--json")
    (result,) = checked.json["benchmarks"]
    assert (checked.code, result["n"], result["findings"]) == (0, 5, [])
    assert result["remarks"][-1] == "1 of 6 rows is skipped: `note` is empty (1)"
    instances = [json.loads(line) for line in medhelm("benchmarks", "instances", place).out.splitlines()]
    assert [one["fields"]["note"] for one in instances[1:3]] == ["Leg swollen since Monday."] * 2
    right = [reference["text"] for one in instances for reference in one["references"] if reference["correct"]]
    assert right == ["yes", "yes", "no", "no", "unknown"]
    run = medhelm("run", place, "--model", "baseline/majority")
    assert "ward: 1 of 6 rows is skipped: `note` is empty (1)." in run.err
    definition = place / "benchmark.yaml"
    text = definition.read_text(encoding="utf-8")
    definition.write_text(text.replace(', values: {N: "no", Y: "yes"}', ""), encoding="utf-8")
    assert_refused(
        medhelm("benchmarks", "check", place),
        "row 4 (id 3): the answer `Y` is not one of the options",
        "If it means `yes`, write `values: {Y: yes}` under `answer`.",
    )
    choices = 'choices: ["no", unknown, "yes"]'
    definition.write_text(
        definition.read_text(encoding="utf-8").replace(choices, 'choices: ["no", unknown, "yes", "Y", "N"]'),
        encoding="utf-8",
    )
    (result,) = medhelm("benchmarks", "check", place, "--json").json["benchmarks"]
    assert [(one["code"], "values: {N: no, Y: yes}" in one["text"]) for one in result["findings"]] == [
        ("spellings", True)
    ]


def test_an_error_of_a_spreadsheet_is_named_by_its_line_and_not_scored(medhelm: Medhelm, tmp_path: Path) -> None:
    rows = ["id,question,answer", "1,Is it sepsis on this ward?,yes", "", "2,Is it PE on this ward?,#REF!"]
    rows += ["3,Is it DVT on this ward?,no", "4,#BEZUG!,no"]
    (tmp_path / "w.csv").write_text("\n".join(rows), encoding="utf-8")
    assert medhelm("benchmarks", "new", "ward", "--from", tmp_path / "w.csv", "--out", tmp_path).code == 0
    assert_refused(
        medhelm("benchmarks", "check", tmp_path / "ward"),
        "w.csv, line 4: `answer` has the error #REF!. Correct it",
        "w.csv, line 6: `question` has the error #BEZUG!. Correct it",
    )


def test_a_file_with_two_encodings_is_refused_by_line(medhelm: Medhelm, tmp_path: Path) -> None:
    lines = as_text(",").splitlines(keepends=True)
    path = tmp_path / "notes.csv"
    path.write_bytes("".join(lines[:15]).encode() + "".join(lines[15:]).encode("cp1252"))
    assert_refused(
        medhelm("benchmarks", "new", "anticoagulants", "--from", path, "--out", tmp_path),
        "Lines in UTF-8: 2-15; in Windows-1252: 16-31.",
    )
    assert not (tmp_path / "anticoagulants").exists()


def test_names_of_other_benchmarks_are_refused(medhelm: Medhelm, tmp_path: Path) -> None:
    for name, words in (("pubmed_qa", "is the name of another"), ("Discharge QA", "Try `discharge_qa`")):
        assert_refused(medhelm("benchmarks", "new", name, "--out", tmp_path), words)


def test_a_folder_with_the_name_of_a_benchmark_is_ambiguous(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    medhelm("benchmarks", "new", "mine")
    (tmp_path / "mine").rename(tmp_path / "pubmed_qa")
    assert_refused(
        medhelm("run", "pubmed_qa", "--model", "baseline/majority"), "is both a benchmark and the folder ./pubmed_qa"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("PubMedQA", "Did you mean `pubmed_qa`?"),
        ("med_qa,pubmed_qa", "Separate names with blanks: med_qa pubmed_qa."),
        ("notes.csv", "`medhelm benchmarks new NAME --from notes.csv` makes a benchmark of it"),
    ],
)
def test_what_a_name_may_mean(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    semicolons(tmp_path)
    assert words in medhelm("run", name, "--model", "baseline/majority").err


def test_own_data_in_place_of_the_published_files_is_another_data_set(
    medhelm: Medhelm, tmp_path: Path, data_dir: Path
) -> None:
    sample = medhelm("data", "sample", "pubmed_qa", "--out", tmp_path)
    assert f"medhelm run pubmed_qa --data {tmp_path} --own-data --model ..." in sample.out
    assert_refused(
        medhelm("benchmarks", "check", "pubmed_qa", "--data", tmp_path), "for data of your own, use --own-data"
    )
    assert medhelm("benchmarks", "check", "pubmed_qa", "--data", tmp_path, "--own-data").code == 0
    own = ("run", "pubmed_qa", "--data", tmp_path, "--own-data", "--model", "baseline/majority")
    assert medhelm(*own).code == 0
    assert "PubMedQA (own data)" in medhelm("leaderboard", "--by", "benchmark").out
    assert medhelm("export", "card", tmp_path / "card.md").code == 0
    assert "own data in the format of the benchmark" in (tmp_path / "card.md").read_text(encoding="utf-8")
    medhelm("run", "pubmed_qa", "--data", data_dir, "--model", "baseline/lexical", "--limit", "50")
    assert "run on own data, the others on the published data" in medhelm("leaderboard").out


def test_the_published_form_of_a_gated_benchmark_takes_any_number_of_own_rows(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("data", "sample", "n2c2_ct", "--out", tmp_path)
    assert medhelm("benchmarks", "check", "n2c2_ct", "--data", tmp_path).code == 2
    assert medhelm("benchmarks", "check", "n2c2_ct", "--data", tmp_path, "--own-data").code == 0
    assert medhelm("plan", "n2c2_ct", "--data", tmp_path, "--own-data", "--model", "baseline/majority").code == 0


def test_a_cluster_that_looks_like_a_record_number_is_named(medhelm: Medhelm, tmp_path: Path) -> None:
    """When it is guessed, and when the benchmark is checked; a topic is not one."""
    rows = [f"{1000100 + n // 2},note {n} of a patient who came in,{'yes' if n % 2 else 'no'}" for n in range(8)]
    (tmp_path / "notes.csv").write_text("\n".join(["Subject,Note,Answer", *rows]) + "\n")
    made = succeeded(medhelm("benchmarks", "new", "own", "--from", "notes.csv"))
    assert "`Subject` looks like a record number of patients" in made.out + made.err
    checked = medhelm("benchmarks", "check", "own")
    assert "`cluster: Subject` looks like a record number of patients" in checked.out + checked.err
    (tmp_path / "topics.csv").write_text("\n".join(["Subject,Note,Answer", *(row[7:] for row in rows)]) + "\n")
    (tmp_path / "topics.csv").write_text((tmp_path / "topics.csv").read_text().replace("\n,", "\nasthma,"))
    made = succeeded(medhelm("benchmarks", "new", "topics", "--from", "topics.csv"))
    assert "record number" not in made.out + made.err
