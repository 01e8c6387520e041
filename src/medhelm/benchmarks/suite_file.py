"""Suites that people write: one benchmark a line, or YAML with a name and, if need be, weights.

name: inpatient
description: What matters on our wards.
benchmarks:            # or a list of names, each counting once
  aci_bench: 2
  medcalc_bench: 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from medhelm.domain.suite import Suite
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.strict_yaml import KeyPath, YamlDocument, load_yaml, validate

SUFFIXES = (".yaml", ".yml")
"""Endings of a file's name by which it is read as YAML."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    """Name for people."""
    description: str = ""
    """What it is for."""


class _Listed(_Strict):
    """A suite in which every benchmark counts once."""

    benchmarks: Annotated[list[str], Field(min_length=1)]
    """Their names."""


class _Weighted(_Strict):
    """A suite with weights."""

    benchmarks: Annotated[dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]], Field(min_length=1)]
    """Name -> how much it counts."""


def read_suite(path: Path, ids: Mapping[str, str]) -> Suite:
    """The suite in a file.

    Parameters: ids, every name and alias that is known -> the id that it stands for.
    Raises: ConfigError with all problems: unknown keys and names, benchmarks that stand twice, weights not above 0.
    """
    return _from_yaml(path, ids) if path.suffix in SUFFIXES else _from_lines(path, ids)


def _from_yaml(path: Path, ids: Mapping[str, str]) -> Suite:
    document = load_yaml(path)
    problems: list[Problem] = []
    content: _Listed | _Weighted | None = None
    try:
        listed = isinstance(document.data, dict) and isinstance(document.data.get("benchmarks"), list)
        content = validate(document, _Listed) if listed else validate(document, _Weighted)
    except ConfigError as error:
        problems += error.problems
    weights = _resolve(_names_in(document), ids, problems)
    if problems or content is None:
        raise ConfigError(document.place, problems)
    if isinstance(content, _Weighted):
        weights = {ids[name]: weight for name, weight in content.benchmarks.items()}
    return Suite(name=content.name, weights=weights, description=content.description)


def _names_in(document: YamlDocument) -> Iterable[tuple[str, int | None]]:
    """Every text that stands where a benchmark should, with its line."""
    found = document.data.get("benchmarks") if isinstance(document.data, dict) else None
    places: dict[KeyPath, object] = {}
    if isinstance(found, list):
        places = {("benchmarks", place): name for place, name in enumerate(found)}
    elif isinstance(found, dict):
        places = {("benchmarks", name): name for name in found}
    return [(name, document.line_of(place)) for place, name in places.items() if isinstance(name, str)]


def _from_lines(path: Path, ids: Mapping[str, str]) -> Suite:
    """One name a line; blank lines and what follows a `#` do not count."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(str(path), [Problem(f"cannot be read: {error.strerror or error}.")]) from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), [Problem("not UTF-8 text. Save the file as UTF-8.")]) from None
    texts = ((line.partition("#")[0].strip(), number) for number, line in enumerate(lines, start=1))
    problems: list[Problem] = []
    weights = _resolve(((text, number) for text, number in texts if text), ids, problems)
    if not weights and not problems:
        problems.append(Problem("the file names no benchmark. Write one name a line."))
    if problems:
        raise ConfigError(str(path), problems)
    return Suite(name=path.name, weights=weights)


def _resolve(
    names: Iterable[tuple[str, int | None]], ids: Mapping[str, str], problems: list[Problem]
) -> dict[str, float]:
    """Ids of the benchmarks, each counting once; what is wrong with a name goes to `problems`."""
    lines: dict[str, int | None] = {}
    for name, line in names:
        if name not in ids:
            problems.append(Problem(f"unknown benchmark `{name}`. {suggestion(name, ids)}".rstrip(), line))
        elif ids[name] in lines:
            first = f"`{ids[name]}` stands in line {lines[ids[name]]} already"
            problems.append(Problem(f"{name}: {first}. Keep one of them.", line))
        else:
            lines[ids[name]] = line
    return dict.fromkeys(lines, 1.0)
