"""Read a `benchmark.yaml` into a `Benchmark`, or report all its problems at once, each with its line.

Reading runs no code: `hooks.py` next to the file enters the digest, but is executed only when rows are read.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import tokenize
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.benchmarks.prompts import FIELD_NAME, NO_FIELD, OPTIONS, placeholders, slug, stray_braces
from medhelm.domain import (
    EXTENDED,
    JURY,
    STANDARD,
    AnswerField,
    Benchmark,
    Criterion,
    Floor,
    Rubric,
    RuleDescription,
    SampleRule,
    SliceColumn,
    Source,
    Taxonomy,
    needs_answer,
)
from medhelm.domain.text import plural, value_in_words
from medhelm.errors import ConfigError, DataError, Problem, UserError, suggestion

if TYPE_CHECKING:
    from medhelm.benchmarks.schema import ChoicesShape, DefinitionShape
    from medhelm.io.strict_yaml import KeyPath, YamlDocument


FILE_NAME = "benchmark.yaml"
"""Name of a definition in its folder."""

HOOKS = "hooks.py"
"""Name of the code next to it that converts data to a table."""

LEFT_OUT_CODE = "hooks.left_out"
"""Name of the empty file in its place in the copy of a definition that a store keeps."""

LIBRARY = Path(__file__).with_name("library")
"""Folder of the benchmarks that come with this package."""

RELEASED_DIGESTS = LIBRARY / "released_digests.json"
"""Digest of a shipped definition -> the digest it was released under."""

SAMPLE_ROWS = "sample.jsonl"
"""Name of the file next to it with a few invented rows."""

DEFINITION_FILES = (FILE_NAME, HOOKS, SAMPLE_ROWS, LEFT_OUT_CODE)
"""Files of a benchmark's folder that are not its data."""

HELM_MARK = "dataset_file"
"""A key that identifies a definition in HELM's custom format."""

TEMPLATES = ("prompt", "system", "rubric.question")
"""Keys of a definition that hold templates."""

FIELD_OF_KEY: Mapping[str, str] = {
    "id": "id_columns",
    "cluster": "cluster_column",
    "group": "group_column",
    "metadata": "metadata_columns",
    "require": "required_columns",
    "conversation": "conversation_column",
}
"""Key of a definition -> field of `Benchmark` with another name."""

_FIXED_COLUMNS: Mapping[str, tuple[str, ...]] = {"text": ("name", "text"), "docx": ("text", "red"), "lines": ("line",)}
"""Kinds of data with fixed columns."""

_NOT_HASHED = {"rules", "helm", "positive", "slices", "forbidden_perturbations"}
"""Keys of a definition that decide neither prompts nor scores."""


def read_definition(path: Path, *, metrics: Collection[str]) -> Benchmark:
    """Read one definition, in our format or HELM's custom format.

    Parameters
    ----------
    path
        Folder of a benchmark, or a YAML file.
    metrics
        Names of all known metrics.

    Raises
    ------
    ConfigError
        With all problems of the file.
    """
    from medhelm.benchmarks.schema import DefinitionShape  # lazy: built-in definitions were checked in advance
    from medhelm.io.strict_yaml import load_yaml, validate

    file = path / FILE_NAME if path.is_dir() else path
    document = load_yaml(file)
    if isinstance(document.data, dict) and HELM_MARK in document.data and "source" not in document.data:
        from medhelm.benchmarks.helm_format import (
            read_helm_format,  # building its shapes takes time, and few users need them
        )

        return read_helm_format(document, file)
    problems: list[Problem] = []
    shape: DefinitionShape | None = None
    try:
        shape = validate(document, DefinitionShape, context={"metrics": metrics})
    except ConfigError as error:
        problems.extend(error.problems)
    if isinstance(document.data, dict):
        problems.extend(_name_problems(document, file))
        if file.parent.parent != RELEASED_DIGESTS.parent:
            problems.extend(_taxonomy_problems(document))
        problems.extend(_required_key_problems(document))
        problems.extend(_choice_problems(document))
        if JURY in str(document.data.get("metrics")) or document.data.get("rubric") is not None:
            from medhelm.benchmarks.rubrics import rubric_problems  # lazy: most benchmarks have no rubric

            problems.extend(rubric_problems(document))
        problems.extend(_template_problems(document, has_hooks=has_code(file.parent)))
        problems.extend(_shortened_field_problems(document))
        problems.extend(_folder_problems(document, file.parent))
    if shape is None or problems:
        raise ConfigError(document.place, problems)
    return _benchmark(shape, file.parent)


