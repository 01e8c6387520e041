"""Writes run folders once, and reads them by columns.

`run.json` holds numbers and settings only and is safe to publish; `records.parquet` holds one row per instance, with
the completion's text; with a jury, `judgments.parquet` and `replies.parquet` hold its judgments. `run.json` is written
last, so that its existence means that the run is complete. Records are written as they arrive, so that memory does not
grow with their number.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from medhelm.domain import JURY, RULES, ConstantBaseline, Instance, Message, Prompt, Record, Rule, Run, Shard
from medhelm.errors import StoreError, StoreFullError
from medhelm.io.files import error_class, is_database_disk_error, read_confidential, reason
from medhelm.io.folders import delete_folder, write_confidential
from medhelm.io.parquet import ParquetWriter, connect, sql_name, sql_path
from medhelm.storage.json_form import JsonForm, key_map
from medhelm.storage.judgments import COMPLETION_COLUMNS, JudgmentWriter, completion_row
from medhelm.storage.store import (
    NAME,
    DamagedRunError,
    Store,
    new_folder,
    put_in_place,
    read_run,
    stored_folder,
    write_run,
)

RECORD_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "cluster": "VARCHAR",
    "group": "VARCHAR",
    "request_digest": "VARCHAR",
    "left_out": "BIGINT",
    "completion": "VARCHAR",
    **COMPLETION_COLUMNS,
    "score_failure": "VARCHAR",
    "suspicions": "VARCHAR",
    "jury_coverage": "DOUBLE",
    "unreadable": "BOOLEAN",
    "reasoning": "VARCHAR",
    "token_logprobs": "VARCHAR",
}
"""Columns of every `records.parquet`, before one `METRIC_RULE` column of numbers per metric and rule, and one
`METRIC_RULE_parts` of JSON where the metric is not a mean of these. Without a jury, its columns are empty; older files
lack `unreadable`, `reasoning`, the text that a model wrote before its answer, and `token_logprobs`."""

RECORDS = "records.parquet"
"""Name of the file of records in a run's folder."""

_SHARD_FOLDER = re.compile(r"-[0-9a-f]{10}_[0-9]+of[0-9]+$")
"""End of the name of a shard's folder, see `Store.run_folder`."""

PROMPT_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "messages": "VARCHAR",
    "choices": "VARCHAR",
    "references": "VARCHAR",
    "criteria": "VARCHAR",
    "metadata": "VARCHAR",
}
"""Columns of a prompts file; the last five hold JSON. `criteria`, those of the instance, and `metadata`, its columns by
whose values scores can be shown, are missing in older files."""

LONGEST_VALUE = 120
"""Most characters of a value of metadata that is stored: longer ones are texts, which name no slice."""


def score_column(metric: str, rule: Rule) -> str:
    """Return the name of the column with this metric under this rule."""
    return f"{metric}_{rule}"


def parts_column(metric: str, rule: Rule) -> str:
    """Return the name of the column with the instances' contributions to a metric that is not a mean."""
    return f"{score_column(metric, rule)}_parts"


class RunWriter:
    """Writes a run folder: `add` records as they arrive, then `finish` or `discard`."""

    def __init__(
        self,
        store: Store,
        *,
        benchmark: str,
        model: str,
        run_id: str,
        metrics: Sequence[str],
        pooled: Iterable[tuple[str, Rule]] = (),
        shard: Shard | None = None,
    ) -> None:
        """Start a run folder. The caller must hold the lock on the benchmark and model.

        `pooled`: metrics and rules that are not means over instances. `shard`: the part of the run that is written;
        None for all of it. Leftovers of a killed process are removed.
        """
        self._final = store.run_folder(benchmark, model, run_id, shard)
        self._folder = new_folder(self._final)
        self._ending, self._has_ended = threading.Lock(), False
        columns = {score_column(metric, rule): "DOUBLE" for metric in metrics for rule in RULES}
        columns |= {parts_column(metric, rule): "VARCHAR" for metric, rule in pooled}
        with _DiskErrors(self._final):
            delete_folder(self._folder)
            self._spool = ParquetWriter(self._folder / "records.parquet", {**RECORD_COLUMNS, **columns})
            self._judgments = JudgmentWriter(self._folder, is_shard=shard is not None) if JURY in metrics else None

    def discard(self) -> None:
        """Remove everything written so far. If `finish` has begun, in any thread, only wait for its end."""
        with self._ending:
            if not self._has_ended:
                self._remove()

    def _remove(self) -> None:
        self._has_ended = True
        self._spool.discard()
        if self._judgments:
            self._judgments.discard()
        with suppress(OSError):  # the next command removes it
            delete_folder(self._folder)

    def add(self, record: Record) -> None:
        """Append one record, in any order."""
        with _DiskErrors(self._final):
            self._spool.add(_row(record))
            if self._judgments:
                self._judgments.add(record)

    def finish(self, run: Run) -> Path:
        """Write the records, then `run.json`, then replace an older folder; return the folder.

        A partial run does not replace a complete one: the older folder is kept. If an error is raised, the new folder
        is removed.
        """
        with self._ending:
            try:
                if run.is_complete or not _is_complete(self._final):
                    self._put_in_place(run)
            finally:
                self._remove()
        return self._final

    def _put_in_place(self, run: Run) -> None:
        with _DiskErrors(self._final):
            self._spool.finish()
            if self._judgments:
                self._judgments.finish()
            write_run(self._folder, run)
            put_in_place(self._final)


