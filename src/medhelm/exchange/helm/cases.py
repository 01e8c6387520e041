"""The instances of a stored run, one by one, each with all its stored data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.domain import Run
from medhelm.errors import StoreError
from medhelm.exchange.helm.files import rows
from medhelm.io.parquet import sql_name
from medhelm.storage.judgments import JUDGMENT_COLUMNS

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class HelmCase:
    """All stored data of one instance."""

    record: Mapping[str, Any]
    """Its row in the records."""
    messages: Sequence[Mapping[str, str]]
    """Its prompt."""
    choices: Sequence[str]
    """Its options."""
    references: Sequence[Mapping[str, Any]]
    """Its references: `text` and `correct`."""
    judgments: Sequence[Mapping[str, Any]]
    """The judgments of its completion."""


def cases(
    engine: duckdb.DuckDBPyConnection, run: Run, prompts_file: Path, group: str | None = None
) -> Iterator[HelmCase]:
    """Yield the instances of a run, in order. Raises: StoreError if the prompts do not match the records."""
    folder = _folder(run)
    prompts = rows(engine, prompts_file)
    judgments = _judgments(engine, folder / "judgments.parquet")
    for record in rows(engine, folder / "records.parquet"):
        prompt = next((row for row in prompts if row["position"] == record["position"]), None)
        if prompt is None or prompt["instance_id"] != record["instance_id"]:
            raise StoreError(
                f"{prompts_file} is not the prompts file of {folder}: instance {record['instance_id']} is not at "
                f"position {record['position']} in it. Run the benchmark again."
            )
        said = judgments.up_to(record["position"])
        if group is not None and record["group"] != group:
            continue
        content = {key: json.loads(prompt[key]) for key in ("messages", "choices", "references")}
        yield HelmCase(record=record, judgments=said, **content)


def is_lettered(engine: duckdb.DuckDBPyConnection, prompts: Path) -> bool:
    """Return True if the prompts ask for the letter of an option."""
    first = next(rows(engine, prompts), None)
    if first is None:
        return False
    choices = json.loads(first["choices"])
    shown = "\n".join(message["content"] for message in json.loads(first["messages"]))
    return bool(choices) and f"A. {choices[0]}" in shown


class _Judgments:
    """Judgments by instance, read along with the records, in order."""

    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._groups = groupby(rows, key=lambda row: int(row["position"]))
        self._held: tuple[int, list[dict[str, Any]]] | None = None

    def up_to(self, position: int) -> list[dict[str, Any]]:
        """Return those of the instance at `position`; positions must increase from call to call."""
        while self._held is None or self._held[0] < position:
            found = next(self._groups, None)
            if found is None:
                return []
            self._held = (found[0], list(found[1]))
        return self._held[1] if self._held[0] == position else []


def _judgments(engine: duckdb.DuckDBPyConnection, path: Path) -> _Judgments:
    """Return the judgments of a run; empty for a run without judges."""
    if not path.exists():
        return _Judgments(iter(()))
    return _Judgments(rows(engine, path, ", ".join(map(sql_name, JUDGMENT_COLUMNS))))


def _folder(run: Run) -> Path:
    if run.folder is None:
        raise StoreError(f"the run of {run.model} on {run.benchmark} is not stored")
    return run.folder
