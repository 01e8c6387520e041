"""Read definitions in HELM's custom format: a YAML file, a prompt file, a CSV file, and optionally a judge prompt.

They become the same `Benchmark` as ours. Unexpected behavior of the format becomes a remark on the benchmark. A judge
prompt is a free text with the criteria in a block of JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from medhelm.benchmarks.data.readers import read
from medhelm.benchmarks.prompts import FIELD_NAME
from medhelm.domain import JURY, AnswerField, Benchmark, Criterion, Rubric, Source, Taxonomy, needs_answer
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.strict_yaml import YamlDocument, validate

_DATA = "dataset_file"
OWN = "own_benchmarks"
"""Category and subcategory of these benchmarks, which the format does not define."""

_METRICS: Mapping[str, str] = {
    "exact_match": "exact_match",
    "rouge_1": "rouge_1",
    "rouge_2": "rouge_2",
    "rouge_l": "rouge_l",
    "BERTScore-P": "bertscore_precision",
    "BERTScore-R": "bertscore_recall",
    "BERTScore-F": "bertscore",
    "jury_score": JURY,
}
"""HELM's metric -> ours."""

_ANSWER = "correct_answer"
_DEFAULT_TOKENS = 1024


class _Judge(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    name: str
    model_name: str = ""


class _Metric(BaseModel):
    """One entry of `metrics`."""

    model_config = ConfigDict(extra="ignore", strict=True)

    name: Literal[
        "exact_match", "rouge_1", "rouge_2", "rouge_l", "BERTScore-P", "BERTScore-R", "BERTScore-F", "jury_score"
    ]
    prompt_file: str = ""
    judges: list[_Judge] = []


class _Shape(BaseModel):
    """The file. Unknown keys are ignored, as in HELM."""

    model_config = ConfigDict(extra="ignore", strict=True)

    name: Annotated[str, Field(min_length=1)]
    description: str
    prompt_file: Annotated[str, Field(min_length=1)]
    dataset_file: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] = _DEFAULT_TOKENS
    metrics: Annotated[list[_Metric], Field(min_length=1)]


def read_helm_format(document: YamlDocument, file: Path) -> Benchmark:
    """Read the benchmark in a file of this format.

    Paths are relative to the file or, as in HELM, to the working directory.
    Raises ConfigError with all problems.
    """
    shape = validate(document, _Shape)
    problems: list[Problem] = []
    files = {key: _find(getattr(shape, key), file, document, key, problems) for key in ("prompt_file", _DATA)}
    judge_file = _judge_file(shape, file, document, problems)
    if problems:
        raise ConfigError(document.place, problems)
    header = list(next(read(files[_DATA], "csv"), {}))
    prompt, columns, remarks = _prompt(files["prompt_file"], header, document, problems)
    metrics = list(dict.fromkeys(_METRICS[metric.name] for metric in shape.metrics))
    has_answer = _ANSWER in header
    if not has_answer and (compared := [name for name in metrics if name != JURY]):
        text = f"{shape.dataset_file} has no column `{_ANSWER}`, which {', '.join(compared)} needs."
        problems.append(Problem(text, document.line_of((_DATA,))))
    rubric, judging = _read_rubric(judge_file, document, problems, has_reference=has_answer)
    if problems:
        raise ConfigError(document.place, problems)
    name = _snake_case(shape.name)
    needed = needs_answer(metrics, shows_reference=rubric is None or rubric.shows_reference, has_choices=False)
    return Benchmark(
        name=name,
        title=shape.name,
        description=shape.description.strip(),
        taxonomy=Taxonomy(category=OWN, subcategory=OWN),
        access="private",
        source=Source(kind="csv", files={files[_DATA].name: ""}),
        prompt=prompt,
        columns=columns,
        answer=AnswerField(column=_ANSWER if has_answer else ""),
        required_columns=(_ANSWER,) if needed else (),
        metrics=tuple(metrics),
        max_tokens=shape.max_tokens,
        rubric=rubric,
        folder=files[_DATA].parent,
        digest=_digest(document, [files["prompt_file"], *([judge_file] if judge_file else [])]),
        remarks=(*remarks, *judging, *_remarks(shape, document, header, name)),
    )


def _find(name: str, file: Path, document: YamlDocument, key: str, problems: list[Problem]) -> Path:
    """Find the file of a key; add a problem if it does not exist."""
    candidates = [file.parent / name, Path(name)]
    found = next((path for path in candidates if name and path.is_file()), None)
    if found is None:
        searched = f"Searched next to {file.name} and in the working directory." if name else "Set `prompt_file`."
        problems.append(Problem(f"{key}: the file `{name}` does not exist. {searched}", document.line_of((key,))))
    return found or candidates[0]


