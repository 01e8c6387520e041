"""Run folders: written once, read by columns.

`run.json` holds numbers and settings only and is safe to publish; `records.parquet` holds one row per instance, with
the completion's text; where there was a jury, `judgments.parquet` and `replies.parquet` hold what it said. `run.json`
is written last, so that its existence means that the run is whole. Records are spooled to files while they come in, so
that memory does not grow with their number.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.domain import JURY, RULES, Instance, Parts, Prompt, Record, Rule, Run
from medhelm.errors import StoreError, StoreFullError
from medhelm.io.output_folder import replace_folder
from medhelm.io.parquet import ParquetWriter, connect, sql_name, sql_text
from medhelm.storage.judgments import COMPLETION_COLUMNS, JudgmentWriter, completion_row
from medhelm.storage.run_file import NAME, read_run, write_run
from medhelm.storage.store import Store

if TYPE_CHECKING:
    import numpy as np

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
}
"""Columns of every `records.parquet`, before one `METRIC_RULE` column of numbers per metric and rule, and one
`METRIC_RULE_parts` of JSON where the run's number is no mean of these. The last two are empty without a jury."""

PROMPT_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "messages": "VARCHAR",
    "choices": "VARCHAR",
    "references": "VARCHAR",
}
"""Columns of a prompts file; the last three hold JSON."""


def score_column(metric: str, rule: Rule) -> str:
    """Name of the column that holds this metric under this rule."""
    return f"{metric}_{rule}"


def parts_column(metric: str, rule: Rule) -> str:
    """Name of the column with what each instance contributes to a number that is no mean."""
    return f"{score_column(metric, rule)}_parts"


class RunWriter:
    """A run folder in the making: `add` records as they come, then `finish` or `discard`."""

    def __init__(
        self,
        store: Store,
        *,
        benchmark: str,
        model: str,
        run_id: str,
        metrics: Sequence[str],
        pooled: Iterable[tuple[str, Rule]] = (),
    ) -> None:
        """The caller holds the lock on (benchmark, model), so leftovers of a killed process are ours to clear away.

        `pooled`: metrics and rules whose number is no mean over instances.
        """
        self._final = store.run_folder(benchmark, model, run_id)
        self._folder = self._final.with_name(f".new-{self._final.name}")
        columns = {score_column(metric, rule): "DOUBLE" for metric in metrics for rule in RULES}
        columns |= {parts_column(metric, rule): "VARCHAR" for metric, rule in pooled}
        with _DiskErrors(self._final):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._spool = ParquetWriter(self._folder / "records.parquet", {**RECORD_COLUMNS, **columns})
            self._judgments = JudgmentWriter(self._folder) if JURY in metrics else None

    def discard(self) -> None:
        """Clear away what was not finished."""
        self._spool.discard()
        if self._judgments:
            self._judgments.discard()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, record: Record) -> None:
        """Append one record, in any order."""
        with _DiskErrors(self._final):
            self._spool.add(_row(record))
            if self._judgments:
                self._judgments.add(record)

    def finish(self, run: Run) -> Path:
        """Write the records, then `run.json`, then put the folder in place of an older one; returns the folder.

        A run that was stopped on the way does not take the place of a complete one: the older folder stays.
        """
        if run.status != "complete" and _is_complete(self._final):
            self.discard()
            return self._final
        with _DiskErrors(self._final):
            self._spool.finish()
            if self._judgments:
                self._judgments.finish()
            write_run(self._folder, run)
            # A fixed name: an older folder that a killed process left there is removed now.
            old = self._final.with_name(f".old-{self._final.name}")
            shutil.rmtree(old, ignore_errors=True)
            replace_folder(self._folder, self._final, old=old)
        return self._final


def write_prompts(path: Path, rows: Iterable[tuple[Instance, Prompt]]) -> None:
    """Store prompts and references once, for `show`; does nothing if the file is there."""
    if path.exists():
        return
    with _DiskErrors(path):
        spool = ParquetWriter(path, PROMPT_COLUMNS)
        for position, (instance, prompt) in enumerate(rows):
            spool.add(
                {
                    "position": position,
                    "instance_id": instance.id,
                    "messages": json.dumps([{"role": m.role, "content": m.text} for m in prompt.messages]),
                    "choices": json.dumps(instance.choices),
                    "references": json.dumps([{"text": r.text, "correct": r.correct} for r in instance.references]),
                }
            )
        spool.finish()


# --- reading ----------------------------------------------------------------------------------------------------------


