"""Stores instances of imported runs, so that their completions can be scored again without the data.

There are two files per benchmark and set of instances, shared by all models: messages, options and references are
stored like the prompts of other runs (`storage.runs`); everything else that metrics need is stored here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Criterion, Instance, Message, Reference
from medhelm.errors import StoreError
from medhelm.io.files import read_confidential
from medhelm.io.folders import write_confidential
from medhelm.io.parquet import ColumnWriter, connect, sql_path
from medhelm.io.rows import mapping, number, sequence, text
from medhelm.storage.json_form import TUPLE, JsonForm, key_map
from medhelm.storage.runs import PROMPT_COLUMNS, prompt_texts
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
    """Return the hash of all instances in hex, equal for the same instances with the same texts in the same order."""
    whole = hashlib.sha256()
    for one in instances:
        texts = [one.id, one.group, one.cluster]
        for turn in one.turns:
            texts += [turn.role, turn.text]
        for name, value in (*one.fields.items(), *one.metadata.items()):
            texts += [name, value]
        for reference in one.references:
            texts += [str(reference.correct), reference.text]
        texts += [*one.choices, *one.labels]
        # The lengths come first, so that different lists of texts never give the same bytes.
        whole.update(",".join(map(str, map(len, texts))).encode())
        whole.update("".join(texts).encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def instances_file(store: Store, benchmark: str, data_digest: str) -> Path:
    """Return the file of the instances of a benchmark with this digest."""
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
    """Store the instances, unless they are already stored. `about`: further facts about the benchmark, as JSON."""
    prompts = store.prompts_file(benchmark, benchmark_digest, data_digest)
    place = instances_file(store, benchmark, data_digest)
    shared: dict[str, Sequence[Any]] = {
        "position": range(len(instances)),
        "instance_id": [one.id for one in instances],
    }
    if not prompts.exists():
        texts = [prompt_texts(one, one.turns, "group" if one.group else "") for one in instances]
        columns = {name: [own[name] for own in texts] for name in PROMPT_COLUMNS if name not in shared}
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
        write_confidential(note, json.dumps(about, indent=2, ensure_ascii=False) + "\n")


def read_about(store: Store, benchmark: str, data_digest: str) -> dict[str, Any]:
    """Read the further facts about the benchmark; empty if there are none. Raises: StoreError if they are damaged."""
    note = instances_file(store, benchmark, data_digest).with_suffix(".json")
    try:
        content = json.loads(read_confidential(note))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{note} is damaged ({error}). Remove it and import the run again.") from error
    return content if isinstance(content, dict) else {}


def read_instances(store: Store, *, benchmark: str, benchmark_digest: str, data_digest: str) -> list[Instance]:
    """Read the stored instances, in order. Raises: StoreError if they are missing."""
    prompts = store.prompts_file(benchmark, benchmark_digest, data_digest)
    place = instances_file(store, benchmark, data_digest)
    for path in (prompts, place):
        if not path.exists():
            raise StoreError(f"{benchmark}: {path} is missing. Import the run again.")
    names = ["messages", "choices", "references", "fields", "labels", "metadata"]
    with connect() as connection:
        wanted = (
            'instance_id, i."cluster", i."group", p.messages, p.choices, p."references", i.fields, labels, i.metadata'
        )
        both = (
            f"read_parquet({sql_path(place)}) i JOIN read_parquet({sql_path(prompts)}) p USING (position, instance_id)"
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


# --- instances as JSON, in logs of other tools ------------------------------------------------------------------------

REFERENCE = JsonForm(Reference, key_map("text correct"))

CRITERION = JsonForm(
    Criterion,
    key_map("name description higher_is_better points tags"),
    nested={"tags": TUPLE},
)

INSTANCE = JsonForm(
    Instance,
    key_map("fields references choices labels cluster group metadata criteria"),
    nested={"references": REFERENCE.many, "choices": TUPLE, "labels": TUPLE, "criteria": CRITERION.many},
    not_stored=("id", "turns", "examples"),
)


def instance_to_json(instance: Instance) -> dict[str, Any]:
    """Convert an instance to JSON, without id and turns, which the log stores elsewhere, and without empty fields."""
    return {name: value for name, value in INSTANCE.write(instance).items() if value}


def instance_from_json(instance_id: str, content: Mapping[str, Any]) -> Instance:
    """Read an instance written by `instance_to_json`, without turns. Invalid values count as missing."""
    return Instance(
        id=instance_id,
        fields=_texts(content.get("fields")),
        references=tuple(
            Reference(text(mapping(one).get("text")), mapping(one).get("correct") is True)
            for one in sequence(content.get("references"))
        ),
        choices=tuple(map(text, sequence(content.get("choices")))),
        labels=tuple(map(text, sequence(content.get("labels")))),
        cluster=text(content.get("cluster")),
        group=text(content.get("group")),
        metadata=_texts(content.get("metadata")),
        criteria=tuple(_criterion(mapping(one)) for one in sequence(content.get("criteria"))),
    )


def _texts(value: object) -> dict[str, str]:
    return {name: text(own) for name, own in mapping(value).items()}


def _criterion(content: Mapping[str, Any]) -> Criterion:
    return Criterion(
        text(content.get("name")),
        text(content.get("description")),
        content.get("higher_is_better") is not False,
        number(content.get("points")) or 0.0,
        tuple(map(text, sequence(content.get("tags")))),
    )
