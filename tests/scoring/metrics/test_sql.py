"""SQL metrics: finding the query in a reply, and both rules on a small database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import RULES, Completion, Instance
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import sql as rules
from medhelm.scoring.metrics.sql import SQL_EXECUTION_ACCURACY, SQL_PRECISION, SQL_RECALL, SQL_VALIDITY
from medhelm.scoring.sql.extract import apply_conventions, find_query
from tests.support.benchmarks.questions import open_question
from tests.support.cases import table

NOW = "2105-12-31 23:59:00"
METRICS = (SQL_EXECUTION_ACCURACY, SQL_PRECISION, SQL_RECALL, SQL_VALIDITY)

# --- reading replies --------------------------------------------------------------------------------------------------


@table(
    ("reply", "query"),
    [
        ("-- note; first\nselect 1;", "-- note; first\nselect 1;"),
        ("`select 1`", "select 1"),
        ("WITH RECURSIVE a(x) AS (SELECT 1) SELECT x FROM a", "WITH RECURSIVE a(x) AS (SELECT 1) SELECT x FROM a"),
        ("```sql\nselect 1;", "select 1;"),
        ("Step by step.\n```sql\nselect 1;\n```\nThen:\n```sql\nselect 2;\n```\nDone.", "select 2;"),
        ('Query: "SELECT 1;" That is all.', "SELECT 1;"),
        ("Here you are.\n\nselect a\nfrom t\nwhere b = 1\n\nThis gives a.", "select a\nfrom t\nwhere b = 1"),
        ("select 'a; b', \"c;d\" from t; -- done", "select 'a; b', \"c;d\" from t;"),
        ("select 'it''s; so' from t; fine", "select 'it''s; so' from t;"),
        ("select 1; drop table t;", "select 1; drop table t;"),
        ("with asthma as of today", "with asthma as of today"),
        ("<think>select 1;", "<think>select 1;"),
        ("", None),
        ("```sql\nnull\n```", None),
        ('{"can_answer": false}', None),
        ("[5]", "[5]"),
        ("-- there is no such table", None),
        ("I cannot select anything here to answer it.", None),
    ],
)
def test_a_query_is_found_wherever_it_stands_and_a_reply_without_one_abstains(reply: str, query: str | None) -> None:
    assert find_query(reply) == query


@table(
    ("sql", "meant"),
    [
        ("select strftime('%y-%m',t) , strftime('%j',t)", "select strftime('%Y-%m',t) , strftime('%J',t)"),
        ("select a < = 1 and b > = 2 and c ! = 3", "select a <= 1 and b >= 2 and c != 3"),
        (
            "h between heart_rate_lower and heart_rate_upper and t > temperature_upper",
            "h between 60.0 and 100.0 and t > 38.1",
        ),
        ("select pulse_lower, my_sao2_lower from t", "select pulse_lower, my_sao2_lower from t"),
    ],
)
def test_queries_are_executed_as_the_authors_mean_them(sql: str, meant: str) -> None:
    assert apply_conventions(sql, NOW) == meant


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "ward.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table stay (id int, ward varchar(10), los real, left_at timestamp)")
        made.executemany(
            "insert into stay values (?, ?, ?, ?)",
            [
                (1, "north", 2.5, "2105-12-30 10:00:00"),
                (2, "south", 3.0, None),
                (3, "north", 1.0, "2105-11-02 09:30:00"),
            ],
        )
        made.commit()
    return path


def instance(database: Path, query: str, value: str = "{}", **metadata: str) -> Instance:
    known = {"database": str(database), "value": value, "current_time": NOW, "conventions": "ehrsql", **metadata}
    return open_question(query, **known)


WARDS = "select ward from stay order by id"
LEFT = "select count(*) from stay where datetime(left_at) >= datetime(current_time,'-7 day')"
NOBODY = "select id from stay where ward = 'east'"
LONGEST = "select max(los) from stay"


@pytest.mark.parametrize(
    ("reference", "reply", "accuracy", "validity"),
    [
        (WARDS, WARDS, 1, 1),
        (WARDS, "select distinct ward from stay", 0, 1),
        (WARDS, "delete from stay", 0, 0),
        (WARDS, WARDS + "; " + WARDS, 1, 1),
        (WARDS, WARDS + "; select 1", 0, 0),
        (WARDS, "", 0, 0),
        (LEFT, "select 1", 1, 1),
        (LEFT, "select count(*) from stay where left_at >= datetime('current_time', '-7 days')", 1, 1),
        (NOBODY, "", 0, 0),
        (LONGEST, "select 3", 1, 1),
        (LONGEST, "select 3.0004", 1, 1),
        (LONGEST, "select 3.001", 0, 1),
        ("select null", "select ''", 0, 1),
        ("select 1e999", "select 9e999", 1, 1),
        ("null", "null", 1, 1),
        ("null", "This cannot be answered.", 1, 1),
        ("null", "select ward from nowhere", 0, 0),
    ],
)
def test_the_corrected_rule(database: Path, reference: str, reply: str, accuracy: int, validity: int) -> None:
    case = instance(database, reference)
    assert SQL_EXECUTION_ACCURACY.corrected(reply, case) == accuracy
    assert SQL_PRECISION.corrected(reply, case) == SQL_RECALL.corrected(reply, case) == accuracy
    assert SQL_VALIDITY.corrected(reply, case) == validity
    assert (SQL_EXECUTION_ACCURACY.explain(reply, case, "corrected") == "") == bool(accuracy)


@pytest.mark.parametrize(
    ("reference", "value", "reply", "accuracy", "answered", "validity"),
    [
        (WARDS, "{}", WARDS, 1, 1, 1),
        (WARDS, "{}", "<sql></sql>", 0, 1, 0),
        (WARDS, "{}", f"{WARDS};;", 0, 1, 0),
        (LONGEST, "{}", "select '3.0'", 0, 1, 1),
        (LEFT, "{}", "select 1", 0, 1, 1),
        (NOBODY, "{}", "", 1, 0, 0),
        (NOBODY, '{"ward": "east"}', NOBODY, 0, 1, 1),
        ("select heart_rate_lower", "{}", "select heart_rate_lower", 0, 1, 0),
        ("null", "{}", "", 1, 0, 0),
    ],
)
def test_the_published_rule(
    database: Path, reference: str, value: str, reply: str, accuracy: int, answered: int, validity: int
) -> None:
    case = instance(database, reference, value)
    assert SQL_EXECUTION_ACCURACY.function("published")(reply, case) == accuracy
    assert SQL_PRECISION.function("published")(reply, case) == SQL_RECALL.function("published")(reply, case) == answered
    assert SQL_VALIDITY.function("published")(reply, case) == validity


def test_precision_and_recall_count_what_their_names_say(database: Path) -> None:
    pairs = [(WARDS, WARDS), (WARDS, "select 1"), (WARDS, ""), ("null", ""), ("null", "select 1"), (WARDS, "selec")]
    cases = [(instance(database, reference), reply) for reference, reply in pairs]

    def ratio(number: int, rule: str) -> tuple[float, float]:
        parts = METRICS[number].parts
        assert parts is not None
        found = [parts(reply, case, rule)[""] for case, reply in cases if parts(reply, case, rule)]  # type: ignore[arg-type]
        return sum(above for above, _ in found), sum(below for _, below in found)

    assert [ratio(number, "corrected") for number in (1, 2, 3)] == [(1, 4), (1, 4), (3, 4)]
    assert [ratio(number, "published") for number in (1, 2, 3)] == [(3, 6)] * 3


@pytest.mark.parametrize(
    ("reference", "reply", "words"),
    [
        (WARDS, "", "the completion has no query, but the question can be answered"),
        ("null", "select 1", "there is a query, but the question cannot be answered"),
        (WARDS, "select 1", "its result is not that of the reference (1 and 3 rows)"),
        (WARDS, "drop table stay", "the query fails: DROP would change the database"),
    ],
)
def test_the_corrected_rule_says_why(database: Path, reference: str, reply: str, words: str) -> None:
    assert SQL_EXECUTION_ACCURACY.explain(reply, instance(database, reference), "corrected") == words


def test_the_published_rule_says_what_it_can_never_score(database: Path) -> None:
    case = instance(database, NOBODY, '{"ward": "east"}')
    assert "every completion scores 0" in SQL_EXECUTION_ACCURACY.explain(NOBODY, case, "published")
    assert "fails: it does not begin" in SQL_EXECUTION_ACCURACY.explain("four", instance(database, WARDS), "published")
    assert SQL_EXECUTION_ACCURACY.explain(WARDS, instance(database, WARDS), "published") == ""
    assert "fails: no such column" in SQL_VALIDITY.explain("select x", case, "corrected")


def test_without_its_database_nothing_is_computed(tmp_path: Path) -> None:
    for reference in ("select 1", "null"):
        scores = apply(METRICS, instance(tmp_path / "eicu.sqlite", reference), Completion(text=""))
        computed = {(score.metric, score.rule) for score in scores if score.value is not None}
        assert computed == {("sql_precision", "published"), ("sql_recall", "published")}
        assert {score.failure.code for score in scores if score.failure} == {"not_computed"}
    for name, words in (("eicu.sqlite", "agreement with PhysioNet.*preprocess_db.py"), ("ours.db", "Copy it there")):
        with pytest.raises(NotComputed, match=f"{name} does not exist.*{words}"):
            SQL_EXECUTION_ACCURACY.corrected("", instance(tmp_path / name, "select 1"))


def test_missing_data_is_named(database: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database")
    known = instance(database, "select 1")
    for case, words in (
        (replace(known, metadata={}), "column `database` is missing"),
        (replace(known, references=()), "no reference"),
        (instance(tmp_path / "notes.txt", "select 1"), "is not a SQLite database"),
        (instance(database, "select * from nowhere"), r"reference cannot be executed \(no such table: nowhere"),
    ):
        with pytest.raises(DataError, match=words):
            SQL_EXECUTION_ACCURACY.corrected("select 1", case)
    with pytest.raises(DataError, match="`value` is not JSON"):
        SQL_EXECUTION_ACCURACY.function("published")("", instance(database, NOBODY, "{"))


def test_values_of_other_data_keep_their_case(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table t as select 'ICU North' as ward, '2105-12-31' as day")
        made.commit()
    query = "SELECT count(*) FROM t WHERE ward = 'ICU North' AND day = date('now')"
    assert SQL_EXECUTION_ACCURACY.corrected("select 1", instance(path, query, conventions="")) == 1
    assert SQL_EXECUTION_ACCURACY.corrected("select 1", instance(path, query)) == 0
    with pytest.raises(DataError, match="`conventions` is 'spider'; it must be"):
        SQL_EXECUTION_ACCURACY.corrected("select 1", instance(path, query, conventions="spider"))


def test_most_columns_may_be_left_out(database: Path) -> None:
    case = open_question(WARDS, database=str(database))
    assert [metric.function(rule)(WARDS, case) for metric in METRICS for rule in RULES] == [1.0] * 8


def test_steps_of_a_query_are_limited_by_those_of_the_reference(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
    counts = "with recursive c(x) as (select 1 union all select x + 1 from c limit {}) select count(*) from c"
    monkeypatch.setattr(rules, "_MIN_STEPS", 100_000)
    short, long = instance(database, "select 1"), instance(database, counts.format(20_000))
    for metric in (SQL_EXECUTION_ACCURACY, SQL_VALIDITY):
        for rule in RULES:
            assert metric.function(rule)(endless, short) == 0
            assert metric.function(rule)(endless, instance(database, "null")) == 0
    assert "it takes more than 100,000 steps of SQLite" in rules._explain(endless, short, "corrected")
    # A slower query than the reference is correct, up to 100 times its steps.
    slower = f"{counts.format(200_000)} where x <= 20000"
    assert SQL_EXECUTION_ACCURACY.corrected(slower, long) == 1
    assert SQL_EXECUTION_ACCURACY.corrected(slower, instance(database, "select 20000")) == 0


def test_a_database_that_has_changed_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    for rows in (1, 2000):
        with closing(sqlite3.connect(path)) as made:
            made.execute("create table if not exists t (a)")
            made.executemany("insert into t values (?)", [("x",)] * rows)
            made.commit()
        n = 1 if rows == 1 else 2001
        assert SQL_EXECUTION_ACCURACY.corrected(f"select {n}", instance(path, "select count(*) from t")) == 1