def load_runs(store: Store) -> list[Run]:
    """Every whole run of a store, by benchmark and model. Reads `run.json` files only.

    Raises: StoreError naming every file that is damaged.
    """
    runs, problems = [], []
    for path in sorted(store.folder.glob(f"runs/*/[!.]*/{NAME}")):
        try:
            runs.append(read_run(path))
        except StoreError as error:
            problems.append(str(error))
    if problems:
        raise StoreError("\n".join(problems))
    return runs


def run_metrics(run: Run) -> list[str]:
    """The metrics of a run, the main one first."""
    names = [metric for by_metric in run.estimates.values() for metric in by_metric]
    return list(dict.fromkeys([run.main_metric, *names]))


class ScoreColumn(NamedTuple):
    """One metric of a run under one rule, in the order of its instances."""

    ids: list[str]
    """Instance ids."""
    values: np.ndarray
    """Each instance's own score, NaN where there is none."""
    clusters: list[str]
    """Cluster of each, "" for none."""
    parts: list[Parts] | None
    """What each contributes to the run's number; None where that is the mean of the scores."""


def read_scores(run: Run, metric: str, rule: Rule) -> ScoreColumn:
    """The scores of a run by one metric and rule."""
    import numpy as np

    column, parts = score_column(metric, rule), parts_column(metric, rule)
    with connect() as connection:
        known = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {_records(run)}").fetchall()]
        wanted = ["instance_id", column, "cluster", *([parts] if parts in known else [])]
        rows = connection.execute(
            f"SELECT {', '.join(map(sql_name, wanted))} FROM {_records(run)} ORDER BY position"
        ).fetchall()
    ids, values, clusters, *pooled = zip(*rows, strict=True) if rows else ((), (), ())
    return ScoreColumn(
        ids=list(ids),
        values=np.array([np.nan if v is None else v for v in values], dtype=float),
        clusters=list(clusters),
        parts=[json.loads(text or "{}") for text in pooled[0]] if pooled else None,
    )


def read_columns(run: Run, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a run's records, in the order of its instances; a column that it does not have is all None."""
    with connect() as connection:
        known = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {_records(run)}").fetchall()]
        wanted = [sql_name(name) if name in known else "NULL" for name in names]
        rows = connection.execute(f"SELECT {', '.join(wanted)} FROM {_records(run)} ORDER BY position").fetchall()
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def read_record(run: Run, instance_id: str) -> dict[str, Any] | None:
    """All columns of one instance in one run; None if it has no such instance."""
    return _first(f"SELECT * FROM {_records(run)} WHERE instance_id = ?", instance_id)


def read_prompt(path: Path, instance_id: str) -> dict[str, Any] | None:
    """Messages, choices and references of one instance from a prompts file; None if it is not there."""
    if not path.exists():
        return None
    row = _first(f"SELECT * FROM read_parquet({sql_text(path)}) WHERE instance_id = ?", instance_id)
    return row and {**row, **{key: json.loads(row[key]) for key in ("messages", "choices", "references")}}


def read_messages(path: Path) -> dict[str, list[dict[str, str]]]:
    """Instance -> the messages of its prompt, of a prompts file; empty if there is no such file."""
    if not path.exists():
        return {}
    with connect() as connection:
        rows = connection.execute(f"SELECT instance_id, messages FROM read_parquet({sql_text(path)})").fetchall()
    return {instance_id: json.loads(messages) for instance_id, messages in rows}


def read_records(run: Run) -> Iterator[dict[str, Any]]:
    """Every row of a run, in the order of its instances."""
    with connect() as connection:
        cursor = connection.execute(f"SELECT * FROM {_records(run)} ORDER BY position")
        names = [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(1000):
            for row in rows:
                yield dict(zip(names, row, strict=True))


def _is_complete(folder: Path) -> bool:
    """Whether a complete run is stored in `folder`."""
    file = folder / NAME
    return file.is_file() and read_run(file).status == "complete"


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
    if run.folder is None:
        raise StoreError(f"the run of {run.model} on {run.benchmark} is not stored")
    return f"read_parquet({sql_text(run.folder / 'records.parquet')})"


class _DiskErrors:
    """Turn the system's disk errors into one the user understands."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # DuckDB has exceptions of its own for a full disk and for memory; their text names the system's reason.
        if isinstance(error, OSError) or type(error).__name__ in ("IOException", "OutOfMemoryException"):
            raise StoreFullError(
                f"{self._place} cannot be written: {getattr(error, 'strerror', None) or error}. Every completion "
                "received before is kept in the store's cache: free some space and run the same command again."
            ) from error
