"""Prompts worded as HELM words them, read from the installed package crfm-helm.

No text of HELM is in this package. Its source is parsed, never imported or executed: the run specification has the
instructions and the nouns around a question, the scenario has the text of the question as a string with values of the
data, which are matched with the fields of the benchmark.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from medhelm.benchmarks.definition import LIBRARY
from medhelm.benchmarks.prompts import OPTIONS, placeholders, slug
from medhelm.benchmarks.suites import helm_classes
from medhelm.domain import Benchmark
from medhelm.errors import MissingError, UserError
from medhelm.extensions.variants.prompts.types import PromptVariant

PACKAGE = "crfm-helm"
"""Distribution that holds HELM."""

COMPARED = frozenset(
    """
    aci_bench ehrsql head_qa med_dialog med_mcqa med_qa medbullets medcalc_bench medec medhallu medication_qa mediqa_qa
    mental_health mimic_bhc mimic_iv_billing_code mimic_rrs mtsamples mtsamples_procedures pubmed_qa race_bias
    """.split()  # noqa: SIM905
)
"""Benchmarks whose prompts, made this way, were compared with those that HELM makes. Others have options or texts that
cannot be read from the source of HELM."""

_RUN_SPECS = "helm/benchmark/run_specs/medhelm_run_specs.py"
_SCENARIOS = "helm/benchmark/scenarios"
_MULTIPLE_CHOICE, _GENERATION = "get_multiple_choice_adapter_spec", "get_generation_adapter_spec"
_DEFAULT_TOKENS = {_MULTIPLE_CHOICE: 1, _GENERATION: 5}


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the data within a text, by the name that HELM gives it."""

    name: str


_Text = tuple["str | _Value", ...]
"""A text as HELM builds it."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _UnreadableSourceError(Exception):
    """Source of HELM that is not written as expected."""


def helm_prompt(benchmark: Benchmark) -> PromptVariant:
    """Return the prompt of HELM for a benchmark.

    Raises: MissingError if crfm-helm is not installed; UserError if its prompt for this benchmark cannot be read.
    """
    classes = helm_classes()
    name = next((name for name in (*benchmark.aliases, benchmark.name) if name in classes), "")
    if benchmark.name not in COMPARED or benchmark.folder.parent != LIBRARY or not name:
        raise UserError(
            f"{benchmark.name}: --prompt helm is for {', '.join(sorted(COMPARED))}. To send the prompts of a finished "
            "HELM run, use --like. Nothing was sent."
        )
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        raise MissingError(
            f"--prompt helm reads the prompts from the package {PACKAGE}, which is not installed. "
            f"`pip install --no-deps {PACKAGE}` is enough. Nothing was sent."
        ) from None
    root, source = Path(str(package.locate_file("."))), f"{PACKAGE} {package.version}"
    module, _, class_name = classes[name].rpartition(".")
    try:
        adapter, kind = _adapter(_parsed(root / _RUN_SPECS), class_name)
        asked = _question(_parsed(root / _SCENARIOS / f"{module}.py"), _parsed(root / _SCENARIOS / "scenario.py"))
        return PromptVariant(
            prompt=_prompt(adapter, kind, _template(asked, benchmark)),
            system="",
            max_tokens=adapter.get("max_tokens", _DEFAULT_TOKENS[kind]),
            stop=_stop(adapter, kind),
            source=source,
        )
    except (_UnreadableSourceError, OSError, SyntaxError) as error:
        raise UserError(
            f"{benchmark.name}: its prompt cannot be read from {source}: {error}. Install another version, or send the "
            "prompts of a finished HELM run with --like. Nothing was sent."
        ) from None


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


# --- instructions and nouns -------------------------------------------------------------------------------------------


def _adapter(tree: ast.Module, class_name: str) -> tuple[dict[str, Any], str]:
    """Return the arguments of the adapter in the run specification of a scenario, and the function that takes them."""
    for function in _functions(tree):
        constants = [node.value for node in ast.walk(function) if isinstance(node, ast.Constant)]
        if not any(isinstance(value, str) and value.endswith(f".{class_name}") for value in constants):
            continue
        for call in _calls(function, (_MULTIPLE_CHOICE, _GENERATION)):
            assert isinstance(call.func, ast.Name), "it was found by its name"
            return {one.arg: _literal(one.value) for one in call.keywords if one.arg}, call.func.id
    raise _UnreadableSourceError(f"no run specification of {class_name}")


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal; None for a name, such as that of an adaptation method."""
    if isinstance(node, ast.Name):
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _UnreadableSourceError(f"line {node.lineno} is not a literal") from None


def _prompt(adapter: Mapping[str, Any], kind: str, asked: str) -> str:
    """Put the template of a question between instructions and nouns, as the adapters of HELM do."""
    into, out = adapter.get("input_noun"), adapter.get("output_noun")
    before = "" if into is None else f"{into}:\n" if adapter.get("newline_after_input_noun") else f"{into}: "
    cue = "" if out is None else f"{out}:"
    after = "\n"
    if kind == _MULTIPLE_CHOICE:
        after = f"{'' if into is None else after}{{{OPTIONS}}}\n"
    instructions = str(adapter.get("instructions") or "")
    return "\n\n".join(filter(None, [_escaped(instructions), _escaped(before) + asked + after + _escaped(cue)]))


def _stop(adapter: Mapping[str, Any], kind: str) -> tuple[str, ...] | None:
    """Return the stop sequences; None for a letter, which nothing follows."""
    if kind == _MULTIPLE_CHOICE:
        return None
    given = adapter.get("stop_sequences")
    return ("\n",) if given is None else tuple(given)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


