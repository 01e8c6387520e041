"""EHRSQL: the questions, the invented database, and both rules on all of them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.ratios import linearized
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.hooks import load_hook
from medhelm.domain import Instance, Rule
from medhelm.errors import DataError, MissingError
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.sql.extract import apply_conventions, find_query, published_query
from medhelm.scoring.sql.sandbox import run_query
from tests.support.benchmarks.library import LIBRARY, benchmark, prompt_text, real, sample_tier

NOW = "2105-12-31 23:59:00"
NAMES = ("sql_execution_accuracy", "sql_precision", "sql_recall", "sql_validity")


def value(name: str, rule: Rule, instances: list[Instance], reply: str | None) -> float | None:
    """A metric over instances that all get the same reply, or each its reference."""
    metric = METRICS[name]
    replies = [instance.expected if reply is None else reply for instance in instances]
    scores = np.array([metric.function(rule)(text, case) for text, case in zip(replies, instances, strict=True)])
    parts = (
        [metric.parts(text, case, rule) for text, case in zip(replies, instances, strict=True)]
        if metric.parts
        else None
    )
    number = float(linearized(scores, parts).mean())
    return None if np.isnan(number) else round(number, 6)


# --- the invented questions -------------------------------------------------------------------------------------------

RESULTS: Mapping[str, list[object]] = {
    "which sex is recorded": ["female"],
    "by which routes has insulin glargine": ["subcut"],
    "how many are 60 or older": [2],
    "how many days lay between admission and discharge": [11 + 250 / 1440],
    "which two drugs were ordered most often": ["acetylcysteine 200 mg/ml iv soln", "sodium chloride 0.9% bolus"],
    "how much did the chest tube": [140 + 110],
    "by how much did the lactate": [1.2 - 4.6],
    "ever go above 120": [1],
    "which germ grew": ["escherichia coli"],
    "mean oxygen saturation": [89.0, (91 + 93) / 2, 94.0, (94 + 95) / 2],
    "acute respiratory failure this year": ["991-1008", "991-1010"],
    "for how many hours by now": [2 * 24 + 20 + 39 / 60],
    "at least twice in 03/2105": ["furosemide 40 mg inj", "sodium chloride 0.9% bolus"],
    "within the normal range": [1],
    "how many people had non-invasive ventilation": [2],
    "allergic to": ["latex", "penicillins"],
    "last sent for culture": ["2105-12-28 02:25:00"],
    "lowest potassium": [3.4, 3.8],
    "weight of patient 991-1002": [76.3 - 71.0],
    "receive by iv push": ["octreotide 50 mcg inj", "pantoprazole 40 mg inj"],
}
"""Part of an invented question -> its answer, read off the invented records."""


def answer(instance: Instance) -> list[tuple[object, ...]]:
    outcome = run_query(Path(instance.metadata["database"]), apply_conventions(instance.expected, NOW), now=NOW)
    assert outcome.code == ""
    return sorted(outcome.rows, key=str)


@pytest.mark.parametrize("part", RESULTS)
def test_an_invented_question_has_the_answer_of_the_records(part: str) -> None:
    (instance,) = (instance for instance in sample_tier("ehrsql") if part in instance.fields["question"])
    rows = answer(instance)
    assert all(len(row) == 1 for row in rows)
    for (found,), expected in zip(rows, sorted(RESULTS[part], key=str), strict=True):
        assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_the_most_expensive_stay_is_the_sum_of_its_charges() -> None:
    (instance,) = (
        instance for instance in sample_tier("ehrsql") if "the most expensive one" in instance.fields["question"]
    )
    sums = {
        stay: sum(row["cost"] for row in table("cost") if row["patienthealthsystemstayid"] == stay)
        for stay in (70003, 70010)
    }
    assert answer(instance) == [(pytest.approx(max(sums.values())),)]
    assert {row["drugname"] for row in table("medication") if row["patientunitstayid"] in (80003, 80011)} >= {
        "ceftriaxone 2 g ivpb"
    }


def test_the_invented_questions_can_and_cannot_be_answered() -> None:
    instances = sample_tier("ehrsql")
    impossible = [instance for instance in instances if instance.expected == "null"]
    assert (len(instances), len(impossible)) == (26, 5)
    assert {instance.metadata["value"] for instance in impossible} == {"{}"}
    assert len(RESULTS) + 1 + len(impossible) == len(instances)
    assert sum("heart_rate_lower" in instance.expected for instance in instances) == 1
    assert sum("current_time" in instance.expected for instance in instances) == 3


@pytest.mark.parametrize(
    ("reply", "rule", "expected"),
    [
        (None, "corrected", (1.0, 1.0, 1.0, 1.0)),
        ("", "corrected", (5 / 26, None, 0.0, None)),
        ("null", "corrected", (5 / 26, None, 0.0, None)),
        ("select 0", "corrected", (0.0, 0.0, 0.0, 1.0)),
        (None, "published", (16 / 26, 21 / 26, 21 / 26, 20 / 26)),
        ("", "published", (6 / 26, 0.0, 0.0, 0.0)),
        ("select 0", "published", (0.0, 21 / 26, 21 / 26, 1.0)),
    ],
)
def test_constant_completions_have_the_known_scores(
    reply: str | None, rule: Rule, expected: tuple[float | None, ...]
) -> None:
    found = [value(name, rule, list(sample_tier("ehrsql")), reply) for name in NAMES]
    assert found == [None if number is None else pytest.approx(number, abs=1e-5) for number in expected]


def test_the_prompt_ends_with_a_cue_and_shows_ten_tables() -> None:
    for instance in sample_tier("ehrsql"):
        prompt = prompt_text("ehrsql", instance)
        assert prompt.endswith(f"-- Question:\n{instance.fields['question']}\n\nSQL Query:")
        assert len(re.findall("^CREATE TABLE", prompt, re.MULTILINE)) == 10
        assert "DROP" not in prompt
        assert instance.expected == "null" or instance.expected not in prompt


# --- the invented records ---------------------------------------------------------------------------------------------


@cache
def table(name: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(sample_tier("ehrsql")[0].metadata["database"])) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f"select * from {name}")]


def test_the_invented_database_is_large_enough_and_whole() -> None:
    assert len(table("patient")) == len({row["patientunitstayid"] for row in table("patient")}) == 13
    assert len({row["uniquepid"] for row in table("patient")}) == 10
    with closing(sqlite3.connect(sample_tier("ehrsql")[0].metadata["database"])) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        assert len(names) == 10
        assert all(table(name) for name in names)
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_every_event_lies_within_its_hospital_stay() -> None:
    by_stay = {row["patientunitstayid"]: row for row in table("patient")}
    times = {
        "diagnosis": ["diagnosistime"],
        "treatment": ["treatmenttime"],
        "lab": ["labresulttime"],
        "medication": ["drugstarttime", "drugstoptime"],
        "allergy": ["allergytime"],
        "intakeoutput": ["intakeoutputtime"],
        "microlab": ["culturetakentime"],
        "vitalperiodic": ["observationtime"],
    }
    for name, columns in times.items():
        for row in table(name):
            stay = by_stay[row["patientunitstayid"]]
            moments = [row[column] for column in columns if row[column] is not None]
            end = stay["hospitaldischargetime"] or NOW
            assert stay["hospitaladmittime"] <= moments[0]
            assert moments == sorted(moments)
            assert moments[-1] <= end
            assert all(datetime.fromisoformat(moment).year in (2104, 2105) for moment in moments)


def test_stays_and_patients_are_consistent() -> None:
    for row in table("patient"):
        moments = [
            row["hospitaladmittime"],
            row["unitadmittime"],
            row["unitdischargetime"],
            row["hospitaldischargetime"],
        ]
        known = [moment for moment in moments if moment]
        assert known == sorted(known)
        assert (row["hospitaldischargetime"] is None) == (row["hospitaldischargestatus"] is None)
        assert 18 <= int(row["age"]) <= 89
    fixed = {(row["uniquepid"], row["gender"], row["ethnicity"], row["admissionheight"]) for row in table("patient")}
    assert len(fixed) == 10
    births = {(row["uniquepid"], int(row["hospitaladmittime"][:4]) - int(row["age"])) for row in table("patient")}
    assert len(births) == 10


def test_pressures_and_charges_add_up() -> None:
    for row in table("vitalperiodic"):
        systolic, diastolic = row["systemicsystolic"], row["systemicdiastolic"]
        assert row["systemicmean"] == round((systolic + 2 * diastolic) / 3)
        assert row["temperature"] is None or 35 <= row["temperature"] <= 40
        assert 80 <= row["sao2"] <= 100
    events = {
        (kind, row[f"{kind}id"]): (row[name], row[time])
        for kind, name, time in (
            ("diagnosis", "diagnosisname", "diagnosistime"),
            ("lab", "labname", "labresulttime"),
            ("treatment", "treatmentname", "treatmenttime"),
            ("medication", "drugname", "drugstarttime"),
        )
        for row in table(kind)
    }
    charged = {(row["eventtype"], row["eventid"]): row for row in table("cost")}
    assert charged.keys() == events.keys()
    assert len(charged) == len(table("cost"))
    assert all(row["chargetime"] == events[key][1] for key, row in charged.items())
    prices = {(key[0], events[key][0], row["cost"]) for key, row in charged.items()}
    assert len(prices) == len({price[:2] for price in prices})


# --- hooks ------------------------------------------------------------------------------------------------------------


def write(folder: Path, schema: str, **splits: list[dict[str, object]]) -> Path:
    (folder / "eicu").mkdir()
    (folder / "eicu/eicu.sql").write_text(schema, encoding="utf-8")
    for name, entries in splits.items():
        (folder / f"eicu/{name}.json").write_text(json.dumps(entries), encoding="utf-8")
    return folder


ENTRY = {
    "id": "a",
    "question": "Who?",
    "template": "who",
    "query": "select 1",
    "value": {"x": 1},
    "is_impossible": False,
}
SCHEMA = (
    "DROP TABLE IF EXISTS a;\nCREATE TABLE a\n(\n    b INT\n) ;\n\nDROP TABLE IF EXISTS c;\nCREATE TABLE c (d INT);\n"
)


def test_valid_comes_before_test_and_only_tables_are_shown(tmp_path: Path) -> None:
    impossible = {"id": "b", "question": "Why?", "template": "why", "query": "null", "is_impossible": True}
    folder = write(tmp_path, SCHEMA, valid=[impossible], test=[ENTRY])
    first, second = load_hook(LIBRARY / "ehrsql/hooks.py")(folder)
    assert (first["id"], first["query"], first["value"]) == ("b", "null", {})
    assert (second["id"], second["query"], second["value"]) == ("a", "select 1", {"x": 1})
    assert first["schema"] == "CREATE TABLE a\n(\n    b INT\n) ;\n\nCREATE TABLE c (d INT);"
    assert first["database"] == str(folder / "eicu/eicu.sqlite")
    assert first["current_time"] == NOW


@pytest.mark.parametrize(
    ("schema", "change", "message"),
    [
        (SCHEMA, {"is_impossible": True}, "valid.json, question a: is_impossible and query contradict"),
        (SCHEMA, {"query": "null"}, "valid.json, question a: is_impossible and query contradict"),
        ("DROP TABLE a;", {}, "eicu.sql: holds no CREATE TABLE"),
    ],
)
def test_data_that_contradicts_itself_is_refused(
    tmp_path: Path, schema: str, change: dict[str, object], message: str
) -> None:
    folder = write(tmp_path, schema, valid=[{**ENTRY, **change}], test=[])
    with pytest.raises(DataError, match=message):
        list(load_hook(LIBRARY / "ehrsql/hooks.py")(folder))


# --- real questions ---------------------------------------------------------------------------------------------------


def questions(data: Path) -> list[Instance]:
    return list(real("ehrsql", "all", data))


def test_the_real_questions_are_all_there(data_dir: Path) -> None:
    instances = questions(data_dir)
    assert len(instances) == len({instance.id for instance in instances}) == 2909
    assert sum(instance.expected == "null" for instance in instances) == 950
    valid = json.loads((data_dir / "ehr_sql/eicu/valid.json").read_text(encoding="utf-8"))
    test = json.loads((data_dir / "ehr_sql/eicu/test.json").read_text(encoding="utf-8"))
    assert [instance.id for instance in instances] == [entry["id"] for entry in (*valid, *test)]
    assert sum(json.loads(instance.metadata["value"]) != {} for instance in instances) == 1959 - 230


def test_the_default_draw_is_that_of_the_published_scores(data_dir: Path) -> None:
    everything = [instance.id for instance in questions(data_dir)]
    order = np.random.RandomState(0).permutation(2909)[:1000]
    assert [instance.id for instance in real("ehrsql", "default", data_dir)] == [everything[i] for i in order]


@pytest.mark.long
def test_every_reference_can_be_executed_on_the_real_schema(data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.executescript((data_dir / "ehr_sql/eicu/eicu.sql").read_text(encoding="utf-8"))
    failed = []
    for instance in questions(data_dir):
        if instance.expected == "null":
            continue
        assert find_query(instance.expected) == published_query(instance.expected) == instance.expected
        assert run_query(path, apply_conventions(instance.expected, NOW), now=NOW).code == ""
        if run_query(path, instance.expected, now=NOW).code:
            failed.append(instance.expected)
    assert len(failed) == 8
    assert all("_lower and " in query for query in failed)


def test_without_the_database_questions_are_asked_and_not_scored(data_dir: Path) -> None:
    if (data_dir / "ehr_sql/eicu/eicu.sqlite").exists():
        pytest.skip("the database is there")
    with pytest.raises(MissingError, match=r"lacks eicu/eicu\.sqlite[\s\S]*PhysioNet"):
        open_dataset(benchmark("ehrsql"), data=data_dir, tier="real", scoring=True)
    with pytest.raises(DataError, match=r"eicu\.sqlite does not exist.*PhysioNet"):
        METRICS["sql_execution_accuracy"].corrected("", questions(data_dir)[0])


def reference_implementation(reply: str, instance: Instance, database: Path) -> tuple[int, int, int]:
    """Accuracy, answerability and validity as the published leaderboard has them, on a database that cannot change."""

    def execute(sql: str) -> tuple[list[tuple[object, ...]], bool]:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            connection.create_function("current_time", 0, lambda: NOW[-8:])
            try:
                return connection.execute(sql).fetchall(), True
            except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.Warning):
                return [], False

    expected: list[object] = [*execute(instance.expected)[0]]
    expected = expected or list(json.loads(instance.metadata["value"]).values())
    text = reply.strip()
    tagged = re.search(r"<\s*sql\s*>(.*?)<\/?\s*sql\s*>", text, re.DOTALL | re.IGNORECASE)
    sql = re.sub(r"^sql\n", "", (tagged[1] if tagged else text).replace("`", "").strip(), flags=re.MULTILINE)
    rows, valid = execute(sql) if sql else ([], False)
    right = set(rows) == set(expected) if rows and expected else not (rows or expected or text)
    return int(right), int(bool(text) and instance.expected != "null"), int(bool(text) and valid)


def test_the_published_rule_is_that_of_the_reference_implementation(data_dir: Path) -> None:
    """On the invented database, where most real questions find nothing, as on the published one."""
    database = sample_tier("ehrsql")[0].metadata["database"]
    instances = [*sample_tier("ehrsql"), *questions(data_dir)[::60]]
    for instance in (replace(case, metadata={**case.metadata, "database": database}) for case in instances):
        query = instance.expected
        replies = [query, f"```sql\n{query};\n```", f"```SQL\n{query}\n```", f"<sql>{query}</sql>", f"Here: {query}"]
        for reply in (*replies, query.upper(), f"{query}; {query}", "", " \n", "null", "select 0", "select null"):
            scores = tuple(METRICS[name].function("published")(reply, instance) for name in NAMES)
            accuracy, answered, valid = reference_implementation(reply, instance, Path(database))
            assert scores == (accuracy, answered, answered, valid), (reply, instance.id)