def has_code(folder: Path) -> bool:
    """Return True if a benchmark has code: in its folder, or left out of the copy that a store keeps."""
    return (folder / HOOKS).is_file() or (folder / LEFT_OUT_CODE).is_file()


def definition_file(benchmark: Benchmark) -> Path | None:
    """Find the YAML file of a benchmark; None if it was not read from a file."""
    from medhelm.io.strict_yaml import load_yaml  # lazy: only errors need it

    usual = benchmark.folder / FILE_NAME
    if usual.is_file():
        return usual
    for file in sorted(benchmark.folder.glob("*.y*ml")):
        data = load_yaml(file).data
        if isinstance(data, dict) and data.get("name") == benchmark.name:
            return file
    return None


def missing_columns_error(
    benchmark: Benchmark, missing: Mapping[str, str], columns: Collection[str], place: str
) -> UserError:
    """Return the error for all columns that the data lacks.

    An unknown name in a template is a mistake in the definition: a ConfigError with its line. Other missing columns are
    a DataError.

    Parameters
    ----------
    missing
        Name in the definition -> the key that uses it (`prompt`, `answer`, `rubric.question`, ...).
    columns
        Columns of the data.
    place
        Path of the data.
    """
    known = [*benchmark.columns, *columns]
    listed = f"Columns: {', '.join(list(columns)[:40])}{', ...' if len(columns) > 40 else ''}."
    if not any(use in TEMPLATES and name not in benchmark.columns for name, use in missing.items()):
        lines = [f"{place} lacks {plural(len(missing), 'column')} that {benchmark.name} needs:"]
        for name, use in missing.items():
            column = benchmark.columns.get(name, name)
            lines.append(f"  `{column}`, for {use}. {_similar_name_hint(column, columns)}".rstrip())
        fix = "Check that this is the right file, or correct the names in benchmark.yaml."
        return DataError("\n".join([*lines, listed, fix]))
    from medhelm.io.strict_yaml import load_yaml  # lazy: only errors need it

    file = definition_file(benchmark)
    document = load_yaml(file) if file else None
    problems = []
    for name, use in missing.items():
        column, shown = benchmark.columns.get(name, name), f"{{{name}}}" if use in TEMPLATES else f"`{name}`"
        snippet = shown if use in TEMPLATES else name
        line = document.line_with(_path(use), snippet) if document else None
        what = f"{shown} is not a column" if column == name else f"`{column}`, for {shown}, is not a column"
        hint = _similar_name_hint(column, known)
        problems.append(Problem(f"{use}: {what} of {place}.\n{listed} {hint}".rstrip(), line))
    return ConfigError(document.place if document else benchmark.name, problems)


def _similar_name_hint(name: str, known: Collection[str]) -> str:
    """Suggest the most similar known name, and how to use it if it is not valid in a template."""
    slugs = {slug(one): one for one in known}
    near = [slugs[slug(name)]] if slug(name) in slugs else get_close_matches(name, known, n=1, cutoff=0.5)
    if not near:
        return ""
    hint = "" if FIELD_NAME.fullmatch(near[0]) else f" Give it a name under `columns`, such as `{name}: {near[0]}`."
    return f"Did you mean `{near[0]}`?{hint}"


def _name_problems(document: YamlDocument, file: Path) -> Iterator[Problem]:
    """Require that a folder and its benchmark have the same name."""
    name = document.data.get("name")
    folders = (file.resolve().parent.name, file.parent.name)  # the second differs if the folder is a link
    if file.name == FILE_NAME and isinstance(name, str) and name not in folders:
        text = f"name: is `{name}`, but the folder is `{folders[0]}`. Give both the same name."
        yield Problem(text, document.line_of(("name",)))


