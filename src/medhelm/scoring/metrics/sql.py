"""SQL that answers a question about a database: does it give the right result, and does it give one at all.

The reference of an instance is the SQL that answers its question, or the text `null` if the database cannot. Metadata:

    database        path of the SQLite file, as `hooks.py` knows it
    current_time    `YYYY-MM-DD HH:MM:SS`, the moment that counts as the present; may be left out
    conventions     `ehrsql` if queries are written as in that data set, else empty; may be left out
    value           JSON object: the values that were put into the question; for the published rule; may be left out

Published rule, of the reference implementation. Reference and reply are executed as they stand (of the reply the inside
of <sql> tags, without back-ticks). If both give rows, they must be the same set. If the reference gives none, the
values of the question take its place, which no row equals; without such values the empty reply alone is right.
Precision and recall are one number: the share of all instances that can be answered and have any reply. One thing
differs: there a reply can change the database, run for ever and see the time of day; here both are executed as
`medhelm.scoring.sql.sandbox` allows, and the clock stands still. What the sandbox refuses has no result.

Corrected rule, of the authors of EHRSQL. The SQL is found wherever it stands in the reply; an empty reply, `null`, or
words that the question cannot be answered abstain. The rows must be the same, in any order, each as often, of which the
first 100 after sorting are looked at; numbers count to three decimals, whatever their type (as in the authors'
evaluation of 2024). Where the question cannot be answered, abstaining alone is right. With the conventions `ehrsql`
both queries are executed as the authors mean them (`sql_reading.as_authors_mean`), in lower case as all values of that
data are.

    metric                   corrected
    sql_execution_accuracy   right results and right abstentions, of all instances
    sql_precision            right results, of all replies with a query
    sql_recall               right results, of all questions that can be answered
    sql_validity             queries that SQLite executes, of all replies with a query

What an instance scores alone, and cases show, is whether it is right (sql_validity: whether it can be executed, or
abstains rightly). An instance whose reference fails cannot be scored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from medhelm.domain import Instance, Parts, Rule
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.metric import Metric, ScoreFunction, correct_references
from medhelm.scoring.sql.extract import as_authors_mean, find_query, published_query, with_single_quotes
from medhelm.scoring.sql.sandbox import Cell, QueryResult, run_query

_UNANSWERABLE = ("null", "")
_LOOKED_AT = 100
_DECIMALS = 3
_KEPT = 4096  # results, a few hundred bytes each

_HOW_TO_BUILD = {
    "eicu.sqlite": (
        "The questions are about eICU 2.0, which needs an agreement with PhysioNet "
        "(https://physionet.org/content/eicu-crd/2.0/). Build the file from its tables with the authors' script, "
        "preprocess/preprocess_db.py of github.com/glee4810/EHRSQL: --db_name eicu --deid --timeshift "
        "--current_time '2105-12-31 23:59:00' --start_year 2100 --time_span 5 --cur_patient_ratio 0.1."
    )
}
"""Name of a database -> how to come by it."""


class _Result(NamedTuple):
    """What is kept of an outcome."""

    code: str
    """Why there is none, as in `QueryResult`; empty if there is one."""
    message: str
    """The same in words."""
    n_rows: int
    """How many rows."""
    as_set: str
    """Hash of the rows, each once, with values of the same type and size being equal."""
    as_list: str
    """Hash of the first rows after sorting, with values that read the same being equal."""


class _Verdict(NamedTuple):
    """What the corrected rule finds."""

    answerable: bool
    """Whether the question can be answered."""
    answered: bool
    """Whether the reply has a query."""
    right: bool
    """Whether it is right."""
    result: _Result | None
    """What its query gives; None without one."""
    reason: str
    """Why it is not right, in words; empty if it is."""

    @property
    def executes(self) -> bool:
        """Whether its query has a result."""
        return self.result is not None and not self.result.code


def _verdict(reply: str, instance: Instance) -> _Verdict:
    """The corrected rule. Raises: NotComputed without the database, even where nothing would be executed on it: what is
    left then is another benchmark.
    """
    _database(instance)
    answerable = _reference(instance).lower() not in _UNANSWERABLE
    query = find_query(reply)
    expected = _meant(_reference(instance), instance) if answerable else None
    if expected and expected.code:
        raise DataError(f"the reference cannot be executed ({expected.message}), so no answer could be right")
    if query is None:
        reason = "there is no query, and the question can be answered" if answerable else ""
        return _Verdict(answerable, False, not answerable, None, reason)
    result = _meant(query, instance)
    if expected is None:
        reason = "there is a query, and the question cannot be answered"
    elif result.code:
        reason = f"the query fails: {result.message}"
    elif result.as_list != expected.as_list:
        counts = f"{result.n_rows} and {expected.n_rows} rows"
        reason = f"its result is not that of the reference ({counts})"
    else:
        reason = ""
    return _Verdict(answerable, True, not reason, result, reason)


def _meant(query: str, instance: Instance) -> _Result:
    """What a query gives as its authors mean it. Two quotation marks are one only where it is no SQL otherwise."""
    conventions = instance.metadata.get("conventions", "")
    if conventions not in ("", "ehrsql"):
        raise DataError(f"`conventions` is {conventions!r:.40}; it can be `ehrsql`, or empty")
    if not conventions:
        return _result(query, instance)
    sql = as_authors_mean(query, instance.metadata.get("current_time", ""))
    result = _result(sql, instance)
    return _result(with_single_quotes(sql), instance) if result.code == "syntax" and "''" in sql else result


def _accuracy(reply: str, instance: Instance) -> float:
    return float(_verdict(reply, instance).right)


def _validity(reply: str, instance: Instance) -> float:
    verdict = _verdict(reply, instance)
    return float(verdict.executes if verdict.answered else verdict.right)


def _published_accuracy(reply: str, instance: Instance) -> float:
    expected = _result(_reference(instance), instance)
    if expected.n_rows:
        return float(_published_result(reply, instance).as_set == expected.as_set)
    return float(not _has_values(instance) and not reply.strip())


def _published_validity(reply: str, instance: Instance) -> float:
    return float(_published_result(reply, instance).code == "")


def _published_answerability(reply: str, instance: Instance) -> float:
    return float(bool(reply.strip()) and _reference(instance).lower() not in _UNANSWERABLE)


def _published_result(reply: str, instance: Instance) -> _Result:
    """What the published rule executes. Comments alone are executed, and give nothing."""
    query = published_query(reply)
    result = _result(query, instance)
    return _kept(QueryResult()) if query and result.code == "empty" else result


def _has_values(instance: Instance) -> bool:
    """Whether values were put into the question."""
    text = instance.metadata.get("value", "")
    try:
        return bool(json.loads(text)) if text.strip() else False
    except ValueError as error:
        raise DataError(f"`value` is no JSON ({error}): {text:.60}") from None


def _reference(instance: Instance) -> str:
    """The SQL that answers the question. Raises DataError if there is none."""
    return correct_references(instance)[0].strip()


def _result(sql: str, instance: Instance) -> _Result:
    """What a query gives on the instance's database. Raises: NotComputed if that is not there."""
    database, state = _database(instance)
    return _executed(database, state, sql, instance.metadata.get("current_time", ""))


