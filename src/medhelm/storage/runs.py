"""Run folders: written once, read by columns.

`run.json` holds numbers and settings only and is safe to publish; `records.parquet` holds one row per instance, with
the completion's text. `run.json` is written last, so that its existence means that the run is whole. Records are
spooled to a file while they come in, so that memory does not grow with their number.
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from medhelm.domain import RULES, Estimate, Instance, Prompt, Record, Rule, Run, Taxonomy, Usage
from medhelm.errors import StoreError, StoreFullError
from medhelm.storage.store import Store, beside

if TYPE_CHECKING:
    import duckdb
    import numpy as np

RECORD_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "cluster": "VARCHAR",
    "request_digest": "VARCHAR",
    "completion": "VARCHAR",
    "finish_reason": "VARCHAR",
    "failure_boundary": "VARCHAR",
    "failure_code": "VARCHAR",
    "failure_message": "VARCHAR",
    "input_tokens": "BIGINT",
    "cached_input_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "reasoning_tokens": "BIGINT",
    "latency_s": "DOUBLE",
    "reported_model": "VARCHAR",
    "score_failure": "VARCHAR",
}
"""Columns of every `records.parquet`, before one `METRIC_RULE` column of numbers per metric and rule."""

PROMPT_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "messages": "VARCHAR",
    "choices": "VARCHAR",
    "references": "VARCHAR",
}
"""Columns of a prompts file; the last three hold JSON."""


ROW_GROUP = 2048
"""Rows that are turned into columns together; a bound on memory."""

PART_BYTES = 2**20
"""Size of the files that DuckDB reads; it holds one in memory."""


def score_column(metric: str, rule: Rule) -> str:
    """Name of the column that holds this metric under this rule."""
    return f"{metric}_{rule}"


class Spool:
    """Rows on their way into a Parquet file: appended as JSON lines, turned into columns at the end.

    Only places are kept in memory, and the columns are made a few thousand rows at a time.
    """

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        """`path` is the Parquet file to come; `columns` maps names to DuckDB types, `position` among them."""
        self._path, self._columns = path, columns
        self._lines = beside(path, ".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._lines.open("wb")
        self._positions, self._starts = array("q"), array("q")
        self._size = self._longest = 0
        self._in_order = True

    def add(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        # "replace": a lone surrogate, which JSON can carry and UTF-8 cannot, must not make the row unwritable.
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._in_order = self._in_order and row["position"] == len(self._positions)
        self._positions.append(row["position"])
        self._starts.append(self._size)
        self._size += len(line)
        self._longest = max(self._longest, len(line))
        self._file.write(line)

    def finish(self) -> None:
        """Write the Parquet file, in the order of `position`, and rename it into place."""
        self._file.close()
        new, folder = beside(self._path), beside(self._path, "-parts")
        types = ", ".join(f"{_name(name)}: '{kind}'" for name, kind in self._columns.items())
        size = self._longest + 2**20
        with _connect() as connection:
            parts = ", ".join(_text(part) for part in self._in_parts(folder))
            rows = f"read_json([{parts}], format='nd', columns={{{types}}}, maximum_object_size={size})"
            connection.execute(
                f"COPY (SELECT * FROM {rows}) TO {_text(new)} "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
            )
        new.replace(self._path)
        self.discard()
        shutil.rmtree(folder)

    def _in_parts(self, folder: Path) -> list[Path]:
        """The lines in the order of `position`, in small files: DuckDB holds a file, and what it sorts, in memory."""
        folder.mkdir()
        parts = []
        for number, content in enumerate(self._batches()):
            parts.append(folder / f"{number}.jsonl")
            parts[-1].write_bytes(content)
        return parts

    def _batches(self) -> Iterator[bytes]:
        """The lines in the order of `position`, about PART_BYTES at a time."""
        batch = bytearray()
        places: Sequence[int] = range(len(self._positions))
        if not self._in_order:
            places = sorted(places, key=self._positions.__getitem__)
        with self._lines.open("rb") as lines:
            for place in places:
                lines.seek(self._starts[place])
                batch += lines.readline()
                if len(batch) >= PART_BYTES:
                    yield bytes(batch)
                    batch.clear()
        yield bytes(batch)

    def discard(self) -> None:
        """Forget all rows."""
        self._file.close()
        self._lines.unlink(missing_ok=True)


class RunWriter:
    """A run folder in the making: `add` records as they come, then `finish` or `discard`."""

    def __init__(self, store: Store, *, benchmark: str, model: str, run_id: str, metrics: Sequence[str]) -> None:
        """The caller holds the lock on (benchmark, model), so leftovers of a killed process are ours to clear away."""
        self._final = store.run_folder(benchmark, model, run_id)
        self._folder = self._final.with_name(f".new-{self._final.name}")
        columns = {score_column(metric, rule): "DOUBLE" for metric in metrics for rule in RULES}
        with _DiskErrors(self._final):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._spool = Spool(self._folder / "records.parquet", {**RECORD_COLUMNS, **columns})

    def discard(self) -> None:
        """Clear away what was not finished."""
        self._spool.discard()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, record: Record) -> None:
        """Append one record, in any order."""
        with _DiskErrors(self._final):
            self._spool.add(_row(record))

    def finish(self, run: Run) -> Path:
        """Write the records, then `run.json`, then put the folder in place of an older one; returns the folder.

        A run that was stopped on the way does not take the place of a complete one: the older folder stays.
        """
        if run.status != "complete" and _is_complete(self._final):
            self.discard()
            return self._final
        with _DiskErrors(self._final):
            self._spool.finish()
            text = json.dumps(_plain(run), indent=2, ensure_ascii=False)
            (self._folder / "run.json").write_text(text + "\n", encoding="utf-8")
            if self._final.exists():
                old = self._final.with_name(f".old-{self._final.name}")
                shutil.rmtree(old, ignore_errors=True)
                self._final.rename(old)
                self._folder.rename(self._final)
                shutil.rmtree(old, ignore_errors=True)
            else:
                self._folder.rename(self._final)
        return self._final


def write_prompts(path: Path, rows: Iterable[tuple[Instance, Prompt]]) -> None:
    """Store prompts and references once, for `show`; does nothing if the file is there."""
    if path.exists():
        return
    with _DiskErrors(path):
        spool = Spool(path, PROMPT_COLUMNS)
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
    """Every whole run of a store, by benchmark and model. Reads `run.json` files only."""
    return [_read_run(path) for path in sorted(store.folder.glob("runs/*/[!.]*/run.json"))]


def read_scores(run: Run, metric: str, rule: Rule) -> tuple[list[str], np.ndarray, list[str]]:
    """Instance ids, scores (NaN where there is none) and clusters of a run, in the order of its instances."""
    import numpy as np

    column = _name(score_column(metric, rule))
    with _connect() as connection:
        rows = connection.execute(
            f"SELECT instance_id, {column}, cluster FROM {_records(run)} ORDER BY position"
        ).fetchall()
    ids, values, clusters = zip(*rows, strict=True) if rows else ((), (), ())
    return list(ids), np.array([np.nan if v is None else v for v in values], dtype=float), list(clusters)


def read_record(run: Run, instance_id: str) -> dict[str, Any] | None:
    """All columns of one instance in one run; None if it has no such instance."""
    return _first(f"SELECT * FROM {_records(run)} WHERE instance_id = ?", instance_id)


def read_prompt(path: Path, instance_id: str) -> dict[str, Any] | None:
    """Messages, choices and references of one instance from a prompts file; None if it is not there."""
    if not path.exists():
        return None
    row = _first(f"SELECT * FROM read_parquet({_text(path)}) WHERE instance_id = ?", instance_id)
    return row and {**row, **{key: json.loads(row[key]) for key in ("messages", "choices", "references")}}


def read_records(run: Run) -> Iterator[dict[str, Any]]:
    """Every row of a run, in the order of its instances."""
    with _connect() as connection:
        cursor = connection.execute(f"SELECT * FROM {_records(run)} ORDER BY position")
        names = [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(1000):
            for row in rows:
                yield dict(zip(names, row, strict=True))


def _is_complete(folder: Path) -> bool:
    """Whether a complete run is stored in `folder`."""
    file = folder / "run.json"
    return file.is_file() and _read_run(file).status == "complete"


def _read_run(path: Path) -> Run:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content["taxonomy"] = Taxonomy(**content["taxonomy"])
        content["usage"] = Usage(**content["usage"])
        content["estimates"] = {
            rule: {metric: Estimate(**estimate) for metric, estimate in by_metric.items()}
            for rule, by_metric in content["estimates"].items()
        }
        return Run(**{**content, "folder": path.parent})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Remove its folder and run the same command again.") from error


def _plain(run: Run) -> dict[str, Any]:
    """A run as JSON knows it; the folder is where the file lies and is not written."""
    content = asdict(run)
    del content["folder"]
    return content


def _row(record: Record) -> dict[str, Any]:
    completion, failure = record.completion, record.completion.failure
    row: dict[str, Any] = {
        "position": record.position,
        "instance_id": record.instance_id,
        "cluster": record.cluster,
        "request_digest": record.request_digest.hex(),
        "completion": completion.text,
        "finish_reason": completion.finish_reason,
        "failure_boundary": failure and failure.boundary,
        "failure_code": failure and failure.code,
        "failure_message": failure and failure.message,
        "input_tokens": completion.usage.input,
        "cached_input_tokens": completion.usage.cached_input,
        "output_tokens": completion.usage.output,
        "reasoning_tokens": completion.usage.reasoning,
        "latency_s": completion.latency_s,
        "reported_model": completion.reported_model,
    }
    for score in record.scores:
        row[score_column(score.metric, score.rule)] = score.value
        if score.failure and not failure:
            row["score_failure"] = f"{score.metric}: {score.failure.message}"
    return row


# --- DuckDB -----------------------------------------------------------------------------------------------------------


def _connect() -> duckdb.DuckDBPyConnection:
    """A small engine of our own: one thread, bounded memory, no extension and no network."""
    import duckdb

    return duckdb.connect(
        config={
            "threads": 1,
            "memory_limit": "512MB",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


def _first(query: str, value: str) -> dict[str, Any] | None:
    with _connect() as connection:
        cursor = connection.execute(query, [value])
        row = cursor.fetchone()
        return None if row is None else dict(zip([column[0] for column in cursor.description], row, strict=True))


def _records(run: Run) -> str:
    if run.folder is None:
        raise StoreError(f"the run of {run.model} on {run.benchmark} is not stored")
    return f"read_parquet({_text(run.folder / 'records.parquet')})"


def _name(text: str) -> str:
    """`text` as an SQL name."""
    return '"' + text.replace('"', '""') + '"'


def _text(value: Path) -> str:
    """A path as an SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


class _DiskErrors:
    """Turn the system's disk errors into one the user understands."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # DuckDB reports a full disk as its own IOException; its text names the system's reason.
        if isinstance(error, OSError) or (error is not None and type(error).__name__ == "IOException"):
            raise StoreFullError(
                f"{self._place} cannot be written: {getattr(error, 'strerror', None) or error}. Every completion "
                "received before is kept in the store's cache: free some space and run the same command again."
            ) from error
