"""SQL metrics: compare the result of the query in a completion with that of the reference query.

The reference of an instance is the SQL that answers its question, or `null` if the database cannot answer it. Metadata:

    database        path of the SQLite file, from `hooks.py`
    current_time    `YYYY-MM-DD HH:MM:SS`, the current time of the data; optional
    conventions     `ehrsql` if queries are written as in that dataset, else empty; optional
    value           JSON object: values inserted into the question, for the published rule; optional

Published rule, of the reference implementation. Reference and completion are executed unchanged, except that only the
text inside <sql> tags is used and back-ticks are removed. If both return rows, these must be the same set. If the
reference returns none, the values of the question take its place, and no row equals them; without such values, only the
empty completion is correct. Precision and recall are the same number: the share of all instances that can be answered
and have a completion. One difference: there, a completion can change the database, run forever and read the clock. Here
both run in `medhelm.scoring.sql.sandbox` with a fixed clock. Queries that the sandbox refuses have no result.

Corrected rule, of the authors of EHRSQL. The SQL is found anywhere in the completion. An empty completion, `null`, or
words that the question cannot be answered count as abstention (`medhelm.scoring.sql.extract`). The rows must be the
same, each equally often, in any order. If the question cannot be answered, only abstention is correct. With the
conventions `ehrsql`, both queries are first normalized (`sql.extract.apply_conventions`) and put in lower case, like
all values of that dataset.

Two details differ from the authors' program of 2022. It takes the first 100 rows and then sorts them; here all rows are
sorted first, so that the order in which the database returns them does not matter. It compares values as texts; here,
as in the authors' evaluation of 2024, numbers are rounded to three decimals, so that 0 and 0.0, and 1 and '1', are
equal.

Under both rules, the query of a completion may take 100 times the steps of the reference, or 200 million if that is
more (a few seconds), and never more than 60 s, the limit of the authors. Steps are instructions of SQLite's virtual
machine: the limit depends neither on the speed of the computer nor on other completions, and it bounds the time for
a model that writes endless queries. A query beyond it fails.

    metric                   corrected
    sql_execution_accuracy   correct results and correct abstentions / all instances
    sql_precision            correct results / completions with a query
    sql_recall               correct results / questions that can be answered
    sql_validity             queries that SQLite executes / completions with a query

The score of a single instance is 1 if it is correct (sql_validity: if it can be executed, or abstains correctly). An
instance whose reference fails cannot be scored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from medhelm.domain import Instance, Parts, Rule
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError, NotComputed
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction, correct_references, metadata_text
from medhelm.scoring.sql.extract import (
    apply_conventions,
    find_query,
    goes_on_after_statement,
    published_query,
    with_single_quotes,
)
from medhelm.scoring.sql.sandbox import DEFAULT_LIMITS, Cell, QueryResult, run_query

_UNANSWERABLE = ("null", "")
_COMPARED_ROWS = 100
_DECIMALS = 3
_TIMES_REFERENCE, _MIN_STEPS = 100, 200_000_000
_CACHED = 4096  # results of a few hundred bytes each

_BUILD_INSTRUCTIONS = {
    "eicu.sqlite": (
        "The questions are about eICU 2.0, which needs an agreement with PhysioNet "
        "(https://physionet.org/content/eicu-crd/2.0/). Build the file from its tables with the authors' script, "
        "preprocess/preprocess_db.py of github.com/glee4810/EHRSQL: --db_name eicu --deid --timeshift "
        "--current_time '2105-12-31 23:59:00' --start_year 2100 --time_span 5 --cur_patient_ratio 0.1."
    )
}
"""Name of a database -> how to build it."""


class _Result(NamedTuple):
    """Digest of a query result."""

    code: str
    """Error code as in `QueryResult`; "" for a result."""
    message: str
    """Message of the error."""
    steps: int
    """Steps of SQLite, as in `QueryResult`."""
    n_rows: int
    """Number of rows."""
    as_set: str
    """Hash of the distinct rows, exact."""
    as_list: str
    """Hash of the first rows after sorting, with rounded numbers."""


class _Verdict(NamedTuple):
    """Result of the corrected rule."""

    answerable: bool
    """True if the question can be answered."""
    answered: bool
    """True if the completion has a query."""
    right: bool
    """True if the completion is correct."""
    result: _Result | None
    """Result of its query; None without one."""
    reason: str
    """Explanation of a wrong completion; "" for a correct one."""

    @property
    def executes(self) -> bool:
        """True if its query was executed."""
        return self.result is not None and not self.result.code


def _verdict(completion: str, instance: Instance) -> _Verdict:
    """Apply the corrected rule.

    Raises NotComputed without the database, even if nothing would be executed: the rest would be another benchmark.
    """
    _database(instance)
    answerable = _reference(instance).lower() not in _UNANSWERABLE
    query = find_query(completion)
    expected = _normalized_result(_reference(instance), instance) if answerable else None
    if expected and expected.code:
        raise DataError(f"the reference cannot be executed ({expected.message}), so no completion can be correct")
    if query is None:
        reason = "the completion has no query, but the question can be answered" if answerable else ""
        return _Verdict(answerable, False, not answerable, None, reason)
    result = _normalized_result(query, instance, _most_steps(expected))
    if expected is None:
        reason = "there is a query, but the question cannot be answered"
    elif result.code:
        reason = f"the query fails: {result.message}"
    elif result.as_list != expected.as_list:
        counts = f"{result.n_rows} and {expected.n_rows} rows"
        reason = f"its result is not that of the reference ({counts})"
    else:
        reason = ""
    return _Verdict(answerable, True, not reason, result, reason)


def _most_steps(expected: _Result | None) -> int:
    """Return the limit on the steps of a completion's query, given the result of the reference."""
    return max(_MIN_STEPS, _TIMES_REFERENCE * expected.steps if expected else 0)


