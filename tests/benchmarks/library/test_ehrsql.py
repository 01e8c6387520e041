"""EHRSQL: the questions, and the published rule against the reference implementation."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medhelm.benchmarks.hooks import load_hook
from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.sql.extract import apply_conventions, find_query, published_query
from medhelm.scoring.sql.sandbox import run_query
from tests.support.benchmarks.library import LIBRARY, real, sample_tier

NOW = "2105-12-31 23:59:00"
NAMES = ("sql_execution_accuracy", "sql_precision", "sql_recall", "sql_validity")


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


def test_data_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, SCHEMA, valid=[{**ENTRY, "is_impossible": True}], test=[])
    with pytest.raises(DataError, match=r"valid\.json, question a: is_impossible and query contradict"):
        list(load_hook(LIBRARY / "ehrsql/hooks.py")(folder))


# --- real questions ---------------------------------------------------------------------------------------------------


def questions(data: Path) -> list[Instance]:
    return list(real("ehrsql", "all", data))


def test_the_real_questions_are_all_there_in_the_order_of_the_published_scores(data_dir: Path) -> None:
    instances = questions(data_dir)
    assert sum(instance.expected == "null" for instance in instances) == 950
    valid = json.loads((data_dir / "ehr_sql/eicu/valid.json").read_text(encoding="utf-8"))
    test = json.loads((data_dir / "ehr_sql/eicu/test.json").read_text(encoding="utf-8"))
    assert [instance.id for instance in instances] == [entry["id"] for entry in (*valid, *test)]
    assert sum(json.loads(instance.metadata["value"]) != {} for instance in instances) == 1959 - 230
    order = np.random.RandomState(0).permutation(2909)[:1000]
    assert [drawn.id for drawn in real("ehrsql", "default", data_dir)] == [instances[i].id for i in order]


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
    instances = [*sample_tier("ehrsql"), *questions(data_dir)[::200]]
    for instance in (replace(case, metadata={**case.metadata, "database": database}) for case in instances):
        query = instance.expected
        replies = [query, f"```sql\n{query};\n```", f"```SQL\n{query}\n```", f"<sql>{query}</sql>", f"Here: {query}"]
        for reply in (*replies, query.upper(), f"{query}; {query}", "", " \n", "null", "select 0", "select null"):
            scores = tuple(METRICS[name].function("published")(reply, instance) for name in NAMES)
            accuracy, answered, valid = reference_implementation(reply, instance, Path(database))
            assert scores == (accuracy, answered, answered, valid), (reply, instance.id)
