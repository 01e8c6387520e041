"""The questions of runs that came from elsewhere, so that their completions can be scored again without any data.

Two files for each benchmark and set of questions, shared by all models that were asked them: the messages, options and
references lie with the prompts of our own runs (`storage.runs`), and here lies what else scores may need.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Instance, Message, Reference
from medhelm.errors import StoreError
from medhelm.io.output_folder import write_file
from medhelm.io.parquet import connect, sql_text
from medhelm.io.parquet_columns import ColumnWriter
from medhelm.storage.runs import PROMPT_COLUMNS
from medhelm.storage.store import Store

INSTANCE_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "fields": "VARCHAR",
    "labels": "VARCHAR",
    "cluster": "VARCHAR",
    "group": "VARCHAR",
    "metadata": "VARCHAR",
}
"""Columns of a file of instances; `fields`, `labels` and `metadata` hold JSON."""


def instances_digest(instances: Iterable[Instance]) -> str:
    """Hash of everything that was asked, in hex: the same questions in the same words and order have the same."""
    whole = hashlib.sha256()
    for one in instances:
        texts = [one.id, one.group, one.cluster]
        for turn in one.turns:
            texts += [turn.role, turn.text]
        for name, text in (*one.fields.items(), *one.metadata.items()):
            texts += [name, text]
        for reference in one.references:
            texts += [str(reference.correct), reference.text]
        texts += [*one.choices, *one.labels]
        # The lengths stand first, so that no two lists of texts are the same to the hash.
        whole.update(",".join(map(str, map(len, texts))).encode())
        whole.update("".join(texts).encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def instances_file(store: Store, benchmark: str, data_digest: str) -> Path:
    """Where the instances of a benchmark with this digest lie."""
    return store.folder / "instances" / f"{benchmark}-{data_digest[:10]}.parquet"


def write_instances(
    store: Store,
    instances: Sequence[Instance],
    *,
    benchmark: str,
    benchmark_digest: str,
    data_digest: str,
    about: Mapping[str, Any],
    writer: ColumnWriter,
) -> None:
    """Store what was asked, once; `about`: what has to be known of the benchmark besides, as JSON."""
    prompts = store.prompts_file(benchmark, benchmark_digest, data_digest)
    place = instances_file(store, benchmark, data_digest)
    shared: dict[str, Sequence[Any]] = {
        "position": range(len(instances)),
        "instance_id": [one.id for one in instances],
    }
    if not prompts.exists():
        columns = {
            "messages": [json.dumps([{"role": m.role, "content": m.text} for m in one.turns]) for one in instances],
            "choices": [json.dumps(one.choices) for one in instances],
            "references": [
                json.dumps([{"text": r.text, "correct": r.correct} for r in one.references]) for one in instances
            ],
        }
        writer.write(prompts, PROMPT_COLUMNS, {**shared, **columns})
    if not place.exists():
        columns = {
            "fields": [json.dumps(dict(one.fields)) for one in instances],
            "labels": [json.dumps(one.labels) for one in instances],
            "cluster": [one.cluster for one in instances],
            "group": [one.group for one in instances],
            "metadata": [json.dumps(dict(one.metadata)) for one in instances],
        }
        writer.write(place, INSTANCE_COLUMNS, {**shared, **columns})
    note = place.with_suffix(".json")
    if not note.exists():
        write_file(note, json.dumps(about, indent=2, ensure_ascii=False) + "\n")


def read_about(store: Store, benchmark: str, data_digest: str) -> dict[str, Any]:
    """What was stored of the benchmark besides; empty if nothing was. Raises: StoreError if it is damaged."""
    note = instances_file(store, benchmark, data_digest).with_suffix(".json")
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{note} is damaged ({error}). Remove it and import the run again.") from error
    return content if isinstance(content, dict) else {}


def read_instances(store: Store, *, benchmark: str, benchmark_digest: str, data_digest: str) -> list[Instance]:
    """The stored instances, in order. Raises: StoreError if they are not there."""
    prompts = store.prompts_file(benchmark, benchmark_digest, data_digest)
    place = instances_file(store, benchmark, data_digest)
    for path in (prompts, place):
        if not path.exists():
            raise StoreError(f"{benchmark}: {path} is not there. Import the run again.")
    names = ["messages", "choices", "references", "fields", "labels", "metadata"]
    with connect() as connection:
        wanted = (
            'instance_id, i."cluster", i."group", p.messages, p.choices, p."references", i.fields, labels, metadata'
        )
        both = (
            f"read_parquet({sql_text(place)}) i JOIN read_parquet({sql_text(prompts)}) p USING (position, instance_id)"
        )
        rows = connection.execute(f"SELECT {wanted} FROM {both} ORDER BY position").fetchall()  # noqa: S608 - our own names
    return [
        _instance(row[0], row[1], row[2], {name: json.loads(text) for name, text in zip(names, row[3:], strict=True)})
        for row in rows
    ]


def _instance(id_: str, cluster: str, group: str, columns: Mapping[str, Any]) -> Instance:
    return Instance(
        id=id_,
        fields=columns["fields"],
        references=tuple(Reference(one["text"], one["correct"]) for one in columns["references"]),
        choices=tuple(columns["choices"]),
        labels=tuple(columns["labels"]),
        cluster=cluster,
        group=group,
        metadata=columns["metadata"],
        turns=tuple(Message(one["role"], one["content"]) for one in columns["messages"]),
    )