def prompt_texts(instance: Instance, messages: Sequence[Message], group_column: str) -> dict[str, str]:
    """Return the columns of an instance in a prompts file that hold JSON.

    `group_column`: name of its group among the metadata; empty without groups.
    """
    metadata = {**instance.metadata, **({group_column: instance.group} if group_column else {})}
    content = {
        "messages": [{"role": m.role, "content": m.text} for m in messages],
        "choices": instance.choices,
        "references": [{"text": r.text, "correct": r.correct} for r in instance.references],
        "criteria": [
            {"name": c.name, "text": c.description, "points": c.points, "tags": c.tags} for c in instance.criteria
        ],
        "metadata": {name: value for name, value in metadata.items() if len(value) <= LONGEST_VALUE},
    }
    return {name: json.dumps(value) for name, value in content.items()}


def write_prompts(path: Path, rows: Iterable[tuple[Instance, Prompt]], group_column: str = "") -> None:
    """Store prompts, references and metadata, unless the file exists."""
    if path.exists():
        return
    with _DiskErrors(path):
        spool = ParquetWriter(path, PROMPT_COLUMNS)
        for position, (instance, prompt) in enumerate(rows):
            texts = prompt_texts(instance, prompt.messages, group_column)
            spool.add({"position": position, "instance_id": instance.id, **texts})
        spool.finish()


# --- reading ----------------------------------------------------------------------------------------------------------


def load_runs(store: Store, benchmark: str = "", *, variants: bool = False) -> list[Run]:
    """Read all runs of a store, or those of one benchmark, sorted by benchmark and model. Reads `run.json` files only.

    `benchmark` is compared with the names of folders and never part of a path. `variants`: also runs that asked other
    questions. Shards are no results and left out: see `load_shards`. Damaged runs are left out with a warning. Raises:
    StoreError for runs of a newer version; for damaged ones within `no_damaged_runs`.
    """
    found = _load(store, benchmark, shards=False)
    return [run for run in found if run.shard is None and (variants or not run.is_variant)]


def load_shards(store: Store) -> list[Run]:
    """Read the shards of a store, those that were merged included, by benchmark and model; errors as `load_runs`."""
    return [run for run in _load(store, "", shards=True) if run.shard is not None]


def _load(store: Store, benchmark: str, *, shards: bool) -> list[Run]:
    """Read the runs whose folders have the name of a shard, or all others."""
    from medhelm.storage.derived_files import read_runs  # lazy: an evaluation does not list runs

    runs, problems = [], []
    for folders in _run_folders(store, benchmark, shards=shards):
        found, damaged = read_runs(folders)
        runs += found
        problems += damaged
    if problems:
        from medhelm.storage.damage import leave_out

        leave_out(problems, runs)
    return runs


def _run_folders(store: Store, benchmark: str, *, shards: bool) -> Iterator[list[Path]]:
    """Yield the folders of each benchmark, sorted: those with the name of a shard, or all others."""
    root = store.folder / "runs"
    for name in (name for name in _names_in(root) if benchmark in ("", name)):
        place = root / name
        names = [one for one in _names_in(place) if one[0] != "." and bool(_SHARD_FOLDER.search(one)) == shards]
        if names:
            yield [place / one for one in names]


