"""Reads the token usage of stored runs: totals of each model and judge, and the tokens of single requests.

Totals count each request once, even if several runs share its completion: a run that was scored or judged again, or one
that found the completion in the cache. Such runs contain the same request digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.domain import Run, Usage
from medhelm.errors import StoreError
from medhelm.io.parquet import connect, sql_path
from medhelm.storage.damage import run_errors

if TYPE_CHECKING:
    import duckdb

TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cache_write_tokens")
"""Columns of tokens, in the order of `Usage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """Usage of a number of requests."""

    requests: int = 0
    """Number of requests sent, including failed ones."""
    unmetered: int = 0
    """Requests whose response has no token counts; `usage` does not include them."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all other requests."""
    batched: Usage = field(default_factory=Usage)
    """The part of `usage` that was bought through a batch API, at a lower price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShare:
    """Usage of one model in one run: the model under test, or one of its judges."""

    run: Run
    """The run."""
    judge: str
    """Name of the judge; empty for the model under test."""
    all: RequestUsage
    """Usage of all requests of the run, even if another run bought them."""
    first: RequestUsage
    """Usage of requests that no earlier run of the same store contains."""


def read_usage(runs: Sequence[Run]) -> tuple[list[UsageShare], set[bytes]]:
    """Return the usage of each run, and the digests of all their requests. Runs of one store, in any order.

    Completions made within this process (baselines, replays) do not count as requests. If runs share a request, it
    counts as bought by the run that started first.
    Raises: StoreError naming every run with missing or damaged files.
    """
    ordered = sorted(runs, key=lambda run: (run.started, run.id))
    problems = [str(run.folder) for run in ordered if not _records(run).is_file()]
    if problems:
        raise StoreError(
            f"the records of these runs are missing: {', '.join(problems)}. Remove the folders and run the same "
            "commands again; completions already received are in the cache and are not bought twice."
        )
    with connect() as connection:
        connection.execute(
            "CREATE TEMP TABLE asked (run INTEGER, judge VARCHAR, digest BLOB, answered BOOLEAN, batched BOOLEAN, "
            + ", ".join(f"{name} BIGINT" for name in TOKENS)
            + ")"
        )
        for number, run in enumerate(ordered):
            _insert_requests(connection, number, run)
        shares = [_usage_share(ordered, row) for row in connection.execute(_SHARES).fetchall()]
        digests = {row[0] for row in connection.execute("SELECT DISTINCT digest FROM asked").fetchall()}
    return shares, digests


_SUMS = ", ".join(
    [
        "count(*) {0}",
        "count(*) {0} - count(*) {1}",
        *(f"coalesce(sum({name}) {{0}}, 0)::BIGINT" for name in TOKENS),
        *(f"coalesce(sum({name}) {{2}}, 0)::BIGINT" for name in TOKENS),
    ]
)
_METERED = "NOT answered OR input_tokens > 0"
_SHARES = f"""
    SELECT run, judge,
        {_SUMS.format("FILTER (true)", f"FILTER ({_METERED})", "FILTER (batched)")},
        {_SUMS.format("FILTER (first)", f"FILTER (first AND ({_METERED}))", "FILTER (first AND batched)")}
    FROM (SELECT *, row_number() OVER (PARTITION BY digest ORDER BY run, judge) = 1 AS first FROM asked)
    GROUP BY run, judge ORDER BY run, judge
"""  # noqa: S608 - our own names


def _insert_requests(connection: duckdb.DuckDBPyConnection, number: int, run: Run) -> None:
    """Insert the requests of one run into the table."""
    for path, judge in _files(run):
        with run_errors(path):
            table = f"read_parquet({sql_path(path)})"
            described = connection.execute(f"DESCRIBE SELECT * FROM {table}")  # noqa: S608 - a quoted path
            known = {row[0] for row in described.fetchall()}
            # Older files do not have the column.
            batched = "batched IS TRUE" if "batched" in known else "false"
            tokens = ", ".join(name if name in known else f"0 AS {name}" for name in TOKENS)
            connection.execute(
                f"INSERT INTO asked SELECT {number}, {judge}, unhex(request_digest), failure_code IS NULL, {batched}, "  # noqa: S608
                f"{tokens} FROM {table} WHERE request_digest <> ''"
            )


def _files(run: Run) -> Iterator[tuple[Path, str]]:
    """Yield the files with requests of a run, and the SQL expression for the judge."""
    yield _records(run), "''"
    if _replies(run).is_file():
        yield _replies(run), "judge"


def _records(run: Run) -> Path:
    return (run.folder or Path()) / "records.parquet"


def _replies(run: Run) -> Path:
    return _records(run).with_name("replies.parquet")


def _usage_share(runs: Sequence[Run], row: Sequence[Any]) -> UsageShare:
    number, judge, *sums = row
    half = len(sums) // 2
    return UsageShare(run=runs[number], judge=judge, all=_request_usage(sums[:half]), first=_request_usage(sums[half:]))


def _request_usage(sums: Sequence[int]) -> RequestUsage:
    requests, unmetered, *tokens = sums
    usage, batched = (
        Usage(input=read, cached_input=cached, output=written, reasoning=reasoning, cache_write=stored)
        for read, cached, written, reasoning, stored in (tokens[: len(TOKENS)], tokens[len(TOKENS) :])
    )
    return RequestUsage(requests=requests, unmetered=unmetered, usage=usage, batched=batched)


# --- tokens of single requests ----------------------------------------------------------------------------------------


class SentRequest(NamedTuple):
    """One request of a run, and its size in tokens."""

    instance_id: str
    """Id of the instance."""
    part: int
    """Position of the judge's prompt for this instance; 0 for a model under test."""
    tokens: int
    """Input tokens, above 0."""
    left_out: int = 0
    """Characters dropped from the prompt before it was sent."""


class JudgeReplyLength(NamedTuple):
    """Lengths of a judge's completions in a run."""

    n: int
    """Number of first completions with a token count."""
    output: int
    """Output tokens of the first completions."""
    again: int
    """Number of retries after an unreadable completion."""


def read_sent(run: Run, limit: int) -> list[SentRequest]:
    """Read the first `limit` requests of a run to its model that have a token count."""
    left_out = "left_out" if run.n_truncated else "0"  # older files do not have the column
    rows = _rows(
        _records(run),
        f"SELECT instance_id, 0, input_tokens, {left_out} FROM {{}} WHERE input_tokens > 0 ORDER BY position LIMIT ?",  # noqa: S608
        limit,
    )
    return [SentRequest(*row) for row in rows]


def read_sent_to_judge(run: Run, judge: str, limit: int) -> list[SentRequest]:
    """Read the first `limit` requests of a run to one of its judges that have a token count, without retries."""
    return [
        SentRequest(*row)
        for row in _rows(
            _replies(run),
            "SELECT instance_id, part, input_tokens FROM {} WHERE judge = ? AND attempt = 0 AND input_tokens > 0 "
            "ORDER BY position, part LIMIT ?",
            judge,
            limit,
        )
    ]


def read_replied(run: Run, judge: str) -> JudgeReplyLength:
    """Read the lengths of a judge's completions in a run; all 0 if it did not judge."""
    rows = _rows(
        _replies(run),
        "SELECT count(*) FILTER (attempt = 0 AND input_tokens > 0), "
        "coalesce(sum(output_tokens) FILTER (attempt = 0 AND input_tokens > 0), 0)::BIGINT, "
        "count(*) FILTER (attempt > 0) FROM {} WHERE judge = ?",
        judge,
    )
    return JudgeReplyLength(*rows[0]) if rows else JudgeReplyLength(0, 0, 0)


def prompt_characters(path: Path, limit: int) -> dict[str, int]:
    """Return instance id -> characters of its prompt, for the first instances of a prompts file; empty without it."""
    characters = "list_sum(list_transform(json_extract_string(messages, '$[*].content'), lambda text: length(text)))"
    query = f"SELECT instance_id, {characters}::BIGINT FROM {{}} WHERE position < ?"  # noqa: S608
    return dict(_rows(path, query, limit))


def _rows(path: Path, query: str, *values: str | int) -> list[tuple[Any, ...]]:
    """Query a Parquet file; return no rows if it is missing or damaged."""
    if not path.is_file():
        return []
    import duckdb

    with connect() as connection:
        try:
            return connection.execute(query.format(f"read_parquet({sql_path(path)})"), list(values)).fetchall()
        except duckdb.Error:
            return []