def _normalized_result(query: str, instance: Instance, most_steps: int = 0) -> _Result:
    """Execute a query with its conventions. Doubled quotes are halved only if it is not valid SQL otherwise.

    `most_steps`: its limit, 0 for none.
    """
    conventions = instance.metadata.get("conventions", "")
    if conventions not in ("", "ehrsql"):
        raise DataError(f"`conventions` is {conventions!r:.40}; it must be `ehrsql` or empty")
    if not conventions:
        return _execute(query, instance, most_steps)
    sql = apply_conventions(query, instance.metadata.get("current_time", ""))
    result = _execute(sql, instance, most_steps)
    return (
        _execute(with_single_quotes(sql), instance, most_steps) if result.code == "syntax" and "''" in sql else result
    )


def _accuracy(completion: str, instance: Instance) -> float:
    return float(_verdict(completion, instance).right)


def _validity(completion: str, instance: Instance) -> float:
    verdict = _verdict(completion, instance)
    return float(verdict.executes if verdict.answered else verdict.right)


def _published_accuracy(completion: str, instance: Instance) -> float:
    expected = _execute(_reference(instance), instance)
    if expected.n_rows:
        return float(_published_result(completion, instance).as_set == expected.as_set)
    return float(not _has_values(instance) and not completion.strip())


def _published_validity(completion: str, instance: Instance) -> float:
    return float(_published_result(completion, instance).code == "")


def _published_answerability(completion: str, instance: Instance) -> float:
    return float(bool(completion.strip()) and _reference(instance).lower() not in _UNANSWERABLE)


def _published_result(completion: str, instance: Instance) -> _Result:
    """Execute what the published rule executes. Comments alone are executed and return nothing."""
    query = published_query(completion)
    if goes_on_after_statement(query):
        return _digest_result(QueryResult(code="several_statements", message="there is more than one statement"))
    result = _execute(query, instance, _most_steps(_execute(_reference(instance), instance)))
    return _digest_result(QueryResult()) if query and result.code == "empty" else result


def _has_values(instance: Instance) -> bool:
    """Return True if values were inserted into the question."""
    text = instance.metadata.get("value", "")
    try:
        return bool(json.loads(text)) if text.strip() else False
    except ValueError as error:
        raise DataError(f"`value` is not JSON ({error}): {text:.60}") from None


def _reference(instance: Instance) -> str:
    """Return the SQL of the reference. Raises DataError without one."""
    return correct_references(instance)[0].strip()


def _execute(sql: str, instance: Instance, most_steps: int = 0) -> _Result:
    """Execute a query on the instance's database. Raises NotComputed if the file does not exist."""
    database, state = _database(instance)
    return _execute_cached(database, state, sql, instance.metadata.get("current_time", ""), most_steps)


def _database(instance: Instance) -> tuple[Path, tuple[int, int]]:
    """Return the path of the database, and its modification time and size as a version. Raises NotComputed."""
    database = Path(metadata_text(instance, "database"))
    try:
        state = database.stat()
    except OSError:
        how = _BUILD_INSTRUCTIONS.get(database.name, "Copy it there, or correct the column `database`.")
        raise NotComputed(f"the database {database} does not exist. {how}") from None
    return database, (state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=_CACHED)
def _execute_cached(
    database: Path,
    state: tuple[int, int],  # noqa: ARG001 - cache key
    sql: str,
    present: str,
    most_steps: int,
) -> _Result:
    """Execute a query. Cached: several metrics need the result, and models share references."""
    return _digest_result(run_query(database, sql, now=present, limits=replace(DEFAULT_LIMITS, steps=most_steps)))


def _digest_result(outcome: QueryResult) -> _Result:
    """Reduce a result to hashes: results may be large."""
    exact = sorted({json.dumps([_exact_value(cell) for cell in row]) for row in outcome.rows})
    tolerant = sorted([_rounded_value(cell) for cell in row] for row in outcome.rows)[:_COMPARED_ROWS]
    return _Result(outcome.code, outcome.message, outcome.steps, len(outcome.rows), _hash(exact), _hash(tolerant))


