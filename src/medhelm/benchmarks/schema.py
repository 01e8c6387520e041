"""The schema of `benchmark.yaml`, key by key.

Each class is one mapping of the file. Short forms are expanded: `answer: x` is `answer: {column: x}`, `choices: [a, b]`
is `choices: {texts: [a, b]}`, `id: x` is `id: [x]`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from medhelm.benchmarks.prompts import FIELD_NAME, OPTIONS, check_snake_case
from medhelm.domain import Access, AnswerForm, RubricForm
from medhelm.domain.text import value_in_words
from medhelm.errors import suggestion

Kind = Literal[
    "csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "feather", "docx", "xml", "text", "lines", "folder"
]
"""Formats of data files; `folder`: files of several formats that a hook reads."""

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_HELM_CLASS = re.compile(r"[a-z][a-z0-9_]*\.[A-Z][A-Za-z0-9]*")
_ONLY_FOR = {
    "rows": {"json", "xml"},
    "key": {"json"},
    "sheet": {"xlsx"},
    "encoding": {"csv", "tsv", "json", "jsonl", "text", "lines"},
    "delimiter": {"csv"},
    "header_row": {"csv", "tsv", "xlsx"},
}


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty.")
    return text


def _below_folder(path: str) -> str:
    """Require a path that stays in the data folder on every system."""
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or "\\" in path or path.startswith("/") or PureWindowsPath(path).drive:
        shown = value_in_words(path)
        raise ValueError(f"must be a path below the data folder, with `/` and without `..`, is {shown}.")
    return path


def _checksum(text: str) -> str:
    if text and not _SHA256.fullmatch(text):
        shown = value_in_words(text)
        raise ValueError(f'must be a sha256 in hex (64 digits 0-9, a-f), or "" if unknown, is {shown}.')
    return text.lower()


def _field_name(text: str) -> str:
    if not FIELD_NAME.fullmatch(text) or text == OPTIONS:
        rule = "a field needs a name of letters, digits and `_`, not starting with a digit, and not `options`"
        raise ValueError(f"{rule}; this one is {value_in_words(text)}.")
    return text


def _metric(name: str, info: ValidationInfo) -> str:
    known = (info.context or {}).get("metrics", ())
    if name not in known:
        raise ValueError(f"unknown metric `{name}`. {suggestion(name, known)}".rstrip())
    return name


def _known_encoding(name: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        raise ValueError(f"unknown encoding `{name}`. Examples: utf-8, cp1252, latin-1, utf-16.") from None
    return name


def _delimiter(text: str) -> str:
    """Return the character between cells; `tab` is a name of one."""
    character = "\t" if text == "tab" else text
    if len(character) > 1 or character in {'"', "\n", "\r"}:
        raise ValueError(f'must be one character, such as ";", or `tab`, is {value_in_words(text)}.')
    return character


def _all_different(entries: list[str]) -> list[str]:
    repeated = sorted({entry for entry in entries if entries.count(entry) > 1})
    if repeated:
        raise ValueError(f"holds {', '.join(f'`{entry}`' for entry in repeated)} more than once.")
    return entries


def _helm_class(name: str) -> str:
    if name and not _HELM_CLASS.fullmatch(name):
        shown = value_in_words(name)
        raise ValueError(
            f"must be a module and a class below helm.benchmark.scenarios, such as `med_qa_scenario.MedQAScenario`, "
            f"is {shown}."
        )
    return name


def _sentence(text: str) -> str:
    if not text.rstrip().endswith("."):
        raise ValueError(f"must be a sentence that ends with a period, is {value_in_words(text)}.")
    return text.strip()


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_floors(value: Any) -> Any:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a mapping with `criterion` and `at_least`, or a list of them.")
    return [value]


def _as_text(value: Any) -> Any:
    """Convert a truth value, unquoted in YAML, to the text that spreadsheets have for it."""
    return str(value).lower() if isinstance(value, bool) else value


def _as_choices(value: Any) -> Any:
    """Expand a list to a mapping."""
    if isinstance(value, list):
        return {"texts": [_as_text(entry) for entry in value]}
    if not isinstance(value, dict):
        shown = value_in_words(value)
        raise ValueError(f"must be a list of texts, or a mapping with `columns` or `texts`, is {shown}.")
    return value


def _text_under(key: str, rule: str) -> Callable[[Any], Any]:
    """Return a validator that expands a text to a mapping with the text under `key`."""

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            return {key: value}
        if not isinstance(value, dict):
            raise ValueError(f"{rule}, is {value_in_words(value)}.")
        return value

    return expand


_as_criterion = _text_under("description", "must be a text, or a mapping with `description`")
_as_answer = _text_under("column", "must be the name of a column, or a mapping with `column` and `form`")
_as_slice = _text_under("column", "must be the name of a column, or a mapping with `column` and `bands`")


Text = Annotated[str, AfterValidator(_not_blank)]
SnakeCase = Annotated[str, AfterValidator(check_snake_case)]
FilePath = Annotated[str, AfterValidator(_below_folder)]
Checksum = Annotated[str, AfterValidator(_checksum)]
MetricName = Annotated[str, AfterValidator(_metric)]
FieldName = Annotated[str, AfterValidator(_field_name)]
Names = Annotated[list[Text], AfterValidator(_all_different)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _Shape(BaseModel):
    """A strict mapping: no unknown keys, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TaxonomyShape(_Shape):
    """`taxonomy`: category, subcategory and task of the benchmark."""

    category: SnakeCase
    subcategory: SnakeCase
    task: str = ""


