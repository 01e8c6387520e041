"""Names of models for people: without the addresses of servers, which are long and may be internal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from medhelm.domain import Run
from medhelm.domain.remark import Remark

_Result = TypeVar("_Result")

ADDRESS = re.compile(r"@https?://\S+")
"""Address of a server in the name of a model."""


def without_address(name: str) -> str:
    """Return a model's name without the address of its server.

    >>> without_address("openai/letter@http://127.0.0.1:8000/v1")
    'openai/letter'
    """
    return ADDRESS.sub("", name)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Map names of models to names without the address of their server; equal ones are numbered.

    >>> short_names(["a@http://x/v1", "a@http://y/v1", "b@http://x/v1"])
    {'a@http://x/v1': 'a (server 1)', 'a@http://y/v1': 'a (server 2)', 'b@http://x/v1': 'b'}
    """
    names = sorted(set(names))
    plain = {name: without_address(name) for name in names}
    counts, used = Counter(plain.values()), Counter[str]()
    found = {}
    for name in names:
        short = plain[name]
        used[short] += 1
        found[name] = short if counts[short] == 1 else f"{short} (server {used[short]})"
    return found


def names_in(runs: Iterable[tuple[str, Run]]) -> dict[str, str]:
    """Return the short names of the models and judges of runs, each with the label of its store."""
    known = set()
    for label, run in runs:
        known.add(run.model + label)
        known.update(judge.name for judge in run.judges)
    return short_names(known)


def with_names(names: Mapping[str, str], text: str) -> str:
    """Replace names of models in a text, the longest first. Only names with an address change."""
    if "@http" not in text:
        return text
    if text in names:
        return names[text]
    for name in sorted(names, key=len, reverse=True):
        if name != names[name]:
            text = text.replace(name, names[name])
    return text


def renamed(result: _Result, names: Mapping[str, str]) -> _Result:
    """Return a copy of a result with other names of models. Commands in its remarks keep the full names."""
    return _renamed(result, names)  # type: ignore[no-any-return]


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return with_names(names, value) if type(value) is str else value
    if isinstance(value, Remark):
        parts = value.text.split("`")
        text = "`".join(part if i % 2 else with_names(names, part) for i, part in enumerate(parts))
        return replace(value, text=text, subject=with_names(names, value.subject))
    if is_dataclass(value) and not isinstance(value, type):
        init = [part.name for part in fields(value) if part.init]
        return replace(value, **{name: _renamed(getattr(value, name), names) for name in init})
    if isinstance(value, Mapping):
        return {_renamed(key, names): _renamed(part, names) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_renamed(part, names) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_renamed(part, names) for part in value)
    return value