def _taxonomy_problems(document: YamlDocument) -> Iterator[Problem]:
    """Report ids that differ from one of the taxonomy in a few characters. Other new ids are allowed."""
    place = document.data.get("taxonomy")
    if not isinstance(place, dict):
        return
    from medhelm.benchmarks.taxonomy import load_taxonomy

    categories = load_taxonomy()
    known = {
        "category": [category.id for category in categories],
        "subcategory": [one.id for category in categories for one in category.subcategories],
    }
    for key, ids in known.items():
        name = place.get(key)
        if isinstance(name, str) and name not in ids and (near := get_close_matches(name, ids, n=1, cutoff=0.85)):
            text = (
                f"taxonomy.{key}: `{name}` is new, but very similar to `{near[0]}`. Use that, or a more distinct name."
            )
            yield Problem(text, document.line_of(("taxonomy", key)))


def _required_key_problems(document: YamlDocument) -> Iterator[Problem]:
    """Require a prompt or a conversation, and an answer if it is needed."""
    data = document.data
    asked = [key for key in ("prompt", "conversation") if data.get(key) is not None]
    if not asked:
        yield Problem("prompt: missing. Add this key.", document.lines.get(("prompt",)))
    elif len(asked) == 2:
        text = "conversation: cannot be combined with `prompt`. Remove one of them."
        yield Problem(text, document.line_of(("conversation",)))
    metrics, rubric = data.get("metrics"), data.get("rubric")
    needed = needs_answer(
        metrics if isinstance(metrics, list) else [],
        shows_reference=not isinstance(rubric, dict) or rubric.get("reference") is not False,
        has_choices=data.get("choices") is not None,
    )
    if needed and data.get("answer") is None:
        yield Problem("answer: missing. Add this key.", document.lines.get(("answer",)))


def _choice_problems(document: YamlDocument) -> Iterator[Problem]:
    """Require options for answers by letter or number, and none for sets of labels."""
    answer = document.data.get("answer")
    form = answer.get("form") if isinstance(answer, dict) else None
    if form in ("letter", "number") and "choices" not in document.data:
        text = f"answer.form: {value_in_words(form)} needs `choices`. Add them, or write `form: text`."
        yield Problem(text, document.line_of(("answer", "form")))
    if form == "labels" and "choices" in document.data:
        text = 'answer.form: "labels" is for open questions, whose answer is a set. Remove `choices`, or use `text`.'
        yield Problem(text, document.line_of(("answer", "form")))
    if form == "labels" and answer.get("values"):
        yield Problem("answer.values: is not for sets of labels. Remove it.", document.line_of(("answer", "values")))
    yield from _positive_problems(document)


def _positive_problems(document: YamlDocument) -> Iterator[Problem]:
    """Check that the positive class is one of the options that all instances have."""
    if "positive" not in document.data:
        return
    choices, positive = document.data.get("choices"), document.data["positive"]
    texts = choices.get("texts") if isinstance(choices, dict) else choices
    if not isinstance(texts, list):
        text = "positive: needs `choices` with the same texts for every instance. Add them, or remove it."
        yield Problem(text, document.line_of(("positive",)))
    elif positive not in texts:
        known = ", ".join(map(str, texts))
        text = f"positive: {value_in_words(positive)} is not one of `choices`: {known}."
        yield Problem(text, document.line_of(("positive",)))


def _shortened_field_problems(document: YamlDocument) -> Iterator[Problem]:
    """Require that `shorten` names a field of the prompt."""
    name = document.data.get("shorten")
    templates = [text for key in ("prompt", "system") if isinstance(text := document.data.get(key), str)]
    if not isinstance(name, str) or not name.strip() or name == NO_FIELD or not templates:
        return
    places = sorted({place for text in templates for place in placeholders(text)} - {OPTIONS})
    if name not in places:
        help_ = suggestion(name, [*places, NO_FIELD])
        text = f"shorten: `{name}` is neither a field of the prompt nor `{NO_FIELD}`. {help_}".rstrip()
        yield Problem(text, document.line_of(("shorten",)))


def _folder_problems(document: YamlDocument, folder: Path) -> Iterator[Problem]:
    """Require a hook for a folder of different files."""
    source = document.data.get("source")
    if isinstance(source, dict) and source.get("kind") == "folder" and not has_code(folder):
        text = f"source.kind: `folder` needs a {HOOKS} with `def rows(folder): ...` next to the definition."
        yield Problem(text, document.line_of(("source", "kind")))