def _exact_value(cell: Cell) -> object:
    """Return a value in which equal numbers of different types are the same."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return {"hex": cell.hex()} if isinstance(cell, bytes) else cell


def _rounded_value(cell: Cell) -> str:
    """Return a value as text, with numbers rounded to three decimals."""
    if isinstance(cell, bytes):
        return cell.hex()
    try:
        number = float(cell)  # type: ignore[arg-type]  # None is not a number
    except (TypeError, ValueError, OverflowError):
        return str(cell)
    return str(round(number, _DECIMALS) + 0.0) if isfinite(number) else str(cell)


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _explain(completion: str, instance: Instance, rule: Rule) -> str:
    """Explain a wrong completion."""
    if rule == "corrected":
        return _verdict(completion, instance).reason
    expected = _execute(_reference(instance), instance)
    if not expected.n_rows and _has_values(instance):
        return "the reference returns no rows, so by the published rule every completion scores 0"
    result = _published_result(completion, instance)
    if not completion.strip() or not (result.code or not expected.n_rows):
        return ""
    if result.code:
        return f"the query fails: {result.message}"
    return "the reference returns no rows, so by the published rule only an empty completion scores 1"


def _explain_validity(completion: str, instance: Instance, rule: Rule) -> str:
    """Explain why a query cannot be executed."""
    verdict = _verdict(completion, instance)
    result = verdict.result if rule == "corrected" else _published_result(completion, instance)
    if result is None:
        return verdict.reason
    return f"the query fails: {result.message}" if result.code and completion.strip() else ""


_BEGINS_STATEMENT = lazy_regex(
    r"(?:\s|--[^\n]*+\n|(?>/\*.*?\*/)|[;(])*+(?:select|with|values|insert|replace|update|delete|create|drop|alter|explain"
    r"|pragma|attach)\b",
    re.DOTALL | re.IGNORECASE,
)


def _read_query(completion: str, instance: Instance) -> str | None:  # noqa: ARG001 - the shape of readers
    """Return the query in a completion, "" for an abstention; None for text that is neither."""
    query = find_query(completion)
    return "" if query is None else query if _BEGINS_STATEMENT.match(query) else None


def _ratio_parts(
    counts: Callable[[_Verdict], tuple[bool, bool]], published: ScoreFunction
) -> Callable[[str, Instance, Rule], Parts]:
    """Build the parts of a ratio.

    `counts` returns whether an instance counts in the numerator and in the denominator of the corrected rule. The
    published rule is a mean over all instances.
    """

    def parts(completion: str, instance: Instance, rule: Rule) -> Parts:
        if rule == "published":
            return {"": (published(completion, instance), 1.0)}
        numerator, denominator = counts(_verdict(completion, instance))
        return {"": (float(numerator), 1.0)} if denominator else {}

    return parts


_NO_QUERY = "?"
"""A completion that is taken for a query and fails. An empty one abstains, which can be right."""

_SOURCE = "EHRSQL (Lee et al., 2022) and EHRSQL-2024 (Lee et al., 2024): authors' evaluation; published rule: HELM"


def _metric(
    name: str,
    description: str,
    *,
    published: ScoreFunction,
    corrected: ScoreFunction = _accuracy,
    explain: Callable[[str, Instance, Rule], str] = _explain,
    counts: Callable[[_Verdict], tuple[bool, bool]] | None = None,
) -> Metric:
    """Build a metric. `counts`: numerator and denominator of a ratio by the corrected rule; None for a mean."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=description,
        source=_SOURCE,
        published=published,
        corrected=corrected,
        explain=explain,
        parts=_ratio_parts(counts, published) if counts else None,
        reads=AnswerReader("query", _read_query),
        wrong_completion=_NO_QUERY,
        slow=True,
    )


SQL_EXECUTION_ACCURACY = _metric(
    "sql_execution_accuracy",
    "Share of completions whose query returns the result of the reference query, or that abstain if the question "
    "cannot be answered. A query that fails scores 0.",
    published=_published_accuracy,
)
SQL_PRECISION = _metric(
    "sql_precision",
    "Of all completions with a query, the share with a correct result. By the published rule: of all instances, "
    "the share that can be answered and has a completion.",
    published=_published_answerability,
    counts=lambda verdict: (verdict.right, verdict.answered),
)
SQL_RECALL = _metric(
    "sql_recall",
    "Of all questions that can be answered, the share with a correct result. By the published rule the same "
    "number as precision.",
    published=_published_answerability,
    counts=lambda verdict: (verdict.right, verdict.answerable),
)
SQL_VALIDITY = _metric(
    "sql_validity",
    "Of all completions with a query, the share that can be executed. By the published rule: of all completions, "
    "the share that can be executed unchanged.",
    published=_published_validity,
    corrected=_validity,
    explain=_explain_validity,
    counts=lambda verdict: (verdict.executes, verdict.answered),
)
