"""SQL metrics: finding the query in a reply, and both rules on a small database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import RULES, Completion, Instance, Reference
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import sql as rules
from medhelm.scoring.metrics.sql import (
    SQL_EXECUTION_ACCURACY,
    SQL_PRECISION,
    SQL_RECALL,
    SQL_VALIDITY,
)
from medhelm.scoring.sql.extract import apply_conventions, find_query, published_query, with_single_quotes
from medhelm.scoring.sql.sandbox import QueryLimits, QueryResult
from tests.support.cases import table

NOW = "2105-12-31 23:59:00"
METRICS = (SQL_EXECUTION_ACCURACY, SQL_PRECISION, SQL_RECALL, SQL_VALIDITY)

# --- reading replies --------------------------------------------------------------------------------------------------


@table(
    ("reply", "query"),
    [
        ("select 1", "select 1"),
        ("  SELECT 1;\n", "SELECT 1;"),
        ("-- note; first\nselect 1;", "-- note; first\nselect 1;"),
        ("with a as (select 1) select * from a;", "with a as (select 1) select * from a;"),
        ("WITH RECURSIVE a(x) AS (SELECT 1) SELECT x FROM a", "WITH RECURSIVE a(x) AS (SELECT 1) SELECT x FROM a"),
        ("```sql\nselect 1;\n```", "select 1;"),
        ("```sqlite\r\nselect 1;\r\n```", "select 1;"),
        ("```select 1```", "select 1"),
        ("```sql\nselect 1;", "select 1;"),
        ("Step by step.\n```sql\nselect 1;\n```\nThen:\n```sql\nselect 2;\n```\nDone.", "select 2;"),
        ("```sql\nselect 1;\n```\nIt prints\n```text\n1\n```", "select 1;"),
        ("```sql\n-- rows of the ward\nselect 1;\n```", "-- rows of the ward\nselect 1;"),
        ("<sql>select 1</sql>", "select 1"),
        ("<sql>```sql\nselect 1;\n```</sql>", "select 1;"),
        ("`select 1`", "select 1"),
        ('Query: "SELECT 1;" That is all.', "SELECT 1;"),
        ("The query is: select 1; It counts what you select.", "select 1;"),
        ("Here you are.\n\nselect a\nfrom t\nwhere b = 1\n\nThis gives a.", "select a\nfrom t\nwhere b = 1"),
        ("select 'a; b', \"c;d\" from t; -- done", "select 'a; b', \"c;d\" from t;"),
        ("select 'it''s; so' from t; fine", "select 'it''s; so' from t;"),
        ("This cannot be answered directly, but nearly:\nselect 1;", "select 1;"),
        ("select 1; drop table t;", "select 1; drop table t;"),
        ("select 1; select 2;", "select 1; select 2;"),
        ("drop table t;", "drop table t;"),
        ("(select 1)", "select 1"),
        ("four", "four"),
        ("with asthma as of today", "with asthma as of today"),
        ("<think>select 1;", "<think>select 1;"),
    ],
)
def test_a_query_is_found_wherever_it_stands(reply: str, query: str) -> None:
    assert find_query(reply) == query


@table(
    "reply",
    [
        "",
        " \n\t",
        "null",
        "None",
        '""',
        ";",
        "N/A",
        "```sql\nnull\n```",
        "(empty string)",
        "-- there is no such table",
        "```sql\n-- The question is unanswerable.\n```",
        "<think>Hm.</think>",
        "The question cannot be answered with this schema.",
        "I cannot select anything here to answer it.",
        "The schema does not contain addresses.",
        "There is no table for family history.",
    ],
)
def test_a_reply_without_a_query_abstains(reply: str) -> None:
    assert find_query(reply) is None


@given(st.text() | st.text(alphabet="selctwihfrom ()*`'\";\n-/<>sq"))
def test_reading_never_fails(reply: str) -> None:
    query = find_query(reply)
    assert query is None or query == query.strip()
    assert isinstance(apply_conventions(published_query(reply), NOW), str)


@pytest.mark.parametrize(
    "reply",
    [
        "/* a */ " * 20_000 + "x",
        "with " * 40_000,
        "with a (" * 20_000,
        "select " + "'a" * 40_000,
        "```" * 40_001,
        "<sql>" * 40_000,
        "can not " * 20_000,
        "\n \n" * 40_000,
        "strftime( " * 20_000,
    ],
    ids=lambda reply: reply[:12],
)
def test_long_replies_are_read_in_one_go(reply: str) -> None:
    assert len(find_query(reply) or "") <= len(reply)


@table(
    ("reply", "query"),
    [
        ("select 1;", "select 1;"),
        (" \n", ""),
        ("```sql\nselect 1;\n```", "select 1;"),
        ("```SQL\nselect 1;\n```", "SQL\nselect 1;"),
        ("```sqlite\nselect 1;\n```", "sqlite\nselect 1;"),
        ("x <SQL> `select` 1 <sql> y", "select 1"),
        ("<sql>select 1", "<sql>select 1"),
        ("Sure: select 1;", "Sure: select 1;"),
    ],
)
def test_the_published_clean_up_is_kept(reply: str, query: str) -> None:
    assert published_query(reply) == query


@table(
    ("sql", "meant"),
    [
        ("SELECT A FROM T WHERE B = 'Morphine 2 MG'", "select a from t where b = 'morphine 2 mg'"),
        ("select current_time", f"select '{NOW}'"),
        ("select CURRENT_TIME, current_timestamp", f"select '{NOW}', current_timestamp"),
        ("select datetime('NOW','-1 year')", f"select datetime('{NOW}','-1 year')"),
        ("select strftime('%y-%m',t) , strftime('%j',t)", "select strftime('%Y-%m',t) , strftime('%J',t)"),
        ("SELECT STRFTIME( '%Y-%m-%d %H:%M:%S Uhr', T)", "select strftime( '%Y-%m-%d %H:%M:%S uhr', t)"),
        ("select a < = 1 and b > = 2 and c ! = 3", "select a <= 1 and b >= 2 and c != 3"),
        (
            "h between heart_rate_lower and heart_rate_upper and t > temperature_upper",
            "h between 60.0 and 100.0 and t > 38.1",
        ),
        (
            "sao2_lower respiration_upper systolic_bp_lower diastolic_bp_upper mean_bp_upper",
            "95.0 18.0 90.0 90.0 110.0",
        ),
        ("select pulse_lower, my_sao2_lower from t", "select pulse_lower, my_sao2_lower from t"),
    ],
)
def test_queries_are_executed_as_the_authors_mean_them(sql: str, meant: str) -> None:
    assert apply_conventions(sql, NOW) == meant


def test_without_a_current_time_its_words_stay() -> None:
    assert apply_conventions("select current_time, 'now'", "") == "select current_time, 'now'"
    assert with_single_quotes("date(''2105'')") == "date('2105')"


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
        made.execute(
            "create table many as "
            "with recursive c(x) as (select 1 union all select x + 1 from c limit 250) select x from c"
        )
        made.commit()
    return path


def instance(database: Path, query: str, value: str = "{}", **metadata: str) -> Instance:
    known = {"database": str(database), "value": value, "current_time": NOW, "conventions": "ehrsql", **metadata}
    return Instance(id="7", fields={}, references=(Reference(query),), metadata=known)


WARDS = "select ward from stay order by id"
LEFT = "select count(*) from stay where datetime(left_at) >= datetime(current_time,'-7 day')"
NOBODY = "select id from stay where ward = 'east'"
LONGEST = "select max(los) from stay"
NUMBERS = "select x from many"


@pytest.mark.parametrize(
    ("reference", "reply", "accuracy", "validity"),
    [
        (WARDS, WARDS, 1, 1),
        (WARDS, "select ward from stay order by los", 1, 1),
        (WARDS, "SELECT Stay.WARD FROM Stay;", 1, 1),
        (WARDS, "select distinct ward from stay", 0, 1),
        (WARDS, "select wards from stay", 0, 0),
        (WARDS, "delete from stay", 0, 0),
        (WARDS, WARDS + "; " + WARDS, 1, 1),
        (WARDS, WARDS + "; select 1", 0, 0),
        (WARDS, "I guess south.", 0, 0),
        (WARDS, "", 0, 0),
        (LEFT, "select 1", 1, 1),
        (LEFT, "select count(*) from stay where left_at > date('now', '-7 days')", 1, 1),
        (LEFT, "select count(*) from stay where left_at >= datetime('current_time', '-7 days')", 1, 1),
        (LEFT, "select count(*) from stay where left_at > '2106'", 0, 1),
        (NOBODY, NOBODY, 1, 1),
        (NOBODY, "select 'a' from stay where 0", 1, 1),
        (NOBODY, WARDS, 0, 1),
        (NOBODY, "", 0, 0),
        (LONGEST, "select 3", 1, 1),
        (LONGEST, "select '3.0'", 1, 1),
        (LONGEST, "select 3.0004", 1, 1),
        (LONGEST, "select 3.001", 0, 1),
        ("select null", "select max(los) from stay where 0", 1, 1),
        ("select null", "select ''", 0, 1),
        ("select -0.0", "select 0", 1, 1),
        ("select 1e999", "select 9e999", 1, 1),
        (NUMBERS, "select x from many order by x desc", 1, 1),
        (NUMBERS, "select x + 1 from many", 0, 1),
        ("null", "null", 1, 1),
        ("null", "", 1, 1),
        ("null", "This cannot be answered.", 1, 1),
        ("null", "select null", 0, 1),
        ("null", "select ward from nowhere", 0, 0),
        (WARDS, "-- north, south", 0, 0),
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
        (WARDS, "{}", "select distinct ward from stay", 1, 1, 1),
        (WARDS, "{}", "```sql\n" + WARDS + "\n```", 1, 1, 1),
        (WARDS, "{}", "```SQL\n" + WARDS + "\n```", 0, 1, 0),
        (WARDS, "{}", "", 0, 0, 0),
        (WARDS, "{}", "<sql></sql>", 0, 1, 0),
        (WARDS, "{}", f"{WARDS};", 1, 1, 1),
        (WARDS, "{}", f"{WARDS}; -- all;", 1, 1, 1),
        (WARDS, "{}", f"{WARDS};;", 0, 1, 0),
        (WARDS, "{}", "-- nothing", 0, 1, 1),
        (WARDS, "{}", "update stay set ward = 'x'", 0, 1, 0),
        (LONGEST, "{}", "select 3", 1, 1, 1),
        (LONGEST, "{}", "select '3.0'", 0, 1, 1),
        (LEFT, "{}", LEFT, 1, 1, 1),
        (LEFT, "{}", "select 1", 0, 1, 1),
        (NOBODY, "{}", NOBODY, 0, 1, 1),
        (NOBODY, "{}", "", 1, 0, 0),
        (NOBODY, '{"ward": "east"}', NOBODY, 0, 1, 1),
        (NOBODY, '{"ward": "east"}', "", 0, 0, 0),
        (NOBODY, '{"ward": "east"}', "select 'east'", 0, 1, 1),
        ("select heart_rate_lower", "{}", "select heart_rate_lower", 0, 1, 0),
        ("null", "{}", "", 1, 0, 0),
        ("null", "{}", "null", 0, 0, 0),
        ("null", "{}", "select 1", 0, 0, 1),
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

    assert ratio(1, "corrected") == (1, 4)
    assert ratio(2, "corrected") == (1, 4)
    assert ratio(3, "corrected") == (3, 4)
    assert ratio(1, "published") == ratio(2, "published") == (3, 6)
    assert ratio(3, "published") == (3, 6)


@pytest.mark.parametrize(
    ("reference", "reply", "words"),
    [
        (WARDS, "", "the completion has no query, but the question can be answered"),
        ("null", "select 1", "there is a query, but the question cannot be answered"),
        (WARDS, "select 1", "its result is not that of the reference (1 and 3 rows)"),
        (WARDS, "drop table stay", "the query fails: DROP would change the database"),
        (WARDS, "select wards from stay", "the query fails: no such column: wards"),
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
    assert "fails: no such column" in SQL_VALIDITY.explain("select x", case, "published")
    assert SQL_VALIDITY.explain("", case, "published") == ""
    assert "no query" in SQL_VALIDITY.explain("", case, "corrected")


def test_a_reference_that_fails_cannot_be_scored(database: Path) -> None:
    for reply in ("", WARDS):
        with pytest.raises(DataError, match=r"reference cannot be executed \(no such table: nowhere"):
            SQL_EXECUTION_ACCURACY.corrected(reply, instance(database, "select * from nowhere"))


def test_without_its_database_nothing_is_computed(tmp_path: Path) -> None:
    for reference in ("select 1", "null"):
        scores = apply(METRICS, instance(tmp_path / "eicu.sqlite", reference), Completion(text=""))
        computed = {(score.metric, score.rule) for score in scores if score.value is not None}
        assert computed == {("sql_precision", "published"), ("sql_recall", "published")}
        assert {score.failure.code for score in scores if score.failure} == {"not_computed"}


@pytest.mark.parametrize(
    ("name", "words"), [("eicu.sqlite", "agreement with PhysioNet.*preprocess_db.py"), ("ours.db", "Copy it there")]
)
def test_a_missing_database_comes_with_instructions_to_build_it(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(NotComputed, match=f"{name} does not exist.*{words}"):
        SQL_EXECUTION_ACCURACY.corrected("", instance(tmp_path / name, "select 1"))


def test_missing_data_is_named(database: Path, tmp_path: Path) -> None:
    unnamed = Instance(id="7", fields={}, references=(Reference("select 1"),))
    with pytest.raises(DataError, match="column `database` is missing"):
        SQL_EXECUTION_ACCURACY.corrected("select 1", unnamed)
    wrong = Instance(id="7", fields={}, references=(), metadata={"database": str(database)})
    with pytest.raises(DataError, match="no reference"):
        SQL_EXECUTION_ACCURACY.corrected("select 1", wrong)
    with pytest.raises(DataError, match="`value` is not JSON"):
        SQL_EXECUTION_ACCURACY.function("published")("", instance(database, NOBODY, "{"))
    text = tmp_path / "notes.txt"
    text.write_text("no database")
    with pytest.raises(DataError, match="is not a SQLite database"):
        SQL_EXECUTION_ACCURACY.corrected("select 1", instance(text, "select 1"))


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
    case = Instance(id="7", fields={}, references=(Reference(WARDS),), metadata={"database": str(database)})
    assert [metric.function(rule)(WARDS, case) for metric in METRICS for rule in RULES] == [1.0] * 8


def test_each_query_is_executed_once(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_query(path: Path, sql: str, *, now: str, limits: QueryLimits) -> QueryResult:
        asked.append(sql)
        return QueryResult(rows=((1,),))

    monkeypatch.setattr(rules, "run_query", run_query)
    rules._execute_cached.cache_clear()
    for reply in ("select 11", "select 12", "select 11"):
        apply(METRICS, instance(database, "select 10"), Completion(text=reply))
    rules._execute_cached.cache_clear()
    assert asked == ["select 10", "select 11", "select 12"]


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