def _template_problems(document: YamlDocument, *, has_hooks: bool) -> Iterator[Problem]:
    """Report placeholders of templates that cannot be filled."""
    data = document.data
    templates = {key: text for key in TEMPLATES if isinstance(text := _value_at(data, key), str)}
    for key, template in templates.items():
        for line in stray_braces(template):
            text = f"{key}: a single brace in `{line.strip()}`. Write {{{{ or }}}} for a literal brace."
            yield Problem(text, document.line_with(_path(key), line.strip()))
        for name in sorted(placeholders(template)):
            yield from _placeholder_problems(document, key, name, has_hooks=has_hooks)
    prompt = templates.get("prompt", "")
    if prompt.strip() and not placeholders(prompt) and not placeholders(templates.get("system", "")):
        text = "prompt: names no column, so all instances would have the same prompt. Insert {column} placeholders."
        yield Problem(text, document.line_of(("prompt",)))


def _path(key: str) -> KeyPath:
    """Convert a dotted key to a path in a document."""
    return tuple(key.split("."))


def _value_at(data: object, key: str) -> object:
    """Return the value at a dotted key; None if there is none."""
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _placeholder_problems(document: YamlDocument, key: str, name: str, *, has_hooks: bool) -> Iterator[Problem]:
    """Check one placeholder of a template without the data."""
    data = document.data
    line = document.line_with(_path(key), f"{{{name}}}")
    if name == OPTIONS:
        if "choices" not in data:
            yield Problem(f"{key}: {{{OPTIONS}}} needs `choices`. Add them, or remove the placeholder.", line)
        return
    source = data.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    fields = data.get("columns") or {}
    columns = _FIXED_COLUMNS.get(kind) if isinstance(kind, str) and not has_hooks else None
    if columns and isinstance(source, dict) and (file_column := source.get("file_column")):
        columns = (*columns, str(file_column))
    if columns and isinstance(fields, dict) and name not in (*columns, *fields):
        help_ = suggestion(name, [*columns, *fields])
        yield Problem(f"{key}: {{{name}}} is not a column of {kind} files. {help_}".rstrip(), line)


def _benchmark(shape: DefinitionShape, folder: Path) -> Benchmark:
    """Convert the shape of a file to a benchmark."""
    choices = shape.choices
    standard, extended, rubric, extended_rubric = shape, None, None, None
    if shape.rubric:
        from medhelm.benchmarks.rubrics import build_rubric, split_rubrics  # lazy: most benchmarks have no rubric

        standard, extended = split_rubrics(shape)
        assert standard.rubric is not None, "the definition has a rubric"
        rubric = build_rubric(standard.rubric, STANDARD if extended else "")
        extended_rubric = build_rubric(extended.rubric, EXTENDED) if extended and extended.rubric else None
    content = shape.model_dump(exclude_none=True, exclude={"helm", "choices", "rubric"})
    return _from_content(
        {"prompt": "", "answer": {"column": ""}}
        | {FIELD_OF_KEY.get(key, key): value for key, value in content.items()}
        | {
            "description": shape.description.strip(),
            "choices": _choice_texts(choices),
            "choice_columns": tuple(choices.columns or ()) if choices else (),
            "choice_labels": choices.labels if choices else "letters",
            "criteria_column": (shape.rubric.criteria_column or "") if shape.rubric else "",
            "rubric": rubric,
            "extended_rubric": extended_rubric,
            "digest": _digest(standard, folder / HOOKS),
            "extended_digest": _digest(extended, folder / HOOKS) if extended else "",
        },
        folder,
    )


def _from_content(content: Mapping[str, Any], folder: Path) -> Benchmark:
    """Build a benchmark from its fields, whose parts are mappings and lists except for rubrics."""
    return Benchmark(
        **_tuples(content)
        | {
            "taxonomy": Taxonomy(**content["taxonomy"]),
            "source": Source(**content["source"]),
            "answer": AnswerField(**content["answer"]),
            "sample": SampleRule(**content.get("sample", {})),
            "samples": {key: SampleRule(**sample) for key, sample in content.get("samples", {}).items()},
            "slices": tuple(SliceColumn(**_tuples(one)) for one in content.get("slices", ())),
            "rules": RuleDescription(**content.get("rules", {})),
        },
        folder=folder,
    )


