"""Read a prompt from a YAML file: wording, examples, the mark of the answer and the limit of tokens.

All problems are reported at once, each with its line, those with the benchmark included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from medhelm.benchmarks.schema import SnakeCase, Text
from medhelm.domain import Benchmark
from medhelm.errors import ConfigError, Problem
from medhelm.extensions.variants.prompts.types import FewShot, PromptVariant, template_problems
from medhelm.io.strict_yaml import YamlDocument, load_yaml, validate

SUFFIXES = (".yaml", ".yml")
"""Suffixes of prompt files, which tell them from built-in names."""

MOST_EXAMPLES = 64
"""Maximum number of examples."""


class _Shape(BaseModel):
    """A strict mapping: no unknown keys, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FewShotShape(_Shape):
    """`few_shot`: number and origin of the examples."""

    n: Annotated[int, Field(ge=1, le=MOST_EXAMPLES)] = 5
    sample: SnakeCase | None = None
    file: Text | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    stratify: bool = False

    @model_validator(mode="after")
    def _one_origin(self) -> FewShotShape:
        if self.sample and self.file:
            raise ValueError("`sample` and `file` cannot be combined. Keep one of them.")
        return self


class PromptShape(_Shape):
    """The whole file."""

    name: SnakeCase
    description: str = ""
    system: Text | None = None
    prompt: Text | None = None
    few_shot: FewShotShape | None = None
    answer: Text | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None


def read_prompt_file(path: Path, benchmark: Benchmark) -> PromptVariant:
    """Read a prompt for a benchmark. Raises: ConfigError with all problems of the file."""
    document = load_yaml(path)
    try:
        shape = validate(document, PromptShape)
    except ConfigError as error:
        raise ConfigError(document.place, [*error.problems, *_name_problems(document, path)]) from None
    variant = _variant(shape, path)
    problems = _name_problems(document, path)
    if shape.system is None and shape.prompt is None and shape.few_shot is None and shape.answer is None:
        problems.append(Problem("changes nothing: give `system`, `prompt`, `few_shot` or `answer`."))
    if shape.answer and shape.prompt is None and shape.system is None:
        text = f"answer: no text asks for `{shape.answer}`. Ask for it in `prompt` or `system`."
        problems.append(Problem(text, document.line_of(("answer",))))
    if shape.few_shot and benchmark.conversation_column:
        text = f"few_shot: {benchmark.name} continues conversations, which have no examples. Remove it."
        problems.append(Problem(text, document.line_of(("few_shot",))))
    if variant.few_shot and variant.few_shot.file and not variant.few_shot.file.is_file():
        text = f"few_shot.file: {variant.few_shot.file} does not exist. Its path is relative to the prompt file."
        problems.append(Problem(text, document.line_of(("few_shot", "file"))))
    for key, snippet, text in template_problems(variant, benchmark):
        line = document.line_with((key,), snippet) if snippet else document.line_of((key,))
        problems.append(Problem(f"{key}: {text}", line))
    if problems:
        raise ConfigError(document.place, problems)
    return variant


def _variant(shape: PromptShape, path: Path) -> PromptVariant:
    """Convert the shape of a file."""
    few_shot = None
    if given := shape.few_shot:
        file = path.parent / given.file if given.file else None
        few_shot = FewShot(n=given.n, sample=given.sample or "", file=file, seed=given.seed, stratify=given.stratify)
    return PromptVariant(
        system=shape.system,
        prompt=shape.prompt,
        answer_after=(shape.answer or "").strip(),
        max_tokens=shape.max_tokens,
        few_shot=few_shot,
    )


def _name_problems(document: YamlDocument, path: Path) -> list[Problem]:
    """Require that the file has the name of its prompt, by which tables call its runs."""
    name = document.data.get("name") if isinstance(document.data, dict) else None
    if not isinstance(name, str) or name == path.stem:
        return []
    text = f"name: is `{name}`, but the file is `{path.name}`. Give both the same name."
    return [Problem(text, document.line_of(("name",)))]