def _judge_file(shape: _Shape, file: Path, document: YamlDocument, problems: list[Problem]) -> Path | None:
    """Find the judge prompt; None without judges. Adds problems for several prompts or a missing file."""
    juries = [metric for metric in shape.metrics if _METRICS[metric.name] == JURY]
    if len(juries) > 1:
        text = "metrics: `jury_score` is repeated, but only one judge prompt is possible. Keep one of them."
        problems.append(Problem(text, document.line_of(("metrics",))))
    return _find(juries[0].prompt_file, file, document, "metrics", problems) if juries else None


def _read_rubric(
    path: Path | None, document: YamlDocument, problems: list[Problem], *, has_reference: bool
) -> tuple[Rubric | None, list[str]]:
    """Read the rubric, and remarks; None without judges. Adds problems of the judge prompt."""
    if path is None:
        return None, []
    line = document.line_of(("metrics",))
    text = _text(path, "metrics", line, problems)
    rubric, wrong, remarks = read_judge_prompt(text, has_reference=has_reference)
    problems.extend(Problem(f"metrics: {path}: {words}", line) for words in (wrong if text else ()))
    return rubric, remarks


def _text(path: Path, key: str, line: int | None, problems: list[Problem]) -> str:
    """Read a text file; add a problem and return "" if it is empty or not UTF-8."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        problems.append(Problem(f"{key}: {path}: not UTF-8 text. Save the file as UTF-8.", line))
        return ""
    if not text.strip():
        problems.append(Problem(f"{key}: {path}: the file is empty.", line))
        return ""
    return text


def _prompt(
    path: Path, header: Sequence[str], document: YamlDocument, problems: list[Problem]
) -> tuple[str, dict[str, str], list[str]]:
    """Convert the prompt; return it with field -> column, and remarks. Adds problems for invalid placeholders."""
    line = document.line_of(("prompt_file",))
    text = _text(path, "prompt_file", line, problems)
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        problems.append(Problem(f"prompt_file: {path}: {error}. Double literal braces.", line))
        return "", {}, []
    pieces: list[str] = []
    columns: dict[str, str] = {}
    absent: list[str] = []
    for literal, column, form, conversion in parts:
        pieces.append(literal.replace("{", "{{").replace("}", "}}"))
        if column is None:
            continue
        if form or conversion or not column or column.isdecimal():
            shown = f"{{{column}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"
            problems.append(Problem(f"prompt_file: {path}: `{shown}` is not the name of a column.", line))
        elif column in header:
            field = column if FIELD_NAME.fullmatch(column) and column != "options" else f"column_{len(columns) + 1}"
            field = next((known for known, of in columns.items() if of == column), field)
            columns[field] = column
            pieces.append(f"{{{field}}}")
        else:
            absent.append(column)
    if not columns and not problems:
        problems.append(
            Problem(f"prompt_file: {path}: names no column of the data, so all prompts would be the same.", line)
        )
    remarks = [
        f"the prompt names {{{column}}}, which the data lacks: it is replaced by nothing, as in HELM. "
        f"{suggestion(column, header)}".rstrip()
        for column in absent
    ]
    return "".join(pieces), columns, remarks


def _remarks(shape: _Shape, document: YamlDocument, header: Collection[str], name: str) -> Iterator[str]:
    """Describe unexpected behavior of the format, and of this reader."""
    yield "the CSV is read as text: `001` stays 001 and empty stays empty; HELM reads 1 and nan."
    if name != shape.name:
        yield f"the name `{shape.name}` becomes `{name}`."
    if "max_tokens" not in document.data:
        yield f"`max_tokens` is missing: {_DEFAULT_TOKENS} is used, as in HELM."
    if "incorrect_answers" in header:
        yield "`incorrect_answers` is ignored: no metric of the format uses wrong answers."
    ignored = sorted(set(document.data) - set(_Shape.model_fields))
    if ignored:
        yield f"ignored, as in HELM: {', '.join(f'`{key}`' for key in ignored)}."
    juries = [metric for metric in shape.metrics if _METRICS[metric.name] == JURY]
    if juries:
        judges = ", ".join(judge.model_name or judge.name for judge in juries[0].judges) or "none"
        yield f"`jury_score`: judges are set with --judge, not in the file; the file names: {judges}."
        if len(shape.metrics) == 1:
            yield "`jury_score` is its only metric: without judges it has no scores."


def _snake_case(name: str) -> str:
    """Convert a name to snake case.

    >>> _snake_case("Exact-Match Demo 2")
    'exact_match_demo_2'
    """
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "_".join(words if words and words[0][0].isalpha() else ["own", *words])


def _digest(document: YamlDocument, files: Sequence[Path]) -> str:
    """Hash the content of the file and of the texts it names."""
    plain = json.loads(json.dumps(document.data, default=str))  # keys and dates become text
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for file in files:
        digest.update(b"\0" + file.read_bytes())
    return digest.hexdigest()


RESPONSE, REFERENCE = "{RESPONSE}", "{GOLD_RESPONSE}"
"""Placeholders of a judge prompt: the completion and the reference."""

LOWEST, HIGHEST = 0.0, 5.0
"""Default scale: the format only requires scales that begin at 0."""

DEFAULT = 0.0
"""Score of an instance that no judge graded."""

_BLOCK = re.compile(r"<rubric_criteria>((?:(?!<rubric_criteria>).)*?)</rubric_criteria>", re.DOTALL)
"""A block, begun by the last tag before its end: the text around it can mention the tag, too."""
_GRADING = re.compile(r"\b(?:scale|scor|rate|rating|grad)", re.IGNORECASE)
_RANGE = re.compile(
    r"(?<![\w.-])([01])(?:\s*\([^()\n]*\))?\s*(?:-|\u2013|to|through|and)\s*(\d{1,3})(?![\w%-]|\.\d)"
    r"(?!\s*(?:sentence|word|line|paragraph|example))"
)
"""Ends of a scale: `0-5`, `1 to 5`, `from 1 (poor) to 5`, `between 0 and 10`; not `1 to 2 sentences`."""


class _Pairs(list[tuple[str, object]]):
    """The pairs of a JSON object, repeated keys included."""


def read_judge_prompt(text: str, *, has_reference: bool) -> tuple[Rubric, list[str], list[str]]:
    """Read a judge prompt; return its rubric, problems and remarks. Other braces and dollar signs are plain text.

    `has_reference`: whether the data has references.
    """
    scale = _scale(text)
    low, high = scale or (LOWEST, HIGHEST)
    criteria, problems = _criteria(text)
    if RESPONSE not in text:
        problems.append(f"has no {RESPONSE}, so judges would not see the completion.")
    why = "as in the judge prompt" if scale else "because the judge prompt has none, or several"
    remark = f"grades have a scale of {low:g} to {high:g}, {why}; a grade outside it is a failed judgment."
    rubric = Rubric(
        task=text,
        criteria=criteria,
        low=low,
        high=high,
        shows_reference=has_reference and REFERENCE in text,
        verbatim=True,
        published_default=DEFAULT,
    )
    return rubric, problems, [remark]


def _criteria(text: str) -> tuple[tuple[Criterion, ...], list[str]]:
    """Read the criteria in the first block of a judge prompt that holds some; return them with their problems."""
    problem = "needs a block <rubric_criteria> with a JSON object of criteria."
    for block in _BLOCK.finditer(text):
        try:
            found = json.loads(block[1], object_pairs_hook=_Pairs)
        except (ValueError, RecursionError) as error:
            if block[1].strip():  # otherwise the text only names the tags
                problem = f"the block <rubric_criteria> is not JSON ({error})."
            continue
        if isinstance(found, _Pairs) and found:
            criteria = tuple(Criterion(name, _description(name, value)) for name, value in found)
            return criteria, _name_problems(name for name, _ in found)
    return (), [problem]


def _name_problems(names: Iterable[str]) -> list[str]:
    """Report names that are empty or repeated, ignoring case."""
    problems: list[str] = []
    seen: dict[str, str] = {}
    for name in names:
        key = name.strip().casefold()
        if not key:
            problems.append("a criterion in <rubric_criteria> has an empty name.")
        elif key in seen:
            text = f"the criterion `{name}` in <rubric_criteria> repeats `{seen[key]}`. Keep one of them."
            problems.append(text)
        seen.setdefault(key, name)
    return problems


def _description(name: str, value: object) -> str:
    """Return the description of a criterion, or its name if it has none."""
    if isinstance(value, _Pairs):
        value = dict(value).get("description")
    return value.strip() if isinstance(value, str) and value.strip() else name


def _scale(text: str) -> tuple[float, float] | None:
    """Find the only scale in lines about grading; None if there is none, or several.

    >>> _scale("Give each criterion a score from 1 (poor) to 5."), _scale("Score 0-5 or 0-10."), _scale("Aged 1 to 5.")
    ((1.0, 5.0), None, None)
    """
    lines = (line for line in text.splitlines() if _GRADING.search(line))
    ends = {(float(low), float(high)) for line in lines for low, high in _RANGE.findall(line)}
    scales = {(low, high) for low, high in ends if low < high}
    return scales.pop() if len(scales) == 1 else None