def _choice_texts(choices: ChoicesShape | None) -> tuple[str, ...]:
    """Return fixed options; for options from columns, their texts where a column is empty."""
    if choices is None:
        return ()
    if choices.columns and choices.missing:
        return (choices.missing,) * len(choices.columns)
    return tuple(choices.texts or ())


def _digest(shape: DefinitionShape, hooks: Path) -> str:
    """Hash the meaning of a definition and the code of its hooks. The order of files counts.

    Comments, docstrings, imports from `medhelm` and the keys in `_NOT_HASHED` do not count.
    """
    content: dict[str, Any] = shape.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_HASHED)
    content["source"]["files"] = list(shape.source.files.items())
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    if hooks.is_file():
        digest.update(b"\0")
        digest.update(_code_without_comments(hooks.read_text(encoding="utf-8")).encode())
    return _released_digests().get(digest.hexdigest(), digest.hexdigest())


@functools.cache
def _released_digests() -> dict[str, str]:
    """Map digests of shipped definitions to those they were released under, which are in stored runs.

    The first release hashed the whole text of `hooks.py`, wording included, and attached fewer metrics. Neither changes
    a prompt or an earlier score.
    """
    released: dict[str, str] = json.loads(RELEASED_DIGESTS.read_text(encoding="utf-8"))
    return released


@functools.lru_cache(maxsize=128)
def _code_without_comments(source: str) -> str:
    """Return Python source without comments, docstrings, blank lines and imports of `medhelm`.

    Source that cannot be parsed is returned as it is: reading its rows reports the error.
    """
    try:
        tree = ast.parse(source)
        comments = [
            t.start for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT
        ]
    except (SyntaxError, ValueError, tokenize.TokenError):
        return source
    lines = source.splitlines()
    for row, column in comments:
        lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "medhelm":
                pass
            case _:
                continue
        end = node.end_lineno or node.lineno
        lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


# --- checked definitions ----------------------------------------------------------------------------------------------
# Definitions of the built-in benchmarks, checked in advance: reading them needs neither pydantic nor PyYAML.
#
# `library/checked.json` holds each built-in benchmark with the digest of its files. After a change of these files the
# definition is read and checked as any other. `make reference` writes the file.

CHECKED = LIBRARY / "checked.json"
"""Name of a built-in benchmark -> digest of its files, and its fields."""

_FROM_FILES = ("folder", "package")
"""Fields that depend on where the package is installed."""


@cache
def find_checked(name: str) -> Benchmark | None:
    """Return a built-in benchmark that was checked in advance; None for others, and if its files have changed."""
    entry = _entries().get(name)
    if entry is None or entry["files"] != files_digest(name):
        return None
    content = entry["benchmark"]
    rubrics = {key: _rubric(content[key]) for key in ("rubric", "extended_rubric") if key in content}
    return _from_content(content | rubrics, LIBRARY / name)


def checked_entry(benchmark: Benchmark) -> dict[str, Any]:
    """Return the entry of a built-in benchmark in the file, without fields that have their default."""
    content = asdict(benchmark)
    defaults = {field.name: field.default for field in fields(Benchmark)}
    kept = {
        key: value
        for key, value in content.items()
        if key not in _FROM_FILES and getattr(benchmark, key) != defaults[key]
    }
    return {"files": files_digest(benchmark.name), "benchmark": kept}


def files_digest(name: str) -> str:
    """Return the sha256, in hex, of the definition and the hooks of a built-in benchmark."""
    digest = hashlib.sha256()
    for file in (LIBRARY / name / FILE_NAME, LIBRARY / name / HOOKS):
        content = file.read_bytes() if file.is_file() else b""
        digest.update(f"{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


@cache
def _entries() -> Mapping[str, Any]:
    entries: Mapping[str, Any] = json.loads(CHECKED.read_text(encoding="utf-8"))
    return entries


def _rubric(content: Mapping[str, Any]) -> Rubric:
    criteria = tuple(Criterion(**_tuples(one)) for one in content["criteria"])
    floors = tuple(Floor(**one) for one in content["floors"])
    return Rubric(**dict(content) | {"criteria": criteria, "floors": floors})


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object, lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