def _names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder; none if it cannot be read. Much faster than `glob` for thousands of runs."""
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []


def run_metrics(run: Run) -> list[str]:
    """Return the metrics of a run, the main one first."""
    names = [metric for by_metric in run.estimates.values() for metric in by_metric]
    return list(dict.fromkeys([run.main_metric, *names]))


def read_columns(run: Run, names: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """Read columns of a run's records, in the order of its instances; a missing column is all None.

    Parameters: names, columns to read; None for all.
    Raises: StoreError if the records are missing or damaged.
    """
    from medhelm.storage.damage import run_errors

    with run_errors(records_path(run)), connect() as connection:
        known = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {_records(run)}").fetchall()]
        names = known if names is None else names
        wanted = [sql_name(name) if name in known else "NULL" for name in names]
        rows = connection.execute(f"SELECT {', '.join(wanted)} FROM {_records(run)} ORDER BY position").fetchall()
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def read_record(run: Run, instance_id: str) -> dict[str, Any] | None:
    """Read all columns of one instance in one run; None if the run does not have the instance."""
    return _first(f"SELECT * FROM {_records(run)} WHERE instance_id = ?", instance_id)


def prompts_path(run: Run) -> Path:
    """Return the path of the prompts of a stored run; the file may be missing."""
    return Store(stored_folder(run).parents[2]).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)


def read_prompt_rows(path: Path, columns: str, rest: str = "", *values: object) -> list[tuple[Any, ...]] | None:
    """Read columns of a prompts file, NULL for those that an older file does not have; None if the file is missing.

    Parameters: columns, rest, SQL before and after the table; values, those of its placeholders.
    Raises: StoreError for a damaged file.
    """
    from medhelm.storage.damage import prompt_errors

    if not path.exists():
        return None
    later = "SELECT NULL::VARCHAR AS criteria, NULL::VARCHAR AS metadata WHERE false"
    table = f"(SELECT * FROM read_parquet({sql_path(path)}) UNION ALL BY NAME {later})"
    with prompt_errors(path), connect() as connection:
        return connection.execute(f"SELECT {columns} FROM {table} {rest}", list(values)).fetchall()


def read_prompt(path: Path, instance_id: str) -> dict[str, Any] | None:
    """Read messages, choices, references and criteria of one instance from a prompts file; None if missing."""
    columns = 'position, instance_id, messages, choices, "references", criteria'
    for position, name, *texts in read_prompt_rows(path, columns, "WHERE instance_id = ?", instance_id) or ():
        parts = zip(("messages", "choices", "references", "criteria"), texts, strict=True)
        return {"position": position, "instance_id": name, **{key: json.loads(text or "[]") for key, text in parts}}
    return None


def read_messages(path: Path) -> dict[str, list[dict[str, str]]]:
    """Read the messages of all prompts of a prompts file, by instance id; empty if the file is missing."""
    rows = read_prompt_rows(path, "instance_id, messages") or ()
    return {instance_id: json.loads(messages) for instance_id, messages in rows}


def read_references(path: Path) -> dict[str, tuple[list[str], list[tuple[str, bool]]]]:
    """Read choices and references (text, and whether it is correct) of a prompts file, by instance id.

    Empty if the file is missing.
    """
    return {
        name: (json.loads(choices), [(one["text"], one["correct"]) for one in json.loads(references)])
        for name, choices, references in read_prompt_rows(path, 'instance_id, choices, "references"') or ()
    }


def read_metadata(path: Path) -> dict[str, dict[str, str]] | None:
    """Read the metadata of a prompts file, by instance id; None if the file, or this part of it, is missing."""
    rows = read_prompt_rows(path, "instance_id, metadata", "ORDER BY position")
    if rows is None or any(values is None for _, values in rows):
        return None
    return {instance_id: json.loads(values) for instance_id, values in rows}


def read_prompt_digests(path: Path, limit: int | None = None) -> dict[str, tuple[str, str]] | None:
    """Read the digests of each instance's prompt and of its references and choices; None if the file is missing.

    `limit`: only the first so many instances.
    """
    first = f"ORDER BY position LIMIT {'ALL' if limit is None else int(limit)}"
    rows = read_prompt_rows(path, 'instance_id, md5(messages), md5(choices || "references")', first)
    return None if rows is None else {name: (prompt, references) for name, prompt, references in rows}


def read_records(run: Run) -> Iterator[dict[str, Any]]:
    """Yield every row of a run, in the order of its instances. Raises: DamagedRunError."""
    from medhelm.storage.damage import run_errors

    with run_errors(records_path(run)), connect() as connection:
        cursor = connection.execute(f"SELECT * FROM {_records(run)} ORDER BY position")
        names = [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(1000):
            for row in rows:
                yield dict(zip(names, row, strict=True))


def _is_complete(folder: Path) -> bool:
    """Return True if `folder` holds a complete run."""
    file = folder / NAME
    try:
        return file.is_file() and read_run(file).is_complete
    except DamagedRunError:
        return False


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {
        "position": record.position,
        "instance_id": record.instance_id,
        "cluster": record.cluster,
        "group": record.group,
        "request_digest": record.request_digest.hex(),
        "left_out": record.truncated_characters,
        "completion": record.completion.text,
        **completion_row(record.completion),
        "suspicions": ", ".join(record.injection_signs),
        "jury_coverage": record.jury_verdict and record.jury_verdict.coverage,
        "unreadable": record.is_unreadable,
        "reasoning": record.completion.reasoning or None,
        "token_logprobs": record.completion.token_logprobs or None,
    }
    for score in record.scores:
        row[score_column(score.metric, score.rule)] = score.value
        if score.parts:
            row[parts_column(score.metric, score.rule)] = json.dumps(score.parts)
        if score.failure and not record.completion.failure:
            row["score_failure"] = f"{score.metric}: {score.failure.message}"
    return row


def _first(query: str, value: str) -> dict[str, Any] | None:
    with connect() as connection:
        cursor = connection.execute(query, [value])
        row = cursor.fetchone()
        return None if row is None else dict(zip([column[0] for column in cursor.description], row, strict=True))


def _records(run: Run) -> str:
    """Return the SQL table of a run's records."""
    return f"read_parquet({records_file(run)})"


