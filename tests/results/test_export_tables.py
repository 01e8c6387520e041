"""`medhelm export csv` and `medhelm export parquet`: tables for anybody, and the dictionary of their columns."""

from __future__ import annotations

import csv
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

from medhelm import read_records as read_frame
from medhelm.domain import RULES, Completion
from medhelm.results.runs.counted import counted_runs
from medhelm.storage.annotations import add_annotation, new_annotation
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import load_runs, read_columns, score_column
from medhelm.storage.store import open_store
from tests.support.cli import Medhelm, assert_refused
from tests.support.evaluated_store import FORMULA, copy_of_store
from tests.support.stores import make_record, make_run, make_store, write_run

TABLES = ["runs", "estimates", "groups", "judges", "records", "judgments", "leaderboard"]


NOTE = new_annotation(
    "letters", "q6", model="openai/m", author="Ada", note="Question number 6: wrong key", tags=["key"]
)


FORMATS = ("csv", "parquet")


@pytest.fixture
def shared(medhelm: Medhelm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with failures of every kind and its tables, with texts and without, which no test changes.

    Letters of options, the same in groups, and judged text.
    """
    folder, template = (tmp_path_factory.getbasetemp() / name for name in ("exported-tables", "exported-store"))
    if not folder.exists():
        store = copy_of_store(medhelm, folder, template)
        star, gone = new_annotation("letters", "q7", is_starred=True), new_annotation("gone", "q1", note="No run")
        for one in (NOTE, star, gone):
            add_annotation(open_store(store), one)
        for format, texts in product(FORMATS, (False, True)):
            written(medhelm, store, format, *["--with-text"] * texts)
    return folder


def tables_of(shared: Path, format: str, *, texts: bool = False) -> Path:
    return shared / f"{format}{'--with-text' * texts}"


def written(medhelm: Medhelm, store: Path, format: str, *options: str) -> Path:
    """The folder of an export."""
    folder = store.parent / f"{format}{''.join(options)}"
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


@pytest.mark.parametrize("format", FORMATS)
def test_every_run_and_record_is_there_with_its_scores_to_the_last_digit(shared: Path, format: str) -> None:
    folder = tables_of(shared, format)
    assert {path.stem for path in folder.glob(f"*.{format}")} - {"dictionary"} == set(TABLES)
    runs = rows(folder / f"runs.{format}")
    assert [run["benchmark"] for run in runs] == ["grouped", "grouped", "letters", "letters", "toy", "toy"]
    records = rows(folder / f"records.{format}")
    assert [(row["run"], row["benchmark"], row["model"], int(row["position"])) for row in records] == [
        (run["run"], run["benchmark"], run["model"], position) for run in runs for position in range(9)
    ]
    for run in load_runs(open_store(shared / "store")):
        own = [row for row in records if row["run"] == run.id]
        for rule in RULES:
            for metric in run.estimates[rule]:
                column = score_column(metric, rule)
                stored = read_columns(run, [column])[column]
                assert [None if row[column] is None else float(row[column]) for row in own] == stored
            main = score_column(run.main_metric, rule)
            assert [row[f"main_score_{rule}"] for row in own] == [row[main] for row in own]
    assert {row["benchmark"] for row in records if row["rouge_l_corrected"] is not None} == {"letters"}
    failed = [row for row in records if row["failure_code"]]
    assert {(row["benchmark"], row["instance_id"]) for row in failed} == {("toy", "q4"), ("grouped", "q4")}
    assert all(row["main_score_corrected"] is None and row["failure_boundary"] == "provider" for row in failed)
    assert {row["group"] for row in records} == {None, "0", "1"}


def test_estimates_and_judgments_are_those_of_the_store(shared: Path) -> None:
    folder = tables_of(shared, "csv")
    estimates = rows(folder / "estimates.csv")
    for run in counted_runs(load_runs(open_store(shared / "store"))):
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


@pytest.mark.parametrize("rule", RULES)
def test_the_leaderboard_is_the_one_that_is_shown(medhelm: Medhelm, shared: Path, rule: str) -> None:
    shown = medhelm("leaderboard", "--store", shared / "store", "--scoring", rule, "--json").json["models"]
    found = [row for row in rows(tables_of(shared, "csv") / "leaderboard.csv") if row["scoring"] == rule]
    for row, model in zip(found, shown, strict=True):
        assert row["model"] == model["model"]
        for name in ("win_rate", "macro_average"):
            for key, end in (("value", ""), ("low", "_low"), ("high", "_high")):
                cell = row[name + end]
                assert (cell and float(cell)) == pytest.approx(model[name] and model[name][key], abs=1e-6)


def test_chosen_benchmarks_have_tables_of_their_own_and_unfinished_runs_do_not_count(
    medhelm: Medhelm, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "exported-store")
    medhelm("run", store.parent / "toy", "--model", "baseline/majority", "--limit", "3", "--store", store)
    medhelm("run", store.parent / "toy", "--model", "baseline/majority", "--store", store)
    folder = written(medhelm, store, "csv", "--benchmark", "toy")
    assert {row["benchmark"] for row in rows(folder / "records.csv")} == {"toy"}
    assert {row["n_benchmarks"] for row in rows(folder / "leaderboard.csv")} == {"1"}
    assert rows(folder / "judgments.csv") == []
    runs = [row for row in rows(folder / "runs.csv") if row["model"] == "baseline/majority"]
    assert {(row["n"], row["counts"], row["limit"]) for row in runs} == {("9", "true", None), ("3", "false", "3")}


@pytest.mark.parametrize("format", FORMATS)
def test_no_text_of_patients_models_or_judges_is_written_unless_asked_for(shared: Path, format: str) -> None:
    texts = (b"Question number", b"An answer to", b"it is 3", b"HYPERLINK", b"content filter")
    folder = tables_of(shared, format)
    assert [(path, text) for path in folder.iterdir() for text in texts if text in path.read_bytes()] == []
    assert "contain no prompts" in (folder / "dictionary.md").read_text(encoding="utf-8")


def test_texts_are_written_when_asked_for_and_the_file_says_what_they_may_hold(shared: Path) -> None:
    folder = tables_of(shared, "parquet", texts=True)
    records = {(r["benchmark"], r["model"][7], r["instance_id"]): r for r in rows(folder / "records.parquet")}
    assert records["letters", "b", "q6"]["completion"] == FORMULA
    assert records["letters", "b", "q5"]["completion"] == ""
    assert records["toy", "b", "q4"]["completion"] is None
    assert "content filter" in records["toy", "b", "q4"]["failure_message"]
    prompts = {(p["benchmark"], p["instance_id"]): p for p in rows(folder / "prompts.parquet")}
    assert len(prompts) == 27
    assert json.loads(prompts["toy", "q2"]["messages"])[0]["content"].startswith("Question number 2?")
    assert json.loads(prompts["toy", "q2"]["references"])[1] == {"text": "bad", "correct": True}
    note, star = rows(folder / "annotations.parquet")
    assert (note["annotation"], note["author"], note["note"], note["tags"]) == (NOTE.id, "Ada", NOTE.note, '["key"]')
    assert (star["instance_id"], star["note"], star["starred"]) == ("q7", None, True)
    assert "patient data" in (folder / "dictionary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("format", FORMATS)
def test_reasoning_is_a_text_of_the_model_and_written_only_with_the_others(
    medhelm: Medhelm, tmp_path: Path, format: str
) -> None:
    texts = ("", "=HYPERLINK: the patient cannot breathe")
    completions = [Completion(text="B", reasoning=text) for text in texts]
    records = [make_record(place, completion=one) for place, one in enumerate(completions)]
    write_run(tmp_path / "store", make_run(n=2), records)
    shown = rows(written(medhelm, tmp_path / "store", format, "--with-text") / f"records.{format}")
    guard = "'" if format == "csv" else ""
    assert [(row["completion"], row["reasoning"]) for row in shown] == [("B", None), ("B", guard + texts[1])]
    for path in written(medhelm, tmp_path / "store", format).iterdir():
        assert b"cannot breathe" not in path.read_bytes(), path


def test_csv_is_that_of_the_standard_and_no_completion_is_a_formula(shared: Path) -> None:
    folder = tables_of(shared, "csv", texts=True)
    for path in folder.glob("*.csv"):
        content = path.read_bytes()
        assert not content.startswith(b"\xef\xbb\xbf")
        outside = b"".join(content.split(b'"')[::2])
        assert outside.count(b"\n") == outside.count(b"\r\n") == len(rows(path)) + 1
    assert b'patient, 47"")\nsecond line",' in (folder / "records.csv").read_bytes()
    cells = [value for row in rows(folder / "records.csv") for value in row.values() if value]
    assert "'" + FORMULA in cells
    assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.e-]+$)", cell)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("texts", [False, True])
def test_every_column_is_described_and_has_values_as_described(shared: Path, format: str, texts: bool) -> None:
    folder = tables_of(shared, format, texts=texts)
    tables = {path.stem: rows(path) for path in folder.glob(f"*.{format}") if path.stem != "dictionary"}
    described: dict[str, list[str]] = {}
    kinds = {"text": str, "JSON": str, "whole number": int, "number": float, "true or false": bool}
    for entry in rows(folder / "dictionary.csv"):
        described.setdefault(entry["table"], []).append(entry["column"])
        assert entry["meaning"] and entry["missing"] and entry["type"]
        values = [row[entry["column"]] for row in tables[entry["table"]]]
        assert entry["missing"] != "never missing" or None not in values, entry
        if format == "parquet":
            assert all(isinstance(value, kinds[entry["type"]]) for value in values if value is not None), entry
    assert described == {name: list(table[0]) for name, table in tables.items()}
    page = (folder / "dictionary.md").read_text(encoding="utf-8")
    for table, names in described.items():
        part = page.partition(f"## {table}.{format}\n")[2].partition("\n## ")[0]
        assert all(f"\n| {name} |" in part for name in names)


def test_a_folder_with_other_content_is_refused(medhelm: Medhelm, shared: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work", encoding="utf-8")
    assert_refused(medhelm("export", "csv", own, "--store", shared / "store"), "not a medhelm export")
    assert [path.name for path in own.iterdir()] == ["thesis.txt"]


def test_clusters_are_exported_as_keyed_hashes(tmp_path: Path, medhelm: Medhelm) -> None:
    """Equal for equal clusters, in every export of a store and never in another one."""
    numbers = ["1000105", "1000071", "1000105", ""]
    found = []
    for store, formats in (("one", FORMATS), ("two", ["csv"])):
        make_store(tmp_path / store, {"toy": {"m/a": [1.0, 0.0, 1.0, 0.0], "m/b": [1.0] * 4}}, clusters=numbers)
        for kind in formats:
            done = medhelm("export", kind, f"{store}-{kind}", "--store", store)
            assert "toy: the clusters look like record numbers of patients" in done.err
            names = Pseudonyms(open_store(tmp_path / store))
            expected = [names.of("toy", number) for number in numbers]
            records = rows(tmp_path / f"{store}-{kind}" / f"records.{kind}")
            assert [row["cluster"] or "" for row in records] == expected * 2
            assert not any(b"10001" in path.read_bytes() for path in (tmp_path / f"{store}-{kind}").rglob("*"))
        assert [expected.index(one) for one in expected] == [0, 1, 0, 3]
        assert read_frame(load_runs(open_store(tmp_path / store))[0])["cluster"] == expected
        assert (tmp_path / store / "pseudonyms.key").stat().st_mode & 0o777 == 0o600
        shown = medhelm("show", "toy", "i000", "--store", store, "--json")
        assert {one["cluster"] for one in shown.json["completions"]} == {expected[0]}
        found.append(expected)
    assert not {*found[0]} & {*found[1]} - {""}
