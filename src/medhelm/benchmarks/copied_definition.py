"""Create a benchmark like another one: its definition in the words that the loader reads, its hooks and sample rows.

All that describes the published data is left out: where it is from, its checksums, selections and rules. What decides
prompts and scores stays.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from medhelm.benchmarks.definition import FIELD_OF_KEY, FILE_NAME, HOOKS, SAMPLE_ROWS
from medhelm.benchmarks.new_benchmark import title_of
from medhelm.domain import AnswerField, Benchmark, Criterion, Rubric, SampleRule, Source
from medhelm.domain.benchmark import VERY_POOR
from medhelm.errors import UserError
from medhelm.io.folders import atomic_folder, output_errors

_COPIED = (HOOKS, SAMPLE_ROWS)
_OF_PUBLISHED_BENCHMARK = ("aliases", "citation", "license", "helm", "samples", "rules")
"""Keys of a definition that describe the published benchmark."""
_OF_PUBLISHED_DATA = ("location", "revision", "expected_count", "note", "files", "scoring_files")
"""Fields of a source that describe the published files."""


def benchmark_like(name: str, benchmark: Benchmark, folder: Path) -> tuple[Path, list[str]]:
    """Create the folder of a benchmark below `folder` that asks and scores as another one.

    Returns: the folder, and the paths of the data files to add, below it. Raises: UserError if the folder exists, or if
    the definition cannot be expressed; as `output_errors`.
    """
    if benchmark.rubric and benchmark.rubric.verbatim:
        raise UserError(
            f"{benchmark.name}: its judges get a prompt in HELM's format, which a definition cannot express. Copy its "
            "folder instead."
        )
    place = folder / name
    if place.exists():
        raise UserError(f"{place} already exists. Choose another name, or another folder with --out.")
    content = definition_of(benchmark, name)
    with output_errors(place), atomic_folder(place, replace=False) as new:
        (new / FILE_NAME).write_text(_yaml_text(content, benchmark), encoding="utf-8")
        for file in _COPIED:
            if (benchmark.folder / file).is_file():
                shutil.copyfile(benchmark.folder / file, new / file)
    return place, [*content["source"]["files"], *content["source"].get("scoring_files", ())]


def definition_of(benchmark: Benchmark, name: str) -> dict[str, Any]:
    """Return the definition of a benchmark like another one, for data of the user's own, as keys and values of YAML."""
    from medhelm.benchmarks.schema import DefinitionShape  # lazy, as in `read_definition`

    special = {
        "name": name,
        "title": title_of(name),
        "taxonomy": _given(benchmark.taxonomy),
        "access": "private",
        "source": _source(benchmark.source, name),
        "choices": _choices(benchmark),
        "slices": [
            {"column": one.column, "bands": list(one.bands)} if one.bands else one.column for one in benchmark.slices
        ],
        "answer": _given(benchmark.answer, AnswerField(column="")),
        "sample": _given(SampleRule(size=benchmark.sample.size), SampleRule()),
        "rubric": _rubric(benchmark) if benchmark.rubric else None,
        **dict.fromkeys(_OF_PUBLISHED_BENCHMARK),
    }
    content = {}
    for key in DefinitionShape.model_fields:
        value = special[key] if key in special else getattr(benchmark, FIELD_OF_KEY.get(key, key))
        if value:
            content[key] = list(value) if isinstance(value, tuple) else value
    return content


def _given(shape: Any, usual: Any = None) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from the usual ones; without these, all that are not empty."""
    values = {one.name: getattr(shape, one.name) for one in fields(shape)}
    if usual is None:
        return {name: value for name, value in values.items() if value}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _source(source: Source, name: str) -> dict[str, Any]:
    """Return the source of the user's own files: one, named as the benchmark, unless names of files matter."""
    usual = Source(kind="")
    kept = {key: value for key, value in _given(source, usual).items() if key not in _OF_PUBLISHED_DATA}
    files = list(source.files)
    if source.kind != "folder" and not source.file_column and not set("*?[") & set(files[0]):
        files = [name + PurePosixPath(files[0]).suffix]
    named = {"files": dict.fromkeys(files, "")}
    scoring = {"scoring_files": dict.fromkeys(source.scoring_files, "")} if source.scoring_files else {}
    return {**kept, **named, **scoring}


def _choices(benchmark: Benchmark) -> Any:
    """Return the options: a list, or a mapping where they are in columns or have their texts as names."""
    labels = {"labels": benchmark.choice_labels} if benchmark.choice_labels != "letters" else {}
    if columns := list(benchmark.choice_columns):
        missing = {"missing": benchmark.choices[0]} if benchmark.choices else {}
        return {"columns": columns, **missing, **labels}
    texts = list(benchmark.choices)
    return {"texts": texts, **labels} if labels else texts


def _rubric(benchmark: Benchmark) -> dict[str, Any]:
    """Return the rubric of a benchmark, with what differs in the extended one."""
    rubric, extended = benchmark.rubric, benchmark.extended_rubric
    assert rubric is not None, "the caller has checked"
    in_points = rubric.form == "points"
    content = {
        "task": rubric.task,
        "form": "points" if in_points else None,
        "scale": None if in_points else [rubric.low, rubric.high],
        "low_means": rubric.low_means if rubric.low_means != VERY_POOR else None,
        "show_points": rubric.shows_points or None,
        "reference": None if rubric.shows_reference else False,
        "question": rubric.question or None,
        "criteria": {one.name: _criterion(one) for one in rubric.criteria} or None,
        "criteria_column": benchmark.criteria_column or None,
        "floor": [_given(one) for one in rubric.floors] or None,
        "extended": _extended(rubric, extended) if extended else None,
    }
    return {key: value for key, value in content.items() if value is not None}


def _criterion(criterion: Criterion) -> Any:
    """Return a criterion: its text, or a mapping where it has more."""
    more = {
        "lower_is_better": not criterion.higher_is_better,
        "points": criterion.points,
        "tags": list(criterion.tags),
    }
    given = {key: value for key, value in more.items() if value}
    return {"description": criterion.description, **given} if given else criterion.description


def _extended(rubric: Rubric, extended: Rubric) -> dict[str, Any]:
    """Return the texts of the extended rubric that differ."""
    usual = {one.name: one.description for one in rubric.criteria}
    changed = {one.name: one.description for one in extended.criteria if one.description != usual[one.name]}
    task = {"task": extended.task} if extended.task != rubric.task else {}
    return {**task, **({"criteria": changed} if changed else {})}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _yaml_text(content: Mapping[str, Any], benchmark: Benchmark) -> str:
    """Return a definition as YAML, with a comment on its origin."""
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    source = f"{benchmark.title} ({benchmark.name}{', ' + benchmark.license if benchmark.license else ''})"
    return (
        f"# Asks and scores like {source}. Put your own rows into the files below `source`, in the schema of\n"
        f"# {SAMPLE_ROWS}. `medhelm docs benchmark_yaml` explains every key.\n{text}"
    )