def records_file(run: Run) -> str:
    """Return the path of a run's records as an SQL string."""
    return sql_path(records_path(run))


def records_path(run: Run) -> Path:
    """Return the path of a run's records."""
    return stored_folder(run) / RECORDS


# --- model versions ---------------------------------------------------------------------------------------------------


def completions_by_snapshot(runs: Iterable[Run]) -> dict[str, int]:
    """Count the completions of these runs by the model name in the response; "" if it has none."""
    files = [run.folder / "records.parquet" for run in runs if run.folder]
    if not files:
        return {}
    with connect() as connection:
        listed = ", ".join(sql_path(path) for path in files)
        query = (
            "SELECT coalesce(reported_model, ''), count(*) "
            f"FROM read_parquet([{listed}], union_by_name = true) WHERE failure_code IS NULL GROUP BY ALL ORDER BY ALL"
        )
        return dict(connection.execute(query).fetchall())


class _DiskErrors:
    """Turns disk errors into StoreFullError, and those of a wrong place into StoreError."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) or (error and is_database_disk_error(error)):
            why = getattr(error, "strerror", None) or reason(error)
            found = error_class(error, StoreError) if isinstance(error, OSError) else StoreFullError
            raise found(
                f"{self._place} cannot be written: {why}. Every completion received before is kept in the store's "
                "cache: free some space and run the same command again."
            ) from error


# --- constant baselines -----------------------------------------------------------------------------------------------
# Stores the constant baseline of a benchmark on a selection of its data, once for all models.

BASELINE = JsonForm(ConstantBaseline, key_map("answer share values metric"))


def write_baseline(path: Path, baseline: ConstantBaseline | None) -> None:
    """Store a constant baseline, or the fact that there is none."""
    write_confidential(path, json.dumps(BASELINE.write(baseline) if baseline else None, ensure_ascii=True) + "\n")


def read_baseline(path: Path) -> ConstantBaseline | None:
    """Read a constant baseline; None if there is none, or no file."""
    try:
        content = json.loads(read_confidential(path))
    except (OSError, ValueError):
        return None
    return BASELINE.read(content) if content else None