class SourceShape(_Shape):
    """`source`: files of the data, their format and origin."""

    kind: Kind
    location: str = ""
    revision: str = ""
    files: Annotated[dict[FilePath, Checksum], Field(min_length=1)]
    scoring_files: dict[FilePath, Checksum] = {}
    file_column: FieldName | Literal[""] = ""
    rows: str = ""
    key: str = ""
    sheet: str = ""
    encoding: Annotated[str, AfterValidator(_known_encoding)] = "utf-8-sig"
    delimiter: Annotated[str, AfterValidator(_delimiter)] = ""
    header_row: Annotated[int, Field(ge=1)] | None = None
    expected_count: Annotated[int, Field(ge=1)] | None = None
    note: str = ""

    @model_validator(mode="after")
    def _fits_kind(self) -> SourceShape:
        wrong = [
            f"`{key}` is only for {' and '.join(sorted(kinds))}, not for {self.kind}."
            for key, kinds in _ONLY_FOR.items()
            if key in self.model_fields_set and self.kind not in kinds
        ]
        if self.file_column and self.kind == "folder":
            wrong.append("`file_column` cannot be used with `folder`: the hook reads the files.")
        if wrong:
            raise ValueError(" ".join(wrong))
        return self


class SampleShape(_Shape):
    """`sample`, or one of `samples`: the instances to evaluate. Empty: all."""

    size: Annotated[int, Field(ge=1)] | None = None
    pool: Annotated[int, Field(ge=1)] | None = None
    offset: Annotated[int, Field(ge=0)] = 0
    ids_file: FilePath | None = None
    ids_sha256: Checksum = ""
    variant: SnakeCase | None = None
    expected_count: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> SampleShape:
        if self.ids_file and self.model_fields_set & {"size", "pool", "offset"}:
            raise ValueError("`ids_file` cannot be combined with `size`, `pool` and `offset`.")
        if self.pool is not None and self.size is None:
            raise ValueError("`pool` needs a `size`, the number of instances drawn from it.")
        if self.offset and self.pool is None:
            raise ValueError("`offset` needs a `pool`, in which it is a position.")
        return self


class ChoicesShape(_Shape):
    """`choices`: the options of a choice question, fixed texts or columns."""

    texts: Annotated[Names, Field(min_length=2)] | None = None
    columns: Annotated[Names, Field(min_length=2)] | None = None
    labels: Literal["letters", "texts"] = "letters"
    missing: Text | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ChoicesShape:
        if (self.texts is None) == (self.columns is None):
            raise ValueError("needs either `texts` (the same for every instance) or `columns`, not both.")
        if self.missing is not None and self.columns is None:
            raise ValueError("`missing` is the text of empty options from `columns`.")
        if self.labels == "letters" and len(self.texts or self.columns or []) > 26:
            raise ValueError("must have at most 26 options, one per letter. Or use `labels: texts`.")
        return self


class AnswerShape(_Shape):
    """`answer`: column of the correct answer."""

    column: Text
    form: AnswerForm = "text"
    values: dict[Text, Annotated[Text, BeforeValidator(_as_text, json_schema_input_type=str | bool)]] = {}


class CriterionShape(_Shape):
    """One of `criteria` of a rubric; a plain text is its description."""

    description: Text
    lower_is_better: bool = False
    points: Number | None = None
    tags: Names = []


class ExtendedRubricShape(_Shape):
    """`extended` of a rubric: the texts that differ in a second rubric, which `--rubric extended` uses."""

    task: Text | None = None
    criteria: dict[SnakeCase, Text] = {}

    @model_validator(mode="after")
    def _changes_something(self) -> ExtendedRubricShape:
        if self.task is None and not self.criteria:
            raise ValueError("changes nothing: give a `task`, or texts of `criteria`.")
        return self


class FloorShape(_Shape):
    """One of `floor` of a rubric: a grade that a completion must reach, whatever its other grades are."""

    criterion: SnakeCase
    at_least: Number | None = None
    at_most: Number | None = None


