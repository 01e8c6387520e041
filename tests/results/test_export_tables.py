"""`medhelm export csv` and `medhelm export parquet`: tables for anybody, and the dictionary of their columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from medhelm import read_records as read_frame
from medhelm.domain import RULES
from medhelm.io.parquet import connect, sql_path
from medhelm.results.runs.remarks import counted_runs
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import load_runs, read_columns, score_column
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.evaluated_store import FORMULA, copy_of_store
from tests.support.stores import make_store

TABLES = ["runs", "estimates", "groups", "judges", "records", "judgments", "leaderboard"]


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters of options, the same in groups, and judged text, with failures of every kind."""
    return copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "exported-store")


def written(medhelm: Medhelm, store: Path, format: str, *options: str) -> Path:
    """The folder of an export."""
    folder = store.parent / f"tables-{format}"
    done = medhelm("export", format, folder, "--store", store, *options)
    assert done.code == 0, done.err
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    """A table as anybody's reader sees it; None where a value is missing."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return [{k: v or None for k, v in row.items()} for row in csv.DictReader(file, strict=True)]
    with duckdb.connect() as connection:
        cursor = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


# --- what is in them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_every_run_and_record_is_there_in_order(medhelm: Medhelm, store: Path, format: str) -> None:
    folder = written(medhelm, store, format)
    assert {path.stem for path in folder.glob(f"*.{format}")} - {"dictionary"} == set(TABLES)
    runs = rows(folder / f"runs.{format}")
    assert [run["benchmark"] for run in runs] == ["grouped", "grouped", "letters", "letters", "toy", "toy"]
    records = rows(folder / f"records.{format}")
    found = [(row["run"], int(row["position"])) for row in records]
    assert found == [(run["run"], position) for run in runs for position in range(9)]
    assert all((row["benchmark"], row["model"]) == pair(runs, row["run"]) for row in records)


def pair(runs: list[dict[str, Any]], run: str) -> tuple[str, str]:
    return next((row["benchmark"], row["model"]) for row in runs if row["run"] == run)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_scores_come_back_to_the_last_digit(medhelm: Medhelm, store: Path, format: str) -> None:
    records = rows(written(medhelm, store, format) / f"records.{format}")
    for run in load_runs(open_store(store)):
        own = [row for row in records if row["run"] == run.id]
        for rule in RULES:
            for metric in run.estimates[rule]:
                column = score_column(metric, rule)
                stored = read_columns(run, [column])[column]
                assert [None if row[column] is None else float(row[column]) for row in own] == stored
            main = [row[f"main_score_{rule}"] for row in own]
            assert main == [row[score_column(run.main_metric, rule)] for row in own]
    assert any(row["rouge_l_corrected"] is not None for row in records)


def test_metrics_that_a_run_does_not_have_are_missing(medhelm: Medhelm, store: Path) -> None:
    records = rows(written(medhelm, store, "csv") / "records.csv")
    assert {row["benchmark"] for row in records if row["rouge_l_corrected"]} == {"letters"}
    assert {row["benchmark"] for row in records if row["exact_match_published"]} == {"grouped", "toy"}


def test_a_failure_has_a_code_and_no_score(medhelm: Medhelm, store: Path) -> None:
    records = rows(written(medhelm, store, "csv") / "records.csv")
    failed = [row for row in records if row["failure_code"]]
    assert {(row["benchmark"], row["instance_id"]) for row in failed} == {("toy", "q4"), ("grouped", "q4")}
    assert all(row["main_score_corrected"] is None and row["failure_boundary"] == "provider" for row in failed)
    assert all(row["cluster"] is None for row in records)
    assert {row["group"] for row in records} == {None, "0", "1"}


def test_estimates_and_judgments_are_those_of_the_store(medhelm: Medhelm, store: Path) -> None:
    folder = written(medhelm, store, "csv")
    estimates = rows(folder / "estimates.csv")
    for run in counted_runs(load_runs(open_store(store))):
        found = {(e["metric"], e["scoring"]): float(e["value"]) for e in estimates if e["run"] == run.id}
        assert found == {(m, rule): e.value for rule in RULES for m, e in run.estimates[rule].items()}
    judgments = rows(folder / "judgments.csv")
    missing = [row for row in judgments if row["score"] is None]
    assert len(judgments) == 2 * 8 * 3 * 3  # two models, eight answers that are not blank, three judges, three criteria
    assert {(row["instance_id"], row["judge"].partition("@")[0]) for row in missing} == {
        ("q7", "openai/judge-3"), ("q8", "openai/judge-1"), ("q8", "openai/judge-2"), ("q8", "openai/judge-3"),
    }  # fmt: skip
    judges = rows(folder / "judges.csv")
    assert [(int(row["expected"]), int(row["failed"])) for row in judges[:3]] == [(24, 3), (24, 3), (24, 6)]


@pytest.mark.parametrize("rule", ["corrected", "published"])
def test_the_leaderboard_is_the_one_that_is_shown(medhelm: Medhelm, store: Path, rule: str) -> None:
    shown = medhelm("leaderboard", "--store", store, "--scoring", rule, "--json").json["models"]
    found = [row for row in rows(written(medhelm, store, "csv") / "leaderboard.csv") if row["scoring"] == rule]
    assert [row["model"] for row in found] == [row["model"] for row in shown]
    for row, model in zip(found, shown, strict=True):
        for name in ("win_rate", "macro_average"):
            for key, end in (("value", ""), ("low", "_low"), ("high", "_high")):
                there = model[name] and model[name][key]
                assert (
                    (row[name + end] or None) is None
                    if there is None
                    else float(row[name + end]) == pytest.approx(there, abs=1e-6)
                )


def test_chosen_benchmarks_have_a_leaderboard_of_their_own(medhelm: Medhelm, store: Path) -> None:
    folder = written(medhelm, store, "csv", "--benchmark", "toy")
    assert {row["benchmark"] for row in rows(folder / "records.csv")} == {"toy"}
    assert {row["n_benchmarks"] for row in rows(folder / "leaderboard.csv")} == {"1"}
    assert rows(folder / "judgments.csv") == []


def test_unfinished_runs_are_there_and_do_not_count(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path, n=9)
    medhelm("run", place, "--model", "baseline/majority", "--store", tmp_path / "store")
    medhelm("run", place, "--model", "baseline/majority", "--limit", "3", "--store", tmp_path / "store")
    runs = rows(written(medhelm, tmp_path / "store", "csv") / "runs.csv")
    assert {(row["n"], row["counts"], row["limit"]) for row in runs} == {("9", "true", None), ("3", "false", "3")}


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_no_text_of_patients_models_or_judges_is_written_unless_asked_for(
    medhelm: Medhelm, store: Path, format: str
) -> None:
    folder = written(medhelm, store, format)
    for path in folder.iterdir():
        content = path.read_bytes()
        for text in (b"Question number", b"An answer to", b"it is 3", b"HYPERLINK", b"content filter"):
            assert text not in content, path
    assert "contain no prompts" in (folder / "dictionary.md").read_text(encoding="utf-8")


def test_texts_are_written_when_asked_for_and_the_file_says_what_they_may_hold(medhelm: Medhelm, store: Path) -> None:
    folder = written(medhelm, store, "parquet", "--with-text")
    records = {(r["benchmark"], r["model"][7], r["instance_id"]): r for r in rows(folder / "records.parquet")}
    assert records["letters", "b", "q6"]["completion"] == FORMULA
    assert records["letters", "b", "q5"]["completion"] == ""
    assert records["toy", "b", "q4"]["completion"] is None
    assert "content filter" in records["toy", "b", "q4"]["failure_message"]
    prompts = {(p["benchmark"], p["instance_id"]): p for p in rows(folder / "prompts.parquet")}
    assert len(prompts) == 27
    assert json.loads(prompts["toy", "q2"]["messages"])[0]["content"].startswith("Question number 2?")
    assert json.loads(prompts["toy", "q2"]["references"])[1] == {"text": "bad", "correct": True}
    assert "patient data" in (folder / "dictionary.md").read_text(encoding="utf-8")


def test_a_completion_is_no_formula_in_a_spreadsheet(medhelm: Medhelm, store: Path) -> None:
    records = rows(written(medhelm, store, "csv", "--with-text") / "records.csv")
    (found, _) = [row["completion"] for row in records if row["completion"] and "HYPERLINK" in row["completion"]]
    assert found == "'" + FORMULA
    cells = [value for row in records for value in row.values() if value]
    assert not [cell for cell in cells if cell[0] in "=+-@\t\r" and not is_number(cell)]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_csv_is_that_of_the_standard(medhelm: Medhelm, store: Path) -> None:
    folder = written(medhelm, store, "csv", "--with-text")
    for path in folder.glob("*.csv"):
        content = path.read_bytes()
        assert not content.startswith(b"\xef\xbb\xbf")
        assert content.endswith(b"\r\n")
        outside = b"".join(content.split(b'"')[::2])
        assert outside.count(b"\n") == outside.count(b"\r\n") == len(rows(path)) + 1
    assert b'second line",' in (folder / "records.csv").read_bytes()
    assert b'patient, 47"")\nsecond line"' in (folder / "records.csv").read_bytes()


# --- the dictionary ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("options", [(), ("--with-text",)])
def test_every_column_is_described_and_every_description_has_a_column(
    medhelm: Medhelm, store: Path, format: str, options: tuple[str, ...]
) -> None:
    folder = written(medhelm, store, format, *options)
    described: dict[str, list[str]] = {}
    for row in rows(folder / "dictionary.csv"):
        described.setdefault(row["table"], []).append(row["column"])
        assert row["meaning"] and row["missing"] and row["type"]
    columns = {p.stem: columns_of(p) for p in folder.glob(f"*.{format}") if p.stem != "dictionary"}
    assert described == columns
    page = (folder / "dictionary.md").read_text(encoding="utf-8")
    for table, names in columns.items():
        part = page.partition(f"## {table}.{format}\n")[2].partition("\n## ")[0]
        assert all(f"\n| {name} |" in part for name in names)


def columns_of(path: Path) -> list[str]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return next(csv.reader(file))
    with duckdb.connect() as connection:
        return [row[0] for row in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()]


def test_a_column_that_is_never_missing_never_is(medhelm: Medhelm, store: Path) -> None:
    folder = written(medhelm, store, "parquet", "--with-text")
    tables = {path.stem: rows(path) for path in folder.glob("*.parquet")}
    for entry in rows(folder / "dictionary.csv"):
        values = [row[entry["column"]] for row in tables[entry["table"]]]
        if entry["missing"] == "never missing":
            assert None not in values, entry
        kinds = {"text": str, "JSON": str, "whole number": int, "number": float, "true or false": bool}
        assert all(isinstance(value, kinds[entry["type"]]) for value in values if value is not None), entry


# --- the folder -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_same_store_gives_the_same_tables_byte_by_byte(medhelm: Medhelm, store: Path, format: str) -> None:
    first = {path.name: path.read_bytes() for path in written(medhelm, store, format, "--with-text").iterdir()}
    second = {path.name: path.read_bytes() for path in written(medhelm, store, format, "--with-text").iterdir()}
    assert first == second


def test_a_folder_with_other_content_is_refused(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work", encoding="utf-8")
    done = medhelm("export", "csv", own, "--store", store)
    assert done.code == 2
    assert "not a medhelm export" in done.err
    assert [path.name for path in own.iterdir()] == ["thesis.txt"]


def test_a_store_of_baselines_has_no_remarks_on_judgments(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path), "--model", "baseline/majority", "--store", tmp_path / "store")
    folder = written(medhelm, tmp_path / "store", "parquet")
    assert rows(folder / "judgments.parquet") == rows(folder / "judges.parquet") == []
    assert "judgments" in {row["table"] for row in rows(folder / "dictionary.csv")}


def test_clusters_are_exported_as_keyed_hashes(tmp_path: Path, medhelm: Medhelm) -> None:
    """Equal for equal clusters, in every export of a store and never in another one."""
    numbers = ["1000105", "1000071", "1000105", ""]
    found = []
    for store in ("one", "two"):
        make_store(tmp_path / store, {"toy": {"m/a": [1.0, 0.0, 1.0, 0.0], "m/b": [1.0] * 4}}, clusters=numbers)
        for kind in ("csv", "parquet"):
            done = medhelm("export", kind, f"{store}-{kind}", "--store", store)
            assert done.code == 0, done.err
            assert "toy: the clusters look like record numbers of patients" in done.err
        with (tmp_path / f"{store}-csv" / "records.csv").open(newline="") as file:
            clusters = [row["cluster"] for row in csv.DictReader(file)]
        with connect() as connection:
            table = sql_path(tmp_path / f"{store}-parquet" / "records.parquet")
            rows = connection.execute(f"SELECT coalesce(cluster, '') FROM read_parquet({table})").fetchall()
        assert clusters == [row[0] for row in rows]
        assert clusters[:4] == clusters[4:]
        assert [clusters.index(one) for one in clusters[:4]] == [0, 1, 0, 3]
        names = Pseudonyms(open_store(tmp_path / store))
        assert clusters[:4] == [names.of("toy", number) for number in numbers]
        run = load_runs(open_store(tmp_path / store))[0]
        assert read_frame(run)["cluster"] == clusters[:4]
        for folder in (tmp_path / f"{store}-csv", tmp_path / f"{store}-parquet"):
            assert not any(b"10001" in path.read_bytes() for path in folder.rglob("*"))
        assert (tmp_path / store / "pseudonyms.key").stat().st_mode & 0o777 == 0o600
        found.append(clusters)
        shown = medhelm("show", "toy", "i000", "--store", store, "--json")
        assert {one["cluster"] for one in shown.json["completions"]} == {clusters[0]}
    assert not {*found[0]} & {*found[1]} - {""}