def _database(instance: Instance) -> tuple[Path, tuple[int, int]]:
    """The instance's database, and the time and size that tell it from what it was before. Raises: NotComputed."""
    try:
        database = Path(instance.metadata["database"])
    except KeyError:
        raise DataError("column `database` is missing; name it under `metadata` of the benchmark") from None
    try:
        state = database.stat()
    except OSError:
        how = _HOW_TO_BUILD.get(database.name, "Put it there, or correct the column `database`.")
        raise NotComputed(f"{database} is not there, and queries are executed on it. {how}") from None
    return database, (state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=_KEPT)
def _executed(database: Path, state: tuple[int, int], sql: str, present: str) -> _Result:  # noqa: ARG001
    """The same for a file in the state that it has: several metrics ask, and models share their references."""
    return _kept(run_query(database, sql, now=present))


def _kept(outcome: QueryResult) -> _Result:
    """What is kept of an outcome: results may be large."""
    exact = sorted({json.dumps([_exact(cell) for cell in row]) for row in outcome.rows})
    tolerant = sorted([_tolerant(cell) for cell in row] for row in outcome.rows)[:_LOOKED_AT]
    return _Result(outcome.code, outcome.message, len(outcome.rows), _hash(exact), _hash(tolerant))


def _exact(cell: Cell) -> object:
    """A value such that equal numbers are the same."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return {"hex": cell.hex()} if isinstance(cell, bytes) else cell


def _tolerant(cell: Cell) -> str:
    """A value as text: what reads as a number to three decimals."""
    if isinstance(cell, bytes):
        return cell.hex()
    try:
        number = float(cell)  # type: ignore[arg-type]  # None is no number
    except (TypeError, ValueError, OverflowError):
        return str(cell)
    return str(round(number, _DECIMALS) + 0.0) if isfinite(number) else str(cell)


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _explain(reply: str, instance: Instance, rule: Rule) -> str:
    """Why a reply is not right, in words."""
    if rule == "corrected":
        return _verdict(reply, instance).reason
    expected = _result(_reference(instance), instance)
    if not expected.n_rows and _has_values(instance):
        return "the reference gives no rows, so the published rule scores no answer"
    result = _published_result(reply, instance)
    if not reply.strip() or not (result.code or not expected.n_rows):
        return ""
    if result.code:
        return f"the query fails: {result.message}"
    return "the reference gives no rows, so that by the published rule only an empty answer scores"


def _explain_validity(reply: str, instance: Instance, rule: Rule) -> str:
    """Why a reply cannot be executed, in words."""
    verdict = _verdict(reply, instance)
    result = verdict.result if rule == "corrected" else _published_result(reply, instance)
    if result is None:
        return verdict.reason
    return f"the query fails: {result.message}" if result.code and reply.strip() else ""


def _ratio(
    counts: Callable[[_Verdict], tuple[bool, bool]], published: ScoreFunction
) -> Callable[[str, Instance, Rule], Parts]:
    """Parts of a ratio: by the published rule a mean over all instances, by the corrected one what `counts` says, that
    is whether an instance is among the good ones, and among those that are looked at.
    """

    def parts(reply: str, instance: Instance, rule: Rule) -> Parts:
        if rule == "published":
            return {"": (published(reply, instance), 1.0)}
        good, looked_at = counts(_verdict(reply, instance))
        return {"": (float(good), 1.0)} if looked_at else {}

    return parts


_SOURCE = "EHRSQL (Lee et al., 2022) and EHRSQL-2024 (Lee et al., 2024): authors' evaluation; published rule: HELM"

SQL_EXECUTION_ACCURACY = Metric(
    name="sql_execution_accuracy",
    title="SQL accuracy",
    description=(
        "Whether the query in the reply gives the result of the reference query, or the reply abstains where the "
        "question cannot be answered. A query that fails scores 0."
    ),
    source=_SOURCE,
    published=_published_accuracy,
    corrected=_accuracy,
    explain=_explain,
    slow=True,
)

SQL_PRECISION = Metric(
    name="sql_precision",
    title="SQL precision",
    description=(
        "Of all replies with a query, the share whose result is right. By the published rule: of all instances, the "
        "share that can be answered and has any reply."
    ),
    source=_SOURCE,
    published=_published_answerability,
    corrected=_accuracy,
    explain=_explain,
    parts=_ratio(lambda verdict: (verdict.right, verdict.answered), _published_answerability),
    slow=True,
)

SQL_RECALL = Metric(
    name="sql_recall",
    title="SQL recall",
    description=(
        "Of all questions that can be answered, the share with a right result. By the published rule the same number "
        "as precision."
    ),
    source=_SOURCE,
    published=_published_answerability,
    corrected=_accuracy,
    explain=_explain,
    parts=_ratio(lambda verdict: (verdict.right, verdict.answerable), _published_answerability),
    slow=True,
)

SQL_VALIDITY = Metric(
    name="sql_validity",
    title="SQL validity",
    description=(
        "Of all replies with a query, the share that can be executed. By the published rule: of all replies, the share "
        "that can be executed as it stands."
    ),
    source=_SOURCE,
    published=_published_validity,
    corrected=_validity,
    explain=_explain_validity,
    parts=_ratio(lambda verdict: (verdict.executes, verdict.answered), _published_validity),
    slow=True,
)