# --- question ---------------------------------------------------------------------------------------------------------


def _template(text: _Text, benchmark: Benchmark) -> str:
    """Return a text with the fields of the benchmark in the places of HELM's values.

    They are matched by the name of the field or its column; a single value and a single field that are left match too.
    """
    fields = sorted((placeholders(benchmark.prompt) | placeholders(benchmark.system)) - {OPTIONS})
    by_name = {slug(benchmark.columns.get(name, name)): name for name in fields} | {slug(name): name for name in fields}
    values = list(dict.fromkeys(part.name for part in text if isinstance(part, _Value)))
    found = {name: by_name[slug(name)] for name in values if slug(name) in by_name}
    rest = [name for name in values if name not in found]
    left = [name for name in fields if name not in found.values()]
    if len(rest) == len(left) == 1:
        found[rest[0]], rest, left = left[0], [], []
    if rest or left:
        raise _UnreadableSourceError(f"its values {', '.join(values)} are not the fields {', '.join(fields)}")
    return "".join(_escaped(part) if isinstance(part, str) else f"{{{found[part.name]}}}" for part in text)


def _question(scenario: ast.Module, base: ast.Module) -> _Text:
    """Return the only text of a question that a scenario builds."""
    reader = _TextReader(scenario, base)
    texts = list(dict.fromkeys(reader.inputs()))
    if len(texts) != 1:
        raise _UnreadableSourceError(f"{len(texts)} kinds of questions")
    return texts[0]


class _TextReader:
    """Reads the texts that a scenario builds, with the values in them."""

    def __init__(self, scenario: ast.Module, base: ast.Module) -> None:
        self.functions = list(_functions(scenario))
        self._joined = _passage_and_question(base)

    def inputs(self) -> Iterator[_Text]:
        """Yield the text of each input."""
        for function in self.functions:
            for call in _calls(function, ("Input", "PassageQuestionInput")):
                assert isinstance(call.func, ast.Name), "it was found by its name"
                given = {one.arg: one.value for one in call.keywords if one.arg}
                if call.func.id == "Input":
                    yield self._text(given.get("text") or call.args[0], function)
                else:
                    yield self._passage(given, function)

    def _passage(self, given: Mapping[str, ast.expr], function: _Function) -> _Text:
        """Return the text of a passage with a question."""
        joined, usual = self._joined
        parts = {name: self._text(value, function) for name, value in given.items()}
        return _plain(piece for name in joined for piece in parts.get(name, (usual.get(name, ""),)))

    def _text(self, node: ast.expr, function: _Function, name: str = "") -> _Text:
        """Return the text of an expression; what is no string is a value. `name`: of the variable that holds it."""
        match node:
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.JoinedStr(values=values):
                return _plain(piece for value in values for piece in self._text(value, function))
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._text(value, function)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _plain([*self._text(left, function), *self._text(right, function)])
            case ast.Name(id=own):
                return self._variable(own, function)
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                return (_Value(key),)
            case ast.Attribute(attr=attribute):
                return (_Value(attribute),)
            case ast.Call(func=ast.Attribute(value=text, attr="strip" | "rstrip"), args=[]):
                return self._text(text, function, name)
        if name:
            return (_Value(name),)
        raise _UnreadableSourceError(f"line {node.lineno} cannot be read as a text")

    def _variable(self, name: str, function: _Function) -> _Text:
        """Return the text of a variable: of its only assignment in this function, or else in another one."""
        if name in {one.arg for one in function.args.args}:
            return (_Value(name),)
        for place in (function, *(other for other in self.functions if other is not function)):
            values = _assigned(place, name)
            if len(values) == 1 and values[0] is not None:
                return self._text(values[0], place, name)
            if values:
                break
        return (_Value(name),)


def _plain(parts: Iterator[str | _Value] | Sequence[str | _Value]) -> _Text:
    """Return parts with neighboring texts joined."""
    found: list[str | _Value] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part:
            found.append(part)
    return tuple(found)


def _passage_and_question(base: ast.Module) -> tuple[list[str], dict[str, str]]:
    """Return the names of the parts of a passage with a question, in their order, and their default texts."""
    for node in ast.walk(base):
        if not (isinstance(node, ast.ClassDef) and node.name == "PassageQuestionInput"):
            continue
        (start,) = _functions(node)
        names = [one.arg for one in start.args.args]
        defaults = dict(zip(names[-len(start.args.defaults) :], map(_literal, start.args.defaults), strict=True))
        for inner in ast.walk(start):
            if isinstance(inner, ast.JoinedStr):
                parts = (one.value for one in inner.values if isinstance(one, ast.FormattedValue))
                return [one.id for one in parts if isinstance(one, ast.Name)], defaults
    raise _UnreadableSourceError("no class PassageQuestionInput")


def _functions(tree: ast.AST) -> Iterator[_Function]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _calls(tree: ast.AST, names: Sequence[str]) -> Iterator[ast.Call]:
    """Yield the calls of functions with these names."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (call for call in calls if isinstance(call.func, ast.Name) and call.func.id in names)


def _assigned(function: _Function, name: str) -> list[ast.expr | None]:
    """Return the values that a function assigns to a variable; None for one that is added to what it holds."""
    found: list[ast.expr | None] = []
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value) if any(_is_named(target, name) for target in targets):
                found.append(value)
            case ast.AnnAssign(target=target, value=value) if _is_named(target, name):
                found.append(value)
            case ast.AugAssign(target=target) if _is_named(target, name):
                found.append(None)
    return found


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
