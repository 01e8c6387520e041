"""An instance as JSON and back, for logs of other tools that carry instances of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medhelm.domain import Criterion, Instance, Reference
from medhelm.io.untrusted_json import mapping, number, sequence, text
from medhelm.storage.json_form import TUPLE, JsonForm

REFERENCE = JsonForm(Reference, {"text": "text", "correct": "correct"})

CRITERION = JsonForm(
    Criterion,
    {
        "name": "name",
        "description": "description",
        "higher_is_better": "higher_is_better",
        "points": "points",
        "tags": "tags",
    },
    nested={"tags": TUPLE},
)

INSTANCE = JsonForm(
    Instance,
    {
        "fields": "fields",
        "references": "references",
        "choices": "choices",
        "labels": "labels",
        "cluster": "cluster",
        "group": "group",
        "metadata": "metadata",
        "criteria": "criteria",
    },
    nested={"references": REFERENCE.many, "choices": TUPLE, "labels": TUPLE, "criteria": CRITERION.many},
    not_stored=("id", "turns"),
)


def instance_to_json(instance: Instance) -> dict[str, Any]:
    """Everything but id and turns, which the log has elsewhere; what is empty is left out."""
    return {name: value for name, value in INSTANCE.write(instance).items() if value}


def instance_from_json(instance_id: str, content: Mapping[str, Any]) -> Instance:
    """The instance that `instance_to_json` wrote, without turns. What cannot be read counts as absent."""
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
