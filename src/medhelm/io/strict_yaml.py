"""Reads YAML files strictly and reports all problems at once, with their lines, in plain words.

Supported are mappings, lists, texts, numbers, `true`, `false` and null (`null`, `~` or empty). Other values that YAML
would convert stay texts: `yes`, `no`, `on`, `off`, dates, `1:30`, `010`. Keys are always texts and must be unique.
Anchors, aliases, tags and several documents in one file are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, RootModel, ValidationError

from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.package_yaml import LOADER

KeyPath = tuple[str | int, ...]
"""A place in a document: keys of mappings and positions in lists, from the top."""

M = TypeVar("M", bound=BaseModel)

_TEXT_TAG = "tag:yaml.org,2002:str"
_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", _TEXT_TAG}
_QUOTED = ("'", '"', "|", ">")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: Mapping[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}

_RULES: Mapping[str, str] = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "finite_number": "must be a finite number",
}
"""Type of a validation error -> the rule in plain words; braces name values from the error's context."""


_ENCLOSED = ("list in [ ]", "mapping in { }", "list or mapping in brackets", "quoted text")
_TERMS = {
    "flow sequence": _ENCLOSED[0],
    "flow mapping": _ENCLOSED[1],
    "flow node": _ENCLOSED[2],
    "quoted scalar": _ENCLOSED[3],
    "block mapping": "mapping",
    "block collection": "list",
    "block node": "value",
    "simple key": "key",
    "node content": "value",
}
"""Term of the parser's messages -> plain words."""


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed file with the line of each value."""

    place: str
    """Name of the file for messages."""
    data: Any
    """Mappings, lists, texts, numbers, booleans and None."""
    lines: Mapping[KeyPath, int]
    """Place in the document -> line number, from 1, of the key or list entry."""
    text: str
    """The text of the file."""
    problems: tuple[Problem, ...] = ()
    """YAML problems that did not prevent reading the rest of the file."""

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of `path`, or of the nearest place that contains it; None for the whole document."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return None

    def line_with(self, path: KeyPath, snippet: str) -> int | None:
        """Return the first line from `path` on that equals or contains `snippet`; if there is none, the line of `path`.

        Use it to locate a place within a long text.
        """
        start = self.line_of(path)
        lines = list(enumerate(self.text.split("\n")[(start or 1) - 1 :], start or 1))
        same = (number for number, line in lines if line.strip() == snippet)
        near = (number for number, line in lines if snippet in line)
        return next(same, next(near, start))


def load_yaml(path: Path) -> YamlDocument:
    """Read one YAML file.

    Raises: ConfigError with all problems: missing file, not UTF-8, not YAML, duplicate keys, aliases, tags.
    """
    document = read_yaml(path)
    if document.problems:
        raise ConfigError(document.place, document.problems)
    return document


def read_yaml(path: Path) -> YamlDocument:
    """Read one YAML file as far as possible; `validate` reports its problems together with its own.

    Raises: ConfigError if nothing can be read: missing file, not UTF-8, not YAML.
    """
    place = str(path)
    text = _read_text(path)
    walk = _Walk()
    try:
        node = _compose(text)
        data = walk.value(node, ()) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(place, [_syntax_problem(text, error)]) from None
    except yaml.YAMLError as error:
        raise ConfigError(place, [Problem(f"not valid YAML: {' '.join(str(error).split())}.")]) from None
    except RecursionError:
        raise ConfigError(place, [Problem("nested too deeply.")]) from None
    return YamlDocument(place=place, data=data, lines=walk.lines, text=text, problems=tuple(walk.problems))


def validate(document: YamlDocument, model: type[M], *, context: Mapping[str, Any] | None = None) -> M:
    """Convert a document to an instance of `model`, a pydantic model that is strict and forbids unknown keys.

    `context` is passed to the model's validators. Raises: ConfigError with all problems, in plain words.
    """
    if document.data is None:
        raise ConfigError(document.place, [Problem("the file is empty.")])
    try:
        valid = model.model_validate(document.data, context=dict(context or {}))
    except ValidationError as error:
        details = _without_variants(document.data, error.errors(include_url=False))
        reported = {problem.line for problem in document.problems}
        found = [_problem(document, model, detail) for detail in details]
        found = [problem for problem in found if problem.line is None or problem.line not in reported]
        raise ConfigError(document.place, [*document.problems, *found]) from None
    if document.problems:
        raise ConfigError(document.place, document.problems)
    return valid


def place_in_words(path: KeyPath) -> str:
    """Format a place in a document, such as `source.files` or `metrics[1]`."""
    words = ""
    for part in path:
        words += f"[{part}]" if isinstance(part, int) else f".{part}" if words else part
    return words


class _Walk:
    """Traversal of the nodes of a document that collects data, lines and problems."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """Convert `node` to data and add its problems to `problems`."""
        line = node.start_mark.line + 1
        if id(node) in self._seen:  # an alias is the same node object as its anchor
            self.problems.append(Problem(f"{place_in_words(path)}: aliases (`*name`) are not supported.", line))
            return None
        self._seen.add(id(node))
        if node.tag not in _PLAIN_TAGS:
            self.problems.append(Problem(f"{place_in_words(path)}: tags such as `{node.tag}` are not supported.", line))
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self.lines.update({(*path, i): item.start_mark.line + 1 for i, item in enumerate(node.value)})
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        quoted = isinstance(node, yaml.ScalarNode) and node.style in _QUOTED
        return node.value if quoted else _plain(node.value)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem("a key must be a text.", line))
                continue
            key = key_node.value
            here = (*path, key)
            if key in data:
                first = self.lines[here]
                text = f"{place_in_words(here)}: appears twice (first in line {first}). Keep one of them."
                self.problems.append(Problem(text, line))
                continue
            self.lines[here] = line
            data[key] = self.value(value_node, here)
        return data


def _compose(text: str) -> yaml.Node | None:
    """Parse the single document in `text`; None if it is empty."""
    loader = LOADER(text)
    loader.yaml_implicit_resolvers = {}  # treat every unquoted value as text; _plain() converts it
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


def _syntax_problem(text: str, error: yaml.MarkedYAMLError) -> Problem:
    """Convert an error of the parser to plain words, with a line that exists in the text."""
    lines = text.rstrip().split("\n")
    mark = error.problem_mark or error.context_mark
    number = min(mark.line + 1, len(lines)) if mark else None
    if "maximum nesting depth" in str(error.problem):  # from libyaml 0.2.6 on, in place of a RecursionError
        return Problem("nested too deeply.", number)
    context, problem = error.context or "", error.problem or ""
    for term, plain in _TERMS.items():
        context, problem = context.replace(term, plain), problem.replace(term, plain)
    if mark and mark.line >= len(lines) and error.context_mark and context.endswith(_ENCLOSED):
        what = context.partition(" a ")[2]
        return Problem(
            f"not valid YAML: the file ends within a {what}. Close it.", min(error.context_mark.line + 1, len(lines))
        )
    line = lines[number - 1] if number else ""
    fix = " Indent with spaces, not tabs." if "\t" in line[: len(line) - len(line.lstrip())] else ""
    return Problem(f"not valid YAML: {', '.join(filter(None, [context, problem]))}.{fix}", number)


def _plain(text: str) -> Any:
    """Convert an unquoted value: a text, a number, true, false or null."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), [Problem(f"cannot be read: {error.strerror or error}.")]) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(str(path), [Problem("not UTF-8 text. Save the file as UTF-8.", line)]) from None