class RubricShape(_Shape):
    """`rubric`: instructions for judges of free text. `definition` checks that its keys fit each other."""

    task: Text
    form: RubricForm = "grades"
    scale: Annotated[list[Number], Field(min_length=2, max_length=2)] = [1.0, 5.0]
    low_means: Text | None = None
    show_points: bool = False
    reference: bool = True
    question: Text | None = None
    criteria: (
        Annotated[
            dict[
                SnakeCase,
                Annotated[CriterionShape, BeforeValidator(_as_criterion, json_schema_input_type=str | CriterionShape)],
            ],
            Field(min_length=1),
        ]
        | None
    ) = None
    criteria_column: Text | None = None
    floor: Annotated[
        list[FloorShape],
        Field(min_length=1),
        BeforeValidator(_as_floors, json_schema_input_type=FloorShape | list[FloorShape]),
    ] = []
    extended: ExtendedRubricShape | None = None

    @field_validator("scale")
    @classmethod
    def _ascending(cls, scale: list[float]) -> list[float]:
        if scale[0] >= scale[1]:
            shown = f"[{scale[0]:g}, {scale[1]:g}]"
            fix = "If lower is better, set `lower_is_better: true` for the criterion."
            raise ValueError(f"must be the lowest and the highest grade, such as [1, 5], is {shown}. {fix}")
        return scale


class SliceShape(_Shape):
    """One of `slices`: a column whose values divide the instances; a plain text is its name."""

    column: Text
    bands: list[Number] = []

    @field_validator("bands")
    @classmethod
    def _ascending(cls, bands: list[float]) -> list[float]:
        if sorted(set(bands)) != bands:
            raise ValueError("must be numbers in ascending order, where each but the first band begins: [18, 65].")
        return bands


class RubricFileShape(_Shape):
    """A file with a rubric of the user's own, which `--rubric FILE` uses."""

    name: SnakeCase
    description: str = ""
    rubric: RubricShape


class RulesShape(_Shape):
    """`rules`: differences between the published and the corrected rule, for the docs."""

    published: Text
    corrected: Text
    why: Text


class DefinitionShape(_Shape):
    """The whole file."""

    name: SnakeCase
    title: Text
    description: Text
    aliases: list[SnakeCase] = []
    taxonomy: TaxonomyShape
    access: Access
    citation: str = ""
    license: str = ""
    helm: Annotated[str, AfterValidator(_helm_class)] = ""
    source: SourceShape
    columns: dict[FieldName, Text] = {}
    id: Annotated[list[Text], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = []
    cluster: str = ""
    group: str = ""
    require: list[Text] = []
    drop_duplicates: bool = False
    choices: (
        Annotated[ChoicesShape, BeforeValidator(_as_choices, json_schema_input_type=list[str | bool] | ChoicesShape)]
        | None
    ) = None
    positive: Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | bool)] = ""
    forbidden_perturbations: dict[SnakeCase, Annotated[str, AfterValidator(_sentence)]] = {}
    answer: Annotated[AnswerShape, BeforeValidator(_as_answer, json_schema_input_type=str | AnswerShape)] | None = None
    metadata: list[Text] = []
    slices: list[Annotated[SliceShape, BeforeValidator(_as_slice, json_schema_input_type=str | SliceShape)]] = []
    sample: SampleShape = SampleShape()
    samples: dict[SnakeCase, SampleShape] = {}
    system: str = ""
    prompt: Text | None = None
    conversation: Text | None = None
    shorten: Text = ""
    stop: list[Annotated[str, Field(min_length=1)]] = []
    max_tokens: Annotated[int, Field(ge=1)]
    metrics: Annotated[list[MetricName], Field(min_length=1), AfterValidator(_all_different)]
    rubric: RubricShape | None = None
    rules: RulesShape | None = None

    @field_validator("slices")
    @classmethod
    def _different_columns(cls, slices: list[SliceShape]) -> list[SliceShape]:
        _all_different([one.column for one in slices])
        return slices

    @field_validator("samples")
    @classmethod
    def _no_default(cls, samples: dict[str, SampleShape]) -> dict[str, SampleShape]:
        if "default" in samples:
            raise ValueError("`default` means the key `sample`; choose another name.")
        return samples


class ListedSuiteShape(_Shape):
    """A suite file in which every benchmark counts once."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    benchmarks: Annotated[list[str], Field(min_length=1)]


class WeightedSuiteShape(_Shape):
    """A suite file with a weight for each benchmark."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    benchmarks: Annotated[dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]], Field(min_length=1)]


class _RunEntry(BaseModel):
    """One run of HELM; its other keys, such as `priority`, select no benchmark."""

    model_config = ConfigDict(extra="ignore", strict=True)

    description: Annotated[str, Field(min_length=1)]


class RunEntriesShape(_Shape):
    """A file of HELM's run entries."""

    entries: Annotated[list[_RunEntry], Field(min_length=1)]