def _without_variants(data: Any, details: Sequence[Any]) -> list[Any]:
    """Return pydantic's errors with one for each value that has none of several possible types.

    Its `variants` are the rules of all types. An error within a value means that the value itself has a right type.
    """
    kept: dict[object, Any] = {}
    paths = [_path_in_document(data, detail["loc"]) for detail in details]
    for number, (path, detail) in enumerate(zip(paths, details, strict=True)):
        if not detail["type"].endswith("_type"):
            kept[number] = detail
        elif not any(len(other) > len(path) and other[: len(path)] == path for other in paths):
            first = kept.setdefault(path, {**detail, "variants": []})
            first["variants"] += [_RULES.get(detail["type"], detail["msg"])]
    return list(kept.values())


def _problem(document: YamlDocument, model: type[BaseModel], detail: Any) -> Problem:
    """Convert one of pydantic's errors to plain words."""
    kind, value = detail["type"], detail["input"]
    path = _path_in_document(document.data, detail["loc"])
    if kind == "missing":
        where = place_in_words((*path, detail["loc"][-1]))
        return Problem(f"{where}: missing. Add this key.", document.line_of(path))
    where, line = place_in_words(path) or "the file", document.line_of(path)
    if kind == "extra_forbidden":
        help_ = suggestion(str(path[-1]), _keys_at(model, detail["loc"][:-1]))
        return Problem(f"{where}: unknown key. {help_}".rstrip(), line)
    return Problem(f"{where}: {_rule(kind, value, detail)}", line)


def _rule(kind: str, value: object, detail: Any) -> str:
    """Describe the rule that a value violates, with the value and the fix if known."""
    shown, context = value_in_words(value), detail.get("ctx", {})
    if kind in {"value_error", "assertion_error"}:
        return str(context["error"])
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        help_ = suggestion(value, known) if isinstance(value, str) else f"Known: {', '.join(known)}."
        return f"{shown} is not one of the possible values. {help_}".rstrip()
    if kind in {"too_short", "too_long"}:
        few = kind == "too_short"
        number = context["min_length" if few else "max_length"]
        return f"must have at {'least' if few else 'most'} {number} {'entry' if number == 1 else 'entries'}."
    rule = _RULES.get(kind)
    if rule is None:
        return f"{detail['msg']}, is {shown}."
    fix = " Put it in quotes." if kind == "string_type" and isinstance(value, bool | int | float) else ""
    other = [f" or {one.removeprefix('must be ')}" for one in detail.get("variants", [])[1:]]
    return f"{rule.format(**context)}{''.join(other)}, is {shown}.{fix}"


def _path_in_document(data: Any, location: tuple[str | int, ...]) -> KeyPath:
    """Return the part of pydantic's location that exists in the document, without names of model variants."""
    path: KeyPath = ()
    for part in location:
        known = range(len(data)) if isinstance(data, list) else data if isinstance(data, dict) else ()
        if part in known:
            data = data[part]
            path = (*path, part)
    return path


def _keys_at(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are valid at a place: the fields of its model."""
    root = model.model_fields.get("root")
    models = _models_in(root.annotation) if root and issubclass(model, RootModel) else [model]
    for part in location:
        fields = [m.model_fields[part] for m in models if isinstance(part, str) and part in m.model_fields]
        if fields:
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return [field.alias or name for m in models for name, field in m.model_fields.items()]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in an annotation such as `dict[str, Sample] | None`."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
